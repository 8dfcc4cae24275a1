"""The operator killed at each write to the API and at each statement; the next one finishes.

And two of them at once, and one whose API server goes away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.dying import DyingClient
from tests.support.hostile import Stalling
from tests.support.postgres import prepare, running, server_profile
from tests.support.process import config_file, process
from tests.support.servers import LOG, OPERATOR, quick, started
from tests.support.team import Administrator, Team
from tests.support.tiers import ADMINISTRATORS
from tests.support.waiting import SECONDS, condition, eventually

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CONFIGMAPS, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.manifests import NAME
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead_sandbox import Sandbox


OPTIONS = PostgresOptions(pending_interval=0.2, synced_interval=0.5, server_interval=1.0)
POLICIES: tuple[CleanupPolicy, ...] = ("Restrict", "Cascade", "Orphan", "Retain")
NEVER = 1 << 30
_CREATION, _DELETION = 30, 22
"""Statements of either, with those by which the operator looks at the server."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A server for the sessions of thirty PostgresServers at once, each by a proxy of its own."""
    server = EmbeddedPostgres(version=18, settings=LOG | {"max_connections": "300"})
    for _ in started(server):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(
                f"CREATE ROLE {OPERATOR} LOGIN CREATEROLE PASSWORD '{quick(OPERATOR)}'"
            )
        yield server


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="kills") as sandbox:
        yield sandbox


@pytest.fixture(params=ADMINISTRATORS)
async def team(
    request: pytest.FixtureRequest, postgres: EmbeddedPostgres, sandbox: Sandbox
) -> AsyncIterator[Team]:
    who = Administrator(OPERATOR, OPERATOR, superuser=False)
    if request.param == "superuser":
        who = Administrator(postgres.username, postgres.password, superuser=True)
    async with Client(parse_kubeconfig(sandbox.kubeconfig())) as admin:
        await prepare(admin)
        made = Team(admin, postgres, who)
        await made.arrive()
        await made.build("CREATE TABLE t (id int)")
        yield made
        async with running(admin, OPTIONS):
            await made.leave()


Until = Callable[[str], Awaitable[object]]


async def first_of(event: asyncio.Event, until: Awaitable[object]) -> bool:
    """Whether the event came before the end."""
    waiting = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(until)]
    try:
        done, _ = await asyncio.wait(waiting, return_when="FIRST_COMPLETED", timeout=SECONDS)
        assert done
        return event.is_set()
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)


async def killed(team: Team, name: str, until: Until, *, writes: int) -> bool:
    """Run an operator that dies at a write; False where it came to the end before."""
    async with running(team.client, OPTIONS, writes=writes) as client:
        assert isinstance(client, DyingClient)
        return await first_of(client.dead, until(name))


async def in_order(team: Team, *names: str) -> None:
    """What there is belongs to these accesses, and works."""
    for name in names:
        secret = await team.secret(name)
        assert await team.can_login(name, secret["password"], secret["database"])
        assert ("t", "SELECT") in await team.privileges(name, secret["database"])
    assert await claimed(team) == set(names)
    assert await secrets_of(team) == {f"{name}-login" for name in names}


async def secrets_of(team: Team) -> set[str]:
    return {name for name in await team.secrets() if name.endswith(f"{team.id}-login")}


async def claimed(team: Team) -> set[str]:
    """The roles of this test that are claimed, or may log in."""
    query = """SELECT rolname::text FROM pg_catalog.pg_roles
                WHERE rolname LIKE %s AND (rolcanlogin
                   OR pg_catalog.shobj_description(oid, 'pg_authid') LIKE 'managed by%%')"""
    return {name for (name,) in await team.sql(query, values=(f"%{team.id}",))}


async def made(
    team: Team, suffix: str, policy: CleanupPolicy, *, database: str = "", **spec: Any
) -> str:
    # By name, for a common administrator grants nothing on what others keep there.
    table = {"on": "Tables", "names": ["t"]}
    grants = [
        team.grant("CONNECT", "CREATE", "USAGE", database=database),
        {**team.grant("SELECT", database=database), **table},
    ]
    if policy == "Orphan":
        # An administrator's database has no other heir.
        spec["orphanTo"] = team.name("heir")
        await team.sql(
            "DO $$ BEGIN CREATE ROLE {r}; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            r=team.name("heir"),
        )
        await team.sql("GRANT {r} TO {a}", r=team.name("heir"), a=team.administrator.username)
    return await team.create(suffix, cleanupPolicy=policy, grants=grants, **spec)


async def build_own(team: Team, name: str) -> None:
    """A table that the access owns itself."""
    secret = await team.secret(name)
    async with team.login(name, database=secret["database"]) as session:
        await session.execute(f'CREATE TABLE "{name}" (id int)')


