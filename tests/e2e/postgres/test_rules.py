"""What admission refuses by rule, and the operator itself where servers know no rules."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest
from tests.support.pgworld import World
from tests.support.planes import ControlPlane
from tests.support.postgres import access, prepare, running
from tests.support.tiers import today
from tests.support.waiting import condition, failed_with

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.client import Client, Invalid, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import app
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.options import PostgresOptions
from fairlead_sandbox import Sandbox


_RULES = "x-kubernetes-validations"
_DIRECT = {"host": "db", "username": {"value": "a"}, "password": {"value": "b"}}
_BOTH = {"value": "a", "secretRef": {"name": "s", "key": "k"}}


class Case(NamedTuple):
    """A spec that a rule refuses: what ``spec`` has, after it was as ``before``.

    ``told`` is the reason that the operator gives, "" where it goes on with what was made before.
    """

    rule: str
    told: str
    spec: JSON
    before: JSON | None = None


def _grant(told: str, rule: str, **fields: object) -> Case:
    return Case(rule, told, {"grants": [{"database": "postgres", **fields}]})


def _connection(rule: str, **fields: object) -> Case:
    return Case(rule, "ConnectionInvalid", {"connection": fields})


_MAIN = {"serverRef": {"name": "main"}}
CASES = [
    Case(
        "passwordSecretRef cannot be combined with passwordPolicy.rotateEvery",
        "PasswordPolicyInvalid",
        {"passwordSecretRef": {"name": "s"}, "passwordPolicy": {"rotateEvery": "1h"}},
    ),
    Case(
        "passwordSecretRef cannot be combined with passwordPolicy.rotation TwoLogins",
        "PasswordPolicyInvalid",
        {"passwordSecretRef": {"name": "s"}, "passwordPolicy": {"rotation": "TwoLogins"}},
    ),
    Case(
        "passwordPolicy.onAdoption Keep cannot be combined with rotateEvery or TwoLogins",
        "PasswordPolicyInvalid",
        {"passwordPolicy": {"onAdoption": "Keep", "rotateEvery": "1h"}},
    ),
    Case(
        "passwordPolicy.onAdoption Keep cannot be combined with rotateEvery or TwoLogins",
        "PasswordPolicyInvalid",
        {"passwordPolicy": {"onAdoption": "Keep", "rotation": "TwoLogins"}},
    ),
    Case(
        "passwordPolicy.gracePeriod must not be longer",
        "PasswordPolicyInvalid",
        {"passwordPolicy": {"rotateEvery": "1h", "gracePeriod": "2h"}},
    ),
    Case(
        "rotateEvery must be between",
        "PasswordPolicyInvalid",
        {"passwordPolicy": {"rotateEvery": "59s"}},
    ),
    Case(
        "gracePeriod must be between",
        "PasswordPolicyInvalid",
        {"passwordPolicy": {"gracePeriod": "87601h"}},
    ),
    Case(
        "expiresAfter and attributes.validUntil both end the login",
        "",
        {"attributes": {"validUntil": "2099-01-01T00:00:00Z"}},
        {"expiresAfter": "1h"},
    ),
    Case("username cannot be changed", "UsernameChanged", {"username": "another"}, {}),
    Case(
        "secretTemplate.type cannot be changed",
        "SecretConflict",
        {"secretTemplate": {"type": "example.org/login"}},
        {},
    ),
    Case(
        "the keys username and password hold the login",
        "SecretTemplateInvalid",
        {"secretTemplate": {"data": {"password": "mine"}}},
    ),
    _connection("set one of serverRef, existingSecret, and host"),
    _connection("set one of serverRef, existingSecret, and host", **_MAIN, existingSecret="s"),
    _connection("host needs username, and password", host="db", username={"value": "a"}),
    _connection("host needs username, and password", username={"value": "a"}),
    _connection("the PostgresServer has the certificates", **_MAIN, caSecretRef={"name": "s"}),
    _connection("caSecretRef needs an sslMode", **_DIRECT, caSecretRef={"name": "ca"})._replace(
        spec={"connection": {**_DIRECT, "caSecretRef": {"name": "ca"}, "sslMode": "prefer"}}
    ),
    _connection("set one of value and secretRef", **{**_DIRECT, "username": _BOTH}),
    _connection("set one of value and secretRef", **{**_DIRECT, "password": _BOTH}),
    _connection("set one of value and secretRef", **{**_DIRECT, "password": {}}),
    _grant("GrantInvalid", "set either privileges or access"),
    _grant(
        "GrantInvalid",
        "set either privileges or access",
        access="ReadOnly",
        privileges=["SELECT"],
    ),
    _grant("GrantInvalid", "access is for a whole schema", access="Owner", on="Tables"),
    _grant(
        "GrantInvalid",
        "access includes USAGE on the schema",
        access="Owner",
        schemaUsage=False,
    ),
    _grant("GrantInvalid", "names need on", privileges=["SELECT"], names=["t"]),
    _grant(
        "GrantInvalid",
        "columns need on",
        on="Tables",
        names=["t"],
        columns=["c"],
        privileges=["DELETE"],
    ),
    _grant(
        "GrantInvalid",
        "includeFuture is for all",
        on="Schema",
        privileges=["USAGE"],
        includeFuture={},
    ),
    _grant("GrantInvalid", "ALL needs on", privileges=["ALL"]),
    _grant(
        "UnsupportedPrivilege",
        "privileges has one that does not exist for the kind of object in on",
        on="Sequences",
        privileges=["DELETE"],
    ),
    _grant("UnsupportedPrivilege", "SET and ALTER SYSTEM", privileges=["SELECT", "SET"]),
]
_ROWS = [pytest.param(case, id=f"{n}-{case.rule}") for n, case in enumerate(CASES)]


def _rules(schema: Any) -> Iterator[str]:
    """The messages of all rules in a part of a CRD."""
    if isinstance(schema, dict):
        for rule in schema.get(_RULES, ()):
            yield rule["message"]
        for one in schema.values():
            yield from _rules(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _rules(one)


def _without_rules(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_rules(one) for name, one in value.items() if name != _RULES}
    return [_without_rules(one) for one in value] if isinstance(value, list) else value


def test_every_rule_has_its_case() -> None:
    (kind,) = (crd for crd in crds() if crd["spec"]["names"]["kind"] == POSTGRESACCESSES.kind)
    rules = set(_rules(kind))
    assert rules
    assert {rule for rule in rules if not any(case.rule in rule for case in CASES)} == set()


@pytest.mark.edge
@pytest.mark.parametrize("case", _ROWS)
@today("no rules")
async def test_admission_refuses(control_plane: ControlPlane, case: Case) -> None:
    name = f"rules-{uuid.uuid4().hex[:8]}"
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        if case.before is None:
            body = access(name, "default", "main", **case.spec)
            with pytest.raises(Invalid, match=case.rule):
                await admin.create(POSTGRESACCESSES, body, "default", dry_run=True)
            return
        await admin.create(POSTGRESACCESSES, access(name, "default", "main", **case.before))
        try:
            with pytest.raises(Invalid, match=case.rule):
                await admin.merge_patch(POSTGRESACCESSES, name, "default", {"spec": case.spec})
        finally:
            await admin.delete(POSTGRESACCESSES, name, "default")


@pytest.fixture
async def unruled(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A control plane whose CRDs have no rules, and an operator at work there."""
    monkeypatch.setattr(app, "crds", lambda **asked: _without_rules(crds(**asked)))
    async with (
        Sandbox(name="unruled") as sandbox,
        Client(parse_kubeconfig(sandbox.kubeconfig())) as admin,
    ):
        await prepare(admin)
        made = World(admin, postgres, is_real=False)
        await made.arrive()
        async with running(
            admin, PostgresOptions(pending_interval=0.5, synced_interval=1.0, allow_adoption=True)
        ):
            yield made
            await made.leave()


