"""The list of all consumers, filtered, sorted and paged by its URL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fairlead.api.timestamps import parse_time
from fairlead.portal.console.consumers.access import Access, check
from fairlead.portal.console.consumers.directory import TOPIC, Directory, Known
from fairlead.portal.console.states import OF_CONSUMERS
from fairlead.portal.console.viewing import Asked, Topics, View
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import Session
from fairlead.provider.identity import GROUP_AUTHOR


PAGE = 200
"""Consumers on a page."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

SignedIn = Callable[[str], Awaitable[float | None]]
"""Tells when an author last signed in, in seconds since 1970, as far as that is known."""


class Line(NamedTuple):
    """A consumer as the list shows it."""

    known: Known
    signed_in: datetime | None


class Column(NamedTuple):
    """A column by which the list can be sorted, and whether it is so, and the query for that."""

    name: str
    title: str
    sorted: str
    query: Mapping[str, str]


async def last_sign_in(signed_in: SignedIn, author: str) -> datetime | None:
    """When the person of an author name last signed in; None where that is not known."""
    if not author or author.startswith(GROUP_AUTHOR):
        return None
    try:
        found = await signed_in(author)
    except Refusal:
        # Sessions are elsewhere, which is away.
        return None
    return datetime.fromtimestamp(found, UTC) if found is not None else None


class ConsumerList(View):
    """All consumers, or those that fit ?q= and ?state=."""

    route = "/consumers"
    template = "consumers.html"

    def __init__(self, directory: Directory, access: Access, signed_in: SignedIn) -> None:
        self._directory = directory
        self._access = access
        self._signed_in = signed_in

    async def scope(self, session: Session, asked: Asked) -> Hashable:
        """Nothing more: all administrators see the same.

        Raises:
            MissingError: the person is none.
        """
        await check(self._access, session, "list of consumers")
        return None

    def topics(self, scope: Any) -> Topics:
        """Any consumer."""
        return (TOPIC,)

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """The consumers of one page, how many there are, and the ways to others."""
        known = self._directory.all()
        found = chosen(known, asked.get("q"), asked.get("state"))
        ordered, order = _sorted(found, asked.get("sort"))
        pages = max(1, -(-len(ordered) // PAGE))
        page = min(_page(asked.get("page")), pages)
        shown = ordered[(page - 1) * PAGE : page * PAGE]
        authors = list({one.author for one in shown})
        times = await asyncio.gather(*(last_sign_in(self._signed_in, one) for one in authors))
        by_author = dict(zip(authors, times, strict=True))
        query = {"q": asked.get("q"), "state": asked.get("state"), "sort": asked.get("sort")}
        return {
            "lines": [Line(one, by_author[one.author]) for one in shown],
            "total": len(known),
            "fitting": len(ordered),
            "first": (page - 1) * PAGE + 1,
            "page": page,
            "pages": pages,
            "query": query,
            "columns": [_column(*one, order, query) for one in _COLUMNS],
            "wanted": query["q"],
            "state": query["state"],
            "states": [*OF_CONSUMERS],
            "not_counted": dict(
                sorted(pair for one in known for pair in one.row.not_counted.items())
            ),
        }


def chosen(known: Sequence[Known], wanted: str, state: str) -> list[Known]:
    """The consumers that stand so, and have every word somewhere; "" wants nothing."""
    words = wanted.lower().split()
    return [
        one
        for one in known
        if (not state or one.standing.state == state)
        and (not words or all(word in _text(one) for word in words))
    ]


def _text(known: Known) -> str:
    row = known.row
    told = [row.identity, row.pretty_name, row.namespace, known.author, row.konnector_version]
    return " ".join([*told, *row.exports, *(row.templates or ()), known.standing.word]).lower()


_COLUMNS: Final = (
    ("name", "Consumer"),
    ("state", "State"),
    ("heartbeat", "Last heartbeat"),
    ("exports", "Exports"),
    ("objects", "Objects"),
)

_KEYS: Final[Mapping[str, Callable[[Known], Any]]] = {
    "name": lambda one: (one.row.title.lower(), one.row.namespace),
    "state": lambda one: OF_CONSUMERS.index(one.standing.state),
    "heartbeat": lambda one: _beat(one.row.last_heartbeat_time),
    "exports": lambda one: -len(one.row.exports),
    "objects": lambda one: -one.row.objects,
}
"""What the list is sorted by: what wants looking at, or is most, comes first."""


def _sorted(found: Sequence[Known], asked: str) -> tuple[list[Known], str]:
    name = asked.removeprefix("-")
    if name not in _KEYS:
        name, asked = "name", "name"
    return sorted(found, key=_KEYS[name], reverse=asked.startswith("-")), asked


def _beat(told: str) -> datetime:
    try:
        return parse_time(told) if told else _NEVER
    except (ValueError, OverflowError):
        return _NEVER


def _column(name: str, title: str, order: str, query: Mapping[str, str]) -> Column:
    turned = f"-{name}" if order == name else name
    said = {name: "ascending", f"-{name}": "descending"}.get(order, "")
    return Column(name, title, said, {**query, "sort": turned})


def _page(asked: str) -> int:
    # Text of digits of other scripts is no number of a page, nor is one without an end.
    return max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 1
