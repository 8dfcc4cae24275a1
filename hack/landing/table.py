"""What runs when: the parts of a landing, and the rows that each of them has.

A part runs always, or when something that it may read has changed since it passed on this
machine. It may read all tracked files but those in ``unread``, so that a new file counts
everywhere; that the list is right is shown by running the part in a copy of the checkout without
them. A part without a list needs git or the image, and counts every file.
"""

from __future__ import annotations

from dataclasses import dataclass


TENTHS = 10
"""Shares into which rows are split whose authors declared that they do not differ."""
WHOLE_MINUTES = 25
"""Minutes that are left at least when the rest of the whole suite begins."""
LIMIT_MINUTES = 90
"""Minutes after which a landing is stopped."""
SEEDS = (60, 200)
"""Seeds of the simulation at a landing, and after a change of what it simulates."""

PROSE = (
    "*.md", ".dockerignore", ".github/", ".gitlab/", "Dockerfile", "LICENSE", "docs/",
    "mkdocs.yml", "requirements/charts.txt", "requirements/docs.txt", "requirements/image.txt",
    # A test compares the rights that it names with those that the operator needs.
    "!docs/how-to/administrator-rights.md",
    # A test runs its configuration.
    "!docs/how-to/poolers.md",
)  # fmt: skip
"""Documents, and what builds nothing that a test starts."""
TOOLS = ("bench/", "charts/", "hack/", "!hack/landing/", "Makefile")
"""Measurements, the chart, and the project's own tools."""
DOOR = ("src/fairlead/portal/", "src/fairlead/uninstall/")
"""The front door, and what takes programs away."""
PURE = ("tests/unit/", "tests/golden/")
"""Tests that need no server; they run always."""


@dataclass(frozen=True)
class Part:
    """One part of a landing.

    Args:
        name: of the part, and of the marker of its tests.
        title: what it has.
        after: the changes that it is for, as CONTRIBUTING.md says it.
        tests: beginnings of the paths of its tests; a test belongs to the first part that has its
            path and its tier.
        tiers: the tiers of its tests.
        targets: of make, which come before its tests.
        equal: whether its tests are the rows that are declared equal to one of ``make test``, of
            which a landing has a tenth.
        always: whether it runs at each landing, whatever has passed.
        unread: patterns of tracked files that it does not read: a folder's end in ``/``, and one
            that begins with ``!`` takes files back. None: it counts every file.
        programs: which it starts; their versions count.
        repeats: the part whose rows it runs once more, with other programs; it is a part of the
            whole suite alone.
    """

    name: str
    title: str
    after: str
    tests: tuple[str, ...] = ()
    tiers: frozenset[str] = frozenset({"matrix"})
    targets: tuple[str, ...] = ()
    equal: bool = False
    always: bool = False
    unread: tuple[str, ...] | None = None
    programs: tuple[str, ...] = ()
    repeats: str = ""


def _others(*own: str) -> tuple[str, ...]:
    """The folders of tests that a part does not read, all but its own."""
    folders = ("browser", "cluster", "contract", "integration", "sim", "e2e")
    return tuple(
        f"tests/{folder}/" for folder in folders if not any(it.startswith(folder) for it in own)
    )


_APISERVER = (
    "tests/contract/",
    *(f"tests/e2e/{name}/" for name in ("binding", "kbind", "konnector", "postgres", "provider")),
    "tests/e2e/whole/test_examples.py",
    "tests/e2e/whole/test_faults.py",
    "tests/e2e/whole/test_policies.py",
    "tests/e2e/whole/test_story.py",
    "tests/integration/portal/handshake/test_applying.py",
)
_NO_APISERVER = (*PROSE, "bench/", "tests/browser/", "tests/sim/", "tests/unit/")

