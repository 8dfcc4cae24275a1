"""What waits for servers: batches, answers and looks; the servers themselves answer by the tests.

That is so because a real server can hardly be had to fail, to hang or to be slow at one statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest
from tests.support.pgserver import claim, wanted
from tests.support.waiting import idle

from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.desired import ServerPlace
from fairlead.postgres.controllers.servers import looks
from fairlead.postgres.controllers.servers import work as module
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    Drop,
    Job,
    PlanOnly,
    Roles,
    Sync,
    WorkCallbacks,
)
from fairlead.postgres.controllers.servers.work import Work
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import explain_statement
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import LoginTurns
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.database.plans.server_plan import CrowdedError
from fairlead.postgres.database.plans.snapshot import ServerFacts
from fairlead.postgres.database.work.drift import DriftResult, Kept
from fairlead.postgres.database.work.sync import Check
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.runtime import Request


FACTS = ServerFacts(
    version=180000,
    version_text="18",
    system_identifier="1",
    admin="postgres",
    admin_oid=10,
    superuser=True,
    reads_verifiers=True,
)


def place(host: str = "db", owner: str = "PostgresServer main") -> ServerPlace:
    return ServerPlace(
        owner,
        Endpoint(host=host, port=5432, username="postgres", password="x", ssl_mode="disable"),
    )


def request(name: str) -> Request:
    return Request("here", "team", name)


def sync_job(username: str) -> Sync:
    return Sync(wanted(username))


def kept(username: str) -> Kept:
    return Kept(state=wanted(username, password=""))


Serve = Callable[[str, Sequence[Any]], Any]


class World:
    """Work whose servers are the test: ``serve`` gets a host, a kind of work and its usernames."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, Answer]] = []
        self.differing: list[str] = []
        self.batches: list[tuple[str, str, list[str]]] = []
        self.swept: list[str] = []
        self.looked: list[list[str]] = []
        self.drifted: set[str] = set()
        self.fails: dict[str, Exception] = {}
        """Failures by host, kind and username, and of ``again``, work that is done twice."""
        self.fails_once: dict[str, Exception] = {}
        self.problems_once: dict[str, AccessError] = {}
        """Problems of single syncs, by username."""
        self.gates: dict[str, asyncio.Event] = {}
        self.interval = 3600.0
        self.sweep_fails: Exception | None = None
        self.locked: set[str] = set()
        """Usernames that somebody's session holds."""
        self.crowded: set[str] = set()
        """Usernames with more privileges than a batch takes."""
        self.tries: list[tuple[str, list[str]]] = []
        self.at_work: list[str] = []
        self.twice: list[str] = []
        """Those that two jobs were at work on at once."""
        self.work = Work(
            WorkCallbacks(
                answered=self._answered,
                differs=lambda request: self.differing.append(request.name),
                sweep=self._sweep,
                installation=self._installation,
                interval=lambda: self.interval,
                metrics=PostgresMetrics(),
                large=asyncio.Semaphore(),
            )
        )

    def _answered(self, request: Request, answer: Answer) -> None:
        self.answers.append((request.name, answer))

    async def _installation(self) -> str:
        return "here"

    async def _sweep(self, place: ServerPlace, *_: object) -> None:
        self.swept.append(place.endpoint.host)
        if self.sweep_fails is not None:
            raise self.sweep_fails

    async def try_out(self, names: list[str], *, brief: bool) -> dict[str, AccessError]:
        """What somebody holds of these."""
        way = "brief" if brief else "alone"
        self.tries.append((way, names))
        for name in names:
            if f"{way} {name}" in self.gates:
                await self.gates[f"{way} {name}"].wait()
        found = {name: AccessError("Locked", "held") for name in names if name in self.locked}
        if brief:
            found |= {name: CrowdedError(name) for name in names if name in self.crowded}
        return found

    async def serve(self, host: str, kind: str, usernames: Iterable[str]) -> list[str]:
        names = list(usernames)
        self.batches.append((host, kind, names))
        if kind != "look":
            self.twice += [name for name in names if name in self.at_work]
            self.at_work += names
        try:
            for gate in (host, kind, *names):
                if gate in self.gates:
                    await self.gates[gate].wait()
            await asyncio.sleep(0)
        finally:
            if kind != "look":
                for name in names:
                    self.at_work.remove(name)
        is_again = self.batches.count((host, kind, names)) > 1
        for name in (host, kind, *names, *(["again"] if is_again else [])):
            if name in self.fails_once:
                raise self.fails_once.pop(name)
            if name in self.fails:
                raise self.fails[name]
        return names

    def of(self, kind: str) -> list[list[str]]:
        return [names for _, one, names in self.batches if one == kind]

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def answered(self, count: int) -> dict[str, Answer]:
        await self.until(lambda: len(self.answers) >= count)
        return dict(self.answers)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World()

    async def check(sessions: Any, asked: Sequence[Check]) -> dict[str, AccessError | None]:
        names = [one.username for one in asked]
        return dict.fromkeys(await made.serve(sessions.endpoint.host, "check", names))

    async def sync(
        sessions: Any, accesses: Sequence[WantedState], *_: object, brief: bool, **__: object
    ) -> dict[str, Synced | AccessError]:
        names = [one.username for one in accesses]
        held = await made.try_out(names, brief=brief)
        found = await made.serve(sessions.endpoint.host, "sync", names)
        done = Synced(server=FACTS, applied=[], warnings=[])
        ended = {
            name: msgspec.structs.replace(done, problems=(made.problems_once.pop(name),))
            for name in found
            if name in made.problems_once
        }
        return {name: held.get(name, ended.get(name, done)) for name in found}

    async def plan(
        sessions: Any,
        accesses: Sequence[WantedState],
        _: object,
        *,
        most: int | None,
        **__: object,
    ) -> ShownPlan:
        (name,) = [one.username for one in accesses]
        if most is not None and name in made.crowded:
            raise CrowdedError(name)
        await made.serve(sessions.endpoint.host, "plan", [name])
        return ShownPlan(statements=())

    async def cleanup(sessions: Any, username: str, *_: object, brief: bool, **__: object) -> None:
        held = await made.try_out([username], brief=brief)
        await made.serve(sessions.endpoint.host, "drop", [username])
        if held:
            raise held[username]

    async def look(sessions: Any, kept: Sequence[Kept], *_: object) -> DriftResult:
        names = [one.state.username for one in kept]
        made.looked.append(names)
        await made.serve(sessions.endpoint.host, "look", names)
        return DriftResult(differing=frozenset(made.drifted), claimed={})

    for name, fake in (
        ("check_claims", check),
        ("sync", sync),
        ("plan_accesses", plan),
        ("cleanup", cleanup),
    ):
        monkeypatch.setattr(module, name, fake)
    monkeypatch.setattr(looks, "find_drift", look)
    yield made
    await made.work.close()


