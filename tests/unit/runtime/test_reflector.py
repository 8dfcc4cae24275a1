"""The reflector's state machine: each fault, in virtual time, with its requests counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.runtime.fakes import WIDGETS, FakeServer, refusal, widget

from fairlead.client import WatchEvent
from fairlead.client.errors import ConnectionFailed, UnexpectedAnswer
from fairlead.runtime.cache.informer import Delta, SharedInformer
from fairlead.runtime.cache.reflector import TRANSITIONS, Phase, PhaseEnd, Scope, classify


Run = Callable[[Awaitable[Any]], Any]
LIST, WATCH = Phase.LIST, Phase.WATCH


@asynccontextmanager
async def reflected(server: FakeServer) -> AsyncIterator[tuple[SharedInformer, list[str]]]:
    """A running informer and what it has told, as "TYPE name@version" lines."""
    informer = SharedInformer(server, Scope(WIDGETS))
    told: list[str] = []

    def tell(delta: Delta) -> None:
        meta = delta.object.meta
        told.append(f"{delta.type} {meta.name}@{meta.resource_version}")

    informer.subscribe(tell)
    task = asyncio.create_task(informer.run())
    try:
        yield informer, told
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("phase", "outcome", "follows"),
    [
        pytest.param(LIST, PhaseEnd.LISTED, WATCH, id="listed-then-watch"),
        pytest.param(LIST, PhaseEnd.EXPIRED, LIST, id="list-expired-then-list"),
        pytest.param(LIST, PhaseEnd.ABSENT, LIST, id="list-absent-then-list"),
        pytest.param(LIST, PhaseEnd.REFUSED, LIST, id="list-refused-then-list"),
        pytest.param(LIST, PhaseEnd.CUT, LIST, id="list-cut-then-list"),
        pytest.param(LIST, PhaseEnd.BUSY, LIST, id="list-busy-then-list"),
        pytest.param(LIST, PhaseEnd.FAILED, LIST, id="list-failed-then-list"),
        pytest.param(WATCH, PhaseEnd.CLOSED, WATCH, id="closed-then-resume"),
        pytest.param(WATCH, PhaseEnd.SHORT, WATCH, id="closed-soon-then-resume"),
        pytest.param(WATCH, PhaseEnd.CUT, WATCH, id="cut-then-resume"),
        pytest.param(WATCH, PhaseEnd.BUSY, WATCH, id="busy-then-resume"),
        pytest.param(WATCH, PhaseEnd.REFUSED, LIST, id="refused-then-list"),
        pytest.param(WATCH, PhaseEnd.EXPIRED, LIST, id="expired-then-list"),
        pytest.param(WATCH, PhaseEnd.ABSENT, LIST, id="absent-then-list"),
        pytest.param(WATCH, PhaseEnd.FAILED, LIST, id="failed-then-list"),
        pytest.param(WATCH, PhaseEnd.MISSED, LIST, id="missed-then-list"),
    ],
)
def test_what_follows(phase: Phase, outcome: PhaseEnd, follows: Phase) -> None:
    assert TRANSITIONS.get((phase, outcome), LIST) is follows


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(refusal("Gone"), PhaseEnd.EXPIRED, id="gone"),
        pytest.param(refusal("Expired"), PhaseEnd.EXPIRED, id="expired"),
        pytest.param(refusal("NotFound"), PhaseEnd.ABSENT, id="not-found"),
        pytest.param(refusal("Forbidden"), PhaseEnd.REFUSED, id="forbidden"),
        pytest.param(refusal("Unauthorized"), PhaseEnd.REFUSED, id="unauthorized"),
        pytest.param(refusal("TooManyRequests"), PhaseEnd.BUSY, id="too-many"),
        pytest.param(refusal("ServiceUnavailable"), PhaseEnd.BUSY, id="unavailable"),
        pytest.param(refusal("InternalError"), PhaseEnd.FAILED, id="internal"),
        pytest.param(ConnectionFailed("reset"), PhaseEnd.CUT, id="connection"),
        pytest.param(TimeoutError(), PhaseEnd.CUT, id="overdue"),
        pytest.param(UnexpectedAnswer("garbage"), PhaseEnd.FAILED, id="garbage"),
        pytest.param(KeyError("bug"), PhaseEnd.FAILED, id="bug"),
    ],
)
def test_classify(error: Exception, outcome: PhaseEnd) -> None:
    assert classify(error) is outcome


def test_lists_then_watches(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with reflected(server) as (informer, told):
            await informer.synced.wait()
            await asyncio.sleep(1)
            await server.put("b")
            await server.put("a")
            await server.delete("b")
            await asyncio.sleep(1)
            assert told == ["ADDED a@1", "ADDED b@2", "MODIFIED a@3", "DELETED b@4"]
            assert (server.count("list"), server.count("watch")) == (1, 1)
        assert server.open_watches == 0

    virtual(story())


@pytest.mark.parametrize(
    ("error", "delayed"),
    [
        pytest.param(None, False, id="closed-in-time"),
        pytest.param(ConnectionFailed("cut in the middle of an event"), True, id="cut-mid-event"),
        pytest.param(refusal("TooManyRequests"), True, id="429"),
    ],
)
def test_resumes_at_the_last_version(
    virtual: Run, error: Exception | None, *, delayed: bool
) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with reflected(server) as (_, told):
            await asyncio.sleep(10)
            await server.put("b")
            await server.bookmark()
            await asyncio.sleep(10)
            await server.end_watches(error)
            await server.put("c")
            ended = asyncio.get_running_loop().time()
            await asyncio.sleep(10)
            assert told == ["ADDED a@1", "ADDED b@2", "ADDED c@4"]
            assert [asked.version for asked in server.asked] == ["", "1", "3"]
            waited = server.asked[-1].at - ended
            assert (0.6 <= waited <= 1.0) if delayed else waited == 0

    virtual(story())


@pytest.mark.parametrize(
    "in_stream", [pytest.param(False, id="http-410"), pytest.param(True, id="error-event")]
)
def test_lists_again_when_expired_and_tells_what_was_missed(
    virtual: Run, *, in_stream: bool
) -> None:
    async def story() -> None:
        server = FakeServer()
        for name in ("kept", "changed", "deleted", "replaced"):
            await server.put(name)
        async with reflected(server) as (informer, told):
            await asyncio.sleep(10)
            told.clear()
            server.fault["watch"] = lambda: ConnectionFailed("unreachable")
            await server.end_watches(ConnectionFailed("unreachable"))
            await asyncio.sleep(5)
            await server.put("changed")
            await server.delete("deleted")
            await server.delete("replaced")
            await server.put("replaced", uid="another")
            await server.put("new")
            server.fault.clear()
            if in_stream:
                server.fail_once("watch", refusal("Expired"))
            else:
                server.compact()
            await asyncio.sleep(60)
            assert sorted(told) == [
                "ADDED new@9",
                "ADDED replaced@8",
                "DELETED deleted@3",
                "DELETED replaced@4",
                "MODIFIED changed@5",
            ]
            assert told.index("DELETED replaced@4") < told.index("ADDED replaced@8")
            assert server.count("list") == 2
            assert informer.reflector.error == ""

    virtual(story())


FOREVER = [
    pytest.param("list", lambda: refusal("InternalError"), id="list-500"),
    pytest.param("list", lambda: refusal("Forbidden"), id="list-forbidden"),
    pytest.param("list", lambda: refusal("NotFound"), id="list-404"),
    pytest.param("list", lambda: ConnectionFailed("refused"), id="list-unreachable"),
    pytest.param("list", lambda: refusal("Expired"), id="list-410"),
    pytest.param("list", lambda: ValueError("a bug"), id="list-bug"),
    pytest.param("watch", lambda: refusal("Gone"), id="watch-410"),
    pytest.param("watch", lambda: refusal("Forbidden"), id="watch-forbidden"),
    pytest.param("watch", lambda: refusal("NotFound"), id="watch-404"),
    pytest.param("watch", lambda: refusal("InternalError"), id="watch-500"),
    pytest.param("watch", lambda: ConnectionFailed("cut"), id="watch-cut"),
    pytest.param("watch", lambda: UnexpectedAnswer("garbage"), id="watch-garbage"),
]


@pytest.mark.parametrize(("verb", "error"), FOREVER)
def test_a_fault_that_stays_makes_no_hot_loop_and_says_so(
    virtual: Run, verb: str, error: Callable[[], Exception]
) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault[verb] = error
        async with reflected(server) as (informer, told):
            await asyncio.sleep(600)
            # 0.8, 1.6, ... 30 s: 25 attempts in ten minutes, each a watch and a list at most.
            assert 15 <= len(server.asked) <= 60
            assert "widgets.example.org" in informer.reflector.error
            server.fault.clear()
            await server.put("late")
            await asyncio.sleep(60)
            assert told == ["ADDED late@1"]
            assert informer.reflector.error == ""

    virtual(story())


def test_who_may_list_and_must_not_watch_sees_changes_slowly(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault["watch"] = lambda: refusal("Forbidden")
        async with reflected(server) as (informer, told):
            await asyncio.sleep(600)
            await server.put("a")
            asked = len(server.asked)
            await asyncio.sleep(60)
            assert told == ["ADDED a@1"]
            assert len(server.asked) - asked <= 6
            assert "cannot watch" in informer.reflector.error

    virtual(story())


def test_a_server_that_closes_every_watch_at_once_makes_no_hot_loop(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.close_at_once = True
        async with reflected(server) as (informer, told):
            await asyncio.sleep(300)
            await server.put("a")
            await asyncio.sleep(300)
            assert server.count("watch") <= 40
            assert server.count("list") == 1
            assert told == ["ADDED a@1"]
            assert "closes the watch at once" in informer.reflector.error

    virtual(story())


def test_a_server_that_closes_every_watch_with_a_bookmark_makes_no_hot_loop(virtual: Run) -> None:
    class Chatty(FakeServer):
        async def _stream(self, version: int, seconds: float) -> AsyncGenerator[WatchEvent, None]:
            if self.count("watch") > 100:
                await asyncio.sleep(seconds)
            self.version += 1
            yield WatchEvent("BOOKMARK", widget("", self.version, namespace="", uid="-"))

    async def story() -> None:
        server = Chatty()
        async with reflected(server):
            await asyncio.sleep(300)
            assert server.count("watch") <= 40

    virtual(story())


def test_a_busy_server_that_closes_watches_for_being_behind_is_caught_up_with(
    virtual: Run,
) -> None:
    """A kube-apiserver ends the watch of whoever cannot keep up, time and again."""

    async def story() -> None:
        server = FakeServer()
        async with reflected(server) as (informer, told):
            for number in range(1, 21):
                await asyncio.sleep(1)
                await server.put("a")
                await asyncio.sleep(0.1)
                await server.end_watches()
                await asyncio.sleep(0.1)
                assert len(told) == number
            assert informer.reflector.error == ""
            assert (server.count("list"), server.count("watch")) == (1, 21)

    virtual(story())


def test_a_quiet_watch_that_a_busy_server_closes_is_soon_back(virtual: Run) -> None:
    """Others' writes close it, too, and it has nothing to tell."""

    async def story() -> None:
        server = FakeServer()
        async with reflected(server) as (informer, _):
            for _ in range(20):
                await asyncio.sleep(1.5)
                ended = asyncio.get_running_loop().time()
                await server.end_watches()
                while server.asked[-1].at < ended:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert server.asked[-1].at - ended <= 1.0
            assert informer.reflector.error == ""
            assert server.count("list") == 1

    virtual(story())


