"""Everything together for tests: programs that are killed, a database, a bound consumer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast
from unittest import mock

import msgspec
import psycopg
from psycopg import sql
from tests.support.binding import mounted
from tests.support.countingplanes import QUIET_SECONDS, Plane, plane, quiet, steady
from tests.support.konnector import Link
from tests.support.line import Line
from tests.support.postgres import access, credentials, server_profile
from tests.support.waiting import condition, eventually, gone, is_ready, when

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client, ClusterConfig, NotFound, RequestMetrics, limits
from fairlead.demo import objects
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.programs import StoryProgram, consumer_programs, provider_programs
from fairlead.konnector import app as konnector_app
from fairlead.konnector.manifests import NAME as KONNECTOR
from fairlead.konnector.options import Options
from fairlead.postgres import app as postgres_app
from fairlead.postgres.manifests import NAME as OPERATOR
from fairlead.postgres.options import PostgresOptions
from fairlead.provider.invitation import invite
from fairlead.provider.options import InviteOptions
from fairlead.runtime import Cluster, LeaderElection, Manager


SHOP = "shop"
PRIVILEGES = ("CONNECT", "SELECT")


class Calls:
    """What a program has asked its own cluster, by method."""

    def __init__(self) -> None:
        self.methods: Counter[str] = Counter()

    def observe(self, method: str, *_about: object) -> None:
        self.methods[method] += 1


class Runner:
    """One program as its ServiceAccount; started and killed as a container is."""

    def __init__(self, program: StoryProgram, admin: Client, *, cluster: str) -> None:
        self.program = program
        self.error: BaseException | None = None
        self.ended = asyncio.Event()
        self.calls = Calls()
        self._admin = admin
        self._cluster = cluster
        self._task: asyncio.Task[None] | None = None

    async def install(self) -> None:
        """Apply its manifests and CRDs as the administrator does."""
        await create_all(self._admin, self.program.manifests)
        await self.program.install_crds(self._admin)

    async def identity(self) -> ClusterConfig:
        return await as_service_account(self._admin, self.program.namespace, self.program.name)

    async def start(
        self, *, server: str = "", election: Callable[[Client], LeaderElection] | None = None
    ) -> None:
        """Start it with a token of its own; ``server`` is another way to its cluster."""
        config = await self.identity()
        self.ended.clear()
        self.error = None
        config = replace(config, server=server or config.server)
        self._task = asyncio.create_task(self._run(config, election))
        self._task.add_done_callback(self._done)

    async def _run(
        self, config: ClusterConfig, election: Callable[[Client], LeaderElection] | None
    ) -> None:
        name = self.program.name
        calls = cast("RequestMetrics", self.calls)
        async with Client(config, user_agent=name, field_manager=name, metrics=calls) as client:
            manager = Manager(
                health_address="", leader_election=election(client) if election else None
            )
            await self.program.build(manager, Cluster(self._cluster, client))
            await manager.run()

    def _done(self, task: asyncio.Task[None]) -> None:
        self.error = None if task.cancelled() else task.exception()
        self.ended.set()

    async def kill(self) -> None:
        """End it where it stands: nothing that it has begun is finished."""
        if self._task is not None and not self._task.done():
            with mock.patch.object(limits, "GRACE_SECONDS", 0.0):
                self._task.cancel()
                await asyncio.wait([self._task])
        self._task = None


def programs(exports: tuple[str, ...], *, patience: float = 3.0) -> dict[str, StoryProgram]:
    """All four, which look sooner at what nobody tells them than in a real cluster.

    ``patience`` is for how many seconds a watch may fail before the konnector tells.
    """
    health = Options(health_interval=0.1, health_patience=round(patience / 0.1))
    konnector = partial(konnector_app.build, options=health)
    operator = partial(postgres_app.build, options=PostgresOptions(pending_interval=0.5))
    builds: dict[str, Any] = {KONNECTOR: konnector, OPERATOR: operator}
    return {
        one.name: msgspec.structs.replace(one, build=builds.get(one.name, one.build))
        for one in (*provider_programs(exports), *consumer_programs())
    }


async def link(
    consumer: Client,
    provider: Client,
    template: str,
    *,
    name: str = "",
    line: Line | None = None,
    identity: str = "",
) -> Link:
    """A consumer with an invitation, which may lead over a line."""
    options = InviteOptions(external_address=line.url) if line else None
    answer = await invite(
        provider,
        name="team",
        template=template,
        identity=identity or str(uuid.uuid4()),
        binding_name=name or template,
        options=options,
    )
    return Link(consumer, provider, decode_binding_response(msgspec.json.encode(answer)))


class Database:
    """A database of a test's own on a server that others use too."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self.name = f"shop_{uuid.uuid4().hex[:8]}"

    async def create(self) -> None:
        await self.query(f"CREATE DATABASE {self.name} STRATEGY FILE_COPY", database="postgres")
        await self.query("CREATE TABLE orders (id int)")

    async def query(self, text: str, *values: object, database: str = "") -> list[Any]:
        async with await psycopg.AsyncConnection.connect(
            self.server.dsn(database or self.name), autocommit=True
        ) as connection:
            cursor = await connection.execute(sql.SQL(cast("Any", text)), values or None)
            return await cursor.fetchall() if cursor.description else []

    async def roles(self) -> set[str]:
        """The logins on the whole server, the administrator's excepted."""
        text = "SELECT rolname::text FROM pg_roles WHERE rolcanlogin AND NOT rolsuper"
        return {row[0] for row in await self.query(text, database="postgres")}

    async def may(self, role: str) -> set[str]:
        """What a role may do with the orders."""
        text = """SELECT a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
                  JOIN pg_roles r ON r.oid = a.grantee
                  WHERE c.relname = 'orders' AND r.rolname = %s"""
        return {row[0] for row in await self.query(text, role)}

    async def logs_in(self, uri: str) -> str:
        """Who one is there with this uri, "" when it is refused."""
        try:
            async with await psycopg.AsyncConnection.connect(uri) as connection:
                cursor = await connection.execute("SELECT current_user::text")
                (row,) = await cursor.fetchall()
                return str(row[0])
        except psycopg.OperationalError:
            return ""

    async def offer(self, admin: Client, name: str = "main") -> None:
        """Have a cluster's operator know the server."""
        await admin.create(SECRETS, credentials(name, self.server))
        await admin.create(POSTGRESSERVERS, server_profile(name, self.server))


