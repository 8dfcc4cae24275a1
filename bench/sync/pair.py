"""A consumer and a provider that are bound, with the programs of both at work in processes.

Programs have the rights of their manifests and no others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec

from bench import planes, widgets
from bench.loading import Side, loader, regrouped, side, twin
from bench.processes import Program, running
from fairlead.api.kubebind import decode_binding_response
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import install_crds


SYNCED = Resource("synced.bench", "v1", "widgets", "Widget")
"""The kind that is bound."""
BARE = twin(SYNCED)


class Pair(NamedTuple):
    """Two planes, bound, as the loader speaks to them."""

    consumer: Side
    provider: Side
    konnector: Program


@asynccontextmanager
async def pair(kind: str) -> AsyncIterator[Pair]:
    """Run a pair of planes of a kind, "real" or "sandbox", until the context is left."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        consumer = await stack.enter_async_context(planes.plane(kind, own))
        provider = await stack.enter_async_context(planes.plane(kind, own))
        there = await stack.enter_async_context(Client(provider.admin))
        here = await stack.enter_async_context(Client(consumer.admin))
        account = await prepare_provider(there)
        await stack.enter_async_context(running("provider", account, own))
        account = await prepare_consumer(here)
        konnector = await stack.enter_async_context(running("konnector", account, own))
        answer = await invite(there, name="bench", template="widgets")
        await bind(here, decode_binding_response(msgspec.json.encode(answer)))
        configs = [await loader(admin, SYNCED.group, BARE.group) for admin in (here, there)]
        ours, theirs = [await stack.enter_async_context(side(config)) for config in configs]
        yield Pair(ours, theirs, konnector)


async def prepare_provider(admin: Client) -> ClusterConfig:
    """Install the provider's program and what it offers; the credentials of the program."""
    exports = [SYNCED.group_resource]
    await create_all(admin, provider_manifests.manifests(image="bench", exports=exports))
    account = await as_service_account(admin, PROVIDER_NAMESPACE, provider_manifests.NAME)
    async with Client(account) as client:
        await provider_app.install_crds(client)
    await install_crds(admin, [crd(SYNCED), crd(BARE)])
    await create_all(admin, [_template()])
    return account


async def prepare_consumer(admin: Client) -> ClusterConfig:
    """Install the konnector; its credentials."""
    await konnector_app.install_crds(admin)
    await create_all(admin, konnector_manifests.manifests(image="bench"))
    await install_crds(admin, [crd(BARE)])
    return await as_service_account(admin, KONNECTOR_NAMESPACE, konnector_manifests.NAME)


def crd(kind: Resource) -> JSON:
    """Make a CRD of widgets with a number in their status."""
    body = regrouped(widgets.crd(), kind)
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["seen"] = {
        "type": "integer"
    }
    if kind == SYNCED:
        body["metadata"]["labels"] = {"kube-bind.io/exported": "true"}
    return body


def _template() -> JSON:
    resource = {"group": SYNCED.group, "resource": SYNCED.plural, "versions": [SYNCED.version]}
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": "widgets"},
        "spec": {"scope": "Namespaced", "resources": [resource]},
    }
