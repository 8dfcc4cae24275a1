"""A provider for tests: its CRDs, its example and its controllers, run as their ServiceAccount."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
import yaml

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.provider.app import controllers, install_crds
from fairlead.provider.manifests import NAME, manifests
from fairlead.provider.options import DEFAULT_NAMESPACE, ProviderOptions
from fairlead.runtime import Cluster, strip_managed_fields
from fairlead.runtime import install_crds as install


EXAMPLE = Path(__file__).parents[2] / "examples" / "03-widgets"
WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


def example(name: str) -> JSON:
    """One file of the example."""
    body: JSON = msgspec.json.decode(_example(name))
    return body


@cache
def _example(name: str) -> bytes:
    return msgspec.json.encode(yaml.safe_load((EXAMPLE / f"{name}.yaml").read_text()))


async def prepare(
    admin: Client, *, exports: Sequence[str], claims: Sequence[str] = ("secrets", "configmaps")
) -> None:
    """The manifests, the CRDs as their ServiceAccount installs them, and the example."""
    await create_all(admin, manifests(image="fairlead", exports=exports, claims=claims))
    async with Client(await as_service_account(admin, DEFAULT_NAMESPACE, NAME)) as provider:
        await install_crds(provider)
    await install(admin, [example("crd")])
    await create_all(admin, [example("template")])


@contextlib.asynccontextmanager
async def running(admin: Client, options: ProviderOptions | None = None) -> AsyncIterator[Cluster]:
    """The provider's controllers at work, with the rights of the manifests and no others."""
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    async with Client(config) as client:
        # As the program has it: its caches keep no managedFields.
        cluster = Cluster("provider", client, transform=strip_managed_fields)
        tasks = [controller.run() for controller in controllers(cluster, options)]
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(task) for task in (cluster.run(), *tasks)]
            try:
                yield cluster
            finally:
                for task in started:
                    task.cancel()


@contextlib.asynccontextmanager
async def invited(response: bytes) -> AsyncIterator[tuple[Client, str]]:
    """A client with nothing but what the invitation gives, and its cluster namespace."""
    answer = decode_binding_response(response)
    async with Client(parse_kubeconfig(answer.kubeconfig)) as client:
        yield client, answer.provider_namespace


async def request_export(client: Client, namespace: str, request: JSON) -> None:
    """Create a request of a BindingResponse, as the consumer's side does."""
    await client.create(
        APISERVICEEXPORTREQUESTS,
        request | {"metadata": request["metadata"] | {"namespace": namespace}},
    )


async def request_namespace(client: Client, namespace: str, name: str) -> None:
    """Ask for the provider namespace of a consumer namespace."""
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": "APIServiceNamespace",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }
    await client.create(APISERVICENAMESPACES, body)


__all__ = ["APISERVICEEXPORTTEMPLATES", "DEFAULT_NAMESPACE", "WIDGETS"]