async def cleared(team: Team, names: list[str], policy: CleanupPolicy, database: str = "") -> None:
    """Nothing of the accesses is left but what their policy keeps."""
    for name in names:
        await team.gone(name)
    assert await claimed(team) == set()
    assert await secrets_of(team) == set()
    records = (await team.client.list(CONFIGMAPS, DEFAULT_NAMESPACE)).items
    assert [one for one in records if one.meta.name.startswith("given-up-")] == []
    for name in names:
        there = database or f"d_{name}"
        assert await team.role_exists(name) is (policy == "Retain")
        query = "SELECT tableowner::text FROM pg_catalog.pg_tables WHERE tablename = %s"
        owners = [owner for (owner,) in await team.sql(query, values=(name,), database=there)]
        heirs = {"Orphan": [team.name("heir")], "Retain": [name]}
        assert owners == heirs.get(policy, [])
        if policy == "Retain":
            await team.sql("DROP OWNED BY {r}", "DROP ROLE {r}", r=name, database=there)


@pytest.mark.extended
async def test_killed_at_each_write_of_a_creation(team: Team) -> None:
    names: list[str] = []
    died = True
    while died:
        name = await made(team, f"a{len(names)}", "Restrict")
        died = await killed(team, name, team.ready, writes=len(names))
        async with running(team.client, OPTIONS):
            await team.ready(name)
        names.append(name)
        assert len(names) < 20
    assert len(names) > 4
    await in_order(team, *names)


@pytest.mark.extended
@pytest.mark.parametrize("policy", POLICIES)
async def test_killed_at_each_write_of_a_deletion(team: Team, policy: CleanupPolicy) -> None:
    names: list[str] = []
    died = True
    while died:
        async with running(team.client, OPTIONS):
            name = await made(team, f"a{len(names)}", policy)
            await team.ready(name)
        if policy != "Restrict":
            await build_own(team, name)
        await team.delete(name)
        died = await killed(team, name, team.gone, writes=len(names))
        names.append(name)
        assert len(names) < 20
    assert len(names) > 1
    async with running(team.client, OPTIONS):
        await cleared(team, names, policy, team.database)


class Ways:
    """Accesses each of which has a server profile, a database and a proxy of its own."""

    def __init__(self, team: Team, stack: AsyncExitStack, policy: CleanupPolicy) -> None:
        self.team = team
        self.policy = policy
        self.proxies: list[Stalling] = []
        self.names: list[str] = []
        self._stack = stack

    async def add(self, place: int, *, answerless: bool) -> None:
        team, suffix = self.team, f"w{len(self.names)}"
        name = team.name(suffix)
        database = await team.create_database(f"d_{name}")
        await team.build("CREATE TABLE t (id int)", database=database)
        proxy = Stalling(team.postgres, place, answerless=answerless)
        self.proxies.append(await self._stack.enter_async_context(proxy))
        profile = server_profile(name, team.postgres, port=proxy.port, database=database)
        profile["spec"]["credentialsSecretRef"]["name"] = team.server
        profile["spec"]["allowedMemberOf"] = ["heir-*"]
        await team.client.create(POSTGRESSERVERS, profile)
        connection = {"serverRef": {"name": name}}
        await made(team, suffix, self.policy, database=database, connection=connection)
        self.names.append(name)

    def arm(self, places: range) -> None:
        for place, proxy in zip(places, self.proxies, strict=True):
            proxy.arm(place)

    async def killed(self, until: Until) -> int:
        """Kill an operator once each of its servers hangs, or has done everything.

        Returns:
            how many of them hung.
        """
        async with running(self.team.client, OPTIONS, writes=NEVER) as client:
            assert isinstance(client, DyingClient)
            pairs = zip(self.proxies, self.names, strict=True)
            hung = await asyncio.gather(
                *(first_of(proxy.reached, until(name)) for proxy, name in pairs)
            )
            client.kill()
            for proxy in self.proxies:
                await proxy.cut()
        return sum(hung)


@pytest.mark.extended
@pytest.mark.parametrize("answerless", [False, True], ids=["unheard", "unanswered"])
async def test_killed_at_each_statement_of_a_creation(team: Team, answerless: bool) -> None:
    async with AsyncExitStack() as stack:
        ways = Ways(team, stack, "Restrict")
        for place in range(1, _CREATION + 1):
            await ways.add(place, answerless=answerless)
        assert await ways.killed(team.ready) > 10
        async with running(team.client, OPTIONS):
            await asyncio.gather(*map(team.ready, ways.names))
            await in_order(team, *ways.names)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("policy", "answerless"),
    [("Restrict", True), ("Cascade", False), ("Orphan", True), ("Retain", False)],
)
async def test_killed_at_each_statement_of_a_deletion(
    team: Team, policy: CleanupPolicy, answerless: bool
) -> None:
    async with AsyncExitStack() as stack:
        ways = Ways(team, stack, policy)
        for _ in range(_DELETION):
            await ways.add(NEVER, answerless=answerless)
        async with running(team.client, OPTIONS):
            await asyncio.gather(*map(team.ready, ways.names))
        for name in ways.names:
            if policy != "Restrict":
                await build_own(team, name)
            await team.delete(name)
        ways.arm(range(1, _DELETION + 1))
        assert await ways.killed(team.gone) > 5
        async with running(team.client, OPTIONS):
            await cleared(team, ways.names, policy)


