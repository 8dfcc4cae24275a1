"""Whatever is done to both sides, and whatever breaks: both end up as the consumer wants it.

Hypothesis chooses what happens; after each example both sides must be alike. What the consumer's
server holds is compared with a model of what was asked of it, and the copies with that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.countingplanes import Plane
from tests.support.load import additions, differences, thing
from tests.support.provider import WIDGETS
from tests.support.syncworld import SyncWorld, sync_world
from tests.support.waiting import idle

from fairlead.api.kubebind.names import ANNOTATION_CONSUMER_UID, ANNOTATION_DELETION_POLICY
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import ApiError, Client, NotFound
from fairlead.runtime import BackoffPolicy, backoff
from fairlead.runtime.cache import expectations, reflector
from fairlead.runtime.controller import queue


NAMES = st.sampled_from(["a", "b"])
WORDS = st.sampled_from(["1", "2"])
SIDES = st.sampled_from(["consumer", "provider"])
QUIET_SECONDS = 1.0
"""Longer than anything waits here before it tries again: when nothing was asked for so long and
both sides still differ, they will for ever."""


class Bench:
    """One world for all examples, on a loop that runs only while something is done."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._stack = AsyncExitStack()
        self._numbers = itertools.count(1)
        self.world: SyncWorld

    def run(self, work: Awaitable[Any]) -> Any:
        async def body() -> Any:
            return await work

        return self._runner.run(body())

    async def open(self) -> None:
        self.world = await self._stack.enter_async_context(sync_world())

    async def close(self) -> None:
        await self._stack.aclose()

    async def namespace(self) -> str:
        """A new namespace of the consumer."""
        name = f"m{next(self._numbers)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.world.consumer.admin.create(NAMESPACES, body)
        return name


pytestmark = pytest.mark.extended

bench: Bench
"""Hypothesis makes machines without arguments."""


@pytest.fixture(scope="module", autouse=True)
def _bench() -> Iterator[None]:
    global bench  # noqa: PLW0603
    policy = backoff.BackoffPolicy(initial=0.05, maximum=0.1, stable=0.2)
    with pytest.MonkeyPatch.context() as patch, _runner() as runner:
        patch.setattr(backoff, "BackoffPolicy", lambda: policy)
        patch.setattr(reflector, "SETTLED_SECONDS", 0.2)
        patch.setattr(queue, "RETRIES", BackoffPolicy(initial=0.005, maximum=0.5))
        patch.setattr(expectations, "LAG", 0.5)
        bench = Bench(runner)
        bench.run(bench.open())
        yield
        bench.run(bench.close())


