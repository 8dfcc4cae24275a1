"""Everything together when things go wrong: nothing is lost, nothing spins, a condition says why.

After each fault an order that was made during it makes the whole way: spec to the provider, role
and grants in PostgreSQL, status and Secret back, and the projection into the app.
"""

from __future__ import annotations

import asyncio
import base64
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.support.countingplanes import QUIET_SECONDS, Plane, quiet
from tests.support.e2e import SHOP, World, open_world, says
from tests.support.line import Line
from tests.support.pairs import Started
from tests.support.process import config_file, process
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, condition, eventually, gone, is_ready, when

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import JSON, Key
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.manifests import NAME as BINDING
from fairlead.client import ConnectionFailed, limits
from fairlead.demo import story
from fairlead.demo import world as demo
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector.manifests import NAME as KONNECTOR
from fairlead.postgres.controllers.access import controller as access_controller
from fairlead.postgres.manifests import NAME as OPERATOR
from fairlead.runtime import backoff, delays
from fairlead_sandbox import Sandbox


pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.extended]

CRD = POSTGRESACCESSES.group_resource


class Shared:
    """One world for all tests, made anew after a test that did not leave it in order."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._stack = AsyncExitStack()
        self._world: World | None = None

    async def get(self) -> World:
        if self._world is None or not self._world.sound:
            await self.close()
            self._world = await self._stack.enter_async_context(open_world(self._server))
        self._world.sound = False
        return self._world

    async def close(self) -> None:
        await self._stack.aclose()
        self._world = None


@pytest.fixture(scope="module", autouse=True)
def _short_back_off() -> Iterator[None]:
    """One fault follows the other here; in real life a watch would wait longer each time."""
    policy = backoff.BackoffPolicy(initial=0.1, maximum=0.3, stable=0.5)
    soon = backoff.BackoffPolicy(initial=0.05, maximum=QUIET_SECONDS / 4)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WATCH", "CHILD"):
            patch.setattr(delays, name, policy)
        patch.setattr(limits, "SETTLED_SECONDS", 0.3)
        # What waits for longer than it takes to be found quiet is written when all seems over.
        patch.setattr(limits, "EVENT_PAUSE_SECONDS", QUIET_SECONDS / 4)
        for module, name in (
            (delays, "NO_WATCH"),
            (access_controller, "RETRIES"),
            (delays, "NEW_CREDENTIALS"),
        ):
            patch.setattr(module, name, soon)
        yield


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(postgres: EmbeddedPostgres) -> AsyncIterator[Shared]:
    shared = Shared(postgres)
    yield shared
    await shared.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared: Shared) -> World:
    return await shared.get()


def is_true(one: JSON) -> bool:
    return one.get("status") == "True"


def is_false(one: JSON) -> bool:
    return one.get("status") == "False"


async def binding(world: World) -> JSON:
    return (await world.consumer.admin.get(APISERVICEBINDINGS, world.link.name)).to_dict()


async def test_watches_that_break_within_an_event(world: World) -> None:
    for one in (world.provider, world.consumer):
        one.faults.cut_event()
    await world.whole_way("cut")
    await world.settled()


async def test_history_that_is_forgotten_while_everybody_is_away(world: World) -> None:
    await world.whole_way("before")
    await quiet(world.provider, world.consumer)
    for one in (world.provider, world.consumer):
        one.faults.drop_watches()
    await world.order("expired")
    await world.consumer.admin.delete(POSTGRESACCESSES, "before", SHOP)
    for one in (world.provider, world.consumer):
        one.faults.compact()
    await world.arrived("expired")
    await world.is_gone("before", f"{world.link.cluster_namespace}-{SHOP}")
    await world.steady()
    assert world.provider.traffic.count() + world.consumer.traffic.count() < 200


async def test_api_servers_that_restart(world: World) -> None:
    await world.order("restart")
    await world.provider.sandbox.stop()
    await world.order("meanwhile")
    await world.provider.sandbox.start()
    await world.consumer.restart()
    await world.arrived("restart")
    await world.arrived("meanwhile")
    await world.steady()


@pytest.mark.parametrize(("code", "retry_after"), [(429, 1), (500, 0), (409, 0)])
async def test_servers_that_refuse_for_a_while(world: World, code: int, retry_after: int) -> None:
    name = f"refused-{code}"
    planes = (world.provider, world.consumer)
    await quiet(*planes)
    world.provider.faults.fail("create", "*", code, times=2, retry_after=retry_after)
    await world.order(name, app=False)
    world.consumer.faults.fail("patch", "*", code, times=1, retry_after=retry_after)
    await world.arrived(name, app=False)
    assert sum(len(one.traffic.writes()) for one in planes) < 60
    for one in planes:
        one.faults.clear()
    await world.settled()


async def test_lists_and_watches_that_are_refused_for_a_while(world: World) -> None:
    planes = (world.provider, world.consumer)
    await quiet(*planes)
    watches = sum(one.watched().total() for one in planes)
    for one in planes:
        one.faults.fail("watch", "*", 429, times=10, retry_after=1)
        one.faults.fail("list", "*", 500, times=5)
        await one.everybody_lists()
    assert sum(one.traffic.count() for one in planes) < 6 * watches
    await world.whole_way("listed")
    await world.settled()


async def test_a_provider_that_is_down_when_the_konnector_starts(world: World) -> None:
    konnector = world.runners[KONNECTOR]
    await konnector.kill()
    await world.provider.sandbox.stop()
    with pytest.raises(ConnectionFailed, match="cannot reach"):
        await world.link.bind()
    world.uplink.attempts = 0
    world.consumer.traffic.seen.clear()
    await konnector.start()
    await world.order("early")
    told = await world.link.condition("InformersSynced", is_false)
    assert told["reason"] == "InformerSyncTimeout"
    assert "the provider cannot be watched" in told["message"]
    assert condition(await binding(world), "Ready")["status"] == "False"
    assert world.uplink.attempts < 60
    assert world.consumer.traffic.count("patch", resource="apiservicebindings") < 10
    await world.provider.sandbox.start()
    await world.arrived("early")
    await world.link.condition("Ready", is_true)
    await world.settled()


async def test_a_provider_that_answers_no_more(world: World) -> None:
    world.uplink.freeze()
    await world.order("frozen")
    await world.uplink.cut()
    world.uplink.mend()
    await world.arrived("frozen")
    await world.settled()


async def test_a_database_that_is_down(world: World) -> None:
    database = world.database.server
    await world.whole_way("present")
    await world.order("leaving", app=False)
    await world.arrived("leaving", app=False)
    await database.stop_server()
    try:
        await world.order("absent")
        away = says(
            "Ready", "False", f"nothing listens at 127.0.0.1:{database.port}", "check host"
        )
        told = await when(world.consumer.admin, POSTGRESACCESSES, "absent", SHOP, until=away)
        assert "password" not in str(told["status"])
        await when(
            world.consumer.admin,
            SERVICEBINDINGS,
            "absent",
            SHOP,
            until=says("Ready", "False", ""),
        )
        none: JSON = {"spec": {"grants": []}}
        await world.consumer.admin.merge_patch(POSTGRESACCESSES, "present", SHOP, none)
        await when(world.consumer.admin, POSTGRESACCESSES, "present", SHOP, until=away)
        await world.consumer.admin.delete(POSTGRESACCESSES, "leaving", SHOP)
        await when(world.consumer.admin, POSTGRESACCESSES, "leaving", SHOP, until=away)
        assert len(world.provider.traffic.writes()) < 40
    finally:
        await database.start_server()
    await world.arrived("absent")
    await when(world.provider.admin, POSTGRESSERVERS, "main", until=is_ready)
    await when(world.consumer.admin, POSTGRESACCESSES, "present", SHOP, until=is_ready)
    assert await world.database.may(world.role("present")) == set()
    await world.is_gone("leaving", f"{world.link.cluster_namespace}-{SHOP}")
    await world.steady()


def altered(good: bytes, **user: object) -> bytes:
    body = yaml.safe_load(good)
    body["users"][0]["user"] = user
    return yaml.safe_dump(body).encode()


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "no-cluster": lambda _: b"users: [{name: x, user: {token: very-secret}}]",
    "a-command": lambda good: altered(
        good, exec={"command": "/bin/true", "args": ["very-secret"]}
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_kubeconfig_that_is_broken(world: World, kind: str) -> None:
    """Told with its remedy, nobody is asked in vain, and its repair is noticed."""
    konnector = world.runners[KONNECTOR]
    await konnector.kill()
    where, good = await kubeconfig(world)
    await put_kubeconfig(world, BROKEN[kind](good))
    world.uplink.attempts = 0
    await konnector.start()
    await world.order(f"broken-{kind}", app=False)
    told = await world.link.condition("SecretValid", is_false)
    assert told["reason"] == "KubeconfigSecretInvalid"
    assert str(where) in told["message"]
    assert "`fairlead bind` replaces it" in told["message"]
    assert "very-secret" not in str(told)
    assert world.uplink.attempts == 0
    await put_kubeconfig(world, good)
    await world.arrived(f"broken-{kind}", app=False)
    await world.link.condition("SecretValid", is_true)
    await world.settled()


async def test_credentials_that_are_taken_away_under_a_running_konnector(world: World) -> None:
    """Whoever is invited again and binds again goes on where the konnector was stopped."""
    tokens = await world.provider.admin.list(SECRETS, world.link.cluster_namespace)
    await quiet(world.provider, world.consumer)
    for secret in tokens.items:
        if secret.to_dict()["type"] == "kubernetes.io/service-account-token":
            await world.provider.admin.delete(SECRETS, *reversed(secret.key))
    world.provider.faults.drop_watches()
    world.provider.traffic.seen.clear()
    await world.order("revoked", app=False)
    told = await world.link.condition("InformersSynced", is_false)
    assert "ask its team for a new invitation" in told["message"]
    assert condition(await binding(world), "Ready")["status"] == "False"
    assert world.provider.traffic.count() < 150
    world.link = await world.invited()
    await world.link.bind()
    await world.arrived("revoked", app=False)
    await world.settled()


async def kubeconfig(world: World) -> tuple[Key, bytes]:
    """Where the konnector has its kubeconfig from, and what it is."""
    ref = (await binding(world))["spec"]["kubeconfigSecretRef"]
    found = await world.consumer.admin.get(SECRETS, ref["name"], ref["namespace"])
    return found.key, base64.b64decode(found.to_dict()["data"]["kubeconfig"])


async def put_kubeconfig(world: World, content: bytes) -> None:
    key, _ = await kubeconfig(world)
    data = {"data": {"kubeconfig": base64.b64encode(content).decode()}}
    await world.consumer.admin.merge_patch(SECRETS, key.name, key.namespace, data)


async def test_a_crd_deleted_under_running_informers_of_the_consumer(world: World) -> None:
    await world.whole_way("lost")
    there = f"{world.link.cluster_namespace}-{SHOP}"
    old = await world.consumer.admin.get(CUSTOMRESOURCEDEFINITIONS, CRD)
    await world.consumer.admin.delete(CUSTOMRESOURCEDEFINITIONS, CRD)
    await when(
        world.consumer.admin,
        CUSTOMRESOURCEDEFINITIONS,
        CRD,
        until=lambda body: (
            body and body["metadata"]["uid"] != old.meta.uid and is_established(body)
        ),
    )
    await world.is_gone("lost", there)
    await world.order("found", app=False)
    await world.arrived("found", app=False)
    await world.settled()


async def test_a_crd_deleted_under_running_informers_of_the_provider(world: World) -> None:
    await world.whole_way("kept")
    await world.provider.admin.delete(CUSTOMRESOURCEDEFINITIONS, CRD)
    await gone(world.provider.admin, CUSTOMRESOURCEDEFINITIONS, CRD)
    told = await world.link.condition("InformersSynced", is_false)
    assert "does not serve this resource" in told["message"]
    await world.runners[OPERATOR].install()
    await world.whole_way("new")
    await world.arrived("kept")
    await world.settled()


def is_established(body: JSON) -> bool:
    return condition(body, "Established").get("status") == "True"


CONSUMER, PROVIDER = "consumer", "provider"
CREATION = [
    (KONNECTOR, CONSUMER, "patch", "postgresaccesses", ""),
    (KONNECTOR, PROVIDER, "create", "postgresaccesses", ""),
    (KONNECTOR, CONSUMER, "update", "postgresaccesses", "status"),
    (KONNECTOR, CONSUMER, "create", "secrets", ""),
    (OPERATOR, PROVIDER, "patch", "postgresaccesses", ""),
    (OPERATOR, PROVIDER, "create", "secrets", ""),
    (OPERATOR, PROVIDER, "patch", "postgresaccesses", "status"),
    (BINDING, CONSUMER, "patch", "servicebindings", "status"),
    (BINDING, CONSUMER, "patch", "deployments", ""),
]
DELETION = [
    (KONNECTOR, PROVIDER, "delete", "postgresaccesses", ""),
    (KONNECTOR, CONSUMER, "patch", "postgresaccesses", ""),
    (KONNECTOR, CONSUMER, "delete", "secrets", ""),
    (OPERATOR, PROVIDER, "patch", "postgresaccesses", ""),
    (OPERATOR, PROVIDER, "delete", "secrets", ""),
]
Cut = tuple[str, str, str, str, str]


def title(cut: Cut) -> str:
    return "-".join(part for part in cut if part)


@pytest.mark.parametrize("cut", CREATION, ids=title)
async def test_killed_before_a_write_while_an_order_is_carried_out(world: World, cut: Cut) -> None:
    who, side, verb, resource, subresource = cut
    one = world.provider if side == PROVIDER else world.consumer
    with one.traffic.hold(verb, resource, subresource) as hold:
        name = f"half-{CREATION.index(cut)}"
        await world.order(name)
        async with asyncio.timeout(SECONDS):
            await hold.reached.wait()
        await world.runners[who].kill()
    await world.runners[who].start()
    await world.arrived(name)
    world.sound = True


UNHEARD = [CREATION[index] for index in (0, 5)]


@pytest.mark.parametrize("cut", UNHEARD, ids=title)
async def test_killed_before_the_answer_to_a_write_is_heard(world: World, cut: Cut) -> None:
    who, side, verb, resource, subresource = cut
    one = world.provider if side == PROVIDER else world.consumer
    name = f"unheard-{UNHEARD.index(cut)}"
    runner = world.runners[who]
    await runner.kill()
    async with Line(one.sandbox.url) as line:
        await runner.start(server=line.url)
        await quiet(one)
        with one.traffic.hold(verb, resource, subresource, then=line.deafen) as hold:
            await world.order(name, app=False)
            async with asyncio.timeout(SECONDS):
                await hold.reached.wait()
            await quiet(one)
        await runner.kill()
    await runner.start()
    await world.arrived(name, app=False)
    world.sound = True


@pytest.mark.parametrize("cut", DELETION, ids=title)
async def test_killed_before_a_write_while_an_order_is_withdrawn(world: World, cut: Cut) -> None:
    who, side, verb, resource, subresource = cut
    one = world.provider if side == PROVIDER else world.consumer
    name = f"withdrawn-{DELETION.index(cut)}"
    await world.whole_way(name, app=False)
    with one.traffic.hold(verb, resource, subresource) as hold:
        await world.consumer.admin.delete(POSTGRESACCESSES, name, SHOP)
        async with asyncio.timeout(SECONDS):
            await hold.reached.wait()
        await world.runners[who].kill()
    await world.runners[who].start()
    await world.is_gone(name, f"{world.link.cluster_namespace}-{SHOP}")
    world.sound = True


async def test_a_konnector_process_that_is_killed_outright(world: World, tmp_path: Path) -> None:
    """``kill -9`` of the command itself; the next one goes on."""
    konnector = world.runners[KONNECTOR]
    await konnector.kill()
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(await konnector.identity()))
    with world.provider.traffic.hold("create", "postgresaccesses") as hold:
        async with process(file) as running:
            await world.order("outright", app=False)
            async with asyncio.timeout(SECONDS):
                await hold.reached.wait()
            running.kill()
            await running.wait()
    async with process(file):
        await world.arrived("outright", app=False)
    await konnector.start()
    await world.settled()


async def test_nothing_is_written_once_all_is_over(world: World) -> None:
    await world.whole_way("last")
    await world.steady()


async def test_programs_that_start_again_find_everything_done(world: World) -> None:
    """Whoever writes at its start does so each time; what was late before it comes once."""
    await world.whole_way("known")
    for _ in range(2):
        if not (late := await _written_at_start(world)):
            return
        warnings.warn(f"written late: {late}", stacklevel=1)
    assert await _written_at_start(world) == []


async def _written_at_start(world: World) -> list[str]:
    planes = (world.provider, world.consumer)
    await quiet(*planes)
    await world.settled()
    watched = [one.watched() for one in planes]
    beats = [await one.heartbeats() for one in planes]
    for runner in world.runners.values():
        await runner.kill()
    await quiet(*planes)
    for runner in world.runners.values():
        await runner.start()
    await eventually(lambda: _all_watched(planes, watched))
    await quiet(*planes, forget=False)
    unrest = [
        await one.unrest(known, entered=True) for one, known in zip(planes, beats, strict=True)
    ]
    return [
        text
        for one, (_, infos) in zip(planes, unrest, strict=True)
        for text in await one.told(infos)
    ]


async def test_a_provider_that_starts_again_takes_no_rights_away(world: World) -> None:
    """Also where it hears of namespaces last: it does not guess whose their roles are."""
    await world.whole_way("entitled")
    await quiet(world.provider, world.consumer)
    beats = await world.provider.heartbeats()
    watched = world.provider.watched()
    provider = world.runners["fairlead-provider"]
    await provider.kill()
    world.provider.faults.fail("list", "namespaces", 500, times=3)
    await provider.start()
    await eventually(lambda: _all_watched((world.provider,), [watched]))
    await quiet(world.provider, forget=False)
    _, infos = await world.provider.unrest(beats)
    assert await world.provider.told(infos) == []


async def _all_watched(planes: tuple[Plane, ...], watched: list[Counter[str]]) -> bool:
    return [one.watched() for one in planes] == watched


@pytest.mark.usefixtures("real_programs")
async def test_a_real_api_server_that_restarts(postgres: EmbeddedPostgres) -> None:
    """The story of the demo, in which the provider's API server goes away and comes back."""
    seen: list[str] = []
    async with (
        RealPlane() as real,
        Sandbox(name="consumer") as consumer,
        demo.open_world(Started(await real.kubeconfig()), consumer, postgres) as told,
    ):
        await story.ready(told)
        for step in (story.offer, story.sign_in, story.bind, story.create, story.arrive):
            await step(told, seen.append)
        await real.compact()
        await asyncio.gather(real.restart_apiserver(), story.change(told, seen.append))
        await story.run_app(told, seen.append, story.LATER_PRIVILEGES)
        await story.clean_up(told, seen.append)
    assert seen
