"""Each reason that a program of ours gives stands in its system's table, and no other does."""

from __future__ import annotations

import re

import pytest
from tests.unit.api.reasons_in_code import Code

from fairlead.api.reasons.conditions import TABLES, TYPES
from fairlead.api.reasons.kbind import KBIND
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import Reason, Reasons
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.servicebinding import SERVICE_BINDING
from fairlead.api.servicebinding import common


UNSEEN = {"NotFound"}
"""Reasons of errors that are told on standard error alone."""


@pytest.fixture(scope="module")
def code() -> Code:
    """The packages that give reasons, read when a test first asks for them."""
    return Code("api", "runtime", "konnector", "provider", "postgres", "binding", "explain")


@pytest.mark.parametrize(
    ("package", "tables", "fewest"),
    [
        ("postgres", (POSTGRES,), 40),
        ("konnector", (KUBE_BIND, KBIND), 40),
        ("provider", (KUBE_BIND,), 30),
        ("binding", (SERVICE_BINDING,), 20),
    ],
    ids=["postgres", "konnector", "provider", "binding"],
)
def test_each_reason_that_is_given_stands_in_the_table(
    code: Code, package: str, tables: tuple[Reasons, ...], fewest: int
) -> None:
    found = code.reasons(package)
    assert len(found) >= fewest
    assert {
        name: where
        for name, where in found.items()
        if name not in UNSEEN and not any(name in table for table in tables)
    } == {}


@pytest.mark.parametrize("table", TABLES, ids=lambda one: one.title)
def test_no_reason_stands_in_a_table_that_nothing_gives(code: Code, table: Reasons) -> None:
    packages = ("api", "runtime", "konnector", "provider", "postgres", "binding", "explain")
    given = {name for package in packages for name in code.reasons(package)}
    # Some come from maps, such as that of SQLSTATEs: there the text alone tells that they are.
    mapped = code.texts() - TYPES.keys()
    assert {one.name for one in table} - given - mapped == set()


@pytest.mark.parametrize("package", ["konnector", "provider", "postgres", "binding"])
def test_of_each_type_of_conditions_it_is_known_when_it_is_bad(code: Code, package: str) -> None:
    found = code.condition_types(package)
    assert found
    assert {type_: where for type_, where in found.items() if type_ not in TYPES} == {}


def test_each_reason_of_both_apis_stands_in_the_table() -> None:
    types = {
        common.COLLECTION_READY,
        common.INJECTION_READY,
        common.READY,
        common.ROLLOUT_FAILING,
        common.SERVICE_AVAILABLE,
    }
    words = {
        text
        for name, text in vars(common).items()
        if name.isupper() and isinstance(text, str) and re.fullmatch("[A-Z][A-Za-z]+", text)
    }
    assert words - types
    assert {one for one in words - types if one not in SERVICE_BINDING} == set()


@pytest.mark.parametrize("table", TABLES, ids=lambda one: one.title)
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


def test_a_fight_has_one_remedy_in_both_systems() -> None:
    """A verdict takes the remedy from the first table that has the reason."""
    assert SERVICE_BINDING.helps("WriteUndone") == KUBE_BIND.helps("WriteUndone")