PARTS = (
    Part(
        "lint", "formatting, style, layers, words", "every change", targets=("lint",), always=True
    ),
    Part("types", "mypy --strict", "every change", targets=("types",), always=True),
    Part("site", "the manual's site", "every change", targets=("docs",), always=True),
    Part(
        "test",
        "pure tests, contracts and e2e on sandboxes, PostgreSQL 18, rows that differ",
        "every change",
        targets=("test",),
        always=True,
    ),
    Part(
        "simulation",
        f"kept plans and {SEEDS[0]} fixed seeds; {SEEDS[1]} after a change of what is simulated",
        "a change in `src` but for the portal, in `tests/sim` or `tests/support`",
        unread=(*PROSE, *TOOLS, *PURE, *DOOR, *_others("sim"), "config/"),
    ),
    Part(
        "image",
        "the image, its contents, and its programs",
        "every change",
        tests=("tests/e2e/whole/test_image.py", "tests/e2e/whole/test_built_image.py"),
        tiers=frozenset({"matrix", "envtest"}),
        programs=("kubernetes",),
    ),
    Part(
        "release",
        "a release of the checkout, pushed to a registry on loopback",
        "every change",
        tests=("tests/e2e/whole/test_release.py",),
        programs=("helm", "crane", "gpg"),
    ),
    Part(
        "former",
        "the former version beside today's",
        "every change",
        tests=("tests/e2e/whole/test_upgrade.py",),
    ),
    Part(
        "chart",
        "the chart made anew, linted, rendered, scored, installed",
        "a change in `src`, `charts`, `config` or `hack`",
        tests=(
            *("tests/integration/chart/", "tests/e2e/whole/test_chart.py"),
            "tests/e2e/binding/test_helm.py",
        ),
        tiers=frozenset({"matrix", "envtest"}),
        targets=("charts",),
        unread=(*PURE, "bench/", "tests/sim/", "tests/browser/", "tests/contract/"),
        programs=("helm", "kubernetes"),
    ),
    Part(
        "manual",
        "commands of the pages, tutorials and examples",
        "a change in `src`, `docs`, `examples` or `README.md`",
        tests=("tests/e2e/docs/", "tests/e2e/whole/test_installing.py"),
        tiers=frozenset({"matrix", "envtest"}),
        unread=(*PURE, "bench/", "tests/sim/", "tests/browser/", "tests/contract/"),
        programs=("kubernetes", "helm"),
    ),
    Part(
        "alerts",
        "alerts that fire and that do not",
        "a change in `src`, `config/alerts` or `hack`",
        tests=("tests/e2e/alerts/", "tests/integration/portal/test_alerts.py"),
        unread=(*PROSE, *PURE, "bench/", "charts/", *_others("e2e", "integration")),
        programs=("promtool",),
    ),
    Part(
        "clients",
        "clients of Go, Node.js and Java log in by TLS, and refuse an impostor",
        "a change in `src` but for the portal, in `hack/clients` or the page on TLS",
        tests=("tests/integration/clients/",),
        unread=(
            *PROSE,
            "!docs/how-to/tls-from-the-app.md",
            *TOOLS,
            "!hack/clients/",
            *PURE,
            *DOOR,
            *_others("integration"),
        ),
        programs=("clients", "postgresql"),
    ),
    Part(
        "interop",
        "our programs in place of the originals'",
        "a change in `src` or `hack/interop`",
        tests=("tests/integration/hack/",),
        unread=(*PROSE, *PURE, *_others("integration"), "bench/", "charts/"),
    ),
    Part(
        "browser",
        "the console's pages and the manual's site in Chromium, with axe",
        "a change in `src` or `docs`",
        tests=("tests/browser/",),
        tiers=frozenset({"browser"}),
        unread=(*PURE, *_others("browser"), "bench/", "charts/"),
        programs=("chromium", "redis-server"),
    ),
    Part(
        "equal",
        "a tenth of the rows of PostgreSQL 15, 16 and superusers that do not differ",
        "a change in `src` but for the portal, in e2e or integration tests",
        tests=("tests/e2e/postgres/", "tests/integration/postgres/"),
        equal=True,
        unread=(*PROSE, *TOOLS, *PURE, *DOOR, *_others("e2e", "integration")),
        programs=("postgresql", "pgbouncer"),
    ),
    Part(
        "kills",
        "an operator killed at each statement and write, servers that hang",
        "a change in `src` but for the portal, in e2e or integration tests",
        tests=("tests/e2e/postgres/", "tests/integration/postgres/"),
        unread=(*PROSE, *TOOLS, *PURE, *DOOR, *_others("e2e", "integration")),
        programs=("postgresql",),
    ),
    Part(
        "chain",
        "faults of the whole chain, programs killed at each write, Redis",
        "a change in `src`, in e2e or integration tests",
        tests=(
            "tests/e2e/whole/test_faults.py",
            "tests/e2e/whole/test_neighbours.py",
            "tests/e2e/whole/test_replicas.py",
            "tests/e2e/binding/test_faults.py",
            "tests/e2e/kbind/test_bind_killed.py",
            "tests/e2e/kbind/test_migrate.py",
            "tests/e2e/konnector/test_killed.py",
            "tests/e2e/provider/test_clearing.py",
            "tests/integration/portal/test_killed.py",
            "tests/integration/portal/test_redis.py",
        ),
        unread=(*PROSE, *TOOLS, *PURE, *_others("e2e", "integration")),
        programs=("redis-server",),
    ),
    Part(
        "bombs",
        "bombs, servers that are none, a seed of the operator twice",
        "a change in `src`, in unit or integration tests",
        tests=(
            "tests/unit/cli/test_bad_servers.py",
            "tests/unit/sandbox/test_bombs.py",
            "tests/integration/sim/",
        ),
        unread=(*PROSE, *TOOLS, "tests/browser/", "tests/contract/", "tests/e2e/"),
    ),
    Part(
        "apiserver",
        "contracts, what depends on a real kube-apiserver, one e2e row for each edge",
        "a change in `src`, `tests/contract` or `tests/e2e`",
        tests=_APISERVER,
        tiers=frozenset({"envtest"}),
        unread=_NO_APISERVER,
        programs=("kubernetes", "kubectl", "helm", "pgbouncer"),
    ),
    Part(
        "cluster",
        "releases of the chart and a tutorial on clusters with nodes",
        "a change in `src`, `docs`, `charts`, `config` or `hack`",
        tests=("tests/cluster/",),
        tiers=frozenset({"cluster"}),
        unread=(*PURE, *_others("cluster"), "bench/"),
        programs=("nodes", "helm", "postgresql"),
    ),
    Part(
        "oldest",
        "the rows of `apiserver` on Kubernetes 1.20",
        "none: in the whole suite alone",
        tests=_APISERVER,
        tiers=frozenset({"envtest"}),
        unread=_NO_APISERVER,
        programs=("oldest", "kubectl", "helm"),
        repeats="apiserver",
    ),
)
"""All parts, in the order in which they run."""

SIMULATED = (
    "src/fairlead/runtime/", "src/fairlead/client/", "src/fairlead/*/controllers/",
    "src/fairlead/konnector/sync/", "src/fairlead/konnector/v2/", "src/fairlead/binding/",
    "tests/sim/",
)  # fmt: skip
"""Files after whose change the simulation runs its longer list of seeds."""


def part_of(path: str, tier: str, *, equal: bool) -> str:
    """The part of a test; "" for one that has none, as those of ``make test``.

    Args:
        path: of its module.
        tier: the tier of the test.
        equal: whether it is a row that is declared equal to one of ``make test``.
    """
    for part in PARTS:
        if (
            part.tests
            and tier in part.tiers
            and part.equal is equal
            and path.startswith(part.tests)
        ):
            return part.name
    return ""
