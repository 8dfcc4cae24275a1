"""What bindings say of objects that are in conflict."""

from __future__ import annotations

import pytest

from fairlead.konnector.policies.steps import FOREIGN_OBJECT, NAME_TOO_LONG, OWNER_UNKNOWN
from fairlead.konnector.reports import Conflicts


def found(*reports: tuple[str, str, str]) -> Conflicts:
    conflicts = Conflicts()
    for source, name, reason in reports:
        conflicts.report("db", source, name, reason)
    return conflicts


@pytest.mark.parametrize(
    ("reports", "reason", "message"),
    [
        pytest.param(
            [("s", "Thing a/b", FOREIGN_OBJECT)],
            FOREIGN_OBJECT,
            "1 object is not synchronised: Thing a/b (ForeignObjectExists)",
            id="one",
        ),
        pytest.param(
            [(s, f"Thing {n}", OWNER_UNKNOWN) for s, n in zip("sstt", "badc", strict=True)],
            OWNER_UNKNOWN,
            "4 objects are not synchronised: Thing a (OwnerUnknown), Thing b (OwnerUnknown), "
            "Thing c (OwnerUnknown), and 1 more",
            id="many-of-two-sources",
        ),
        pytest.param(
            [("s", "a", FOREIGN_OBJECT), ("s", "b", NAME_TOO_LONG), ("s", "c", NAME_TOO_LONG)],
            NAME_TOO_LONG,
            "3 objects are not synchronised: a (ForeignObjectExists), b (NameTooLong)",
            id="the-most-frequent-reason",
        ),
    ],
)
def test_a_condition_counts_and_names(
    reports: list[tuple[str, str, str]], reason: str, message: str
) -> None:
    condition = found(*reports).condition("db")
    assert condition is not None
    assert (condition.type, condition.status) == ("Conflicts", "True")
    assert condition.reason == reason
    assert condition.message.startswith(message)


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([], id="none"),
        pytest.param([("s", "a", FOREIGN_OBJECT), ("s", "a", "")], id="over"),
        pytest.param([("s", "a", "ClusterToken")], id="another-reason"),
    ],
)
def test_without_conflicts_there_is_no_condition(reports: list[tuple[str, str, str]]) -> None:
    assert found(*reports).condition("db") is None


def test_what_one_source_takes_back_another_still_says() -> None:
    conflicts = found(("s", "a", FOREIGN_OBJECT), ("t", "a", FOREIGN_OBJECT))
    conflicts.clear("db", "s")
    assert (conflicts.count("db", "s"), conflicts.count("db", "t")) == (0, 1)
    assert conflicts.condition("db") is not None
    assert conflicts.condition("other") is None
