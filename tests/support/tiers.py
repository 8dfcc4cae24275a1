"""The tiers of the suite, and the parts of a landing: which runs a test belongs to.

A test says about itself what it is, by its markers, and this module makes exactly one tier of
that, whose name is a marker as well: ``make test``, ``make matrix``, ``make envtest``,
``make cluster`` and ``make browser`` select by it. ``hack/landing/table.py`` makes parts of all
tiers but the first, which a landing runs when something has changed for them. This module also
says which tests have to share a worker, and for which reasons one may be skipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hack.landing.table import PARTS, TENTHS, part_of


TIERS = {
    "test": "the tier of `make test`: what a developer runs before each commit",
    "matrix": "the tier of `make matrix`: other versions and administrators, and what is long",
    "envtest": "the tier of `make envtest`: what needs a real control plane",
    "cluster": "the tier of `make cluster`: what needs nodes",
    "browser": "the tier of `make browser`: pages as people see them, in Chromium",
}
MARKERS = {
    "variant(dimension, value)": "this parameter is one of several versions or administrators",
    "differs(*dimensions)": "the outcome depends on these: `make test` has all their values",
    "only(**values)": "there is such a row for these versions or administrators alone",
    "extended": "what few changes need: kills at each statement, bombs, long searches, an "
    "installation from the start; it belongs to `make matrix`",
    "needs_control_plane": "the test needs a real control plane",
    "today(former)": "on kube-apiserver 1.20 this row fails, for there it is as the text says",
    "edge": "an edge of a system's flowchart: each landing walks it on a real control plane, too",
    "again": "set by this module: a row that repeats one of `make test` on a real control plane",
    **{part.name: f"set by this module: {part.title}" for part in PARTS if part.tests},
}
USUAL = {"version": 18, "administrator": "createrole"}
"""The value of each dimension that ``make test`` has."""
EVERYWHERE = (
    "the sandbox answers kubectl 1.27 and newer",
    "other tests use the kind on this server",
    "the former version does not run with the packages of today's",
)
"""Reasons to skip a test that hold on a machine that has all the suite asks for, too."""
OLD = 23
"""The minor version of Kubernetes before which a kube-apiserver is an old one."""
UNAVAILABLE = (
    "there is no zsh",
    "there is no fish",
    "there is no Chromium",
    "there is no helm",
    "there is no crane",
    "there is no client",
    "there are no programs of nodes",
    "Debian's packages cannot be fetched",
    "the history of this checkout ends before the former version",
)
"""Reasons to skip a test since not every machine can have what it needs: ``.ci/run`` tries.

A part in which one was skipped so has not passed: the next landing runs it again.
"""
MISSING = (
    "is not installed",
    "there is no kubectl",
    "KUBEBUILDER_ASSETS",
    "only root",
    "these Debian packages are missing",
    "there are no cgroups",
    "GiB free, and clusters need",
    "the kernel does not tell",
)
"""Reasons to skip a test that a better machine does not have: ``.ci/run`` takes none of them."""
COMPLETE = "FAIRLEAD_TESTS_COMPLETE"
"""The environment variable by which a run demands that nothing is missing."""
SPREAD = ("tests/browser/", "tests/e2e/", "tests/integration/")
"""Folders whose tests wait, so that each goes to whichever worker is free."""


def variant(dimension: str, value: Any, *, id: str | None = None) -> Any:  # noqa: A002  pytest's
    """A fixture's parameter that is one value of a dimension."""
    return pytest.param(value, marks=pytest.mark.variant(dimension, value), id=id)


VERSIONS = tuple(variant("version", number) for number in (15, 16, 18))
"""PostgreSQL's: those that have rules of their own for common administrators, and the newest."""
ADMINISTRATORS = tuple(variant("administrator", name) for name in ("superuser", "createrole"))


def real(*values: object, id: str | None = None) -> Any:  # noqa: A002  pytest's own name
    """A row of parameters that needs a real control plane."""
    return pytest.param(*values, marks=pytest.mark.needs_control_plane, id=id)


def today(former: str) -> pytest.MarkDecorator:
    """Mark a row that fails on kube-apiserver 1.20, where it is as ``former`` says."""
    return pytest.mark.today(former)


def declare(config: pytest.Config) -> None:
    """Make the markers known."""
    for name, text in (TIERS | MARKERS).items():
        config.addinivalue_line("markers", f"{name}: {text}")