async def test_what_comes_together_is_one_batch_and_each_gets_its_answer(world: World) -> None:
    for name in "abc":
        world.work.submit(place(), request(name), sync_job(name))
    world.work.submit(place(), request("d"), Check(("d",), claim()))
    world.work.submit(place(), request("e"), Drop("e", claim(), "Restrict"))
    world.work.submit(place(), request("f"), PlanOnly(wanted("f")))
    found = await world.answered(6)
    assert world.of("sync") == [["a", "b", "c"]]
    assert all(isinstance(found[name], Synced) for name in "abc")
    assert (found["d"], found["e"]) == (None, None)
    assert isinstance(found["f"], ShownPlan)


async def test_one_username_is_worked_on_by_one_job_at_a_time(world: World) -> None:
    for number in range(3):
        world.work.submit(place(), request(f"same{number}"), sync_job("same"))
    world.work.submit(place(), request("drop"), Drop("same", claim(), "Restrict"))
    world.work.submit(place(), request("other"), sync_job("other"))
    await world.answered(5)
    syncs = [name for names in world.of("sync") for name in names]
    assert sorted(syncs) == ["other", "same", "same", "same"]
    assert max(names.count("same") for names in world.of("sync")) == 1
    assert world.of("drop") == [["same"]]
    assert world.twice == []


