"""Generated Secrets and passwords on both control planes, with a real PostgreSQL behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest
from tests.support import binding
from tests.support.pgworld import World, grant
from tests.support.planes import ControlPlane, SandboxControlPlane
from tests.support.postgres import access, credentials, prepare, running, server_profile
from tests.support.waiting import SECONDS, condition, failed_with, idle, is_ready, when

from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.postgresaccess.connection import PasswordPolicy
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.timestamps import moment
from fairlead.client import Client, NotFound, parse_kubeconfig
from fairlead.demo.pods.runner import RunResult, run_workload
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access import controller, publication
from fairlead.postgres.controllers.rules.login_secret import URIS_ANNOTATION
from fairlead.postgres.controllers.servers import work
from fairlead.postgres.controllers.servers.jobs import Answer
from fairlead.postgres.database.work.sync import Check, check_claims, sync
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions


OPTIONS = PostgresOptions(pending_interval=0.5)
ODD = [
    "'`\\\"%@:/?#&= +é",
    "x" * 1024,
    "%" * 300,
    "SCRAM-SHA-256$4096:c2FsdA==$YQ==:YQ==",
    " a b ",
]


@pytest.fixture
async def world(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """A namespace, a server profile and a database, with no operator at work yet."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = World(admin, postgres, is_real=control_plane.is_real)
        await made.arrive()
        await made.create_database()
        yield made
        async with running(admin, OPTIONS):
            await made.leave()


@pytest.fixture
async def operator(world: World) -> AsyncIterator[None]:
    async with running(world.admin, OPTIONS):
        yield


async def annotate(world: World, name: str, **annotations: str) -> None:
    await world.admin.merge_patch(
        POSTGRESACCESSES, name, world.namespace, {"metadata": {"annotations": annotations}}
    )


async def edit(world: World, name: str, **data: str) -> None:
    await world.admin.merge_patch(SECRETS, name, world.namespace, {"stringData": data})


async def raw(world: World, name: str) -> JSON:
    return (await world.admin.get(SECRETS, name, world.namespace)).to_dict()


async def create_secret(world: World, name: str, **data: str) -> None:
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": world.namespace},
        "stringData": data,
    }
    await world.admin.create(SECRETS, body)


async def logs_in(world: World, username: str, password: str, **options: Any) -> bool:
    try:
        connection = await psycopg.AsyncConnection.connect(
            host=world.postgres.host,
            port=world.postgres.port,
            user=username,
            dbname=world.database,
            password=password or None,
            **options,
        )
    except psycopg.OperationalError:
        return False
    await connection.close()
    return True


async def settled(world: World, name: str, changed_at: str, *, other: bool = True) -> JSON:
    """The access, ready, once its status tells of another password than that of then."""

    def until(body: JSON) -> bool:
        known = body.get("status", {}).get("password", {})
        return is_ready(body) and (known.get("fingerprint") != changed_at) is other

    return await world.wait(name, until)


def fingerprint(body: JSON) -> str:
    found: str = body["status"]["password"]["fingerprint"]
    return found


@pytest.mark.usefixtures("operator")
async def test_every_form_of_the_login_logs_in_whatever_the_password(
    world: World, tmp_path: Path
) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    print_ = fingerprint(await world.ready(name))
    old = await world.secret(name)
    for number, password in enumerate(ODD):
        await edit(world, f"{name}-login", password=password)
        body = await settled(world, name, print_)
        print_ = fingerprint(body)
        assert password not in str(body)
        # The operator writes the password's other forms together with nothing else.
        secret = await world.secret(name)
        assert secret["password"] == password
        assert await world.logs_in(secret["uri"])
        assert await logs_in(world, secret["user"], password, sslmode=secret["sslmode"])
        file = tmp_path / f"pgpass{number}"
        file.write_text(secret["pgpass"], encoding="utf-8")
        file.chmod(0o600)
        assert await logs_in(world, name, "", passfile=str(file))
        jdbc = urlsplit(secret["jdbc-uri"].removeprefix("jdbc:"))
        assert parse_qs(jdbc.query) == {
            "user": [name],
            "password": [password],
            "sslmode": ["disable"],
        }
        assert (jdbc.hostname, jdbc.port) == (world.postgres.host, world.postgres.port)
        assert unquote(jdbc.path) == f"/{world.database}"
        assert not await logs_in(world, name, f"{password}x")
        assert not await logs_in(world, name, old["password"])
        old = secret


