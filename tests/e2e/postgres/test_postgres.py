"""The PostgresAccess operator against a control plane and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql
from tests.support.pgworld import World, grant, operated
from tests.support.planes import ControlPlane
from tests.support.postgres import (
    Hanging,
    access,
    credentials,
    server_profile,
)
from tests.support.waiting import SECONDS, condition, eventually, failed_with, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CONFIGMAPS, EVENTS, NAMESPACES, SECRETS
from fairlead.client import NotFound
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections import session
from fairlead.postgres.database.plans.snapshot import GIVEN_UP, RoleClaim
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


OPTIONS = PostgresOptions(excluded_users=("postgres", "excluded"), pending_interval=0.5)


@pytest.fixture
async def world(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with operated(control_plane, postgres, OPTIONS) as opened:
        await opened.fetch("CREATE TABLE orders (id int)")
        yield opened


@pytest.mark.edge
async def test_an_access_becomes_a_login_with_its_grants_and_goes_again(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT", "SELECT")])
    body = await world.ready(name)
    status = body["status"]
    assert status["binding"] == {"name": f"{name}-login"}
    assert (status["lastReconcileState"], status["lastLog"]) == (
        "Success",
        "PostgresAccess is in sync",
    )
    assert condition(body, "Success")["status"] == "True"
    assert condition(body, "InProgress")["status"] == "False"
    assert FINALIZER in body["metadata"]["finalizers"]
    secret = await world.secret(name)
    assert secret == secret | {
        "type": "postgresql",
        "provider": "fairlead",
        "host": "127.0.0.1",
        "port": str(world.postgres.port),
        "database": world.database,
        "dbname": world.database,
        "username": name,
    }
    async with await psycopg.AsyncConnection.connect(secret["uri"]) as connection:
        cursor = await connection.execute("SELECT current_user::text")
        assert await cursor.fetchall() == [(name,)]
        await connection.execute("SELECT * FROM orders")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("DELETE FROM orders")
    assert not await world.logs_in(secret["uri"].replace(secret["password"], "wrong"))

    await world.patch(name, grants=[grant(world.database, "CONNECT", "DELETE")])
    await world.ready(name)
    async with await psycopg.AsyncConnection.connect(secret["uri"]) as connection:
        await connection.execute("DELETE FROM orders")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("SELECT * FROM orders")

    await world.delete(name)
    await world.gone(name)
    assert not await world.role_exists(name)
    await when(world.admin, SECRETS, f"{name}-login", world.namespace, until=lambda body: not body)


@pytest.mark.edge
async def test_steady_state_writes_nothing_and_tells_once(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    body = await world.ready(name)
    row = "SELECT xmin::text FROM pg_authid WHERE rolname = %s"
    before = (
        body["metadata"]["resourceVersion"],
        (await world.admin.get(SECRETS, f"{name}-login", world.namespace)).meta.resource_version,
        await world.fetch(row, name),
    )
    await world.admin.merge_patch(
        POSTGRESSERVERS, world.server, "", {"metadata": {"annotations": {"poke": "1"}}}
    )
    other = await world.create("other")
    await world.ready(other)
    after = (
        (await world.admin.get(POSTGRESACCESSES, name, world.namespace)).meta.resource_version,
        (await world.admin.get(SECRETS, f"{name}-login", world.namespace)).meta.resource_version,
        await world.fetch(row, name),
    )
    assert after == before

    told: list[JSON] = []

    async def arrived() -> bool:
        found = [one.to_dict() for one in (await world.admin.list(EVENTS, world.namespace)).items]
        told[:] = [one for one in found if one["involvedObject"]["name"] == name]
        return bool(told)

    await eventually(arrived)
    assert [(one["type"], one["reason"]) for one in told] == [("Normal", "ReconcileSuccess")]


@pytest.mark.edge
async def test_the_password_follows_the_secret(world: World) -> None:
    name = await world.create()
    await world.ready(name)
    first = await world.secret(name)
    await world.admin.merge_patch(
        SECRETS, f"{name}-login", world.namespace, {"stringData": {"password": "edited@ / é"}}
    )
    edited = f"host=127.0.0.1 port={world.postgres.port} user={name} dbname=postgres"
    await eventually(lambda: world.logs_in(f"{edited} password='edited@ / é'"))
    assert not await world.logs_in(first["uri"])
    states: list[str] = []

    def told(body: JSON) -> bool:
        states.append(body["status"]["lastReconcileState"])
        return states[0] == "Success" and states[-2:] == ["InProgress", "Success"]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.wait(name, told))
        while not states:  # noqa: ASYNC110 - whoever watches by now misses nothing
            await asyncio.sleep(0.01)
        await world.admin.delete(SECRETS, f"{name}-login", world.namespace)
    body = await when(world.admin, SECRETS, f"{name}-login", world.namespace, until=bool)
    password = base64.b64decode(body["data"]["password"]).decode()
    assert password not in {first["password"], "edited@ / é"}
    await eventually(lambda: world.logs_in(f"{edited} password='{password}'"))
    assert not await world.logs_in(f"{edited} password='edited@ / é'")


@pytest.mark.edge
async def test_restrict_keeps_the_finalizer_until_nothing_is_owned(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT", "CREATE", "USAGE")])
    await world.ready(name)
    secret = await world.secret(name)
    async with await psycopg.AsyncConnection.connect(secret["uri"]) as connection:
        await connection.execute("CREATE TABLE mine (id int)")
    await world.delete(name)
    body = await world.wait(name, failed_with("FinalizeFailed OwnsObjects"))
    assert f"table public.mine in database {world.database}" in body["status"]["lastLog"]
    assert body["status"]["lastReconcileState"] == "Error"
    assert not await world.logs_in(secret["uri"])
    await world.fetch("DROP TABLE mine")
    await world.gone(name)
    assert not await world.role_exists(name)


@pytest.mark.edge
async def test_an_excluded_user_gets_no_secret_and_no_contact(world: World) -> None:
    name = await world.create(
        username="excluded",
        connection={
            "host": "127.0.0.1",
            "port": 1,
            "username": {"value": "x"},
            "password": {"value": "x"},
        },
    )
    body = await world.wait(name, failed_with("UserExcluded"))
    assert "binding" not in body["status"]
    assert f"{name}-login" not in [
        one.meta.name for one in (await world.admin.list(SECRETS, world.namespace)).items
    ]
    await world.delete(name)
    await world.gone(name)


@pytest.mark.edge
async def test_the_first_namespace_wins_a_name(world: World) -> None:
    winner = await world.create("winner", username=f"shared-{world.id}")
    await world.ready(winner)
    secret = await world.secret(winner)
    other = f"rivals-{world.id}"
    await world.admin.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    )
    loser = access("loser", other, world.server, username=f"shared-{world.id}")
    loser["spec"]["connection"] = {
        "host": "localhost",
        "port": world.postgres.port,
        "username": {"value": "postgres"},
        "password": {"value": world.postgres.password},
        "sslMode": "disable",
    }
    await world.admin.create(POSTGRESACCESSES, loser)
    body = await when(
        world.admin, POSTGRESACCESSES, "loser", other, until=failed_with("UsernameConflict")
    )
    assert winner not in body["status"]["lastLog"]
    with pytest.raises(NotFound):
        await world.admin.get(SECRETS, "loser-login", other)
    assert await world.logs_in(secret["uri"])
    await world.admin.delete(POSTGRESACCESSES, "loser", other)
    await when(world.admin, POSTGRESACCESSES, "loser", other, until=lambda body: not body)
    assert await world.logs_in(secret["uri"])


@pytest.mark.edge
async def test_a_secret_of_others_is_not_taken(world: World) -> None:
    name = world.name()
    theirs: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-login", "namespace": world.namespace},
        "stringData": {"password": "theirs"},
    }
    await world.admin.create(SECRETS, theirs)
    await world.create()
    await world.wait(name, failed_with("SecretSyncFailed SecretConflict"))
    assert await world.secret(name) == {"password": "theirs"}
    assert not await world.role_exists(name)


async def test_a_profile_keeps_namespaces_names_and_databases_apart(world: World) -> None:
    await world.admin.merge_patch(
        POSTGRESSERVERS,
        world.server,
        "",
        {
            "spec": {
                "allowedNamespaces": {"matchLabels": {"team": world.id}},
                "usernamePattern": "{namespace}_*",
                "allowedDatabases": [world.database],
            }
        },
    )
    name = await world.create(grants=[grant("postgres", "CONNECT")])
    await world.wait(name, failed_with("PolicyDenied"))
    await world.delete(name)
    await world.gone(name)
    allowed = await world.create(
        "allowed",
        username=f"{world.namespace}_app",
        grants=[grant(world.database, "CONNECT")],
    )
    await world.ready(allowed)
    await world.admin.merge_patch(NAMESPACES, world.namespace, "", {"metadata": {"labels": None}})
    await world.patch(allowed, grants=[])
    await world.wait(allowed, failed_with("spec.allowedNamespaces"))
    await world.delete(allowed)
    await world.gone(allowed)
    assert not await world.role_exists(f"{world.namespace}_app")


@pytest.mark.edge
async def test_a_database_that_is_down_is_said_and_awaited(
    world: World,
) -> None:
    async with EmbeddedPostgres() as postgres:
        profile = f"frail-{world.id}"
        await world.admin.create(POSTGRESSERVERS, server_profile(profile, postgres))
        name = world.name()
        await world.admin.create(POSTGRESACCESSES, access(name, world.namespace, profile))
        body = await world.wait(name, failed_with("ConnectionSecretMissing"))
        assert f"Secret {DEFAULT_NAMESPACE}/{profile}" in body["status"]["lastLog"]
        wrong = credentials(profile, postgres)
        wrong["stringData"]["password"] = "wrong"
        await world.admin.create(SECRETS, wrong)
        await when(
            world.admin, POSTGRESSERVERS, profile, until=failed_with("AuthenticationFailed")
        )
        await world.admin.merge_patch(
            SECRETS, profile, DEFAULT_NAMESPACE, {"stringData": {"password": postgres.password}}
        )
        await world.ready(name)
        await postgres.stop_server()
        await world.patch(name, grants=[grant("postgres", "CONNECT")])
        body = await world.wait(name, failed_with("DatabaseSyncFailed ConnectionFailed"))
        assert body["status"]["binding"] == {"name": f"{name}-login"}
        await postgres.start_server()
        await world.ready(name)
        await postgres.stop_server()
        await world.delete(name)
        await world.wait(name, failed_with("FinalizeFailed ConnectionFailed"))
        annotation = {"metadata": {"annotations": {"access.k8s.delta10.nl/abandon": "true"}}}
        await world.admin.merge_patch(POSTGRESACCESSES, name, world.namespace, annotation)
        await world.gone(name)
        await world.admin.delete(POSTGRESSERVERS, profile)


@pytest.mark.edge
async def test_a_namespace_that_goes_takes_its_roles_along(world: World) -> None:
    going: JSON = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": f"going-{world.id}"},
    }
    await world.admin.create(NAMESPACES, going)
    name, namespace = world.name(), f"going-{world.id}"
    await world.admin.create(POSTGRESACCESSES, access(name, namespace, world.server))
    await when(world.admin, POSTGRESACCESSES, name, namespace, until=is_ready)
    await world.admin.delete(NAMESPACES, namespace)
    await when(world.admin, NAMESPACES, namespace, until=lambda body: not body)
    assert not await world.role_exists(name)


@pytest.mark.edge
async def test_a_namespace_goes_with_the_secret_of_its_own_connection(world: World) -> None:
    """All its Secrets go before its accesses; a neighbour with the same administrator stays."""
    going: JSON = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": f"going-{world.id}"},
    }
    await world.admin.create(NAMESPACES, going)
    namespace, own = f"going-{world.id}", {"existingSecret": "given"}
    for where in (namespace, world.namespace):
        given = credentials("given", world.postgres)
        given["metadata"]["namespace"] = where
        given["stringData"] |= {
            "host": world.postgres.host,
            "port": str(world.postgres.port),
            "sslmode": "disable",
        }
        await world.admin.create(SECRETS, given)
    neighbour = await world.create("neighbour", connection=own)
    names = [world.name(f"gone{number}") for number in range(20)]
    grants = [grant(world.database, "CONNECT", "CREATE", "USAGE")]
    asked = {"connection": own, "grants": grants, "cleanupPolicy": "Cascade"}
    for name in names:
        await world.admin.create(POSTGRESACCESSES, access(name, namespace, world.server, **asked))
    for name in names:
        await when(world.admin, POSTGRESACCESSES, name, namespace, until=is_ready)
    await world.ready(neighbour)
    made = (await world.admin.get(SECRETS, f"{names[0]}-login", namespace)).to_dict()["data"]
    uri = base64.b64decode(made["uri"]).decode()
    async with await psycopg.AsyncConnection.connect(uri, dbname=world.database) as session:
        await session.execute("CREATE TABLE owned (id int)")
    for secret in ("given", *(f"{name}-login" for name in names)):
        await world.admin.delete(SECRETS, secret, namespace)
    await world.admin.delete(NAMESPACES, namespace)
    await when(world.admin, NAMESPACES, namespace, until=lambda body: not body)
    left = await world.fetch("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", names)
    assert left == []
    assert await world.fetch("SELECT to_regclass('owned')") == [(None,)]
    assert await world.logs_in((await world.secret(neighbour))["uri"])
    await world.ready(neighbour)


async def test_a_missing_database_is_awaited(world: World) -> None:
    later = f"later_{world.id}"
    name = await world.create(grants=[grant(later, "CONNECT")])
    await world.wait(name, failed_with(f"DatabaseNotFound: database {later}"))
    async with await psycopg.AsyncConnection.connect(
        world.postgres.dsn(), autocommit=True
    ) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(later)))
    await world.ready(name)


@pytest.mark.edge
async def test_an_existing_secret_as_other_operators_write_it(world: World) -> None:
    given: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "given", "namespace": world.namespace},
        "stringData": {
            "user": "postgres",
            "password": world.postgres.password,
            "uri": f"postgresql://ignored@127.0.0.1:{world.postgres.port}/app",
            "dbname": world.database,
            "sslmode": "disable",
        },
    }
    await world.admin.create(SECRETS, given)
    name = await world.create(connection={"existingSecret": "given"})
    await world.ready(name)
    assert (await world.secret(name))["database"] == world.database
    elsewhere = await world.create(
        "elsewhere",
        connection={"existingSecret": world.server, "existingSecretNamespace": DEFAULT_NAMESPACE},
    )
    await world.wait(elsewhere, failed_with("PolicyDenied"))


async def test_a_role_whose_access_was_torn_out_is_removed(world: World) -> None:
    stray = world.name("stray")
    try:
        installation = await world.admin.get(NAMESPACES, "kube-system")
    except NotFound:
        installation = await world.admin.get(NAMESPACES, "default")
    torn_out = RoleClaim(
        installation=installation.meta.uid, namespace=world.namespace, name=stray, uid="torn-out"
    )
    role = sql.Identifier(stray)
    async with await psycopg.AsyncConnection.connect(
        world.postgres.dsn(), autocommit=True
    ) as connection:
        await connection.execute(sql.SQL("CREATE ROLE {}").format(role))
        await connection.execute(
            sql.SQL("COMMENT ON ROLE {} IS {}").format(role, sql.Literal(torn_out.text()))
        )
    await world.ready(await world.create("next"))

    async def away() -> bool:
        return not await world.role_exists(stray)

    await eventually(away)


@pytest.mark.parametrize("policy", ["abandoned", "Retain"])
async def test_a_role_that_was_given_up_is_never_dropped(world: World, policy: str) -> None:
    """Not even if nobody could take its claim off when its object went."""
    retained = policy == "Retain"
    name = await world.create(
        "kept",
        cleanupPolicy="Retain" if retained else "Restrict",
        connection={
            "host": world.postgres.host,
            "port": world.postgres.port,
            "sslMode": "disable",
            "username": {"value": world.postgres.username},
            "password": {"value": world.postgres.password},
        },
    )
    await world.ready(name)
    if retained:
        await world.patch(name, connection={"port": 1})
    else:
        annotation = {"metadata": {"annotations": {"access.k8s.delta10.nl/abandon": "true"}}}
        await world.admin.merge_patch(POSTGRESACCESSES, name, world.namespace, annotation)
    await world.delete(name)
    await world.gone(name)
    await world.ready(await world.create("next"))

    async def found() -> list[tuple[bool, str | None]]:
        query = "SELECT rolcanlogin, shobj_description(oid, 'pg_authid') FROM pg_roles"
        return await world.fetch(f"{query} WHERE rolname = %s", name)

    async def nobodys() -> bool:
        ((_, comment),) = await found()
        return comment == (None if retained else GIVEN_UP)

    await eventually(nobodys)
    # Who gives a role up by hand keeps its login, a policy that retains it takes that away.
    assert await found() == [(not retained, None if retained else GIVEN_UP)]

    async def forgotten() -> bool:
        records = await world.admin.list(CONFIGMAPS, DEFAULT_NAMESPACE)
        told = [one.to_dict().get("data", {}).get("access", "") for one in records.items]
        return f"{world.namespace}/{name}" not in told

    await eventually(forgotten)


async def test_a_renamed_secret_replaces_the_old_one(world: World) -> None:
    name = await world.create()
    await world.ready(name)
    await world.patch(name, generatedSecret=f"{name}-new")
    body = await world.wait(
        name,
        lambda body: is_ready(body) and body["status"]["binding"]["name"] == f"{name}-new",
    )
    assert body["status"]["lastReconcileState"] == "Success"
    await when(world.admin, SECRETS, f"{name}-login", world.namespace, until=lambda body: not body)


async def test_servers_that_hang_delay_nobody_else(
    world: World, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hang for ever here: whoever waited for one of them would never be ready."""
    for module, name in (
        (bounds, "BATCH_SECONDS"),
        (session, "ANSWER_SECONDS"),
        (bounds, "LOGIN_SECONDS"),
        (bounds, "CONNECT_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 100 * int(SECONDS))
    async with (
        Hanging(postgres, after_login=True) as frozen,
        Hanging(postgres, after_login=False) as silent,
    ):
        for number, server in enumerate([frozen, silent] * 10):
            connection = {
                "host": "127.0.0.1",
                "port": server.port,
                "sslMode": "disable",
                "username": {"value": postgres.username},
                "password": {"value": postgres.password},
            }
            await world.create(f"hanging{number}", connection=connection)
        async with asyncio.timeout(SECONDS):
            await frozen.holds(1)
            await silent.holds(1)
        name = await world.create()
        await world.ready(name)
        await world.delete(name)
        await world.gone(name)
        # One for the work of ten accesses, and one where a look falls due meanwhile.
        assert max(frozen.held, silent.held) <= 2
