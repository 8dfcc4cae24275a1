"""Two providers, two consumers and two databases side by side: nothing leaks between them.

Both consumers use the same names for namespaces, objects and roles. One provider exports
PostgresAccess for two servers, the other the widgets of examples/03-widgets.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
import pytest_asyncio
from tests.support.countingplanes import Plane, plane, quiet, steady
from tests.support.e2e import PRIVILEGES, SHOP, Database, Runner, link, programs, says
from tests.support.konnector import Link
from tests.support.postgres import access
from tests.support.provider import WIDGETS, example
from tests.support.waiting import gone, is_ready, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS
from fairlead.client import Client, Forbidden, NotFound, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector.commands import bind as bind_command
from fairlead.konnector.commands.bind import BindError
from fairlead.konnector.manifests import NAME as KONNECTOR
from fairlead.postgres.manifests import NAME as OPERATOR
from fairlead.provider.manifests import NAME as PROVIDER
from fairlead.provider.manifests import manifests
from fairlead.runtime import install_crds


pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.extended]

ACCESS_CRD, WIDGET_CRD = POSTGRESACCESSES.group_resource, WIDGETS.group_resource


class Harbour:
    """Four clusters, two database servers, and who is bound to whom."""

    def __init__(self, planes: list[Plane], north: Database, south: Database) -> None:
        self.bank, self.factory, self.one, self.two = planes
        self.north = north
        self.south = south
        self.runners: list[Runner] = []
        self.to_bank: dict[Plane, Link] = {}
        self.to_factory: dict[Plane, Link] = {}

    @property
    def planes(self) -> tuple[Plane, ...]:
        return self.bank, self.factory, self.one, self.two

    async def run(self, side: Plane, name: str, *exports: str, claims: Sequence[str] = ()) -> None:
        program = programs(exports)[name]
        if claims:
            rights = manifests(image="fairlead", exports=exports, claims=claims)
            program = msgspec.structs.replace(program, manifests=rights)
        runner = Runner(program, side.admin, cluster=side.sandbox.name)
        await runner.install()
        await runner.start()
        self.runners.append(runner)

    async def open(self) -> None:
        await self.run(self.bank, OPERATOR)
        await self.run(self.bank, PROVIDER, ACCESS_CRD)
        await self.run(self.factory, PROVIDER, WIDGET_CRD, claims=("secrets", "configmaps"))
        for consumer in (self.one, self.two):
            await self.run(consumer, KONNECTOR)
            await consumer.admin.create(NAMESPACES, objects.namespace(SHOP))
        for name, database in (("north", self.north), ("south", self.south)):
            await database.create()
            await database.offer(self.bank.admin, name)
        await self.bank.admin.create(APISERVICEEXPORTTEMPLATES, objects.template())
        await install_crds(self.factory.admin, [example("crd")])
        await self.factory.admin.create(APISERVICEEXPORTTEMPLATES, example("template"))
        for consumer in (self.one, self.two):
            self.to_bank[consumer] = await link(consumer.admin, self.bank.admin, "postgres")
            self.to_factory[consumer] = await link(consumer.admin, self.factory.admin, "widgets")
            await self.to_bank[consumer].bind()
            await self.to_factory[consumer].bind()

    async def order(self, who: Plane, name: str, server: str, role: str = "") -> None:
        database = self.north if server == "north" else self.south
        grants = [{"database": database.name, "schema": "public", "privileges": PRIVILEGES}]
        body = access(name, SHOP, server, username=role or name, grants=grants)
        await who.admin.create(POSTGRESACCESSES, body)

    async def uri(self, who: Plane, name: str) -> str:
        secret = await when(who.admin, SECRETS, f"{name}-login", SHOP, until=bool)
        return base64.b64decode(secret["data"]["uri"]).decode()

    def copies(self, who: Plane) -> str:
        """The namespace of the bank that holds a consumer's copies."""
        return f"{self.to_bank[who].cluster_namespace}-{SHOP}"


