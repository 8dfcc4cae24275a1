"""Rows of lists: filters by the query, order, pages."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.reasons.model import State
from fairlead.portal.model.lists import (
    Counts,
    ListPage,
    ListQuery,
    ObjectRow,
    order,
    page_of,
)


def query(**parameters: str) -> ListQuery:
    return ListQuery.of(lambda name, most: parameters.get(name, "")[:most])


def row(name: str, state: State = "ok", **more: str) -> ObjectRow:
    plain = ObjectRow(
        kind="Widget", resource="widgets.example.org", namespace="ns", name=name, state=state
    )
    return msgspec.structs.replace(plain, **more)


@pytest.mark.parametrize(
    ("number", "shown", "first"),
    [("", 200, 1), ("2", 200, 201), ("6", 1, 1001), ("7", 1, 1001), ("-1", 200, 1), ("x", 200, 1)],
)
def test_a_page_has_200_rows_and_tells_of_all(number: str, shown: int, first: int) -> None:
    rows = [row(f"w{one:04}") for one in range(1001)]
    page = page_of(rows, 1500, query(page=number, q="w"))
    assert (len(page.rows), page.first, page.matches, page.total) == (shown, first, 1001, 1500)
    assert page.last == first + shown - 1
    assert (page.previous is None) == (first == 1)
    assert (page.following is None) == (first == 1001)
    if page.following is not None:
        assert page.following["q"] == "w"
        assert int(page.following["page"]) * 200 == first - 1 + 400
    if page.previous is not None and first == 201:
        assert page.previous["page"] == ""


def test_no_rows_are_one_empty_page() -> None:
    page: ListPage[ObjectRow] = page_of([], 0, query())
    assert (page.rows, page.matches, page.previous, page.following) == ((), 0, None, None)


def test_rows_fit_by_state_and_by_every_word() -> None:
    one = row("database", "failed", about="NotReady: <b>slow</b>", where="shop")
    assert query().selects(one)
    assert query(q="SHOP slow", state="failed").selects(one)
    assert not query(q="shop quick").selects(one)
    assert not query(state="ok").selects(one)
    assert query(state="problem").selects(one)
    assert not query(state="problem").selects(row("well"))
    assert query(state="ok").narrowed
    assert not query(sort="name").narrowed


def test_an_order_that_is_not_known_is_the_default() -> None:
    keys = {"name": lambda one: (one.name,), "back": lambda one: (-ord(one.name),)}
    rows = [row("b"), row("a")]
    assert [one.name for one in order(rows, "odd", keys, "name")] == ["a", "b"]
    assert [one.name for one in order(rows, "back", keys, "name")] == ["b", "a"]
    assert [one.name for one in order(rows, "-name", keys, "name")] == ["b", "a"]


def test_counts_are_told_worst_first() -> None:
    counts = Counts.of(["ok", "failed", "ok", "waiting"])
    assert counts.total == 4
    assert Counts.of({"ok": 2, "failed": 1, "waiting": 1}) == counts
    assert counts.by_state() == [("failed", 1), ("waiting", 1), ("ok", 2)]
