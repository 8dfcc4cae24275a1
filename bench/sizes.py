"""Sizes of every benchmark, the short form and the long one side by side.

Each ``make bench*`` takes five minutes at most in the short form. ``BENCH_LONG=1`` asks for the
long one, whose results are kept. A variable of :data:`CHOICES` chooses a size or a part of either
form, and nothing is kept then: ``BENCH_OBJECTS=100`` and ``BENCH_PLANES=sandbox`` are for the
konnector, ``BENCH_ACCESSES=100`` for the PostgresAccess operator, ``BENCH_BINDINGS=50`` (with as
much less of everything else) and ``BENCH_PARTS=bind`` for the binding controllers. ``make
sizes`` takes ``BENCH_OBJECTS``, ``BENCH_PLANES`` and, as its parts, ``crossing``, ``consumers``,
``postgres`` and ``binding``.
"""

from __future__ import annotations

import os
from typing import TypeVar

from fairlead.client import limits
from fairlead.runtime.controller.memory import REST_SECONDS


T = TypeVar("T")

LONG = os.environ.get("BENCH_LONG", "0") not in {"", "0"}
"""Whether the long form is measured."""
CHOICES = ("BENCH_OBJECTS", "BENCH_PLANES", "BENCH_ACCESSES", "BENCH_BINDINGS", "BENCH_PARTS")
"""Variables that choose a size or a part."""
KEPT = LONG and not any(map(os.environ.get, CHOICES))
"""Whether results are kept."""


def _form(*, short: T, long: T) -> T:
    return long if LONG else short


def _numbers(variable: str, *, short: tuple[int, ...], long: tuple[int, ...]) -> tuple[int, ...]:
    chosen = os.environ.get(variable)
    return (int(chosen),) if chosen else _form(short=short, long=long)


OBJECTS = _numbers("BENCH_OBJECTS", short=(1000,), long=(1000, 10_000))
"""Numbers of objects that cross."""
PLANES = (os.environ.get("BENCH_PLANES") or "sandbox,real").split(",")
"""Kinds of planes that they cross between."""
KBIND_OBJECTS = _numbers("BENCH_OBJECTS", short=(500,), long=(500, 2000))
"""Numbers of objects that cross by kbind v2."""
ROUNDS_SECONDS = _form(short=10.0, long=40.0)
"""Least seconds of all rounds of one number of objects. The median of them counts, for one that
is soon over says little."""
SYNC_CONNECTIONS = _form(short=(16, 32), long=(4, 8, 16, 32))
"""Numbers of connections of which the konnector's bare loader takes the best."""
SAMPLES = _form(short=250, long=1000)
"""Changes of which the latency is measured while others are under way."""

FOOTPRINTS = _numbers("BENCH_OBJECTS", short=(1000,), long=(1000, 10_000))
"""Numbers of objects with which the memory of each program is measured."""
CHANGED = 1000
"""Changes of which the CPU is measured."""

ACCESSES = _numbers("BENCH_ACCESSES", short=(10, 100, 1000), long=(10, 100, 1000, 5000))
"""Numbers of accesses on one PostgreSQL."""

(BINDINGS,) = _numbers("BENCH_BINDINGS", short=(200,), long=(500,))
"""Bindings at once; of all else there is a multiple or a share."""
PARTS = set(filter(None, os.environ.get("BENCH_PARTS", "").split(",")))
"""Parts of a benchmark that has some; none stands for all."""

SERVE_ROUNDS = _form(short=100, long=300)
"""Rounds in which the front door and the bare handler take turns."""
SERVE_SECONDS = 0.1
"""Seconds of one turn, so short that others on the machine are in the way of both alike."""
SANDBOX_ROUNDS = _form(short=1, long=3)
"""Rounds in which all servers take turns."""

PAUSE_SECONDS = 2 * limits.QUIET_SECONDS + 1 + _form(short=0.0, long=REST_SECONDS)
"""Seconds after which a program has given back the memory of its last burst of work; in the long
form also that of the connections, which are closed by then."""
