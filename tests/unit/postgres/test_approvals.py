"""Parts of plans: which statements share a hash, and what stands for them in a plan."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fairlead.postgres.database.plans.approvals import (
    Approval,
    digest_of,
    part_of,
    window_ends,
    window_parts,
)
from fairlead.postgres.database.plans.differences import (
    Actor,
    ComparedObject,
    ComparedObjects,
    Difference,
    PrivilegeChange,
    plan_privileges,
)
from fairlead.postgres.database.plans.plan import ShownPlan, summarized


END = (1259, 16385, 0)
CHANGE = PrivilegeChange(
    action="revoke",
    level="table",
    privileges=("SELECT",),
    items=(ComparedObject("s", "a"), ComparedObject("s", "b")),
    usernames=("app",),
)
GRANT = replace(CHANGE, action="grant")
ACTED = replace(CHANGE, items=(ComparedObject("s", "c"),), actor=Actor(7, "owner"))


def parts(*changes: PrivilegeChange, database: str = "d", username: str = "app") -> frozenset[str]:
    return frozenset(window_parts(database, username, END, changes))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(parts(CHANGE), True, id="the-same"),
        pytest.param(parts(replace(CHANGE, items=CHANGE.items[:1])), False, id="fewer-objects"),
        pytest.param(parts(replace(CHANGE, privileges=("INSERT",))), False, id="other-privilege"),
        pytest.param(parts(CHANGE, GRANT), False, id="one-more-statement"),
        pytest.param(parts(CHANGE, database="e"), False, id="another-database"),
        pytest.param(parts(CHANGE, username="other"), False, id="another-role"),
        pytest.param(
            parts(replace(CHANGE, actor=Actor(7, "owner"))), False, id="by-the-rights-of-another"
        ),
        pytest.param(frozenset(window_parts("d", "app", (1259, 2, 0), [CHANGE])), False, id="end"),
    ],
)
def test_a_part_is_all_statements_of_a_window(other: frozenset[str], same: bool) -> None:
    assert (parts(CHANGE) == other) is same


def test_a_part_is_the_same_in_whichever_order_the_catalogs_are_read() -> None:
    """Statements about columns of several tables have no order of their own."""
    differences = [
        Difference(
            action="revoke",
            objects=ComparedObjects(
                level="column", items=(ComparedObject("s", "id"),), owner="owner", table=table
            ),
            privilege="SELECT",
        )
        for table in ("a", "b")
    ]
    first, second = (plan_privileges({"app": order}) for order in (differences, differences[::-1]))
    assert len(first) == 2
    assert parts(*first) == parts(*second)


def test_what_goes_by_other_rights_is_a_part_of_its_own() -> None:
    """It is another transaction, after which an operator may die."""
    both = parts(CHANGE, ACTED)
    assert len(both) == 2
    assert parts(CHANGE) < both
    assert parts(ACTED) < both


def test_the_parts_know_the_ends_of_their_windows() -> None:
    later = (2615, 1, 0)
    known = [
        part_of("d", "GRANT"),
        *window_parts("d", "app", later, [CHANGE, ACTED]),
        *window_parts("d", "app", END, [CHANGE]),
        *window_parts("d", "group", (1, 1, 1), [CHANGE]),
    ]
    assert window_ends(known, "d", "app") == (END, later)
    assert window_ends(known, "e", "app") == ()
    assert Approval(parts=frozenset(known)).has_windows
    assert not Approval(parts=frozenset(known[:1])).has_windows


def test_one_text_of_each_kind_stands_for_windows() -> None:
    found = window_parts("d", "app", END, [CHANGE, GRANT])
    found |= window_parts("d", "app", (1259, 16386, 0), [replace(CHANGE, items=CHANGE.items[:1])])
    shown = ShownPlan(statements=tuple(summarized("d", found)))
    assert [one.text for one in shown.statements] == [
        'GRANT SELECT ON 2 tables TO "app"',
        'REVOKE SELECT ON 3 tables FROM "app"',
    ]
    assert shown.parts == found.keys()


def test_a_digest_is_of_parts_in_any_order_and_of_their_place() -> None:
    known = digest_of(["a", "b"], "here", "")
    assert digest_of(["b", "a", "a"], "here", "") == known
    others = {digest_of(["a"], "here", ""), digest_of(["a", "b"], "there", "")}
    others |= {digest_of(["a", "b"], "here", "d1"), digest_of(["a", "b", "c"], "here", "")}
    assert len(others | {known}) == 5
