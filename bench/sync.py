"""The konnector between two bound planes, against a bare loader that makes the same writes.

Programs have the rights of their manifests and no others.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec
from tests.support.realplane import missing_assets

from bench.loading import (
    READY,
    Awaited,
    Side,
    Watched,
    Write,
    each,
    fastest,
    loader,
    namespace_of,
    patch,
    post,
    regrouped,
    side,
    twin,
    widget,
    widget_crd,
)
from bench.planes import Program, Scrape, control_plane, running, scratch
from bench.rows import (
    MIB,
    TITLES,
    Row,
    kibibytes,
    of_echo,
    pace,
    report,
    say,
)
from bench.sizes import OBJECTS, PLANES, ROUNDS_SECONDS, SAMPLES, SYNC_CONNECTIONS
from fairlead.api.kubebind import FINALIZER_SYNCER, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import install_crds


SYNCED = Resource("synced.bench", "v1", "widgets", "Widget")
"""The kind that is bound."""
BARE = twin(SYNCED)


class Pair(NamedTuple):
    """Two planes, bound, as the loader speaks to them."""

    consumer: Side
    provider: Side
    konnector: Program


@asynccontextmanager
async def pair(kind: str) -> AsyncIterator[Pair]:
    """Run a pair of planes of a kind, "real" or "sandbox", until the context is left."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        consumer = await stack.enter_async_context(control_plane(kind, own))
        provider = await stack.enter_async_context(control_plane(kind, own))
        there = await stack.enter_async_context(Client(provider.admin))
        here = await stack.enter_async_context(Client(consumer.admin))
        account = await prepare_provider(there)
        await stack.enter_async_context(running("provider", account, own))
        account = await prepare_consumer(here)
        konnector = await stack.enter_async_context(running("konnector", account, own))
        answer = await invite(there, name="bench", template="widgets")
        await bind(here, decode_binding_response(msgspec.json.encode(answer)))
        configs = [await loader(admin, SYNCED.group, BARE.group) for admin in (here, there)]
        ours, theirs = [await stack.enter_async_context(side(config)) for config in configs]
        yield Pair(ours, theirs, konnector)


async def prepare_provider(admin: Client) -> ClusterConfig:
    """Install the provider's program and what it offers; the credentials of the program."""
    exports = [SYNCED.group_resource]
    await create_all(admin, provider_manifests.manifests(image="bench", exports=exports))
    account = await as_service_account(admin, PROVIDER_NAMESPACE, provider_manifests.NAME)
    async with Client(account) as client:
        await provider_app.install_crds(client)
    await install_crds(admin, [crd(SYNCED), crd(BARE)])
    await create_all(admin, [_template()])
    return account


async def prepare_consumer(admin: Client) -> ClusterConfig:
    """Install the konnector; its credentials."""
    await konnector_app.install_crds(admin)
    await create_all(admin, konnector_manifests.manifests(image="bench"))
    await install_crds(admin, [crd(BARE)])
    return await as_service_account(admin, KONNECTOR_NAMESPACE, konnector_manifests.NAME)


def crd(kind: Resource) -> JSON:
    """Make a CRD of widgets with a number in their status."""
    body = regrouped(widget_crd(), kind)
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["seen"] = {
        "type": "integer"
    }
    if kind == SYNCED:
        body["metadata"]["labels"] = {"kube-bind.io/exported": "true"}
    return body


def _template() -> JSON:
    resource = {"group": SYNCED.group, "resource": SYNCED.plural, "versions": [SYNCED.version]}
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": "widgets"},
        "spec": {"scope": "Namespaced", "resources": [resource]},
    }


class _Spec(msgspec.Struct):
    size: int = 0


class _Status(msgspec.Struct):
    seen: int = 0


class Seen(Watched):
    """An object as the load looks at it."""

    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def create(resource: Resource, name: str, number: int) -> Write:
    """Create an object of about 2.4 KB as a server stores it."""
    where = namespace_of(number)
    return post(resource, where, widget(name, where, number))


def status(resource: Resource, where: str, name: str, seen: int = 1) -> Write:
    made = {"status": {"conditions": [READY], "seen": seen}}
    return patch(resource, where, name, made, "status")


def size(resource: Resource, where: str, name: str, value: int) -> Write:
    return patch(resource, where, name, {"spec": {"size": value}})