async def test_a_role_that_is_freed_while_nothing_else_is_to_do_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = world.gates["same"] = asyncio.Event()
    batch, freed = module._Server._do_batch, Roles.freed

    async def late(server: module._Server, jobs: Mapping[Request, Job]) -> None:
        if not jobs:
            gate.set()
            await world.answered(1)
        await batch(server, jobs)

    async def noted(roles: Roles) -> None:
        gate.set()
        await freed(roles)

    monkeypatch.setattr(module._Server, "_do_batch", late)
    monkeypatch.setattr(Roles, "freed", noted)
    world.work.submit(place(), request("drop"), Drop("same", claim(), "Restrict"))
    await world.until(lambda: world.of("drop"))
    world.work.submit(place(), request("sync"), sync_job("same"))
    await world.answered(2)


async def test_jobs_that_may_want_the_same_login_are_done_one_after_the_other(
    world: World,
) -> None:
    turns = LoginTurns(rotation="TwoLogins", current="app_a", grace=timedelta(hours=1))
    two = msgspec.structs.replace(wanted("app"), turns=turns)
    world.work.submit(place(), request("two"), Sync(two))
    world.work.submit(place(), request("one"), sync_job("app_a"))
    world.work.submit(place(), request("drop"), Drop("app", claim(), "Restrict"))
    world.work.submit(place(), request("other"), sync_job("other"))
    await world.answered(4)
    syncs = [name for names in world.of("sync") for name in names]
    assert sorted(syncs) == ["app", "app_a", "other"]
    assert not any({"app", "app_a"} <= set(names) for names in world.of("sync"))
    assert world.of("drop") == [["app"]]
    assert world.twice == []


async def test_a_newer_job_of_one_access_replaces_the_older(world: World) -> None:
    world.work.submit(place(), request("a"), sync_job("a"))
    world.work.submit(place(), request("a"), Drop("a", claim(), "Restrict"))
    await world.answered(1)
    await world.until(lambda: world.swept)
    assert [kind for _, kind, _ in world.batches] == ["drop", "look"]


async def test_a_batch_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BATCH", 3)
    for number in range(7):
        world.work.submit(place(), request(str(number)), sync_job(f"u{number}"))
    await world.answered(7)
    assert [len(names) for names in world.of("sync")] == [3, 3, 1]


async def test_a_job_alone_does_not_wait_as_long_as_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "COLLECT_SECONDS", 3600)
    world.work.submit(place(), request("a"), sync_job("a"))
    await world.answered(1)
    assert world.of("sync") == [["a"]]


async def test_a_batch_is_put_off_while_many_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "COLLECT_SECONDS", 0.2)
    monkeypatch.setattr(bounds, "COLLECT_MOST_SECONDS", 60)
    monkeypatch.setattr(bounds, "MANY_JOBS", 2)

    def submit(first: int) -> None:
        for number in range(first, first + 3):
            world.work.submit(place(), request(str(number)), sync_job(f"u{number}"))

    loop = asyncio.get_running_loop()
    submit(0)
    # Each between two ends of the waiting, which are later where the loop is.
    loop.call_later(0.3, submit, 3)
    loop.call_later(0.5, submit, 6)
    await world.answered(9)
    assert [len(names) for names in world.of("sync")] == [9]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(AccessError("ConnectionFailed", "nobody is there"), id="told"),
        pytest.param(RuntimeError("a defect"), id="defect"),
    ],
)
async def test_what_fails_for_all_is_everybodys_answer_and_the_work_goes_on(
    world: World, error: Exception
) -> None:
    world.fails["sync"] = error
    for name in "ab":
        world.work.submit(place(), request(name), sync_job(name))
    world.work.submit(place(), request("c"), Check(("c",), claim()))
    found = await world.answered(3)
    assert (found["a"], found["b"], found["c"]) == (error, error, None)
    del world.fails["sync"]
    world.work.submit(place(), request("d"), sync_job("d"))
    assert isinstance((await world.answered(4))["d"], Synced)


def session_ended() -> AccessError:
    error = explain_statement(psycopg.errors.AdminShutdown(), "read the catalogs", "postgres")
    assert error.reason == "ConnectionFailed"
    return error


@pytest.mark.parametrize("sessions", [1, 3])
async def test_a_batch_whose_sessions_end_goes_on_with_a_new_one(
    world: World, sessions: int
) -> None:
    for key in ("db", "sync", "a")[:sessions]:
        world.fails_once[key] = session_ended()
    for name in "ab":
        world.work.submit(place(), request(name), sync_job(name))
    answers = await world.answered(2)
    assert all(isinstance(answers[name], Synced) for name in "ab")
    assert world.of("sync") == [["a", "b"]] * (sessions + 1)