@pytest.mark.edge
@pytest.mark.usefixtures("operator")
async def test_a_template_makes_keys_labels_and_annotations_and_takes_them_back(
    world: World,
) -> None:
    template = {
        "type": "servicebinding.io/postgresql",
        "labels": {"tier": "gold"},
        "annotations": {"note": "by template"},
        "data": {
            "DSN": "{{url}}?sslmode={{sslmode}}",
            "app.json": '{"password":{{password|json}}}',
        },
    }
    name = await world.create(grants=[grant(world.database, "CONNECT")], secretTemplate=template)
    body = await world.ready(name)
    secret = await world.secret(name)
    assert await world.logs_in(secret["DSN"])
    assert secret["app.json"] == f'{{"password":"{secret["password"]}"}}'
    made = await raw(world, f"{name}-login")
    assert made["type"] == "servicebinding.io/postgresql"
    assert made["metadata"]["labels"]["tier"] == "gold"
    assert made["metadata"]["annotations"]["note"] == "by template"
    secret_info = {"name": f"{name}-login", "uid": made["metadata"]["uid"], "uris": "Verified"}
    assert body["status"]["secret"] == secret_info

    await edit(world, f"{name}-login", theirs="kept")
    await world.patch(
        name,
        secretTemplate={
            "labels": None,
            "includeDefaultKeys": False,
            "data": {"DSN": None, "app.json": None, "USER": "{{username}}"},
        },
    )
    changed = await when(
        world.admin, SECRETS, f"{name}-login", world.namespace,
        until=lambda body: "USER" in body.get("data", {}),
    )  # fmt: skip
    assert set(changed["data"]) == {"username", "password", "USER", "theirs"}
    assert "tier" not in changed["metadata"]["labels"]
    assert (await world.secret(name))["password"] == secret["password"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"secretTemplate": {"data": {"DSN": "{{pasword}}"}}},
            "SecretTemplateInvalid: spec.secretTemplate.data: key DSN: '{{pasword}}'",
            id="template",
        ),
        pytest.param(
            {"passwordPolicy": {"alphabet": "0123", "length": 16}},
            "PasswordPolicyInvalid: spec.passwordPolicy.alphabet",
            id="policy",
        ),
        pytest.param(
            {"passwordSecretRef": {"name": "absent"}}, "PasswordSecretMissing", id="no-password"
        ),
    ],
)
@pytest.mark.usefixtures("operator")
async def test_what_cannot_be_is_said_before_anything_is_made(
    world: World, spec: JSON, message: str
) -> None:
    name = await world.create(**spec)
    await world.wait(name, failed_with(f"SecretSyncFailed {message}"))
    with pytest.raises(NotFound):
        await world.secret(name)
    assert not await world.role_exists(name)


