from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.sandbox.api import CONFIGMAPS, CRDS, WIDGETS, Api, configmap, crd, widget

from fairlead_sandbox import Sandbox


@pytest.mark.parametrize("kept", ["memory", "file"])
async def test_a_restart_keeps_everything(tmp_path: Path, kept: str) -> None:
    sandbox = Sandbox(tls=False, rbac=False, data=tmp_path if kept == "file" else None)
    await sandbox.start()
    async with Api(sandbox.url) as api:
        await api.post(CRDS, crd())
        made = (await api.post(WIDGETS, widget("a", spec={"size": 1}))).body
        changed = (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).body
        url = sandbox.url
    await sandbox.stop()
    async with sandbox, Api(sandbox.url) as api:
        assert sandbox.url == url
        assert (await api.get(f"{WIDGETS}/a")).body == changed
        version = made["metadata"]["resourceVersion"]
        async with api.watch(WIDGETS, resourceVersion=version) as events:
            assert (await events.next())["object"] == changed
        newer = (await api.post(CONFIGMAPS, configmap("b"))).body["metadata"]["resourceVersion"]
        assert int(newer) > int(changed["metadata"]["resourceVersion"])


async def test_a_restart_remembers_compaction(tmp_path: Path) -> None:
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox:
        sandbox.faults.compact()
    async with (
        Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox,
        Api(sandbox.url) as api,
        api.watch(CONFIGMAPS, resourceVersion="1") as events,
    ):
        assert (await events.next())["object"]["code"] == 410


async def test_owners_are_known_after_a_restart(tmp_path: Path) -> None:
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox, Api(sandbox.url) as api:
        uid = (await api.post(CONFIGMAPS, configmap("owner"))).body["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await api.post(CONFIGMAPS, configmap("a", ownerReferences=[owner]))
    async with (
        Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox,
        Api(sandbox.url) as api,
        api.watch(CONFIGMAPS, fieldSelector="metadata.name=a") as events,
    ):
        assert (await events.next())["type"] == "ADDED"
        await api.delete(f"{CONFIGMAPS}/owner")
        assert (await events.next())["type"] == "DELETED"


async def test_a_new_default_is_still_shown_after_a_restart(tmp_path: Path) -> None:
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default"
    change = [{"op": "add", "path": path, "value": 7}]
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox, Api(sandbox.url) as api:
        await api.post(CRDS, crd())
        await api.post(WIDGETS, widget("a", spec={}))
        await api.patch(f"{CRDS}/widgets.example.org", change, "application/json-patch+json")
        assert (await api.get(f"{WIDGETS}/a")).body["spec"] == {"size": 7}
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox, Api(sandbox.url) as api:
        assert (await api.get(f"{WIDGETS}/a")).body["spec"] == {"size": 7}


async def test_what_a_full_disk_refused_is_not_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox, Api(sandbox.url) as api:

        def full(rows: object) -> None:
            raise OSError("disk is full")

        monkeypatch.setattr(sandbox.core.store.log, "append", full)
        assert (await api.post(CONFIGMAPS, configmap("a"))).code == 507
    async with Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox, Api(sandbox.url) as api:
        assert (await api.get(f"{CONFIGMAPS}/a")).code == 404


def test_a_stopped_sandbox_has_no_core() -> None:
    with pytest.raises(RuntimeError, match="sandbox idle is not running"):
        _ = Sandbox(name="idle", tls=False, rbac=False).core


async def test_a_handshake_that_ends_after_the_stop_is_cut() -> None:
    """Nobody would close such a connection, and what answers on it has stopped."""
    async with Sandbox() as sandbox:
        host, _, port = sandbox.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context(cadata=sandbox.ca_pem.decode())
        late = socket.create_connection((host, int(port)))
        late.settimeout(10)
        _, next_in_line = await asyncio.open_connection(host, int(port), ssl=context)
        next_in_line.transport.abort()

    def ask() -> bytes:
        try:
            with context.wrap_socket(late, server_hostname=host) as secure:
                secure.sendall(b"GET /version HTTP/1.1\r\nHost: sandbox\r\n\r\n")
                return secure.recv(1)
        except OSError:
            return b""

    assert await asyncio.to_thread(ask) == b""


async def test_a_connection_that_comes_with_the_stop_is_cut() -> None:
    sandbox = Sandbox(tls=False, rbac=False)
    await sandbox.start()
    loop = asyncio.get_running_loop()
    host, _, port = sandbox.url.removeprefix("http://").partition(":")
    stopping: asyncio.Future[asyncio.Task[None]] = loop.create_future()
    with socket.create_connection((host, int(port))) as late:
        late.setblocking(False)
        # In the next turn of the loop the connection is accepted, right after this.
        loop.call_soon(lambda: stopping.set_result(loop.create_task(sandbox.stop())))
        await (await stopping)
        async with asyncio.timeout(10):
            with suppress(ConnectionError):
                assert await loop.sock_recv(late, 1) == b""
    await sandbox.close()
