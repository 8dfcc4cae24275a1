"""Two replicas of each program that leads by a Lease, as processes, under a running load.

The leader is frozen beyond its Lease and thawed, and the next one is killed; of the konnector
``test_sync_faults`` has the frozen one. All the time objects are made and changed. A witness who
watches both before and after says that nothing was done twice, and the objects that all was done.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psycopg
import pytest
from tests.support import binding, postgres, provider
from tests.support.countingplanes import Plane, plane
from tests.support.e2e import SHOP, link
from tests.support.konnector import providing
from tests.support.line import Line
from tests.support.load import differences, richer_crd, thing
from tests.support.mates import Mates, mates
from tests.support.provider import WIDGETS
from tests.support.requests import writers
from tests.support.servers import LOG, OPERATOR, quick
from tests.support.syncworld import at_rest
from tests.support.waiting import SECONDS, is_ready, when
from tests.support.witness import Witness, witness

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.api.meta import JSON, Key
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, ROLEBINDINGS, ROLES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import manifests as bindings
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.client import ClusterConfig
from fairlead.demo import objects
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector import manifests as konnecting
from fairlead.konnector.app import install_crds
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.postgres import manifests as operating
from fairlead.postgres.database.connections.startup import APPLICATION
from fairlead.postgres.options import DEFAULT_NAMESPACE as POSTGRES_NAMESPACE
from fairlead.provider import manifests as offering
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import install_crds as install


UNDER_WAY = 10
"""Orders that users make without awaiting any."""


class Scene(Protocol):
    """What a program works on."""

    plane: Plane
    """That its Lease is on."""
    command: tuple[str, ...]
    lease: tuple[str, str]
    held: tuple[str, str]
    """Verb and resource of the first write for an order: the leader is frozen at it."""

    async def account(self) -> ClusterConfig: ...

    async def order(self, name: str) -> None:
        """Ask for something."""
        ...

    async def change(self, name: str) -> None:
        """Change it."""
        ...

    async def done(self, name: str) -> None:
        """Wait until the program has done what is asked for."""
        ...

    async def check(self, ordered: Counter[str]) -> None:
        """See that all of this was done, and each of it once; with the numbers of changes."""
        ...

    def marks(self) -> int:
        """How much a server beside the plane has been told so far."""
        ...

    def told(self, since: int, ports: set[tuple[int, int]]) -> list[str]:
        """What it was told by these connections to be changed."""
        ...


class Load:
    """Users who order and change things all the time."""

    def __init__(self, scene: Scene) -> None:
        self.ordered: Counter[str] = Counter()
        """How often each was changed."""
        self._scene = scene
        self._names = map("thing-{}".format, count(1))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run())
            yield
            task.cancel()

    async def _run(self) -> None:
        under_way: deque[str] = deque()
        while True:
            under_way.append(await self.order())
            if len(self.ordered) % 3 == 0:
                changed = list(self.ordered)[len(self.ordered) // 2]
                # Noted first: the change may be there although we are ended meanwhile.
                self.ordered[changed] += 1
                await self._scene.change(changed)
            if len(under_way) > UNDER_WAY:
                await self._scene.done(under_way.popleft())
            await asyncio.sleep(0.03)

    async def order(self) -> str:
        name = next(self._names)
        self.ordered[name] = 0
        await asyncio.shield(self._scene.order(name))
        return name

    async def carries(self, times: int = 3) -> None:
        """Wait until what is ordered now is done, again and again."""
        for _ in range(times):
            await self._scene.done(await self.order())

    async def settled(self) -> None:
        """Wait until all is done and nothing is written."""
        for name in list(self.ordered):
            await self._scene.done(name)
        await at_rest(self._scene.plane)


class Crossing:
    """A consumer's konnector, with a provider of widgets."""

    command = ("konnector", "run")
    lease = (konnecting.LEASE, KONNECTOR_NAMESPACE)
    held = ("patch", WIDGETS.plural)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def begin(self) -> None:
        self.provider = await self._stack.enter_async_context(plane("provider"))
        self.plane = await self._stack.enter_async_context(plane("consumer"))
        await self._stack.enter_async_context(providing(self.provider.admin))
        await install(self.provider.admin, [richer_crd()])
        await install_crds(self.plane.admin)
        await create_all(self.plane.admin, konnecting.manifests(image="fairlead"))
        await self.plane.admin.create(NAMESPACES, objects.namespace(SHOP))

    async def started(self) -> None:
        """Bind, as soon as a konnector works, and have the namespace at the provider."""
        bound = await link(self.plane.admin, self.provider.admin, "widgets")
        await bound.bind()
        self._owner = bound.cluster_namespace
        self._copies, self._sources = [
            await self._stack.enter_async_context(witness(one.admin, WIDGETS))
            for one in (self.provider, self.plane)
        ]
        await self.plane.admin.create(WIDGETS, thing("first", SHOP))
        self._there = await bound.provider_namespace(SHOP)

    async def account(self) -> ClusterConfig:
        return await as_service_account(self.plane.admin, KONNECTOR_NAMESPACE, konnecting.NAME)

    async def order(self, name: str) -> None:
        await self.plane.admin.create(WIDGETS, thing(name, SHOP, note="0"))

    async def change(self, name: str) -> None:
        found = await self.plane.admin.get(WIDGETS, name, SHOP)
        note = str(int(found.to_dict()["spec"]["note"]) + 1)
        await self.plane.admin.merge_patch(WIDGETS, name, SHOP, {"spec": {"note": note}})

    async def done(self, name: str) -> None:
        source = (await self.plane.admin.get(WIDGETS, name, SHOP)).to_dict()
        await when(
            self.provider.admin,
            WIDGETS,
            name,
            self._there,
            until=lambda body: body and body["spec"]["note"] >= source["spec"]["note"],
        )

    async def check(self, ordered: Counter[str]) -> None:
        mine = (await self.plane.admin.list(WIDGETS)).items
        theirs = (await self.provider.admin.list(WIDGETS)).items
        assert len(mine) == len(theirs) == len(ordered) + 1
        assert differences(mine, theirs, {SHOP: self._there}, self._owner) == []
        for name, changes in ordered.items():
            # A copy is created, and has each change once at most.
            once(self._copies, Key(self._there, name), 1 + changes)
            # An object has a finalizer and where its copy is, besides.
            once(self._sources, Key(SHOP, name), 3 + changes)

    def marks(self) -> int:
        return 0

    def told(self, since: int, ports: set[tuple[int, int]]) -> list[str]:
        return []


