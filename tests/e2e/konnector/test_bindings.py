"""``fairlead bindings`` as a person runs it, between two control planes with a konnector."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.commands import FAIRLEAD, against, fairlead
from tests.support.konnector import WIDGETS, Requests, World, event, invited, offer, widget
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import APISERVICEBINDINGS, Isolation
from fairlead.api.meta import JSON
from fairlead.api.resource import SECRETS
from fairlead.client import Client
from fairlead.konnector.commands.overview import fetch
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import OverviewRow, make_row
from fairlead.konnector.commands.unbind import unbind
from fairlead.provider.options import ProviderOptions


async def rows(consumer: Client) -> dict[str, OverviewRow]:
    async with Overview(consumer) as overview:
        now = datetime.now(UTC)
        return {bound.binding.meta.name: make_row(bound, now) for bound in await overview.fetch()}


async def row_once(
    consumer: Client, name: str, until: Callable[[OverviewRow], Any]
) -> OverviewRow:
    """The line about a binding, once it is as wanted."""
    async with asyncio.timeout(SECONDS):
        while not until((found := await rows(consumer))[name]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found[name]


async def test_what_is_in_sync_and_what_is_not(world: World, tmp_path: Path) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    for name in ("blue", "green"):
        await world.consumer.create(WIDGETS, widget(name))
    row = await row_once(world.consumer, "widgets", lambda row: row.in_sync == 2)
    assert (row.objects, row.lag_seconds, row.problem) == (2, None, "")
    assert row.last_heartbeat_time
    namespace = await link.provider_namespace()
    await konnector.stop()
    await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    row = (await rows(world.consumer))["widgets"]
    assert (row.in_sync, row.objects) == (1, 2)
    assert row.lag_seconds is not None
    await world.provider.merge_patch(
        WIDGETS, "green", namespace, {"status": {"made": 1}}, subresource="status"
    )
    assert (await rows(world.consumer))["widgets"].in_sync == 0
    await konnector.start()
    await row_once(world.consumer, "widgets", lambda row: row.in_sync == 2)
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "bindings", "--json")
    assert code == 0, err
    (told,) = json.loads(out)["bindings"]
    assert told == msgspec.to_builtins((await rows(world.consumer))["widgets"])
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "bindings")
    assert code == 0, err
    header, line = out.splitlines()
    assert header.split()[:3] == ["BINDING", "PROVIDER", "RESOURCES"]
    assert line.split()[0] == "widgets"
    assert "2/2" in line


@pytest.mark.edge
@pytest.mark.parametrize("side", ["consumer", "provider"])
async def test_a_real_server_on_either_side(
    side: str, stack: AsyncExitStack, realplane: RealPlane
) -> None:
    world = World(stack, real=side, plane=realplane)
    await world.start()
    konnector = await world.konnector()
    await world.bound()
    for name in ("blue", "green"):
        await world.consumer.create(world.widgets, world.widget(name))
    row = await row_once(world.consumer, world.name, lambda row: row.in_sync == 2)
    assert (row.resources, row.problem) == ([world.widgets.group_resource], "")
    await konnector.stop()
    await world.consumer.merge_patch(world.widgets, "blue", "default", {"spec": {"colour": "red"}})
    row = (await rows(world.consumer))[world.name]
    assert (row.in_sync, row.objects) == (1, 2)
    assert row.lag_seconds is not None
    await konnector.start()
    lines: list[str] = []
    await unbind(world.consumer, world.name, timeout=SECONDS, progress=lines.append)
    assert f"deleted ClusterRole kube-bind-konnector-{world.name}" in lines
    assert world.name not in await rows(world.consumer)


@pytest.mark.parametrize(
    ("isolation", "scope"),
    [("Prefixed", "Cluster"), ("None", "Cluster"), ("Namespaced", "Namespaced")],
)
async def test_cluster_scoped_objects_are_found_where_isolation_puts_them(
    stack: AsyncExitStack, isolation: Isolation, scope: str
) -> None:
    world = World(stack, scope=scope, options=ProviderOptions(isolation=isolation))
    await world.start()
    await world.konnector()
    await world.bound()
    here = msgspec.structs.replace(world.widgets, namespaced=False)
    body = world.widget()
    del body["metadata"]["namespace"]
    await world.consumer.create(here, body)
    row = await row_once(world.consumer, world.name, lambda row: row.in_sync == 1)
    assert (row.objects, row.problem) == (1, "")


async def broken(world: World, change: Callable[[JSON], JSON], name: str = "lost") -> None:
    """A second binding, whose kubeconfig has been changed."""
    found = (await world.consumer.get(APISERVICEBINDINGS, "widgets")).to_dict()
    ref = found["spec"]["kubeconfigSecretRef"]
    secret = (await world.consumer.get(SECRETS, ref["name"], ref["namespace"])).to_dict()
    metadata = {"name": name, "namespace": ref["namespace"]}
    await world.consumer.create(
        SECRETS,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "data": change(secret["data"]),
        },
    )
    body = {**found, "metadata": {"name": name}}
    body["spec"] = {"kubeconfigSecretRef": {**ref, "name": name}}
    body.pop("status", None)
    await world.consumer.create(APISERVICEBINDINGS, body)


def elsewhere(data: JSON) -> JSON:
    """A kubeconfig that leads to a port where nobody listens."""
    text = base64.b64decode(data["kubeconfig"])
    moved = re.sub(rb"127\.0\.0\.1:\d+", b"127.0.0.1:1", text)
    assert moved != text
    return {"kubeconfig": base64.b64encode(moved).decode()}


def garbled(_data: JSON) -> JSON:
    return {"kubeconfig": base64.b64encode(b"{").decode()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(elsewhere, "127.0.0.1:1", id="unreachable"),
        pytest.param(garbled, "Secret kube-bind/lost, key kubeconfig: ", id="no-kubeconfig"),
        pytest.param(lambda _data: {}, "Secret kube-bind/lost, key kubeconfig: ", id="no-key"),
        pytest.param(lambda data: data, "has no APIServiceExport lost", id="no-export"),
    ],
)
async def test_one_binding_that_cannot_be_seen_does_not_spoil_the_others(
    world: World, tmp_path: Path, change: Callable[[JSON], JSON], message: str
) -> None:
    await world.konnector()
    await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await row_once(world.consumer, "widgets", lambda row: row.in_sync == 1)
    await broken(world, change)
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "bindings", "--once")
    assert code == 0, err
    _, lost, well = out.splitlines()
    assert lost.split()[0] == "lost"
    assert message in lost
    assert well.split()[0] == "widgets"
    assert "1/1" in well
    found = (await rows(world.consumer))["lost"]
    assert (found.in_sync, found.lag_seconds) == (None, None)


async def test_a_deleted_secret_and_a_silent_provider_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    konnector = await world.konnector()
    await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await row_once(world.consumer, "widgets", lambda row: row.in_sync == 1)
    await konnector.stop()
    monkeypatch.setattr(fetch, "PATIENCE", 0.0)
    row = (await rows(world.consumer))["widgets"]
    assert (row.in_sync, row.objects) == (None, 1)
    assert row.problem == "the provider did not answer within 0 s"
    monkeypatch.undo()
    binding = (await world.consumer.get(APISERVICEBINDINGS, "widgets")).to_dict()
    ref = binding["spec"]["kubeconfigSecretRef"]
    await world.consumer.delete(SECRETS, ref["name"], ref["namespace"])
    row = (await rows(world.consumer))["widgets"]
    assert row.in_sync is None
    assert f"Secret kube-bind/{ref['name']} with the provider's kubeconfig" in row.problem


async def test_looking_writes_nothing_and_asks_for_little(world: World) -> None:
    await world.konnector()
    await offer(world.provider, "other.org")
    one = await invited(world.consumer, world.provider, identity="shop")
    two = await invited(
        world.consumer, world.provider, name="gadgets", template="other.org", identity="shop"
    )
    await one.bind()
    await two.bind()
    for name in ("a", "b", "c"):
        await world.consumer.create(WIDGETS, widget(name))
    await row_once(world.consumer, "widgets", lambda row: row.in_sync == 3)
    seen = Requests(world.consumer_plane), Requests(world.provider_plane)
    for requests in seen:
        requests.seen.clear()
    assert set(await rows(world.consumer)) == {"gadgets", "widgets"}
    for requests in seen:
        assert requests.count("create", "update", "patch", "delete") == 0
    assert seen[1].count("list", resource="widgets") == 1
    assert seen[1].count("get", resource="secrets") == 0


async def test_a_cluster_without_kube_bind_has_nothing_bound(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    plane, _ = await World(stack).plane("empty")
    code, out, _ = await fairlead(plane, tmp_path, "bindings")
    assert code == 0
    assert "fairlead bind -f FILE" in out
    code, out, _ = await fairlead(plane, tmp_path, "bindings", "--json")
    assert (code, json.loads(out)) == (0, {"bindings": []})
    code, _, err = await fairlead(plane, tmp_path, "unbind", "db", "--yes")
    assert (code, err.count("kube-bind is not installed in this cluster")) == (1, 1)
    code, out, err = await fairlead(plane, tmp_path, "provider", "consumers")
    assert (code, out) == (1, "")
    assert "no kind APIServiceExport: is this the provider's cluster?" in err
    file = str(tmp_path / "invitation.json")
    code, _, err = await fairlead(
        plane, tmp_path, "provider", "invite", "shop", "--template", "db", "-o", file
    )
    assert (
        code,
        err.count("no kind APIServiceExportTemplate: is this the provider's cluster?"),
    ) == (1, 1)


async def test_a_terminal_is_kept_up_to_date_until_it_is_interrupted(
    world: World, tmp_path: Path
) -> None:
    await world.konnector()
    link = await world.bound()
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "bindings", *against(world.consumer_plane, tmp_path)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140"},
    )
    os.close(theirs)
    said = ""

    async def until(text: str) -> None:
        nonlocal said
        async with asyncio.timeout(SECONDS):
            while text not in said:
                said += (await asyncio.to_thread(os.read, ours, 65536)).decode()

    try:
        await until("0/0")
        await world.consumer.create(WIDGETS, widget())
        await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
        await until("1/1")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        assert "Traceback" not in said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def test_objects_that_are_not_in_sync_say_what_they_wait_for(
    world: World, tmp_path: Path
) -> None:
    await world.konnector()
    await world.bound()
    for name in ("blue", "green"):
        await world.consumer.create(WIDGETS, widget(name))
    await row_once(world.consumer, "widgets", lambda row: row.in_sync == 2)
    ask = ("bindings", "widgets", "--objects")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *ask)
    assert (code, out, err) == (0, "All objects of widgets are in sync.\n", "")
    world.provider_plane.faults.fail("update", "widgets", 422, times=-1)
    await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    told = await event(world.consumer, "default", "SyncFailed")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *ask)
    assert code == 0, err
    header, line = out.splitlines()
    assert header.split() == ["OBJECT", "SINCE", "WHY"]
    assert line.startswith("Widget default/blue ")
    refusal = f"the provider refuses its last change: {told['message']}"
    assert f"{refusal}; next: " in line
    assert "warned" not in line
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *ask, "--json")
    (found,) = json.loads(out)["objects"]
    assert (found["name"], found["state"], found["waitsFor"]) == ("blue", "failed", refusal)
    assert (found["reason"], found["warning"]) == ("SyncFailed", "")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "explain", "widget/blue")
    assert code == 1, err
    assert refusal in " ".join(out.split())
    assert "next: " in out


async def test_one_binding_is_shown_and_a_wrong_name_is_told(world: World, tmp_path: Path) -> None:
    await world.konnector()
    await world.bound()
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "bindings", "widgets")
    assert (code, len(out.splitlines())) == (0, 2), err
    for more in ((), ("--objects",)):
        shown = await fairlead(world.consumer_plane, tmp_path, "bindings", "widget", *more)
        message = "Error: APIServiceBinding widget does not exist; did you mean widgets?\n"
        assert shown == (1, "", message)
    # Manifests of a version that the provider has taken away are refused by a 404 alone.
    shown = await fairlead(
        world.consumer_plane, tmp_path, "explain", "widget.v2beta1.example.org/x"
    )
    served = out.splitlines()[1].partition("(")[2].partition(")")[0]
    assert shown[0] == 1
    assert f"Widget is served in {served} of example.org, and not in v2beta1" in shown[2]
    assert "write apiVersion example.org/v1" in shown[2]
    world.provider_plane.faults.partition()
    code, out, err = await fairlead(
        world.consumer_plane, tmp_path, "bindings", "widgets", "--objects"
    )
    assert (code, out) == (1, "")
    assert err.startswith("Error: the objects of widgets cannot be compared: cannot reach")
    world.provider_plane.faults.heal()
