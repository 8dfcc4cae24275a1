"""Faults that only the embedded server can be told to make, over the whole stack.

For each: nothing is lost, nothing comes twice, nothing spins (requests are counted).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.contract.test_reflector import quick, told_by, until

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import Client, parse_kubeconfig
from fairlead.runtime import BackoffPolicy, Cluster, Metrics
from fairlead_sandbox import Sandbox


Fault = Callable[[Sandbox], Awaitable[None]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=False, rbac=False) as sandbox:
        yield sandbox


async def drop(sandbox: Sandbox) -> None:
    sandbox.faults.drop_watches("configmaps")


async def end(sandbox: Sandbox) -> None:
    sandbox.faults.end_watches("configmaps")


async def cut_event(sandbox: Sandbox) -> None:
    sandbox.faults.cut_event("configmaps")


async def forget(sandbox: Sandbox) -> None:
    sandbox.faults.fail("watch", "configmaps", code=410)
    sandbox.faults.drop_watches("configmaps")


async def compact(sandbox: Sandbox) -> None:
    sandbox.faults.compact()
    sandbox.faults.drop_watches("configmaps")


async def throttle(sandbox: Sandbox) -> None:
    for verb in ("list", "watch"):
        sandbox.faults.fail(verb, "configmaps", code=429, times=1, retry_after=1)
    sandbox.faults.drop_watches("configmaps")


async def fail(sandbox: Sandbox) -> None:
    for verb in ("list", "watch"):
        sandbox.faults.fail(verb, "configmaps", code=500, times=2)
    sandbox.faults.drop_watches("configmaps")


async def refuse(sandbox: Sandbox) -> None:
    sandbox.faults.fail("watch", "configmaps", code=503, times=2)
    sandbox.faults.drop_watches("configmaps")


FAULTS = [
    pytest.param(drop, id="watch-dropped"),
    pytest.param(end, id="watch-ended-early"),
    pytest.param(cut_event, id="cut-mid-event"),
    pytest.param(forget, id="410"),
    pytest.param(compact, id="compacted"),
    pytest.param(throttle, id="429-retry-after"),
    pytest.param(fail, id="500"),
    pytest.param(refuse, id="503"),
]


class Watching:
    """An informer through a client whose requests are counted, and a client to write with."""

    def __init__(self, direct: Client, watching: Client, metrics: Metrics) -> None:
        policy = BackoffPolicy(initial=0.05, maximum=0.4)
        self.direct = direct
        self.cluster = Cluster("faulty", watching, backoff=policy)
        self.informer = self.cluster.informer(CONFIGMAPS, namespace="default")
        self.told = told_by(self.informer)
        self._metrics = metrics

    async def create(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await self.direct.create(CONFIGMAPS, body, "default")

    async def delete(self, name: str) -> None:
        await self.direct.delete(CONFIGMAPS, name, "default")

    async def sees(self, name: str) -> None:
        await until(lambda: self.informer.get("default", name))

    async def misses(self, name: str) -> None:
        await until(lambda: not self.informer.get("default", name))

    @property
    def requests(self) -> float:
        """How many requests the informer has made."""
        return sum(
            sample.value
            for family in self._metrics.registry.collect()
            for sample in family.samples
            if sample.name == "rest_client_requests_total"
        )


@pytest.fixture
async def here(sandbox: Sandbox) -> AsyncIterator[Watching]:
    config, metrics = parse_kubeconfig(sandbox.kubeconfig()), Metrics()
    async with Client(config) as direct, Client(config, metrics=metrics.requests) as watching:
        result = Watching(direct, watching, metrics)
        task = asyncio.create_task(result.cluster.run())
        await result.informer.synced()
        yield result
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_lost_doubled_or_spun(
    sandbox: Sandbox, here: Watching, fault: Fault
) -> None:
    for number in range(2):
        await until(lambda: sandbox.faults._watches)
        await fault(sandbox)
        await here.create(f"stays-{number}")
        await here.create(f"goes-{number}")
        await here.delete(f"goes-{number}")
        await here.sees(f"stays-{number}")
        await here.misses(f"goes-{number}")
    stays = [(type_, name) for type_, name in here.told if name.startswith("stays")]
    assert stays == [("ADDED", "stays-0"), ("ADDED", "stays-1")]
    assert len(here.told) == len(set(here.told))
    assert here.requests <= 30


async def test_events_that_are_lost_without_a_word_are_made_up_for(
    sandbox: Sandbox, here: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept", "deleted"):
        await here.create(name)
        await here.sees(name)
    assert sandbox.faults.lose("configmaps", times=2) == 1
    await here.delete("deleted")
    await here.create("new")
    await here.create("later")
    await here.sees("later")
    assert here.informer.get("default", "deleted")
    assert not here.informer.get("default", "new")
    quick(monkeypatch)
    # The loop that looks was asleep for a minute when times became short: another one begins.
    task = asyncio.create_task(here.cluster._comparisons.run())
    await here.sees("new")
    await here.misses("deleted")
    assert here.told[3:] == [("DELETED", "deleted"), ("ADDED", "new")]
    task.cancel()


async def test_a_partition_is_said_and_made_up_for(sandbox: Sandbox, here: Watching) -> None:
    await here.create("before")
    await here.sees("before")
    sandbox.faults.partition()
    await until(lambda: here.informer.error)
    sandbox.faults.heal()
    await here.delete("before")
    await here.create("after")
    await here.sees("after")
    await here.misses("before")
    assert here.told == [("ADDED", "before"), ("DELETED", "before"), ("ADDED", "after")]
    assert here.informer.error == ""
    assert here.requests <= 30
