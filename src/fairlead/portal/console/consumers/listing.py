"""The list of all consumers, filtered, sorted and paged by its query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fairlead.api.timestamps import parse_time
from fairlead.portal.console.consumers.access import Access
from fairlead.portal.console.consumers.directory import TOPIC, Directory, KnownConsumer
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.states import OF_CONSUMERS
from fairlead.provider.identity import GROUP_AUTHOR


PAGE = 200
"""Largest number of consumers on a page."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

SignedIn = Callable[[str], Awaitable[float | None]]
"""Function that returns an author's last sign-in, in seconds since 1970, or None."""


class ListedConsumer(NamedTuple):
    """A consumer's line in the list."""

    known: KnownConsumer
    signed_in: datetime | None


class ListingColumn(NamedTuple):
    """A sortable column: its title, its present order, and the query that sorts by it."""

    name: str
    title: str
    sorted: str
    query: Mapping[str, str]


async def last_sign_in(signed_in: SignedIn, author: str) -> datetime | None:
    """Return when an author last signed in; None if unknown."""
    # A group does not sign in.
    if not author or author.startswith(GROUP_AUTHOR):
        return None
    try:
        found = await signed_in(author)
    except Refusal:
        # The session store is unavailable; the list is shown without it.
        return None
    return datetime.fromtimestamp(found, UTC) if found is not None else None


class ConsumerList(View):
    """The page of all consumers, filtered by ?q= and ?state=."""

    route = "/consumers"
    template = "consumers.html"

    def __init__(self, directory: Directory, access: Access, signed_in: SignedIn) -> None:
        self._directory = directory
        self._access = access
        self._signed_in = signed_in

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Check that the person is an administrator; all of them see the same.

        Raises:
            MissingError: the person is no administrator.
        """
        await self._access.check(session, "list of consumers")
        return None

    def topics(self, scope: Any) -> Topics:
        """Return the topic of all consumers."""
        return (TOPIC,)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return one page's consumers, their total, and the other pages' queries."""
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
            "lines": [ListedConsumer(one, by_author[one.author]) for one in shown],
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


def chosen(known: Sequence[KnownConsumer], wanted: str, state: str) -> list[KnownConsumer]:
    """Return the consumers with a state and with all words; "" matches all."""
    words = wanted.lower().split()
    return [
        one
        for one in known
        if (not state or one.standing.state == state)
        and (not words or all(word in _text(one) for word in words))
    ]


def _text(known: KnownConsumer) -> str:
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

_KEYS: Final[Mapping[str, Callable[[KnownConsumer], Any]]] = {
    "name": lambda one: (one.row.title.lower(), one.row.namespace),
    "state": lambda one: OF_CONSUMERS.index(one.standing.state),
    "heartbeat": lambda one: _beat(one.row.last_heartbeat_time),
    "exports": lambda one: -len(one.row.exports),
    "objects": lambda one: -one.row.objects,
}
"""Sort keys of the columns: the worst states and the largest numbers come first."""


def _sorted(found: Sequence[KnownConsumer], asked: str) -> tuple[list[KnownConsumer], str]:
    name = asked.removeprefix("-")
    if name not in _KEYS:
        name, asked = "name", "name"
    return sorted(found, key=_KEYS[name], reverse=asked.startswith("-")), asked


def _beat(told: str) -> datetime:
    try:
        return parse_time(told) if told else _NEVER
    except (ValueError, OverflowError):
        return _NEVER


def _column(name: str, title: str, order: str, query: Mapping[str, str]) -> ListingColumn:
    turned = f"-{name}" if order == name else name
    said = {name: "ascending", f"-{name}": "descending"}.get(order, "")
    return ListingColumn(name, title, said, {**query, "sort": turned})


def _page(asked: str) -> int:
    # isascii: isdigit also accepts digits of other scripts, which int would parse.
    return max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 1