async def test_jobs_whose_session_in_a_database_ends_are_done_again_alone(world: World) -> None:
    world.problems_once["b"] = session_ended()
    for name in "ab":
        world.work.submit(place(), request(name), sync_job(name))
    found = await world.answered(2)
    done = Synced(server=FACTS, applied=[], warnings=[])
    assert found == {"a": done, "b": done}
    assert world.of("sync") == [["a", "b"], ["b"]]


async def test_an_access_with_very_many_differences_is_done_by_turns(world: World) -> None:
    world.problems_once["large"] = CrowdedError("large")
    world.gates["alone large"] = asyncio.Event()
    world.locked = {"held"}
    for name in ("large", "neighbour"):
        world.work.submit(place(), request(name), sync_job(name))
    await world.until(lambda: ("alone", ["large"]) in world.tries)
    # Whoever another session holds up waits in another line.
    world.work.submit(place(), request("held"), sync_job("held"))
    found = await world.answered(2)
    assert isinstance(found["neighbour"], Synced)
    assert ("alone", ["held"]) in world.tries
    world.gates["alone large"].set()
    assert isinstance((await world.answered(3))["large"], Synced)


@pytest.mark.parametrize("batch", [True, False])
async def test_the_login_after_a_session_that_ended_tells_why(world: World, batch: bool) -> None:
    error = AccessError("AuthenticationFailed", "the server refused the password")
    (world.fails_once if batch else world.problems_once)["sync" if batch else "a"] = (
        session_ended()
    )
    world.fails["again"] = error
    world.work.submit(place(), request("a"), sync_job("a"))
    assert (await world.answered(1))["a"] is error
    assert world.of("sync") == [["a"]] * 2


async def test_one_plan_or_removal_that_fails_is_its_own(world: World) -> None:
    for number, kind in enumerate(("plan", "drop")):
        for name in ("good", "bad"):
            username = f"{kind}-{name}"
            job: Job = (
                PlanOnly(wanted(username))
                if kind == "plan"
                else Drop(username, claim(), "Restrict")
            )
            world.fails[f"{kind}-bad"] = AccessError("OwnsObjects", str(number))
            world.work.submit(place(), request(username), job)
    found = await world.answered(4)
    assert isinstance(found["plan-good"], ShownPlan)
    assert found["drop-good"] is None
    assert found["plan-bad"] is world.fails["plan-bad"]
    assert found["drop-bad"] is world.fails["drop-bad"]


async def test_a_batch_that_takes_too_long_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "BATCH_SECONDS", 0.05)
    world.gates["slow"] = asyncio.Event()
    world.work.submit(place("slow"), request("a"), sync_job("a"))
    answer = (await world.answered(1))["a"]
    assert isinstance(answer, AccessError)
    assert answer.reason == "TimedOut"


async def test_a_slow_server_delays_no_other(world: World) -> None:
    world.gates["slow"] = asyncio.Event()
    for number in range(5):
        world.work.submit(place("slow"), request(f"s{number}"), sync_job(f"s{number}"))
    world.work.submit(place("quick"), request("q"), sync_job("q"))
    assert set(await world.answered(1)) == {"q"}
    # What comes meanwhile is the next batch.
    world.work.submit(place("slow"), request("late"), sync_job("late"))
    world.gates["slow"].set()
    await world.answered(7)
    assert [len(names) for names in world.of("sync")] == [5, 1, 1]


async def test_servers_that_a_namespace_names_have_slots_of_their_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "NAMESPACE_SERVERS", 2)
    for number in range(3):
        host = f"slow{number}"
        world.gates[host] = asyncio.Event()
        there = place(host, "namespace team")
        world.work.submit(there, request(host), sync_job(host))
    await world.until(lambda: len(world.batches) == 2)
    for owner in ("namespace other", "PostgresServer main"):
        world.work.submit(place("quick", owner), request(owner), sync_job("q"))
    assert set(await world.answered(2)) == {"namespace other", "PostgresServer main"}
    assert not any(host == "slow2" for host, *_ in world.batches)
    world.gates["slow0"].set()
    await world.until(lambda: any(host == "slow2" for host, *_ in world.batches))


