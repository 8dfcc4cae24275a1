"""Assembly of the front door: `fairlead provider serve` from its options."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Protocol, runtime_checkable

from fairlead.client.authorities import read_authority
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.console.consumers.leases import KbindConsumers
from fairlead.portal.console.consumers.pages import Access, ConsumerList, ConsumerPage
from fairlead.portal.console.offers.binding import BindPage
from fairlead.portal.console.offers.catalogue import Catalogue, Clusters, TemplatePage
from fairlead.portal.console.offers.following import BoundPage
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import Pages, Tab
from fairlead.portal.console.pages.terminal import Terminals
from fairlead.portal.console.pages.viewing import View
from fairlead.portal.console.sources.consumers import Consumers
from fairlead.portal.console.sources.kinds import History, Kinds
from fairlead.portal.console.sources.provided import Provided
from fairlead.portal.console.sources.sights import Sights
from fairlead.portal.console.views import (
    BindingPage,
    BindingsPage,
    NewObjectPage,
    ObjectPage,
    OverviewPage,
    TopologyPage,
)
from fairlead.portal.console.visits.entering import Arriving
from fairlead.portal.console.visits.formtokens import FormTokens
from fairlead.portal.console.visits.site import Site
from fairlead.portal.handshake.applying import Applying
from fairlead.portal.handshake.bind import Bind, Consents
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.handshake.witness import Witness
from fairlead.portal.http.introduction import Introduction
from fairlead.portal.http.metrics import PortalMetrics
from fairlead.portal.http.server import Routed, application
from fairlead.portal.http.serving import PortalServer
from fairlead.portal.identity.embedded.issuer import EmbeddedIssuer
from fairlead.portal.identity.embedded.passwords import read_people
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.keys import Sealing, SecretKeys, flag_keys
from fairlead.portal.identity.oidc.issuers import Issuer, OverHTTP
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.identity.sessions import BrowserSessions, Prefixes, SessionStore
from fairlead.portal.identity.signin import SignIn
from fairlead.portal.options import ServeOptions
from fairlead.runtime import Cluster, Manager


TABS = (
    Tab("/", "Catalogue", ("/templates/", "/bind/")),
    Tab("/overview", "Overview"),
    Tab("/bindings", "My bindings", ("/bindings/", "/objects/")),
    Tab("/topology", "Topology"),
)
"""Tabs of the navigation that need no right."""


@runtime_checkable
class Awaited(Protocol):
    """A part of the server with a readiness check of its own."""

    @property
    def name(self) -> str:
        """The part's name in /readyz."""
        ...

    def not_ready(self) -> str:
        """Return why the part cannot work; "" if it can."""
        ...


@runtime_checkable
class Running(Protocol):
    """A part of the server with a task that runs until the server stops."""

    @property
    def name(self) -> str:
        """The name of the part's task."""
        ...

    async def run(self) -> None:
        """Work until canceled."""
        ...


def build(
    manager: Manager,
    cluster: Cluster,
    options: ServeOptions,
    parts: Iterable[object] = (),
    *,
    listening: socket.socket | None = None,
) -> PortalServer:
    """Add the front door to a manager before it is started.

    A part may have ``routes()``, which are served; ``name`` and ``run()``, which runs as long as
    the server; and ``name`` and ``not_ready()``, which /readyz calls. It has to request its
    informers before this call. ``listening`` is a bound socket in place of an address.

    Raises:
        OSError: a file of the certificate cannot be read.
        ValueError: the certificate cannot be used.
    """
    all_parts: Sequence[object] = (Introduction(options), *parts)
    routes = [route for part in all_parts if isinstance(part, Routed) for route in part.routes()]

    # Informers that are added later (those of exported kinds) do not delay the start.
    first = list(cluster.informers())

    async def started() -> None:
        for informer in first:
            await informer.synced.wait()

    metrics = PortalMetrics()
    manager.metrics.registry.register(metrics)
    lost = next((part.lost for part in all_parts if isinstance(part, Pages)), None)
    served = application(options, routes, metrics=metrics, lost=lost)
    server = PortalServer(options, served, started=started, listening=listening)
    manager.metrics.certificates["front door"] = server.certificate_ends
    manager.add_cluster(cluster)
    for part in (*all_parts, server):
        if isinstance(part, Awaited):
            manager.add_ready_check(part.name, part.not_ready)
        if isinstance(part, Running):
            # All replicas serve: they share state through the API server.
            manager.add(part, leader_only=False)
    return server


