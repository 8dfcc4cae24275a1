"""Figures of what programs need, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.rows import MIB, TITLES, Row


class Memory(NamedTuple):
    """Bytes that a replica holds at rest, and the most that it ever held."""

    rest: int
    peak: int


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


def rows(figures: Iterable[Footprint]) -> Iterator[Row]:
    """Print what was measured, program by program."""
    for one in sorted(figures, key=lambda one: (one.program, one.of, one.objects)):
        yield from _rows(one)


def _rows(one: Footprint) -> Iterator[Row]:
    key = f"sizes_{one.program}_{one.of.split()[-1]}_{one.kind}_{one.objects}"
    title = f"{one.program}, {one.objects:,} {one.of}, {TITLES[one.kind]}"
    others = [f"{_mib(one.empty)} without any"]
    if one.standby is not None:
        others.append(f"the one that stands by {_mib(one.standby.rest)}")
    if one.taken is not None:
        others.append(f"the next leader {_mib(one.taken.leader.rest)}")
    yield Row(
        f"{key}_rest_mib", f"{title}: memory", one.leader.rest / MIB, "MiB", note="; ".join(others)
    )
    peaks = [f"the leader {_mib(one.leader.peak)}"]
    if one.taken is not None:
        peaks.append(f"the next leader {_mib(one.taken.leader.peak)}")
        peaks.append(f"one that is started among them {_mib(one.taken.started.peak)}")
    yield Row(
        f"{key}_peak_mib",
        f"{title}: most memory of a replica",
        one.peak / MIB,
        "MiB",
        note="; ".join(peaks),
    )
    if one.cpu:
        yield Row(
            f"{key}_cpu",
            f"{title}: CPU per 1,000 changes",
            1000 * one.cpu / one.changes,
            "s",
            note=f"of {one.changes:,}",
        )
    if one.taken is not None:
        yield Row(
            f"{key}_failover_seconds",
            f"{title}: kill -9 of the leader, until writes go on",
            one.taken.seconds,
            "s",
        )


def _mib(size: float) -> str:
    return f"{size / MIB:.0f} MiB"
