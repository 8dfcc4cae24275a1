"""Faults under a running load: afterwards both sides are alike and nothing else was touched.

Back-offs are shortened, so that some seconds hold as many attempts as minutes do in real life.
Each test ends with the same invariants (``SyncWorld.check``): equal payload and status, no copy
without its object, no finalizer left, foreign objects byte by byte as they were, and no write
once all is quiet, not even when everybody has to list again.
"""

from __future__ import annotations

import asyncio
import base64
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.support.load import SHOPS, thing
from tests.support.process import process
from tests.support.provider import WIDGETS
from tests.support.requests import connections, every_tenth_write_conflicts, nth_write, writers
from tests.support.syncworld import SyncWorld, sync_world
from tests.support.tiers import real
from tests.support.waiting import SECONDS, condition, when

from fairlead.api.kubebind import APISERVICEBINDINGS, CLUSTERBINDINGS
from fairlead.api.kubebind.names import BINDER_NAME, CLUSTER_BINDING_NAME, KUBECONFIG_NAME
from fairlead.api.meta import JSON
from fairlead.api.resource import LEASES, SECRETS
from fairlead.api.timestamps import moment
from fairlead.client import limits
from fairlead.konnector.controllers.clusterbinding import controller as clusterbinding
from fairlead.konnector.controllers.clusterbinding import reconcile as heartbeats
from fairlead.konnector.manifests import LEASE
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.runtime import BackoffPolicy, delays


pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS_PER_STEP = 15
"""One step of the load changes one object and one copy; either change costs a read, an update of
the copy and one of the object, and either may be repeated once after a conflict."""
REQUESTS_PER_WATCH = 4
"""A watch that breaks is opened again, at worst after two refusals and a list."""


@pytest.fixture(scope="module", autouse=True)
def _short_times() -> Iterator[None]:
    policy = BackoffPolicy(initial=0.1, maximum=0.3, stable=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delays, "WATCH", policy)
        patch.setattr(delays, "CHILD", policy)
        patch.setattr(limits, "SETTLED_SECONDS", 0.3)
        patch.setattr(limits, "LAG_SECONDS", 0.5)
        yield


class Shared:
    """One world for all tests, made anew after a test that did not leave it in order."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._world: SyncWorld | None = None

    async def get(self) -> SyncWorld:
        if self._world is None or not self._world.sound:
            await self.close()
            self._world = await self._stack.enter_async_context(sync_world())
        self._world.sound = False
        return self._world

    async def close(self) -> None:
        await self._stack.aclose()
        self._world = None


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared() -> AsyncIterator[Shared]:
    shared = Shared()
    yield shared
    await shared.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared: Shared) -> SyncWorld:
    return await shared.get()


@pytest_asyncio.fixture(
    loop_scope="module",
    params=[
        pytest.param("", id="sandboxes"),
        real("consumer", id="real-consumer"),
        real("provider", id="real-provider"),
    ],
)
async def any_world(
    request: pytest.FixtureRequest, shared: Shared
) -> AsyncIterator[tuple[SyncWorld, str]]:
    """Two sandboxes, and each side a real server of its own; which one is real."""
    if not request.param:
        yield await shared.get(), ""
        return
    request.getfixturevalue("real_programs")
    async with sync_world(request.param) as world:
        yield world, request.param


AnyWorld = tuple[SyncWorld, str]


async def test_killed_in_the_middle_of_a_write(world: SyncWorld) -> None:
    dice = random.Random(11)
    async with world.load.running():
        for _ in range(8):
            plane = dice.choice(world.planes)
            with nth_write(plane, "widgets", dice.randrange(1, 25)) as met:
                async with asyncio.timeout(SECONDS):
                    await met.wait()
                await world.konnector.kill()
            await world.load.progress(dice.randrange(1, 8))
            await world.konnector.start()
        await world.load.progress(20)
    await world.check()


@pytest.mark.edge
async def test_a_process_that_is_killed_at_any_moment(any_world: AnyWorld, tmp_path: Path) -> None:
    world, _ = any_world
    await world.konnector.kill()
    file = await world.kubeconfig(tmp_path)
    dice = random.Random(12)
    async with world.load.running():
        for _ in range(2):
            async with process(file) as running:
                await world.carries()
                await world.load.progress(dice.randrange(1, 12))
                running.kill()
                await running.wait()
            await world.load.progress(5)
    async with process(file):
        # Its back-offs are those of real life: a list that everybody repeats would take long.
        await world.check(relist=False)
    await world.konnector.start()
    world.sound = True


SHORT_LEASE = """
from pathlib import Path
from fairlead.client import limits
from fairlead.runtime.manager.lease import LeaderElection
limits.GRACE_SECONDS = 0.5
def short(until, after):
    def seconds(self):
        return after if Path({hurry!r}).exists() else until
    return property(seconds, lambda self, value: None)
