"""One open control plane per test, and the consumer's side on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import structlog
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import APISERVICEBINDINGS, consumer_crds, provider_crds
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.options import Options
from fairlead.runtime import Cluster, install_crds
from fairlead_sandbox import Sandbox


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs are captured, so that a test's output is its own."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=False, rbac=False) as plane:
        yield plane


@pytest.fixture
async def client(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as client:
        await install_crds(client, consumer_crds())
        await client.create(
            NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-bind"}},
        )
        yield client


@pytest.fixture
async def provider_kinds(client: Client) -> None:
    """The provider's CRDs, for tests that need them on the same server."""
    await install_crds(client, provider_crds())


@pytest.fixture
async def cluster(client: Client) -> AsyncIterator[Cluster]:
    cluster = Cluster("one", client)
    task = asyncio.create_task(cluster.run())
    await asyncio.sleep(0)
    yield cluster
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
async def consumer(cluster: Cluster) -> Consumer:
    consumer = Consumer(cluster, Options(health_interval=0.01))
    await consumer.bindings.synced()
    await consumer.crds.synced()
    await consumer.secrets.synced()
    return consumer


async def until(condition: Callable[[], Any]) -> None:
    """Let others work until this holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  what is awaited has no event
            await asyncio.sleep(0.005)


def binding_body(name: str = "db", secret: str = "k", namespace: str = "kube-bind") -> JSON:
    ref = {"name": secret, "namespace": namespace, "key": "kubeconfig"}
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceBinding",
        "metadata": {"name": name},
        "spec": {"kubeconfigSecretRef": ref},
    }


async def bound(client: Client, name: str = "db", secret: str = "k", **more: str) -> Object:
    return await client.create(APISERVICEBINDINGS, binding_body(name, secret, **more))


def secret_body(name: str = "k", namespace: str = "kube-bind", **data: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": data,
    }


def kubeconfig(server: str, namespace: str = "cluster-abc") -> str:
    return f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u, namespace: "{namespace}"}}}}]
current-context: x
"""