async def test_connections_of_two_owners_are_never_shared(world: World) -> None:
    """Not even where both have named the same server with the same login."""
    first, second = place("db", "namespace a"), place("db", "namespace b")
    world.work.submit(first, request("a"), sync_job("a"))
    world.work.submit(second, request("b"), sync_job("b"))
    await world.answered(2)
    assert sorted(world.of("sync")) == [["a"], ["b"]]


async def test_what_is_kept_is_looked_at_when_its_time_comes(world: World) -> None:
    world.interval = 0.05
    world.work.keep(place(), request("a"), kept("a"))
    world.work.keep(place(), request("b"), kept("b"))
    world.work.submit(place(), request("c"), sync_job("c"))
    world.drifted = {"b", "nobody"}
    await world.until(lambda: len(world.looked) >= 3)
    assert [sorted(names) for names in world.looked[:3]] == [["a", "b"]] * 3
    assert set(world.differing) == {"b"}
    world.work.forget(request("b"))
    count = len(world.looked)
    await world.until(lambda: len(world.looked) > count + 1)
    assert world.looked[-1] == ["a"]


@pytest.mark.parametrize("broken", ["look", "sweep"])
async def test_a_look_that_fails_ends_no_work(world: World, broken: str) -> None:
    world.interval = 0.05
    error = RuntimeError("a defect")
    if broken == "look":
        world.fails["look"] = error
    else:
        world.sweep_fails = error
    world.work.keep(place(), request("a"), kept("a"))
    world.work.submit(place(), request("b"), sync_job("b"))
    await world.until(lambda: len(world.looked) >= 2)
    world.work.submit(place(), request("c"), sync_job("c"))
    await world.answered(2)
    # Each access finds out for itself what is the matter.
    assert set(world.differing) == ({"a"} if broken == "look" else set())


async def test_a_look_comes_although_somebody_always_tries_again(world: World) -> None:
    error = world.fails["sync"] = AccessError("SchemaNotFound", "create it")
    ending = False

    def answered(request: Request, answer: Answer) -> None:
        assert answer is error
        if not ending:
            world.work.submit(place(), request, sync_job(request.name))

    world.work._callbacks = world.work._callbacks._replace(answered=answered)
    world.work.keep(place(), request("k"), kept("k"))
    for name in ("a", "b"):
        # While one is worked on, the other waits already.
        world.work.submit(place(), request(name), sync_job("same"))
    try:
        await world.until(lambda: world.looked)
    finally:
        ending = True


async def test_who_comes_during_a_look_does_not_wait_for_it(world: World) -> None:
    world.work.submit(place(), request("a"), sync_job("a"))
    # The look that follows the first work would not see what is kept later.
    await world.until(lambda: world.swept)
    world.gates["look"] = asyncio.Event()
    world.work.keep(place(), request("a"), kept("a"))
    world.work.look_soon(place())
    await world.until(lambda: ["a"] in world.looked)
    world.work.submit(place(), request("b"), sync_job("b"))
    assert isinstance((await world.answered(2))["b"], Synced)
    # Another look is asked for meanwhile, and comes.
    before = len(world.looked)
    world.work.look_soon(place())
    world.gates["look"].set()
    await world.until(lambda: len(world.looked) > before)


async def test_who_is_worked_on_during_a_look_is_not_said_to_differ(world: World) -> None:
    for name in "ab":
        world.work.keep(place(), request(name), kept(name))
    world.drifted = {"a", "b"}
    world.gates["look"], world.gates["sync"] = asyncio.Event(), asyncio.Event()
    world.work.look_soon(place())
    await world.until(lambda: ["a", "b"] in world.looked)
    world.work.submit(place(), request("a"), sync_job("a"))
    await world.until(lambda: world.of("sync"))
    world.gates["look"].set()
    await world.until(lambda: world.differing)
    assert world.differing == ["b"]
    world.gates["sync"].set()