class World:
    """A provider and a consumer with everything on them, and a database."""

    def __init__(self, provider: Plane, consumer: Plane, database: Database) -> None:
        self.provider = provider
        self.consumer = consumer
        self.database = database
        self.uplink = Line(provider.sandbox.url)
        """What the konnector reaches the provider over."""
        self.runners: dict[str, Runner] = {}
        self.sound = False
        self.link: Link
        self.id = uuid.uuid4().hex[:6]

    def role(self, name: str) -> str:
        return f"{name}-{self.id}"

    async def invited(self) -> Link:
        return await link(
            self.consumer.admin,
            self.provider.admin,
            objects.TEMPLATE,
            line=self.uplink,
            identity=f"team-{self.id}",
        )

    async def order(self, name: str, *, app: bool = True, **spec: object) -> None:
        """What the app team writes: an access and, with ``app``, who wants to use it."""
        admin = self.consumer.admin
        grants = [{"database": self.database.name, "schema": "public", "privileges": PRIVILEGES}]
        wanted = {
            "username": self.role(name),
            "generatedSecret": f"{name}-login",
            "grants": grants,
            **spec,
        }
        await admin.create(POSTGRESACCESSES, access(name, SHOP, "main", **wanted))
        if app:
            await admin.create(DEPLOYMENTS, objects.deployment(name=name, in_namespace=SHOP))
            binding = objects.binding(name=name, in_namespace=SHOP, access_name=name)
            await admin.create(SERVICEBINDINGS, binding)

    async def arrived(self, name: str, *, app: bool = True) -> None:
        """It has made the whole way: spec there, role, status back, Secret back, projected."""
        admin = self.consumer.admin
        body = await when(admin, POSTGRESACCESSES, name, SHOP, until=is_ready)
        there = f"{self.link.cluster_namespace}-{SHOP}"
        await when(
            self.provider.admin,
            POSTGRESACCESSES,
            name,
            there,
            until=lambda copy: copy.get("spec") == body["spec"],
        )
        await eventually(self._usable, name)
        if app:
            await when(admin, SERVICEBINDINGS, name, SHOP, until=is_ready)
            assert mounted((await admin.get(DEPLOYMENTS, name, SHOP)).to_dict()) == f"{name}-login"

    async def whole_way(self, name: str, *, app: bool = True) -> None:
        await self.order(name, app=app)
        await self.arrived(name, app=app)

    async def _usable(self, name: str) -> bool:
        """Whether the consumer's Secret opens the database, with exactly the rights asked for."""
        try:
            secret = await self.consumer.admin.get(SECRETS, f"{name}-login", SHOP)
        except NotFound:
            return False
        uri = base64.b64decode(secret.to_dict()["data"]["uri"]).decode()
        rights = await self.database.may(self.role(name))
        return rights == {"SELECT"} and await self.database.logs_in(uri) == self.role(name)

    async def left(self, name: str) -> None:
        """Delete it on the consumer: nothing of it stays anywhere."""
        there = f"{self.link.cluster_namespace}-{SHOP}"
        await self.consumer.admin.delete(POSTGRESACCESSES, name, SHOP)
        await self.is_gone(name, there)

    async def is_gone(self, name: str, there: str) -> None:
        await gone(self.consumer.admin, POSTGRESACCESSES, name, SHOP)
        await gone(self.provider.admin, POSTGRESACCESSES, name, there)
        await gone(self.consumer.admin, SECRETS, f"{name}-login", SHOP)
        await gone(self.provider.admin, SECRETS, f"{name}-login", there)
        assert self.role(name) not in await self.database.roles()

    async def steady(self) -> None:
        """Nothing is written any more, not even when all have to list everything again."""
        self._all_run()
        await steady(self.provider, self.consumer)
        self.sound = True

    async def settled(self) -> None:
        """All programs run, and nothing is asked any more."""
        self._all_run()
        await quiet(self.provider, self.consumer, window=QUIET_SECONDS / 2)
        self.sound = True

    def _all_run(self) -> None:
        ended = {name: one.error for name, one in self.runners.items() if one.ended.is_set()}
        assert ended == {}


