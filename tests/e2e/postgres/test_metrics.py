"""What the PostgresAccess operator costs an API server, and what it tells of its servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql
from tests.support import pgworld
from tests.support.planes import ControlPlane
from tests.support.postgres import prepare, running, server_profile
from tests.support.waiting import SECONDS, is_ready, when

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import EVENTS, SECRETS, Resource
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.controllers.access.publication import Publication
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Delta, Metrics


CONNECT = [{"database": "postgres", "privileges": ["CONNECT"]}]


class World(pgworld.World):
    """A namespace, a server and an operator whose numbers are read."""

    def __init__(self, admin: Client, postgres: EmbeddedPostgres, *, is_real: bool) -> None:
        super().__init__(admin, postgres, is_real=is_real)
        self.metrics = Metrics()
        self.owner = f"PostgresServer {self.server}"

    def sample(self, name: str, **labels: str) -> float | None:
        text = self.metrics.render()[0].decode()
        for family in text_string_to_metric_families(text):
            for found in family.samples:
                if found.name == f"fairlead_postgres_{name}" and found.labels == labels:
                    return found.value
        return None

    async def tells(self, name: str, value: float | None, **labels: str) -> None:
        async with asyncio.timeout(SECONDS):
            while self.sample(name, **labels) != value:  # noqa: ASYNC110 - metrics tell nobody
                await asyncio.sleep(0.02)

    def requests(self) -> Counter[str]:
        """Requests so far by method and code."""
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(self.metrics.render()[0].decode()):
            for one in family.samples:
                if one.name == "rest_client_requests_total":
                    found[f"{one.labels['method']} {one.labels['code']}"] += int(one.value)
        return found

    async def asked(self, before: Counter[str], expected: dict[str, int]) -> None:
        """The operator asked for this since, no more; an answer counts after its effect."""
        async with asyncio.timeout(SECONDS):
            while (self.requests() - before).total() < sum(expected.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert self.requests() - before == expected


@pytest.fixture
async def world(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with arrived(control_plane, postgres) as made:
        yield made


@asynccontextmanager
async def arrived(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = World(admin, postgres, is_real=control_plane.is_real)
        await made.arrive()
        options = PostgresOptions(excluded_users=("excluded",), synced_interval=0.5)
        async with running(admin, options, made.metrics):
            # All accesses of a server that turns are looked at again.
            await when(admin, POSTGRESSERVERS, made.server, until=is_ready)
            yield made
            await made.leave()


async def test_an_access_made_costs_four_requests_and_a_change_of_it_one(world: World) -> None:
    first = await world.create("first")
    await world.ready(first)
    await told(world, first)
    await cycles(world, 1)  # The last answer is counted by then.
    before = world.requests()
    name = await world.create("second")
    await world.ready(name)
    await told(world, name)
    # The finalizer, the Secret, that it is ready, and the Event of that.
    await world.asked(before, {"PATCH 200": 2, "POST 201": 2})

    before = world.requests()
    await world.admin.merge_patch(
        POSTGRESACCESSES, name, world.namespace, {"spec": {"grants": CONNECT}}
    )
    await world.wait(name, lambda body: bool(body["status"].get("appliedGrants")))
    # The Secret is read too: its password is nowhere else.
    await world.asked(before, {"PATCH 200": 1, "GET 200": 1})


async def test_a_watch_that_tells_of_the_secret_before_its_answer_costs_no_pass(
    control_plane: ControlPlane, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asyncio.Event()
    seen.set()
    create, is_news = Client.create, Publication.is_news

    async def late(client: Client, resource: Resource, *args: Any, **kwargs: Any) -> Object:
        stored = await create(client, resource, *args, **kwargs)
        if resource is SECRETS:
            await asyncio.wait_for(seen.wait(), SECONDS)
        return stored

    def overtaking(publication: Publication, delta: Delta) -> bool:
        try:
            return is_news(publication, delta)
        finally:
            seen.set()

    monkeypatch.setattr(Client, "create", late)
    monkeypatch.setattr(Publication, "is_news", overtaking)
    async with arrived(control_plane, postgres) as world:
        # The first one of all makes the installation's key too.
        first = await world.create("first")
        await world.ready(first)
        await told(world, first)
        await cycles(world, 1)  # The last answer is counted by then.
        seen.clear()
        before = world.requests()
        name = await world.create("app")
        await world.ready(name)
        await told(world, name)
        assert seen.is_set()
        # A pass that followed at once would read the Secret.
        await cycles(world, 1)
        await world.asked(before, {"PATCH 200": 2, "POST 201": 2})


async def told(world: World, name: str) -> None:
    """Wait for the Event, which is written besides."""

    async def is_told() -> bool:
        events = (await world.admin.list(EVENTS, world.namespace)).items
        return any(event.to_dict()["involvedObject"]["name"] == name for event in events)

    async with asyncio.timeout(SECONDS):
        while not await is_told():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_scrape_tells_of_the_roles_of_a_server_and_of_what_was_healed(
    world: World,
) -> None:
    name = await world.create("app")
    await world.ready(name)
    await world.tells("roles", 1, owner=world.owner)
    await world.tells("changes_pending", 0, owner=world.owner)
    assert world.sample("reachable", owner=world.owner) == 1
    await cycles(world, 1)
    assert world.sample("drift_healed_total", owner=world.owner) == 0
    statement = sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(name))
    async with await psycopg.AsyncConnection.connect(
        world.postgres.dsn(), autocommit=True
    ) as connection:
        await connection.execute(statement)
    await world.tells("drift_healed_total", 1, owner=world.owner)
    assert (world.sample("cycle_seconds_count", owner=world.owner) or 0) > 0


async def test_a_cycle_without_differences_takes_no_login_and_no_request(world: World) -> None:
    name = await world.create("app", grants=CONNECT)
    await world.ready(name)
    await told(world, name)
    await cycles(world, 2)
    logins, requests = world.sample("logins_total", owner=world.owner), world.requests()
    statements = world.sample("statements_total", owner=world.owner) or 0
    await cycles(world, 2)
    assert world.sample("logins_total", owner=world.owner) == logins
    assert world.requests() == requests
    # Six for the server and three for each database at most; the PostgresServer is looked at too.
    assert (world.sample("statements_total", owner=world.owner) or 0) - statements <= 2 * 9 + 9


async def cycles(world: World, more: int) -> None:
    begun = world.sample("cycle_seconds_count", owner=world.owner) or 0
    async with asyncio.timeout(SECONDS):
        while (  # noqa: ASYNC110
            world.sample("cycle_seconds_count", owner=world.owner) or 0
        ) < begun + more:
            await asyncio.sleep(0.02)


async def test_refusals_are_counted_by_reason_and_owner(world: World) -> None:
    name = await world.create("taken", username="postgres", generatedSecret="a")
    other = await world.create("excluded", username="excluded", generatedSecret="b")
    lost = await world.create(
        "lost", connection={"serverRef": {"name": "nowhere"}}, generatedSecret="c"
    )
    await world.tells("refused", 1, owner=world.owner, reason="UserReserved")
    await world.tells("refused", 1, owner=world.owner, reason="UserExcluded")
    await world.wait(lost, lambda body: "nowhere" in body["status"].get("lastLog", ""))
    ours = [
        line
        for line in world.metrics.render()[0].decode().splitlines()
        if line.startswith("fairlead_postgres")
    ]
    # Anybody may name servers that there are not, and hosts.
    assert not any("nowhere" in line or world.postgres.host in line for line in ours)
    for gone in (name, other):
        await world.admin.delete(POSTGRESACCESSES, gone, world.namespace)
    await world.tells("refused", None, owner=world.owner, reason="UserReserved")
    await world.tells("refused", None, owner=world.owner, reason="UserExcluded")


async def test_a_server_away_is_told_as_one_that_is_not_reachable(world: World) -> None:
    away = server_profile(f"away-{world.id}", world.postgres, port=1)
    away["spec"]["credentialsSecretRef"]["name"] = world.server
    await world.admin.create(POSTGRESSERVERS, away)
    await world.tells("reachable", 0, owner=f"PostgresServer away-{world.id}")
    assert world.sample("reachable", owner=world.owner) in {None, 1}
    await world.admin.delete(POSTGRESSERVERS, f"away-{world.id}")
    await world.tells("reachable", None, owner=f"PostgresServer away-{world.id}")
