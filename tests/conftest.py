"""Control planes shared by the whole run: each is started once, when a test first asks for it."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from tests.support.planes import (
    ControlPlane,
    LoopThread,
    RealControlPlane,
    SandboxControlPlane,
)
from tests.support.realplane import RealPlane, missing_assets


# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("fairlead", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fairlead")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Tests run on the loop that the programs run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def plane_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def realplane(plane_thread: LoopThread) -> Iterator[RealPlane]:
    """The real control plane; tests keep to namespaces and CRDs of their own."""
    if reason := missing_assets():
        pytest.skip(reason)
    plane = RealPlane()
    plane_thread.run(plane.start())
    yield plane
    plane_thread.run(plane.stop())


@pytest.fixture(scope="session")
def sandboxplane(plane_thread: LoopThread) -> Iterator[SandboxControlPlane]:
    """The embedded control plane, shared like the real one."""
    from fairlead.sandbox import Sandbox

    sandbox = Sandbox(name="contract")
    plane_thread.run(sandbox.start())
    yield SandboxControlPlane(sandbox, plane_thread)
    plane_thread.run(sandbox.close())


@pytest.fixture(scope="session", params=["sandbox", "real"])
def control_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """Each control plane in turn: the same test must hold on both."""
    if request.param == "real":
        return RealControlPlane(request.getfixturevalue("realplane"))
    plane: ControlPlane = request.getfixturevalue("sandboxplane")
    return plane
