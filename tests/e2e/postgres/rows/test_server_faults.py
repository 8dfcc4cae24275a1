"""Servers that restart, fail over, fill up, hang at any statement and talk without end."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from tests.support import hostile
from tests.support.hostile import Babbling, Stalling
from tests.support.postgres import server_profile
from tests.support.servers import LOG
from tests.support.standby import Standby
from tests.support.team import Administrator, Team

from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections import session


newest = pytest.mark.parametrize("postgres", [18], indirect=True)
superuser = pytest.mark.parametrize("administrator", ["superuser"], indirect=True)


@asynccontextmanager
async def at(team: Team, postgres: EmbeddedPostgres) -> AsyncIterator[Team]:
    """The same team at a server that only one test has."""
    power = "SUPERUSER" if team.superuser else "CREATEROLE"
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(), autocommit=True
    ) as connection:
        await connection.execute(f"CREATE ROLE chief LOGIN {power} PASSWORD 'chief'")
    chief = Administrator("chief", "chief", superuser=team.superuser)
    there = Team(team.client, postgres, chief)
    await there.arrive()
    yield there
    await there.leave(server=False)


async def test_sessions_that_were_ended_are_made_anew(team: Team) -> None:
    """Who is just at work with one has to tell that it broke off, and is ready again at once."""
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    ended = await team.sql(
        "SELECT pg_catalog.pg_terminate_backend(pid, 5000) FROM pg_catalog.pg_stat_activity"
        " WHERE application_name = 'fairlead-postgres'"
    )
    assert ended
    await team.cycles(2)
    await team.ready(name)
    assert await team.can_login(name, (await team.secret(name))["password"])


async def test_a_server_that_was_restarted_is_worked_on_as_before(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    await team.postgres.stop_server()
    await team.patch(name, grants=[team.grant("CONNECT", "TEMPORARY")])
    await team.fails(name, "ConnectionFailed")
    await team.postgres.start_server()
    await team.ready(name)
    assert (f"database {team.database}", "TEMPORARY") in await team.privileges(name)
    assert await team.can_login(name, (await team.secret(name))["password"])


@newest
async def test_a_standby_takes_over(team: Team) -> None:
    async with (
        EmbeddedPostgres(settings=LOG) as primary,
        at(team, primary) as there,
        Standby(primary) as standby,
    ):
        await there.offer(f"both-{there.id}", host=f"{primary.host},{standby.host}")
        await there.offer(f"second-{there.id}", host=standby.host)
        name = await there.create(
            connection={"serverRef": {"name": f"both-{there.id}"}},
            grants=[there.grant("CONNECT")],
        )
        await there.ready(name)
        lonely = await there.create(
            "lonely", connection={"serverRef": {"name": f"second-{there.id}"}}
        )
        assert "read-only" in await there.fails(lonely, "ConnectionFailed")
        await standby.catch_up()
        await primary.stop_server()
        await there.patch(name, grants=[there.grant("CONNECT", "TEMPORARY")])
        await there.fails(name, "ConnectionFailed")
        await standby.promote()
        await there.ready(name)
        await there.ready(lonely)
        there.postgres = standby
        found = await there.privileges(name)
        assert (f"database {there.database}", "TEMPORARY") in found
        assert await there.can_login(name, (await there.secret(name))["password"])
        for one in (name, lonely):
            await there.removed(one)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for servers on a disk that is soon full."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=120m,mode=0755", "tmpfs", folder]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("only root may mount a small disk")
        monkeypatch.setattr(tempfile, "tempdir", folder)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@newest
async def test_a_disk_that_is_full(team: Team, small_disk: Path) -> None:
    """What can be done is done, the rest is told, and gets done when there is room."""
    async with EmbeddedPostgres(settings=LOG) as postgres, at(team, postgres) as there:
        tables = "SELECT format('CREATE TABLE s.t%s (id int)', g) FROM generate_series(1, 1500) g"
        await there.build("CREATE SCHEMA s")
        await there.build(*(text for (text,) in await there.sql(tables)))
        await there.sql("CHECKPOINT")
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        name = await there.create(grants=[there.grant("CONNECT", "SELECT", schema="s")])
        message = await there.fails(name, "DiskFull")
        assert "the disk of the server is full" in message
        ballast.unlink()
        await there.ready(name)
        granted = await there.privileges(name)
        assert sum(privilege == "SELECT" for _, privilege in granted) == 1500
        await there.removed(name)


_PLACES = (1, 2, 3, 5, 8, 12, 17, 23, 30, 38)
"""Statements at which ways hang; ``tests/integration/postgres/test_stalls.py`` has all of them."""


@pytest.mark.extended
@newest
@pytest.mark.parametrize("answerless", [False, True], ids=["unheard", "unanswered"])
async def test_a_server_that_hangs_at_some_statement(
    team: Team, monkeypatch: pytest.MonkeyPatch, answerless: bool
) -> None:
    """Of an access' making and of its removal; each access has a way that hangs at another."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 2.0)
    async with AsyncExitStack() as stack:
        proxies, names = [], []
        for place in _PLACES:
            proxy = Stalling(team.postgres, place, answerless=answerless)
            proxies.append(await stack.enter_async_context(proxy))
            names.append(await by_way_of(team, proxy, f"a{place}"))
        await asyncio.gather(*map(team.ready, names))
        for name in names:
            assert ("t", "SELECT") in await team.privileges(name, f"d_{name}")
            assert await team.can_login(name, (await team.secret(name))["password"])
        assert all(proxy.reached.is_set() for proxy in proxies)
        for proxy, place in zip(proxies, _PLACES, strict=True):
            proxy.arm(place)
        for name in names:
            await team.delete(name)
        await asyncio.gather(*map(team.gone, names))
        for name in names:
            assert not await team.role_exists(name)


async def by_way_of(team: Team, proxy: Stalling, suffix: str) -> str:
    """An access with a maintenance database of its own.

    In a common one who hangs keeps the lock that all need.
    """
    name = team.name(suffix)
    database = await team.create_database(f"d_{name}")
    await team.build("CREATE TABLE t (id int)", database=database)
    profile = server_profile(name, team.postgres, port=proxy.port, database=database)
    profile["spec"]["credentialsSecretRef"]["name"] = team.server
    await team.client.create(POSTGRESSERVERS, profile)
    grants = [team.grant("CONNECT", "SELECT", database=database)]
    return await team.create(suffix, connection={"serverRef": {"name": name}}, grants=grants)


@pytest.mark.extended
@newest
@superuser
async def test_servers_that_talk_without_end_delay_nobody_else(team: Team) -> None:
    async with AsyncExitStack() as stack:
        talkers = []
        for number, flood in enumerate((hostile.rows, hostile.one_row, hostile.notices)):
            talker = await stack.enter_async_context(Babbling(flood))
            connection = team.directly(port=talker.port)
            talkers.append(await team.create(f"talker{number}", connection=connection))
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        for talker_ in talkers:
            await team.fails(talker_, "AnswerTooLarge")
        await team.removed(name)
        for talker_ in talkers:
            await team.abandon(talker_)
            await team.delete(talker_)
            await team.gone(talker_)
