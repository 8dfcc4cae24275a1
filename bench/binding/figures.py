"""Figures of the benchmark of the binding controllers, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.rows import MIB, TITLES, Row, growth, kibibytes, milliseconds, pace, ratio


AIM_BURST_SECONDS = 5.0
AIM_PACE = 0.6
AIM_NEW = 0.25
AIM_UNRELATED = 1.5


class Turn(NamedTuple):
    """Seconds that the controllers took, and the bare loader."""

    number: int
    seconds: float
    bare: float
    cpu: float
    """Seconds of the controllers' CPU."""
    requests: float
    """Requests of the controllers to the API server."""


class Bound(NamedTuple):
    """Bindings at once, few and many, and all of them unbound again."""

    burst: Turn
    unburst: Turn
    many: Turn
    unmany: Turn


class Spread(NamedTuple):
    """Bindings in as many namespaces."""

    number: int
    connections: int
    """In all, once those that nobody uses are closed."""
    memory: float
    """Bytes more than before."""


class Restart(NamedTuple):
    """A start where all bindings are Ready."""

    number: int
    seconds: float
    """Until each was looked at."""
    cpu: float
    changed: int
    """Bindings, Secrets and workloads that are of another version then."""
    new: float
    """Seconds of a binding that is created meanwhile."""
    alone: float
    """Seconds of one that is created when nothing else happens."""


class Unrelated(NamedTuple):
    """One binding, before there are so many unrelated objects beside it and after."""

    number: int
    memory: float
    """Bytes more than before."""
    idle: float
    """Seconds of CPU at rest, of one second."""
    idle_before: float
    writes: float
    bind: float
    bind_before: float
    unbind: float
    unbind_before: float


class Figures(NamedTuple):
    """Figures of each part, None for a part that was left out."""

    kind: str
    bind: Bound | None = None
    change: Turn | None = None
    selector: Turn | None = None
    namespaces: Spread | None = None
    restart: Restart | None = None
    unrelated: Unrelated | None = None


def rows(found: Figures) -> Iterator[Row]:
    """Print the figures, in the order of the issue."""
    plane = TITLES[found.kind]
    if found.bind:
        yield from _bound(plane, found.bind)
    if found.change:
        title = f"{plane}: a Secret of {found.change.number:,} bindings changed"
        yield from _turn("change", f"{title}, until all workloads have it", found.change)
    if found.selector:
        title = f"{plane}: one selector over {found.selector.number:,} workloads with a requester"
        yield from _turn("selector", title, found.selector)
    if found.namespaces:
        yield from _spread(plane, found.namespaces)
    if found.unrelated:
        yield from _unrelated(plane, found.unrelated)
    if found.restart:
        yield from _restart(plane, found.restart)


def _bound(plane: str, found: Bound) -> Iterator[Row]:
    burst, unburst, many, unmany = found
    few, all_ = (f"{plane}: {turn.number:,} bindings" for turn in (burst, many))
    yield from _turn("burst", f"{few} at once, all Ready", burst, seconds=AIM_BURST_SECONDS)
    yield from _turn("unburst", f"{few} at once, unbound", unburst, seconds=AIM_BURST_SECONDS)
    yield from _turn("many", f"{all_} on as many Deployments", many, aim=AIM_PACE)
    yield from _turn("unmany", f"{all_} unbound", unmany)
    for name, small, large in (("bind", burst, many), ("unbind", unburst, unmany)):
        yield growth(
            f"binding_growth_{name}",
            f"Growth: CPU to {name} one of {large.number:,}, of one of {small.number:,}",
            (small.cpu, small.number),
            (large.cpu, large.number),
        )


def _turn(
    key: str, title: str, one: Turn, *, seconds: float | None = None, aim: float | None = None
) -> Iterator[Row]:
    key = f"binding_{key}"
    yield pace(f"{key}_pace", f"{title}: pace of the bare loader's", one.seconds, one.bare, aim)
    yield Row(f"{key}_seconds", f"{title}: time", one.seconds, "s", seconds)
    yield milliseconds(
        f"{key}_cpu_ms",
        f"{title}: our CPU each",
        one.cpu / one.number,
        note=f"{one.cpu:.2f} s in all, {one.requests / one.number:.1f} requests each",
    )


def _spread(plane: str, one: Spread) -> Iterator[Row]:
    title = f"{plane}: {one.number} bindings in as many namespaces"
    yield Row("binding_spread_connections", f"{title}: connections", one.connections, "")
    yield Row("binding_spread_memory", f"{title}: memory more", one.memory / MIB, "MiB")


def _unrelated(plane: str, one: Unrelated) -> Iterator[Row]:
    key, title = "binding_unrelated", f"{plane}: {one.number:,} unrelated objects"
    for name, after, before in (
        ("bind", one.bind, one.bind_before),
        ("unbind", one.unbind, one.unbind_before),
    ):
        what = f"{title}: time to {name} one, of without them"
        yield ratio(f"{key}_{name}", what, after, before, AIM_UNRELATED)
    yield milliseconds(
        f"{key}_idle",
        f"{title}: our CPU of a second at rest",
        one.idle,
        note=f"{1000 * one.idle_before:.1f} ms without them",
    )
    yield Row(f"{key}_writes", f"{title}: writes at rest", one.writes, "", 0.0)
    memory = f"{title}: our memory for each"
    yield kibibytes(f"{key}_memory", memory, one.memory / one.number, note="their metadata")


def _restart(plane: str, one: Restart) -> Iterator[Row]:
    key, title = "binding_restart", f"{plane}: a restart with {one.number:,} Ready bindings"
    yield Row(
        f"{key}_new",
        f"{title}: a new one, of the time until each was looked at",
        one.new / one.seconds,
        aim=AIM_NEW,
        note=f"{1000 * one.new:.0f} ms; {1000 * one.alone:.0f} ms at rest",
    )
    yield Row(
        f"{key}_seconds",
        f"{title}: until each was looked at",
        one.seconds,
        "s",
        note=f"{1000 * one.cpu / one.number:.1f} ms of our CPU each",
    )
    yield Row(f"{key}_changed", f"{title}: objects that were written", one.changed, "", 0.0)
