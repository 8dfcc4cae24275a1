"""The pages of docs/tutorials and docs/how-to, block by block, as their readers run them.

All share two sandboxes and a PostgreSQL, which the tutorial "Fairlead on your own clusters" makes
into what the how-to pages begin with. So the order counts, and a page makes names of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from tests.support.documents import Person
from tests.support.forked import served
from tests.support.kubectl import MISSING, kubectls
from tests.support.pages import CONSUMER, PROVIDER, Fence, fences_of, pages, printed
from tests.support.pairs import fresh_planes
from tests.support.pods import kubelet
from tests.support.reading import reached
from tests.support.waiting import SECONDS

from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.postgres import database
from fairlead.demo.postgres.server import EmbeddedPostgres


CLUSTERS = {PROVIDER: "provider", CONSUMER: "consumer"}
FIRST = ("own-clusters", "own-crd", "console", "administrator-rights", "offer-a-service")
LAST = ("unbind", "uninstall")
"""Pages that take away what others need."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.extended,
    pytest.mark.skipif(not kubectls(), reason=MISSING),
]


class Reader:
    """A reader at a terminal: two clusters with nodes, and a database server."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._server = EmbeddedPostgres()
        tools = folder / "tools"
        tools.mkdir()
        self.fairlead = tools / "fairlead"
        self._environment = {
            **{name: text for name, text in os.environ.items() if name != "KUBECONFIG"},
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
        }

    async def start(self) -> None:
        """Start clusters and database server, as the reader has them."""
        await self._stack.enter_async_context(served(self.fairlead))
        await self._stack.enter_async_context(self._server)
        await database.prepare(self._server, objects.DATABASE)
        names = tuple(CLUSTERS.values())
        planes = await self._stack.enter_async_context(fresh_planes("sandbox", *names))
        for name, plane in zip(names, planes, strict=True):
            (self._folder / f"{name}.kubeconfig").write_bytes(plane.kubeconfig())
            client = Client(parse_kubeconfig(plane.kubeconfig()))
            admin = await self._stack.enter_async_context(client)
            node = self._folder / "nodes" / name
            await self._stack.enter_async_context(kubelet(admin, self.fairlead, node))

    async def read(self, page: Path) -> None:
        """Do what a page says.

        Raises:
            AssertionError: a block does not end as its page says, or prints something else.
        """
        self._environment.pop("KUBECONFIG", None)
        # What a page starts ends with it.
        async with AsyncExitStack() as stack:
            person = Person(stack, self._folder, self._environment, self._own)
            await self._read(person, page)

    async def _read(self, person: Person, page: Path) -> None:
        shown = ""
        for fence in fences_of(page):
            where = f"{page.name}:{fence.line}"
            if fence.not_run:
                continue
            if fence.language == "yaml":
                (self._folder / fence.title).write_text(self._own(fence.text))
            elif fence.language == "sql":
                await self._sql(fence, where)
            elif fence.language == "sh":
                shown = await self._sh(person, fence, where)
            elif fence.language == "text":
                missing = printed(fence.text, shown)
                assert not missing, f"{where}: {missing!r} is not in\n{shown}"

    async def _sh(self, person: Person, fence: Fence, where: str) -> str:
        if cluster := CLUSTERS.get(fence.title):
            self._environment["KUBECONFIG"] = str(self._folder / f"{cluster}.kubeconfig")
        *first, last = fence.commands
        shown = [await _do(person, command, 0, where) for command in first]
        return "".join([*shown, await _do(person, last, fence.exit_code, where)])

    async def _sql(self, fence: Fence, where: str) -> None:
        server = self._server
        name = fence.title.removeprefix("Database ")
        dsn = f"host={server.host} port={server.port} user={server.username} dbname={name}"
        connection = await psycopg.AsyncConnection.connect(
            dsn, password=server.password, autocommit=True
        )
        async with connection:
            try:
                await connection.execute(fence.text.encode())
            except psycopg.Error as error:
                raise AssertionError(f"{where}: {error}") from None

    def _own(self, text: str) -> str:
        """Put the reader's own in the place of examples; our server has no TLS."""
        server = self._server
        provider = self._folder / f"{CLUSTERS[PROVIDER]}.kubeconfig"
        text = reached(text, provider.read_bytes())
        text = text.replace("host: postgres.databases.svc", f"host: {server.host}")
        text = text.replace("externalHost: postgres.example.com", f"externalHost: {server.host}")
        text = text.replace("externalPort: 5432", f"externalPort: {server.port}")
        text = text.replace("port: 5432", f"port: {server.port}")
        text = text.replace("sslMode: require", "sslMode: disable")
        text = text.replace("/tmp/planes", str(self._folder / "planes"))
        text = text.replace("password=...", f"password={server.password}")
        text = re.sub(r"( wait .*)", rf"\1 --timeout={SECONDS:.0f}s", text)
        return re.sub(r"-- python app.py\b", f"-- {sys.executable} -m fairlead.demo.app", text)


async def _do(person: Person, command: str, exit_code: int, where: str) -> str:
    if exit_code:
        command = f"(set -o pipefail; {command}) || test $? = {exit_code}"
    try:
        return await person.do(command)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from None


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    async with AsyncExitStack() as stack:
        reader = Reader(stack, tmp_path_factory.mktemp("reader"))
        await reader.start()
        yield reader


def _ordered() -> list[Path]:
    def place(page: Path) -> tuple[int, str]:
        if page.stem in FIRST:
            return FIRST.index(page.stem) - len(FIRST), page.stem
        return (1 + LAST.index(page.stem) if page.stem in LAST else 0), page.stem

    return sorted(pages(), key=place)


@pytest.mark.parametrize("page", _ordered(), ids=lambda page: f"{page.parent.name}-{page.stem}")
async def test_a_page_does_what_it_says(reader: Reader, page: Path) -> None:
    await reader.read(page)
