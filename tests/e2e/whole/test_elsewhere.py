"""The provider's commands, programs and remedies, as met by people in a consumer's cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import sql
from tests.support.commands import fairlead
from tests.support.konnector import World, invited
from tests.support.pgworld import World as Place
from tests.support.pgworld import grant
from tests.support.postgres import access, prepare, running
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import Client
from fairlead.client.lookups import find
from fairlead.demo.identity import as_service_account
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.explain.explaining import explain
from fairlead.explain.targets import parse_target
from fairlead.postgres.commands.surroundings import (
    ConsumerClusterError,
    NotInstalledError,
    Surroundings,
    get_access,
)
from fairlead.postgres.options import PostgresOptions


NAME = POSTGRESACCESSES.group_resource
ACCESS: JSON = {
    "apiVersion": POSTGRESACCESSES.api_version,
    "kind": POSTGRESACCESSES.kind,
    "metadata": {"name": "db", "namespace": "default"},
    "spec": {
        "username": "shop",
        "generatedSecret": "login",
        "connection": {"serverRef": {"name": "main"}},
        "grants": [{"database": "shop", "privileges": ["CONNECT"]}],
    },
}
TEMPLATE: JSON = {
    "apiVersion": APISERVICEEXPORTTEMPLATES.api_version,
    "kind": APISERVICEEXPORTTEMPLATES.kind,
    "metadata": {"name": "postgres"},
    "spec": {
        "scope": "Namespaced",
        "resources": [
            {
                "group": POSTGRESACCESSES.group,
                "resource": POSTGRESACCESSES.plural,
                "versions": [POSTGRESACCESSES.version],
            }
        ],
    },
}


@pytest.fixture
async def bound(world: World) -> World:
    """A consumer's cluster in which an access is there, and has been crossed."""
    await prepare(world.provider)
    await world.provider.create(APISERVICEEXPORTTEMPLATES, TEMPLATE)
    await world.konnector()
    link = await invited(world.consumer, world.provider, name="postgres", template="postgres")
    await link.bind()
    await world.consumer.create(POSTGRESACCESSES, ACCESS)
    namespace = await link.provider_namespace()
    await when(world.provider, POSTGRESACCESSES, "db", namespace, until=bool)
    return world


async def test_commands_know_a_consumers_cluster(bound: World, tmp_path: Path) -> None:
    plane, crd = bound.consumer_plane, CUSTOMRESOURCEDEFINITIONS
    before = await bound.consumer.get(crd, NAME)
    for command in (
        ("explain", "db", "-n", "default"),
        ("audit", "--server", "main"),
        ("import", "--server", "main"),
        ("plan", "--all", "-n", "default"),
    ):
        code, _, err = await fairlead(plane, tmp_path, "postgres", *command)
        assert code == 1, command
        assert "APIServiceBinding postgres brings PostgresAccess to this cluster" in err, command
        assert "`fairlead explain postgresaccess/NAME -n NAMESPACE`" in err
        assert "fairlead crds" not in err
    code, out, err = await fairlead(plane, tmp_path, "explain", "postgresaccess/db")
    assert code == 1
    # It was made a moment ago: whose operator should be looked at is advice of a minute later.
    assert "the operator has not looked at it yet" in out
    assert "next:" not in out
    assert "fairlead postgres run" not in out + err

    for flags in ((), ("--install-crds=false",)):
        code, _, err = await fairlead(
            plane,
            tmp_path,
            *("postgres", "run", "--health-probe-bind-address=", "--metrics-bind-address="),
            *flags,
        )
        assert code == 1
        assert f"APIServiceBinding postgres brings CRD {NAME}" in err
        assert "run this program in the provider's cluster" in err
    code, out, err = await fairlead(plane, tmp_path, "uninstall", "postgres", "--crds", "--yes")
    assert code == 0, err
    assert (
        f"kept CustomResourceDefinition {NAME}: APIServiceBinding postgres brings it" in out + err
    )
    after = await bound.consumer.get(crd, NAME)
    assert after.raw == before.raw
    assert await find(bound.consumer, crd, POSTGRESSERVERS.group_resource) is None