class Offering:
    """A provider's controllers; a consumer asks for namespaces."""

    command = ("provider", "run")
    lease = (offering.NAME, PROVIDER_NAMESPACE)
    held = ("create", NAMESPACES.plural)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def begin(self) -> None:
        self.plane = await self._stack.enter_async_context(plane("provider"))
        await provider.prepare(self.plane.admin, exports=["widgets.example.org"])

    async def started(self) -> None:
        """Invite a consumer, with an export."""
        admin = self.plane.admin
        answer = await provider_invitation(admin)
        self._home = answer["providerNamespace"]
        await provider.request_export(admin, self._home, answer["requests"][0])
        self._made = [
            await self._stack.enter_async_context(witness(admin, one))
            for one in (NAMESPACES, ROLES, ROLEBINDINGS)
        ]

    async def account(self) -> ClusterConfig:
        return await as_service_account(self.plane.admin, PROVIDER_NAMESPACE, offering.NAME)

    async def order(self, name: str) -> None:
        await provider.request_namespace(self.plane.admin, self._home, name)

    async def change(self, name: str) -> None:
        """There is nothing in such an order that could be changed."""

    async def done(self, name: str) -> None:
        body = await when(
            self.plane.admin,
            APISERVICENAMESPACES,
            name,
            self._home,
            until=lambda body: body.get("status", {}).get("namespace"),
        )
        there = body["status"]["namespace"]
        async with asyncio.timeout(SECONDS):
            while not (await self.plane.admin.list(ROLEBINDINGS, there)).items:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def check(self, ordered: Counter[str]) -> None:
        namespaces, roles, role_bindings = self._made
        expected = {f"{self._home}-{name}" for name in ordered}
        assert {key.name for key in namespaces.seen if key.name.startswith(f"{self._home}-")} == (
            expected
        )
        for name in expected:
            assert len(namespaces.uids(Key("", name))) == 1
            for made in (roles, role_bindings):
                within = [key for key in made.seen if key.namespace == name]
                assert within, name
                for key in within:
                    once(made, key, 1)

    def marks(self) -> int:
        return 0

    def told(self, since: int, ports: set[tuple[int, int]]) -> list[str]:
        return []


