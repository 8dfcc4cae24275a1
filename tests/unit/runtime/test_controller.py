"""Controllers: what is asked when, what failures do, how they stop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
import structlog
from tests.unit.runtime.fakes import WIDGETS, FakeServer, refusal, widget

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.status import Status, StatusDetails
from fairlead.client import ApiError, Client
from fairlead.client.errors import api_error
from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.cache.informer import Delta
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.controller.controller import Controller
from fairlead.runtime.controller.reconcile import (
    Reconciler,
    Request,
    Result,
    TerminalError,
    object_mapper,
    owner_mapper,
)


Run = Callable[[Awaitable[Any]], Any]

SLOW = BackoffPolicy(initial=1.0, maximum=3.0, jitter=0.0)
A, B = Request("", "ns", "a"), Request("", "ns", "b")


class Fitting(msgspec.Struct):
    spec: str


@asynccontextmanager
async def working(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


class Recorder:
    """A reconciler that does as told, and what it was asked at which time."""

    def __init__(self, *answers: Result | BaseException | None) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[Request, float]] = []

    @property
    def requests(self) -> list[Request]:
        return [request for request, _ in self.calls]

    async def __call__(self, request: Request) -> Result | None:
        self.calls.append((request, asyncio.get_running_loop().time()))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


def missing(name: str) -> ApiError:
    return api_error(Status("Failure", "gone", "NotFound", 404, StatusDetails(name=name)))


def gaps(recorder: Recorder) -> list[float]:
    times = [at for _, at in recorder.calls]
    return [round(b - a, 3) for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize(
    ("answers", "expected", "result"),
    [
        pytest.param([None], [], {"success": 1}, id="done"),
        pytest.param([Result()], [], {"success": 1}, id="empty-result"),
        pytest.param([Result(30.0)], [30.0], {"requeue_after": 1, "success": 1}, id="after"),
        pytest.param(
            [Result(backoff=SLOW)] * 3, [1.0, 2.0, 3.0], {"requeue": 3, "success": 1}, id="backoff"
        ),
        pytest.param(
            [Result(backoff=SLOW), Result(5.0), Result(backoff=SLOW)],
            [1.0, 5.0, 1.0],
            {"requeue": 2, "requeue_after": 1, "success": 1},
            id="backoff-starts-anew",
        ),
        pytest.param(
            [Result(backoff=SLOW), refusal("Conflict"), Result(backoff=SLOW)],
            [1.0, 0.01, 3.0],
            {"requeue": 3, "success": 1},
            id="backoff-and-errors-count-together",
        ),
        pytest.param(
            [ValueError("x"), ValueError("x")],
            [0.005, 0.01],
            {"error": 2, "success": 1},
            id="fails",
        ),
        pytest.param([TerminalError("no use")], [], {"error": 1}, id="terminal"),
        pytest.param([refusal("Conflict")], [0.005], {"requeue": 1, "success": 1}, id="conflict"),
        pytest.param([missing("a")], [0.005], {"requeue": 1, "success": 1}, id="gone"),
        pytest.param([missing("b")], [0.005], {"error": 1, "success": 1}, id="another-is-missing"),
        pytest.param(
            [missing("a"), missing("a")],
            [0.005, 0.01],
            {"requeue": 1, "error": 1, "success": 1},
            id="missing-again",
        ),
        pytest.param([refusal("Forbidden")], [0.005], {"error": 1, "success": 1}, id="forbidden"),
        pytest.param(
            [asyncio.CancelledError()], [0.005], {"error": 1, "success": 1}, id="cancelled-inside"
        ),
    ],
)
def test_answers(
    virtual: Run, answers: list[Any], expected: list[float], result: dict[str, int]
) -> None:
    async def story() -> None:
        recorder = Recorder(*answers)
        controller = Controller("c", recorder)
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(100)
        assert gaps(recorder) == expected
        assert dict(controller.stats.results) == result
        assert controller.queue.failures(A) == 0

    virtual(story())


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        pytest.param("InternalError", 60.0, id="a-fault-of-the-server"),
        pytest.param("Conflict", 60.0, id="somebody-faster"),
        pytest.param("Forbidden", 60.0, id="a-right-that-is-missing"),
        pytest.param("TooManyRequests", 60.0, id="a-busy-server"),
        pytest.param("Invalid", 1000.0, id="what-is-wrong-with-the-object"),
    ],
)
def test_how_long_a_failure_waits_at_most(virtual: Run, error: str, longest: float) -> None:
    async def story() -> None:
        recorder = Recorder(*[refusal(error) for _ in range(20)])
        controller = Controller("c", recorder)
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(10_000)
        assert len(recorder.calls) == 21
        assert max(gaps(recorder)) == longest

    virtual(story())


def test_a_reconciler_that_takes_too_long_is_stopped_and_retried(virtual: Run) -> None:
    ended: list[str] = []

    async def slow(request: Request) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(request.name)

    async def story() -> None:
        controller = Controller("c", slow, timeout=10)
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(25)
            assert ended == ["a", "a"]
            assert controller.stats.timeouts == 2

    virtual(story())


def test_each_request_has_the_whole_time(virtual: Run) -> None:
    async def reconcile(request: Request) -> None:
        try:
            await asyncio.sleep(7 if request.name == "a" else 1000)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def story() -> None:
        begun = asyncio.get_running_loop().time()
        controller = Controller("c", reconcile, timeout=10, workers=1)
        async with working(controller):
            controller.enqueue(A)
            controller.enqueue(B)
            await asyncio.sleep(20)
            assert [round(moment - begun) for moment in ended] == [7, 17]
            assert controller.stats.timeouts == 1

    ended: list[float] = []
    virtual(story())


def test_who_stops_a_worker_as_its_request_times_out_is_not_held_up(virtual: Run) -> None:
    async def slow(request: Request) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(100)

    async def story() -> None:
        controller = Controller("c", slow, timeout=10)
        async with working(controller) as task:
            controller.enqueue(A)
            await asyncio.sleep(11)
            task.cancel()
            await asyncio.wait([task], timeout=5)
            assert task.done()
            # It waits for the next run, not for a back-off.
            assert len(controller.queue) == 1

    virtual(story())


def test_a_timeout_of_the_reconcilers_own_is_an_ordinary_failure(virtual: Run) -> None:
    async def story() -> None:
        controller = Controller("c", Recorder(TimeoutError("database")))
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(1)
            assert controller.stats.timeouts == 0
            assert controller.stats.results["error"] == 1

    virtual(story())


def test_a_poisoned_object_holds_up_no_other(virtual: Run) -> None:
    seen: list[str] = []

    async def reconcile(request: Request) -> None:
        if request.name == "a":
            raise RuntimeError("poison")
        seen.append(request.name)

    async def story() -> None:
        controller = Controller("c", reconcile, workers=1)
        async with working(controller):
            for number in range(20):
                controller.enqueue(A)
                controller.enqueue(Request("", "ns", f"b{number}"))
                await asyncio.sleep(1)
        assert len(seen) == 20
        assert controller.stats.panics <= 40

    virtual(story())


def test_workers_share_keys_but_never_one_key(virtual: Run) -> None:
    busy: list[Request] = []
    peak = 0

    async def reconcile(request: Request) -> None:
        nonlocal peak
        assert request not in busy
        busy.append(request)
        peak = max(peak, len(busy))
        await asyncio.sleep(1)
        busy.remove(request)

    async def story() -> None:
        controller = Controller("c", reconcile, workers=3)
        async with working(controller):
            for _ in range(4):
                for name in "abcde":
                    controller.enqueue(Request("", "ns", name))
                await asyncio.sleep(0.7)
            assert controller.stats.workers == 3
            await asyncio.sleep(20)
        assert controller.stats.results["error"] == 0
        assert peak == 3

    virtual(story())


def test_a_stopping_controller_lets_work_finish(virtual: Run) -> None:
    done: list[str] = []

    async def reconcile(request: Request) -> None:
        await asyncio.sleep(1)
        done.append(request.name)

    async def story() -> None:
        controller = Controller("c", reconcile, workers=1)
        async with working(controller) as task:
            controller.enqueue(A)
            controller.enqueue(B)
            await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.wait([task])
            assert done == ["a"]
            assert len(controller.queue) == 1
            assert controller.stats.workers == 0

    virtual(story())


def test_what_does_not_finish_is_cancelled_and_taken_up_by_the_next_run(virtual: Run) -> None:
    async def story() -> None:
        recorder: list[str] = []
        hang = True

        async def reconcile(request: Request) -> None:
            recorder.append(request.name)
            if hang:
                await asyncio.sleep(1000)

        controller = Controller("c", reconcile)
        begun = asyncio.get_running_loop().time()
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() - begun <= 3.5
        hang = False
        async with working(controller):
            await asyncio.sleep(1)
        assert recorder == ["a", "a"]

    virtual(story())


def test_logs_carry_the_request_and_no_traceback_for_refusals(virtual: Run) -> None:
    async def story() -> None:
        controller = Controller("c", Recorder(refusal("Forbidden", "may not"), ValueError("bug")))
        with structlog.testing.capture_logs(
            processors=[structlog.contextvars.merge_contextvars]
        ) as logs:
            async with working(controller):
                controller.enqueue(Request("east", "ns", "a"))
                await asyncio.sleep(1)
        refused, bug = logs
        assert {
            name: refused[name] for name in ("controller", "cluster", "namespace", "name")
        } == {
            "controller": "c",
            "cluster": "east",
            "namespace": "ns",
            "name": "a",
        }
        assert refused["reconcileID"] != bug["reconcileID"]
        assert (refused["error"], refused["exc_info"]) == ("may not", None)
        assert isinstance(bug["exc_info"], ValueError)
        assert structlog.contextvars.get_contextvars() == {}

    virtual(story())


def test_an_object_that_does_not_fit_its_type_is_told_once(virtual: Run) -> None:
    spoiled = object_from_dict({"kind": "Thing", "metadata": {"name": "a"}, "spec": 1})

    async def reconcile(_request: Request) -> None:
        spoiled.decode(Fitting)

    async def story() -> None:
        controller = Controller("c", reconcile)
        with structlog.testing.capture_logs() as logs:
            async with working(controller):
                controller.enqueue(Request("", "", "a"))
                await asyncio.sleep(60)
        (line,) = [line for line in logs if line["log_level"] != "debug"]
        message = "Thing a cannot be read: spec: it must be a string, not an integer"
        assert line["error"] == message
        assert "exc_info" not in line
        assert controller.stats.panics == 0
        assert controller.stats.results["error"] < 10

    virtual(story())


@asynccontextmanager
async def watching(
    server: FakeServer, reconcile: Reconciler, **options: Any
) -> AsyncIterator[Controller]:
    cluster = Cluster("east", cast("Client", server))
    controller = Controller("c", reconcile)
    controller.watch(cluster.informer(WIDGETS), **options)
    running = asyncio.create_task(cluster.run())
    async with working(controller):
        yield controller
    running.cancel()
    await asyncio.wait([running])


def test_changes_become_requests(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        recorder = Recorder()
        async with watching(server, recorder, cluster="east"):
            await asyncio.sleep(1)
            await server.put("b")
            await asyncio.sleep(1)
            await server.delete("a")
            await asyncio.sleep(1)
        assert recorder.requests == [
            Request("east", "ns", "a"),
            Request("east", "ns", "b"),
            Request("east", "ns", "a"),
        ]

    virtual(story())


def test_nothing_is_reconciled_before_the_caches_are_full(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault["list"] = lambda: refusal("ServiceUnavailable")
        recorder = Recorder()
        async with watching(server, recorder) as controller:
            controller.enqueue(A)
            await asyncio.sleep(60)
            assert recorder.calls == []
            server.fault.clear()
            await asyncio.sleep(60)
            assert recorder.requests == [A]

    virtual(story())


def test_predicates_and_mappers_choose(virtual: Run) -> None:
    def twice(delta: Delta) -> list[Request]:
        return [A, B]

    async def story() -> None:
        server = FakeServer()
        recorder = Recorder()
        options = {"predicate": lambda delta: delta.type == "DELETED"}
        async with watching(server, recorder, mapper=twice, **options):
            await asyncio.sleep(1)
            await server.put("x")
            await asyncio.sleep(1)
            assert recorder.calls == []
            await server.delete("x")
            await asyncio.sleep(1)
            assert recorder.requests == [A, B]

    virtual(story())


def test_a_mapper_that_fails_on_one_object_still_maps_others(virtual: Run) -> None:
    def mapper(delta: Delta) -> list[Request]:
        if delta.object.meta.name == "bad":
            raise KeyError("bad")
        return list(object_mapper()(delta))

    async def story() -> None:
        server = FakeServer()
        for name in ("bad", "a"):
            await server.put(name)
        recorder = Recorder()
        async with watching(server, recorder, mapper=mapper):
            await asyncio.sleep(1)
        assert recorder.requests == [A]

    virtual(story())


def test_a_source_that_is_closed_holds_up_no_start(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        cluster = Cluster("east", cast("Client", server))
        informer = cluster.informer(WIDGETS)
        recorder = Recorder()
        controller = Controller("c", recorder)
        controller.watch(informer)
        async with working(controller):
            controller.enqueue(A)
            await asyncio.sleep(1)
            await informer.close()
            await asyncio.sleep(1)
            assert recorder.requests == [A]

    virtual(story())


def owned(kind: str, api_version: str, name: str) -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u"}
    object_ = widget("x")
    body = object_.to_dict()
    body["metadata"]["ownerReferences"] = [reference]
    from fairlead.api.meta import object_from_dict

    return object_from_dict(body)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param(None, owned("App", "g/v1", "o"), ["o"], id="added"),
        pytest.param(owned("App", "g/v1", "o"), None, ["o"], id="deleted"),
        pytest.param(
            owned("App", "g/v1", "o"), owned("App", "g/v2", "p"), ["o", "p"], id="handed-over"
        ),
        pytest.param(owned("App", "g/v1", "o"), owned("App", "g/v1", "o"), ["o"], id="once"),
        pytest.param(None, owned("App", "other/v1", "o"), [], id="other-group"),
        pytest.param(None, owned("Other", "g/v1", "o"), [], id="other-kind"),
        pytest.param(None, widget("x"), [], id="unowned"),
    ],
)
def test_owner_mapper(old: Object | None, new: Object | None, found: list[str]) -> None:
    requests = list(owner_mapper("App", "g", "east")(Delta("MODIFIED", old, new)))
    assert requests == [Request("east", "ns", name) for name in found]


def test_owner_mapper_of_cluster_scoped_owners() -> None:
    delta = Delta("ADDED", None, owned("App", "g/v1", "o"))
    assert list(owner_mapper("App", "g", namespaced=False)(delta)) == [Request("", "", "o")]


def test_a_request_reads_as_a_path() -> None:
    assert str(Request("east", "ns", "a")) == "east/ns/a"
    assert str(Request("", "", "a")) == "a"
