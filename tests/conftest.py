"""The tiers of the suite, and control planes and servers that all tests of a worker share.

Each of those is started once, when a test first asks for it.
"""

from __future__ import annotations

import gc
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator, Iterator, Mapping

import pytest
import uvloop
from hack.landing.table import TENTHS
from hypothesis import HealthCheck, settings
from tests.support import tiers
from tests.support.planes import (
    ControlPlane,
    LoopThread,
    RealControlPlane,
    SandboxControlPlane,
)
from tests.support.realplane import RealPlane, minor_version, missing_assets
from tests.support.scratch import use_memory
from tests.support.servers import Servers

from fairlead.garbage import relax


SUITE = pytest.StashKey[list[pytest.Item]]()
"""All tests of the files that pytest was given, of whatever tier."""


# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("fairlead", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fairlead")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tenths",
        default=range(TENTHS),
        type=lambda text: [int(digit) for digit in text],
        metavar="DIGITS",
        help="of the rows declared equal, run these tenths: 3, or 0123456789 for all",
    )


def pytest_configure(config: pytest.Config) -> None:
    use_memory()
    tiers.declare(config)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Mixing())


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Before pytest selects by markers, and before xdist looks for groups."""
    if absent := tiers.assign(items, config.getoption("tenths")):
        config.hook.pytest_deselected(items=absent)
    if 0 < minor_version() < tiers.OLD:
        tiers.expect_former(items)
    config.stash[SUITE] = [*items]
    yield


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have the garbage collector look at what tests make, and not at the tests themselves."""
    gc.collect()
    gc.freeze()
    relax()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for a reason that is none."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        told = tiers.objection(report.longrepr[2], complete=bool(os.environ.get(tiers.COMPLETE)))
        if told:
            report.outcome, report.longrepr = "failed", told
    return report


class _Mixing:
    """After pytest and its plugins have their order."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        tiers.mix(items)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Tests run on the loop that the programs run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def plane_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def real_programs() -> None:
    """What a real control plane consists of; who asks for it belongs to ``make envtest``."""
    if reason := missing_assets():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def realplane(plane_thread: LoopThread, real_programs: None) -> Iterator[RealPlane]:
    """The real control plane; tests keep to namespaces and CRDs of their own."""
    plane = RealPlane()
    plane_thread.run(plane.start())
    yield plane
    plane_thread.run(plane.stop())


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """PostgreSQL servers, one of each version."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def sandboxplane(plane_thread: LoopThread) -> Iterator[SandboxControlPlane]:
    """The embedded control plane, shared like the real one."""
    from fairlead_sandbox import Sandbox

    sandbox = Sandbox(name="contract")
    plane_thread.run(sandbox.start())
    yield SandboxControlPlane(sandbox, plane_thread)
    plane_thread.run(sandbox.close())


@pytest.fixture(scope="session", params=["sandbox", tiers.real("real")])
def control_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """Each control plane in turn: the same test must hold on both."""
    if request.param == "real":
        return RealControlPlane(request.getfixturevalue("realplane"))
    plane: ControlPlane = request.getfixturevalue("sandboxplane")
    return plane
