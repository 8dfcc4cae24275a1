"""Views: the content of pages, without HTTP and HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import web

from fairlead.api.meta import Object
from fairlead.portal.http.requests import PATH
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import NO_NAMESPACE
from fairlead.provider.namespaces import identity_of, owner_of


Topics = Collection[str]
"""Keys of changes: namespaces, and "" for cluster-scoped objects."""


def path_of(*names: str) -> str:
    """Return the path of a page, each name as one segment, which cannot be empty."""
    return "".join(f"/{quote(name or NO_NAMESPACE, safe='')}" for name in names)


class AskedPage(NamedTuple):
    """A requested page: its path, the names in the path, and the query."""

    path: str
    names: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def name(self, name: str) -> str:
        """Return the path's value for a name in braces of the route."""
        return dict(self.names)[name]

    def get(self, name: str, most: int = 200) -> str:
        """Return a parameter of the query, cut to ``most`` characters; "" without it."""
        return dict(self.query).get(name, "")[:most].strip()


class MissingError(Exception):
    """The page does not exist for this person; the text names the missing object.

    ``helps`` is the remedy.
    """

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.helps = remedy


class View(ABC):
    """A page at a route, which a template renders from values.

    The scope is the comparable result of all reviews, so that people with the same rights share
    one rendering. The template's block ``live`` is updated from the values alone; content for one
    person stands outside it.
    """

    route: str
    """The path, with names in braces."""
    template: str
    """The template's file."""

    @abstractmethod
    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return what the person may see of the page.

        Raises:
            MissingError: the person may see nothing of it.
            Refusal: the request is refused.
            ClientError: the API server refused or is unavailable.
        """

    def topics(self, scope: Any) -> Topics:
        """Return the topics whose changes make the page render again."""
        return ()

    @abstractmethod
    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the template's variables, also those outside the block ``live``."""

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return variables for this person only: their rights and form tokens."""
        return {}


class FormError(Exception):
    """A form is refused: its page is shown again with ``values``, and nothing was done."""

    def __init__(self, session: BrowserSession, status: int, **values: Any) -> None:
        super().__init__(values.get("error", ""))
        self.session = session
        self.status = status
        self.values = values


class FormView(View):
    """A page with a form, which is sent to the page's own path."""

    @abstractmethod
    async def submit(self, request: web.Request) -> web.Response:
        """Do what the form says.

        Raises:
            FormError: a field is invalid.
            Refusal: the form is another site's, or the sender has no right.
            ClientError: the API server refused or is unavailable.
        """


def of_namespace(namespace: Object) -> Topics:
    """Return the topics that a change of a namespace wakes.

    A new or deleted consumer concerns all pages, a namespace for its objects only its own pages.
    """
    if identity_of(namespace):
        return ("", namespace.meta.name)
    owner = owner_of(namespace)
    return (owner.namespace,) if owner is not None else ()


def asked_of(request: web.Request, *without: str) -> AskedPage:
    """Return path and query of a request; the parameters named in ``without`` are left out."""
    return AskedPage(
        request.get(PATH, request.path),
        tuple(sorted(request.match_info.items())),
        # Sorted, so that pages with the same query share one rendering.
        tuple(sorted((name, one) for name, one in request.query.items() if name not in without)),
    )