async def run_all(
    manager: Manager,
    cluster: Cluster,
    options: ServeOptions,
    *,
    listening: socket.socket | None = None,
) -> None:
    """Create all parts, and add the front door with them to a manager by :func:`build`.

    Raises:
        OSError: a file of a flag cannot be read.
        ValueError: a flag's value cannot be used.
    """
    store = _store(cluster, options)
    sealing, keys = _sealing(cluster, options)
    sessions = BrowserSessions(store, lifetime=options.token_expiry)
    guard = SessionGuard(sessions, options.external_url)
    issuer = _issuer(options)
    prefixes = Prefixes(options.oidc.username_prefix, options.oidc.groups_prefix)
    reviews = AccessReviews(cluster.client, prefixes)
    # A tag of an image may not contain the "+" of a local version.
    image = f"fairlead:{version('fairlead')}".replace("+", "-")
    catalog = Catalog(cluster, guard, reviews, image=image)
    ownership = Ownership(
        cluster,
        prefixes,
        namespace_prefix=options.namespace_prefix,
        original_authors=options.original_authors,
    )
    bind = Bind(
        cluster, options, guard=guard, reviews=reviews, catalog=catalog, ownership=ownership
    )
    applying = Applying(
        cluster, options, guard=guard, catalog=catalog, ownership=ownership, bind=bind
    )
    consents = Consents(bind, store)
    signin = SignIn(
        issuer=issuer,
        sessions=sessions,
        store=store,
        sealing=sealing,
        guard=guard,
        external=options.external_url,
        prefixes=prefixes,
        redeem=consents.redeem,
    )
    parts: list[object] = [store, *keys, signin, issuer, catalog, bind, applying, Witness(cluster)]
    parts += console(
        cluster,
        options,
        guard=guard,
        sessions=sessions,
        reviews=reviews,
        catalog=catalog,
        ownership=ownership,
        tokens=FormTokens(sealing, store, guard),
        terminals=Terminals(sealing, options.external_url),
        bind=bind,
        consents=consents,
    )
    build(manager, cluster, options, parts, listening=listening)


def console(
    cluster: Cluster,
    options: ServeOptions,
    *,
    guard: SessionGuard,
    sessions: BrowserSessions,
    reviews: AccessReviews,
    catalog: Catalog,
    ownership: Ownership,
    tokens: FormTokens,
    terminals: Terminals,
    bind: Bind,
    consents: Consents,
) -> list[object]:
    """Return the parts of the pages."""
    access = Access(reviews.administers)
    pages = Pages(
        options.external_url,
        provider=options.pretty_name,
        embedded=options.oidc.type == "embedded",
        # Only administrators see the tab of consumers.
        tabs=[*TABS, Tab("/consumers", "Consumers", ("/consumers/",), access.is_shown)],
        waiting=terminals.waiting,
        manual="The front door; How Fairlead judges an object",
    )
    arriving = Arriving(pages, guard, terminals)
    hub = Hub()
    history = History()
    kinds = Kinds(cluster, hub, history)
    consumers = Consumers(cluster, hub, kinds)
    sights = Sights(reviews, ownership, kinds)
    source = Provided(consumers, sights, history)
    directory = Directory(cluster, hub, kinds)
    leases = KbindConsumers(cluster, hub)
    clusters = Clusters(consumers, ownership)
    views: list[View] = [
        Catalogue(cluster, hub, catalog, clusters),
        TemplatePage(cluster, hub, catalog, clusters=clusters),
        BindPage(
            cluster,
            hub,
            catalog,
            pages=pages,
            clusters=clusters,
            tokens=tokens,
            terminals=terminals,
            binds=bind,
            consents=consents,
        ),
        BoundPage(cluster, hub, clusters=clusters, tokens=tokens, binds=bind),
        OverviewPage(source),
        BindingsPage(source),
        BindingPage(source),
        NewObjectPage(consumers, sights),
        ObjectPage(source),
        TopologyPage(source),
        ConsumerList(directory, leases, access),
        ConsumerPage(directory, access, reviews, sessions.signed_in),
    ]
    site = Site(pages, arriving, guard, hub, views)
    return [pages, arriving, kinds, directory, leases, site]


def _store(cluster: Cluster, options: ServeOptions) -> SessionStore:
    if options.redis is None:
        return SecretStore(cluster, options.namespace)
    # Imported here, since the Redis client is an extra.
    from fairlead.portal.identity.redisstore import RedisStore

    return RedisStore.at(options.redis)


def _sealing(cluster: Cluster, options: ServeOptions) -> tuple[Sealing, list[object]]:
    if options.cookie_keys:
        return Sealing(flag_keys(options.cookie_keys)), []
    keys = SecretKeys(cluster, options.namespace)
    return Sealing(keys.fernet), [keys]


def _issuer(options: ServeOptions) -> Issuer | EmbeddedIssuer:
    oidc = options.oidc
    if oidc.type == "external":
        authority = read_authority(oidc.ca_file, "--oidc-ca-file") if oidc.ca_file else b""
        return Issuer(
            oidc.issuer_url,
            client_id=oidc.client_id,
            client_secret=oidc.client_secret,
            callback=oidc.callback_url,
            issuing=OverHTTP(authority),
            scopes=oidc.scopes,
            claims=oidc.claims,
        )
    if oidc.people_file is None:
        raise ValueError(
            "--oidc-people-file is missing: give the file of the people who may sign in"
        )
    people = read_people(oidc.people_file.read_bytes())
    return EmbeddedIssuer(options.external_url, people, beyond_loopback=oidc.beyond_loopback)
