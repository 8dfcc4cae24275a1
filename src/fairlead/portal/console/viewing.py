"""Views: what a page shows, apart from how it gets to a screen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple

from aiohttp import web

from fairlead.api.meta import Object
from fairlead.portal.http.context import PATH
from fairlead.portal.identity.sessions import Session
from fairlead.provider.namespaces import identity_of, owner_of


Topics = Collection[str]
"""What may change: namespaces, and "" for what is in none."""


class Asked(NamedTuple):
    """A page that is asked for: its path, the names in that, and the query."""

    path: str
    names: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def name(self, name: str) -> str:
        """A name in the path."""
        return dict(self.names)[name]

    def get(self, name: str, most: int = 200) -> str:
        """A parameter of the query, "" where it is not there."""
        return dict(self.query).get(name, "")[:most].strip()


class MissingError(Exception):
    """There is no such page for this person; the text says what is not there.

    ``helps`` tells them what they can do.
    """

    def __init__(self, text: str, helps: str = "") -> None:
        super().__init__(text)
        self.helps = helps


class View(ABC):
    """A page at a route, which a template renders from values.

    What decides on the page is its scope: after all reviews, and comparable, so that people who
    may see the same share the work. The template's block ``live`` is kept up to date from the
    values alone; what is one person's own stands outside it.
    """

    route: ClassVar[str]
    """Its path, with names in braces."""
    template: ClassVar[str]
    """The file of its template."""

    @abstractmethod
    async def scope(self, session: Session, asked: Asked) -> Hashable:
        """What the person may see of it.

        Raises:
            MissingError: nothing.
            Refusal: the request is not served.
            ClientError: whether they may cannot be asked.
        """

    def topics(self, scope: Any) -> Topics:
        """What it has to be rendered again for."""
        return ()

    @abstractmethod
    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """What its template names, also outside the block ``live``."""

    async def own(self, session: Session, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """What is this person's own: what they may do, and the forms for it."""
        return {}


def of_namespace(namespace: Object) -> Topics:
    """What a change of a namespace is a change of: consumers make many for their objects.

    A consumer that comes or goes is news for all, and a namespace for its objects for it alone.
    """
    if identity_of(namespace):
        return ("", namespace.meta.name)
    owner = owner_of(namespace)
    return (owner.namespace,) if owner is not None else ()


def asked_of(request: web.Request, *without: str) -> Asked:
    """What a request asks for, without some parameters of its query."""
    return Asked(
        request.get(PATH, request.path),
        tuple(sorted(request.match_info.items())),
        tuple(sorted((name, one) for name, one in request.query.items() if name not in without)),
    )
