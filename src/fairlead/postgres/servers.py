"""The PostgresServer controller: whether the administrator can log in, and where."""

from __future__ import annotations

import random

import msgspec
import psycopg

from fairlead.api.conditions import Condition, ConditionStatus, get_condition, set_condition
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import (
    POSTGRESSERVERS,
    REACHABLE,
    READY,
    PostgresServer,
    PostgresServerStatus,
)
from fairlead.api.timestamps import now
from fairlead.client import NotFound
from fairlead.postgres.catalog import read_server
from fairlead.postgres.errors import AccessError
from fairlead.postgres.failures import explain_statement
from fairlead.postgres.options import PostgresOptions
from fairlead.postgres.session import Endpoint
from fairlead.postgres.snapshot import ServerFacts
from fairlead.postgres.sources import Sources, decode_server
from fairlead.postgres.sync import maintenance
from fairlead.postgres.watches import Watches, wanted_otherwise
from fairlead.runtime import Cluster, Controller, Request, Result, commit


_FIRST_RETRY_SECONDS = 1.0
_UNREACHABLE = {"ConnectionFailed", "TLSFailed"}


class ServerController:
    """Logs in to every PostgresServer now and then."""

    def __init__(
        self, cluster: Cluster, watches: Watches, options: PostgresOptions, sources: Sources
    ) -> None:
        self._client = cluster.client
        self._events = cluster.events("fairlead-postgres")
        self._options = options
        self._sources = sources
        self._attempts: dict[Request, int] = {}
        self.controller = Controller("postgresserver", self.reconcile)
        self.controller.watch(watches.servers, predicate=wanted_otherwise, cluster=cluster.name)
        self.controller.watch(watches.credentials, watches.servers_of_credentials)

    async def reconcile(self, request: Request) -> Result | None:
        """One look at one server."""
        try:
            found = await self._client.get(POSTGRESSERVERS, request.name)
        except NotFound:
            self._attempts.pop(request, None)
            return None
        old = PostgresServerStatus()
        try:
            server = decode_server(found)
            old = server.status
            facts = await self._look(server)
        except AccessError as error:
            await self._store(found, old, error=error)
            return Result(requeue_after=self._retry(request))
        self._attempts.pop(request, None)
        await self._store(found, old, facts=facts)
        return Result(requeue_after=self._options.server_interval * random.uniform(0.9, 1.1))  # noqa: S311

    async def _look(self, server: PostgresServer) -> ServerFacts:
        endpoint: Endpoint = await self._sources.server_endpoint(server)
        try:
            async with maintenance(endpoint) as session:
                return await read_server(session)
        except psycopg.Error as error:
            raise explain_statement(error, "read the catalogs", endpoint.username) from None

    def _retry(self, request: Request) -> float:
        attempt = self._attempts.get(request, 0)
        self._attempts[request] = attempt + 1
        delay = min(_FIRST_RETRY_SECONDS * 2.0 ** min(attempt, 10), self._options.server_interval)
        return delay * random.uniform(0.9, 1.1)  # noqa: S311

    async def _store(
        self,
        found: Object,
        old: PostgresServerStatus,
        *,
        facts: ServerFacts | None = None,
        error: AccessError | None = None,
    ) -> None:
        new = server_status(old, found.meta.generation, now(), facts=facts, error=error)
        body = found.to_dict()
        body["status"] = msgspec.to_builtins(new)
        stored = await commit(self._client, POSTGRESSERVERS, found, body, subresource="status")
        before, after = (get_condition(one.conditions, READY) for one in (old, new))
        if after is not None and (before is None or before.status != after.status):
            turned_well = after.status == "True"
            self._events.event(
                stored, "Normal" if turned_well else "Warning", after.reason, after.message
            )


def server_status(
    old: PostgresServerStatus,
    generation: int,
    now_: str,
    *,
    facts: ServerFacts | None = None,
    error: AccessError | None = None,
) -> PostgresServerStatus:
    """The status after a look; equal to the old one when nothing has turned."""
    conditions = old.conditions
    if error is None:
        ready = Condition(READY, "True", "Ready", "the administrator can log in", "", generation)
        reachable = Condition(REACHABLE, "True", "Reachable", "", "", generation)
    else:
        ready = Condition(READY, "False", error.reason, error.message, "", generation)
        away = error.reason in _UNREACHABLE
        answered = error.reason in {"AuthenticationFailed", "InsufficientPrivilege"}
        status: ConditionStatus = "False" if away else "True" if answered else "Unknown"
        reachable = Condition(
            REACHABLE, status, error.reason, error.message if away else "", "", generation
        )
    for condition in (ready, reachable):
        conditions = set_condition(conditions, condition, now=now_)
    return msgspec.structs.replace(
        old,
        conditions=conditions,
        observed_generation=generation,
        version=facts.version_text if facts else old.version,
        system_identifier=facts.system_identifier if facts else old.system_identifier,
    )
