"""README's commands, word for word, by somebody who has two clusters or none."""

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
from tests.support.documents import Block, Person, blocks, section
from tests.support.image import ROOT
from tests.support.kubectl import MISSING, kubectls
from tests.support.pairs import fresh_planes
from tests.support.pods import kubelet
from tests.support.provider import WIDGETS
from tests.support.tiers import real
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.postgres import database
from fairlead.demo.postgres.server import EmbeddedPostgres


ELSEWHERE = ("docker ", "kind ", "k3d ")
"""What needs an engine for containers."""

README = (ROOT / "README.md").read_text()
WIDGETS_README = (ROOT / "examples" / "widgets" / "README.md").read_text()

pytestmark = [pytest.mark.extended, pytest.mark.skipif(not kubectls(), reason=MISSING)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository, as somebody has it who has just cloned it."""
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

    async def read(self, person: Person, block: Block) -> None:
        """Have a person do what a block says, in the cluster that its paragraph names."""
        named = re.findall(r"(provider|consumer)'s cluster", block.paragraph)
        if named:
            person.environment["KUBECONFIG"] = str(self.kubeconfig(named[-1]))
        for command in block.commands:
            if "NAMESPACE" in command:
                command = command.replace("NAMESPACE", await self._namespace())  # noqa: PLW2901
            if not command.startswith(ELSEWHERE):
                await person.do(command)

    async def _namespace(self) -> str:
        """The provider's namespace that the widget of the example has come to."""
        (place,) = (
            item.to_dict()["status"]["namespace"]
            for item in (await self.admins["provider"].list(APISERVICENAMESPACES)).items
            if item.meta.name == "default"
        )
        await when(self.admins["provider"], WIDGETS, "blue", place, until=bool)
        return str(place)


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
    own_server(checkout / "examples" / "postgres" / "provider.yaml", server)
    clusters = Clusters(tmp_path)
    installed = Path(environment["HOME"], ".local", "bin", "fairlead")
    await clusters.start(stack, kind, installed)
    person = Person(
        stack, checkout, environment, lambda text: text.replace("=...", f"={server.password}")
    )
    for block in blocks(section(README, "On your own clusters")):
        await clusters.read(person, block)
    assert f"current_user {objects.USERNAME} in database shop" in await app(person)

    for block in blocks(WIDGETS_README):
        await clusters.read(person, block)
    await when(
        clusters.admins["consumer"],
        WIDGETS,
        "blue",
        "default",
        until=lambda body: body.get("status") == {"made": 3, "factory": "north"},
    )


def own_server(file: Path, server: EmbeddedPostgres) -> None:
    """Put our database server into the example, as its reader does; ours has no TLS."""
    text = file.read_text()
    for example, own in (
        ("host: postgres.databases.svc", f"host: {server.host}"),
        ("port: 5432", f"port: {server.port}"),
        ("sslMode: require", "sslMode: disable"),
    ):
        assert example in text
        text = text.replace(example, own)
    file.write_text(text)


async def app(person: Person) -> str:
    """What the app says of itself once its login is there."""
    command = (
        f"fairlead sandbox run deployment/shop -n shop -- {sys.executable} -m fairlead.demo.app"
    )
    await person.do(WAIT)
    return await person.do(command)


WAIT = f"kubectl -n shop wait --for=condition=Ready servicebinding/shop --timeout={SECONDS:.0f}s"


async def test_without_a_cluster(
    stack: AsyncExitStack, checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    def own(command: str) -> str:
        command = command.replace("/tmp/planes", str(tmp_path / "planes"))
        return re.sub(r"( wait .*)", rf"\1 --timeout={SECONDS:.0f}s", command)

    person = Person(stack, checkout, environment, own)
    printed = ""
    for block in blocks(section(README, "Without a cluster")):
        for command in block.commands:
            printed = await person.do(command)
    assert {"host", "port", "username", "password", "database"} <= set(printed.split())
    assert f"current_user {objects.USERNAME} in database shop" in await app(person)