class Crossing:
    """The measured run: users create, an operator answers each copy with a status."""

    def __init__(self, consumer: Side, provider: Side, connections: int) -> None:
        self._consumer = consumer
        self._provider = provider
        self.connections = connections
        self.sources: dict[str, str] = {}
        """The consumer namespaces of the objects, by name."""
        self.copies: dict[str, str] = {}
        """The provider namespaces of the copies, by name."""

    async def run(self, prefix: str, objects: int) -> float:
        """Time from the first create until every object and every status has crossed."""
        names = {f"{prefix}-{number}": number for number in range(objects)}
        writes = [create(SYNCED, name, number) for name, number in names.items()]
        copies: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        missing = Awaited(names)
        self.sources |= {name: namespace_of(number) for name, number in names.items()}

        def copied(type_: str, found: Seen) -> None:
            metadata = found.metadata
            if type_ == "ADDED" and metadata.name.startswith(prefix):
                self.copies[metadata.name] = metadata.namespace
                copies.put_nowait((metadata.namespace, metadata.name))

        def returned(_type: str, found: Seen) -> None:
            if found.status.seen:
                missing.told(found.metadata.name)

        async with (
            self._consumer.watching(SYNCED, Seen, returned),
            self._provider.watching(SYNCED, Seen, copied),
            asyncio.TaskGroup() as group,
        ):
            begun = time.monotonic()
            operator = [group.create_task(self._operate(copies)) for _ in range(self.connections)]
            await each(self.connections, self._consumer.send, writes)
            await missing.wait()
            seconds = time.monotonic() - begun
            for one in operator:
                one.cancel()
        return seconds

    async def _operate(self, copies: asyncio.Queue[tuple[str, str]]) -> None:
        while True:
            where, name = await copies.get()
            await self._provider.send(status(SYNCED, where, name))


LOADED = "bare"
"""The prefix of its objects in the measured run, which are numbered."""


class Bare:
    """The bare loader on both sides."""

    def __init__(self, consumer: Side, provider: Side) -> None:
        self._consumer = consumer
        self._provider = provider

    async def run(self, prefix: str, numbers: Iterable[int], connections: int) -> float:
        """Time the writes for the objects of these numbers."""
        made = [self._writes(f"{prefix}-{number}", number) for number in numbers]
        begun = time.monotonic()
        await each(connections, self._one, made)
        return time.monotonic() - begun

    async def _one(self, writes: list[tuple[Side, Write]]) -> None:
        for where, write in writes:
            await where.send(write)

    def _writes(self, name: str, number: int) -> list[tuple[Side, Write]]:
        """Make the konnector's writes: what a copy carries, and what is told of it."""
        consumer, provider = self._consumer, self._provider
        where = namespace_of(number)
        copy = widget(name, where, number)
        copy["metadata"]["annotations"] |= {
            "kube-bind.io/cluster-namespace": "kube-bind-xxxxxxxx",
            "kube-bind.io/consumer-namespace": where,
            "kube-bind.io/consumer-uid": "00000000-0000-0000-0000-000000000000",
        }
        told = {
            "kube-bind.io/provider-namespace": f"kube-bind-xxxxxxxx-{where}",
            "kube-bind.io/provider-uid": "00000000-0000-0000-0000-000000000000",
        }
        return [
            (consumer, create(BARE, name, number)),
            (consumer, patch(BARE, where, name, {"metadata": {"finalizers": [FINALIZER_SYNCER]}})),
            (provider, post(BARE, where, copy)),
            (provider, status(BARE, where, name)),
            (consumer, patch(BARE, where, name, {"metadata": {"annotations": told}})),
            (consumer, status(BARE, where, name)),
        ]


OTHERS = 1000
"""Changes under way at any time."""
ALONE = 100
"""Changes one after the other."""

_values = itertools.count(2)

Key = tuple[str, str]


class Way(NamedTuple):
    """From a write to whoever sees it."""

    writer: Side
    reader: Side
    resource: Resource
    write: Callable[[Resource, str, str, int], Write]
    read: Callable[[Seen], int]


class Latency(NamedTuple):
    """Seconds of changes; ``alone`` is the median with nothing else under way."""

    p50: float
    alone: float


class Latencies(NamedTuple):
    """Both directions, by the konnector and by the bare echo."""

    spec: Latency
    status: Latency
    spec_echo: Latency
    status_echo: Latency


async def changes(way: Way, keys: list[Key], *, connections: int, samples: int) -> list[float]:
    """Time so many changes, without those of the first round, when the line forms."""
    wanted: asyncio.Queue[tuple[Key, int]] = asyncio.Queue()
    begun: dict[str, tuple[Key, int, float]] = {}
    found: list[float] = []
    enough = len(keys) + samples
    done = asyncio.Event()

    def want(key: Key) -> None:
        value = next(_values)
        begun[key[1]] = (key, value, time.monotonic())
        wanted.put_nowait((key, value))

    def look(_type: str, seen: Seen) -> None:
        key, value, since = begun.get(seen.metadata.name, (None, 0, 0.0))
        if key is None or way.read(seen) != value:
            return
        found.append(time.monotonic() - since)
        if len(found) < enough:
            want(key)
            return
        # What is still under way must not weigh on whatever is measured next.
        del begun[key[1]]
        if not begun:
            done.set()

    async def connection() -> None:
        while True:
            (where, name), value = await wanted.get()
            await way.writer.send(way.write(way.resource, where, name, value))

    async with way.reader.watching(way.resource, Seen, look), asyncio.TaskGroup() as group:
        workers = [group.create_task(connection()) for _ in range(connections)]
        for key in keys:
            want(key)
        await done.wait()
        for worker in workers:
            worker.cancel()
    return found[len(keys) : enough]


