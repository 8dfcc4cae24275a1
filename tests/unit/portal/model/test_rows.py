"""Rows of lists: filters by the query, order, pages."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.reasons.model import State
from fairlead.portal.console.objects.rows import (
    Counts,
    ListQuery,
    ObjectRow,
    ObjectsPage,
    order,
    page_of,
)
from fairlead.portal.console.pages.viewing import AskedPage


def asked(**query: str) -> AskedPage:
    return AskedPage("/bindings", (), tuple(sorted(query.items())))


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
    query = asked(page=number, q="w")
    page = page_of(rows, 1500, query, ListQuery.of(query))
    assert (len(page.rows), page.first, page.found, page.total) == (shown, first, 1001, 1500)
    assert page.last == first + shown - 1
    assert (page.previous is None) == (first == 1)
    assert (page.following is None) == (first == 1001)
    if page.following is not None:
        assert page.following["q"] == "w"
        assert int(page.following["page"]) * 200 == first - 1 + 400
    if page.previous is not None and first == 201:
        assert page.previous["page"] == ""


def test_no_rows_are_one_empty_page() -> None:
    page: ObjectsPage[ObjectRow] = page_of([], 0, asked(), ListQuery.of(asked()))
    assert (page.rows, page.found, page.previous, page.following) == ((), 0, None, None)


def test_rows_fit_by_state_and_by_every_word() -> None:
    one = row("database", "failed", about="NotReady: <b>slow</b>", where="shop")
    assert ListQuery.of(asked()).fits(one)
    assert ListQuery.of(asked(q="SHOP slow", state="failed")).fits(one)
    assert not ListQuery.of(asked(q="shop quick")).fits(one)
    assert not ListQuery.of(asked(state="ok")).fits(one)
    assert ListQuery.of(asked(state="ok")).narrowed
    assert not ListQuery.of(asked(sort="name")).narrowed


def test_an_order_that_is_not_known_is_the_default() -> None:
    keys = {"name": lambda one: (one.name,), "back": lambda one: (-ord(one.name),)}
    rows = [row("b"), row("a")]
    assert [one.name for one in order(rows, "odd", keys, "name")] == ["a", "b"]
    assert [one.name for one in order(rows, "back", keys, "name")] == ["b", "a"]


def test_counts_are_told_worst_first() -> None:
    counts = Counts.of(["ok", "failed", "ok", "waiting"])
    assert counts.total == 4
    assert Counts.of({"ok": 2, "failed": 1, "waiting": 1}) == counts
    assert counts.by_state() == [("failed", 1), ("waiting", 1), ("ok", 2)]