LARGE_OBJECTS = 12_000
"""Objects of one lock each: five pieces on this server."""
IN_THE_THIRD_PIECE = """
import asyncio
from fairlead.postgres import bounds
from fairlead.postgres.database.work import pieces

bounds.TURN_SECONDS = 0.0
read, count = pieces.read_identities, 0

async def hang(*arguments):
    global count
    count += 1
    if count == 3:
        await asyncio.Event().wait()
    return await read(*arguments)

pieces.read_identities = hang
"""


async def test_killed_in_the_middle_of_a_piece(team: Team, tmp_path: Path) -> None:
    """The process gets SIGKILL while its transaction acts as the role."""
    memberships = """SELECT roleid::regrole::text, member::regrole::text, grantor::regrole::text
                       FROM pg_catalog.pg_auth_members ORDER BY 1, 2, 3"""
    large_objects = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_largeobject_metadata"
    async with running(team.client, OPTIONS):
        name, other = [await made(team, suffix, "Cascade") for suffix in ("much", "other")]
        await asyncio.gather(team.ready(name), team.ready(other))
    await build_own(team, other)
    async with team.login(name) as session:
        await session.execute(
            "SELECT pg_catalog.lo_create(0) FROM pg_catalog.generate_series(1, %s)",
            (LARGE_OBJECTS,),
        )
    async with team.login(other) as session:
        await session.execute("SELECT pg_catalog.lo_create(0)")
    before = await team.sql(memberships)
    config = await as_service_account(team.client, DEFAULT_NAMESPACE, NAME)
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(config))
    await team.delete(name)
    async with process(
        file, "--leader-elect=false", prelude=IN_THE_THIRD_PIECE, name="postgres"
    ) as operator:

        async def hangs() -> bool:
            query = """SELECT 1 FROM pg_catalog.pg_stat_activity
                        WHERE datname = %s AND usename = %s AND state = 'idle in transaction'"""
            values = (team.database, team.administrator.username)
            return bool(await team.sql(query, values=values))

        shown = await team.wait(name, lambda body: bool(body["status"].get("deletion")))
        await eventually(hangs)
        operator.kill()
        await operator.wait()
    assert shown["status"]["deletion"]["total"] >= LARGE_OBJECTS
    assert condition(shown, "Ready")["reason"] == "Removing"
    ((left,),) = await team.sql(large_objects)
    assert 1 < left < LARGE_OBJECTS
    async with running(team.client, OPTIONS):
        await team.gone(name)
        assert await team.sql(large_objects) == [(1,)]
        assert not await team.role_exists(name)
        await team.ready(other)
        await in_order(team, other)
    kept = [row for row in before if name not in "".join(row)]
    assert await team.sql(memberships) == kept
    owner = "SELECT tableowner::text FROM pg_catalog.pg_tables WHERE tablename = %s"
    assert await team.sql(owner, values=(other,)) == [(other,)]


async def test_two_operators_at_once_come_to_the_same(team: Team) -> None:
    """As when a Lease was lost and nobody has noticed yet."""
    async with running(team.client, OPTIONS), running(team.client, OPTIONS):
        names = [await made(team, f"b{number}", "Cascade") for number in range(6)]
        await asyncio.gather(*map(team.ready, names))
        gone, kept = names[:3], names[3:]
        for name in gone:
            await team.delete(name)
        for name in kept:
            await team.sql("ALTER ROLE {r} NOLOGIN", r=name)
            await team.client.delete(SECRETS, f"{name}-login", team.namespace)
        await asyncio.gather(*map(team.gone, gone))

        async def restored() -> bool:
            there = await secrets_of(team)
            if there != {f"{name}-login" for name in kept}:
                return False
            passwords = {name: (await team.secret(name))["password"] for name in kept}
            return all([await team.can_login(*pair) for pair in passwords.items()])

        async def swept() -> bool:
            # One operator may make a role anew that the other has just dropped: a leftover, which
            # the next look at the server removes.
            return await claimed(team) == set(kept)

        await eventually(restored)
        await asyncio.gather(*map(team.ready, kept))
        await eventually(swept)
        await in_order(team, *kept)


async def test_an_api_server_that_goes_away_and_comes_back(team: Team, sandbox: Sandbox) -> None:
    async with running(team.client, OPTIONS):
        before = await made(team, "before", "Cascade")
        await team.ready(before)
        under_way = [await made(team, f"w{number}", "Cascade") for number in range(6)]
        await sandbox.stop()
        # Whatever is found at the server can be told to nobody now.
        await team.sql("ALTER ROLE {r} NOLOGIN", r=before)
        await sandbox.start()
        after = await made(team, "after", "Cascade")
        await asyncio.gather(*map(team.ready, [*under_way, after]))
        password = (await team.secret(before))["password"]
        await eventually(lambda: team.can_login(before, password))
        await in_order(team, before, *under_way, after)
        await team.delete(before)
        await team.gone(before)
