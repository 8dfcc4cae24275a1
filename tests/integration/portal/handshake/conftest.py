"""The front door with its own rights, the provider's controllers, and people who are signed in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import structlog
from tests.support.line import Line
from tests.support.portal import Answer, Door, opened, serve_options
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    COLLECTIONS,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal import bounds
from fairlead.portal.app import Running, console
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.terminal import Terminals
from fairlead.portal.console.visits.formtokens import FormTokens
from fairlead.portal.handshake.applying import Applying, ApplyingPatience
from fairlead.portal.handshake.bind import Bind, Consents
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.handshake.witness import Witness
from fairlead.portal.http.server import Routed
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.keys import Sealing, local_keys
from fairlead.portal.identity.oidc.issuers import Issuer, OverHTTP
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.identity.sessions import BrowserSessions, Person, Prefixes
from fairlead.portal.identity.signin import SignIn
from fairlead.portal.manifests import manifests
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.provider.app import controllers
from fairlead.runtime import Cluster, install_crds
from fairlead_sandbox import Sandbox


ISSUER = "https://login.example.org"
ADA = Person(ISSUER, "ada", "Ada", ("team-a",))
BEN = Person(ISSUER, "ben", "Ben", ("team-b",))
CEM = Person(ISSUER, "cem")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


class House:
    """A server that answers, what is behind it, and people who ask it."""

    def __init__(
        self,
        plane: Sandbox,
        admin: Client,
        door: Door,
        sessions: BrowserSessions,
    ) -> None:
        self.plane = plane
        self.admin = admin
        self.door = door
        self.sessions = sessions
        self._tokens: dict[Person, str] = {}

    async def ask(self, person: Person, path: str, method: str = "GET", **more: Any) -> Answer:
        if person not in self._tokens:
            self._tokens[person], _ = await self.sessions.create(person, "cli")
        headers = {"Authorization": f"Bearer {self._tokens[person]}"}
        return await self.door.ask(path, method, headers=headers, **more)

    async def bind(
        self, person: Person, template: str = "widgets", identity: str = "cluster-1", **more: Any
    ) -> Answer:
        body = {
            "metadata": {"name": more.pop("name", ""), "creationTimestamp": None},
            "spec": {
                "templateRef": {"name": template},
                "clusterIdentity": {"identity": identity},
            },
            "status": {},
        }
        return await self.ask(person, more.pop("path", "/api/bind"), "POST", json=body, **more)

    async def template(self, name: str = "widgets") -> None:
        await self.admin.create(APISERVICEEXPORTTEMPLATES, template(name))

    async def allow(self, *subjects: str, templates: tuple[str, ...] = ()) -> None:
        """Let ``User:NAME`` or ``Group:NAME`` bind these templates, or all of them."""
        name = f"bind-{abs(hash((subjects, templates)))}"
        rule: JSON = {
            "apiGroups": ["kube-bind.io"],
            "resources": ["apiserviceexporttemplates"],
            "verbs": ["bind"],
        }
        if templates:
            rule["resourceNames"] = list(templates)
        version = CLUSTERROLES.api_version
        await self.admin.create(
            CLUSTERROLES,
            {
                "apiVersion": version,
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [rule],
            },
        )
        found = [one.split(":", 1) for one in subjects]
        await self.admin.create(
            CLUSTERROLEBINDINGS,
            {
                "apiVersion": version,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": name,
                },
                "subjects": [
                    {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": one}
                    for kind, one in found
                ],
            },
        )


def template(name: str) -> JSON:
    resources = [{"group": "example.org", "resource": "widgets", "versions": ["v1"]}]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
    return {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"scope": "Namespaced", "resources": resources},
    }


def collection(name: str, *templates: str) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": COLLECTIONS.kind,
        "metadata": {"name": name},
        "spec": {"templates": [{"name": one} for one in templates]},
    }


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=True, rbac=True) as plane:
        yield plane


@pytest.fixture
async def admin(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as admin:
        await install_crds(admin, provider_crds())
        bodies = manifests(
            image="fairlead",
            external_url="https://bind.example.org",
            issuer_url=ISSUER,
            client_id="fairlead",
        )
        await create_all(admin, bodies)
        yield admin


@asynccontextmanager
async def house(
    plane: Sandbox,
    admin: Client,
    *,
    provider: bool = True,
    seconds: float = SECONDS,
    line: Line | None = None,
    believed: float = bounds.REVIEW_SECONDS,
    refused: Callable[[str], str] | None = None,
    patience: ApplyingPatience | None = None,
    **more: Any,
) -> AsyncIterator[House]:
    """The server with its own rights; ``provider`` says whether binds are answered.

    With a ``line`` it reaches the API server by that alone.
    """
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    if line is not None:
        config = replace(config, server=line.url)
    options = serve_options(**more)
    prefixes = Prefixes(options.oidc.username_prefix, options.oidc.groups_prefix)
    async with Client(config) as client, asyncio.TaskGroup() as group:
        cluster, behind = Cluster(NAME, client), Cluster("provider", admin)
        store = SecretStore(cluster, options.namespace)
        sessions = BrowserSessions(store, lifetime=3600)
        guard = SessionGuard(sessions, options.external_url)
        reviews = AccessReviews(client, prefixes, believed=believed)
        catalog = Catalog(cluster, guard, reviews, image="fairlead:test")
        ownership = Ownership(
            cluster,
            prefixes,
            namespace_prefix=options.namespace_prefix,
            original_authors=options.original_authors,
        )
        bind = Bind(
            cluster,
            options,
            guard=guard,
            reviews=reviews,
            catalog=catalog,
            ownership=ownership,
            seconds=seconds,
        )
        applying = Applying(
            cluster,
            options,
            guard=guard,
            catalog=catalog,
            ownership=ownership,
            bind=bind,
            refused=refused,
            patience=patience,
        )
        Witness(cluster)
        sealing, consents = Sealing(local_keys()), Consents(bind, store)
        pages = console(
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
        redeeming = SignIn(
            # People are signed in already.
            issuer=Issuer(ISSUER, client_id="fairlead", callback="", issuing=OverHTTP()),
            sessions=sessions,
            store=store,
            sealing=sealing,
            guard=guard,
            external=options.external_url,
            prefixes=prefixes,
            redeem=consents.redeem,
        )
        routes = [*catalog.routes(), *bind.routes(), *applying.routes(), *redeeming.routes()]
        routes += [route for part in pages if isinstance(part, Routed) for route in part.routes()]
        tasks = [group.create_task(one) for one in (cluster.run(), store.run())]
        tasks += [group.create_task(one.run()) for one in pages if isinstance(one, Running)]
        if provider:
            works = controllers(behind)
            tasks += [group.create_task(one.run()) for one in works]
            tasks.append(group.create_task(behind.run()))
        async with asyncio.timeout(SECONDS):
            for informer in list(cluster.informers()):
                await informer.synced.wait()
        (lost,) = [part.lost for part in pages if isinstance(part, Pages)]
        async with opened(options, routes, lost=lost) as door:
            yield House(plane, admin, door, sessions)
        for task in tasks:
            task.cancel()
