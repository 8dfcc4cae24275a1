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
from tests.support.reading import done, reached, read, waited
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
ORDERS = 8
"""Apps that are ordered while programs are updated."""
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
    return waited(reached(text, database.kubeconfig.read_bytes()))


class App:
    """The app of the tutorial, as its team sees it."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._rotations = 0

    async def says(self, text: str) -> str:
        """What the app prints in its container, once it says this."""
        command = "kubectl -n shop exec deployment/shop -- python3.11 -m fairlead.demo.app"
        async with asyncio.timeout(SECONDS):
            while text not in (said := await self._person.do(f"{command} || true")):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        return said

    async def rotate(self) -> None:
        """Have a new password made, and wait until the container's file has it."""
        show = (
            'kubectl -n shop exec deployment/shop -- python3.11 -c "import os; '
            "print(open(os.environ['SERVICE_BINDING_ROOT'] + '/shop/password').read())\" || true"
        )
        before = await self._person.do(show)
        self._rotations += 1
        await self._person.do(
            "kubectl -n shop annotate --overwrite postgresaccess/shop-database "
            f"access.k8s.delta10.nl/rotate-at={self._rotations}"
        )
        async with asyncio.timeout(SECONDS):
            while await self._person.do(show) in {before, ""}:  # noqa: ASYNC110
                await asyncio.sleep(0.5)

    async def pods(self) -> str:
        """The app's Pods, and how often their containers have started again."""
        path = "{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount};{end}"
        return await self._person.do(f"kubectl -n shop get pods -l app=shop -o jsonpath='{path}'")

    async def generation(self) -> int:
        """How often the spec of the app's Deployment was written."""
        path = "{.metadata.generation}"
        shown = await self._person.do(f"kubectl -n shop get deploy/shop -o jsonpath='{path}'")
        return int(shown)

    async def rolled_out(self, *, after: int) -> int:
        """The generation that follows, once its Pods alone are there."""
        async with asyncio.timeout(SECONDS):
            while (found := await self.generation()) == after:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await self._person.do("kubectl -n shop rollout status deployment/shop")
        count = "kubectl -n shop get pods -l app=shop -o name | wc -l"
        async with asyncio.timeout(SECONDS):
            while int(await self._person.do(count)) != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        return found


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
    app = App(person)
    await person.do("kubectl -n shop rollout status deployment/shop")
    said = await app.says("wrong password")
    assert "current_user shop in database shop" in said
    assert "may not change an order" in said
    assert "wrong password refused" in said

    # A new password comes into the container's files, and nobody restarts for it.
    before, generation = await app.pods(), await app.generation()
    await app.rotate()
    assert "wrong password refused" in await app.says("current_user shop")
    assert (await app.pods(), await app.generation()) == (before, generation)

    # Who asks for it gets exactly one rollout for a new password.
    await person.do(
        "kubectl -n shop annotate servicebindings.servicebinding.io/shop "
        "servicebinding.io/roll-on-change=true"
    )
    rolled = await app.rolled_out(after=generation)
    await app.rotate()
    assert await app.rolled_out(after=rolled) == rolled + 1
    before = await app.pods()

    # All programs are killed and the clusters are cut off: what was asked for comes to be once
    # they are joined again.
    provider.link(up=False)
    update = "privileges: [CONNECT, SELECT, INSERT, UPDATE]"
    manifest = (tmp_path / "app.yaml").read_text()
    changed = manifest.replace("privileges: [CONNECT, SELECT, INSERT]", update)
    (tmp_path / "app.yaml").write_text(changed)
    await person.do("kubectl apply -f app.yaml")
    for namespace in ("kube-bind", "fairlead-binding"):
        await person.do(f"kubectl -n {namespace} delete pods --all --force --grace-period=0")
    provider.link(up=True)
    for namespace in ("fairlead-postgres", "fairlead-provider"):
        provider.kubectl("-n", namespace, "delete", "pods", "--all", "--force")
    await app.says("may change an order")
    assert await app.pods() == before
    assert await app.generation() == rolled + 1

    # A team orders while all programs are updated: each app gets its login, and is written once.
    restart = "kubectl -n {0} rollout restart deployment"
    for number in range(ORDERS):
        text = manifest.replace("shop-database", f"more-{number}")
        text = text.replace("name: shop\n", f"name: more-{number}\n")
        text = text.replace("app: shop}", f"app: more-{number}}}")
        text = text.replace("username: shop", f"username: more{number}")
        (tmp_path / f"more-{number}.yaml").write_text(text)
    updated = {"kube-bind": consumer, "fairlead-binding": consumer, "fairlead-postgres": provider}
    updated["fairlead-provider"] = provider
    for number, (namespace, cluster) in zip(range(ORDERS), [*updated.items()] * 2, strict=True):
        cluster.kubectl(*restart.format(namespace).split()[1:])
        await person.do(f"kubectl apply -f more-{number}.yaml")
    await person.do(
        "kubectl -n shop wait --for=condition=Ready servicebindings.servicebinding.io --all "
        f"--timeout={SECONDS:.0f}s"
    )
    path = "{range .items[*]}{.metadata.name}={.metadata.generation} {end}"
    written = await person.do(f"kubectl -n shop get deployments -o jsonpath='{path}'")
    assert {*written.split()} == {
        f"shop={rolled + 1}", *(f"more-{number}=2" for number in range(ORDERS))
    }  # fmt: skip
    await person.do("kubectl -n shop rollout status deployment")