async def test_the_operator_refuses_what_no_rule_does(unruled: World) -> None:
    """It says why, makes no role, and lets the object go when it is deleted."""
    secret: JSON = {"metadata": {"name": "s"}, "stringData": {"password": "p", "ca.crt": "x"}}
    secret = {"apiVersion": "v1", "kind": "Secret", **secret}
    await unruled.admin.create(SECRETS, secret, unruled.namespace)
    ca = secret | {"metadata": {"name": "ca"}}
    await unruled.admin.create(SECRETS, ca, unruled.namespace)

    async def refused(number: int, case: Case) -> None:
        first = case.spec if case.before is None else case.before
        name = await unruled.create(f"case{number}", **first)
        if case.before is not None:
            await unruled.ready(name)
            await unruled.patch(name, **case.spec)
        body = await unruled.wait(name, failed_with(case.told))
        ready = condition(body, "Ready")
        assert ready["reason"] in {
            case.told,
            "DatabaseSyncFailed",
            "SecretSyncFailed",
        }, case.rule
        if case.told != "UnsupportedPrivilege" and case.before is None:
            assert not await unruled.role_exists(name), case.rule
        await unruled.delete(name)
        await unruled.gone(name)
        assert not await unruled.role_exists(name), case.rule

    await unruled.create_database()
    async with asyncio.TaskGroup() as group:
        for number, case in enumerate(CASES):
            if case.told:
                group.create_task(refused(number, case))


_NO_NAME = "../x"
_LEADS_NOWHERE: list[tuple[str, JSON]] = [
    ("ServerNotFound", {"connection": {"serverRef": {"name": "missing"}}}),
    ("ServerNotFound", {"connection": {"serverRef": {"name": _NO_NAME}}}),
    ("ConnectionSecretMissing", {"connection": {"existingSecret": "missing"}}),
    ("ConnectionInvalid", {"connection": {"existingSecret": _NO_NAME}}),
    ("ConnectionInvalid", {"connection": {**_DIRECT, "host": "/var/run/postgresql"}}),
    ("NameInvalid", {"generatedSecret": _NO_NAME}),
    ("NameInvalid", {"generatedSecret": "Upper_Case"}),
    ("NameInvalid", {"passwordSecretRef": {"name": _NO_NAME}}),
    ("PasswordSecretMissing", {"passwordSecretRef": {"name": "missing"}}),
    (
        "both end the login",
        {"expiresAfter": "1h", "attributes": {"validUntil": "2099-01-01T00:00:00Z"}},
    ),
]


