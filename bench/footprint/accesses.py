"""Accesses on one PostgreSQL: the operator of PostgresAccess."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
from tests.support import postgres as examples

from bench import planes
from bench.footprint.replicas import Replicas, replicas
from bench.footprint.world import CONNECTIONS
from bench.loading import loader, namespace_of, post, side
from bench.postgres.load import Users
from bench.postgres.place import (
    DATABASES,
    OURS,
    SCHEMAS,
    SERVER,
    SETTINGS,
    Server,
    create,
    create_databases,
    prepare,
    privileges,
)
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.client import Client
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.manifests import NAME


GRANTED = 450 * DATABASES * SCHEMAS
"""Accesses that have grants: the ACLs of tables have no room for those of more."""
AT_ONCE = 5000
"""Accesses that are created before those of before are waited for."""
_MORE = ("UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")


class AccessWorld:
    """Users who create and change accesses."""

    def __init__(self, users: Users, operator: Replicas) -> None:
        self.replicas = (operator,)
        self._operator = operator
        self._users = users
        self._more = itertools.cycle(_MORE)
        self._probes = itertools.count()

    async def load(self, objects: int) -> None:
        """Create them, and wait until all can log in."""
        for first in range(0, objects, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, objects))
            names = {f"access-{number}": number for number in numbers}
            writes = [
                create(POSTGRESACCESSES, name, number, OURS)
                if number < GRANTED
                else post(
                    POSTGRESACCESSES,
                    namespace_of(number),
                    examples.access(name, namespace_of(number), SERVER),
                )
                for name, number in names.items()
            ]
            await self._users.until_ready(writes, names, CONNECTIONS)

    async def change(self, changes: int) -> int:
        """Ask for one privilege more, or for another one, in so many."""
        more = next(self._more)
        names = {f"access-{number}": number for number in range(changes)}
        writes = [
            privileges(POSTGRESACCESSES, name, number, OURS, more)
            for name, number in names.items()
        ]
        await self._users.until_ready(writes, names, CONNECTIONS)
        return changes

    @property
    def probes(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """One access more."""
        return {
            self._operator.name: lambda: self._users.create(f"probe-{next(self._probes)}", [0])
        }


@asynccontextmanager
async def accesses(kind: str) -> AsyncIterator[AccessWorld]:
    """Run a plane of a kind, a PostgreSQL and the operator."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        embedded = await stack.enter_async_context(EmbeddedPostgres(settings=SETTINGS))
        connection = await psycopg.AsyncConnection.connect(embedded.dsn(), autocommit=True)
        watching = await stack.enter_async_context(connection)
        await create_databases(Server(embedded, watching), OURS)
        plane = await stack.enter_async_context(planes.plane(kind, own, fsync=False))
        admin = await stack.enter_async_context(Client(plane.admin))
        account = await prepare(admin, embedded)
        operator = await stack.enter_async_context(replicas("postgres", account, own, NAME))
        config = await loader(admin, "", POSTGRESACCESSES.group)
        loading = await stack.enter_async_context(side(config))
        yield AccessWorld(Users(loading, CONNECTIONS), operator)
