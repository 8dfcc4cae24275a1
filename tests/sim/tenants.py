"""What tenants do with their logins, what a database's people do, and how servers fail."""

from __future__ import annotations

import asyncio
import base64
import itertools
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, NamedTuple

import psycopg
from psycopg import sql
from tests.sim.databases import ADMIN_PASSWORD, DATABASE, SCHEMA, STRANGERS, TABLES, Cluster
from tests.sim.doors import Doors, Fault
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.processes import Process
from tests.sim.programs import Replica
from tests.sim.stores import held, one

from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import SECRETS
from fairlead.client import Client
from fairlead.postgres.options import DEFAULT_NAMESPACE


MOST_SESSIONS = 8
"""Sessions of tenants at once."""
SUPERUSER = "postgres"
PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")
REFUSALS = (
    "connection refused",
    "FATAL: sorry, too many clients already",
    "FATAL: the database system is starting up",
)
"""What libpq says of servers that let nobody in."""


class Login(NamedTuple):
    """What a Secret says: where, who, and with what."""

    cluster: Cluster
    role: str
    password: str


class Held(NamedTuple):
    """A session of a tenant that stays open."""

    cluster: Cluster
    role: str
    connection: psycopg.Connection[Any]


class Tenants(Breaking):
    """The half of the scenario that happens in databases."""

    tenant_operations: ClassVar[dict[str, float]] = {
        "lock_table": 1.0,
        "lock_itself": 4.0,
        "hold_rights": 3.0,
        "own": 2.0,
        "default": 1.0,
        "advise": 0.5,
        "stay": 2.0,
        "let_in": 1.0,
        "change_password": 1.0,
        "leave": 6.0,
        "take_grant": 2.0,
        "give_grant": 2.0,
        "tidy_up": 1.0,
    }
    database_faults: ClassVar[dict[str, float]] = {
        "lose_statements": 3.0,
        "lose_commits": 3.0,
        "die_at_statement": 4.0,
        "freeze_at_statement": 3.0,
        "slow_server": 1.5,
        "silent_server": 1.0,
        "refusing_server": 2.0,
        "crash_server": 0.5,
        "wrong_password": 1.0,
    }
    clusters: dict[str, Cluster]
    doors: Doors
    plane: Plane
    admin: Client

    def furnish(self) -> None:
        """Begin without sessions."""
        self.held: list[Held] = []
        self.given: dict[tuple[str, str], None] = {}
        """Servers and roles whose password a tenant has changed."""
        self._numbers = itertools.count(1)

    # --- who is there

    def login_of(self, found: Object) -> Login | None:
        """What the Secret of an access says, where there is one that is its own."""
        spec = found.to_dict()["spec"]
        secret = one(self.plane, SECRETS, spec["generatedSecret"], found.meta.namespace)
        if secret is None or not secret.meta.owned_by(found.meta.uid):
            return None
        data: JSON = secret.to_dict().get("data") or {}
        texts = {key: base64.b64decode(value).decode() for key, value in data.items()}
        host = texts.get("host", "").partition(".")[0]
        if host not in self.clusters or not texts.get("password"):
            return None
        return Login(self.clusters[host], texts.get("username", ""), texts["password"])

    def logins(self) -> list[Login]:
        """Those of all accesses."""
        found = [self.login_of(each) for each in held(self.plane, POSTGRESACCESSES)]
        return [each for each in found if each is not None]

    def _enter(self, dice: Random) -> Held | None:
        """A session of a tenant, one that is open or a new one."""
        every = self.logins()
        mine = [each for each in self.held if each.role != SUPERUSER]
        if mine and dice.random() < 0.3:
            return dice.choice(mine)
        if not every or len(self.held) > MOST_SESSIONS:
            return None
        login = dice.choice(every)
        try:
            connection = login.cluster.log_in(login.role, login.password, DATABASE)
        except psycopg.Error:
            return None
        self._tell(login.cluster, f"{login.role} logs in")
        entered = Held(login.cluster, login.role, connection)
        self.held.append(entered)
        return entered

    def _tell(self, cluster: Cluster, text: str) -> None:
        self.simulation.trace.note("tenant", cluster.name, text)

    def _do(self, entered: Held | None, *statements: str) -> bool:
        """Run statements in a session; false where one is refused."""
        if entered is None:
            return False
        try:
            for statement in statements:
                entered.connection.execute(statement.encode())
        except psycopg.Error as error:
            self._tell(entered.cluster, f"{entered.role}: {statements[0]}: {error.sqlstate}")
            self._recover(entered)
            return False
        finally:
            self.simulation.loop.sockets.changed()
        self._tell(entered.cluster, f"{entered.role}: {'; '.join(statements)}")
        return True

    def _recover(self, entered: Held) -> None:
        if entered.connection.closed or entered.connection.broken:
            self._close(entered)
            return
        try:
            entered.connection.rollback()
        except psycopg.Error:
            self._close(entered)

    def _close(self, entered: Held) -> None:
        if entered in self.held:
            self.held.remove(entered)
        pid = entered.connection.info.backend_pid if not entered.connection.closed else 0
        entered.connection.close()
        if pid:
            entered.cluster.await_ends_of([pid])
        self.simulation.loop.sockets.changed()

    def close_all(self) -> None:
        """End all sessions of tenants."""
        for entered in list(self.held):
            self._close(entered)

    # --- what tenants do

    async def lock_table(self, dice: Random) -> bool:
        """A transaction with a lock on a table stays open."""
        table, mode = dice.choice(TABLES), dice.choice(("ACCESS SHARE", "ROW EXCLUSIVE"))
        return self._do(
            self._enter(dice), "BEGIN", f"LOCK TABLE {SCHEMA}.{table} IN {mode} MODE NOWAIT"
        )

    async def lock_itself(self, dice: Random) -> bool:
        """A transaction that has changed its own role stays open."""
        entered = self._enter(dice)
        if entered is None:
            return False
        name = sql.Identifier(entered.role).as_string()
        what = dice.choice(("SET work_mem = '1MB'", "PASSWORD 'mine-and-open'"))
        return self._do(entered, "BEGIN", f"ALTER ROLE {name} {what}")

    async def hold_rights(self, dice: Random) -> bool:
        """Somebody's transaction has granted on a table what is granted already, and stays."""
        cluster = self._server(dice)
        if len(self.held) > MOST_SESSIONS:
            return False
        entered = Held(cluster, SUPERUSER, cluster.log_in(SUPERUSER, ADMIN_PASSWORD, DATABASE))
        self.held.append(entered)
        grants = (
            f"SELECT ON {SCHEMA}.items TO reporting",
            f"INSERT ON {SCHEMA}.orders TO billing",
        )
        return self._do(entered, "BEGIN", f"GRANT {dice.choice(grants)}")

    async def own(self, dice: Random) -> bool:
        """A table of the tenant's own."""
        return self._do(self._enter(dice), f"CREATE TABLE {SCHEMA}.own_{next(self._numbers)} ()")

    async def default(self, dice: Random) -> bool:
        """Default privileges for what the tenant will make."""
        whom = dice.choice(STRANGERS)
        return self._do(
            self._enter(dice), f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {whom}"
        )

    async def advise(self, dice: Random) -> bool:
        """Advisory locks."""
        return self._do(
            self._enter(dice), "SELECT pg_advisory_lock(n) FROM generate_series(1, 9) n"
        )

    async def stay(self, dice: Random) -> bool:
        """A session, in a transaction or not."""
        return self._do(self._enter(dice), dice.choice(("SELECT 1", "BEGIN")))

    async def let_in(self, dice: Random) -> bool:
        """A table of the tenant's own, on which others get rights."""
        number = next(self._numbers)
        return self._do(
            self._enter(dice),
            f"CREATE TABLE {SCHEMA}.own_{number} ()",
            f"GRANT SELECT ON {SCHEMA}.own_{number} TO {dice.choice(STRANGERS)}",
        )

    async def change_password(self, dice: Random) -> bool:
        """A tenant gives its own login another password."""
        entered = self._enter(dice)
        if entered is None:
            return False
        name = sql.Identifier(entered.role).as_string()
        if not self._do(entered, f"ALTER ROLE {name} PASSWORD 'mine-{next(self._numbers)}'"):
            return False
        self.given[entered.cluster.name, entered.role] = None
        return True

    async def leave(self, dice: Random) -> bool:
        """A session ends, with a commit or without."""
        if not self.held:
            return False
        entered = dice.choice(self.held)
        if dice.random() < 0.5:
            self._do(entered, "COMMIT")
            self.given[entered.cluster.name, entered.role] = None
        self._close(entered)
        self._tell(entered.cluster, f"{entered.role} leaves")
        return True

    # --- what a database's people do

    def _some_role(self, dice: Random) -> tuple[Cluster, str] | None:
        every = self.logins()
        if not every:
            return None
        login = dice.choice(every)
        return login.cluster, login.role

    async def take_grant(self, dice: Random) -> bool:
        """Somebody takes a right away that an access asks for."""
        return self._grant(dice, "REVOKE {} ON {}.{} FROM {}")

    async def give_grant(self, dice: Random) -> bool:
        """Somebody gives a right that no access asks for."""
        return self._grant(dice, "GRANT {} ON {}.{} TO {}")

    def _grant(self, dice: Random, words: str) -> bool:
        chosen = self._some_role(dice)
        privilege, table = dice.choice(PRIVILEGES), dice.choice(TABLES)
        if chosen is None:
            return False
        cluster, role = chosen
        name = sql.Identifier(role).as_string()
        statement = words.format(privilege, SCHEMA, table, name)
        return self._as_owner(cluster, statement)

    def _as_owner(self, cluster: Cluster, statement: str) -> bool:
        """Run a statement of the superuser's that waits for nobody."""
        try:
            cluster.ask("SET lock_timeout = '20ms'", database=DATABASE)
            cluster.ask(statement, database=DATABASE)
        except psycopg.Error as error:
            self._tell(cluster, f"{statement}: {error.sqlstate}")
            return False
        finally:
            self.simulation.loop.sockets.changed()
        self._tell(cluster, statement)
        return True

    async def tidy_up(self, dice: Random) -> bool:
        """Somebody drops the tables that tenants have made."""
        cluster = dice.choice(list(self.clusters.values()))
        return self.drop_own_tables(cluster)

    def drop_own_tables(self, cluster: Cluster) -> bool:
        """Drop all tables of tenants."""
        rows = cluster.ask(
            "SELECT c.oid::regclass::text FROM pg_class c"
            " WHERE c.relkind = 'r' AND c.relname LIKE 'own%%'"
            " AND c.relnamespace = to_regnamespace(%s) ORDER BY 1",
            SCHEMA,
            database=DATABASE,
        )
        done = [self._as_owner(cluster, f"DROP TABLE {name}") for (name,) in rows]
        return any(done)

    # --- how servers fail

    def _server(self, dice: Random) -> Cluster:
        return dice.choice(list(self.clusters.values()))

    async def lose_statements(self, dice: Random) -> bool:
        """Connections break, before a statement is sent or before its answer comes."""
        return await self._lose(dice, commits=False)

    async def lose_commits(self, dice: Random) -> bool:
        """Connections break at the end of a transaction."""
        return await self._lose(dice, commits=True)

    async def _lose(self, dice: Random, *, commits: bool) -> bool:
        cluster = self._server(dice)
        fault = Fault(dice.choice(("lost", "done")), dice.choice((1, 1, 3)), commits)
        self.doors.faults[cluster.name].append(fault)
        self.say(f"{cluster.name}: {fault}")
        left = fault.left
        await asyncio.sleep(30.0)
        if fault in self.doors.faults[cluster.name]:
            self.doors.faults[cluster.name].remove(fault)
        return fault.left < left

    async def die_at_statement(self, dice: Random) -> bool:
        """The process ends when it sends a statement, or when that is answered."""
        hit = await self._hit(dice, dice.choice(("dies", "gone")))
        if hit is None:
            return False
        await asyncio.sleep(dice.choice((0.5, 5.0, 40.0)))
        self._replica(hit).start()
        return True

    async def freeze_at_statement(self, dice: Random) -> bool:
        """The process stands still when it sends a statement, and goes on later."""
        hit = await self._hit(dice, "freezes")
        if hit is None:
            return False
        await asyncio.sleep(dice.choice((2.0, 12.0, 20.0, 40.0)))
        self.say(f"thaw {hit.name}")
        hit.thaw()
        return True

    async def _hit(self, dice: Random, kind: str) -> Process | None:
        """Wait until a statement, most often one that ends a transaction, meets a fault."""
        cluster = self._server(dice)
        commits = dice.random() < 0.6
        fault = Fault(kind, 1, commits, after=dice.randrange(3 if commits else 12))
        self.doors.faults[cluster.name].append(fault)
        self.say(f"{cluster.name}: {kind}")
        with suppress(TimeoutError):
            async with asyncio.timeout(40.0):
                await fault.met.wait()
        if fault in self.doors.faults[cluster.name]:
            self.doors.faults[cluster.name].remove(fault)
        return fault.hit

    def _replica(self, process: Process) -> Replica:
        return next(one for one in self.replicas if one.name == process.name)

    async def slow_server(self, dice: Random) -> bool:
        """All answers of a server are slow."""
        return await self._slow(dice, dice.choice((0.2, 1.5, 8.0)), dice.choice((10.0, 40.0)))

    async def silent_server(self, dice: Random) -> bool:
        """A server says nothing any more."""
        return await self._slow(dice, 3600.0, dice.choice((5.0, 30.0, 90.0)))

    async def _slow(self, dice: Random, by: float, seconds: float) -> bool:
        cluster = self._server(dice)
        if cluster.slow:
            return False
        cluster.slow = by
        self.say(f"{cluster.name} answers {by} s later, for {seconds} s")
        await asyncio.sleep(seconds)
        self._quick(cluster)
        return True

    def _quick(self, cluster: Cluster) -> None:
        cluster.slow = 0.0
        self.simulation.loop.sockets.hurry()

    async def refusing_server(self, dice: Random) -> bool:
        """A server lets nobody in."""
        cluster = self._server(dice)
        if cluster.refusing:
            return False
        cluster.refusing = dice.choice(REFUSALS)
        self.say(f"{cluster.name}: {cluster.refusing}")
        await asyncio.sleep(dice.choice((1.0, 15.0, 60.0)))
        cluster.refusing = ""
        return True

    async def crash_server(self, dice: Random) -> bool:
        """A server crashes, and is there again soon."""
        cluster = self._server(dice)
        self.say(f"{cluster.name} crashes")
        for entered in [each for each in self.held if each.cluster is cluster]:
            self.held.remove(entered)
            entered.connection.close()
        cluster.crash()
        self.simulation.loop.sockets.changed()
        cluster.refusing = cluster.refusing or REFUSALS[-1]
        await asyncio.sleep(dice.choice((0.1, 3.0)))
        cluster.refusing = ""
        return True

    async def wrong_password(self, dice: Random) -> bool:
        """The administrator's Secret has a wrong password for a while."""
        cluster = self._server(dice)
        await self._credentials(cluster.name, "wrong")
        await asyncio.sleep(dice.choice((1.0, 20.0)))
        await self._credentials(cluster.name, ADMIN_PASSWORD)
        return True

    async def _credentials(self, name: str, password: str) -> None:
        patch = {"stringData": {"password": password}}
        await self.admin.merge_patch(SECRETS, name, DEFAULT_NAMESPACE, patch)

    async def heal(self) -> None:
        """End all, sessions of tenants included."""
        await super().heal()
        for cluster in self.clusters.values():
            cluster.refusing = ""
            self.doors.faults[cluster.name].clear()
            self._quick(cluster)
            await self._credentials(cluster.name, ADMIN_PASSWORD)
        self.close_all()