async def test_commands_on_consumers_know_a_consumers_cluster(
    bound: World, tmp_path: Path
) -> None:
    invitation = str(tmp_path / "invitation.json")
    for command in (
        ("consumers",),
        ("revoke", "shop", "--yes"),
        ("rotate", "shop"),
        ("hand-over", "shop", "--to", "https://login.example.org/ada"),
        ("invite", "shop", "--template", "postgres", "-o", invitation),
    ):
        code, out, err = await fairlead(bound.consumer_plane, tmp_path, "provider", *command)
        assert (code, out) == (1, ""), command
        assert (
            "binds postgres: it is a consumer's cluster, for which you can run `fairlead bindings`"
            in err
        )


async def test_who_may_not_read_crds_hears_of_it_too(bound: World) -> None:
    admin = bound.consumer
    names = {"metadata": {"name": "tenant", "namespace": "default"}}
    rule = {"apiGroups": [POSTGRESACCESSES.group], "resources": ["*"], "verbs": ["get", "list"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}
    await admin.create(SERVICEACCOUNTS, {**names, "apiVersion": "v1", "kind": "ServiceAccount"})
    await admin.create(ROLES, {**names, **_typed(ROLES), "rules": [rule]})
    bindings = {**names, **_typed(ROLEBINDINGS), "roleRef": role, "subjects": [subject]}
    await admin.create(ROLEBINDINGS, bindings)
    async with Client(await as_service_account(admin, "default", "tenant")) as tenant:
        with pytest.raises(NotInstalledError, match="in the cluster of a consumer of kube-bind"):
            await Surroundings.of(tenant, "default")
        # The object tells so itself, also beside CRDs that somebody has installed by hand.
        with pytest.raises(ConsumerClusterError, match="kube-bind brings PostgresAccess"):
            await get_access(tenant, "db", "default")
        # Of the bindings it may not list, its access says what it has to know.
        found = await explain(tenant, parse_target("postgresaccess/db"), "default", "default")
        assert "fairlead postgres run" not in str(found)


def _typed(resource: Resource) -> JSON:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def test_the_remedy_for_a_blocked_access_works_from_its_consumers_cluster(
    bound: World, postgres: EmbeddedPostgres
) -> None:
    database = Place(bound.provider, postgres, is_real=False)
    await database.arrive()
    await database.create_database()
    name, consumer = database.name(), bound.consumer
    grants = [grant(database.database, "CONNECT", "CREATE", "USAGE")]

    async def once(until: Callable[[JSON], bool]) -> JSON:
        return await when(consumer, POSTGRESACCESSES, name, "default", until=until)

    async with running(bound.provider, PostgresOptions(pending_interval=0.5)):
        await consumer.create(
            POSTGRESACCESSES, access(name, "default", database.server, grants=grants)
        )
        await once(lambda body: condition(body, "Ready").get("status") == "True")
        role = sql.Identifier(name).as_string()
        await database.fetch(f"CREATE TABLE mine (); ALTER TABLE mine OWNER TO {role}")
        await consumer.delete(POSTGRESACCESSES, name, "default")
        await once(lambda body: "OwnsObjects" in str(body.get("status")))
        found = await explain(
            consumer, parse_target(f"postgresaccess/{name}"), "default", "default"
        )
        (chain,) = found.chains
        assert (chain.broken, chain.reason) == ("role", "OwnsObjects")
        assert "set spec.cleanupPolicy to Orphan or Cascade" in chain.next_step
        patch: JSON = {"spec": {"cleanupPolicy": "Cascade"}}
        await consumer.merge_patch(POSTGRESACCESSES, name, "default", patch)
        await once(lambda body: not body)
        assert not await database.role_exists(name)
        # Said just before the deletion, it holds for the deletion.
        await consumer.create(
            POSTGRESACCESSES, access(name, "default", database.server, grants=grants)
        )
        await once(lambda body: condition(body, "Ready").get("status") == "True")
        await database.fetch(f"CREATE TABLE kept (); ALTER TABLE kept OWNER TO {role}")
        patch = {"spec": {"cleanupPolicy": "Retain"}}
        await consumer.merge_patch(POSTGRESACCESSES, name, "default", patch)
        await consumer.delete(POSTGRESACCESSES, name, "default")
        await once(lambda body: not body)
        assert await database.role_exists(name)
    await database.fetch(f"DROP TABLE kept; DROP OWNED BY {role}; DROP ROLE {role}")
