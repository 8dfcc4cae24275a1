"""Who the administrators are whom pages about consumers are for."""

from __future__ import annotations

from typing import Protocol

from fairlead.api.kubebind import BINDER_NAME, CLUSTERBINDINGS
from fairlead.client import ClientError
from fairlead.portal.console.viewing import MissingError
from fairlead.portal.handshake.reviews import Action, Reviews
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import Session


ADMINISTERS = Action.on(CLUSTERBINDINGS, "list")
"""What an administrator of consumers may do: list ClusterBindings in all namespaces."""


class Access(Protocol):
    """Tells who may do what."""

    async def administers(self, session: Session) -> bool:
        """Whether the person of a session may see all consumers.

        Raises:
            Refusal: the person's name is Kubernetes' own.
            ClientError: it cannot be asked.
        """
        ...

    async def login_may(self, namespace: str, action: Action) -> bool:
        """Whether the login of a consumer, by its cluster namespace, may do something.

        Raises:
            ClientError: it cannot be asked.
        """
        ...


class ByReviews:
    """Asks the API server of people by their names."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def administers(self, session: Session) -> bool:
        """See :class:`Access`.

        Raises:
            Refusal: the person's name is Kubernetes' own.
            ClientError: it cannot be asked.
        """
        return await self._reviews.allows(session.person, ADMINISTERS)

    async def login_may(self, namespace: str, action: Action) -> bool:
        """See :class:`Access`.

        Raises:
            ClientError: it cannot be asked.
        """
        return await self._reviews.allows_account(namespace, BINDER_NAME, action)


async def check(access: Access, session: Session, what: str) -> None:
    """Let administrators through.

    Raises:
        MissingError: the person is none; ``what`` is not there for them.
        Refusal: the person's name is Kubernetes' own.
        ClientError: it cannot be asked.
    """
    if not await access.administers(session):
        raise MissingError(
            f"There is no {what} for you",
            "Pages about consumers are for those who may list clusterbindings.kube-bind.io in all"
            " namespaces: ask the provider's administrators for ClusterRole"
            " fairlead-console-admin.",
        )


async def is_shown(access: Access, session: Session) -> bool:
    """Whether the navigation names the pages: not where that cannot be asked."""
    try:
        return await access.administers(session)
    except (ClientError, Refusal):
        return False