async def latency(way: Way, keys: list[Key], connections: int) -> Latency:
    samples = await changes(way, keys, connections=connections, samples=SAMPLES)
    alone = await changes(way, keys[:1], connections=1, samples=ALONE)
    return Latency(statistics.median(samples), statistics.median(alone))


async def latencies(pair: Pair, crossing: Crossing, objects: int) -> Latencies:
    """Measure all four, on the last of so many objects that have crossed and that were loaded."""
    consumer, provider, connections = pair.consumer, pair.provider, crossing.connections
    others = min(OTHERS, objects)
    copies = [(there, name) for name, there in crossing.copies.items()][-others:]
    sources = [(crossing.sources[name], name) for _, name in copies]
    loaded = [(namespace_of(number), f"{LOADED}-{number}") for number in range(others)]
    spec = Way(consumer, provider, SYNCED, size, lambda seen: seen.spec.size)
    back = Way(provider, consumer, SYNCED, status, lambda seen: seen.status.seen)
    return Latencies(
        await latency(spec, sources, connections),
        await latency(back, copies, connections),
        await latency(spec._replace(reader=consumer, resource=BARE), loaded, connections),
        await latency(back._replace(reader=provider, resource=BARE), loaded, connections),
    )


class Restart(NamedTuple):
    """Figures of a restart."""

    seconds: float
    """Until it is ready, both caches are filled and every object was compared."""
    changed: int
    """Objects, on both sides, that are of another version now."""
    writes: float
    """Requests other than GET, of whatever kind, as the konnector counts them."""
    resident: int
    """Bytes of memory that it holds then."""


async def restart(pair: Pair, objects: int) -> Restart:
    """Stop the konnector and start it again."""
    konnector = pair.konnector
    await konnector.stop()
    before = [await side.versions(SYNCED) for side in (pair.consumer, pair.provider)]
    begun = time.monotonic()
    await konnector.start()

    async def settled() -> bool:
        return all_compared(await konnector.metrics(), objects)

    await konnector.until(settled)
    seconds = time.monotonic() - begun
    writes = (await konnector.metrics()).writes
    after = [await side.versions(SYNCED) for side in (pair.consumer, pair.provider)]
    changed = sum(
        old != new[key]
        for known, new in zip(before, after, strict=True)
        for key, old in known.items()
    )
    return Restart(seconds, changed, writes, konnector.resident())


def all_compared(told: Scrape, objects: int) -> bool:
    """Whether both caches hold all objects and no object waits to be looked at."""

    def controllers(name: str) -> float:
        return sum(
            sample.value
            for sample in told.samples(name)
            if SYNCED.group_resource in sample.labels.get("controller", "")
        )

    return (
        told.total("fairlead_informer_objects", resource=SYNCED.group_resource) >= 2 * objects
        and controllers("controller_runtime_reconcile_total") >= objects
        and controllers("workqueue_depth") == 0
        and controllers("controller_runtime_active_workers") == 0
    )


AIM_THROUGHPUT = 0.85
AIM_ECHO = 5.0
AIM_MEMORY_KIB = 10.0


class Round(NamedTuple):
    """Seconds of bare loader and konnector, and of the konnector's CPU."""

    bare: float
    seconds: float
    cpu: float


class Figures(NamedTuple):
    """One pair of planes, one number of objects."""

    objects: int
    rounds: int
    connections: int
    typical: Round
    """The round with the median of the ratios."""
    memory: float
    """Bytes that the konnector's memory has grown by."""
    latencies: Latencies | None
    restart: Restart | None


