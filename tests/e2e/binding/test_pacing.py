"""Bindings that change for ever, and what that leaves of their workloads and their neighbours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.support.binding import Team, bind, condition, mounted, running
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client, Conflict


BURST = 10
"""Changes of a workload that come at once."""


@pytest.fixture
async def team(admin: Client) -> AsyncIterator[Team]:
    team = await Team.arrive(admin)
    async with running(admin):
        yield team


@pytest.fixture
async def neighbour(admin: Client, team: Team) -> Team:
    """Another namespace of the same controllers."""
    return await Team.arrive(admin)


def paced(body: JSON) -> bool:
    return condition(body, "InjectionReady").get("reason") == "WritesPaced"


@contextlib.asynccontextmanager
async def controlled(team: Team, names: Sequence[str]) -> AsyncIterator[None]:
    """A Deployment controller, as far as it says which generation it has seen."""
    over = asyncio.Event()

    async def observe() -> None:
        while not over.is_set():
            for name in names:
                found = await team.admin.get(DEPLOYMENTS, name, team.namespace)
                status = {"status": {"observedGeneration": found.meta.generation}}
                await team.patch(DEPLOYMENTS, name, status, subresource="status")

    task = asyncio.create_task(observe())
    try:
        yield
    finally:
        over.set()
        await task


async def one_paced(team: Team, names: Sequence[str]) -> JSON:
    """The binding that is paced first: of two that depend on one another the other may rest."""
    async with asyncio.timeout(SECONDS):
        while True:
            for name in names:
                found = await team.admin.get(SERVICEBINDINGS, name, team.namespace)
                if paced(found.to_dict()):
                    return found.to_dict()
            await asyncio.sleep(0.02)


async def generated(team: Team) -> list[str]:
    """The Secrets that bindings have made."""
    listed = (await team.admin.list(SECRETS, team.namespace)).items
    return [one.meta.name for one in listed if one.meta.controller() is not None]


async def workload(team: Team, name: str, field: str) -> None:
    """A Deployment that is also a service, and offers a field of itself."""
    await team.deployment(name)
    annotations = {"service.binding/type": "self", "service.binding/x": f"path={{{field}}}"}
    await team.patch(DEPLOYMENTS, name, {"metadata": {"annotations": annotations}})


def of(name: str, *, reads: str) -> JSON:
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return bind(workload={**kind, "name": name}, service={**kind, "name": reads})


@pytest.mark.parametrize(
    ("field", "pairs"),
    [
        pytest.param(".metadata.generation", [("web", "web")], id="its-own-generation"),
        pytest.param(".metadata.resourceVersion", [("web", "web")], id="its-own-version"),
        pytest.param(".metadata.generation", [("a", "b"), ("b", "a")], id="each-others"),
    ],
)
async def test_what_depends_on_its_own_write_comes_to_a_slow_pace(
    team: Team, neighbour: Team, field: str, pairs: list[tuple[str, str]]
) -> None:
    for name in sorted({name for name, _ in pairs}):
        await workload(team, name, field)
    async with controlled(team, [name for name, _ in pairs]):
        await _paced(team, neighbour, pairs)


async def _paced(team: Team, neighbour: Team, pairs: list[tuple[str, str]]) -> None:
    for name, reads in pairs:
        await team.create(SERVICEBINDINGS, name, spec=of(name, reads=reads))
    said = await one_paced(team, [name for name, _ in pairs])
    assert "metadata.generation" in condition(said, "InjectionReady")["message"]
    assert condition(said, "Ready")["status"] == "False"
    # A neighbour is bound, and what was made meanwhile is as much as the burst.
    await neighbour.deployment("web")
    await neighbour.create(SERVICEBINDINGS, "web", spec=bind())
    await neighbour.says("web", "Ready", "True", "ApplicationsBound")
    for name, _ in pairs:
        found = await team.admin.get(DEPLOYMENTS, name, team.namespace)
        assert found.meta.generation <= BURST + 4
    assert len(await generated(team)) <= (BURST + 4) * len(pairs)
    # Nobody reads the former ones, for nothing is made of these workloads.
    async with asyncio.timeout(SECONDS):
        while len(await generated(team)) > 2 * len(pairs):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    # Whoever goes has nothing to wait for.
    for name, _ in pairs:
        await team.delete(SERVICEBINDINGS, name)
        await team.when(SERVICEBINDINGS, name, lambda body: not body)
        assert not mounted((await team.admin.get(DEPLOYMENTS, name, team.namespace)).to_dict())


async def test_others_who_write_at_the_same_time_are_no_fight(team: Team) -> None:
    """Each of them reads, changes and puts: the server refuses whoever comes second."""
    await team.deployment("web")
    over = asyncio.Event()

    async def insist(number: int) -> None:
        while not over.is_set():
            found = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
            body: dict[str, Any] = found.to_dict()
            annotations = body["metadata"].setdefault("annotations", {})
            annotations[f"writer-{number}"] = str(int(annotations.get(f"writer-{number}", 0)) + 1)
            try:
                await team.admin.update(DEPLOYMENTS, body)
            except Conflict:
                await asyncio.sleep(0)

    writers = [asyncio.create_task(insist(number)) for number in range(6)]
    try:
        await team.create(SERVICEBINDINGS, "db", spec=bind())
        await team.says("db", "Ready", "True", "ApplicationsBound")
    finally:
        over.set()
        await asyncio.gather(*writers)
