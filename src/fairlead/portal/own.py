"""Assembly of ``fairlead console``: pages about a cluster for the person who runs it.

There is no sign-in and no other person: all reads and unbindings use the client's credentials.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from fairlead.api.kbind.names import LEASE_NAMESPACE
from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import Key
from fairlead.api.resource import LEASES, NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.client import Client, NotServed
from fairlead.client.lookups import find, may
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.portal import bounds
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.console.consumers.leases import KbindConsumers, consumers_of
from fairlead.portal.console.consumers.pages import Access, ConsumerList, ConsumerPage
from fairlead.portal.console.own.entering import ByLink, Links, at_home
from fairlead.portal.console.own.unbinding import Unbindings, UnbindPage
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.looking import Looks
from fairlead.portal.console.pages.rendering import Pages, Tab
from fairlead.portal.console.pages.viewing import View
from fairlead.portal.console.sources.cluster import OwnCluster
from fairlead.portal.console.sources.kinds import History, Kinds
from fairlead.portal.console.views import (
    BindingPage,
    BindingsPage,
    MirrorPage,
    ObjectPage,
    ObjectsPage,
    OverviewPage,
    TopologyPage,
)
from fairlead.portal.console.visits.formtokens import FormTokens
from fairlead.portal.console.visits.site import Site
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.http.server import Routed, application
from fairlead.portal.http.serving import ListeningError, PortalServer
from fairlead.portal.identity.guard import Cookies, SessionGuard
from fairlead.portal.identity.keys import Sealing, local_keys
from fairlead.portal.identity.sessions import BrowserSessions, MemoryStore, Person, Prefixes
from fairlead.portal.options import CALLBACK_PATH, ExternalURL, OIDCOptions, ServeOptions
from fairlead.provider.v2.record import is_home
from fairlead.runtime import Cluster


HOST = "127.0.0.1"
TABS = (
    Tab("/overview", "Overview"),
    Tab("/", "All objects", ("/objects/",)),
    Tab("/bindings", "Bindings", ("/bindings/",)),
    Tab("/topology", "Topology"),
)
"""Tabs of the navigation, beside the one about consumers."""
_CONSUMERS = Tab("/consumers", "Consumers", ("/consumers/",))


def listen(port: int = 0) -> socket.socket:
    """Bind a port on loopback; 0 takes a free one.

    Raises:
        ListeningError: the port is in use.
    """
    try:
        # Loopback alone: the pages act with the rights of the person who started the program.
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ListeningError(
            f"cannot listen on {HOST}:{port}: {(error.strerror or str(error)).lower()}; give"
            " another --port, or none for a free one"
        ) from None


class OwnConsole:
    """The pages of ``fairlead console``; :meth:`run` serves them.

    Args:
        client: a client with the person's rights.
        listening: the socket of :func:`listen`; it is closed at the end.
        tell: prints a link that a page requested.
        operator_namespace: namespace of the PostgresAccess operator's settings.
        consumers: whether to add pages about consumers; see :func:`administers`.
        mirrored: whether to add the list of those of kbind v2 alone; see :func:`hosts_mirrors`.
    """

    def __init__(
        self,
        client: Client,
        listening: socket.socket,
        tell: Callable[[str], None],
        *,
        operator_namespace: str,
        consumers: bool = False,
        mirrored: bool = False,
    ) -> None:
        port: int = listening.getsockname()[1]
        self.external = ExternalURL.parse(f"http://{HOST}:{port}")
        self._client = client
        self._overview = Overview(client)
        self._hub = Hub()
        self._looks = Looks(self._hub)
        self._unbindings = Unbindings(client, self._hub, self._looks)
        config, store = client.config, MemoryStore()
        self._links = Links(store, self.external)
        # Browsers share cookies between the ports of a host: two consoles need two names.
        cookies = Cookies(self.external, session=f"fairlead-console-{port}")
        sessions = BrowserSessions(store, lifetime=bounds.OWN_SESSION_SECONDS)
        guard = SessionGuard(sessions, self.external, cookies=cookies)
        tabs = [*TABS, _CONSUMERS] if consumers or mirrored else TABS
        pages = Pages(
            self.external,
            provider=config.context or config.server,
            tabs=tabs,
            leave="",
            manual="See it all in a browser; How Fairlead judges an object",
        )
        person = Person("kubeconfig", config.context or config.username or config.server)
        entering = ByLink(pages, guard, sessions, self._links, person, tell)
        tokens = FormTokens(Sealing(local_keys()), store, guard)
        going = self._unbindings.going
        source = OwnCluster(client, self._overview, self._looks, operator_namespace, going)
        views: list[View] = [
            OverviewPage(source),
            ObjectsPage(source),
            BindingsPage(source),
            BindingPage(source),
            MirrorPage(source),
            ObjectPage(source),
            TopologyPage(source),
            UnbindPage(client, pages, self._unbindings, tokens),
        ]
        self._provider: _Provider | _MirrorProvider | None = None
        if consumers:
            self._provider = _Provider(client, self._hub, sessions)
        elif mirrored:
            self._provider = _MirrorProvider(client, self._hub)
        if self._provider is not None:
            views += self._provider.views
        self._site = Site(pages, entering, guard, self._hub, views)
        callback = self.external.absolute(CALLBACK_PATH)
        options = ServeOptions(
            external_url=self.external,
            host=HOST,
            port=port,
            oidc=OIDCOptions(issuer_url="", client_id="", callback_url=callback),
        )
        parts: list[Routed] = [pages, entering, self._site]
        routes = [route for part in parts for route in part.routes()]
        app = application(options, routes, lost=pages.lost)
        app.middlewares.append(at_home(self.external))
        self._server = PortalServer(
            options, app, listening=listening, patience=bounds.OWN_SHUTDOWN_SECONDS
        )

    async def link(self) -> str:
        """Return a link that lets one browser in once, within a minute; earlier ones are void."""
        return await self._links.make()

    async def run(self) -> None:
        """Serve until canceled."""
        async with self._overview:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._server.run())
                    group.create_task(self._looks.run())
                    group.create_task(self._site.run())
                    if self._provider is not None:
                        group.create_task(self._provider.run())
            finally:
                await self._unbindings.close()


async def administers(client: Client) -> bool:
    """Whether the cluster is a provider's whose consumers the client's user may list.

    Raises:
        ClientError: the API server refused or is unavailable.
    """
    needed = (CLUSTERBINDINGS, APISERVICEEXPORTS, APISERVICEEXPORTTEMPLATES, NAMESPACES)
    for resource in needed:
        try:
            await client.discovery.resource_by_plural(resource.group, resource.plural)
        except NotServed:
            return False
        for verb in ("list", "watch"):
            if not await may(client, resource, verb):
                return False
    return True


async def hosts_mirrors(client: Client) -> bool:
    """Whether the cluster has consumers of kbind v2 that the client's user may see.

    Raises:
        ClientError: the API server refused or is unavailable.
    """
    for resource, key in ((LEASES, Key(LEASE_NAMESPACE, "")), (NAMESPACES, Key("", ""))):
        for verb in ("list", "watch"):
            if not await may(client, resource, verb, key):
                return False
    if await find(client, NAMESPACES, LEASE_NAMESPACE) is None:
        return False
    leases = await client.list(LEASES, LEASE_NAMESPACE)
    namespaces = await client.list(NAMESPACES, metadata_only=True)
    return bool(consumers_of(filter(is_home, namespaces.items), leases.items, moment()))


class _MirrorProvider:
    """The list of the consumers of kbind v2, for a provider with nothing installed."""

    def __init__(self, client: Client, hub: Hub) -> None:
        self._client = client
        self._cluster = Cluster("provider", client)
        self._leases = KbindConsumers(self._cluster, hub)
        remedy = (
            f"The list is for those who may list leases.coordination.k8s.io in namespace"
            f" {LEASE_NAMESPACE}: have the right granted."
        )
        self.views: list[View] = [
            ConsumerList(None, self._leases, Access(self._reads_leases, remedy))
        ]

    async def _reads_leases(self, _: Person) -> bool:
        return await may(self._client, LEASES, "list", Key(LEASE_NAMESPACE, ""))

    async def run(self) -> None:
        """Follow the cluster until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run())
            group.create_task(self._leases.run())


class _Provider:
    """The pages about consumers, for a provider's cluster."""

    def __init__(self, client: Client, hub: Hub, sessions: BrowserSessions) -> None:
        self._client = client
        self._cluster = Cluster("provider", client)
        self._kinds = Kinds(self._cluster, hub, History())
        self._directory = Directory(self._cluster, hub, self._kinds)
        self._leases = KbindConsumers(self._cluster, hub)
        access = Access(self._administers)
        reviews = AccessReviews(client, Prefixes())
        self.views: list[View] = [
            ConsumerList(self._directory, self._leases, access),
            ConsumerPage(self._directory, access, reviews, sessions.signed_in),
        ]

    async def _administers(self, _: Person) -> bool:
        """Whether the client's user is an administrator: all sessions are that user's."""
        return await may(self._client, CLUSTERBINDINGS, "list")

    async def run(self) -> None:
        """Follow the cluster until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run())
            group.create_task(self._kinds.run())
            group.create_task(self._directory.run())
            group.create_task(self._leases.run())
