"""Two logins in turn: rotations in which no login fails, and all that can go wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.support.team import Team
from tests.support.waiting import condition, eventually

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import (
    POSTGRESACCESSES,
    ROTATE_ANNOTATION,
)
from fairlead.api.resource import SECRETS
from fairlead.client import NotFound


MADE = "SELECT tablename::text FROM pg_catalog.pg_tables WHERE tablename LIKE 'made by%'"
OWNERS = "SELECT DISTINCT tableowner::text FROM pg_tables WHERE tablename LIKE 'made by%'"
TURNS: JSON = {"rotation": "TwoLogins", "gracePeriod": "1h"}


def logins(body: JSON) -> dict[str, str]:
    """What the status says of each login: "current", or when it ends."""
    return {
        one["name"]: "current" if one.get("current") else one.get("endsAt", "")
        for one in body.get("status", {}).get("logins", [])
    }


def is_current(login: str) -> Any:
    def until(body: JSON) -> bool:
        ready = condition(body, "Ready").get("status") == "True"
        fresh = body["status"]["observedGeneration"] == body["metadata"]["generation"]
        return ready and fresh and logins(body).get(login) == "current"

    return until


async def rotate(team: Team, name: str, value: str, login: str) -> JSON:
    body = {"metadata": {"annotations": {ROTATE_ANNOTATION: value}}}
    await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, body)
    return await team.wait(name, is_current(login))


async def can_login(team: Team, role: str) -> bool:
    query = (
        "SELECT rolcanlogin AND COALESCE(rolvaliduntil > now(), true)"
        " FROM pg_catalog.pg_roles WHERE rolname = %s"
    )
    rows = await team.sql(query, values=(role,), database="postgres")
    return bool(rows and rows[0][0])


class App:
    """An application that reads its Secret, logs in and writes, over and over."""

    def __init__(self, team: Team, name: str) -> None:
        self._team = team
        self._name = name
        self._secret: dict[str, str] = {}
        self.failures: list[str] = []
        self.seen: list[str] = []

    async def once(self) -> None:
        team = self._team
        with contextlib.suppress(NotFound):
            found = await team.secret(self._name)
            # Somebody who empties it asks for another: until then the one before counts.
            self._secret = found if found["password"] else self._secret
        secret = self._secret
        try:
            async with await psycopg.AsyncConnection.connect(
                secret["uri"].rpartition("/")[0] + f"/{team.database}", autocommit=True
            ) as session:
                cursor = await session.execute("SELECT current_user::text")
                assert await cursor.fetchall() == [(self._name,)]
                mine = f"made by {secret['username']}"
                table = sql.Identifier(mine)
                await session.execute(
                    sql.SQL("CREATE TABLE IF NOT EXISTS {} (n int)").format(table)
                )
                cursor = await session.execute(MADE)
                # What the other login has made as well: to write, and to change.
                for (other,) in await cursor.fetchall():
                    one = sql.Identifier(other)
                    await session.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(one))
                    await session.execute(
                        sql.SQL("ALTER TABLE {} ALTER n SET DEFAULT 1").format(one)
                    )
        except psycopg.Error as error:
            self.failures.append(f"{secret['username']}: {error}")
        if secret["username"] not in self.seen[-1:]:
            self.seen.append(secret["username"])

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        stop = asyncio.Event()

        async def run() -> None:
            while not stop.is_set():
                await self.once()

        async with asyncio.TaskGroup() as group:
            group.create_task(run())
            yield
            stop.set()


async def made(team: Team, **spec: Any) -> str:
    policy = spec.pop("passwordPolicy", TURNS)
    name = await team.create(
        grants=[team.grant("CONNECT", "CREATE", "USAGE")], passwordPolicy=policy, **spec
    )
    await team.ready(name)
    return name


async def test_row_48_no_login_fails_while_they_take_turns(team: Team) -> None:
    name = await made(team)
    first, second = f"{name}_a", f"{name}_b"
    app = App(team, name)
    async with app.at_work():
        body = await team.ready(name)
        assert logins(body) == {first: "current"}
        secrets = [await team.secret(name)]
        body = await rotate(team, name, "1", second)
        assert set(logins(body)) == {first, second}
        assert logins(body)[first].endswith("Z")
        secrets.append(await team.secret(name))
        await team.client.delete(SECRETS, f"{name}-login", team.namespace)
        await team.wait(name, is_current(first))
        secrets.append(await team.secret(name))
        await team.edit_secret(name, password="")
        await team.wait(name, is_current(second))
        secrets.append(await team.secret(name))
    await app.once()
    assert app.failures == []
    assert (app.seen[0], app.seen[-1]) == (first, second)
    assert [one["username"] for one in secrets] == [first, second, first, second]
    assert len({one["password"] for one in secrets}) == 4
    # The one before still logs in; the one before that has given its place to it.
    assert await team.can_login(first, secrets[2]["password"])
    assert not await team.can_login(first, secrets[0]["password"])
    assert not await can_login(team, name)
    assert await team.sql(OWNERS) == [(name,)]


async def test_row_49_the_former_login_ends_on_time_and_by_the_server_itself(team: Team) -> None:
    name = await made(team, passwordPolicy={"rotation": "TwoLogins", "gracePeriod": "3s"})
    first, second = f"{name}_a", f"{name}_b"
    old = (await team.secret(name))["password"]
    await rotate(team, name, "1", second)
    assert await team.can_login(first, old)
    ((until,),) = await team.sql(
        "SELECT rolvaliduntil <= now() + interval '4 s' FROM pg_catalog.pg_roles"
        " WHERE rolname = %s",
        values=(first,),
        database="postgres",
    )
    assert until
    await team.logs_in(first, old, False)

    async def fenced() -> bool:
        rows = await team.sql(
            "SELECT rolcanlogin FROM pg_catalog.pg_roles WHERE rolname = %s",
            values=(first,),
            database="postgres",
        )
        return rows == [(False,)]

    await eventually(fenced)
    await team.ready(name)
    await team.stands_still()
    # Its turn comes again.
    await rotate(team, name, "2", first)
    assert await team.can_login(first, (await team.secret(name))["password"])


async def test_row_50_what_others_change_of_a_login_is_healed(team: Team) -> None:
    name = await made(team, attributes={"connectionLimit": 7, "config": {"work_mem": "8MB"}})
    first, second = f"{name}_a", f"{name}_b"
    await rotate(team, name, "1", second)
    password = (await team.secret(name))["password"]

    async def facts() -> list[Any]:
        return await team.sql(
            "SELECT r.rolname::text, r.rolcanlogin, r.rolconnlimit, "
            " NULLIF(r.rolvaliduntil, 'infinity')::text,"
            " (SELECT array_agg(c ORDER BY c) FROM unnest(s.setconfig) c),"
            " ARRAY(SELECT g.rolname::text FROM pg_catalog.pg_auth_members m"
            " JOIN pg_catalog.pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid)"
            " FROM pg_catalog.pg_roles r"
            " LEFT JOIN pg_catalog.pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase = 0"
            " WHERE r.rolname = ANY (%s) ORDER BY 1",
            values=([name, first, second],),
            database="postgres",
        )

    before = await facts()
    assert [row[1] for row in before] == [False, True, True]
    assert [row[3] is None for row in before] == [True, False, True]
    assert before[2][2] == 7
    assert before[1][4] == before[2][4] == [f"role={name}", "work_mem=8MB"]
    for statement in (
        "ALTER ROLE {b} PASSWORD 'other'",
        "ALTER ROLE {b} RESET role",
        "ALTER ROLE {a} SET role TO 'none'",
        "ALTER ROLE {b} VALID UNTIL 'yesterday'",
        "ALTER ROLE {a} VALID UNTIL 'infinity'",
        "ALTER ROLE {b} CONNECTION LIMIT 3",
        "ALTER ROLE {o} LOGIN",
        "REVOKE {o} FROM {b} CASCADE",
        "ALTER ROLE {b} NOLOGIN",
    ):
        await team.sql(statement, o=name, a=first, b=second, database="postgres")

        async def healed() -> bool:
            return await facts() == before and await team.can_login(second, password)

        await team.healed(healed)
    # As itself, too: nobody else may change what its sessions are.
    async with team.login(name) as session:
        await session.execute("SET ROLE NONE")
        await session.execute("ALTER ROLE CURRENT_USER SET role TO 'none'")
        query = sql.SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET role TO 'none'")
        await session.execute(query.format(sql.Identifier(team.database)))
        await session.execute("ALTER ROLE CURRENT_USER PASSWORD 'other'")
    await team.healed(lambda: team.can_login(second, password))

    async def as_before() -> bool:
        if await facts() != before:
            return False
        async with team.login(name) as session:
            cursor = await session.execute("SELECT current_user::text")
            return await cursor.fetchall() == [(name,)]

    await team.healed(as_before)


async def test_row_51_names_that_others_have(team: Team) -> None:
    taken = team.name("mine")
    await team.sql("CREATE ROLE {r} LOGIN PASSWORD 'theirs'", r=f"{taken}_b", database="postgres")
    name = await team.create("mine", passwordPolicy=TURNS)
    assert f"role {taken}_b exists" in await team.fails(name, "AdoptionRefused")
    assert await team.secrets() == []
    assert not await team.role_exists(taken)
    await team.delete(name)
    await team.gone(name)
    assert await team.can_login(f"{taken}_b", "theirs")

    # Whoever comes first wins: the two logins, or the one role.
    one = await team.create("one", passwordPolicy=TURNS)
    await team.ready(one)
    other = await team.create("other", username=f"{one}_a")
    assert f"role {one}_a is taken" in await team.fails(other, "UsernameConflict")
    second = await team.create("second", username=team.name("two") + "_b")
    await team.ready(second)
    two = await team.create("two", passwordPolicy=TURNS)
    await team.fails(two, "UsernameConflict")
    assert set(await team.secrets()) == {f"{one}-login", f"{second}-login"}
    for each in (other, two):
        await team.delete(each)
        await team.gone(each)
    secret = await team.secret(one)
    assert await team.can_login(secret["username"], secret["password"])
    secret = await team.secret(second)
    assert await team.can_login(secret["username"], secret["password"])


async def test_row_52_a_change_of_rotation_and_back(team: Team) -> None:
    name = await made(team, passwordPolicy={"rotation": "InPlace"})
    first, second = f"{name}_a", f"{name}_b"
    app = App(team, name)
    grace = {"gracePeriod": "2s"}
    async with app.at_work():
        old = await team.secret(name)
        assert old["username"] == name
        held = await team.privileges(name)
        await team.patch(name, passwordPolicy={"rotation": "TwoLogins", "gracePeriod": "1h"})
        await team.wait(name, is_current(first))
        assert await team.can_login(name, old["password"])
        await team.patch(name, passwordPolicy=grace)
        await team.logs_in(name, old["password"], False)
        await rotate(team, name, "1", second)
        between = await team.secret(name)
        async with team.login(name) as session:
            await session.execute("SET ROLE NONE")
            await session.execute('CREATE TABLE "of a login" (id int)')
        await team.patch(name, passwordPolicy={"rotation": "InPlace", "gracePeriod": "4s"})
        await team.wait(name, is_current(name))
        assert await team.can_login(second, between["password"])
        assert await team.privileges(name) == held

        async def dropped() -> bool:
            return not (await team.role_exists(first) or await team.role_exists(second))

        await eventually(dropped)
        await team.wait(name, lambda body: logins(body) == {})
    await app.once()
    assert app.failures == []
    query = "SELECT tableowner::text FROM pg_catalog.pg_tables WHERE tablename = 'of a login'"
    assert await team.sql(query) == [(name,)]
    assert (await team.secret(name))["username"] == name
    await team.stands_still()


@pytest.mark.parametrize("policy", ["Restrict", "Cascade", "Orphan", "Retain"])
async def test_row_53_a_deletion_takes_all_three(team: Team, policy: str) -> None:
    name = await made(team, cleanupPolicy=policy)
    first, second = f"{name}_a", f"{name}_b"
    heir = team.name("heir")
    await team.sql(
        "CREATE ROLE {h} NOLOGIN",
        "GRANT {h} TO {a} WITH ADMIN OPTION",
        h=heir,
        a=team.administrator.username,
        database="postgres",
    )
    await team.sql("GRANT CREATE ON SCHEMA public TO {h}", h=heir)
    await team.patch(name, orphanTo=heir)
    await rotate(team, name, "1", second)
    old = await team.secret(name)
    async with team.login(name) as session:
        await session.execute("CREATE TABLE owned (id int)")
        # Who goes out of its way to make something itself is no reason to keep anything.
        await session.execute("SET ROLE NONE")
        await session.execute("CREATE TABLE owned_by_login (id int)")
    await team.delete(name)
    if policy == "Restrict":

        def blocked(body: JSON) -> bool:
            blockers = body.get("status", {}).get("deletion", {}).get("blockers", [])
            return {one for each in blockers for one in each["objects"]} == {
                "table public.owned",
                "table public.owned_by_login",
            }

        await team.wait(name, blocked)
        for role in (name, first, second):
            assert not await can_login(team, role)
        await team.sql("DROP TABLE owned, owned_by_login")
        await team.poke()
    await team.gone(name)
    assert not await team.can_login(second, old["password"])
    owners = dict(
        await team.sql(
            "SELECT tablename::text, tableowner::text FROM pg_catalog.pg_tables"
            " WHERE tablename LIKE 'owned%%'",
            values=(),
        )
    )
    assert not await team.role_exists(first)
    assert not await team.role_exists(second)
    match policy:
        case "Restrict" | "Cascade":
            assert owners == {}
        case "Orphan":
            assert owners == {"owned": heir, "owned_by_login": heir}
        case _:
            assert owners == {"owned": name, "owned_by_login": name}
    assert await team.role_exists(name) is (policy == "Retain")


async def test_row_54_abandoned_logins_stay_as_they_are(team: Team) -> None:
    name = await made(team)
    first, second = f"{name}_a", f"{name}_b"
    secrets = [await team.secret(name)]
    await rotate(team, name, "1", second)
    secrets.append(await team.secret(name))
    await team.abandon(name)
    await team.delete(name)
    await team.gone(name)

    async def released() -> bool:
        rows = await team.sql(
            "SELECT pg_catalog.shobj_description(oid, 'pg_authid') FROM pg_catalog.pg_roles"
            " WHERE rolname = ANY (%s)",
            values=([name, first, second],),
            database="postgres",
        )
        return len(rows) == 3 and all("{" not in (text or "") for (text,) in rows)

    await team.healed(released)
    await team.cycles(1)
    for role, secret in zip((first, second), secrets, strict=True):
        assert await team.can_login(role, secret["password"])
