"""Controllers, connections and policies against control planes and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from tests.support.pgworld import World, grant
from tests.support.planes import ControlPlane
from tests.support.postgres import Hanging, prepare, running
from tests.support.waiting import SECONDS, condition, failed_with, gone, idle, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS, NAMESPACES, SECRETS
from fairlead.client import Client, Invalid, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.app import install_crds
from fairlead.postgres.database.connections.session import Patience
from fairlead.postgres.database.work import sync
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


EXAMPLES = Path(__file__).parents[3] / "examples" / "06-settings"
OPTIONS = PostgresOptions(synced_interval=3600.0, pending_interval=3600.0)
"""Whatever happens in these tests was told of by a watch: no timer comes in time."""


@pytest.fixture
async def still(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """A world whose operator does not run yet; nobody leaves a Controller behind."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = World(admin, postgres, is_real=control_plane.is_real)
        await made.arrive(allowedNamespaces={"matchLabels": {"team": made.id}})
        await made.create_database()
        yield made
        for found in (await admin.list(CONTROLLERS)).items:
            await admin.delete(CONTROLLERS, found.meta.name, found.meta.namespace)
        async with running(admin):
            await made.leave()


@pytest.fixture
async def world(still: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(bounds, "SUMMARY_SECONDS", 0.05)
    async with running(still.admin, OPTIONS):
        yield still


def controller(name: str = "settings", namespace: str = DEFAULT_NAMESPACE, **spec: Any) -> JSON:
    return {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "Controller",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"settings": spec},
    }


async def configure(world: World, name: str = "settings", **postgres: Any) -> None:
    """Create or change a Controller; who reads on knows that it is in force or refused."""
    try:
        await world.admin.get(CONTROLLERS, name, DEFAULT_NAMESPACE)
    except Exception:  # noqa: BLE001
        await world.admin.create(CONTROLLERS, controller(name, postgres=postgres))
        return
    await world.admin.merge_patch(
        CONTROLLERS, name, DEFAULT_NAMESPACE, {"spec": {"settings": {"postgres": postgres}}}
    )


async def told(world: World, name: str, reason: str, namespace: str = DEFAULT_NAMESPACE) -> JSON:
    """The Controller once its condition says so."""
    return await when(
        world.admin,
        CONTROLLERS,
        name,
        namespace,
        until=lambda body: condition(body, "Ready").get("reason") == reason,
    )


async def verifier(world: World, role: str) -> list[Any]:
    return await world.fetch(
        "SELECT xmin::text, rolcanlogin, rolpassword FROM pg_authid WHERE rolname = %s", role
    )


