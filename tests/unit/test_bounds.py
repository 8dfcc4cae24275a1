"""The bounds of a program stand in its table, which says of each what it stops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest


SOURCE = Path(__file__).parents[2] / "src" / "fairlead"
TABLES = ("bounds.py", "limits.py", "options.py")
"""Modules with the bounds of a package, and with those that operators set."""
USE = re.compile(r"\b(?:bounds|limits)\.([A-Z_]+)\b")
NO_BOUNDS = {
    "binding": {
        "admission/names.py": "PORT",
        # The mode of a file.
        "commands/links.py": "_SERVERS_MODE",
        # Lengths of quotations, and numbers of Go's formats.
        "expressions/gotemplate/calling/verbs.py": "_LENGTH _MOST",
        "expressions/gotemplate/nodes.py": "_LONGEST",
        "expressions/gotemplate/reading/lexer.py": "_SHOWN",
        # Costs, in steps of a budget.
        "handlers/naming.py": "_STEPS_PER_NAME",
        "services/evaluations.py": "_CHARACTERS",
        "workloads/holdings.py": "_PATH",
        "workloads/projection.py": "_LOOKS",
        "workloads/workload.py": "_CONTAINER",
    },
    "client": {
        # Bytes of DER, and a status of HTTP.
        "authorities.py": "_SEQUENCE _UTF_16_STRING _VERSION",
        "exchange.py": "_SWITCHING",
    },
    "runtime": {},
    "konnector/controllers": {},
    "provider": {},
    "postgres": {
        # A quotation, a name of Kubernetes, a share of a life, and a port.
        "controllers/access/status.py": "_DIGEST_SHOWN",
        "controllers/large.py": "_NAME_LENGTH",
        "controllers/rules/desired.py": "_REMARKED_SHARE",
        "controllers/rules/resolution.py": "_DEFAULT_PORT",
        # Versions of libpq and of PostgreSQL, and the length of a digest.
        "database/connections/keys.py": "_LIBPQ _DIGEST_BYTES",
        "database/connections/session.py": "_PARAMETERS_VERSION",
        "database/connections/startup.py": "NEWEST",
        "database/plans/attributes.py": "GRANT_OPTIONS_VERSION",
        "database/plans/grants.py": "MAINTAIN_VERSION",
        "database/work/removal.py": "_GIVEN_VERSION",
        # Codes and sizes of PostgreSQL's protocol, of its names and of SCRAM.
        "database/connections/rounds.py": "_PROTOCOL _SASL _SASL_CONTINUE _NONCE_BYTES",
        "database/plans/names.py": "MAX_IDENTIFIER_BYTES",
        "database/plans/password.py": "MAX_PASSWORD_BYTES LENGTH ITERATIONS _SALT_BYTES",
        # OIDs.
        "database/reading/catalog.py": "_BOOTSTRAP_SUPERUSER",
        "database/reading/holdings.py": "PUBLIC",
        # Lengths of digests, and of a quotation.
        "database/plans/approvals.py": "_CHARACTERS _OF_ROLE",
        "database/plans/logins.py": "_DIGEST_CHARACTERS",
        "database/reading/verifiers.py": "_DIGEST_BYTES",
        "database/work/blockers.py": "_SHOWN",
    },
    "portal": {
        # Ports.
        "manifests.py": "PORT _METRICS_PORT",
        # Parameters of scrypt, of which a hash is made.
        "identity/embedded/passwords.py": "COST LEAST_COST _SIZE",
        # The length of a cookie's name.
        "identity/guard.py": "_HASH",
    },
}
"""Numbers in other modules that bound nothing: names by module, by package with a table."""


def is_number(node: ast.expr | None) -> bool:
    """Whether an expression is a number, or a sum or product of numbers."""
    match node:
        case ast.Constant(value=value):
            return type(value) in {int, float}
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
    return False


def numbers(source: str) -> Iterator[str]:
    """Yield the upper-case names that a module binds to a number."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=targets, value=value) if is_number(value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if is_number(value):
                names = [name]
            case _:
                continue
        yield from filter(str.isupper, names)


@pytest.mark.parametrize("package", NO_BOUNDS)
def test_numbers_of_modules_stand_in_the_table_of_their_program(package: str) -> None:
    """A bound goes into the table; what bounds nothing is listed above, with its kind."""
    root = SOURCE / package
    elsewhere = {
        path.relative_to(root).as_posix(): set(numbers(path.read_text()))
        for path in root.rglob("*.py")
        if path.name not in TABLES
    }
    listed = {module: set(names.split()) for module, names in NO_BOUNDS[package].items()}
    assert {module: names for module, names in elsewhere.items() if names} == listed


@pytest.mark.parametrize(
    "table",
    [
        "binding/bounds.py",
        "client/limits.py",
        "konnector/bounds.py",
        "portal/bounds.py",
        "postgres/bounds.py",
        "provider/bounds.py",
    ],
)
def test_a_table_says_what_each_bound_stops_and_each_is_used(table: str) -> None:
    """One line has name, value and effect."""
    text = (SOURCE / table).read_text()
    used = {name for path in SOURCE.rglob("*.py") for name in USE.findall(path.read_text())}
    for name in numbers(text):
        assert re.search(rf"^{name} = [^#\n]+  # .+$", text, re.MULTILINE), name
        assert name in used


def test_a_new_number_is_noticed() -> None:
    source = "A = 1\n_B: Final = 2 << 20\nC = -3.0\nd = 4\nE = 'e'\nF = True\nG = (5,)\n"
    assert list(numbers(source)) == ["A", "_B", "C"]