def _runner() -> asyncio.Runner:
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class Both(RuleBasedStateMachine):
    """The consumer's objects as they were asked for, and the provider's own beside the copies."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, JSON] = {}
        """What the app team wants each object to be: spec, labels, annotations."""
        self.natives: dict[str, Object] = {}
        """The provider's own objects where copies would be."""
        self.stopped = False
        self.here = bench.run(bench.namespace())
        self.create("a", "1", labelled=True)
        self.there = bench.run(self.world.link.provider_namespace(self.here))
        self.converge()

    @property
    def world(self) -> SyncWorld:
        return bench.world

    @property
    def consumer(self) -> Client:
        return self.world.consumer.admin

    @property
    def provider(self) -> Client:
        return self.world.provider.admin

    def done(self, work: Awaitable[Any]) -> Any:
        """What a request gave, None when it was refused."""

        async def body() -> Any:
            with contextlib.suppress(ApiError):
                return await work

        return bench.run(body())

    # --- the app team

    @rule(name=NAMES, note=st.none() | WORDS, labelled=st.booleans())
    def create(self, name: str, note: str | None, labelled: bool) -> None:
        body = thing(name, self.here, **({"note": note} if note else {}))
        if labelled:
            body["metadata"]["labels"] = {"mine": "1"}
            body["metadata"]["annotations"] = {"mine": "1"}
        made = self.done(self.consumer.create(WIDGETS, body))
        if made is not None:
            self.model[name] = wanted(made.to_dict())

    @rule(name=NAMES, note=st.none() | WORDS, option=st.none() | WORDS, count=st.integers(0, 2))
    def change(self, name: str, note: str | None, option: str | None, count: int) -> None:
        self._patch(name, {"spec": {"note": note, "options": {"x": option}, "count": count}})

    @rule(name=NAMES, word=st.none() | WORDS)
    def label(self, name: str, word: str | None) -> None:
        self._patch(name, {"metadata": {"labels": {"mine": word}}})

    @rule(name=NAMES, word=st.none() | WORDS)
    def annotate(self, name: str, word: str | None) -> None:
        self._patch(name, {"metadata": {"annotations": {"mine": word}}})

    @rule(name=NAMES, policy=st.sampled_from(["Orphan", None]))
    def let_orphan(self, name: str, policy: str | None) -> None:
        self._patch(name, {"metadata": {"annotations": {ANNOTATION_DELETION_POLICY: policy}}})

    def _patch(self, name: str, patch: JSON) -> None:
        made = self.done(self.consumer.merge_patch(WIDGETS, name, self.here, patch))
        if made is not None and not made.meta.deleting:
            self.model[name] = wanted(made.to_dict())

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        async def body() -> bool:
            await self.consumer.delete(WIDGETS, name, self.here)
            return True

        if self.done(body()):
            self.model.pop(name, None)

    # --- the provider

    @rule(name=NAMES, made=st.integers(0, 3))
    def report(self, name: str, made: int) -> None:
        status: JSON = {"status": {"made": made, "factory": "north"}}
        self._operate(name, self.provider.merge_patch, status, subresource="status")

    @rule(name=NAMES, made=st.integers(0, 2))
    def add(self, name: str, made: int) -> None:
        self._operate(name, self.provider.merge_patch, additions(made))

    @rule(name=NAMES)
    def meddle(self, name: str) -> None:
        """Somebody over there changes what is the consumer's."""
        self._operate(name, self.provider.merge_patch, {"spec": {"colour": "green"}})

    @rule(name=NAMES)
    def lose_the_mark(self, name: str) -> None:
        self._operate(
            name,
            self.provider.merge_patch,
            {"metadata": {"annotations": {ANNOTATION_CONSUMER_UID: None}}},
        )

    @rule(name=NAMES)
    def delete_copy(self, name: str) -> None:
        self._operate(name, self.provider.delete)

    def _operate(
        self, name: str, verb: Callable[..., Awaitable[Any]], *more: Any, **options: Any
    ) -> None:
        """Something is done to a copy, and never to what is the provider's own."""
        if name not in self.natives:
            self.done(verb(WIDGETS, name, self.there, *more, **options))

    @rule(name=NAMES)
    def create_native(self, name: str) -> None:
        made = self.done(self.provider.create(WIDGETS, thing(name, self.there)))
        if made is not None:
            self.natives[name] = made

    @rule(name=NAMES)
    def delete_native(self, name: str) -> None:
        known = self.natives.get(name)
        if known is None:
            return

        async def body() -> bool:
            await self.provider.delete(WIDGETS, name, self.there, uid=known.meta.uid)
            return True

        if self.done(body()):
            del self.natives[name]

    # --- what breaks

    @precondition(lambda self: not self.stopped)
    @rule()
    def stop(self) -> None:
        bench.run(self.world.konnector.kill())
        self.stopped = True

    @precondition(lambda self: self.stopped)
    @rule()
    def start(self) -> None:
        bench.run(self.world.konnector.start())
        self.stopped = False

    @rule(side=SIDES, forgetting=st.booleans())
    def cut(self, side: str, forgetting: bool) -> None:
        async def body() -> None:
            faults = self._plane(side).faults
            faults.drop_watches()
            if forgetting:
                faults.compact()

        bench.run(body())

    @rule(side=SIDES, code=st.sampled_from([409, 500]), times=st.integers(1, 3))
    def refuse(self, side: str, code: int, times: int) -> None:
        faults = self._plane(side).faults
        for verb in ("create", "update", "patch", "delete"):
            faults.fail(verb, "widgets", code, times=times)

    @rule(seconds=st.sampled_from([0.01, 0.1]))
    def breathe(self, seconds: float) -> None:
        """The konnector works a while."""
        bench.run(asyncio.sleep(seconds))

    def _plane(self, side: str) -> Plane:
        return self.world.provider_plane if side == "provider" else self.world.consumer_plane

    # --- what must hold

    @precondition(lambda self: not self.stopped)
    @rule()
    def converge(self) -> None:
        left = bench.run(settled(self.world.planes, self._wrong))
        assert not left, "\n".join(left)

    def teardown(self) -> None:
        for plane in self.world.planes:
            plane.faults.clear()
        if self.stopped:
            self.start()
        self.converge()
        bench.run(self._clean_up())

    async def _wrong(self) -> list[str]:
        """What is not as it shall be."""
        mine = (await self.consumer.list(WIDGETS, self.here)).items
        theirs = (await self.provider.list(WIDGETS, self.there)).items
        own = {name: known.raw for name, known in self.natives.items()}
        result = differences(
            [one for one in mine if one.meta.name not in own],
            [one for one in theirs if one.meta.name not in own],
            {self.here: self.there},
            self.world.link.cluster_namespace,
        )
        found = {one.meta.name: wanted(one.to_dict()) for one in mine}
        if found != self.model:
            result.append(f"the consumer has {found} instead of {self.model}")
        kept = {one.meta.name: one.raw for one in theirs if one.meta.name in own}
        if kept != own:
            result.append(f"the provider's own are {kept} instead of {own}")
        return result

    async def _clean_up(self) -> None:
        """Nothing of this example costs the next one time."""
        for client, namespace in ((self.consumer, self.here), (self.provider, self.there)):
            for one in (await client.list(WIDGETS, namespace)).items:
                with contextlib.suppress(NotFound):
                    await client.delete(WIDGETS, one.meta.name, namespace)


def wanted(body: JSON) -> JSON:
    """What of an object only the app team may change."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {})
    return {
        "spec": body["spec"],
        "labels": metadata.get("labels", {}),
        "annotations": {
            name: value
            for name, value in annotations.items()
            if not name.startswith("kube-bind.io/provider-")
        },
    }


async def settled(planes: list[Plane], wrong: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """What is still wrong when it is right, or when nobody has tried anything for a while."""
    while left := await wrong():
        if await untouched(planes):
            return await wrong()
    return left


async def untouched(planes: list[Plane]) -> bool:
    """Wait for a request; whether there was none for a while."""
    for one in planes:
        one.traffic.seen.clear()
    return await idle(QUIET_SECONDS, unless=lambda: any(one.traffic.seen for one in planes))


def test_both_sides_end_up_as_the_consumer_wants_it() -> None:
    run_state_machine_as_test(
        Both,
        settings=settings(
            max_examples=16,
            stateful_step_count=25,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