def test_the_first_pages_of_the_first_list_are_told_at_once(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        for name in "abc":
            await server.put(name)
        server.pages = 10.0
        async with reflected(server) as (informer, told):
            await asyncio.sleep(1)
            assert told == ["ADDED a@1"]
            assert not informer.synced.is_set()
            await asyncio.sleep(10)
            assert told == ["ADDED a@1", "ADDED b@2"]
            await informer.synced.wait()
            assert told == ["ADDED a@1", "ADDED b@2", "ADDED c@3"]

    virtual(story())


def test_what_was_on_a_page_and_is_gone_when_the_list_is_whole_is_removed(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        for name in "abc":
            await server.put(name)
        server.pages = 10.0
        async with reflected(server) as (informer, told):
            await asyncio.sleep(1)
            await server.delete("a")
            await informer.synced.wait()
            assert told == ["ADDED a@1", "ADDED b@2", "DELETED a@1", "ADDED c@3"]

    virtual(story())


def test_a_restarted_server_that_forgot_our_version_is_listed_soon(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        async with reflected(server) as (_, told):
            await asyncio.sleep(10)
            server.fault = dict.fromkeys(("list", "watch"), lambda: ConnectionFailed("down"))
            await server.end_watches(ConnectionFailed("down"))
            await asyncio.sleep(300)
            await server.put("a")
            server.compact()
            server.fault.clear()
            await asyncio.sleep(60)
            assert told == ["ADDED a@1"]
            refused, listed = server.asked[-3:-1]
            assert (refused.verb, listed.verb) == ("watch", "list")
            assert listed.at - refused.at <= 0.8

    virtual(story())


def test_retry_after_is_honoured(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fail_once("list", refusal("TooManyRequests", retry_after=90.0))
        async with reflected(server) as (informer, _):
            await informer.synced.wait()
            first, second = (asked.at for asked in server.asked[:2])
            assert second - first >= 90

    virtual(story())


def test_back_off_starts_over_only_after_a_stable_period(virtual: Run) -> None:
    async def gaps(pause: float) -> list[float]:
        server = FakeServer()
        async with reflected(server):
            for _ in range(4):
                await asyncio.sleep(pause)
                ended = asyncio.get_running_loop().time()
                await server.end_watches(ConnectionFailed("cut"))
                while server.asked[-1].at < ended or not server.open_watches:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                server.asked[-1] = server.asked[-1]._replace(version=str(ended))
            watches = [asked for asked in server.asked if asked.verb == "watch"][1:]
            return [asked.at - float(asked.version) for asked in watches]

    flapping = virtual(gaps(10.0))
    assert flapping[0] <= 1.0
    assert flapping[3] >= 4.8
    assert all(gap <= 1.0 for gap in virtual(gaps(60.0)))


def test_one_404_empties_nothing_three_do(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with reflected(server) as (informer, told):
            await asyncio.sleep(10)
            server.fail_once("watch", refusal("NotFound"))
            await server.end_watches()
            await asyncio.sleep(60)
            assert told == ["ADDED a@1"]
            server.fault = dict.fromkeys(("list", "watch"), lambda: refusal("NotFound"))
            await server.end_watches()
            await asyncio.sleep(60)
            assert told == ["ADDED a@1", "DELETED a@1"]
            assert len(informer.store) == 0
            assert "does not serve" in informer.reflector.error

    virtual(story())


def test_what_is_served_a_moment_later_is_no_problem(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        server.fail_once("list", refusal("NotFound"))
        said: list[str] = []
        async with reflected(server) as (informer, told):
            while not told:
                said.append(informer.reflector.error)
                await asyncio.sleep(0.1)
            assert server.count("list") == 2
            assert set(said) == {""}

    virtual(story())


def test_404_between_other_faults_empties_nothing(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with reflected(server) as (_, told):
            await asyncio.sleep(10)
            for _ in range(6):
                server.fail_once("list", refusal("NotFound"), ConnectionFailed("starting"))
            server.fail_once("watch", refusal("NotFound"))
            await server.end_watches()
            await asyncio.sleep(600)
            assert told == ["ADDED a@1"]
            assert server.count("list") == 14

    virtual(story())


def test_a_resource_that_was_never_there_does_not_count_as_synced(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault["list"] = lambda: refusal("NotFound")
        async with reflected(server) as (informer, _):
            await asyncio.sleep(300)
            assert not informer.synced.is_set()

    virtual(story())


def test_what_is_forbidden_later_stays_in_the_store(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with reflected(server) as (informer, told):
            await asyncio.sleep(10)
            server.fault["watch"] = lambda: refusal("Forbidden", "widgets is forbidden")
            await server.end_watches()
            await asyncio.sleep(60)
            assert told == ["ADDED a@1"]
            assert informer.reflector.error == (
                "cannot watch widgets.example.org: widgets is forbidden"
            )

    virtual(story())


def test_a_watch_that_never_ends_is_given_up(virtual: Run) -> None:
    class Silent(FakeServer):
        async def _stream(self, version: int, seconds: float) -> AsyncGenerator[WatchEvent, None]:
            await asyncio.sleep(1e6)
            yield WatchEvent("ADDED", widget("never"))

    async def story() -> None:
        server = Silent()
        async with reflected(server):
            await asyncio.sleep(3600)
            assert 5 <= server.count("watch") <= 12

    virtual(story())


def test_a_list_that_goes_on_is_a_fault_until_it_is_complete(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        for number in range(9):
            await server.put(f"w{number}")
        server.pages = 10
        async with reflected(server) as (informer, _):
            await asyncio.sleep(59)
            assert informer.reflector.error == ""
            await asyncio.sleep(2)
            assert informer.reflector.error == (
                "cannot list widgets.example.org: the list is not complete after 60 s"
            )
            await asyncio.sleep(60)
            assert informer.synced.is_set()
            assert informer.reflector.error == ""

    virtual(story())


def test_an_unknown_event_type_is_passed_over(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        async with reflected(server) as (_, told):
            await asyncio.sleep(1)
            await server._say("ERROR", widget("x", 0))
            await server.put("a")
            await asyncio.sleep(1)
            assert told == ["ADDED a@1"]

    virtual(story())
