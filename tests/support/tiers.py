"""The tiers of the suite: which of the runs of ``.ci/run`` a test belongs to.

A test says about itself what it is, by its markers, and this module makes exactly one tier of
that, whose name is a marker as well: ``make test``, ``make matrix``, ``make envtest`` and
``make browser`` select by it. It also says which tests have to share a worker, and for which
reasons one may be skipped.
"""

from __future__ import annotations

from typing import Any

import pytest


TIERS = {
    "test": "the tier of `make test`: what a developer runs before each commit",
    "matrix": "the tier of `make matrix`: other versions and administrators, and what is long",
    "envtest": "the tier of `make envtest`: what needs a real control plane",
    "browser": "the tier of `make browser`: pages as people see them, in Chromium",
}
MARKERS = {
    "variant(dimension, value)": "this parameter is one of several versions or administrators",
    "differs(*dimensions)": "the outcome depends on these: `make test` has all their values",
    "only(**values)": "there is such a row for these versions or administrators alone",
    "extended": "what few changes need: kills at each statement, bombs, long searches, an "
    "installation from the start; it belongs to `make matrix`",
    "needs_control_plane": "the test needs a real control plane",
}
USUAL = {"version": 18, "administrator": "createrole"}
"""The value of each dimension that ``make test`` has."""
EVERYWHERE = (
    "Kubernetes 1.20 has no CEL",
    "the sandbox answers kubectl 1.27 and newer",
    "other tests use the kind on this server",
    "there is no zsh",
    "there is no fish",
    "there is no Chromium",
    "there is no helm",
    "there is no crane",
    "Debian's packages cannot be fetched",
    "the history of this checkout ends before the former version",
    "the former version does not run with the packages of today's",
)
"""Reasons to skip a test that hold on a machine that has all the suite asks for, too.

Chromium, helm, crane and Debian's packages are among them since not every machine can have them:
``.ci/run`` tries. So is the former version, which a shallow clone does not have.
"""
MISSING = (
    "is not installed",
    "there is no kubectl",
    "KUBEBUILDER_ASSETS",
    "only root",
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


def declare(config: pytest.Config) -> None:
    """Make the markers known."""
    for name, text in (TIERS | MARKERS).items():
        config.addinivalue_line("markers", f"{name}: {text}")


def values_of(item: pytest.Item) -> dict[str, Any]:
    """The value of each dimension that the test is a variant in."""
    return {str(mark.args[0]): mark.args[1] for mark in item.iter_markers("variant")}


def exists(item: pytest.Item) -> bool:
    """Whether there is such a row at all."""
    values = values_of(item)
    for mark in item.iter_markers("only"):
        for dimension, allowed in mark.kwargs.items():
            several = allowed if isinstance(allowed, tuple) else (allowed,)
            if dimension in values and values[dimension] not in several:
                return False
    return True


def tier_of(item: pytest.Item) -> str:
    """The tier of a test, by what it says about itself."""
    if item.get_closest_marker("needs_control_plane") or "real_programs" in _fixtures_of(item):
        return "envtest"
    if "browser_program" in _fixtures_of(item):
        return "browser"
    if item.get_closest_marker("extended"):
        return "matrix"
    differs = {name for mark in item.iter_markers("differs") for name in mark.args}
    # A row for one administrator alone is as much a row as any.
    differs |= {name for mark in item.iter_markers("only") for name in mark.kwargs}
    usual = all(
        value == USUAL[dimension]
        for dimension, value in values_of(item).items()
        if dimension not in differs
    )
    return "test" if usual else "matrix"


def group_of(item: pytest.Item) -> str:
    """The group of tests that run on one worker, one after the other; "" for none.

    A module whose fixtures last as long as it does is one group for each version of PostgreSQL,
    and a module of quick tests is one, so that no worker has to ask for each of them.
    """
    module = item.nodeid.partition("::")[0]
    if module.startswith(SPREAD) and not _lasting(item):
        return ""
    version = values_of(item).get("version", "")
    return f"{module.removeprefix('tests/').removesuffix('.py')} {version}".strip()


def objection(reason: str, *, complete: bool) -> str:
    """Why a test may not be skipped for this reason; "" if it may.

    A test that is skipped wherever it is run tests nothing, and nobody sees it.
    """
    if any(known in reason for known in EVERYWHERE):
        return ""
    if not any(known in reason for known in MISSING):
        return f"skipped for a reason that tests/support/tiers.py does not list: {reason}"
    return f"nothing may be missing where {COMPLETE} is set: {reason}" if complete else ""


def _fixtures_of(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def _lasting(item: pytest.Item) -> bool:
    """Whether the test has fixtures of a module, other than those of the event loop."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    return any(
        one.scope == "module" and not one.argname.endswith("_scoped_runner")
        for definitions in found
        for one in definitions[-1:]
    )


def assign(items: list[pytest.Item]) -> list[pytest.Item]:
    """Mark each test with its tier and its group; take out the rows that do not exist.

    Returns:
        The rows that were taken out.
    """
    absent = [item for item in items if not exists(item)]
    items[:] = [item for item in items if exists(item)]
    for item in items:
        item.add_marker(tier_of(item))
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
    return absent


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
