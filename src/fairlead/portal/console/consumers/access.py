"""The right to see pages about all consumers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.client import ClientError
from fairlead.portal.console.pages.viewing import MissingError
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import BrowserSession, Person


class Access:
    """Admits administrators to pages about consumers.

    Args:
        administers: whether a person may list ClusterBindings in all namespaces; raises Refusal
            for a name of Kubernetes' own, and ClientError where the API server refused or is
            unavailable.
    """

    def __init__(self, administers: Callable[[Person], Awaitable[bool]]) -> None:
        self._administers = administers

    async def check(self, session: BrowserSession, what: str) -> None:
        """Refuse people who are not administrators.

        Raises:
            MissingError: the person is none; the error says that ``what`` does not exist.
            Refusal: the person's name is Kubernetes' own.
            ClientError: the API server refused or is unavailable.
        """
        if not await self._administers(session.person):
            raise MissingError(
                f"There is no {what} for you",
                "Pages about consumers are for those who may list clusterbindings.kube-bind.io in"
                " all namespaces: ask the provider's administrators for ClusterRole"
                " fairlead-console-admin.",
            )

    async def is_shown(self, session: BrowserSession) -> bool:
        """Whether the navigation shows the pages; False if the API server fails."""
        try:
            return await self._administers(session.person)
        except (ClientError, Refusal):
            return False