def rows(kind: str, one: Figures) -> Iterator[Row]:
    """Print the figures of one number of objects on one kind of planes."""
    key, title, objects = f"sync_{kind}", f"Sync, {TITLES[kind]}", f"{one.objects:,} objects"
    bare, seconds, cpu = one.typical
    yield pace(
        f"{key}_{one.objects}_of_bare",
        f"{title}, {objects}: throughput of the bare loader's",
        seconds,
        bare,
        AIM_THROUGHPUT,
        f"{one.objects / seconds:,.0f} objects/s against {one.objects / bare:,.0f} "
        f"with {one.connections} connections; median of {one.rounds} rounds",
    )
    what = f"{title}, {objects}: the konnector's CPU per 1,000 objects"
    yield Row(f"{key}_{one.objects}_cpu", what, 1000 * cpu / one.objects, "s")
    yield kibibytes(
        f"{key}_{one.objects}_memory_kib",
        f"{title}, {objects}: the konnector's memory per object",
        one.memory / one.objects,
        AIM_MEMORY_KIB,
    )
    if one.latencies is not None:
        spec, status, spec_echo, status_echo = one.latencies
        for name, ours, echo in (("spec", spec, spec_echo), ("status", status, status_echo)):
            what = f"{title}: a {name} change"
            loaded = f"{what} among 1,000 others under way"
            yield of_echo(f"{key}_{name}_echo", loaded, ours.p50, echo.p50, AIM_ECHO)
            alone = f"{what} alone"
            yield of_echo(f"{key}_{name}_alone_echo", alone, ours.alone, echo.alone, AIM_ECHO)
    if one.restart is not None:
        what, note = (
            f"{title}: restart with {objects} in sync",
            f"{one.restart.resident / MIB:.0f}",
        )
        yield Row(
            f"{key}_restart_seconds",
            f"{what}, until all are compared",
            one.restart.seconds,
            "s",
            note=f"{note} MiB resident then",
        )
        yield Row(
            f"{key}_restart_writes",
            f"{what}, objects written",
            one.restart.changed,
            "objects",
            0.0,
            note=f"{one.restart.writes:.0f} requests other than GET, heartbeats included",
        )


TUNING = 200
"""Objects with which the best number of connections is found, and with which all get warm."""
TURN = 2000
"""Objects after which the other one's turn comes; those of before stay."""


async def measure(pair: Pair, objects: int, connections: int, *, last: bool) -> Figures:
    """Let bare loader and konnector take turns on the same servers.

    The first number of objects has no number of ``connections`` yet (0): the best is looked for,
    and latencies are measured. A restart is measured with the ``last``.
    """
    consumer, provider, konnector = pair
    bare = Bare(consumer, provider)
    await bare.run("warm", range(TUNING), max(SYNC_CONNECTIONS))
    best = connections or await fastest(
        SYNC_CONNECTIONS, lambda count: bare.run(f"tune-{count}", range(TUNING), count)
    )
    crossing = Crossing(consumer, provider, best)
    # The provider's namespaces and the connections of workers are made once, not per object.
    await Crossing(consumer, provider, max(SYNC_CONNECTIONS)).run("warm", TUNING)
    resident = await konnector.resident_at_rest()
    found = [await _round(konnector, bare, crossing, 0, objects)]
    # The others would find memory that the first has left.
    memory = await konnector.resident_at_rest() - resident
    while sum(one.bare + one.seconds for one in found) < ROUNDS_SECONDS:
        found.append(await _round(konnector, bare, crossing, len(found), objects))
    count = len(found)
    typical = sorted(found, key=lambda one: one.bare / one.seconds)[(count - 1) // 2]
    return Figures(
        objects,
        count,
        best,
        typical,
        memory,
        None if connections else await latencies(pair, crossing, objects),
        await restart(pair, count * objects + TUNING) if last else None,
    )


async def _round(
    konnector: Program, bare: Bare, crossing: Crossing, number: int, objects: int
) -> Round:
    """Let both take turns, for a machine is not as fast at any time.

    Of each turn half of the bare load comes before the konnector's objects, and half after.
    """
    limit, seconds, cpu = 0.0, 0.0, 0.0
    for first in range(number * objects, (number + 1) * objects, TURN):
        end = min(first + TURN, (number + 1) * objects)
        half = (first + end) // 2
        limit += await bare.run(LOADED, range(first, half), crossing.connections)
        before = konnector.cpu()
        seconds += await crossing.run(f"widget-{first}", end - first)
        cpu += konnector.cpu() - before
        limit += await bare.run(LOADED, range(half, end), crossing.connections)
    return Round(limit, seconds, cpu)


async def compare() -> list[Row]:
    """Measure all sizes on both kinds of planes, or on the chosen one."""
    printed: list[Row] = []
    for kind in PLANES:
        if kind == "real" and (missing := missing_assets()):
            say(f"real planes left out: {missing}")
            continue
        connections = 0
        for objects in OBJECTS:
            async with pair(kind) as planes:
                one = await measure(planes, objects, connections, last=objects == OBJECTS[-1])
            connections = one.connections
            say(f"{kind} {one}")
            printed += rows(kind, one)
    return printed


if __name__ == "__main__":
    report(compare)
