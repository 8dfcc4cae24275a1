"""Every reason that an access may give has its row in docs/reasons.md, and its step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sources import parsed

import fairlead.postgres
from fairlead.api.reasons.postgres import step_of
from fairlead.postgres.database.connections import failures


SOURCES = Path(fairlead.postgres.__file__).parent
RUNBOOK = (SOURCES.parents[2] / "docs" / "reasons.md").read_text(encoding="utf-8")
ERRORS = {"AccessError", "refusal", "invalid"}
ELSEWHERE = {
    "NotFound": "a command found no such object",
    "SecretForbidden": "a command may not read a Secret",
    "Unseen": "a command met an object that the operator has not looked at",
}
AT_GRANTS = {
    "Conflict",
    "DatabaseNotFound",
    "GroupConflict",
    "InsufficientPrivilege",
    "Locked",
    "ObjectNotFound",
    "RoleNotFound",
    "SchemaNotFound",
    "StatementFailed",
    "TimedOut",
    "TooManyGrantees",
    "Unapproved",
    "Unfinished",
    "UnsupportedPrivilege",
}


def called(path: Path) -> Iterator[str]:
    """The reasons of errors that a module makes."""
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        first = node.args[0] if node.args else None
        if node.func.id in ERRORS and isinstance(first, ast.Constant):
            yield str(first.value)


def reasons() -> list[str]:
    found = {reason for path in SOURCES.rglob("*.py") for reason in called(path)}
    found |= {reason for reason, _ in failures._STATES.values()}
    found |= {reason for reason, _ in failures._SENTENCES.values()}
    return sorted(found - ELSEWHERE.keys())


def test_there_are_reasons() -> None:
    assert {"UsernameConflict", "SchemaNotFound", "RoleIsFull", "DiskFull"} <= set(reasons())


@pytest.mark.parametrize("reason", reasons())
def test_a_reason_has_its_row_and_its_step(reason: str) -> None:
    table = RUNBOOK.partition("\n## PostgresAccess\n")[2].partition("\n## ")[0]
    assert f"`{reason}`" in table
    assert (step_of(reason) == "grants") is (reason in AT_GRANTS)
