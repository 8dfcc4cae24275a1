"""Memory and CPU of each program with many objects, and how soon another replica goes on."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from tests.support.realplane import free_ports, missing_assets

from bench import binding as bindings
from bench.loading import (
    NAMESPACES,
    Side,
    Watched,
    each,
    loader,
    namespace_of,
    post,
    side,
)
from bench.planes import Plane, Program, control_plane, scratch
from bench.postgres import (
    OURS,
    SETTINGS,
    Server,
    Users,
    create_databases,
    prepare,
)
from bench.rows import MIB, TITLES, Row, report, say
from bench.serve import door_flags, install_door
from bench.sizes import CHANGED, FOOTPRINTS, PARTS, PAUSE_SECONDS, PLANES
from bench.sync import (
    SYNCED,
    Crossing,
    Seen,
    prepare_consumer,
    prepare_provider,
    size,
)
from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICENAMESPACES,
    decode_binding_response,
)
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.manifests import NAME as BINDING
from fairlead.client import Client, ClusterConfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.manifests import LEASE as KONNECTOR_LEASE
from fairlead.postgres.manifests import NAME as POSTGRES
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import NAME as PROVIDER


_LOOK_SECONDS = 0.05


class Replicas:
    """Those of one program; ``leads`` says whether a Lease lets one alone work."""

    def __init__(self, name: str, programs: Sequence[Program], *, leads: bool) -> None:
        self.name = name
        self.leads = leads
        self._programs = list(programs)
        self._leader = self._programs[0]

    @property
    def leader(self) -> Program:
        """The one that works."""
        return self._leader

    @property
    def standby(self) -> Program | None:
        """The one that waits; None where all work."""
        others = [one for one in self._programs if one is not self._leader]
        return others[0] if others else None

    async def start(self) -> None:
        """Start all, the one that leads first."""
        for number, one in enumerate(self._programs):
            await one.start()
            if number == 0:
                await self._leading(one)
        self._leader = self._programs[0]

    async def stop(self) -> None:
        """Stop all, those that stand by first: none of them has to take over."""
        for one in sorted(self._programs, key=lambda one: one is self._leader):
            await one.stop()

    async def tend(self) -> bool:
        """Start what has ended by itself; whether another one leads for that.

        A leader ends when it cannot renew its Lease, as when the machine is busy for ten seconds.
        """
        ended = [one for one in self._programs if not one.is_running]
        changed = self._leader in ended
        if changed:
            assert self.standby is not None
            self._leader = self.standby
            await self._leading(self._leader)
        for one in ended:
            await one.start()
        return changed

    async def kill_leader(self) -> float:
        """Kill the leader, so that the other has to find that out; tells when that was."""
        killed, standby = self._leader, self.standby
        assert standby is not None
        await killed.kill()
        self._leader = standby
        return time.monotonic()

    async def replace(self) -> Program:
        """Start the one that was killed anew, as a Deployment does; tells which."""
        started = self.standby
        assert started is not None
        await started.start()
        return started

    async def _leading(self, one: Program) -> None:
        async def says_so() -> bool:
            return (await one.metrics()).total("leader_election_master_status") == 1

        while self.leads and not await says_so():  # noqa: ASYNC110  another process is looked at
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def replicas(
    name: str, config: ClusterConfig, folder: Path, lease: str, *flags: str
) -> AsyncIterator[Replicas]:
    """Run two replicas until the context is left."""
    flags = ("--leader-elect=true", f"--lease-name={lease}", *flags)
    programs = []
    for number in (1, 2):
        own = folder / f"{name}-{number}"
        own.mkdir()
        programs.append(Program(name, config, own, *flags))
    found = Replicas(name, programs, leads=True)
    try:
        await found.start()
        yield found
    finally:
        await found.stop()


CONNECTIONS = 32
"""Requests of the load under way at once."""


class World(ABC):
    """Programs at work; ``probe`` asks something of the first of them."""

    def __init__(self, *programs: Replicas) -> None:
        self.replicas = programs

    @abstractmethod
    async def load(self, objects: int) -> None:
        """Have so many objects there, and wait until programs have done what they have to."""

    @abstractmethod
    async def change(self, changes: int) -> int:
        """Make about so many changes, and wait until all have had their effect; the number."""

    async def probe(self) -> None:
        """Have the first program do one thing."""
        await self.change(1)


Kind = Callable[[str], AbstractAsyncContextManager[World]]
"""A world on a kind of plane."""


@asynccontextmanager
async def planes(
    kind: str, count: int = 1
) -> AsyncIterator[tuple[AsyncExitStack, Path, list[Client]]]:
    """Run planes of a kind; yield what closes with them, a folder, and administrators."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        clients = []
        for _ in range(count):
            plane: Plane = await stack.enter_async_context(control_plane(kind, own, fsync=False))
            clients.append(await stack.enter_async_context(Client(plane.admin)))
        yield stack, own, clients


