"""The konnector's benchmark: what is computed, and that its load loads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
from bench import loading
from bench.loading import NAMESPACES, Awaited, Side, Watched, side
from bench.planes import Scrape
from bench.rows import Row
from bench.sync import (
    BARE,
    SYNCED,
    Bare,
    Figures,
    Latencies,
    Latency,
    Restart,
    Round,
    Way,
    changes,
    crd,
    create,
    size,
    status,
)
from bench.sync import all_compared as settled
from bench.sync import rows as sync_rows
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES as NAMESPACE_KIND
from fairlead.client import Client, parse_kubeconfig
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


KIB = 1024
FEW = Figures(
    1000,
    3,
    8,
    Round(bare=4.5, seconds=5.0, cpu=2.0),
    memory=9_500 * KIB,
    latencies=Latencies(
        Latency(1.0, 0.004), Latency(3.0, 0.006), Latency(0.5, 0.001), Latency(0.5, 0.001)
    ),
    restart=None,
)
MANY = Figures(
    10_000, 1, 16, Round(50.0, 100.0, 24.0), 100_000 * KIB, None, Restart(2.0, 0, 3.0, 1 << 27)
)


def found() -> dict[str, Row]:
    return {row.key: row for one in (FEW, MANY) for row in sync_rows("sandbox", one)}


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        pytest.param("1000_of_bare", 0.9, True, id="throughput"),
        pytest.param("10000_of_bare", 0.5, False, id="throughput-of-many"),
        pytest.param("10000_cpu", 2.4, None, id="cpu-per-thousand"),
        pytest.param("1000_memory_kib", 9.5, True, id="memory"),
        pytest.param("spec_echo", 2.0, True, id="spec-echo"),
        pytest.param("status_echo", 6.0, False, id="status-echo"),
        pytest.param("status_alone_echo", 6.0, False, id="alone"),
        pytest.param("restart_seconds", 2.0, None, id="restart"),
        pytest.param("restart_writes", 0.0, True, id="restart-writes"),
    ],
)
def test_figures_become_rows(key: str, value: float, *, holds: bool | None) -> None:
    row = found()[f"sync_sandbox_{key}"]
    assert row.value == pytest.approx(value)
    assert row.holds is holds


def test_figures_stand_beside_their_limits() -> None:
    note = found()["sync_sandbox_1000_of_bare"].note
    assert note == "200 objects/s against 222 with 8 connections; median of 3 rounds"
    assert found()["sync_sandbox_spec_echo"].note == "1,000.0 ms against 500.0 ms"


def metrics(objects: int, compared: int, *, depth: int = 0, active: int = 0) -> str:
    resource = SYNCED.group_resource
    return (
        f'fairlead_informer_objects{{cluster="a",resource="{resource}"}} {objects}\n'
        f'fairlead_informer_objects{{cluster="b",resource="{resource}"}} {objects}\n'
        f'fairlead_informer_objects{{cluster="b",resource="others"}} 99\n'
        f'controller_runtime_reconcile_total{{controller="sync-{resource}"}} {compared}\n'
        f'workqueue_depth{{controller="sync-{resource}"}} {depth}\n'
        f'workqueue_depth{{controller="other"}} 5\n'
        f'controller_runtime_active_workers{{controller="sync-{resource}"}} {active}\n'
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("", False, id="no-syncer"),
        pytest.param(metrics(9, 10), False, id="cache-not-full"),
        pytest.param(metrics(10, 9), False, id="not-all-compared"),
        pytest.param(metrics(10, 10, depth=1), False, id="one-waits"),
        pytest.param(metrics(10, 10, active=1), False, id="one-is-worked-on"),
        pytest.param(metrics(10, 12), True, id="settled"),
    ],
)
def test_a_konnector_is_ready_when_it_has_compared_everything(text: str, *, wanted: bool) -> None:
    assert settled(Scrape(text), 10) is wanted


async def _prepare(admin: Client) -> None:
    await install_crds(admin, [crd(SYNCED), crd(BARE)])
    for name in NAMESPACES:
        body: JSON = {"metadata": {"name": name}}
        await admin.create(NAMESPACE_KIND, {"apiVersion": "v1", "kind": "Namespace", **body})


class Plane:
    """A sandbox, its administrator and a loader who may do everything."""

    def __init__(self, admin: Client, load: Side) -> None:
        self.admin = admin
        self.load = load


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    async with Sandbox() as server:
        config = parse_kubeconfig(server.kubeconfig())
        async with Client(config) as admin, side(config) as load:
            await _prepare(admin)
            yield Plane(admin, load)


async def test_the_bare_loader_writes_what_the_konnector_writes(plane: Plane) -> None:
    # One server has both roles; only the provider's create would be a second one there.
    writes = Bare(plane.load, plane.load)._writes("bare-0", 0)
    copy = writes.pop(2)[1]
    for where, write in writes:
        await where.send(write)
    stored = (await plane.admin.get(BARE, "bare-0", NAMESPACES[0])).to_dict()
    told = stored["metadata"]["annotations"]
    assert {name for name in told if name.startswith("kube-bind.io/")} == {
        "kube-bind.io/provider-namespace",
        "kube-bind.io/provider-uid",
    }
    assert stored["metadata"]["finalizers"] == ["kubebind.io/syncer"]
    assert stored["status"]["seen"] == 1
    assert b"kube-bind.io/consumer-uid" in (copy.body or b"")
    assert 2200 <= len(json.dumps(stored, separators=(",", ":"))) <= 4000


async def test_changes_are_timed_until_they_are_seen(plane: Plane) -> None:
    keys = []
    for number in range(5):
        await plane.load.send(create(BARE, f"echo-{number}", number))
        keys.append((NAMESPACES[number], f"echo-{number}"))
    back = Way(plane.load, plane.load, BARE, status, lambda seen: seen.status.seen)
    for way in (back, back._replace(write=size, read=lambda seen: seen.spec.size)):
        seconds = await changes(way, keys, connections=2, samples=15)
        assert len(seconds) >= 15
        assert min(seconds) > 0


async def test_a_refused_write_ends_the_benchmark(plane: Plane) -> None:
    write = partial(plane.load.send, create(BARE, "twice", 0))
    await write()
    with pytest.raises(RuntimeError, match="AlreadyExists"):
        await write()


async def test_a_watch_that_ends_and_a_server_that_is_not_ready_are_asked_again() -> None:
    async with Sandbox() as server:
        config = parse_kubeconfig(server.kubeconfig())
        async with Client(config) as admin, side(config) as load:
            await _prepare(admin)
            seen = asyncio.Event()
            async with load.watching(BARE, Watched, lambda _type, _seen: seen.set()):
                server.faults.end_watches()
                # A server whose storage is not ready for a new kind says so.
                server.faults.fail("create", BARE.plural, 429)
                await load.send(create(BARE, "one", 0))
                async with asyncio.timeout(SECONDS):
                    await seen.wait()


async def test_what_is_never_done_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LIMIT_SECONDS", 0.0)
    missing = Awaited(["b", "a", "c"])
    missing.told("c")
    with pytest.raises(RuntimeError, match="2 are not done: a, b"):
        await missing.wait()


def test_objects_are_spread_over_the_namespaces() -> None:
    assert len({create(SYNCED, "name", number).path for number in range(40)}) == 20
