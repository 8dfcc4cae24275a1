"""Rows 28 to 35, 38 to 42 and 47: many at one server, Secrets of others, and bad input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from tests.support.pgoperator import OperatorThread
from tests.support.team import Administrator, Team
from tests.support.waiting import condition, eventually, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import CONFIGMAPS, SECRETS
from fairlead.client import Client, Invalid, NotFound, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import PostgresOptions


modest = pytest.mark.parametrize("administrator", ["createrole"], indirect=True)


@pytest.fixture(scope="module")
def neighbour() -> Iterator[OperatorThread]:
    """Another cluster with an operator of its own."""
    thread = OperatorThread(PostgresOptions(pending_interval=0.2, synced_interval=1.0))
    thread.start()
    yield thread
    thread.stop()


@pytest.fixture
async def elsewhere(
    neighbour: OperatorThread, postgres: EmbeddedPostgres, administrator: Administrator
) -> AsyncIterator[Team]:
    """A team in the other cluster, at the same server."""
    async with Client(parse_kubeconfig(neighbour.kubeconfig)) as client:
        made = Team(client, postgres, administrator)
        await made.arrive()
        yield made
        await made.leave()
    neighbour.check()


async def test_row_28_the_first_claim_wins_under_any_host_name(team: Team) -> None:
    shared, other = team.name("shared"), f"rivals-{team.id}"
    await team.create_namespace(other)
    winner = await team.create("winner", username=shared, cleanupPolicy="Retain")
    await team.ready(winner)
    password = (await team.secret(winner))["password"]
    before = await team.roles()
    loser = await team.create(
        "loser",
        namespace=other,
        username=shared,
        connection=team.directly(host="localhost"),
        grants=[team.grant("CONNECT")],
    )
    message = await team.fails(loser, "UsernameConflict", namespace=other)
    assert winner not in message
    assert team.namespace not in message
    with pytest.raises(NotFound):
        await team.secret(loser, namespace=other)
    assert await team.roles() == before
    assert await team.privileges(shared) == set()
    await team.delete(loser, namespace=other)
    await team.gone(loser, namespace=other)
    assert await team.can_login(shared, password)
    await team.create(
        "loser", namespace=other, username=shared, connection=team.directly(host="localhost")
    )
    await team.fails(loser, "UsernameConflict", namespace=other)
    await team.delete(winner)
    await team.gone(winner)
    # The role that stays is nobody's, and is not taken over without being asked for.
    await team.fails(loser, "AdoptionRefused", namespace=other)
    await team.sql("DROP ROLE {r}", r=shared)
    await team.ready(loser, namespace=other)


async def test_row_29_two_installations_at_one_server(team: Team, elsewhere: Team) -> None:
    shared = team.name("shared")
    ours = await team.create("ours", username=shared)
    await team.ready(ours)
    password = (await team.secret(ours))["password"]
    theirs = await elsewhere.create("theirs", username=shared)
    message = await elsewhere.fails(theirs, "UsernameConflict")
    assert team.namespace not in message
    neighbours = await elsewhere.create("neighbours")
    await elsewhere.ready(neighbours)
    await elsewhere.cycles(1)
    await team.cycles(1)
    await elsewhere.delete(theirs)
    await elsewhere.gone(theirs)
    assert await team.can_login(shared, password)
    await team.removed(ours)
    assert await team.role_exists(neighbours)


async def test_row_31_an_excluded_user_is_never_touched(team: Team) -> None:
    await team.sql(
        "DO $$ BEGIN CREATE ROLE excluded LOGIN PASSWORD 'theirs';"
        " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    before = await team.roles()
    name = await team.create(username="excluded", connection=team.directly(port=1))
    reachable = await team.create("reachable", username="excluded")
    for one in (name, reachable):
        await team.fails(one, "UserExcluded")
        await team.delete(one)
        await team.gone(one)
    assert await team.secrets() == []
    assert await team.roles() == before


async def test_row_32_many_at_once_from_two_clusters(team: Team, elsewhere: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    begun = team.postgres.logged()
    grants = [team.grant("CONNECT", "SELECT", "INSERT")]
    ours = [await team.create(f"app{number}", grants=grants) for number in range(6)]
    theirs = [await elsewhere.create(f"app{number}", grants=grants) for number in range(6)]
    await asyncio.gather(*map(team.ready, ours), *map(elsewhere.ready, theirs))
    for name in ours + theirs:
        assert {("t", "SELECT"), ("t", "INSERT")} <= await team.privileges(name)
    log = team.postgres.log(begun)
    assert "deadlock detected" not in log
    for where, names in ((team, ours), (elsewhere, theirs)):
        for name in names:
            assert not [one for one in await where.events(name) if one["type"] == "Warning"]


@pytest.mark.differs("administrator")
async def test_row_33_the_administrators_password_is_changed(team: Team) -> None:
    role, profile = team.name("chief"), f"chief-{team.id}"
    power = "SUPERUSER" if team.superuser else "CREATEROLE"
    await team.sql(f"CREATE ROLE {{r}} LOGIN {power} PASSWORD 'one'", r=role)
    team.administrator = Administrator(role, "one", superuser=team.superuser)
    await team.offer(profile)
    name = await team.create(connection={"serverRef": {"name": profile}})
    await team.ready(name)
    await team.sql(
        "ALTER ROLE {r} PASSWORD 'two'",
        "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
        f" WHERE usename = '{role}'",
        r=role,
    )

    def refused(body: JSON) -> bool:
        return f"refused the password of {role}; correct" in condition(body, "Ready")["message"]

    # No session that ends takes the access out of sync, be it idle or that of a pass under way.
    assert is_ready(await team.wait(name, refused))
    await team.client.merge_patch(
        SECRETS, profile, "fairlead-postgres", {"stringData": {"password": "two"}}
    )
    await team.wait(name, lambda body: is_ready(body) and not refused(body))
    await team.removed(name)


@modest
async def test_row_34_no_connection_is_left(team: Team) -> None:
    profile = f"full-{team.id}"
    await team.offer(profile, database=team.database)
    await team.sql("ALTER DATABASE {d} CONNECTION LIMIT 0", d=team.database, database="postgres")
    name = await team.create(connection={"serverRef": {"name": profile}})
    assert "no connection left" in await team.fails(name, "ConnectionFailed")
    await team.sql("ALTER DATABASE {d} CONNECTION LIMIT -1", d=team.database, database="postgres")
    await team.ready(name)


@pytest.mark.differs("administrator")
async def test_row_35_an_owner_bends_nothing(team: Team) -> None:
    mallory, profile = team.name("mallory"), f"bent-{team.id}"
    await team.build("CREATE TABLE t (id int)")
    await team.sql("CREATE ROLE {m} SUPERUSER", m=mallory)
    await team.sql(
        "CREATE FUNCTION current_database() RETURNS name RETURN 'pwned'",
        "CREATE FUNCTION has_table_privilege(text, text) RETURNS bool RETURN false",
        "CREATE VIEW pg_roles AS SELECT 'pwned'::name AS rolname",
        "CREATE TABLE pg_class (relname name)",
        f'ALTER DATABASE {{d}} SET role = "{mallory}"',
        "ALTER DATABASE {d} SET search_path = public, pg_catalog",
        "ALTER DATABASE {d} SET statement_timeout = 1",
        "ALTER DATABASE {d} SET lock_timeout = 1",
        "ALTER DATABASE {d} SET default_transaction_read_only = on",
        "ALTER DATABASE {d} SET default_transaction_isolation = serializable",
        "ALTER DATABASE {d} SET idle_in_transaction_session_timeout = 1",
        "ALTER DATABASE {d} SET standard_conforming_strings = off",
        "ALTER DATABASE {d} SET exit_on_error = on",
        d=team.database,
    )
    await team.offer(profile, database=team.database)
    name = await team.create(
        connection={"serverRef": {"name": profile}}, grants=[team.grant("CONNECT", "SELECT")]
    )
    if team.superuser:
        await team.ready(name)
    else:
        await team.fails(name, "InsufficientPrivilege")
    assert await team.can_login(name, (await team.secret(name))["password"])
    made = "SELECT proowner::regrole::text FROM pg_catalog.pg_proc WHERE proname = 'pwned'"
    assert await team.sql(made) == []
    await team.removed(name)


async def test_row_38_a_secret_of_others_is_never_taken(team: Team) -> None:
    """Be it anybody's, another object's, or of another type."""
    holder: JSON = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "holder", "namespace": team.namespace},
    }
    uid = (await team.client.create(CONFIGMAPS, holder)).meta.uid
    owner: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "name": "holder", "uid": uid}
    owner["controller"] = True
    bodies: dict[str, JSON] = {
        "nobodys": {},
        "anothers": {"metadata": {"ownerReferences": [owner]}},
        "typed": {"type": "kubernetes.io/basic-auth"},
        "fixed": {"immutable": True},
    }
    names = {}
    for kind, more in bodies.items():
        name = team.name(kind)
        metadata = {"name": f"{name}-login", "namespace": team.namespace}
        body: JSON = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "theirs"}}
        if kind == "typed":
            body["stringData"]["username"] = "theirs"
        body |= more | {"metadata": metadata | more.get("metadata", {})}
        await team.client.create(SECRETS, body)
        names[kind] = await team.create(kind)
    await asyncio.gather(*(team.fails(name, "SecretConflict") for name in names.values()))
    for name in names.values():
        assert (await team.secret(name))["password"] == "theirs"
        assert not await team.role_exists(name)
        await team.delete(name)
    await asyncio.gather(*map(team.gone, names.values()))
    assert len(await team.secrets()) == len(names)


async def test_row_38_what_users_add_stays_and_what_they_break_is_mended(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    first = await team.secret(name)
    await team.edit_secret(name, mine="kept", username="wrong", host="wrong")

    async def mended() -> bool:
        return await team.secret(name) == first | {"mine": "kept"}

    await eventually(mended)
    await team.ready(name)
    assert await team.can_login(name, first["password"])


async def test_row_38_an_object_that_comes_back_gets_a_secret_of_its_own(team: Team) -> None:
    """Its name is the same, its uid is not."""
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    first = await team.secret(name)
    await team.delete(name)
    await team.gone(name)
    again = await team.create(grants=[team.grant("CONNECT")])
    body = await team.ready(again)
    second = await team.secret(again)
    assert second["password"] != first["password"]
    assert await team.can_login(name, second["password"])
    secret = (await team.client.get(SECRETS, f"{name}-login", team.namespace)).to_dict()
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner["uid"] == body["metadata"]["uid"]


async def test_row_39_status_and_events_are_told_once(team: Team) -> None:
    good = await team.create("good", grants=[team.grant("CONNECT")])
    bad = await team.create("bad", grants=[team.grant("USAGE", schema="nowhere")])
    await team.ready(good)
    await team.fails(bad, "SchemaNotFound")
    await team.cycles(1)

    async def told() -> list[Any]:
        events = await team.events(good) + await team.events(bad)
        return sorted((one["involvedObject"]["name"], one["reason"]) for one in events)

    async def versions() -> list[str]:
        found = [
            await team.client.get(POSTGRESACCESSES, name, team.namespace) for name in (good, bad)
        ]
        return [one.meta.resource_version for one in found]

    before = await versions()
    await team.cycles(10)
    assert await versions() == before
    assert await told() == sorted([(good, "ReconcileSuccess"), (bad, "DatabaseSyncFailed")])


async def test_row_40_a_table_with_no_room_for_another_grantee(team: Team) -> None:
    await team.sql(_CROWD)
    await team.build("CREATE SCHEMA full_up", "CREATE SCHEMA free")
    await team.build("CREATE TABLE full_up.t (id int)", "CREATE TABLE free.t (id int)")
    await team.sql(_FILL)
    refused = await team.create("refused", grants=[team.grant("SELECT", schema="full_up")])
    other = await team.create("other", grants=[team.grant("SELECT", schema="free")])
    assert "group role" in await team.fails(refused, "TooManyGrantees")
    await team.ready(other)
    assert ("t", "SELECT") in await team.privileges(other)
    password = (await team.secret(refused))["password"]
    assert await team.can_login(refused, password)


async def test_row_41_one_of_many_that_fails_takes_nobody_along(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    await team.sql("CREATE ROLE {r}", r=team.name("taken"))
    good = [team.grant("CONNECT", "SELECT")]
    worse = {
        "taken": good,
        "nowhere": [*good, team.grant("SELECT", schema="nowhere")],
        "absent": [*good, team.grant("CONNECT", database="absent")],
    }
    names = []
    for number in range(15):
        names.append(await team.create(f"app{number}", grants=good))
        if number == 7:
            bad = {kind: await team.create(kind, grants=asked) for kind, asked in worse.items()}
    await asyncio.gather(*map(team.ready, names))
    await team.fails(bad["taken"], "AdoptionRefused")
    await team.fails(bad["nowhere"], "SchemaNotFound")
    await team.fails(bad["absent"], "DatabaseNotFound")
    for name in [*names, bad["nowhere"], bad["absent"]]:
        assert ("t", "SELECT") in await team.privileges(name)
        assert await team.can_login(name, (await team.secret(name))["password"])
    assert await team.privileges(bad["taken"]) == set()


async def test_row_42_a_role_that_is_dropped_meanwhile_stops_no_other(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    victim = team.name("app3")
    dropped = 0

    async def drop() -> None:
        nonlocal dropped
        while dropped < 3:
            with suppress(psycopg.Error):
                await team.sql("DROP OWNED BY {r}", "DROP ROLE {r}", r=victim)
                dropped += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        dropping = group.create_task(drop())
        grants = [team.grant("CONNECT", "SELECT")]
        names = [await team.create(f"app{number}", grants=grants) for number in range(10)]
        others = [name for name in names if name != victim]
        await asyncio.gather(*map(team.ready, others))
        await team.healed(lambda: _done(dropping))

    async def complete() -> bool:
        wanted = {("t", "SELECT"), ("u", "SELECT")}
        return all([wanted <= await team.privileges(name) for name in names])

    await team.healed(complete)
    await asyncio.gather(*map(team.ready, names))


async def _done(task: asyncio.Task[None]) -> bool:
    return task.done()


async def test_row_47_what_looks_like_sql_is_a_name(team: Team) -> None:
    canary = team.name("canary")
    await team.sql("CREATE ROLE {r}", r=canary)
    for number, quote in enumerate(("'", '"')):
        hostile = f'x{quote}; DROP ROLE "{canary}"; --'
        there = f"{number}{quote};{team.id}; --"
        await team.create_database(there)
        await team.sql("CREATE SCHEMA {s}", s=hostile, database=there)
        await team.sql("CREATE TABLE {s}.{t} (id int)", s=hostile, t=hostile, database=there)
        await team.sql(
            "ALTER TABLE {s}.{t} OWNER TO {o}",
            s=hostile,
            t=hostile,
            o=team.administrator.username,
            database=there,
        )
        await team.sql(
            "ALTER SCHEMA {s} OWNER TO {o}",
            s=hostile,
            o=team.administrator.username,
            database=there,
        )
        username = f'{number}{quote}; DROP ROLE "{canary}"; --'
        name = await team.create(
            f"app{number}",
            username=username,
            grants=[team.grant("CONNECT", "SELECT", database=there, schema=hostile)],
        )
        await team.ready(name)
        assert (hostile, "SELECT") in await team.privileges(username, there)
        await team.edit_secret(name, password=hostile)
        await team.logs_in(username, hostile)
        for field in ("host", "database"):
            one = await team.create(
                f"{field}{number}", connection=team.directly(**{field: hostile})
            )
            await team.wait(one, lambda body: bool(condition(body, "Ready")))
        with suppress(Invalid):
            refused = await team.create(f"secret{number}", generatedSecret=hostile)
            await team.fails(refused, "")
        await team.delete(name)
        await team.gone(name)
        assert not await team.role_exists(username)
    assert await team.role_exists(canary)


_CROWD = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'crowd1') THEN
    FOR number IN 1..3000 LOOP EXECUTE 'CREATE ROLE crowd' || number; END LOOP;
  END IF;
END $$"""
_FILL = """
DO $$
DECLARE step int := 1000; number int := 0;
BEGIN
  WHILE step > 0 LOOP
    BEGIN
      EXECUTE (SELECT 'GRANT SELECT ON full_up.t TO ' || string_agg('crowd' || g, ', ')
                 FROM generate_series(number + 1, number + step) g);
      number := number + step;
    EXCEPTION WHEN program_limit_exceeded THEN step := step / 10; END;
  END LOOP;
END $$"""
