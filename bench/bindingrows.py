"""What is printed of the benchmark of the binding controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench.rows import Row


if TYPE_CHECKING:
    from bench.binding import Figures, Restart, Spread, Turn, Unrelated


AIM_BURST_SECONDS = 5.0
AIM_PACE = 0.6
AIM_GROWTH = 1.25
AIM_NEW = 0.25
AIM_UNRELATED = 1.5
MIB = 1024 * 1024


def rows(found: Figures) -> list[Row]:
    """The figures, in the order of the issue."""
    return list(_rows(found))


def _rows(found: Figures) -> Iterator[Row]:
    plane = {"real": "kube-apiserver", "sandbox": "sandbox"}[found.kind]
    if found.burst:
        title = f"{plane}: {found.burst.number:,} bindings at once"
        yield from _turn("burst", f"{title}, all Ready", found.burst, seconds=AIM_BURST_SECONDS)
    if found.unburst:
        title = f"{plane}: {found.unburst.number:,} bindings at once"
        yield from _turn("unburst", f"{title}, unbound", found.unburst, seconds=AIM_BURST_SECONDS)
    if found.many:
        title = f"{plane}: {found.many.number:,} bindings on as many Deployments"
        yield from _turn("many", title, found.many, pace=AIM_PACE)
    if found.unmany:
        title = f"{plane}: {found.unmany.number:,} bindings unbound"
        yield from _turn("unmany", title, found.unmany)
    yield from _growth(found)
    if found.change:
        title = f"{plane}: a Secret of {found.change.number:,} bindings changed"
        yield from _turn("change", f"{title}, until all workloads have it", found.change)
    if found.selector:
        title = f"{plane}: one selector over {found.selector.number:,} workloads with a requester"
        yield from _turn("selector", title, found.selector)
    if found.spread:
        yield from _spread(plane, found.spread)
    if found.unrelated:
        yield from _unrelated(plane, found.unrelated)
    if found.restart:
        yield from _restart(plane, found.restart)


def _turn(
    key: str, title: str, one: Turn, *, seconds: float | None = None, pace: float | None = None
) -> Iterator[Row]:
    key = f"binding_{key}"
    yield Row(
        f"{key}_pace",
        f"{title}: pace of the bare loader's",
        one.bare / one.seconds,
        aim=pace,
        smaller_is_better=False,
        note=f"{one.seconds:.2f} s against {one.bare:.2f} s",
    )
    yield Row(f"{key}_seconds", f"{title}: time", one.seconds, "s", seconds)
    yield Row(
        f"{key}_cpu_ms",
        f"{title}: our CPU each",
        1000 * one.cpu / one.number,
        "ms",
        note=f"{one.cpu:.2f} s in all, {one.requests / one.number:.1f} requests each",
    )


def _growth(found: Figures) -> Iterator[Row]:
    """What a binding costs among many, of what it costs among few."""
    for key, what, few, many in (
        ("bind", "to bind", found.burst, found.many),
        ("unbind", "to unbind", found.unburst, found.unmany),
    ):
        if few and many:
            yield Row(
                f"binding_growth_{key}",
                f"Growth: CPU {what} one of {many.number:,}, of one of {few.number:,}",
                (many.cpu / many.number) / (few.cpu / few.number),
                aim=AIM_GROWTH,
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
        yield Row(
            f"{key}_{name}",
            f"{title}: time to {name} one, of without them",
            after / before,
            aim=AIM_UNRELATED,
            note=f"{1000 * after:.0f} ms against {1000 * before:.0f} ms",
        )
    yield Row(
        f"{key}_idle",
        f"{title}: our CPU of a second at rest",
        1000 * one.idle,
        "ms",
        note=f"{1000 * one.idle_before:.1f} ms without them",
    )
    yield Row(f"{key}_writes", f"{title}: writes at rest", one.writes, "", 0.0)
    yield Row(
        f"{key}_memory",
        f"{title}: our memory for each",
        one.memory / 1024 / one.number,
        "KiB",
        note="their metadata",
    )


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