class Row:
    """What a test says about itself, read once."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        marks = [*item.iter_markers()]
        self._names = {mark.name for mark in marks}
        self._fixtures: list[str] = getattr(item, "fixturenames", [])
        self._values = {str(it.args[0]): it.args[1] for it in marks if it.name == "variant"}
        self._only = [mark.kwargs for mark in marks if mark.name == "only"]
        self._differs = {name for it in marks if it.name == "differs" for name in it.args}
        self.module = item.nodeid.partition("::")[0]

    @property
    def exists(self) -> bool:
        """Whether there is such a row at all."""
        for only in self._only:
            for dimension, allowed in only.items():
                several = allowed if isinstance(allowed, tuple) else (allowed,)
                if dimension in self._values and self._values[dimension] not in several:
                    return False
        return True

    @property
    def tier(self) -> str:
        """The tier of the test."""
        if "needs_control_plane" in self._names or "real_programs" in self._fixtures:
            return "envtest"
        if "node_programs" in self._fixtures:
            return "cluster"
        if "browser_program" in self._fixtures:
            return "browser"
        if "extended" in self._names:
            return "matrix"
        # A row for one administrator alone is as much a row as any.
        differs = self._differs.union(*self._only)
        usual = all(
            value == USUAL[dimension]
            for dimension, value in self._values.items()
            if dimension not in differs
        )
        return "test" if usual else "matrix"

    @property
    def part(self) -> str:
        """The part of a landing that the test belongs to; "" in ``make test``."""
        tier = self.tier
        equal = tier == "matrix" and "extended" not in self._names
        return part_of(self.module, tier, equal=equal)

    @property
    def again(self) -> bool:
        """Whether it repeats a row of ``make test`` where the API server is not the question."""
        return (
            self.part == "apiserver"
            and self.module.startswith("tests/e2e/")
            and "real_programs" not in self._fixtures
            and "edge" not in self._names
        )

    @property
    def group(self) -> str:
        """The group of tests that run on one worker, one after the other; "" for none.

        A module whose fixtures last as long as it does is one group for each version of
        PostgreSQL, and a module of quick tests is one, so that no worker has to ask for each.
        """
        if self.module.startswith(SPREAD) and not _lasting(self._item):
            return ""
        version = self._values.get("version", "")
        return f"{self.module.removeprefix('tests/').removesuffix('.py')} {version}".strip()


def tenth_of(nodeid: str) -> int:
    """The tenth of the rows declared equal that a test belongs to."""
    return zlib.crc32(nodeid.encode()) % TENTHS


def objection(reason: str, *, complete: bool) -> str:
    """Why a test may not be skipped for this reason; "" if it may.

    A test that is skipped wherever it is run tests nothing, and nobody sees it.
    """
    if any(known in reason for known in EVERYWHERE + UNAVAILABLE):
        return ""
    if not any(known in reason for known in MISSING):
        return f"skipped for a reason that tests/support/tiers.py does not list: {reason}"
    return f"nothing may be missing where {COMPLETE} is set: {reason}" if complete else ""


def lacks(reason: str) -> bool:
    """Whether a test was skipped for want of something that another machine has."""
    return any(known in reason for known in UNAVAILABLE + MISSING)


def _lasting(item: pytest.Item) -> bool:
    """Whether the test has fixtures of a module, other than those of the event loop."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    return any(
        one.scope == "module" and not one.argname.endswith("_scoped_runner")
        for definitions in found
        for one in definitions[-1:]
    )


def assign(items: list[pytest.Item], tenths: Iterable[int]) -> list[pytest.Item]:
    """Mark each test with its tier, its part and its group; take out the rows that do not exist.

    Args:
        items: the tests that were collected; those that are left afterwards.
        tenths: of the rows declared equal, those that stay.

    Returns:
        The rows that were taken out.
    """
    absent: list[pytest.Item] = []
    present: list[pytest.Item] = []
    wanted = {*tenths}
    for item in items:
        row = Row(item)
        part = row.part
        if not row.exists or (part == "equal" and tenth_of(item.nodeid) not in wanted):
            absent.append(item)
            continue
        present.append(item)
        names = [row.tier, part, "again" if row.again else ""]
        for name in filter(None, names):
            item.add_marker(name)
        if group := row.group:
            item.add_marker(pytest.mark.xdist_group(group))
    items[:] = present
    return absent


def expect_former(items: Iterable[pytest.Item]) -> None:
    """Expect each row that says what 1.20 does otherwise to fail on such a control plane."""
    for item in items:
        mark = item.get_closest_marker("today")
        if mark is not None and item.get_closest_marker("envtest") is not None:
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


def mix(items: list[pytest.Item]) -> None:
    """Spread what waits evenly among what computes, so that workers do both all the time.

    Groups stay whole, and come before what stands alone: the longest go first.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        groups.setdefault(str(mark.args[0]) if mark else item.nodeid, []).append(item)
    kinds: dict[bool, list[list[pytest.Item]]] = {True: [], False: []}
    for group in sorted(groups.values(), key=len, reverse=True):
        kinds[group[0].nodeid.startswith(SPREAD)].append(group)
    placed = [
        (place / len(kind), waits, group)
        for waits, kind in kinds.items()
        for place, group in enumerate(kind)
    ]
    placed.sort(key=lambda one: one[:2])
    items[:] = [item for _, _, group in placed for item in group]