@pytest.mark.parametrize("kind", ["drop", "sync"])
async def test_what_another_session_holds_up_is_done_alone(world: World, kind: str) -> None:
    """The others, also those of the same line, are served meanwhile."""

    def job(name: str) -> Job:
        return Drop(name, claim(), "Restrict") if kind == "drop" else sync_job(name)

    world.locked = {"held0", "held1"}
    world.gates["alone held0"] = asyncio.Event()
    for name in ("held0", "held1", "free0"):
        world.work.submit(place(), request(name), job(name))
    await world.until(lambda: ("alone", ["held0"]) in world.tries)
    world.work.submit(place(), request("free1"), job("free1"))
    assert set(await world.answered(2)) == {"free0", "free1"}
    # Somebody still holds it, or does not any more: the answer is what comes then.
    world.locked.discard("held0")
    world.gates["alone held0"].set()
    found = await world.answered(4)
    assert not isinstance(found["held0"], AccessError)
    assert isinstance(found["held1"], AccessError)
    assert found["held1"].reason == "Locked"
    assert [names for way, names in world.tries if way == "alone"] == [["held0"], ["held1"]]


async def test_one_role_with_very_many_privileges_is_worked_on_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LARGE_WAIT_SECONDS", 0.01)
    world.crowded, world.locked = {"large", "other"}, {"held"}
    world.gates["alone large"] = asyncio.Event()
    here, there = place("here"), place("there")
    world.work.submit(here, request("large"), sync_job("large"))
    await world.until(lambda: ("alone", ["large"]) in world.tries)
    world.work.submit(there, request("other"), sync_job("other"))
    # Who waits says so once; its pass comes again, and waits on.
    told = (await world.answered(1))["other"]
    assert isinstance(told, CrowdedError)
    assert "role other has very many" in told.message
    world.work.submit(there, request("other"), sync_job("other"))
    # Neighbours are served meanwhile, also those that another session holds up.
    for number, one in enumerate((here, there)):
        world.work.submit(one, request(f"neighbour{number}"), sync_job(f"neighbour{number}"))
    world.work.submit(here, request("held"), sync_job("held"))
    found = await world.answered(4)
    assert all(isinstance(found[f"neighbour{number}"], Synced) for number in range(2))
    assert ("alone", ["held"]) in world.tries
    # An access that changes meanwhile, as at its deletion, is not kept waiting.
    world.work.hurry(there, request("other"))
    assert isinstance((await world.answered(5))["other"], CrowdedError)
    world.work.submit(there, request("other"), sync_job("other"))
    world.gates["alone large"].set()
    found = await world.answered(7)
    assert isinstance(found["large"], Synced)
    assert isinstance(found["other"], Synced)


async def test_neighbours_do_not_wait_for_the_plan_of_a_role_with_very_many_privileges(
    world: World,
) -> None:
    world.crowded = {"large"}
    world.gates["large"] = asyncio.Event()
    world.work.submit(place(), request("large"), PlanOnly(wanted("large")))
    await world.until(lambda: world.of("plan"))
    world.work.submit(place(), request("neighbour"), sync_job("neighbour"))
    assert isinstance((await world.answered(1))["neighbour"], Synced)
    world.gates["large"].set()
    assert isinstance((await world.answered(2))["large"], ShownPlan)


async def test_namespaces_take_turns_where_work_is_done_alone(world: World) -> None:
    held = [f"held{number}" for number in range(4)]
    world.locked = {*held, "victim"}
    world.gates["alone held0"] = asyncio.Event()
    for name in held:
        world.work.submit(place(), request(name), sync_job(name))
    await world.until(lambda: ("alone", ["held0"]) in world.tries)
    world.work.submit(place(), Request("here", "neighbour", "victim"), sync_job("victim"))
    await world.until(lambda: ("brief", ["victim"]) in world.tries)
    world.gates["alone held0"].set()
    await world.answered(5)
    alone = [names[0] for way, names in world.tries if way == "alone"]
    assert alone.index("victim") <= 2


async def test_what_was_torn_out_is_looked_for_at_once(world: World) -> None:
    world.work.keep(place(), request("a"), kept("a"))
    world.work.submit(place(), request("b"), sync_job("b"))
    await world.until(lambda: world.swept)
    world.work.forget(request("a"), torn_out=True)
    await world.until(lambda: len(world.swept) == 2)
    assert world.looked[-1] == []