@asynccontextmanager
async def open_harbour(north: EmbeddedPostgres, south: EmbeddedPostgres) -> AsyncIterator[Harbour]:
    async with AsyncExitStack() as stack:
        names = ("bank", "factory", "one", "two")
        planes = [await stack.enter_async_context(plane(name)) for name in names]
        harbour = Harbour(planes, Database(north), Database(south))
        try:
            await harbour.open()
            yield harbour
        finally:
            for runner in harbour.runners:
                await runner.kill()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    pair = EmbeddedPostgres(), EmbeddedPostgres()
    with asyncio.Runner() as runner:
        for server in pair:
            runner.run(server.__aenter__())
        yield pair
        for server in pair:
            runner.run(server.__aexit__(None, None, None))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def harbour(servers: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> AsyncIterator[Harbour]:
    async with open_harbour(*servers) as opened:
        yield opened


def failing(one: JSON) -> bool:
    return one.get("status") == "False"


async def names(client: Client, namespace: str) -> set[str]:
    return {item.meta.name for item in (await client.list(SECRETS, namespace)).items}


async def test_equal_names_on_different_servers_are_different_roles(harbour: Harbour) -> None:
    one, two = harbour.one, harbour.two
    await harbour.order(one, "stock", "north")
    await harbour.order(two, "stock", "south")
    for who, mine, theirs in (
        (one, harbour.north, harbour.south),
        (two, harbour.south, harbour.north),
    ):
        await when(who.admin, POSTGRESACCESSES, "stock", SHOP, until=is_ready)
        uri = await harbour.uri(who, "stock")
        assert f":{mine.server.port}/" in uri
        assert await mine.logs_in(uri) == "stock"
        crossed = uri.replace(f":{mine.server.port}/", f":{theirs.server.port}/")
        assert await theirs.logs_in(crossed.replace(mine.name, theirs.name)) == ""
        assert await mine.may("stock") == {"SELECT"}
    for who in (one, two):
        copies = await harbour.bank.admin.list(POSTGRESACCESSES, harbour.copies(who))
        assert "stock" in {item.meta.name for item in copies.items}
    await one.admin.delete(POSTGRESACCESSES, "stock", SHOP)
    await gone(one.admin, POSTGRESACCESSES, "stock", SHOP)
    assert "stock" not in await harbour.north.roles()
    assert "stock" in await harbour.south.roles()
    assert await harbour.south.logs_in(await harbour.uri(two, "stock")) == "stock"


async def test_a_role_belongs_to_who_was_first(harbour: Harbour) -> None:
    one, two, north = harbour.one, harbour.two, harbour.north
    await harbour.order(one, "contested", "north")
    await when(one.admin, POSTGRESACCESSES, "contested", SHOP, until=is_ready)
    catalog = """SELECT rolname::text, rolpassword, rolcanlogin, xmin::text,
                 shobj_description(oid, 'pg_authid') FROM pg_authid WHERE rolname = 'contested'"""
    before = await north.query(catalog)
    await harbour.order(two, "contested", "north")
    conflict = says("Ready", "False", "UsernameConflict", "choose another spec.username")
    told = await when(two.admin, POSTGRESACCESSES, "contested", SHOP, until=conflict)
    assert harbour.copies(one) not in str(told["status"])
    assert "binding" not in told["status"]
    for cluster, namespace in ((two, SHOP), (harbour.bank, harbour.copies(two))):
        with pytest.raises(NotFound):
            await cluster.admin.get(SECRETS, "contested-login", namespace)
    await two.admin.merge_patch(POSTGRESACCESSES, "contested", SHOP, {"spec": {"grants": []}})
    await two.admin.delete(POSTGRESACCESSES, "contested", SHOP)
    await gone(two.admin, POSTGRESACCESSES, "contested", SHOP)
    await gone(harbour.bank.admin, POSTGRESACCESSES, "contested", harbour.copies(two))
    assert await north.query(catalog) == before
    assert await north.may("contested") == {"SELECT"}
    assert await north.logs_in(await harbour.uri(one, "contested")) == "contested"


async def test_the_loser_gets_the_role_when_the_winner_is_gone(harbour: Harbour) -> None:
    one, two, north = harbour.one, harbour.two, harbour.north
    await harbour.order(two, "inherited", "north")
    await when(two.admin, POSTGRESACCESSES, "inherited", SHOP, until=is_ready)
    old = await harbour.uri(two, "inherited")
    await harbour.order(one, "inherited", "north")
    conflict = says("Ready", "False", "UsernameConflict")
    await when(one.admin, POSTGRESACCESSES, "inherited", SHOP, until=conflict)
    await two.admin.delete(POSTGRESACCESSES, "inherited", SHOP)
    await gone(two.admin, POSTGRESACCESSES, "inherited", SHOP)
    await one.admin.merge_patch(
        POSTGRESACCESSES, "inherited", SHOP, {"spec": {"cleanupPolicy": "Restrict"}}
    )
    await one.admin.delete(POSTGRESACCESSES, "inherited", SHOP)
    await gone(one.admin, POSTGRESACCESSES, "inherited", SHOP)
    await harbour.order(one, "inherited", "north")
    await when(one.admin, POSTGRESACCESSES, "inherited", SHOP, until=is_ready)
    assert await north.logs_in(await harbour.uri(one, "inherited")) == "inherited"
    assert await north.logs_in(old) == ""


async def test_claims_of_one_provider_bring_nothing_to_the_other(harbour: Harbour) -> None:
    one, two = harbour.one, harbour.two
    widget = example("sample") | {"metadata": {"name": "blue", "namespace": SHOP}}
    for who in (one, two):
        await who.admin.create(WIDGETS, widget)
        await harbour.order(who, f"claims-{who.sandbox.name}", "south")
    spaces = {who: await harbour.to_factory[who].provider_namespace(SHOP) for who in (one, two)}
    made = {"metadata": {"name": "blue-origin"}, "stringData": {"for": "one"}}
    await when(harbour.factory.admin, WIDGETS, "blue", spaces[one], until=bool)
    await harbour.factory.admin.create(SECRETS, made, spaces[one])
    plan = {"metadata": {"name": "plan", "labels": {"example.org/for-the-factory": "true"}}}
    await one.admin.create(CONFIGMAPS, plan, SHOP)
    await when(one.admin, SECRETS, "blue-origin", SHOP, until=bool)
    await when(harbour.factory.admin, CONFIGMAPS, "plan", spaces[one], until=bool)
    for who in (one, two):
        await harbour.uri(who, f"claims-{who.sandbox.name}")
    await when(harbour.factory.admin, WIDGETS, "blue", spaces[two], until=bool)
    await quiet(*harbour.planes)
    assert await names(harbour.factory.admin, spaces[one]) == {"blue-origin"}
    assert await names(harbour.factory.admin, spaces[two]) == set()
    for who in (one, two):
        inside = await names(harbour.bank.admin, harbour.copies(who))
        assert "blue-origin" not in inside
        assert all(name.endswith("-login") for name in inside)
        assert f"claims-{who.sandbox.name}-login" in inside
    assert "blue-origin" not in await names(two.admin, SHOP)
    assert "claims-one-login" not in await names(two.admin, SHOP)
    assert "claims-two-login" not in await names(one.admin, SHOP)
    for side in (harbour.bank, harbour.one, harbour.two):
        found = (await side.admin.list(CONFIGMAPS)).items
        wanted = {SHOP} if side is one else set()
        assert {item.meta.namespace for item in found if item.meta.name == "plan"} == wanted


async def test_an_invited_kubeconfig_sees_nothing_of_another_consumer(harbour: Harbour) -> None:
    await harbour.order(harbour.two, "private", "north")
    await harbour.uri(harbour.two, "private")
    theirs = harbour.to_bank[harbour.two]
    spaces = (theirs.cluster_namespace, harbour.copies(harbour.two), "fairlead-postgres", "")
    config = parse_kubeconfig(harbour.to_bank[harbour.one].response.kubeconfig)
    async with Client(config) as invited:
        assert (await invited.list(POSTGRESACCESSES, harbour.copies(harbour.one))).items
        for resource in (
            POSTGRESACCESSES,
            SECRETS,
            CONFIGMAPS,
            APISERVICEEXPORTS,
            APISERVICEEXPORTREQUESTS,
            APISERVICENAMESPACES,
            BOUNDSCHEMAS,
            CLUSTERBINDINGS,
        ):
            for namespace in spaces:
                with pytest.raises(Forbidden):
                    await invited.list(resource, namespace)
        with pytest.raises(Forbidden):
            await invited.get(SECRETS, "private-login", harbour.copies(harbour.two))
        with pytest.raises(Forbidden):
            await invited.delete(POSTGRESACCESSES, "private", harbour.copies(harbour.two))
        with pytest.raises(Forbidden):
            await invited.list(NAMESPACES)


async def test_bind_says_that_a_crd_is_bound_already(harbour: Harbour) -> None:
    one = harbour.one
    second = await link(one.admin, harbour.bank.admin, "postgres", name="again")
    with pytest.raises(BindError, match="`fairlead unbind postgres` first"):
        await second.bind()
    with pytest.raises(NotFound):
        await one.admin.get(APISERVICEBINDINGS, "again")


async def test_a_crd_can_be_bound_once_only(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unseen(*args: object) -> None:
        """What bind sees beforehand, a binding made by hand does not."""

    monkeypatch.setattr(bind_command, "check_crds", unseen)
    one = harbour.one
    before = await one.admin.get(CUSTOMRESOURCEDEFINITIONS, ACCESS_CRD)
    watched = harbour.bank.watched()
    second = await link(one.admin, harbour.bank.admin, "postgres", name="again")
    binding = asyncio.create_task(second.bind())
    told = await second.condition("Connected", failing)
    assert told["reason"] == "ForeignCustomResourceDefinition"
    assert ACCESS_CRD in told["message"]
    assert "delete" in told["message"]
    after = await one.admin.get(CUSTOMRESOURCEDEFINITIONS, ACCESS_CRD)
    assert after.raw == before.raw
    await harbour.order(one, "undisturbed", "south")
    await when(one.admin, POSTGRESACCESSES, "undisturbed", SHOP, until=is_ready)
    with pytest.raises(NotFound):
        await harbour.bank.admin.get(
            POSTGRESACCESSES, "undisturbed", f"{second.cluster_namespace}-{SHOP}"
        )
    binding.cancel()
    await asyncio.wait([binding])
    await gone(one.admin, APISERVICEBINDINGS, "again")
    kept = await one.admin.get(CUSTOMRESOURCEDEFINITIONS, ACCESS_CRD)
    assert (kept.meta.uid, kept.meta.deleting) == (before.meta.uid, False)
    # The konnector says farewell to a provider for some seconds.
    await harbour.bank.no_more_watches_than(watched)


async def test_unbinding_one_leaves_the_others_untouched(harbour: Harbour) -> None:
    one, two = harbour.one, harbour.two
    await harbour.order(one, "staying", "south")
    await harbour.order(two, "leaving", "north")
    await harbour.order(two, "leaving-too", "south")
    await when(one.admin, POSTGRESACCESSES, "staying", SHOP, until=is_ready)
    for name in ("leaving", "leaving-too"):
        await when(two.admin, POSTGRESACCESSES, name, SHOP, until=is_ready)
    await quiet(*harbour.planes)
    one_before, factory_before = await one.version(), await harbour.factory.version()
    roles = await harbour.south.roles(), await harbour.north.roles()
    theirs = {item.meta.name for item in (await two.admin.list(POSTGRESACCESSES)).items}

    await two.admin.delete(APISERVICEBINDINGS, "postgres")
    await gone(two.admin, APISERVICEBINDINGS, "postgres")
    await gone(two.admin, CUSTOMRESOURCEDEFINITIONS, ACCESS_CRD)
    for name in theirs:
        await gone(harbour.bank.admin, POSTGRESACCESSES, name, harbour.copies(two))
    await quiet(*harbour.planes)

    assert await harbour.south.roles() == roles[0] - theirs
    assert await harbour.north.roles() == roles[1] - theirs
    assert not {name for name in await names(two.admin, SHOP) if name.endswith("-login")}
    assert await one.version() == one_before
    assert await harbour.factory.version() == factory_before
    assert await harbour.south.logs_in(await harbour.uri(one, "staying")) == "staying"
    assert (await two.admin.get(WIDGETS, "blue", SHOP)).meta.deleting is False
    await harbour.to_factory[two].condition("Ready", lambda found: found["status"] == "True")

    await harbour.to_bank[two].bind()
    await harbour.order(two, "back", "north")
    await when(two.admin, POSTGRESACCESSES, "back", SHOP, until=is_ready)
    assert await harbour.north.logs_in(await harbour.uri(two, "back")) == "back"


async def test_four_clusters_at_rest_write_nothing(harbour: Harbour) -> None:
    await steady(*harbour.planes)