LeaderElection._duration, LeaderElection._deadline = short(504.0, 4.0), short(503.0, 3.0)
LeaderElection.__init__.__kwdefaults__.update(retry_period=0.4)"""
"""Nobody is so slow as to lose its lease, until there is a file: then it is a short one."""


UNDER_WAY = 4
"""Workers: so many requests of a process that is frozen may be on their way already."""


async def test_a_leader_that_is_frozen_and_thawed(any_world: AnyWorld, tmp_path: Path) -> None:
    """The other takes over, and the first ends without having begun another write."""
    world, _ = any_world
    await world.konnector.kill()
    one, two = [await world.kubeconfig(tmp_path / name) for name in ("one", "two")]
    async with AsyncExitStack() as stack:
        flags = ["--leader-elect=true", f"--workers={UNDER_WAY}"]
        start = [
            process(file, *flags, prelude=SHORT_LEASE.format(hurry=str(file.parent / "hurry")))
            for file in (one, two)
        ]
        frozen = await stack.enter_async_context(start[0])
        holder = await leader(world)
        await stack.enter_async_context(start[1])
        async with world.load.running():
            await world.carries()
            (one.parent / "hurry").touch()
            await leader(world, seconds=4)
            frozen.send_signal(signal.SIGSTOP)
            known = connections(frozen.pid)
            assert await leader(world, but=holder) != holder
            await world.carries()
            with writers(world.uplink, *world.planes) as written:
                frozen.send_signal(signal.SIGCONT)
                async with asyncio.timeout(SECONDS):
                    assert await frozen.wait() == 1
                await world.load.progress(5)
            await world.carries()
        assert "lost the lease" in (one.parent / "log").read_text()
        late = [one for sender, *one in written if sender in known]
        assert len(late) <= UNDER_WAY, late
        await world.check(relist=False)
    await world.konnector.start()
    world.sound = True


async def leader(world: SyncWorld, *, but: str = "", seconds: int = 0) -> str:
    """Who holds the Lease, once it is somebody else, or once it lasts for so many seconds."""

    def until(body: JSON) -> bool:
        if not body or seconds not in {0, body["spec"].get("leaseDurationSeconds")}:
            return False
        return body["spec"].get("holderIdentity") not in {None, "", but}

    admin = world.consumer.admin
    body = await when(admin, LEASES, LEASE, DEFAULT_NAMESPACE, until=until)
    holder: str = body["spec"]["holderIdentity"]
    return holder


@pytest.mark.parametrize(
    ("any_world", "side"),
    [
        pytest.param("", "consumer", id="sandbox-consumer"),
        pytest.param("", "provider", id="sandbox-provider"),
        real("consumer", "consumer", id="real-consumer"),
        real("provider", "provider", id="real-provider"),
    ],
    indirect=["any_world"],
)
async def test_an_api_server_that_restarts(any_world: AnyWorld, side: str) -> None:
    world, real = any_world
    restarted = world.consumer if side == "consumer" else world.provider
    async with world.load.running():
        for _ in range(1 if real else 3):
            await world.load.progress(15)
            await restarted.restart()
        await world.load.progress(15)
    await world.check()


async def test_watches_that_are_cut(world: SyncWorld) -> None:
    world.forget()
    watches = sum(one.watched().total() for one in world.planes)
    begun = world.load.done
    async with world.load.running():
        for number in range(6):
            for one in world.planes:
                cuts = (one.faults.drop_watches, one.faults.cut_event, one.faults.end_watches)
                cuts[number % 3]()
            await world.load.progress(10)
    await world.load.check()
    steps = world.load.done - begun
    assert world.requests() < REQUESTS_PER_STEP * steps + 6 * REQUESTS_PER_WATCH * watches
    await world.check()


async def test_history_that_is_forgotten(world: SyncWorld) -> None:
    world.forget()
    watches = sum(one.watched().total() for one in world.planes)
    begun = world.load.done
    async with world.load.running():
        for _ in range(4):
            for one in world.planes:
                one.faults.cut_event()
            await world.load.progress(5)
            for one in world.planes:
                one.faults.drop_watches()
                one.faults.compact()
            await world.load.progress(10)
    await world.load.check()
    steps = world.load.done - begun
    assert world.requests() < REQUESTS_PER_STEP * steps + 8 * REQUESTS_PER_WATCH * watches
    await world.check()


async def test_every_tenth_write_is_a_conflict(world: SyncWorld) -> None:
    world.forget()
    begun = world.load.done
    with every_tenth_write_conflicts(*world.planes) as refused:
        async with world.load.running():
            await world.load.progress(100)
        await world.load.check()
    assert len(refused) > 20
    assert world.requests() < REQUESTS_PER_STEP * (world.load.done - begun)
    await world.check()


async def test_a_provider_that_cannot_be_reached_for_minutes(
    world: SyncWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator goes on working over there, and the app team over here.

    Minutes are simulated: whatever fails waits at once for as long as after minutes of failures.
    All the same it is done soon after the provider is back, also what nobody touches any more.
    """
    loop = asyncio.get_running_loop()
    admin, shop = world.consumer.admin, SHOPS[0]
    await admin.create(WIDGETS, thing("leaving", shop))
    await when(world.provider.admin, WIDGETS, "leaving", world.load.there[shop], until=bool)
    async with world.load.running():
        await world.load.progress(20)
        await world.uplink.cut()
        world.uplink.attempts, begun, since = 0, world.load.done, loop.time()
        with monkeypatch.context() as patch:
            patch.setattr(delays, "FAILED_PASS", BackoffPolicy(initial=120.0, maximum=1000.0))
            await admin.create(WIDGETS, thing("arriving", shop))
            await admin.delete(WIDGETS, "leaving", shop)
            await world.load.progress(100)
            told = await world.link.condition("InformersSynced", is_false)
            assert "the provider cannot be watched" in told["message"]
        steps, seconds = world.load.done - begun, loop.time() - since
        assert world.uplink.attempts < 2 * steps + world.provider_watches * seconds / SHORTEST
        world.uplink.mend()
        await world.load.progress(20)
    await world.check()


