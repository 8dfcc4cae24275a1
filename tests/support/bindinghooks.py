"""The webhooks of the binding at work, with the rights of the manifests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from tests.support.binding import DATA, Team
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, SECRETS, WEBHOOKCONFIGURATIONS, Resource
from fairlead.api.servicebinding.common import EXCLUSIVE, REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.admission import serving
from fairlead.binding.admission.names import KEY_SECRET, NAME
from fairlead.binding.app import controllers
from fairlead.binding.options import DEFAULT_NAMESPACE, AdmissionOptions, BindingOptions
from fairlead.client import ApiError, Client, NotFound
from fairlead.demo.identity import as_service_account
from fairlead.runtime import Cluster, LeaderElection, Manager
from fairlead.runtime.admission.server import AdmissionServer


class Served(NamedTuple):
    """A control plane that asks the webhooks, and a team of its own."""

    admin: Client
    team: Team
    server: AdmissionServer
    manager: Manager


@contextlib.asynccontextmanager
async def serving_webhooks(
    admin: Client, documents: list[JSON], **changes: Any
) -> AsyncIterator[Served]:
    """Controllers and webhooks as these manifests have them, until this is left."""
    for document in documents:
        own = document["metadata"]["name"].startswith(f"{NAME}-")
        if own and document["kind"] == "ClusterRole":
            await admin.apply(CLUSTERROLES, document)
    team = Team(admin, f"admission-{uuid.uuid4().hex[:8]}")
    await team.start()
    data = {name: base64.b64encode(text.encode()).decode() for name, text in DATA.items()}
    await team.create(SECRETS, "login", data=data)
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    async with Client(config) as client, running(client, **changes) as (server, manager):
        try:
            await configure(admin, documents)
            yield Served(admin, team, server, manager)
        finally:
            for resource in WEBHOOKCONFIGURATIONS:
                with contextlib.suppress(NotFound):
                    await admin.delete(resource, NAME)


@contextlib.asynccontextmanager
async def running(
    client: Client, election: LeaderElection | None = None, **changes: Any
) -> AsyncIterator[tuple[AdmissionServer, Manager]]:
    cluster, stop = Cluster("binding", client), asyncio.Event()
    manager = Manager(leader_election=election)
    manager.add_cluster(cluster)
    options = AdmissionOptions(
        address="127.0.0.1:0",
        hosts=("127.0.0.1",),
        namespace=DEFAULT_NAMESPACE,
        **changes,
    )
    chosen = BindingOptions(requester_key=(DEFAULT_NAMESPACE, KEY_SECRET))
    server = await serving.add(manager, cluster, options, chosen)
    for controller in controllers(cluster, chosen):
        manager.add(controller)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        try:
            await eventually(lambda: not server.not_ready())
            yield server, manager
        finally:
            stop.set()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - it is another task that changes it
            await asyncio.sleep(0.02)


async def configure(admin: Client, documents: list[JSON]) -> None:
    """The configurations of the manifests, and the wait until webhooks are registered in them."""
    for document in documents:
        for resource in WEBHOOKCONFIGURATIONS:
            if document["kind"] == resource.kind:
                await admin.create(resource, document)
    await answered(admin, SERVICEBINDINGS, spec_binding("probe", both=True), EXCLUSIVE)
    await answered(admin, COREOS_SERVICEBINDINGS, coreos("probe", both=True), EXCLUSIVE)
    await answered(admin, CLUSTERWORKLOADRESOURCEMAPPINGS, mapping(" "), "is blank")
    await proving(admin)


async def proving(admin: Client) -> None:
    """Wait until the webhook notes who asks, and proves it."""
    body = coreos("probe")
    body["spec"]["services"][0]["namespace"] = "elsewhere"

    async def noted() -> bool:
        made = await admin.create(COREOS_SERVICEBINDINGS, body, "default", dry_run=True)
        return {REQUESTER_ANNOTATION, PROOF_ANNOTATION} <= set(made.meta.annotations)

    await repeated(noted)


async def answered(admin: Client, resource: Resource, body: JSON, text: str) -> None:
    async def refused() -> bool:
        try:
            await admin.create(resource, body, "default", dry_run=True)
        except ApiError as error:
            return text in error.message
        return False

    await repeated(refused)


async def repeated(ask: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes; what is refused is asked again."""
    last: ApiError | None = None
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    if await ask():
                        return
                except ApiError as error:
                    last = error
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise last or TimeoutError from None


def spec_binding(name: str, *, both: bool = False, **changes: Any) -> JSON:
    workload: JSON = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    if both:
        workload["selector"] = {"matchLabels": {"a": "b"}}
    service = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
    return {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"workload": workload, "service": service, **changes},
    }


def coreos(name: str, *, both: bool = False) -> JSON:
    application: JSON = {"group": "apps", "version": "v1", "resource": "deployments"}
    application["name"] = "web"
    if both:
        application["labelSelector"] = {"matchLabels": {"a": "b"}}
    services = [{"group": "", "version": "v1", "kind": "Secret", "name": "login"}]
    return {
        "apiVersion": COREOS_SERVICEBINDINGS.api_version,
        "kind": COREOS_SERVICEBINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"application": application, "services": services},
    }


def mapping(version: str) -> JSON:
    return {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": "probes.example.org"},
        "spec": {"versions": [{"version": version}]},
    }