async def test_what_nothing_was_made_for_can_be_deleted(unruled: World) -> None:
    """Such as a name with a slip of the pen: no role is there that could stay behind."""

    async def made_and_deleted(number: int, told: str, spec: JSON) -> None:
        name = await unruled.create(f"nowhere{number}", **spec)
        await unruled.wait(name, failed_with(told))
        await unruled.delete(name)
        await unruled.gone(name)

    await unruled.create_database()
    async with asyncio.TaskGroup() as group:
        for number, (told, spec) in enumerate(_LEADS_NOWHERE):
            group.create_task(made_and_deleted(number, told, spec))


async def test_what_a_role_was_made_for_stays_until_it_is_gone(unruled: World) -> None:
    await unruled.create_database()
    name = await unruled.create()
    body = await unruled.ready(name)
    await unruled.patch(name, connection={"serverRef": {"name": "missing"}})
    await unruled.wait(name, failed_with("ServerNotFound"))
    await unruled.delete(name)
    await unruled.wait(name, failed_with("FinalizeFailed"))
    assert await unruled.role_exists(name)
    await unruled.patch(name, connection=body["spec"]["connection"])
    await unruled.gone(name)
    assert not await unruled.role_exists(name)


@pytest.mark.parametrize("logins", [(), ("a", "b")], ids=["one", "two"])
async def test_roles_of_a_cluster_that_is_gone_are_taken_over(
    unruled: World, logins: tuple[str, ...]
) -> None:
    """By SQL, as for servers that a tenant names, and with all that they own; not before."""
    await unruled.create_database()
    role = unruled.name().replace("-", "_")
    names = [role, *(f"{role}_{suffix}" for suffix in logins)]
    gone = RoleClaim(installation="gone", object="0" * 32, uid="u").text()
    for one in names:
        login = "LOGIN" if one == names[-1] else "NOLOGIN"
        await unruled.fetch(f"CREATE ROLE {one} {login} PASSWORD 'theirs'")
        await unruled.fetch(f"COMMENT ON ROLE {one} IS '{gone}'")
    await unruled.fetch("CREATE TABLE kept ()")
    await unruled.fetch(f"ALTER TABLE kept OWNER TO {role}")
    name = await unruled.create(
        username=role,
        adoptionPolicy="IfUnclaimed",
        passwordPolicy={"rotation": "TwoLogins" if logins else "InPlace"},
    )
    body = await unruled.wait(name, failed_with("UsernameConflict"))
    assert "fairlead postgres take-over" in condition(body, "Ready")["message"]
    await unruled.fetch(f"COMMENT ON ROLE {role} IS NULL")
    for one in names[1:]:
        await unruled.fetch(f"DROP ROLE {one}")
    await unruled.ready(name)
    secret = await unruled.secret(name)
    assert await unruled.logs_in(secret["uri"])
    owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'kept'"
    assert await unruled.fetch(owner) == [(role,)]


async def test_nothing_is_given_to_roles_that_nobody_allows(unruled: World) -> None:
    """Not by an edit while the access goes either: its login goes, what it owns stays."""
    await unruled.create_database()
    allowed, stranger = unruled.name("allowed"), unruled.name("stranger")
    for role in (allowed, stranger):
        await unruled.fetch(f'CREATE ROLE "{role}"')
    fields = {"cleanupPolicy": "Orphan", "orphanTo": stranger}
    name = await unruled.create(**fields)
    await unruled.wait(name, failed_with("PolicyDenied"))
    listed = {"spec": {"allowedMemberOf": [allowed]}}
    await unruled.admin.merge_patch(POSTGRESSERVERS, unruled.server, "", listed)
    await unruled.patch(name, orphanTo=allowed)
    await unruled.ready(name)
    secret = await unruled.secret(name)
    await unruled.fetch(f'CREATE TABLE kept (); ALTER TABLE kept OWNER TO "{name}"')
    await unruled.patch(name, orphanTo=stranger)
    await unruled.wait(name, failed_with("PolicyDenied"))
    await unruled.delete(name)
    body = await unruled.wait(name, failed_with("OwnsObjects"))
    assert "spec.orphanTo" in condition(body, "Ready")["message"]
    assert not await unruled.logs_in(secret["uri"])
    owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'kept'"
    assert await unruled.fetch(owner) == [(name,)]
    await unruled.patch(name, orphanTo=allowed)
    await unruled.gone(name)
    assert await unruled.fetch(owner) == [(allowed,)]
