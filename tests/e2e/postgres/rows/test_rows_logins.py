"""Rows 1 to 8: roles, their names and their passwords."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import unquote, urlsplit

import pytest
from structlog.testing import capture_logs
from tests.support.team import Team
from tests.support.waiting import eventually

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import SECRETS
from fairlead.client import Invalid
from fairlead.postgres.database.connections import startup
from fairlead.postgres.database.plans import password as passwords


async def test_row_01_the_password_of_the_secret_logs_in_and_no_other(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    first = (await team.secret(name))["password"]
    async with team.login(name) as session:
        cursor = await session.execute("SELECT current_user::text")
        assert await cursor.fetchall() == [(name,)]
    assert not await team.can_login(name, f'"{first}"')
    assert not await team.can_login(name, "wrong")
    await team.client.delete(SECRETS, f"{name}-login", team.namespace)
    await team.logs_in(name, first, False)
    second = (await team.secret(name))["password"]
    assert second != first
    await team.logs_in(name, second)


async def test_row_02_no_clear_text_anywhere(
    team: Team, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the statement with the password fails, which a server logs."""
    monkeypatch.setitem(startup.OPTIONS, "lock_timeout", "100ms")
    caplog.set_level(logging.DEBUG)
    started = team.postgres.logged()
    seen: list[str] = []

    async def watch() -> None:
        query = "SELECT string_agg(query, ';') FROM pg_catalog.pg_stat_activity"
        while True:
            seen.append(str(await team.sql(query, database="postgres")))

    with capture_logs() as told:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            name = await team.create(grants=[team.grant("CONNECT")])
            await team.ready(name)
            secrets = [(await team.secret(name))["password"], "an edited Passw0rd"]
            begun = team.postgres.logged()
            async with team.locked("pg_catalog.pg_authid", "SHARE"):
                await team.edit_secret(name, password=secrets[1])

                async def refused() -> bool:
                    return "due to lock timeout" in team.postgres.log(begun)

                await eventually(refused)
            await team.logs_in(name, secrets[1])
            await team.ready(name)
            watching.cancel()
    places = {
        "the server's log": team.postgres.log(started),
        "pg_stat_activity": str(seen),
        "the operator's log": str(told) + caplog.text,
        "events": str(await team.events(name)),
        "the object": str(
            (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
        ),
    }
    # A superuser's session keeps its statements out of the log.
    assert team.superuser or "ALTER ROLE" in places["the server's log"]
    for place, text in places.items():
        assert not any(secret in text for secret in secrets), place


async def test_row_03_any_password_that_a_user_sets(team: Team) -> None:
    verifier = passwords.verifier("hunter2")
    wanted = [
        "it's",
        "back\\slash",
        'quo"te',
        "per%cent%41",
        "at@host",
        "co:lon",
        " blanks ",
        "é",
        "\u2163 or IV",
        "x" * 1000,
        verifier,
        "md5" + "0123456789abcdef" * 2,
    ]
    names = [await team.create(f"app{number}") for number in range(len(wanted))]
    await asyncio.gather(*map(team.ready, names))
    for name, password in zip(names, wanted, strict=True):
        await team.edit_secret(name, password=password)
    await asyncio.gather(*map(team.logs_in, names, wanted))
    assert not await team.can_login(names[wanted.index(verifier)], "hunter2")

    async def parses(name: str, password: str) -> None:
        uri = urlsplit((await team.secret(name))["uri"])
        assert (unquote(uri.username or ""), unquote(uri.password or "")) == (name, password)

    await asyncio.gather(*map(team.ready, names))
    await asyncio.gather(*map(parses, names, wanted))


async def test_row_04_old_rules_for_strings(team: Team) -> None:
    await team.sql("ALTER DATABASE {d} SET standard_conforming_strings = off", d=team.database)
    await team.offer(f"old-{team.id}", database=team.database)
    name = await team.create(connection={"serverRef": {"name": f"old-{team.id}"}})
    await team.ready(name)
    await team.edit_secret(name, password="back\\slash'")
    await team.logs_in(name, "back\\slash'")


async def test_row_05_user_names_are_taken_as_they_are_or_refused(team: Team) -> None:
    good = [
        f'a"b {team.id}',
        f"Foo{team.id}",
        f"user name {team.id}",
        f"back\\slash {team.id}",
        f"{team.id:x<63}",
        f"{team.id}{'é' * 27}",
    ]
    bad = [f"{team.id:x<64}", "é" * 32, "a\0b", "a\nb", f" {team.id}", f"{team.id}\u200b"]
    names = [await team.create(f"good{n}", username=name) for n, name in enumerate(good)]
    refused = []
    for number, username in enumerate(bad):
        try:
            refused.append(await team.create(f"bad{number}", username=username))
        except Invalid:
            continue
    assert refused
    await asyncio.gather(*map(team.ready, names))
    await asyncio.gather(*(team.fails(name, "NameInvalid") for name in refused))
    for name, username in zip(names, good, strict=True):
        assert await team.can_login(username, (await team.secret(name))["password"])
    assert not await team.role_exists("a")
    made = {row[0] for row in await team.roles() if team.id in row[0] or "é" in row[0]}
    assert made - {team.database} == set(good)
    assert {f"{name}-login" for name in names} == set(await team.secrets())
    for name in names:
        await team.delete(name)
    await asyncio.gather(*map(team.gone, names))
    assert not any([await team.role_exists(username) for username in good])


async def test_row_06_roles_of_others_are_refused_and_left_alone(team: Team) -> None:
    others = {
        f"group{team.id}": "NOLOGIN",
        f"copying{team.id}": "LOGIN REPLICATION",
        f"mighty{team.id}": "LOGIN SUPERUSER",
        f"maker{team.id}": "LOGIN CREATEROLE",
        f"hand{team.id}": "LOGIN PASSWORD 'mine'",
    }
    for role, attributes in others.items():
        await team.sql(f"CREATE ROLE {{r}} {attributes}", r=role, database="postgres")
    others |= dict.fromkeys(("postgres", "operator", "pg_monitor", "pg_read_all_data"), "")
    before = [row for row in await team.roles() if row[0] in others]
    names = [
        await team.create(f"app{number}", username=role) for number, role in enumerate(others)
    ]
    told = await asyncio.gather(*(team.fails(name, "") for name in names))
    assert len(told) == 9
    for name in names:
        body = (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
        reasons = {one["reason"] for one in body["status"]["conditions"]}
        assert reasons <= {"UserReserved", "AdoptionRefused"}
    assert await team.secrets() == []
    for name in names:
        await team.delete(name)
    await asyncio.gather(*map(team.gone, names))
    assert [row for row in await team.roles() if row[0] in others] == before
    assert await team.can_login(f"hand{team.id}", "mine")


@pytest.mark.differs("administrator")
async def test_row_07_the_steady_state_writes_nothing(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)", "CREATE FUNCTION f() RETURNS int RETURN 1")
    grants = [
        team.grant("CONNECT", "TEMPORARY", "USAGE", "CREATE", "SELECT", "INSERT", "EXECUTE"),
        team.grant("CONNECT", database="postgres"),
    ]
    if not team.superuser:
        grants.pop()
    names = [await team.create(f"app{number}", grants=grants) for number in range(3)]
    await asyncio.gather(*map(team.ready, names))
    await team.cycles(1)

    async def versions() -> list[str]:
        found = [
            await team.client.get(POSTGRESACCESSES, name, team.namespace) for name in names
        ] + [await team.client.get(SECRETS, f"{name}-login", team.namespace) for name in names]
        return [one.meta.resource_version for one in found]

    before = await versions()
    async with team.unwritten():
        await team.cycles()
    assert await versions() == before


@pytest.mark.parametrize("by", ["an administrator", "itself"])
async def test_row_08_a_password_that_others_set_is_healed_once(team: Team, by: str) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    password = (await team.secret(name))["password"]
    if by == "itself":
        async with team.login(name) as session:
            await session.execute("ALTER ROLE CURRENT_USER PASSWORD 'other'")
    else:
        await team.sql("ALTER ROLE {r} PASSWORD 'other'", r=name)
    await team.healed(lambda: team.can_login(name, password))
    await team.ready(name)
    assert not await team.can_login(name, "other")
    await team.stands_still()