class Binding:
    """The binding controllers; a team binds a Secret to its Deployments."""

    command = ("binding", "run")
    lease = (bindings.NAME, BINDING_NAMESPACE)
    held = ("patch", SERVICEBINDINGS.plural)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def begin(self) -> None:
        self.plane = await self._stack.enter_async_context(plane("consumer"))
        await binding.prepare(self.plane.admin)

    async def started(self) -> None:
        self._team = await binding.Team.arrive(self.plane.admin)
        self._workloads, self._secrets = [
            await self._stack.enter_async_context(witness(self.plane.admin, one))
            for one in (DEPLOYMENTS, SECRETS)
        ]

    async def account(self) -> ClusterConfig:
        return await as_service_account(self.plane.admin, BINDING_NAMESPACE, bindings.NAME)

    async def order(self, name: str) -> None:
        await self._team.deployment(name)
        workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = binding.bind(workload=workload, type="mysql")
        await self._team.create(SERVICEBINDINGS, name, spec=spec)

    async def change(self, name: str) -> None:
        found = (await self._team.admin.get(DEPLOYMENTS, name, self._team.namespace)).to_dict()
        replicas = found["spec"].get("replicas", 1) + 1
        await self._team.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})

    async def done(self, name: str) -> None:
        await self._team.when(SERVICEBINDINGS, name, lambda body: bool(body) and is_ready(body))

    async def check(self, ordered: Counter[str]) -> None:
        home = self._team.namespace
        made = {}
        for name, changes in ordered.items():
            body = (await self._team.admin.get(DEPLOYMENTS, name, home)).to_dict()
            made[name] = binding.mounted(body)
            assert made[name]
            # Created, projected into once, and changed by its team.
            assert body["metadata"]["generation"] == 2 + changes
            once(self._workloads, Key(home, name), 2 + changes)
            once(self._secrets, Key(home, made[name]), 1)
        assert len(set(made.values())) == len(ordered)
        assert set(self._secrets.seen) == {Key(home, name) for name in made.values()}

    def marks(self) -> int:
        return 0

    def told(self, since: int, ports: set[tuple[int, int]]) -> list[str]:
        return []


class Accesses:
    """The PostgresAccess operator on a server whose log has all statements."""

    command = ("postgres", "run")
    lease = (operating.NAME, POSTGRES_NAMESPACE)
    held = ("patch", POSTGRESACCESSES.plural)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def begin(self) -> None:
        self.plane = await self._stack.enter_async_context(plane("provider"))
        settings = LOG | {"log_line_prefix": "%a|%r|"}
        self._server = EmbeddedPostgres(version=18, settings=settings)
        await self._stack.enter_async_context(self._server)
        # A superuser would have its statements kept out of the log.
        await self._run(f"CREATE ROLE {OPERATOR} LOGIN CREATEROLE PASSWORD '{quick(OPERATOR)}'")
        await self._run(f"CREATE DATABASE shop OWNER {OPERATOR} STRATEGY FILE_COPY")
        await postgres.prepare(self.plane.admin)
        secret = postgres.credentials("main", self._server)
        secret["stringData"] = {"username": OPERATOR, "password": OPERATOR}
        await self.plane.admin.create(SECRETS, secret)
        await self.plane.admin.create(
            POSTGRESSERVERS, postgres.server_profile("main", self._server)
        )
        await self.plane.admin.create(NAMESPACES, objects.namespace(SHOP))

    async def _run(self, text: str, database: str = "postgres") -> list[Any]:
        async with await psycopg.AsyncConnection.connect(
            self._server.dsn(database), autocommit=True
        ) as connection:
            cursor = await connection.execute(text.encode())
            return await cursor.fetchall() if cursor.description else []

    async def started(self) -> None:
        self._secrets = await self._stack.enter_async_context(witness(self.plane.admin, SECRETS))

    async def account(self) -> ClusterConfig:
        return await as_service_account(self.plane.admin, POSTGRES_NAMESPACE, operating.NAME)

    async def order(self, name: str) -> None:
        grants = [{"database": "shop", "privileges": ["CONNECT"]}]
        body = postgres.access(name, SHOP, "main", grants=grants)
        await self.plane.admin.create(POSTGRESACCESSES, body)

    async def change(self, name: str) -> None:
        found = (await self.plane.admin.get(POSTGRESACCESSES, name, SHOP)).to_dict()
        more = "CREATE" if "TEMPORARY" in found["spec"]["grants"][0]["privileges"] else "TEMPORARY"
        grants = [{**found["spec"]["grants"][0]}]
        grants[0]["privileges"] = [*grants[0]["privileges"], more]
        await self.plane.admin.merge_patch(
            POSTGRESACCESSES, name, SHOP, {"spec": {"grants": grants}}
        )

    async def done(self, name: str) -> None:
        await when(self.plane.admin, POSTGRESACCESSES, name, SHOP, until=is_ready)

    async def check(self, ordered: Counter[str]) -> None:
        roles = {
            name
            for (name,) in await self._run(
                "SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'thing-%'"
            )
        }
        assert roles == set(ordered)
        committed = Counter(self._committed())
        for text, times in committed.items():
            # A change holds the role by its comment, which it writes again as it is.
            held = re.match(r'COMMENT ON ROLE "([^"]+)"', text)
            assert times <= 1 + (ordered[held[1]] if held else 0), text
        created = Counter(
            found[1] for text in committed if (found := re.match(r'CREATE ROLE "([^"]+)"', text))
        )
        assert created == Counter(ordered.keys())
        for name in ordered:
            once(self._secrets, Key(SHOP, f"{name}-login"), 1)
            secret = (await self.plane.admin.get(SECRETS, f"{name}-login", SHOP)).to_dict()
            password = base64.b64decode(secret["data"]["password"]).decode()
            dsn = self._server.dsn("shop")
            async with await psycopg.AsyncConnection.connect(dsn, user=name, password=password):
                pass

    def _statements(self, since: int = 0) -> list[tuple[int, str]]:
        """Statements of operators with the ports of their connections, in their order."""
        text = (self._server.folder / "log").read_bytes()[since:].decode()
        found = re.findall(
            rf"^{APPLICATION}\|[\d.]+\((\d+)\)\|LOG:  (?:statement|execute [^:]*): (.*)$",
            text,
            re.MULTILINE,
        )
        return [(int(port), said.strip()) for port, said in found]

    def _committed(self) -> list[str]:
        """What was written in transactions that were committed."""
        under_way: dict[int, list[str]] = {}
        found: list[str] = []
        for port, text in self._statements():
            if text.startswith("BEGIN"):
                under_way[port] = []
            elif text.startswith("COMMIT"):
                found += filter(_writes, under_way.pop(port, []))
            elif text.startswith("ROLLBACK TO"):
                done = under_way[port]
                del done[done.index(f"SAVEPOINT {text.split()[-1]}") :]
            elif text.startswith("ROLLBACK"):
                under_way.pop(port, None)
            elif text.startswith("SAVEPOINT") or _writes(text):
                under_way.setdefault(port, []).append(text)
        return found

    def marks(self) -> int:
        return (self._server.folder / "log").stat().st_size

    def told(self, since: int, ports: set[tuple[int, int]]) -> list[str]:
        clients = {client for client, _ in ports}
        return [
            text for port, text in self._statements(since) if port in clients and _writes(text)
        ]


