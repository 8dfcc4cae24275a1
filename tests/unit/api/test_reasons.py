"""Each reason that a program of ours gives stands in its system's table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import Reason, Reasons
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.servicebinding import SERVICE_BINDING
from fairlead.api.servicebinding import common


ROOT = Path(fairlead.__file__).parent
GIVES = {
    "AccessError": 0,
    "Condition": 2,
    "ExplainedStep": None,
    "NotExportableError": 0,
    "Origin": None,
    "Outcome": None,
    "Refuse": 0,
    "_info": 0,
    "_waiting": 0,
    "false": 1,
}
"""What takes a reason, and at which place, besides by name."""
UNSEEN = {"NotFound"}
"""Reasons of errors that are told on standard error alone."""


def given(package: str) -> Iterator[tuple[str, str]]:
    """Reasons that stand as text in the code of a package, each with where."""
    for path in sorted((ROOT / package).rglob("*.py")):
        constants: dict[str, str] = {}
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                    constants[name] = text
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
                    constants[name] = text
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name not in GIVES:
                continue
            place = GIVES[name]
            found = [word.value for word in node.keywords if word.arg == "reason"]
            found += [node.args[place]] if place is not None and len(node.args) > place else []
            for value in found:
                match value:
                    case ast.Constant(value=str(text)) if text:
                        yield text, f"{path.name}:{node.lineno}"
                    case ast.Name(id=word) if constants.get(word):
                        yield constants[word], f"{path.name}:{node.lineno}"


@pytest.mark.parametrize(
    ("package", "table", "fewest"),
    [
        ("postgres", POSTGRES, 20),
        ("konnector", KUBE_BIND, 20),
        ("provider", KUBE_BIND, 10),
    ],
    ids=["postgres", "konnector", "provider"],
)
def test_each_reason_that_is_given_stands_in_the_table(
    package: str, table: Reasons, fewest: int
) -> None:
    found = dict(given(package))
    assert len(found) >= fewest
    assert {
        name: where for name, where in found.items() if name not in table and name not in UNSEEN
    } == {}


def test_each_reason_of_both_apis_stands_in_the_table() -> None:
    types = {
        common.COLLECTION_READY,
        common.INJECTION_READY,
        common.READY,
        common.SERVICE_AVAILABLE,
    }
    words = {
        text
        for name, text in vars(common).items()
        if name.isupper() and isinstance(text, str) and re.fullmatch("[A-Z][A-Za-z]+", text)
    }
    assert words - types
    assert {one for one in words - types if one not in SERVICE_BINDING} == set()


@pytest.mark.parametrize(
    "table", [KUBE_BIND, POSTGRES, SERVICE_BINDING], ids=lambda one: one.title
)
def test_each_reason_says_what_helps(table: Reasons) -> None:
    for one in table:
        assert one.what
        assert one.helps or one.state == "ok", one.name
        assert not one.helps.endswith("."), one.name


def test_an_unknown_reason_is_a_failure_whose_message_helps() -> None:
    assert POSTGRES.state("Odd") == "failed"
    assert POSTGRES.helps("Odd") == "correct what the message names"
    assert POSTGRES.helps("Ready", "nothing") == "nothing"


def test_a_reason_stands_once() -> None:
    with pytest.raises(ValueError, match="Twice"):
        Reasons("odd", [Reason("Twice", "x"), Reason("Twice", "y")])
