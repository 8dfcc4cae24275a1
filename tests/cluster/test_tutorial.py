"""The tutorial "Fairlead on your own clusters", word for word, on clusters with nodes.

PostgreSQL is a Pod of the provider's cluster, reached by the name of its Service and over TLS; the
app is a Pod of the consumer's, and reads its files in its container.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hack.nodes.clusters import Cluster
from tests.support import podimages
from tests.support.documents import Person
from tests.support.image import ROOT
from tests.support.kubectl import MISSING, kubectls
from tests.support.pages import CONSUMER, PROVIDER, Fence
from tests.support.pki import Authority
from tests.support.reading import done, read, waited
from tests.support.waiting import SECONDS, when

from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, PODS, SECRETS, SERVICES, Resource
from fairlead.client import Client, parse_kubeconfig


pytestmark = [
    pytest.mark.skipif(not kubectls(), reason=MISSING),
    pytest.mark.skipif(bool(podimages.missing()), reason=podimages.missing() or "-"),
]

PAGE = ROOT / "docs" / "tutorials" / "own-clusters.md"
NODE_PORT = 30432
PASSWORD = "of-the-administrator"
APP = "import time; from fairlead.demo.app import main; print(main(), flush=True); time.sleep(1e6)"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def server() -> list[tuple[Resource, JSON]]:
    """PostgreSQL as its team runs it: ``postgres.databases.svc``."""
    pair = Authority.create().issue("postgres", hosts=("postgres.databases.svc",))
    files = {"password": PASSWORD.encode(), "tls.crt": pair.certificate, "tls.key": pair.key}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    container: JSON = {
        "name": "postgres",
        "image": podimages.POSTGRES,
        "imagePullPolicy": "Never",
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
        "readinessProbe": {"tcpSocket": {"port": 5432}},
    }
    volume = {"name": "config", "secret": {"secretName": "postgres"}}
    labels = {"app": "postgres"}
    return [
        (NAMESPACES, {"metadata": {"name": "databases"}}),
        (SECRETS, {"metadata": {"name": "postgres"}, "data": data}),
        (
            PODS,
            {
                "metadata": {"name": "postgres", "labels": labels},
                "spec": {"containers": [container], "volumes": [volume]},
            },
        ),
        (
            SERVICES,
            {
                "metadata": {"name": "postgres"},
                "spec": {
                    "type": "NodePort",
                    "selector": labels,
                    "ports": [{"port": 5432, "nodePort": NODE_PORT}],
                },
            },
        ),
    ]


async def serve_database(cluster: Cluster, folder: Path) -> None:
    """Run PostgreSQL in a Pod."""
    archive = folder / "postgres.tar"
    podimages.postgres(archive)
    cluster.load(archive)
    async with Client(parse_kubeconfig(cluster.kubeconfig.read_bytes())) as admin:
        for resource, body in server():
            namespace = "databases" if resource.namespaced else ""
            await admin.create(resource, body, namespace)

        def ready(body: JSON) -> bool:
            conditions = body.get("status", {}).get("conditions", [])
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        await when(admin, PODS, "postgres", "databases", until=ready)


def owned(text: str, database: Cluster) -> str:
    """Put a database's address, its password and an app of one's own into the examples."""
    for example, mine in (
        ("postgres.example.com", database.networks.node),
        ("externalPort: 5432", f"externalPort: {NODE_PORT}"),
        ("password=...", f"password={PASSWORD}"),
        (
            "image: registry.example.com/shop:1",
            f"image: fairlead:0.2.0\n          command: [python3.11, -c, {APP!r}]",
        ),
    ):
        text = text.replace(example, mine)
    return waited(text)


async def test_an_app_logs_in_to_a_database_of_another_cluster(
    planes: list[Cluster], stack: AsyncExitStack, tmp_path: Path
) -> None:
    provider, consumer = planes
    await serve_database(provider, tmp_path)

    def own(text: str) -> str:
        return owned(text, provider)

    places = {PROVIDER: provider, CONSUMER: consumer}
    programs = os.pathsep.join(
        [
            str(Path(sys.executable).parent),
            str(Path(kubectls()[0].path).parent),
            os.environ["PATH"],
        ]
    )
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": programs}
    person = Person(stack, tmp_path, environment, own)

    async def run(person: Person, fence: Fence) -> str:
        if fence.not_run:
            return ""
        if place := places.get(fence.title):
            person.environment["KUBECONFIG"] = str(place.kubeconfig)
        return await done(person, fence)

    await read(PAGE, person, tmp_path, own, run)
    person.environment["KUBECONFIG"] = str(consumer.kubeconfig)
    await person.do("kubectl -n shop rollout status deployment/shop")
    async with asyncio.timeout(SECONDS):
        said = ""
        while "wrong password" not in said:
            said = await person.do("kubectl -n shop logs deployment/shop")
    assert "current_user shop in database shop" in said
    assert "wrong password refused" in said