class Memory(NamedTuple):
    """Bytes that a replica holds at rest, and the most that it ever held."""

    rest: int
    peak: int

    @classmethod
    def of(cls, program: Program) -> Memory:
        return cls(program.resident(), program.peak())


class Taken(NamedTuple):
    """What comes of the death of a leader."""

    seconds: float
    """From kill -9 until what is asked for then is done by the other."""
    leader: Memory
    """Of the one that leads then."""
    started: Memory
    """Of one that is started among all objects, and stands by."""


class Footprint(NamedTuple):
    """What one program needs in one world; ``of`` says what its objects are."""

    program: str
    of: str
    kind: str
    objects: int
    empty: int
    """Bytes of the leader before there are objects."""
    leader: Memory
    standby: Memory | None
    changes: int
    cpu: float
    """Seconds of the leader's CPU for all changes; 0 where they are not its work."""
    taken: Taken | None

    @property
    def peak(self) -> int:
        """The most bytes that any replica has held."""
        found = [self.leader.peak]
        if self.standby is not None:
            found.append(self.standby.peak)
        if self.taken is not None:
            found += [self.taken.leader.peak, self.taken.started.peak]
        return max(found)


class CrossingWorld(World):
    """A consumer and a provider that are bound; users of the consumer write widgets."""

    def __init__(
        self, consumer: Side, provider: Side, konnector: Replicas, *others: Replicas
    ) -> None:
        super().__init__(konnector, *others)
        self._consumer = consumer
        self._provider = provider
        self._crossing = Crossing(consumer, provider, CONNECTIONS)
        self._values = itertools.count(2)

    async def load(self, objects: int) -> None:
        """Let all cross."""
        await self._crossing.run("widget", objects)

    async def change(self, changes: int) -> int:
        """Change the specs of so many, and wait until their copies have that."""
        names = list(self._crossing.sources)[:changes]
        value = next(self._values)
        writes = [size(SYNCED, self._crossing.sources[name], name, value) for name in names]
        await self._provider.settle(
            SYNCED,
            Seen,
            lambda _, copy: copy.spec.size == value,
            [(self._crossing.copies[name], name) for name in names],
            lambda: each(CONNECTIONS, self._consumer.send, writes),
        )
        return len(names)


@asynccontextmanager
async def crossing(kind: str) -> AsyncIterator[World]:
    """Run a pair of planes of a kind, "real" or "sandbox", with all three programs."""
    async with planes(kind, 2) as (stack, own, (here, there)):
        account = await prepare_provider(there)
        provider = await stack.enter_async_context(replicas("provider", account, own, PROVIDER))
        account = await prepare_consumer(here)
        konnector = await stack.enter_async_context(
            replicas("konnector", account, own, KONNECTOR_LEASE)
        )
        account = await install_door(there)
        door = Program("provider", account, own, *door_flags(own, free_ports(1)[0]), verb="serve")
        stack.push_async_callback(door.stop)
        await door.start()
        answer = await invite(there, name="bench", template="widgets")
        response = decode_binding_response(msgspec.json.encode(answer))
        await bind(here, response)
        configs = [await loader(admin, SYNCED.group) for admin in (here, there)]
        ours, theirs = [await stack.enter_async_context(side(config)) for config in configs]
        yield CrossingWorld(
            *(ours, theirs, konnector, provider),
            Replicas("serve", [door], leads=False),
        )


CONSUMERS = 20
"""Consumers; the namespaces are spread over them."""


class _Status(msgspec.Struct):
    namespace: str = ""


class _Asked(Watched):
    status: _Status = msgspec.field(default_factory=_Status)


class ConsumerWorld(World):
    """Konnectors that ask for namespaces, of which each has Roles and RoleBindings."""

    def __init__(self, side: Side, homes: Sequence[str], provider: Replicas) -> None:
        super().__init__(provider)
        self._side = side
        self._homes = homes
        self._more = itertools.count()

    async def load(self, objects: int) -> None:
        """Ask for so many namespaces, and wait until all are there."""
        await self._ask("team", range(objects))

    async def _ask(self, prefix: str, numbers: Iterable[int]) -> None:
        places = [
            (self._homes[number % len(self._homes)], f"{prefix}-{number}") for number in numbers
        ]
        writes = [
            post(APISERVICENAMESPACES, home, {"metadata": {"name": name}, "spec": {}})
            for home, name in places
        ]
        await self._side.settle(
            APISERVICENAMESPACES,
            _Asked,
            lambda _, one: bool(one.status.namespace),
            places,
            lambda: each(CONNECTIONS, self._side.send, writes),
        )

    async def change(self, changes: int) -> int:
        """Ask for so many namespaces more: to change one that is there does nothing."""
        await self._ask(f"more-{next(self._more)}", range(changes))
        return changes


