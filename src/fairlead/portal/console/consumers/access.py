"""The right to see pages about all consumers."""

from __future__ import annotations

from typing import Protocol

from fairlead.api.kubebind import BINDER_NAME, CLUSTERBINDINGS
from fairlead.client import ClientError
from fairlead.portal.console.pages.viewing import MissingError
from fairlead.portal.handshake.reviews import AccessReviews, ReviewedAction
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import BrowserSession


ADMINISTERS = ReviewedAction.on(CLUSTERBINDINGS, "list")
"""The right that makes an administrator: to list ClusterBindings in all namespaces."""


class Access(Protocol):
    """Checks who administers consumers, and what a consumer's login may do."""

    async def administers(self, session: BrowserSession) -> bool:
        """Whether the session's person may see all consumers.

        Raises:
            Refusal: the person's name begins with ``system:``.
            ClientError: the API server refused or is unavailable.
        """
        ...

    async def login_may(self, namespace: str, action: ReviewedAction) -> bool:
        """Whether a consumer's ServiceAccount may do the action; ``namespace`` is the consumer's.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        ...


class ByReviews:
    """Checks the rights of the session's person, by SubjectAccessReviews."""

    def __init__(self, reviews: AccessReviews) -> None:
        self._reviews = reviews

    async def administers(self, session: BrowserSession) -> bool:
        """See :class:`Access`.

        Raises:
            Refusal: the person's name is Kubernetes' own.
            ClientError: the API server refused or is unavailable.
        """
        return await self._reviews.allows(session.person, ADMINISTERS)

    async def login_may(self, namespace: str, action: ReviewedAction) -> bool:
        """See :class:`Access`.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        return await self._reviews.allows_account(namespace, BINDER_NAME, action)


async def check(access: Access, session: BrowserSession, what: str) -> None:
    """Refuse people who are not administrators.

    Raises:
        MissingError: the person is no administrator; the error says that ``what`` does not exist.
        Refusal: the person's name is Kubernetes' own.
        ClientError: the API server refused or is unavailable.
    """
    if not await access.administers(session):
        raise MissingError(
            f"There is no {what} for you",
            "Pages about consumers are for those who may list clusterbindings.kube-bind.io in all"
            " namespaces: ask the provider's administrators for ClusterRole"
            " fairlead-console-admin.",
        )


async def is_shown(access: Access, session: BrowserSession) -> bool:
    """Whether the navigation shows the pages to the person; False if the API server fails."""
    try:
        return await access.administers(session)
    except (ClientError, Refusal):
        return False