class Clock:
    """The operator's clock, as far ahead of the machine's as a test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta()
        monkeypatch.setattr(publication, "moment", lambda: moment() + self.ahead)
        monkeypatch.setattr(controller, "moment", lambda: moment() + self.ahead)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


_pokes = itertools.count()


async def poke(world: World, name: str) -> None:
    """Have the operator look at the access, without wanting anything else of it."""
    await annotate(world, name, poke=str(next(_pokes)))


async def looked_at(world: World, name: str) -> JSON:
    """The access after another look, which a change of its status tells of."""
    # Two at least: one is what most tests create the access with, and no change.
    times = next(_pokes) % 60 + 2
    await world.patch(name, grants=[grant(world.database, "CONNECT")] * times)
    return await world.ready(name)


async def trigger(world: World, clock: Clock, name: str, way: str) -> None:
    match way:
        case "timed":
            clock.ahead += timedelta(hours=2)
            await poke(world, name)
        case "annotated":
            await annotate(world, name, **{ROTATE_ANNOTATION: f"value {next(_pokes)}"})
        case "deleted":
            await world.admin.delete(SECRETS, f"{name}-login", world.namespace)
        case _:
            await edit(world, f"{name}-login", password="")


WAYS = ["timed", "annotated", "deleted", "emptied"]
POLICY = {"rotateEvery": "1h", "alphabet": "alphanumeric", "length": 40, "iterations": 8192}
HOURLY: JSON = {"passwordPolicy": POLICY}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("operator")
async def test_a_password_is_rotated_once(world: World, clock: Clock, way: str) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")], **HOURLY)
    first, known = await world.ready(name), await world.secret(name)
    for _ in range(2):
        await trigger(world, clock, name, way)
        second = await settled(world, name, fingerprint(first))
        secret = await world.secret(name)
        assert secret["password"] != known["password"]
        assert secret["password"].isalnum()
        assert len(secret["password"]) == 40
        stored = await world.fetch("SELECT rolpassword FROM pg_authid WHERE rolname = %s", name)
        assert stored[0][0].startswith("SCRAM-SHA-256$8192:")
        assert await world.logs_in(secret["uri"])
        assert not await world.logs_in(known["uri"])
        assert fingerprint(await looked_at(world, name)) == fingerprint(second)
        assert await world.secret(name) == secret
        first, known = second, secret
    assert second["status"]["password"]["nextRotation"] > second["status"]["password"]["changedAt"]


@pytest.mark.parametrize("way", ["timed", "annotated"])
async def test_a_password_is_rotated_once_over_restarts(
    world: World, clock: Clock, way: str
) -> None:
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")], **HOURLY)
        print_ = fingerprint(await world.ready(name))
    await trigger(world, clock, name, way)
    async with running(world.admin, OPTIONS):
        print_ = fingerprint(await settled(world, name, print_))
    async with running(world.admin, OPTIONS):
        assert fingerprint(await looked_at(world, name)) == print_


async def test_options_are_the_defaults_of_policies(world: World, clock: Clock) -> None:
    options = PostgresOptions(
        passwords=PasswordPolicy(length=48, alphabet="hex", rotate_every="1h")
    )
    async with running(world.admin, options):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        print_ = fingerprint(await world.ready(name))
        secret = await world.secret(name)
        assert len(bytes.fromhex(secret["password"])) == 24
        await trigger(world, clock, name, "timed")
        await settled(world, name, print_)
        assert not await world.logs_in(secret["uri"])


async def test_the_clock_alone_rotates(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody changes anything: the operator wakes up by itself."""
    clock = Clock(monkeypatch)
    async with running(world.admin, OPTIONS):
        name = await world.create(**HOURLY)
        print_ = fingerprint(await world.ready(name))
    # A minute's period cannot be awaited in a test: all but a second of the hour has passed.
    clock.ahead = timedelta(hours=1, seconds=-1)
    async with running(world.admin, OPTIONS):
        await settled(world, name, print_)


