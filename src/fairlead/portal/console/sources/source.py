"""The interface of all sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar, NamedTuple

from fairlead.portal.console.pages.looking import SeenLook
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics
from fairlead.portal.console.topology.graph import Graph
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import Words


class SeenGraph(NamedTuple):
    """A graph; ``notes`` say what is missing in it, ``cluster`` is its only one, "" for all."""

    graph: Graph
    notes: tuple[str, ...] = ()
    cluster: str = ""


class ConsoleSource(ABC):
    """Fills the model for pages; a scope is what the session's person may see of a page.

    All results are a :class:`SeenLook` with a value of the model. Each method may raise
    ClientError, and each one that returns a scope MissingError.
    """

    binding_route: ClassVar[str]
    """The route of a binding's page."""
    object_route: ClassVar[str]
    """The route of an object's page."""
    empty: ClassVar[Words]
    """The advice where there is nothing yet."""
    other: ClassVar[str]
    """The noun for the cluster at the other end of a binding."""

    @abstractmethod
    async def everything(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the scope of all bindings and objects."""

    @abstractmethod
    async def chains(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the scope of the topology."""

    @abstractmethod
    async def binding(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the scope of the binding that the page names."""

    @abstractmethod
    async def object(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the scope of the object that the page names."""

    @abstractmethod
    def topics(self, scope: Any) -> Topics:
        """Return the topics whose changes concern the scope."""

    @abstractmethod
    async def overview(self, scope: Any) -> SeenLook:
        """Return the :class:`ConsoleOverview`."""

    @abstractmethod
    async def bindings(self, scope: Any) -> SeenLook:
        """Return the :class:`BindingList`."""

    @abstractmethod
    async def graph(self, scope: Any, cluster: str) -> SeenLook:
        """Return the :class:`SeenGraph` of one cluster, or of all."""

    @abstractmethod
    async def binding_detail(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the :class:`BindingDetail`, None if it is gone."""

    @abstractmethod
    async def thing(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the :class:`ThingPage`, None if the object is gone."""

    def gone(self, scope: Any, page: AskedPage) -> MissingError | None:
        """Return the error if the binding or object that a new page names is gone."""
        return None

    async def may_delete(self, session: BrowserSession, page: AskedPage) -> bool:
        """Whether the person may delete the binding's export at the provider."""
        return False