async def test_an_access_that_moves_is_compared_at_one_server_alone(world: World) -> None:
    world.work.keep(place("old"), request("a"), kept("a"))
    world.work.keep(place("new"), request("a"), kept("a"))
    for host in ("old", "new"):
        world.work.look_soon(place(host))
    await world.until(lambda: len(world.swept) == 2)
    assert {host: names for host, kind, names in world.batches if kind == "look"} == {
        "old": [],
        "new": ["a"],
    }


async def test_a_server_that_nobody_wants_is_let_go_and_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "REST_SECONDS", 0.02)
    closed: list[str] = []

    async def close(self: Any) -> None:
        closed.append(self.endpoint.host)

    monkeypatch.setattr(Sessions, "close", close)
    world.work.keep(place("kept"), request("k"), kept("k"))
    world.work.submit(place("kept"), request("k"), sync_job("k"))
    world.work.submit(place(), request("a"), sync_job("a"))
    await world.until(lambda: closed)
    assert await idle(0.1)
    assert set(closed) == {"db"}
    world.work.submit(place(), request("b"), sync_job("b"))
    await world.answered(3)
    world.work.forget(request("k"))
    await world.until(lambda: "kept" in closed)


async def test_closing_ends_what_is_done_and_names_what_was_kept(world: World) -> None:
    world.gates["db"] = asyncio.Event()
    world.work.keep(place("other"), request("a"), kept("a"))
    world.work.submit(place(), request("b"), sync_job("b"))
    await world.until(lambda: world.batches)
    assert await world.work.close() == [request("a")]
    assert world.answers == []
    # Whoever works with it again finds it as new.
    del world.gates["db"]
    world.work.submit(place(), request("b"), sync_job("b"))
    assert isinstance((await world.answered(1))["b"], Synced)


@pytest.mark.parametrize("left", ["raises", "held"])
async def test_work_that_does_not_notice_that_it_is_cancelled_ends_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """A session that is lost at that moment says so, and takes the place of the cancelling."""
    tries: list[bool] = []

    async def stubborn(
        sessions: Any, accesses: Sequence[WantedState], *_: object, brief: bool, **__: object
    ) -> dict[str, AccessError]:
        tries.append(brief)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if left == "raises":
                raise ConnectionError("the session is lost") from None
        return {one.username: AccessError("Locked", "held") for one in accesses}

    monkeypatch.setattr(module, "sync", stubborn)
    world.work.submit(place(), request("a"), sync_job("a"))
    await world.until(lambda: tries)
    await world.work.close()
    await asyncio.sleep(0)
    assert tries == [True]
    assert world.answers == []


@pytest.mark.parametrize("reason", ["AnswerTooLarge", "TimedOut"])
async def test_what_is_too_much_together_is_done_by_halves(world: World, reason: str) -> None:
    """Who is to blame is found out, and nobody else has to do without."""
    world.fails["f"] = AccessError(reason, "too much")
    for name in "abcdefgh":
        world.work.submit(place(), request(name), sync_job(name))
    await world.until(lambda: len(world.answers) >= 7)
    if reason == "TimedOut":
        # What takes long by itself is done where nobody waits for it.
        await world.until(lambda: ("alone", ["f"]) in world.tries)
    found = await world.answered(8)
    assert all(isinstance(found[name], Synced) for name in "abcdegh")
    assert found["f"] is world.fails["f"]
    assert [len(names) for names in world.of("sync")][:4] == [8, 4, 4, 2]
    assert ("alone", ["f"]) in world.tries or reason == "AnswerTooLarge"


async def test_a_server_that_hangs_is_not_asked_for_each_half(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "QUICK_SECONDS", -1.0)
    world.fails["db"] = AccessError("TimedOut", "no answer")
    for name in "abcd":
        world.work.submit(place(), request(name), sync_job(name))
    found = await world.answered(4)
    assert all(answer is world.fails["db"] for answer in found.values())
    assert world.of("sync") == [["a", "b", "c", "d"]]


async def test_a_look_at_too_much_is_done_by_halves(world: World) -> None:
    for name in "abcd":
        world.work.keep(place(), request(name), kept(name))
    world.fails["c"] = AccessError("AnswerTooLarge", "too much")
    world.work.submit(place(), request("x"), sync_job("x"))
    await world.until(lambda: world.swept)
    assert [len(names) for names in world.looked] == [4, 2, 2, 1, 1]
    assert world.differing == ["c"]