class Tripwire:
    """Stops the operator for good right before or after one of its writes, as a kill does."""

    def __init__(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hit = asyncio.Event()
        self._admin = admin
        self._where: tuple[str, bool] | None = None
        for verb in ("create", "merge_patch"):
            monkeypatch.setattr(Client, verb, self._wrapped(getattr(Client, verb)))

    def set(self, what: str, *, after: bool) -> None:
        self.hit.clear()
        self._where = (what, after)

    def remove(self) -> None:
        self._where = None

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(client: Client, resource: Resource, *args: Any, **options: Any) -> Object:
            what = "status" if options.get("subresource") == "status" else resource.kind
            if client is not self._admin:
                await self._stop(what, after=False)
            answer: Object = await method(client, resource, *args, **options)
            if client is not self._admin:
                await self._stop(what, after=True)
            return answer

        return call

    async def _stop(self, what: str, *, after: bool) -> None:
        if self._where == (what, after):
            self.hit.set()
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def killed(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tripwire]:
    """An operator at work, which ends where the wire is set in the meantime."""
    wire = Tripwire(world.admin, monkeypatch)
    async with running(world.admin, OPTIONS):
        yield wire
        async with asyncio.timeout(SECONDS):
            await wire.hit.wait()
    wire.remove()


KILLS = [
    pytest.param("Secret", False, id="before-the-secret"),
    pytest.param("Secret", True, id="after-the-secret"),
    pytest.param("status", False, id="after-the-database"),
    pytest.param("status", True, id="after-the-status"),
]


@pytest.mark.extended
@pytest.mark.parametrize(("what", "after"), KILLS)
@pytest.mark.parametrize("way", WAYS)
async def test_an_operator_killed_at_any_step_rotates_once_and_loses_no_login(
    world: World,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    what: str,
    after: bool,
) -> None:
    async with killed(world, monkeypatch) as wire:
        name = await world.create(grants=[grant(world.database, "CONNECT")], **HOURLY)
        first, known = await world.ready(name), await world.secret(name)
        wire.set(what, after=after)
        await trigger(world, clock, name, way)
    then = ""
    with contextlib.suppress(NotFound):
        then = (await world.secret(name)).get("password", "")
    written = then not in {"", known["password"]}
    assert written is ((what, after) != ("Secret", False))
    async with running(world.admin, OPTIONS):
        second = await settled(world, name, fingerprint(first))
        secret = await world.secret(name)
        if written:
            assert secret["password"] == then
        assert await world.logs_in(secret["uri"])
        assert not await world.logs_in(known["uri"])
        assert fingerprint(await looked_at(world, name)) == fingerprint(second)
        assert (await world.secret(name))["password"] == secret["password"]


@pytest.mark.extended
@pytest.mark.parametrize(("what", "after"), KILLS)
async def test_an_operator_killed_at_any_step_of_a_creation_has_one_login(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str, after: bool
) -> None:
    async with killed(world, monkeypatch) as wire:
        wire.set(what, after=after)
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        await annotate(world, name, **{ROTATE_ANNOTATION: "from the beginning"})
    then = ""
    with contextlib.suppress(NotFound):
        then = (await world.secret(name))["password"]
    async with running(world.admin, OPTIONS):
        await world.ready(name)
        secret = await world.secret(name)
        assert await world.logs_in(secret["uri"])
        assert secret["password"] == then or not then


async def test_no_password_is_made_for_a_server_that_is_away(
    world: World, postgres: EmbeddedPostgres
) -> None:
    async with EmbeddedPostgres() as frail, running(world.admin, OPTIONS):
        profile = f"frail-{world.id}"
        await world.admin.create(SECRETS, credentials(profile, frail))
        await world.admin.create(POSTGRESSERVERS, server_profile(profile, frail))
        name = world.name()
        await world.admin.create(POSTGRESACCESSES, access(name, world.namespace, profile))
        print_ = fingerprint(await world.ready(name))
        secret = await world.secret(name)
        await frail.stop_server()
        await annotate(world, name, **{ROTATE_ANNOTATION: "now"})
        await world.wait(name, failed_with("ConnectionFailed"))
        assert await world.secret(name) == secret
        await frail.start_server()
        await settled(world, name, print_)
        assert not await world.logs_in(secret["uri"])
        assert await world.logs_in((await world.secret(name))["uri"])
        await world.delete(name)
        await world.gone(name)
        await world.admin.delete(POSTGRESSERVERS, profile)


@pytest.mark.usefixtures("operator")
async def test_a_password_from_elsewhere_is_taken_over_when_it_changes(world: World) -> None:
    await create_secret(world, "vault", token="first, made elsewhere: é")
    name = await world.create(
        grants=[grant(world.database, "CONNECT")],
        passwordSecretRef={"name": "vault", "key": "token"},
    )
    print_ = fingerprint(await world.ready(name))
    secret = await world.secret(name)
    assert secret["password"] == "first, made elsewhere: é"
    assert await world.logs_in(secret["uri"])

    await edit(world, "vault", token="second")
    print_ = fingerprint(await settled(world, name, print_))
    assert (await world.secret(name))["password"] == "second"
    assert await logs_in(world, name, "second")
    assert not await world.logs_in(secret["uri"])
    # What is edited here is put right again, for the password is made elsewhere.
    await edit(world, f"{name}-login", password="mine")
    await when(
        world.admin, SECRETS, f"{name}-login", world.namespace,
        until=lambda body: base64.b64decode(body["data"]["password"]) == b"second",
    )  # fmt: skip
    await annotate(world, name, **{ROTATE_ANNOTATION: "not here"})
    await edit(world, "vault", token="ends in a line break\n")
    await world.wait(name, failed_with("PasswordInvalid: key token of Secret"))
    await world.admin.delete(SECRETS, "vault", world.namespace)
    await world.wait(name, failed_with("PasswordSecretMissing"))
    assert await logs_in(world, name, "second")
    await create_secret(world, "vault", token="third")
    await settled(world, name, print_)
    assert await logs_in(world, name, "third")

    # Given up, the password stays the one that works, and the annotation is heard again.
    await world.patch(name, passwordSecretRef=None)
    body = await world.ready(name)
    assert await logs_in(world, name, "third")
    await annotate(world, name, **{ROTATE_ANNOTATION: "here"})
    await settled(world, name, fingerprint(body))
    assert not await logs_in(world, name, "third")
    theirs = await raw(world, "vault")
    assert base64.b64decode(theirs["data"]["token"]) == b"third"


@pytest.mark.usefixtures("operator")
async def test_a_password_is_not_taken_from_the_secret_that_it_goes_into(world: World) -> None:
    name = world.name()
    await world.create(passwordSecretRef={"name": f"{name}-login"})
    await world.wait(name, failed_with("PasswordInvalid: spec.passwordSecretRef names"))


@pytest.mark.usefixtures("operator")
async def test_a_renamed_secret_keeps_the_password_and_the_old_one_goes_last(
    world: World,
) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    secret = await world.secret(name)
    await world.patch(name, generatedSecret=f"{name}-new")
    await world.wait(name, lambda body: body["status"]["secret"]["name"] == f"{name}-new")
    renamed = (await world.admin.get(SECRETS, f"{name}-new", world.namespace)).to_dict()
    assert base64.b64decode(renamed["data"]["uri"]).decode() == secret["uri"]
    assert await world.logs_in(secret["uri"])
    await when(world.admin, SECRETS, f"{name}-login", world.namespace, until=lambda body: not body)


async def as_of_the_former_version(world: World, name: str) -> None:
    """Make Secret and status like those of the version that wrote no TLS mode into URIs."""
    login, secret = f"{name}-login", await world.secret(name)
    plain = {key: secret[key].partition("sslmode=")[0][:-1] for key in ("uri", "jdbc-uri")}
    annotations = {URIS_ANNOTATION: None}
    body: JSON = {"stringData": plain, "metadata": {"annotations": annotations}}
    await world.admin.merge_patch(SECRETS, login, world.namespace, body)
    status: JSON = {"status": {"secret": {"uris": None}}}
    await world.admin.merge_patch(
        POSTGRESACCESSES, name, world.namespace, status, subresource="status"
    )


@pytest.mark.parametrize("immutable", [False, True])
async def test_an_upgrade_leaves_uris_as_they_are_until_others_are_asked_for(
    world: World, immutable: bool
) -> None:
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        await world.ready(name)
    login, new = f"{name}-login", await world.secret(name)
    assert new["uri"].endswith("?sslmode=disable")
    assert new["jdbc-uri"].endswith("&sslmode=disable")
    await as_of_the_former_version(world, name)
    flags: JSON = {"immutable": True} if immutable else {}
    await world.admin.merge_patch(SECRETS, login, world.namespace, flags)
    before, plain = await raw(world, login), (await world.secret(name))["uri"]
    assert "sslmode" not in plain
    async with running(world.admin, OPTIONS):
        body = await looked_at(world, name)
        assert body["status"]["secret"]["uris"] == "Plain"
        assert await raw(world, login) == before

        # One that is made anew, as its access still is the same, has what clients can use.
        await world.admin.delete(SECRETS, login, world.namespace)
        body = await settled(world, name, fingerprint(body))
        made = await world.secret(name)
        assert made["uri"] == plain.replace(new["password"], made["password"])
        assert await world.logs_in(made["uri"])
        assert (await raw(world, login))["metadata"]["annotations"][URIS_ANNOTATION] == "Plain"

        await world.patch(name, secretTemplate={"uris": "Verified"})
        changed = await when(
            world.admin, SECRETS, login, world.namespace,
            until=lambda body: body["metadata"]["annotations"][URIS_ANNOTATION] == "Verified",
        )  # fmt: skip
        verified = await world.secret(name)
        assert verified["uri"] == f"{made['uri']}?sslmode=disable"
        assert verified["jdbc-uri"] == f"{made['jdbc-uri']}&sslmode=disable"
        assert verified["password"] == made["password"]
        assert await world.logs_in(verified["uri"])
        await world.ready(name)

        await world.patch(name, secretTemplate=None)
        assert (await looked_at(world, name))["status"]["secret"]["uris"] == "Verified"
        assert (await raw(world, login))["data"] == changed["data"]


async def test_a_backup_of_the_secret_keeps_the_form_of_its_uris(world: World) -> None:
    """The access comes back without its status, and the Secret without its owner."""
    async with running(world.admin, OPTIONS):
        name = await world.create(
            grants=[grant(world.database, "CONNECT")], secretTemplate={"uris": "Plain"}
        )
        await world.ready(name)
        backup, secret = await raw(world, f"{name}-login"), await world.secret(name)
        await world.delete(name)
        await world.gone(name)
        kept = {key: backup["metadata"][key] for key in ("name", "labels", "annotations")}
        restored = {"metadata": kept, "type": backup["type"], "data": backup["data"]}
        await world.admin.create(SECRETS, restored, world.namespace)
        await world.create(grants=[grant(world.database, "CONNECT")])
        body = await world.ready(name)
        assert body["status"]["secret"]["uris"] == "Plain"
        assert await world.secret(name) == secret
        assert await world.logs_in(secret["uri"])


@pytest.mark.usefixtures("operator")
async def test_two_accesses_do_not_share_a_secret(world: World) -> None:
    first = await world.create("first", generatedSecret="shared")
    await world.ready(first)
    before = await raw(world, "shared")
    second = await world.create("second", generatedSecret="shared")
    body = await world.wait(second, failed_with("SecretSyncFailed SecretConflict"))
    assert f"controlled by PostgresAccess {first}" in condition(body, "Ready")["message"]
    assert not await world.role_exists(second)
    assert await raw(world, "shared") == before
    await world.delete(second)
    await world.gone(second)
    assert await raw(world, "shared") == before


async def test_what_a_deleted_namesake_left_behind_is_replaced(world: World) -> None:
    """Its owner reference has the uid of an object that is gone; nobody collects it here."""
    name = world.name()
    left: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{name}-login",
            "namespace": world.namespace,
            "labels": {"app.kubernetes.io/managed-by": "fairlead-postgres"},
            "ownerReferences": [
                {
                    "apiVersion": POSTGRESACCESSES.api_version,
                    "kind": POSTGRESACCESSES.kind,
                    "name": name,
                    "uid": "00000000-0000-0000-0000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "stringData": {"password": "of another life"},
    }
    async with running(world.admin, OPTIONS):
        # The sandbox collects what has lost its owner; then there is nothing to replace.
        await world.admin.create(SECRETS, left)
        await world.create()
        await world.ready(name)
        secret = await world.secret(name)
        assert secret["password"] != "of another life"
        assert await world.logs_in(secret["uri"])


@pytest.mark.usefixtures("operator")
async def test_a_secret_is_put_right_and_keeps_what_others_put_in(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    secret = await world.secret(name)
    login = f"{name}-login"
    await edit(world, login, username="another", uri="x", theirs="kept")
    await world.admin.merge_patch(
        SECRETS, login, world.namespace,
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": None, "theirs": "yes"}}},
    )  # fmt: skip
    healed = await when(
        world.admin, SECRETS, login, world.namespace,
        until=lambda body: base64.b64decode(body["data"]["username"]).decode() == name
        and "app.kubernetes.io/managed-by" in body["metadata"]["labels"],
    )  # fmt: skip
    assert healed["metadata"]["labels"]["theirs"] == "yes"
    assert await world.secret(name) == secret | {"theirs": "kept"}

    await world.admin.merge_patch(SECRETS, login, world.namespace, {"immutable": True})
    await looked_at(world, name)
    await annotate(world, name, **{ROTATE_ANNOTATION: "now"})
    await world.wait(name, failed_with("SecretConflict: Secret"))
    assert await world.logs_in(secret["uri"])
    await world.admin.delete(SECRETS, login, world.namespace)
    await world.ready(name)
    assert not await world.logs_in(secret["uri"])


class Requests:
    """What the operator asks of Secrets, in order."""

    def __init__(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        for verb in ("get", "create", "merge_patch", "delete"):
            monkeypatch.setattr(Client, verb, self._wrapped(admin, verb, getattr(Client, verb)))

    def _wrapped(self, admin: Client, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(client: Client, resource: Resource, *args: Any, **options: Any) -> Any:
            if client is not admin and resource == SECRETS:
                first = args[0]
                name = first if isinstance(first, str) else first["metadata"]["name"]
                self.seen.append(f"{verb} {name}")
            return await method(client, resource, *args, **options)

        return call


async def test_a_first_secret_takes_one_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests(world.admin, monkeypatch)
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        await world.ready(name)
    login = [one for one in requests.seen if one.endswith(f" {name}-login")]
    assert login[0] == f"create {name}-login"
    assert set(login[1:]) <= {f"get {name}-login"}


async def test_a_secret_that_the_cache_does_not_know_is_looked_at(world: World) -> None:
    """Its label was taken off while no operator was at work."""
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        print_ = fingerprint(await world.ready(name))
    unlabelled = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await world.admin.merge_patch(SECRETS, f"{name}-login", world.namespace, unlabelled)
    async with running(world.admin, OPTIONS):
        assert fingerprint(await looked_at(world, name)) == print_
    labels = (await raw(world, f"{name}-login"))["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "fairlead-postgres"


@pytest.mark.parametrize("control_plane", ["sandbox"], indirect=True)
async def test_a_secret_that_came_and_went_unseen_is_made_anew(
    world: World, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No watch tells of it, and no list that follows has it."""
    assert isinstance(control_plane, SandboxControlPlane)
    monkeypatch.setattr(bounds, "UNDONE_SECONDS", 0.2)
    async with running(world.admin, OPTIONS):
        await world.ready(await world.create("first", grants=[grant(world.database, "CONNECT")]))
        await control_plane.lose("secrets", 2)
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        body = await world.ready(name)
        await world.admin.delete(SECRETS, f"{name}-login", world.namespace)
        await settled(world, name, fingerprint(body))
        assert await world.logs_in((await world.secret(name))["uri"])


async def test_a_password_that_is_due_outlives_a_look_that_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers the next question of the same pass, and nothing else is to be done."""
    monkeypatch.setattr(bounds, "UNDONE_SECONDS", 0.2)
    away = asyncio.Event()

    async def failed(sessions: Any, claims: Sequence[Check]) -> Mapping[str, Answer]:
        if not away.is_set():
            return await check_claims(sessions, claims)
        away.clear()
        return {one.names[0]: AccessError("ConnectionFailed", "it is away") for one in claims}

    monkeypatch.setattr(work, "check_claims", failed)
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        body = await world.ready(name)
        away.set()
        await annotate(world, name, **{ROTATE_ANNOTATION: "now"})
        await settled(world, name, fingerprint(body))
        assert not away.is_set()
        assert await world.logs_in((await world.secret(name))["uri"])


async def test_a_secret_deleted_while_it_is_written_is_made_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = world.admin
    deleted: list[str] = []
    get = Client.get

    async def racing(client: Client, resource: Resource, name: str, *args: Any) -> Object:
        found = await get(client, resource, name, *args)
        if client is not admin and name.endswith("-login") and armed.is_set():
            armed.clear()
            deleted.append(name)
            await admin.delete(SECRETS, name, world.namespace)
        return found

    states: list[str] = []
    merge_patch = Client.merge_patch

    async def noting(
        client: Client, resource: Resource, name: str, namespace: str, patch: JSON, **options: str
    ) -> Object:
        states.append(patch.get("status", {}).get("lastReconcileState", ""))
        return await merge_patch(client, resource, name, namespace, patch, **options)

    armed = asyncio.Event()
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        body = await world.ready(name)
        monkeypatch.setattr(Client, "get", racing)
        monkeypatch.setattr(Client, "merge_patch", noting)
        armed.set()
        await edit(world, f"{name}-login", username="wrong")
        await settled(world, name, fingerprint(body))
        assert deleted == [f"{name}-login"]
        assert "Error" not in states
        assert await world.logs_in((await world.secret(name))["uri"])


@pytest.mark.parametrize("change", ["edited", "deleted", "given"])
async def test_a_change_while_the_server_is_at_work_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    go_on.set()

    async def held(*args: Any, **options: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await sync(*args, **options)

    monkeypatch.setattr(work, "sync", held)
    given: JSON = {"passwordSecretRef": {"name": "vault"}} if change == "given" else {}
    await create_secret(world, "vault", password="first")
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")], **given)
        body = await world.ready(name)
        known = await world.secret(name)
        go_on.clear()
        begun.clear()
        await world.patch(name, grants=[grant(world.database, "CONNECT", "TEMPORARY")])
        async with asyncio.timeout(SECONDS):
            await begun.wait()
        match change:
            case "edited":
                await edit(world, f"{name}-login", password="edited")
            case "deleted":
                await world.admin.delete(SECRETS, f"{name}-login", world.namespace)
            case _:
                await edit(world, "vault", password="second")
        # The operator hears of it now, and can do nothing about it yet.
        await idle(0.5)
        go_on.set()
        await settled(world, name, fingerprint(body))
        assert await world.logs_in((await world.secret(name))["uri"])
        assert not await world.logs_in(known["uri"])


@pytest.mark.edge
@pytest.mark.parametrize("policy", [{}, {"rotation": "TwoLogins"}], ids=["one", "two"])
async def test_a_binding_takes_it_and_a_rotation_arrives_in_the_app(
    world: World, policy: JSON
) -> None:
    await binding.prepare(world.admin)
    team = binding.Team(world.admin, world.namespace)
    code = (
        "import os, pathlib, psycopg;"
        "read = lambda key: (pathlib.Path(os.environ['SERVICE_BINDING_ROOT']) / 'shop' / key)"
        ".read_text();"
        "print(read('type'), read('provider'));"
        "psycopg.connect(read('uri')).close(); print(read('password'))"
    )
    async with running(world.admin, OPTIONS), binding.running(world.admin):
        name = await world.create(grants=[grant(world.database, "CONNECT")], passwordPolicy=policy)
        print_ = fingerprint(await world.ready(name))
        await team.deployment("shop")
        service = {
            "apiVersion": POSTGRESACCESSES.api_version,
            "kind": POSTGRESACCESSES.kind,
            "name": name,
        }
        workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        await team.create(SERVICEBINDINGS, "shop", spec={"service": service, "workload": workload})
        await team.says("shop", "Ready", "True", "ApplicationsBound")
        for value in ("1", "2"):
            result = await run_workload(
                world.admin,
                DEPLOYMENTS,
                world.namespace,
                "shop",
                command=[sys.executable, "-c", code],
                capture=True,
            )
            password = (await world.secret(name))["password"]
            assert result == RunResult(0, f"postgresql fairlead\n{password}\n")
            await annotate(world, name, **{ROTATE_ANNOTATION: value})
            print_ = fingerprint(await settled(world, name, print_))
        await team.delete(SERVICEBINDINGS, "shop")
        await team.when(SERVICEBINDINGS, "shop", lambda body: not body)


async def test_no_secret_of_theirs_is_read_into_a_message(world: World) -> None:
    """A password nobody could use is named by its key alone."""
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        await world.ready(name)
        long = "secret " * 200
        await edit(world, f"{name}-login", password=long)
        body = await world.wait(name, failed_with("SecretSyncFailed PasswordInvalid"))
        assert "secret secret" not in str(body)
        assert "has 1400 bytes" in condition(body, "Ready")["message"]