def says(type_: str, status: str, *texts: str) -> Callable[[JSON], bool]:
    """Whether a condition has this status, and reason and message contain all the texts."""

    def until(body: JSON) -> bool:
        found = condition(body, type_)
        told = f"{found.get('reason', '')} {found.get('message', '')}"
        return found.get("status") == status and all(text in told for text in texts)

    return until


async def install(world: World, side: Plane, name: str) -> Runner:
    """Prepare one program on one of the planes."""
    exports = (f"postgresaccesses.{objects.ACCESS_GROUP}",)
    cluster = "provider" if side is world.provider else "consumer"
    runner = Runner(programs(exports, patience=1.0)[name], side.admin, cluster=cluster)
    await runner.install()
    world.runners[name] = runner
    return runner


@contextlib.asynccontextmanager
async def open_world(server: EmbeddedPostgres) -> AsyncIterator[World]:
    """Everything installed, running and bound, with a namespace for the app team."""
    async with plane("provider") as provider, plane("consumer") as consumer:
        world = World(provider, consumer, Database(server))
        await world.uplink.__aenter__()
        sides: list[tuple[str, Plane]] = [
            *((one.name, provider) for one in provider_programs(())),
            *((one.name, consumer) for one in consumer_programs()),
        ]
        try:
            for name, side in sides:
                await (await install(world, side, name)).start()
            await world.database.create()
            await world.database.offer(provider.admin)
            await provider.admin.create(APISERVICEEXPORTTEMPLATES, objects.template())
            await consumer.admin.create(NAMESPACES, objects.namespace(SHOP))
            world.link = await world.invited()
            await world.link.bind()
            yield world
        finally:
            for runner in world.runners.values():
                await runner.kill()
            await world.uplink.__aexit__()