SHORTEST = 0.07
"""Seconds; no back-off of a watch is shorter, see the policy above and its jitter."""


async def test_a_provider_that_answers_no_more(world: SyncWorld) -> None:
    async with world.load.running():
        await world.load.progress(20)
        world.uplink.freeze()
        await world.load.progress(60)
        await world.uplink.cut()
        world.uplink.mend()
        await world.load.progress(20)
    await world.check()


def is_false(one: JSON) -> bool:
    return one.get("status") == "False"


async def test_credentials_that_are_rotated(world: SyncWorld) -> None:
    async with world.load.running():
        for number in range(3):
            await world.load.progress(15)
            await rotate(world, f"rotated-{number}")
            await world.carries()
    await world.check()


async def rotate(world: SyncWorld, name: str) -> None:
    """Give the consumer a token of its own, and take all older ones away when it has come."""
    admin, where = world.provider.admin, world.link.cluster_namespace
    old = (await admin.list(SECRETS, where)).items
    account = {"kubernetes.io/service-account.name": BINDER_NAME}
    metadata = {"name": name, "namespace": where, "annotations": account}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TOKEN}
    await admin.create(SECRETS, body)
    filled = await when(admin, SECRETS, name, where, until=lambda one: "token" in one["data"])
    stored = (await admin.get(SECRETS, KUBECONFIG_NAME, where)).to_dict()
    config = yaml.safe_load(base64.b64decode(stored["data"][KUBECONFIG_NAME]))
    token = base64.b64decode(filled["data"]["token"]).decode()
    config["users"][0]["user"]["token"] = token
    data = {KUBECONFIG_NAME: base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    await admin.merge_patch(SECRETS, KUBECONFIG_NAME, where, {"data": data})
    binding = await world.consumer.admin.get(APISERVICEBINDINGS, world.link.name)
    ref = binding.to_dict()["spec"]["kubeconfigSecretRef"]
    await when(
        world.consumer.admin,
        SECRETS,
        ref["name"],
        ref["namespace"],
        until=lambda one: one["data"][KUBECONFIG_NAME] == data[KUBECONFIG_NAME],
    )
    for one in old:
        if one.to_dict()["type"] == TOKEN:
            await admin.delete(SECRETS, one.meta.name, where)


TOKEN = "kubernetes.io/service-account-token"


class Clock:
    """The konnector's, which goes wrong by ``skew``."""

    skew = timedelta()

    @classmethod
    def moment(cls) -> datetime:
        return moment() + cls.skew


SKEWS = {
    "ahead": (timedelta(hours=1), "False", "HeartbeatTimeDrift", "Warning"),
    "little-ahead": (timedelta(seconds=4), "True", "", ""),
    "little-behind": (-timedelta(minutes=3), "True", "", ""),
    "behind": (-timedelta(hours=1), "False", "HeartbeatTimeout", "Error"),
}


@pytest.mark.parametrize("which", SKEWS)
async def test_a_konnector_whose_clock_is_wrong(
    world: SyncWorld, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider says so where it matters, until the clock is set right; all is synced."""
    skew, *expected = SKEWS[which]
    monkeypatch.setattr(Clock, "skew", skew)
    monkeypatch.setattr(clusterbinding, "moment", Clock.moment)
    async with world.load.running():
        await world.konnector.kill()
        with monkeypatch.context() as patch:
            patch.setattr(heartbeats, "BEAT", timedelta(seconds=0.2))
            await world.konnector.start()
            await healthy(world, skew, expected)
            await world.carries()
            Clock.skew = timedelta()
            await healthy(world, Clock.skew, ["True", "", ""])
        await world.load.progress(10)
    await world.check()


async def healthy(world: SyncWorld, skew: timedelta, expected: list[str]) -> None:
    """Wait for a new heartbeat by a clock that is wrong, and for this judgement of it."""
    second = timedelta(seconds=1)
    begun = datetime.now(UTC) + skew - second

    def until(body: JSON) -> bool:
        found = condition(body, "Healthy")
        judged = [found.get(field, "") for field in ("status", "reason", "severity")]
        beat = datetime.fromisoformat(body["status"]["lastHeartbeatTime"])
        return judged == expected and begun <= beat <= datetime.now(UTC) + skew + second

    admin, where = world.provider.admin, world.link.cluster_namespace
    await when(admin, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, where, until=until)