def _writes(statement: str) -> bool:
    return statement.startswith(
        ("ALTER", "COMMENT", "CREATE", "DROP", "GRANT", "REVOKE", "REASSIGN")
    )


def once(seen: Witness, key: Key, versions: int) -> None:
    """A name had one object, of so many versions at most."""
    assert len(seen.uids(key)) == 1, key
    told = [one.raw.decode() for one in seen.seen[key]]
    assert len(told) <= versions, told


async def provider_invitation(admin: Any) -> JSON:
    """What a consumer is sent."""
    answer = await invite(admin, name="team", template="widgets", identity="team")
    found: JSON = msgspec.json.decode(msgspec.json.encode(answer))
    return found


@asynccontextmanager
async def performing(kind: Any, folder: Path) -> AsyncIterator[tuple[Any, Mates]]:
    async with AsyncExitStack() as stack:
        scene = kind(stack)
        await scene.begin()
        made = mates(scene.command, scene.plane.admin, await scene.account(), scene.lease, folder)
        yield scene, await stack.enter_async_context(made)


@pytest.mark.extended
@pytest.mark.parametrize("kind", [Crossing, Offering, Accesses, Binding])
async def test_a_leader_that_is_lost_under_load(kind: Any, tmp_path: Path) -> None:
    async with performing(kind, tmp_path) as (scene, replicas):
        one = await replicas.start()
        await scene.started()
        two = await replicas.start()
        load = Load(scene)
        async with load.running():
            await load.carries()
        if kind is not Crossing:
            await load.settled()
            with scene.plane.traffic.hold(*scene.held) as held:
                await load.order()
                await asyncio.wait_for(held.reached.wait(), SECONDS)
                known = one.freeze()
            assert await replicas.succeed(one) is two
            async with load.running():
                await load.carries()
                mark = scene.marks()
                with writers(Line("http://127.0.0.1:1"), scene.plane) as written:
                    await one.thaw()
                    await load.carries()
            assert [wrote for sender, *wrote in written if sender in known] == []
            assert scene.told(mark, known) == []
            one, two = two, await replicas.start()
        async with load.running():
            await load.carries()
            await one.kill()
            assert await replicas.succeed(one) is two
            await load.carries()
        await load.settled()
        await scene.check(load.ordered)
