"""The list of all consumers, filtered, sorted and paged by its query."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fairlead.api.timestamps import parse_time
from fairlead.portal.console.consumers.access import Access
from fairlead.portal.console.consumers.directory import Directory, KnownConsumer
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import ListQuery, order, page_of
from fairlead.portal.model.states import OF_CONSUMERS
from fairlead.provider.identity import GROUP_AUTHOR


_NEVER: Final = datetime.min.replace(tzinfo=UTC)

SignedIn = Callable[[str], Awaitable[float | None]]
"""Function that returns an author's last sign-in, in seconds since 1970, or None."""


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
        """Return all consumers, and "" for new ones."""
        return ("", *self._directory.names())

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return one page's consumers."""
        every = self._directory.all()
        query = ListQuery.of(asked.get)
        matches = [consumer for consumer in every if query.selects(consumer)]
        page = page_of(order(matches, query.sort, _KEYS, "name"), len(every), query)
        authors = list({consumer.author for consumer in page.rows})
        times = await asyncio.gather(*(last_sign_in(self._signed_in, one) for one in authors))
        return {
            "page": page,
            "signed_in": dict(zip(authors, times, strict=True)),
            "names": Counter(known.row.pretty_name or known.row.identity for known in every),
            "wanted": query,
            "states": OF_CONSUMERS,
            "problems": sorted({one for known in every for one in known.row.not_counted.values()}),
        }


_KEYS: Final[Mapping[str, Callable[[KnownConsumer], Any]]] = {
    "name": lambda one: (one.row.title.lower(), one.row.namespace),
    "state": lambda one: OF_CONSUMERS.index(one.state),
    "heartbeat": lambda one: _beat(one.row.last_heartbeat_time),
    "exports": lambda one: -len(one.row.exports),
    "objects": lambda one: -one.row.objects,
}
"""Keys by which consumers are sorted: the worst states and the largest numbers come first."""


def _beat(told: str) -> datetime:
    try:
        return parse_time(told) if told else _NEVER
    except (ValueError, OverflowError):
        return _NEVER
