"""A server that hangs at each statement in turn, heard or not, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest
from tests.integration.postgres.conftest import create_database
from tests.support.hostile import Stalling
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    cleanup,
    grant,
    privileges,
    roles,
    run,
    sync,
    wanted,
)

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections import session
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.errors import AccessError


pytestmark = pytest.mark.extended

_LANES = 12
_TRIES = 20
_TOLD = {"TimedOut", "ConnectionFailed", "Locked", "Conflict"}


class Way:
    """An access with a maintenance database of its own, on a way that hangs once."""

    def __init__(
        self, postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, number: int
    ) -> None:
        self.postgres = postgres
        self.endpoint = replace(endpoint, maintenance=database)
        self.database = database
        self.name = f"{database}_{number}"
        self.claim = claim(self.name)

    async def make(self, endpoint: Endpoint) -> None:
        grants = grant(self.database, "CONNECT", "SELECT", "EXECUTE", "CREATE")
        outcome = await sync(endpoint, wanted(self.name, grants, claimed=self.claim))
        for problem in outcome.problems:
            raise problem

    async def change(self, endpoint: Endpoint) -> None:
        """Another password, a privilege less and one more."""
        grants = grant(self.database, "CONNECT", "INSERT", "CREATE")
        access = wanted(self.name, grants, password="another", claimed=self.claim)
        for problem in (await sync(endpoint, access)).problems:
            raise problem

    async def remove(self, endpoint: Endpoint) -> None:
        await cleanup(endpoint, self.name, self.claim, "Cascade")

    async def work(self, step: str, endpoint: Endpoint) -> None:
        done: Callable[[Endpoint], Awaitable[None]] = getattr(self, step)
        await done(endpoint)

    async def again(self, step: str) -> None:
        """Until it is done, by a way that does not hang; whoever was cut off may keep a lock."""
        for _ in range(_TRIES):
            try:
                return await self.work(step, self.endpoint)
            except AccessError as error:
                assert error.reason in _TOLD, error  # noqa: PT017
        raise AssertionError("it was never done")

    async def check(self, step: str) -> None:
        """All is there, and nothing is left."""
        held = await privileges(self.postgres, self.database, self.name)
        tables = {privilege for thing, privilege in held if thing == "t"}
        if step == "remove":
            assert self.name not in {name for name, *_ in await roles(self.postgres)}
            return
        assert tables == ({"SELECT"} if step == "make" else {"INSERT"})
        assert await can_login(self.postgres, self.name, PASSWORD) is (step == "make")
        assert await can_login(self.postgres, self.name, "another") is (step == "change")


@pytest.mark.parametrize(
    ("step", "answerless", "superuser"),
    [
        ("make", False, True),
        ("make", True, False),
        ("change", False, False),
        ("change", True, True),
        ("remove", False, True),
        ("remove", True, False),
    ],
)
async def test_a_server_that_hangs_at_each_statement(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    modest: Endpoint,
    admin: psycopg.AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    answerless: bool,
    superuser: bool,
) -> None:
    """It is given up with a word of ours, and the same work done again brings all in order."""
    # Whoever looks for whom somebody waits asks as often as time allows, and would be counted too.
    monkeypatch.setattr(bounds, "BLOCKED_SECONDS", 3600.0)
    who = endpoint if superuser else modest
    databases = []
    for _ in range(_LANES):
        name = await create_database(admin)
        databases.append(name)
        await run(postgres, "postgres", "ALTER DATABASE {d} OWNER TO {o}", d=name, o=who.username)
        await run(
            postgres, name, "CREATE TABLE t ()", "ALTER TABLE t OWNER TO {o}", o=who.username
        )

    def way(number: int) -> Way:
        return Way(postgres, who, databases[number % _LANES], number)

    async def prepared(one: Way) -> Way:
        if step != "make":
            await one.again("make")
        return one

    first = await prepared(way(0))
    async with Stalling(postgres, 1 << 30) as clear:
        await first.work(step, replace(first.endpoint, port=clear.port))
        count = clear.count
    assert 5 < count < 150

    async def hang(number: int) -> None:
        one = await prepared(way(number))
        async with Stalling(postgres, number, answerless=answerless) as proxy:
            try:
                await one.work(step, replace(one.endpoint, port=proxy.port))
            except AccessError as error:
                assert error.reason in _TOLD, error  # noqa: PT017
            else:
                assert proxy.reached.is_set()
        await one.again(step)
        await one.check(step)

    async def lane(first: int) -> None:
        for number in range(first, count + 1, _LANES):
            await hang(number)

    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.5)
    await asyncio.gather(*(lane(number + 1) for number in range(_LANES)))
