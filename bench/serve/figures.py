"""Figures of the front door's benchmark, and their rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from bench.rows import MIB, TITLES, Row, milliseconds
from bench.serve.pages import Page
from bench.serve.screens import Screens


CONNECTIONS = 16
AIM_PACE = 0.5
AIM_BIND = 1.5
AIM_SCREEN_SECONDS = 1.0
AIM_SCREEN_MIB = 200.0
AIM_PAGES_MS = {"consumers": 300.0, "bindings": 300.0, "topology": 500.0}
_ROWS = {"consumers": "consumers", "bindings": "bindings", "topology": "objects"}
QUESTIONS_OF_A_PERSON = 2
"""Reviews before those of templates by name: of the verb alone, and of all templates."""
_TITLES = {
    "ping": "/api/ping, signed in",
    "all": "/api/templates of a person who may bind all",
    "half": "/api/templates of a person who may bind half of them by name",
}


class Load(NamedTuple):
    """One server under full speed for a round; ``cpu`` is seconds of its CPU."""

    answers: int
    seconds: float
    cpu: float

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


class Asked(NamedTuple):
    """A route and the bare handler with a body of its size, in rounds that take turns."""

    ours: list[Load]
    bare: list[Load]
    size: int
    """Bytes of a body."""


class Cold(NamedTuple):
    """Requests of a person of whom nothing is known, and what the API server was asked."""

    answers: int
    seconds: float
    reviews: float
    others: float
    templates: int
    believed: float
    """Seconds for which an answer of the API server is believed."""


class Bound(NamedTuple):
    """Seconds of binds, and of their calls alone, one after the other, in turns."""

    ours: list[float]
    bare: list[float]
    calls: int
    """Calls of a bare bind."""
    requests: float
    """Requests of our programs of one bind."""


class Figures(NamedTuple):
    """What was measured; binds by kind of the plane."""

    routes: dict[str, Asked]
    cold: Cold | None
    binds: dict[str, Bound]
    pages: dict[str, Page]
    screens: Screens | None = None


def rows(figures: Figures) -> Iterator[Row]:
    """Print what was measured."""
    for name, asked in figures.routes.items():
        yield from _route(name, asked)
    if figures.cold is not None:
        yield from _cold(figures.cold)
    for kind, bound in figures.binds.items():
        yield from _bind(kind, bound)
    if figures.screens is not None:
        yield from _screens(figures.screens)
    for name, page in figures.pages.items():
        yield from _page(name, page)


def _route(name: str, asked: Asked) -> Iterator[Row]:
    key, title = f"serve_{name}", _TITLES[name]
    pairs = list(zip(asked.ours, asked.bare, strict=True))
    value = statistics.median(ours.per_second / bare.per_second for ours, bare in pairs)
    speed, limit = (statistics.median(one.per_second for one in of) for of in asked[:2])
    yield Row(
        f"{key}_pace",
        f"{title}: requests/s of the bare handler's",
        value,
        aim=AIM_PACE,
        smaller_is_better=False,
        note=f"{speed:,.0f}/s against {limit:,.0f}/s, {asked.size:,} bytes; "
        f"median of {len(pairs)} rounds",
    )
    ours, bare = (
        1e6 * sum(one.cpu for one in of) / sum(one.answers for one in of) for of in asked[:2]
    )
    yield Row(
        f"{key}_cpu",
        f"{title}: our CPU of a request",
        ours,
        "us",
        note=f"bare handler {bare:,.0f} us",
    )


def _cold(cold: Cold) -> Iterator[Row]:
    periods = 1 + cold.seconds // cold.believed
    title = f"{cold.answers:,} requests of a person of whom nothing is known"
    yield Row(
        "serve_cold_reviews",
        f"{title}: SubjectAccessReviews",
        cold.reviews,
        "",
        aim=periods * (cold.templates + QUESTIONS_OF_A_PERSON),
        note=f"{cold.templates} templates, in {cold.seconds:.1f} s",
    )
    yield Row(
        "serve_cold_others",
        f"{title}: other requests to the API server",
        cold.others,
        "",
        aim=periods * CONNECTIONS,
        note=f"{CONNECTIONS} connections may read the session at once; nothing is listed",
    )


def _screens(screens: Screens) -> Iterator[Row]:
    title = f"{screens.streams:,} open pages, one change a second"
    yield milliseconds(
        "serve_screens",
        f"{title}: until it is on the last screen",
        max(screens.changes),
        aim=1000 * AIM_SCREEN_SECONDS,
        note=f"the slowest of {len(screens.changes)} changes; median "
        f"{1000 * statistics.median(screens.changes):.0f} ms",
    )
    yield Row(
        "serve_screens_memory",
        f"{title}: the server's memory",
        screens.after / MIB,
        "MiB",
        aim=AIM_SCREEN_MIB,
        note=f"{screens.before / MIB:.0f} MiB without them",
    )


def _page(name: str, page: Page) -> Iterator[Row]:
    key, title = f"serve_{name}", f"/{name} with {page.rows:,} {_ROWS[name]}"
    ours, bare = statistics.median(page.ours), statistics.median(page.bare)
    yield milliseconds(
        key,
        f"{title}: until the first byte",
        ours,
        aim=AIM_PAGES_MS[name],
        note=f"median of {len(page.ours)}; the same rows as bare JSON {1000 * bare:.1f} ms; last "
        f"byte {1000 * statistics.median(page.whole):.0f} ms, {page.size:,} bytes",
    )
    yield milliseconds(
        f"{key}_first",
        f"{title}: the first request after a start, until the first byte",
        page.first,
        aim=AIM_PAGES_MS[name],
    )


def _bind(kind: str, bound: Bound) -> Iterator[Row]:
    key, title = f"serve_bind_{kind}", f"{TITLES[kind]}: a bind from POST to answer"
    ours, bare = statistics.median(bound.ours), statistics.median(bound.bare)
    yield Row(
        key,
        f"{title}, time of its own API calls made bare",
        ours / bare,
        aim=AIM_BIND,
        note=f"{1000 * ours:.0f} ms against {1000 * bare:.0f} ms; median of {len(bound.ours)}",
    )
    note = f"best {1000 * min(bound.ours):.0f} ms, bare {1000 * min(bound.bare):.0f} ms"
    yield milliseconds(f"{key}_ms", title, ours, note=note)
    yield Row(
        f"{key}_calls",
        f"{title}, its own API calls",
        bound.calls,
        "",
        note=f"{bound.requests:.1f} requests of both, with session and reviews",
    )