@asynccontextmanager
async def consumers(kind: str) -> AsyncIterator[World]:
    """Run a plane of a kind and the provider's controllers, with consumers that have exports."""
    async with planes(kind) as (stack, own, (admin,)):
        account = await prepare_provider(admin)
        provider = await stack.enter_async_context(replicas("provider", account, own, PROVIDER))
        loading = await stack.enter_async_context(
            side(await loader(admin, APISERVICENAMESPACES.group))
        )
        homes = []
        for number in range(CONSUMERS):
            answer = await invite(admin, name=f"team-{number}", template="widgets")
            response = decode_binding_response(msgspec.json.encode(answer))
            homes.append(response.provider_namespace)
            for request in answer["requests"]:
                await loading.send(post(APISERVICEEXPORTREQUESTS, homes[-1], request))
        yield ConsumerWorld(loading, homes, provider)


_MORE = ("UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")


class AccessWorld(World):
    """Users who create and change accesses."""

    def __init__(self, users: Users, operator: Replicas) -> None:
        super().__init__(operator)
        self._users = users
        self._more = itertools.cycle(_MORE)

    async def load(self, objects: int) -> None:
        """Create them, and wait until all can log in."""
        await self._users.create("access", range(objects))

    async def change(self, changes: int) -> int:
        """Ask for one privilege more, or for another one, in so many."""
        more = next(self._more)
        names = {f"access-{number}": number for number in range(changes)}
        await self._users.change(names, more)
        return changes


@asynccontextmanager
async def accesses(kind: str) -> AsyncIterator[World]:
    """Run a plane of a kind, a PostgreSQL and the operator."""
    async with planes(kind) as (stack, own, (admin,)):
        embedded = await stack.enter_async_context(EmbeddedPostgres(settings=SETTINGS))
        connection = await psycopg.AsyncConnection.connect(embedded.dsn(), autocommit=True)
        watching = await stack.enter_async_context(connection)
        await create_databases(Server(embedded, watching), OURS)
        account = await prepare(admin, embedded)
        operator = await stack.enter_async_context(replicas("postgres", account, own, POSTGRES))
        config = await loader(admin, "", POSTGRESACCESSES.group)
        loading = await stack.enter_async_context(side(config))
        yield AccessWorld(Users(loading, CONNECTIONS), operator)


class ProjectionWorld(World):
    """Users who bind a Secret of each namespace to workloads in it."""

    def __init__(self, users: bindings.Users, controllers: Replicas) -> None:
        super().__init__(controllers)
        self._users = users
        self._names: defaultdict[str, list[str]] = defaultdict(list)
        self._passwords = itertools.count()
        self._probes = itertools.count()

    async def load(self, objects: int) -> None:
        """Create workloads and bindings, and wait until all are Ready."""
        await self._bind("app", range(objects))

    async def _bind(self, prefix: str, numbers: Iterable[int]) -> None:
        places = [(namespace_of(number), f"{prefix}-{number}") for number in numbers]
        await self._users.send(bindings.deployment(*place) for place in places)
        await self._users.create(places)
        for namespace, name in places:
            self._names[namespace].append(name)

    async def change(self, changes: int) -> int:
        """Change the passwords of whole namespaces, and wait until workloads mount new Secrets."""
        done = 0
        for namespace, names in self._names.items():
            if done < changes:
                await self._users.change(namespace, f"new-{next(self._passwords)}", names)
                done += len(names)
        return done

    async def probe(self) -> None:
        """Bind one more."""
        await self._bind(f"probe-{next(self._probes)}", [0])


@asynccontextmanager
async def projections(kind: str) -> AsyncIterator[World]:
    """Run a plane of a kind and the controllers."""
    async with planes(kind) as (stack, own, (admin,)):
        account = await bindings.install(admin)
        controllers = await stack.enter_async_context(replicas("binding", account, own, BINDING))
        config = await loader(admin, "", SERVICEBINDINGS.group, DEPLOYMENTS.group)
        loading = await stack.enter_async_context(side(config))
        users = bindings.Users(loading, CONNECTIONS)
        await users.send(bindings.secret(name, bindings.SERVICE) for name in NAMESPACES)
        yield ProjectionWorld(users, controllers)


