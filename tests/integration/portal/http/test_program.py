"""The front door as its manifests run it: its rights, its readiness, several replicas."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.planes import SandboxControlPlane
from tests.support.portal import serve_options
from tests.support.process import config_file
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, provider_crds
from fairlead.client import Client, ClusterConfig, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal.app import build
from fairlead.portal.http.serving import ListeningError, PortalServer
from fairlead.portal.manifests import manifests
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.runtime import Cluster, Manager, install_crds


@pytest.fixture
async def config(sandboxplane: SandboxControlPlane) -> ClusterConfig:
    """The program's own ServiceAccount."""
    async with Client(parse_kubeconfig(sandboxplane.kubeconfig())) as admin:
        await install_crds(admin, provider_crds())
        bodies = manifests(
            image="fairlead",
            external_url="https://bind.example.org",
            issuer_url="https://login.example.org",
            client_id="fairlead",
        )
        await create_all(admin, bodies)
        return await as_service_account(admin, DEFAULT_NAMESPACE, NAME)


class Catalogue:
    """A part as others are: it has an informer, a route, a task and something to wait for."""

    name = "catalogue"

    def __init__(self, cluster: Cluster) -> None:
        self.fault = ""
        self.ran = asyncio.Event()
        self._templates = cluster.informer(APISERVICEEXPORTTEMPLATES)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/count", self.count)]

    async def count(self, request: web.Request) -> web.Response:
        assert self._templates.has_synced, "it was asked before it knew"
        return web.json_response({"count": len(list(self._templates.list()))})

    def not_ready(self) -> str:
        return self.fault

    async def run(self) -> None:
        self.ran.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def replica(config: ClusterConfig) -> AsyncIterator[tuple[PortalServer, Manager, Catalogue]]:
    async with Client(config) as client:
        manager, cluster = Manager(), Cluster(NAME, client)
        catalogue = Catalogue(cluster)
        server = build(manager, cluster, serve_options(), [catalogue])
        task = asyncio.create_task(manager.run())
        async with asyncio.timeout(SECONDS):
            while server.not_ready() and not task.done():  # noqa: ASYNC110  another task's turn
                await asyncio.sleep(0.01)
        try:
            yield server, manager, catalogue
        finally:
            task.cancel()
            await asyncio.wait([task])


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_replicas_serve_side_by_side_once_their_caches_are_filled(
    config: ClusterConfig,
) -> None:
    async with replica(config) as (one, manager, catalogue), replica(config) as (other, _, _):
        answers = await asyncio.gather(get(one.url + "/api/count"), get(other.url + "/api/count"))
        assert answers[0] == answers[1]
        assert answers[0][0] == 200
        assert catalogue.ran.is_set()
        status, text = await get(manager.health_url + "/readyz?verbose")
        assert status == 200, text
        assert "[+]portal ok" in text
        assert "[+]catalogue ok" in text
        catalogue.fault = "the issuer is away"
        status, text = await get(manager.health_url + "/readyz")
        assert status == 500
        assert "[-]catalogue failed: the issuer is away" in text


async def test_an_address_that_is_taken_ends_the_program(config: ClusterConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with Client(config) as client:
            manager, cluster = Manager(), Cluster(NAME, client)
            build(manager, cluster, serve_options(port=port))
            with pytest.raises(ListeningError, match="another address to --listen-address"):
                async with asyncio.timeout(SECONDS):
                    await manager.run()


async def said(stream: asyncio.StreamReader, message: str) -> dict[str, Any]:
    """The first line of a log with this message."""
    async with asyncio.timeout(SECONDS):
        while line := await stream.readline():
            found: dict[str, Any] = json.loads(line)
            if found.get("msg") == message:
                return found
    raise AssertionError(f"nothing said {message!r}")


async def test_the_program_itself(config: ClusterConfig, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(config))
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairlead", "provider", "serve", "--kubeconfig", str(file)),
        *("--external-url", "https://bind.example.org", "--listen-address", "127.0.0.1:0"),
        *("--oidc-issuer-url", "http://127.0.0.1:1", "--oidc-issuer-client-id", "fairlead"),
        *("--log-format", "json"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert program.stderr is not None
        url = (await said(program.stderr, "serving"))["url"]
        assert (await get(url + "/healthz")) == (200, "ok")
        status, text = await get(url + "/api/exports?session_id=s")
        assert status == 200
        assert "https://bind.example.org/api/authorize?session_id=s" in text
        program.terminate()
        async with asyncio.timeout(SECONDS):
            await program.stderr.read()
            assert await program.wait() == 0
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
