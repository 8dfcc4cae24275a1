"""The PostgresAccess operator: two replicas, two real PostgreSQL servers, tenants that meddle."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import ClassVar

from tests.sim import databases, leases
from tests.sim.databases import ADMIN_PASSWORD, ADMINS, DATABASE, NAMES, SCHEMA, TABLES
from tests.sim.doors import Doors
from tests.sim.faults import Breaking
from tests.sim.operator_checks import Checks
from tests.sim.planes import Plane
from tests.sim.programs import Program, Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import held, one
from tests.sim.tenants import PRIVILEGES, Tenants
from tests.support.team import leave_to_group

from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import NotFound
from fairlead.demo.identity import create_all
from fairlead.postgres import app, manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


TEAMS = ("team-a", "team-b")
ACCESSES = ("x", "y", "z")
USERNAMES = ("shared", "both")
"""Names that more than one access may ask for."""
POLICIES = ("Cascade", "Cascade", "Orphan", "Restrict", "Retain")
GRACE = "20s"
OPTIONS = PostgresOptions(synced_interval=20.0, pending_interval=8.0)


class Operator(Checks, Tenants):
    """The scenario; teams ask for accesses, and use what they get."""

    name = "operator"
    alike: ClassVar[float] = 130.0
    """An access is tried again within a minute, and so is the server that it waits for."""
    operations: ClassVar[dict[str, float]] = {
        "create": 8.0,
        "delete": 3.0,
        "recreate": 2.0,
        "grants": 4.0,
        "policy": 1.0,
        "groups": 1.0,
        "rotation": 2.0,
        "rotate": 3.0,
        "rename_secret": 1.0,
        "delete_secret": 1.5,
        "edit_secret": 1.5,
        "blur_secret": 1.0,
        "take_name": 1.0,
        "give_name": 1.0,
        "delete_namespace": 0.5,
        **Tenants.tenant_operations,
    }
    faults: ClassVar[dict[str, float]] = {**Breaking.faults, **Tenants.database_faults}
    least: ClassVar[dict[str, float]] = {
        "create": 0.2,
        "delete": 0.3,
        "recreate": 0.2,
        "grants": 0.3,
        "policy": 0.3,
        "groups": 0.3,
        "rotation": 0.3,
        "rotate": 0.3,
        "rename_secret": 0.2,
        "delete_secret": 0.2,
        "edit_secret": 0.2,
        "blur_secret": 0.2,
        "take_name": 0.2,
        "delete_namespace": 0.2,
        "lock_table": 0.15,
        "lock_itself": 0.15,
        "hold_rights": 0.5,
        "own": 0.05,
        "stay": 0.15,
        "let_in": 0.1,
        "change_password": 0.15,
        "leave": 0.15,
        "take_grant": 0.3,
        "give_grant": 0.3,
    }
    resources = ("postgresaccesses", "secrets", "postgresservers", "namespaces", "events")

    forks = False

    @classmethod
    def prepare(cls, slot: int) -> None:
        """Start the databases' servers."""
        databases.prepare()

    @classmethod
    def release(cls) -> None:
        """Stop them."""
        databases.release()

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.plane = Plane(simulation, "cluster")
        self.planes = [self.plane]
        program = Program(
            manifests.NAME,
            DEFAULT_NAMESPACE,
            manifests.NAME,
            partial(app.build, options=OPTIONS),
        )
        self.replicas = [
            Replica(simulation, program, self.plane, f"operator-{number}") for number in (1, 2)
        ]
        self.furnish()
        self.watch()

    # --- the beginning

    async def begin(self) -> None:
        """Servers, namespaces and two accesses, with the operator at work."""
        self.clusters = databases.clusters()
        for cluster in self.clusters.values():
            cluster.sweep()
        self.doors = Doors(self.simulation, self.clusters)
        self.doors.watches.append(self.look_at_statement)
        self.doors.install()
        await self.plane.start()
        self.admin = self.plane.admin()
        await app.install_crds(self.admin)
        await create_all(self.admin, manifests.manifests(image="fairlead"))
        for name in NAMES:
            await self._offer(name)
        for team in TEAMS:
            await self._settle(team)
        self.remember_strangers()
        leases.check_writers(self.simulation, self.replicas)
        for replica in self.replicas:
            await replica.authorize()
            replica.start()
        for team in TEAMS:
            await self._ask(team, "x", Random(team))
        await asyncio.sleep(20.0)

    async def _offer(self, name: str) -> None:
        metadata = {"name": name, "namespace": DEFAULT_NAMESPACE}
        data = {"username": ADMINS[name], "password": ADMIN_PASSWORD}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
        await self.admin.create(SECRETS, body)
        spec = {
            "host": f"{name}.example",
            "sslMode": "disable",
            "credentialsSecretRef": {"name": name},
            "allowedNamespaces": {},
            "allowedDatabases": ["*"],
        }
        server = {
            "apiVersion": f"{POSTGRESSERVERS.group}/v1",
            "kind": "PostgresServer",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.admin.create(POSTGRESSERVERS, server)

    async def _settle(self, team: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
        await self.admin.create(NAMESPACES, body)
        metadata = {"name": "nobodys", "namespace": team}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}
        self.remember(await self.admin.create(SECRETS, secret))

    async def _ask(self, team: str, name: str, dice: Random) -> None:
        own = f"{team[-1]}_{name}"
        spec: JSON = {
            "connection": {"serverRef": {"name": dice.choice(NAMES)}},
            "username": dice.choice((own, own, own, *USERNAMES)),
            "generatedSecret": f"{name}-login",
            "grants": _grants(dice),
            "cleanupPolicy": dice.choice(POLICIES),
            "passwordPolicy": _passwords(dice),
        }
        is_shared = dice.random() < 0.4
        if is_shared:
            spec |= {"groups": "Shared", "suspend": True}
        body = {
            "apiVersion": f"{POSTGRESACCESSES.group}/v1",
            "kind": "PostgresAccess",
            "metadata": {"name": name, "namespace": team},
            "spec": spec,
        }
        await self.admin.create(POSTGRESACCESSES, body)
        if is_shared:
            await leave_to_group(self.admin, name, team)

    def _choose(self, dice: Random) -> Object | None:
        found = [each for each in held(self.plane, POSTGRESACCESSES) if not each.meta.deleting]
        return dice.choice(found) if found else None

    # --- what teams ask for

    async def create(self, dice: Random) -> bool:
        """A new access."""
        team = dice.choice(TEAMS)
        free = [name for name in ACCESSES if not one(self.plane, POSTGRESACCESSES, name, team)]
        if not free:
            return False
        await self._ask(team, dice.choice(free), dice)
        return True

    async def delete(self, dice: Random) -> bool:
        """An access is deleted."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        await self.admin.delete(POSTGRESACCESSES, *reversed(chosen.key))
        return True

    async def recreate(self, dice: Random) -> bool:
        """Another access under the same name, as soon as it is free, perhaps with other wishes."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        await self.admin.delete(POSTGRESACCESSES, *reversed(chosen.key))
        end = self.simulation.loop.time() + 20.0
        while one(self.plane, POSTGRESACCESSES, *reversed(chosen.key)):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.001, 0.2))
        await self._ask(chosen.meta.namespace, chosen.meta.name, dice)
        return True

    async def _change(self, dice: Random, patch: JSON) -> bool:
        chosen = self._choose(dice)
        if chosen is None:
            return False
        made = await self.admin.merge_patch(
            POSTGRESACCESSES, chosen.meta.name, chosen.meta.namespace, patch
        )
        return made.meta.resource_version != chosen.meta.resource_version

    async def grants(self, dice: Random) -> bool:
        """Other grants."""
        return await self._change(dice, {"spec": {"grants": _grants(dice)}})

    async def policy(self, dice: Random) -> bool:
        """Another way to go."""
        return await self._change(dice, {"spec": {"cleanupPolicy": dice.choice(POLICIES)}})

    async def groups(self, dice: Random) -> bool:
        """Privileges on the role itself, and on a group no more."""
        return await self._change(dice, {"spec": {"groups": "None"}})

    async def rotation(self, dice: Random) -> bool:
        """One login, or two."""
        return await self._change(dice, {"spec": {"passwordPolicy": _passwords(dice)}})

    async def rotate(self, dice: Random) -> bool:
        """A new password is asked for."""
        annotations = {ROTATE_ANNOTATION: str(dice.randrange(10**6))}
        return await self._change(dice, {"metadata": {"annotations": annotations}})

    async def rename_secret(self, dice: Random) -> bool:
        """The Secret gets another name."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        name = f"{chosen.meta.name}-{dice.choice(('login', 'other', 'third'))}"
        patch = {"spec": {"generatedSecret": name}}
        made = await self.admin.merge_patch(
            POSTGRESACCESSES, chosen.meta.name, chosen.meta.namespace, patch
        )
        return made.meta.resource_version != chosen.meta.resource_version

    # --- what tenants do to Secrets

    def _secret(self, dice: Random) -> Object | None:
        uids = {each.meta.uid for each in held(self.plane, POSTGRESACCESSES)}
        found = [
            secret
            for team in TEAMS
            for secret in held(self.plane, SECRETS, team)
            if any(secret.meta.owned_by(uid) for uid in uids)
        ]
        return dice.choice(found) if found else None

    async def delete_secret(self, dice: Random) -> bool:
        """A Secret is deleted, which asks for a new password."""
        secret = self._secret(dice)
        if secret is None:
            return False
        await self.admin.delete(SECRETS, *reversed(secret.key))
        return True

    async def edit_secret(self, dice: Random) -> bool:
        """A tenant writes a password of its own."""
        return await self._edit(dice, {"password": f"given-{dice.getrandbits(48):x}"})

    async def blur_secret(self, dice: Random) -> bool:
        """A tenant spoils what is ours in a Secret."""
        key = dice.choice(("username", "host", "uri"))
        return await self._edit(dice, {key: "spoilt"})

    async def _edit(self, dice: Random, data: dict[str, str]) -> bool:
        secret = self._secret(dice)
        if secret is None:
            return False
        meta = secret.meta
        await self.admin.merge_patch(SECRETS, meta.name, meta.namespace, {"stringData": data})
        return True

    async def take_name(self, dice: Random) -> bool:
        """Somebody has a Secret of his own where ours could be."""
        team = dice.choice(TEAMS)
        names = [f"{name}-{word}" for name in ACCESSES for word in ("login", "other")]
        free = [name for name in names if not one(self.plane, SECRETS, name, team)]
        if not free:
            return False
        metadata = {"name": dice.choice(free), "namespace": team}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "Yg=="}}
        self.remember(await self.admin.create(SECRETS, body))
        return True

    async def give_name(self, dice: Random) -> bool:
        """One of these goes."""
        keys = [key for key in self.foreign if key.name != "nobodys"]
        if not keys:
            return False
        try:
            await self.admin.delete(SECRETS, *reversed(dice.choice(keys)))
        except NotFound:
            return False
        return True

    async def delete_namespace(self, dice: Random) -> bool:
        """A namespace goes with all that is in it, and comes again."""
        team = dice.choice(TEAMS)
        if not one(self.plane, NAMESPACES, team):
            return False
        await self.admin.delete(NAMESPACES, team)
        end = self.simulation.loop.time() + 60.0
        while one(self.plane, NAMESPACES, team):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(0.5)
        await self._settle(team)
        return True

    # --- the end

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)

    async def clean_up(self) -> None:
        """Delete all accesses; what tenants own goes first."""
        self.close_all()
        for cluster in self.clusters.values():
            self.drop_own_tables(cluster)
        for found in held(self.plane, POSTGRESACCESSES):
            try:
                await self.admin.delete(POSTGRESACCESSES, *reversed(found.key))
            except NotFound:
                continue


def _grants(dice: Random) -> list[JSON]:
    found: list[JSON] = []
    if dice.random() < 0.8:
        found.append(
            {
                "database": DATABASE,
                "schema": SCHEMA,
                "names": dice.sample(TABLES, k=dice.randint(1, 2)),
                "privileges": sorted(dice.sample(PRIVILEGES, k=dice.randint(1, 3))),
                "on": "Tables",
            }
        )
    if dice.random() < 0.5:
        found.append({"database": DATABASE, "schema": SCHEMA, "privileges": ["CREATE", "USAGE"]})
    return found


def _passwords(dice: Random) -> JSON:
    return {"rotation": dice.choice(("InPlace", "TwoLogins")), "gracePeriod": GRACE}
