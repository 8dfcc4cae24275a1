"""The tutorials from the installation on, word for word, by a person with two clusters or none.

tests/e2e/docs has all pages, with the programs of the checkout; here `uv` installs them, and the
clusters may be real ones.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uv
from hack.landing.table import PARTS
from tests.support.documents import Block, Person, blocks, section
from tests.support.image import ROOT
from tests.support.kubectl import MISSING, kubectls
from tests.support.pages import CONSUMER, PROVIDER, Fence
from tests.support.pairs import fresh_planes
from tests.support.pods import kubelet
from tests.support.provider import WIDGETS
from tests.support.reading import done, reached, read, waited
from tests.support.tiers import real
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.postgres import database
from fairlead.demo.postgres.server import EmbeddedPostgres


CLUSTERS = {PROVIDER: "provider", CONSUMER: "consumer"}
TUTORIALS = ROOT / "docs" / "tutorials"
README = (ROOT / "README.md").read_text()
WIDGETS_README = (ROOT / "examples" / "03-widgets" / "README.md").read_text()

pytestmark = [pytest.mark.extended, pytest.mark.skipif(not kubectls(), reason=MISSING)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository, as it is right after a clone."""
    folder = tmp_path / "fairlead"
    for name in ("src", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home of one's own, and of our programs none but uv on PATH."""
    home, tools = tmp_path / "home", tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").symlink_to(uv.find_uv_bin())
    ours = str(Path(sys.executable).parent)
    path = [part for part in os.environ["PATH"].split(os.pathsep) if part != ours]
    cache = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    return {
        **{name: text for name, text in os.environ.items() if name != "KUBECONFIG"},
        "HOME": str(home),
        "PATH": os.pathsep.join([str(home / ".local" / "bin"), str(tools), *path]),
        "UV_CACHE_DIR": cache,
        "UV_PYTHON": sys.executable,
    }


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


class Clusters:
    """The two clusters of the document, each with a node that runs Fairlead's programs."""

    def __init__(self, folder: Path) -> None:
        self.admins: dict[str, Client] = {}
        self._folder = folder

    async def start(self, stack: AsyncExitStack, kind: str, fairlead: Path) -> None:
        names = ("provider", "consumer")
        planes = await stack.enter_async_context(fresh_planes(kind, *names))
        for name, plane in zip(names, planes, strict=True):
            self.kubeconfig(name).write_bytes(plane.kubeconfig())
            client = Client(parse_kubeconfig(plane.kubeconfig()))
            admin = self.admins[name] = await stack.enter_async_context(client)
            await stack.enter_async_context(kubelet(admin, fairlead, self._folder / name))

    def kubeconfig(self, name: str) -> Path:
        return self._folder / f"{name}.kubeconfig"

    async def read(self, person: Person, fence: Fence) -> str:
        """Have a person do what a block says, in the cluster that its title names."""
        if cluster := CLUSTERS.get(fence.title):
            person.environment["KUBECONFIG"] = str(self.kubeconfig(cluster))
        return await done(person, fence)

    async def read_widgets(self, person: Person, block: Block) -> None:
        """Have a person do what a block says, in the cluster that its paragraph names."""
        named = re.findall(r"(provider|consumer)'s cluster", block.paragraph)
        if named:
            person.environment["KUBECONFIG"] = str(self.kubeconfig(named[-1]))
        for command in block.commands:
            if "NAMESPACE" in command:
                command = command.replace("NAMESPACE", await self._namespace())  # noqa: PLW2901
            await person.do(command)

    async def _namespace(self) -> str:
        """The provider's namespace that the widget of the example has come to."""
        (item,) = (
            item
            for item in (await self.admins["provider"].list(APISERVICENAMESPACES)).items
            if item.meta.name == "default"
        )
        body = await when(
            self.admins["provider"],
            APISERVICENAMESPACES,
            item.meta.name,
            item.meta.namespace,
            until=lambda body: body.get("status", {}).get("namespace"),
        )
        place = body["status"]["namespace"]
        await when(self.admins["provider"], WIDGETS, "blue", place, until=bool)
        return str(place)


def test_the_readme_names_what_the_makefile_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"\bmake ([a-z-]+)", README)
    assert named == ["demo", "docs-serve", "test"]
    assert set(named) <= targets
    assert (ROOT / ".ci" / "run").read_text().endswith("\nexec make landing\n")
    called = {target for part in PARTS if part.always for target in part.targets}
    assert {"docs", "test"} <= called


@pytest.mark.parametrize("kind", ["sandbox", real("real")])
async def test_on_your_own_clusters(
    kind: str,
    request: pytest.FixtureRequest,
    stack: AsyncExitStack,
    checkout: Path,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    if kind == "real":
        request.getfixturevalue("real_programs")
    server = await stack.enter_async_context(EmbeddedPostgres())
    await database.prepare(server, objects.DATABASE)
    clusters = Clusters(tmp_path)
    installed = Path(environment["HOME"], ".local", "bin", "fairlead")
    await clusters.start(stack, kind, installed)

    def own(text: str) -> str:
        """Put our database server into the example, as its reader does; ours has no TLS."""
        for example, mine in (
            ("host: postgres.databases.svc", f"host: {server.host}"),
            ("externalHost: postgres.example.com", f"externalHost: {server.host}"),
            ("externalPort: 5432", f"externalPort: {server.port}"),
            ("port: 5432", f"port: {server.port}"),
            ("sslMode: require", "sslMode: disable"),
            ("password=...", f"password={server.password}"),
        ):
            text = text.replace(example, mine)
        return waited(reached(text, clusters.kubeconfig("provider").read_bytes()))

    person = Person(stack, checkout, environment, own)
    await read(TUTORIALS / "own-clusters.md", person, checkout, own, clusters.read)
    assert f"current_user {objects.USERNAME} in database shop" in await app(person)

    for block in blocks(section(WIDGETS_README, "On your own clusters")):
        await clusters.read_widgets(person, block)
    await when(
        clusters.admins["consumer"],
        WIDGETS,
        "blue",
        "default",
        until=lambda body: body.get("status") == {"made": 3, "factory": "north"},
    )


async def app(person: Person) -> str:
    """What the app says of itself once its login is there."""
    command = (
        f"fairlead sandbox run deployment/shop -n shop -- {sys.executable} -m fairlead.demo.app"
    )
    await person.do(WAIT)
    return await person.do(command)


WAIT = (
    "kubectl -n shop wait --for=condition=Ready servicebindings.servicebinding.io/shop "
    f"--timeout={SECONDS:.0f}s"
)


async def test_without_a_cluster(
    stack: AsyncExitStack, checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    def own(text: str) -> str:
        return waited(text.replace("/tmp/planes", str(tmp_path / "planes")))

    person = Person(stack, checkout, environment, own)
    await read(TUTORIALS / "without-a-cluster.md", person, checkout, own, done)
    assert f"current_user {objects.USERNAME} in database shop" in await app(person)
