"""What the engine does with events while it works, and when a kind is not served."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.ends import both_ends

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.status import Status, StatusDetails
from fairlead.client import limits
from fairlead.client.errors import api_error, refusal
from fairlead.konnector.metrics import SyncMetrics
from fairlead.konnector.policies.steps import Create, InSync, Pair, Settle, Side, Step, StepOutcome
from fairlead.konnector.reports import Reports, SyncFault
from fairlead.konnector.sync import engine as engines
from fairlead.konnector.sync.engine import Engine
from fairlead.konnector.sync.passes import EngineContext
from fairlead.runtime import Controller, Delta, Request


KEY, TARGET = Key("", "a"), Key("abc", "a")


def config_map(key: Key, version: str) -> Object:
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": "u",
        "resourceVersion": version,
    }
    return object_from_dict({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


class Copying:
    """A policy that makes a copy where there is none."""

    def next_step(self, pair: Pair) -> Step:
        body = config_map(TARGET, "").to_dict()
        return InSync() if pair.provider is not None else Create("provider", body)

    def outcome(self, side: Side, pair: Pair) -> StepOutcome | None:
        return None


class Restless(Copying):
    """A policy that always finds something to do."""

    def next_step(self, pair: Pair) -> Step:
        return Settle("provider")


class Lease:
    """A watch that has told of everything."""

    has_synced = True

    def __init__(self, *objects: Object) -> None:
        self.objects = {obj.key: obj for obj in objects}
        self.error = ""
        self.cause = None

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(Key(namespace, name))

    def list(self, _namespace: str) -> list[Object]:
        return list(self.objects.values())


class Provider:
    """A server that answers a create as a test wants."""

    def __init__(self) -> None:
        self.creates = 0
        self.answer: Callable[[], Object] = lambda: config_map(TARGET, "5")

    async def create(self, _resource: Any, _body: JSON, _namespace: str) -> Object:
        self.creates += 1
        return self.answer()


class World:
    """An engine between a consumer that has one object and a provider."""

    def __init__(self) -> None:
        self.provider = Provider()
        self.here, self.there = Lease(config_map(KEY, "1")), Lease()
        here = SimpleNamespace(config=SimpleNamespace(server="https://here"))
        ends = both_ends(here, self.provider)
        cast("Any", ends.consumer)._leases[""] = self.here
        cast("Any", ends.provider)._leases[""] = self.there
        self.told: list[str] = []
        controllers: list[Controller] = []

        def controller(name: str, reconcile: Any, *, workers: int = 2) -> Controller:
            controllers.append(Controller(name, reconcile, workers=workers))
            return controllers[-1]

        def event(_obj: Object, _type: str, reason: str, _message: str) -> None:
            self.told.append(reason)

        self.engine = Engine(
            ends,
            Copying(),
            EngineContext(
                name="sync-configmaps",
                binding="db",
                report=Reports().of("db", "configmaps", "ConfigMap"),
                metrics=SyncMetrics("db", "configmaps"),
                events=cast("Any", SimpleNamespace(event=event)),
                controller=controller,
                workers=1,
                interval=1.0,
            ),
        )
        self.queue = controllers[0].queue

    async def work(self) -> Any:
        return await self.engine._reconcile(Request("", *KEY))

    def provider_tells(self, version: str) -> None:
        obj = config_map(TARGET, version)
        self.there.objects[TARGET] = obj
        self.engine._provider_changed(Delta("ADDED", None, obj))


@pytest.fixture
async def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("told", "waiting"),
    [
        pytest.param("5", 0, id="our-own-write"),
        pytest.param("4", 0, id="what-was-there-before"),
        pytest.param("6", 1, id="somebody-elses"),
    ],
)
async def test_an_event_may_come_before_the_answer_to_its_write(
    world: World, told: str, waiting: int
) -> None:
    def answer() -> Object:
        world.provider_tells(told)
        assert len(world.queue) == 0
        return config_map(TARGET, "5")

    world.provider.answer = answer
    await world.work()
    assert len(world.queue) == waiting


async def test_an_event_may_come_after_the_answer(world: World) -> None:
    await world.work()
    world.provider_tells("5")
    assert len(world.queue) == 0
    world.provider_tells("6")
    assert len(world.queue) == 1


async def test_what_was_created_and_is_never_told_of_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LAG_SECONDS", 0.0)
    await world.work()
    assert len(world.queue) == 0
    world.engine._believe_caches()
    assert len(world.queue) == 1
    await world.work()
    assert world.provider.creates == 2


async def test_events_that_were_held_count_though_the_pass_fails(world: World) -> None:
    def refuse() -> Object:
        world.provider_tells("4")
        raise refusal("Invalid", "no")

    world.provider.answer = refuse
    with pytest.raises(Exception, match="no"):
        await world.work()
    assert len(world.queue) == 1
    assert world.told == ["SyncFailed"]


NOT_SERVED = Status(message="404 page not found", code=404)
TERMINATING = Status("Failure", "create not allowed", "MethodNotAllowed", 405)
TERMINATING_TODAY = Status(
    "Failure",
    "create not allowed while custom resource definition is terminating",
    "Forbidden",
    403,
)
NO_NAMESPACE = Status("Failure", "none", "NotFound", 404, StatusDetails(name="abc"))


@pytest.mark.parametrize(
    ("status", "stops"),
    [
        pytest.param(NOT_SERVED, True, id="not-served"),
        pytest.param(TERMINATING, True, id="being-taken-down"),
        pytest.param(TERMINATING_TODAY, True, id="being-taken-down-today"),
        pytest.param(NO_NAMESPACE, False, id="the-namespace-is-missing"),
    ],
)
async def test_a_kind_that_is_not_served_stops_all_objects(
    world: World, status: Status, stops: bool
) -> None:
    def refuse() -> Object:
        raise api_error(status)

    world.provider.answer = refuse
    if not stops:
        with pytest.raises(Exception, match="none"):
            await world.work()
        assert world.told == ["SyncFailed"]
        return
    await world.work()
    await world.work()
    assert world.provider.creates == 1
    assert world.told == []
    assert world.engine._provider_faults() == [SyncFault(f"on the provider: {api_error(status)}")]


async def test_it_goes_on_when_the_watch_has_come_back(world: World) -> None:
    def refuse() -> Object:
        raise api_error(NOT_SERVED)

    world.provider.answer = refuse
    await world.work()
    world.there.error = "cannot list"
    assert world.engine._provider_faults() == [SyncFault("on the provider: cannot list")]
    assert len(world.queue) == 0
    world.there.error = ""
    assert world.engine._provider_faults() == []
    assert len(world.queue) == 1
    await world.work()
    assert world.provider.creates == 2


async def test_it_is_tried_again_when_the_watch_never_failed(world: World) -> None:
    """It was perhaps a proxy's answer; each time the wait is longer."""

    def refuse() -> Object:
        raise api_error(NOT_SERVED)

    world.provider.answer = refuse
    await world.work()
    assert len(world.queue) == 0
    world.engine._patience = 0.0
    assert world.engine._provider_faults() == []
    assert len(world.queue) == 1
    world.engine._patience = engines.ABSENT_SECONDS
    await world.work()
    assert world.engine._provider_faults() != []


async def test_a_pass_that_comes_to_no_end_is_a_defect(world: World) -> None:
    cast("Any", world.engine)._passes._policy = Restless()
    with pytest.raises(RuntimeError, match="not settled after 12 steps: the last was Settle"):
        await world.work()
