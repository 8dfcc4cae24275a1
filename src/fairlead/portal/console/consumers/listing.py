"""The list of all consumers, filtered, sorted and paged by its query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from fairlead.portal.console.consumers.access import Access
from fairlead.portal.console.consumers.directory import Directory, KnownConsumer
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import ListQuery, order, page_of
from fairlead.portal.model.states import RANKS, STATES


class ConsumerList(View):
    """The page of all consumers, filtered by ?q= and ?state=."""

    route = "/consumers"
    template = "consumers.html"

    def __init__(self, directory: Directory, access: Access) -> None:
        self._directory = directory
        self._access = access

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
        return {
            "page": page,
            "names": Counter(known.row.pretty_name or known.row.identity for known in every),
            "wanted": query,
            "states": STATES,
            "problems": sorted({one for known in every for one in known.row.not_counted.values()}),
        }


_KEYS: Final[Mapping[str, Callable[[KnownConsumer], Any]]] = {
    "name": lambda one: (one.row.title.lower(), one.row.namespace),
    "state": lambda one: RANKS[one.state],
    "heartbeat": lambda one: one.row.last_heartbeat_time,
    "exports": lambda one: -len(one.row.exports),
    "objects": lambda one: -one.row.objects,
}
"""Keys by which consumers are sorted: the worst states and the largest numbers come first."""