def rows(figures: Iterable[Footprint]) -> Iterator[Row]:
    """Print what was measured, program by program."""
    for one in sorted(figures, key=lambda one: (one.program, one.of, one.objects)):
        key = f"sizes_{one.program}_{one.of.split()[-1]}_{one.kind}_{one.objects}"
        title = f"{one.program}, {one.objects:,} {one.of}, {TITLES[one.kind]}"
        rest, most = {"without any": one.empty}, {"the leader": one.leader.peak}
        if one.standby is not None:
            rest["of the one that stands by"] = one.standby.rest
        if one.taken is not None:
            rest["of the next leader"] = one.taken.leader.rest
            most["the next leader"] = one.taken.leader.peak
            most["one that is started among them"] = one.taken.started.peak
        yield Row(
            f"{key}_rest_mib", f"{title}: memory", one.leader.rest / MIB, "MiB", note=_note(rest)
        )
        title_of_most = f"{title}: most memory of a replica"
        yield Row(f"{key}_peak_mib", title_of_most, one.peak / MIB, "MiB", note=_note(most))
        if one.cpu:
            cpu, title_of_cpu = 1000 * one.cpu / one.changes, f"{title}: CPU per 1,000 changes"
            yield Row(f"{key}_cpu", title_of_cpu, cpu, "s", note=f"of {one.changes:,}")
        if one.taken is not None:
            failover = f"{title}: kill -9 of the leader, until writes go on"
            yield Row(f"{key}_failover_seconds", failover, one.taken.seconds, "s")


def _note(sizes: Mapping[str, int]) -> str:
    return "; ".join(f"{name} {size / MIB:.0f} MiB" for name, size in sizes.items())


FIGURE_SECONDS = 600.0
"""The longest time that one figure may take; a world that takes longer is left out."""


_ATTEMPTS = 3


class Part(NamedTuple):
    """A world, what its objects are, and the programs whose work changes of them are."""

    world: Kind
    of: str
    works: frozenset[str]


PARTS_BY_NAME: Mapping[str, Part] = {
    "crossing": Part(crossing, "objects", frozenset({"konnector", "serve"})),
    "consumers": Part(consumers, "namespaces", frozenset({"provider"})),
    "postgres": Part(accesses, "accesses", frozenset({"postgres"})),
    "binding": Part(projections, "bindings", frozenset({"binding"})),
}


async def measure(part: Part, kind: str, objects: int) -> list[Footprint]:
    """Measure all programs of a world with so many objects."""
    async with part.world(kind) as world:
        await asyncio.sleep(PAUSE_SECONDS)
        empty = [one.leader.resident() for one in world.replicas]
        async with asyncio.timeout(FIGURE_SECONDS):
            await world.load(objects)
        await _tended(world)
        await asyncio.sleep(PAUSE_SECONDS)
        leaders = [Memory.of(one.leader) for one in world.replicas]
        standbys = [Memory.of(one.standby) if one.standby else None for one in world.replicas]
        changes, cpu = await _changed(world, objects)
        async with asyncio.timeout(FIGURE_SECONDS):
            taken = await _take_over(world)
    return [
        Footprint(
            *(one.name, part.of, kind, objects, empty[number], leaders[number], standbys[number]),
            changes,
            cpu[number] if one.name in part.works else 0.0,
            None if number else taken,
        )
        for number, one in enumerate(world.replicas)
    ]


async def _changed(world: World, objects: int) -> tuple[int, list[float]]:
    """Make changes; their number, and the leaders' seconds of CPU."""
    for _ in range(_ATTEMPTS):
        cpu = [one.leader.cpu() for one in world.replicas]
        async with asyncio.timeout(FIGURE_SECONDS):
            changes = await world.change(min(CHANGED, objects))
        await asyncio.sleep(PAUSE_SECONDS)
        if not await _tended(world):
            after = [one.leader.cpu() for one in world.replicas]
            return changes, [now - then for now, then in zip(after, cpu, strict=True)]
    raise TimeoutError("no leader lasts as long as the changes")


async def _tended(world: World) -> bool:
    """Start what has ended; whether some program has another leader for that."""
    return any([await one.tend() for one in world.replicas])


async def _take_over(world: World) -> Taken:
    """Kill the first program's leader, ask for something at once, and start another replica."""
    program = world.replicas[0]
    begun = await program.kill_leader()
    await world.probe()
    seconds = time.monotonic() - begun
    started = await program.replace()
    await asyncio.sleep(PAUSE_SECONDS)
    return Taken(seconds, Memory.of(program.leader), Memory.of(started))


async def compare() -> list[Row]:
    """Measure all worlds, or the chosen ones, with growing numbers of objects."""
    figures: list[Footprint] = []
    missing = missing_assets()
    for objects in FOOTPRINTS:
        kind = "sandbox" if missing or "real" not in PLANES else "real"
        for name, part in PARTS_BY_NAME.items():
            if PARTS and name not in PARTS:
                continue
            say(f"sizes: {objects:,} {part.of}, {kind}")
            try:
                figures += await measure(part, kind, objects)
            except TimeoutError:
                say(f"left out: {objects:,} {part.of} take longer than {FIGURE_SECONDS:.0f} s")
    return list(rows(figures))


if __name__ == "__main__":
    report(compare)