async def test_settings_come_into_force_without_a_restart(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    secret, before = await world.secret(name), await verifier(world, name)
    await configure(world, excludedUserPatterns=["app-*"])
    body = await world.wait(name, failed_with("UserExcluded"))
    assert "binding" not in body["status"]
    await world.patch(name, grants=[])
    await told(world, "settings", "Ready")
    await world.wait(name, lambda body: body["status"]["observedGeneration"] == 2)
    assert await verifier(world, name) == before
    assert await world.logs_in(secret["uri"])
    await world.delete(name)
    await world.gone(name)
    assert await verifier(world, name) == before
    # Nobody excludes it any more, and an object of the same name has the claim on it.
    await world.admin.delete(CONTROLLERS, "settings", DEFAULT_NAMESPACE)
    await world.create(grants=[])
    await world.ready(name)


@pytest.mark.edge
async def test_one_controller_counts_and_the_others_are_told(world: World) -> None:
    elsewhere = controller("elsewhere", world.namespace, postgres={"excludedUsers": ["app"]})
    await world.admin.create(CONTROLLERS, elsewhere)
    await told(world, "elsewhere", "InvalidControllerNamespace", world.namespace)
    await configure(world, "one", excludedUsers=["none"])
    await told(world, "one", "Ready")
    await configure(world, "two", excludedUsers=["none"])

    def decided(body: JSON) -> bool:
        return bool(condition(body, "Ready"))

    one = await when(world.admin, CONTROLLERS, "one", DEFAULT_NAMESPACE, until=decided)
    two = await when(world.admin, CONTROLLERS, "two", DEFAULT_NAMESPACE, until=decided)
    # Of two of the same second the uid decides, so that the first may lose.
    winner, loser = sorted(
        (one, two),
        key=lambda body: (body["metadata"]["creationTimestamp"], body["metadata"]["uid"]),
    )
    winner_name, loser_name = winner["metadata"]["name"], loser["metadata"]["name"]
    await told(world, winner_name, "Ready")
    body = await told(world, loser_name, "MultipleControllersFound")
    assert condition(body, "Ready")["status"] == "False"
    assert f"uses Controller {winner_name}, which is older" in condition(body, "Ready")["message"]

    async def events() -> list[str]:
        found = (await world.admin.list(EVENTS, DEFAULT_NAMESPACE)).items
        return [
            event["reason"]
            for event in (one.to_dict() for one in found)
            if event["involvedObject"]["uid"] == body["metadata"]["uid"]
        ]

    while "MultipleControllersFound" not in await events():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    # Accesses go on meanwhile, and the next one takes over.
    await world.ready(await world.create())
    await world.admin.delete(CONTROLLERS, winner_name, DEFAULT_NAMESPACE)
    await told(world, loser_name, "Ready")


@pytest.mark.edge
async def test_a_controller_that_means_nothing_stops_all_work_until_it_is_mended(
    world: World,
) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    going = await world.create("going")
    await world.ready(going)
    await configure(world, syncedInterval="1s")
    body = await told(world, "settings", "ControllerInvalid")
    assert "syncedInterval 1s is out of range" in condition(body, "Ready")["message"]
    failed = await world.wait(name, failed_with("DatabaseSyncFailed ControllerInvalid"))
    assert "Controller fairlead-postgres/settings" in failed["status"]["lastLog"]
    await world.delete(going)
    await world.wait(going, failed_with("FinalizeFailed ControllerInvalid"))
    assert await world.role_exists(going)
    await configure(world, syncedInterval="10s")
    await world.ready(name)
    await world.gone(going)
    assert not await world.role_exists(going)


def own(host: str, port: int, **connection: Any) -> JSON:
    return {
        "host": host,
        "port": port,
        "sslMode": "disable",
        "username": {"value": "postgres"},
        "password": {"value": "wrong"},
        **connection,
    }


async def test_hosts_that_are_not_allowed_are_not_connected_to(
    world: World, postgres: EmbeddedPostgres
) -> None:
    async with Hanging(postgres, after_login=False) as trap:
        await configure(world, connections={"policy": "Forbidden"})
        await told(world, "settings", "Ready")
        name = await world.create(connection=own("127.0.0.1", trap.port))
        await world.wait(name, failed_with("PolicyDenied"))
        listed = {"policy": "Listed", "hosts": ["*.example.org", "127.0.0.0/8:1"]}
        await configure(world, connections=listed)
        await world.wait(name, failed_with("does not list the host"))
        # What was refused from the beginning left nothing behind that a deletion had to remove.
        await world.delete(name)
        await world.gone(name)
        assert trap.held == 0
    await configure(world, connections={"policy": "Listed", "hosts": ["127.0.0.0/8"]})
    password = {"value": postgres.password}
    allowed = await world.create(
        "own", connection=own("127.0.0.1", postgres.port, password=password)
    )
    await world.ready(allowed)
    await configure(world, connections={"policy": "Forbidden", "hosts": None})
    await world.wait(allowed, failed_with("PolicyDenied"))
    await world.delete(allowed)
    # Its role is there, and not forgotten.
    await world.wait(
        allowed,
        lambda body: "deletionTimestamp" in body["metadata"] and failed_with("PolicyDenied")(body),
    )
    assert await world.role_exists(allowed)
    await configure(world, connections={"policy": "Allowed"})
    await world.gone(allowed)
    assert not await world.role_exists(allowed)


async def test_messages_tell_no_tenant_what_else_listens_where(
    world: World, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "CONNECT_SECONDS", 2)
    async with Hanging(postgres, after_login=False) as silent:
        ports = {"silent": silent.port, "closed": 1}
        messages = set()
        for suffix, port in ports.items():
            name = await world.create(suffix, connection=own("127.0.0.1", port))
            body = await world.wait(name, failed_with("ConnectionFailed"))
            messages.add(condition(body, "Ready")["message"].replace(f":{port};", ":PORT;"))
        assert len(messages) == 1
        await configure(world, connections={"hosts": ["127.0.0.1"]})
        await world.wait(world.name("silent"), failed_with("did not answer in time"))
        await world.wait(world.name("closed"), failed_with("nothing listens"))


async def test_what_a_server_is_made_of_is_looked_at_again_when_it_changes(
    world: World, postgres: EmbeddedPostgres
) -> None:
    name = await world.create()
    await world.ready(name)

    async def write(password: str) -> None:
        encoded = base64.b64encode(password.encode()).decode()
        patch = {"data": {"password": encoded}}
        await world.admin.merge_patch(SECRETS, world.server, DEFAULT_NAMESPACE, patch)

    def refused(body: JSON) -> bool:
        # The credentials are refused, and the access is in sync nonetheless.
        message = condition(body, "Ready")["message"]
        return is_ready(body) and f"correct the credentials in Secret {world.server}" in message

    await write("wrong")
    await world.wait(name, refused)
    await write(postgres.password)
    await world.wait(name, lambda body: is_ready(body) and not refused(body))
    await world.admin.merge_patch(
        NAMESPACES, world.namespace, "", {"metadata": {"labels": {"team": None}}}
    )
    await world.wait(name, failed_with("allowedNamespaces does not select"))
    await world.admin.merge_patch(
        NAMESPACES, world.namespace, "", {"metadata": {"labels": {"team": world.id}}}
    )
    await world.ready(name)
    await world.admin.merge_patch(
        POSTGRESSERVERS, world.server, "", {"spec": {"allowedPrivileges": ["SELECT"]}}
    )
    await world.patch(name, grants=[grant(world.database, "CONNECT")])
    await world.wait(name, failed_with("allowedPrivileges does not allow CONNECT"))


LOCKED = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


async def test_what_changes_while_a_server_is_at_work_is_looked_at_afterwards(
    world: World, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await world.create()
    await world.ready(name)
    monkeypatch.setattr(sync, "PATIENT", Patience(round(SECONDS * 1000)))
    async with await psycopg.AsyncConnection.connect(postgres.dsn()) as holder:
        role = sql.Identifier(name)
        await holder.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 7").format(role))
        await world.patch(name, attributes={"connectionLimit": 3})
        while not await world.fetch(LOCKED):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await world.admin.merge_patch(
            NAMESPACES, world.namespace, "", {"metadata": {"labels": {"team": None}}}
        )
        assert await idle(0.5)
    await world.wait(name, failed_with("allowedNamespaces does not select"))


async def test_the_controller_sums_up_the_servers(world: World) -> None:
    await configure(world, excludedUsers=[world.name("excluded")])
    for suffix in ("app", "other"):
        await world.ready(await world.create(suffix))
    await world.create("excluded")

    def summed(body: JSON) -> bool:
        servers = (body.get("status") or {}).get("servers") or []
        return {"name": world.server, "ready": 2, "failing": 1} in servers

    body = await when(world.admin, CONTROLLERS, "settings", DEFAULT_NAMESPACE, until=summed)
    version = body["metadata"]["resourceVersion"]
    assert await idle(0.5)
    found = await world.admin.get(CONTROLLERS, "settings", DEFAULT_NAMESPACE)
    assert found.meta.resource_version == version


async def test_nothing_is_worked_on_before_the_controllers_are_known(still: World) -> None:
    """A role may be excluded by a Controller that nobody has listed yet."""
    if still.is_real:
        pytest.skip("other tests use the kind on this server")
    name = f"{CONTROLLERS.plural}.{CONTROLLERS.group}"
    await still.admin.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(still.admin, CUSTOMRESOURCEDEFINITIONS, name)
    access = await still.create()
    async with running(still.admin, OPTIONS):
        assert await idle(1.0)
        found = await still.admin.get(POSTGRESACCESSES, access, still.namespace)
        assert found.meta.finalizers == []
        await install_crds(still.admin, exported=True)
        await still.ready(access)


def documents(name: str) -> list[JSON]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


ORIGINAL = [
    {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresAccess",
        "metadata": {"name": "original"},
        "spec": {
            "generatedSecret": "credentials",
            "username": "my-app-user",
            "connection": connection,
            "grants": [{"database": "postgres", "privileges": ["CONNECT", "SELECT"]}],
        },
    }
    for connection in (
        {
            "host": "localhost",
            "port": 5432,
            "database": "postgres",
            "username": {"value": "postgres"},
            "password": {"value": "postgres"},
        },
        {
            "host": "localhost",
            "port": 5432,
            "database": "postgres",
            "username": {"secretRef": {"name": "admin", "key": "username"}},
            "password": {"secretRef": {"name": "admin", "key": "password"}},
        },
        {"existingSecret": "admin", "existingSecretNamespace": "platform-databases"},
    )
]


@pytest.mark.parametrize(
    "body",
    [
        *documents("controller.yaml"),
        *documents("by-secret.yaml"),
        *documents("written-out.yaml"),
        *ORIGINAL,
        controller(
            existingSecretNamespace=False,
            postgres={"excludedUsers": ["postgres"], "staleUserDeletionPolicy": "Restrict"},
            rabbitmq={"staleUserDeletionPolicy": "Restrict", "staleVhostDeletionPolicy": "Retain"},
            redis={"staleUserDeletionPolicy": "Restrict"},
        ),
    ],
    ids=lambda body: f"{body['kind']}-{body['metadata']['name']}",
)
async def test_manifests_are_taken_as_they_are(control_plane: ControlPlane, body: JSON) -> None:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        resource = CONTROLLERS if body["kind"] == "Controller" else POSTGRESACCESSES
        body = body | {"metadata": {"name": body["metadata"]["name"], "namespace": "default"}}
        taken = await admin.create(resource, body, dry_run=True)
        spec = taken.to_dict()["spec"]
        # Defaults may be added; nothing that was sent is dropped or changed.
        assert {name: spec.get(name) for name in body["spec"]} == body["spec"]


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        pytest.param({}, "set one of serverRef, existingSecret", id="none"),
        pytest.param(
            {"serverRef": {"name": "main"}, "existingSecret": "admin"}, "set one of", id="two"
        ),
        pytest.param({"host": "db", "existingSecret": "admin"}, "set one of", id="another-two"),
        pytest.param({"host": "db"}, "host needs username", id="half"),
        pytest.param(
            {"serverRef": {"name": "main"}, "caSecretRef": {"name": "ca"}},
            "the PostgresServer has the certificates",
            id="certificates-of-a-server",
        ),
        pytest.param(
            {"existingSecret": "admin", "caSecretRef": {"name": "ca"}, "sslMode": "prefer"},
            "caSecretRef needs an sslMode",
            id="a-ca-of-no-use",
        ),
    ],
)
async def test_connections_are_checked_at_admission(
    sandboxplane: ControlPlane, connection: JSON, message: str
) -> None:
    """Kubernetes before 1.23 knows no rules: there the operator says it."""
    async with Client(parse_kubeconfig(sandboxplane.kubeconfig())) as admin:
        await prepare(admin)
        body = ORIGINAL[0] | {"spec": {**ORIGINAL[0]["spec"], "connection": connection}}  # type: ignore[dict-item]
        with pytest.raises(Invalid, match=message):
            await admin.create(POSTGRESACCESSES, body, "default", dry_run=True)
