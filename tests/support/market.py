"""A provider with a front door and offers, and a consumer: a world whose pages people look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, closing

from tests.support import offers
from tests.support.countingplanes import Plane, plane
from tests.support.e2e import SHOP, Database, Runner, programs
from tests.support.postgres import access
from tests.support.waiting import SECONDS, is_ready, when

from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
    COLLECTIONS,
    BindingResponse,
    provider_crds,
)
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES, DEPLOYMENTS, NAMESPACES
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.demo import objects
from fairlead.demo.frontdoor import FrontDoor, Someone
from fairlead.demo.identity import create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.programs import consumer_programs, provider_programs
from fairlead.konnector.commands.bind import bind
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.options import Limits, Rate
from fairlead.runtime import install_crds


class Market:
    """Both sides as their administrators reach them, and the people of the front door.

    ``ada`` may bind all that is offered, ``ben`` one template of it, ``cem`` none; ``olga`` sees
    all consumers. Programs of the consumer and the database start when something is bound or
    ordered for the first time, and all are in ``runners`` by name, to be killed and started again.
    """

    def __init__(self, provider: Plane, consumer: Plane, door: FrontDoor) -> None:
        self.provider = provider
        self.consumer = consumer
        self.door = door
        self.ada, self.ben, self.cem, self.olga = door.people
        self.url = door.url
        self.runners: dict[str, Runner] = {}
        self._known: set[str] = set()
        self._programs = programs(offers.EXPORTS) | {door.program.name: door.program}
        self._stack = AsyncExitStack()
        self._database: Database | None = None

    async def open(self) -> None:
        """Offer, and serve."""
        admin = self.provider.admin
        await install_crds(admin, [*provider_crds(), *offers.crds()])
        for one in provider_programs(offers.EXPORTS):
            await self._start(one.name, self.provider)
        await self._start(self.door.program.name, self.provider)
        for body in offers.templates():
            await admin.create(APISERVICEEXPORTTEMPLATES, body)
        for body in offers.collections():
            await admin.create(COLLECTIONS, body)
        await self.allow(self.ada, *(one["metadata"]["name"] for one in offers.templates()))
        await self.allow(self.ben, offers.OF_BEN)
        await create_all(admin, offers.administrators(self.olga.team))
        await self.door.open()

    async def close(self) -> None:
        for runner in self.runners.values():
            await runner.kill()
        await self._stack.aclose()

    async def allow(self, someone: Someone, *templates: str) -> None:
        """Let a person's team bind these."""
        role, binding = offers.may_bind(someone.team, templates)
        await self.provider.admin.create(CLUSTERROLES, role)
        await self.provider.admin.create(CLUSTERROLEBINDINGS, binding)

    async def bind(
        self, someone: Someone, template: str = objects.TEMPLATE, identity: str = ""
    ) -> None:
        """Bind over HTTP, as ``fairlead login`` and ``fairlead bind`` do, and wait until ready."""
        for one in consumer_programs():
            if one.name not in self.runners:
                await self._start(one.name, self.consumer)
        admin = self.consumer.admin
        known = (await admin.get(NAMESPACES, "kube-system")).meta.uid
        response = await self.agree(someone, template, identity or known)
        await bind(admin, response, timeout=SECONDS)

    async def agree(
        self, someone: Someone, template: str, identity: str, *, title: str = ""
    ) -> BindingResponse:
        """Bind at the provider alone: no konnector ever comes."""
        async with await self.asked_by(someone) as backend:
            body = objects.bind_request(identity)
            body["spec"]["clusterIdentity"]["prettyName"] = title or someone.team
            body["metadata"]["name"] = body["spec"]["templateRef"]["name"] = template
            return await backend.bind(body)

    async def asked_by(self, someone: Someone) -> BackendClient:
        """The server as it answers a person's terminal, while that is entered."""
        if someone.name not in self._known:
            await self.door.log_in(someone)
            self._known.add(someone.name)
        return self.door.asked_by(someone)

    async def order(self, *names: str, app: bool = True) -> None:
        """Have an app team ask for logins to the database, use them, and wait until they may."""
        admin, database = self.consumer.admin, await self.database()
        for name in names:
            grants = [{"database": database.name, "privileges": ["CONNECT"]}]
            await admin.create(POSTGRESACCESSES, access(name, SHOP, "main", grants=grants))
            if app:
                await admin.create(DEPLOYMENTS, objects.deployment(name=name, in_namespace=SHOP))
                wanted = objects.binding(name=name, in_namespace=SHOP, access_name=name)
                await admin.create(SERVICEBINDINGS, wanted)
        for name in names:
            await when(admin, POSTGRESACCESSES, name, SHOP, until=is_ready)
            if app:
                await when(admin, SERVICEBINDINGS, name, SHOP, until=is_ready)

    async def database(self) -> Database:
        """The database that is offered, and a namespace for those who use it."""
        if self._database is None:
            server = await self._stack.enter_async_context(EmbeddedPostgres())
            self._database = Database(server)
            await self._database.create()
            await self._database.offer(self.provider.admin)
            await self.consumer.admin.create(NAMESPACES, objects.namespace(SHOP))
        return self._database

    async def _start(self, name: str, side: Plane) -> None:
        cluster = "provider" if side is self.provider else "consumer"
        runner = Runner(self._programs[name], side.admin, cluster=cluster)
        self.runners[name] = runner
        await runner.install()
        await runner.start()

    def failures(self) -> dict[str, BaseException | None]:
        """Programs that have ended, though nothing has killed them."""
        return {name: one.error for name, one in self.runners.items() if one.error is not None}


def people() -> Iterable[Someone]:
    """Three of three teams, and one of the provider's own."""
    return (
        Someone("ada", "shop"),
        Someone("ben", "blog"),
        Someone("cem", "news"),
        Someone("olga", "platform"),
    )


@asynccontextmanager
async def open_market() -> AsyncIterator[Market]:
    """Everything that people see, until the block ends."""
    # All browsers of tests have one address.
    limits = Limits(sign_ins_per_address=Rate(0.0, 0), per_address=Rate(0.0, 0))
    with closing(FrontDoor(*people(), limits=limits)) as door:
        async with plane("provider") as provider, plane("consumer") as consumer:
            market = Market(provider, consumer, door)
            try:
                await market.open()
                yield market
            finally:
                await market.close()
    assert market.failures() == {}
