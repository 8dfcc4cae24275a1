"""The PostgresServer controller: logins as administrator, and their results in the status."""

from __future__ import annotations

import random

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus, Event, set_condition, turned
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import READY
from fairlead.api.postgresaccess.server import (
    POSTGRESSERVERS,
    REACHABLE,
    PostgresServer,
    PostgresServerStatus,
)
from fairlead.api.timestamps import now
from fairlead.client import NotFound
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.desired import (
    GROUPS_REMEDY,
    SHARED_GROUPS,
    owner_of_server,
)
from fairlead.postgres.controllers.servers.sources import EndpointSources, decode_server
from fairlead.postgres.controllers.watches import AccessWatches, wanted_otherwise
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.rooms import SessionRooms
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import ServerFacts
from fairlead.postgres.database.reading.catalog import read_server
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import BackoffPolicy, Cluster, Controller, Request, Result, StatusWriter


_UNREACHABLE = {"ConnectionFailed", "TLSFailed"}
SHARED_SERVER = (
    f"{SHARED_GROUPS}, and the next minor version removes it: new accesses get their own grants;"
    f" {GROUPS_REMEDY}, then set spec.groups to None"
)
"""Note about a server with shared groups."""
_OF_DATABASE = {"DatabaseNotFound", "InsufficientPrivilege"}
"""Reasons of refusals by the server's own database, after which another one may do."""


class ServerController:
    """Logs in to every PostgresServer at an interval, and writes its status."""

    def __init__(
        self,
        cluster: Cluster,
        watches: AccessWatches,
        options: PostgresOptions,
        sources: EndpointSources,
        metrics: PostgresMetrics,
        attempts: Attempts,
        rooms: SessionRooms,
    ) -> None:
        self._attempts = attempts
        self._rooms = rooms
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, POSTGRESSERVERS, cluster.events("fairlead-postgres"), server_events
        )
        self._options = options
        self._retries = BackoffPolicy(
            initial=1.0, maximum=options.server_interval, jitter=bounds.JITTER
        )
        self._sources = sources
        self._metrics = metrics
        self._sessions: dict[str, Sessions] = {}
        self.controller = Controller(
            "postgresserver", self.reconcile, workers=bounds.SERVER_WORKERS, stopped=self._close
        )
        self.controller.watch(watches.servers, predicate=wanted_otherwise, cluster=cluster.name)
        self.controller.watch(watches.credentials, watches.servers_of_credentials)

    async def _close(self) -> None:
        while self._sessions:
            _, sessions = self._sessions.popitem()
            await sessions.close()

    async def reconcile(self, request: Request) -> Result | None:
        """Log in to one server, and write its status."""
        try:
            server_object = await self._client.get(POSTGRESSERVERS, request.name)
        except NotFound:
            self._forget(request.name)
            if (sessions := self._sessions.pop(request.name, None)) is not None:
                await sessions.close()
            return None
        metrics = self._metrics.of(owner_of_server(request.name))
        metrics.is_known = True
        old = PostgresServerStatus()
        try:
            server = decode_server(server_object)
            old = server.status
            facts = await self._log_in(server)
            note = f"; {SHARED_SERVER}" if server.spec.groups == "Shared" else ""
        except AccessError as error:
            metrics.reached(error)
            metrics.administrator_refused = error.reason == "AuthenticationFailed"
            await self._store(server_object, old, error=error)
            return Result(backoff=self._retries)
        metrics.reached()
        metrics.administrator_refused = False
        await self._store(server_object, old, facts=facts, note=note)
        spread = random.uniform(1 - bounds.JITTER, 1 + bounds.JITTER)  # noqa: S311
        return Result(requeue_after=self._options.server_interval * spread)

    def _forget(self, name: str) -> None:
        owner = owner_of_server(name)
        metrics = self._metrics.of(owner)
        metrics.is_known, metrics.administrator_refused = False, None
        self._metrics.tidy(owner)

    async def _log_in(self, server: PostgresServer) -> ServerFacts:
        endpoint: Endpoint = await self._sources.server_endpoint(server)
        name = server.metadata.name
        sessions = self._sessions.get(name)
        if sessions is None or sessions.endpoint != endpoint:
            if sessions is not None:
                await sessions.close()
            sessions = self._sessions[name] = Sessions(
                endpoint,
                self._metrics.of(owner_of_server(name)).tally,
                attempts=self._attempts,
                room=self._rooms.of(endpoint),
            )
        # An open session would not tell that the database lets no new one in.
        await sessions.renew()
        async with sessions.working("read the catalogs") as session:
            return await read_server(session)

    async def _store(
        self,
        obj: Object,
        old: PostgresServerStatus,
        *,
        facts: ServerFacts | None = None,
        error: AccessError | None = None,
        note: str = "",
    ) -> None:
        new = server_status(old, obj.meta.generation, now(), facts=facts, error=error, note=note)
        body = obj.to_dict()
        body["status"] = msgspec.to_builtins(new)
        await self._statuses.write(obj, body)


def server_events(old: Object, new: Object) -> list[Event]:
    """Return the events for a change of a PostgresServer's status."""
    return turned(_conditions(old), _conditions(new), READY)


def _conditions(server: Object) -> list[Condition]:
    try:
        return server.decode(_WithStatus).status.conditions
    except msgspec.ValidationError:
        return []


class _WithStatus(msgspec.Struct):
    status: PostgresServerStatus = msgspec.field(default_factory=PostgresServerStatus)


def server_status(
    old: PostgresServerStatus,
    generation: int,
    now_: str,
    *,
    facts: ServerFacts | None = None,
    error: AccessError | None = None,
    note: str = "",
) -> PostgresServerStatus:
    """Return the status after a login, equal to the old one where nothing has changed.

    A ``note`` is the end of the message of a server that can be used.
    """
    conditions = old.conditions
    if error is None:
        ready = Condition(
            READY, "True", "Ready", f"the administrator can log in{note}", "", generation
        )
        reachable = Condition(REACHABLE, "True", "Reachable", "", "", generation)
    else:
        message = error.message
        if error.reason in _OF_DATABASE:
            message += ", or name another one in spec.database"
        ready = Condition(READY, "False", error.reason, message, "", generation)
        away = error.reason in _UNREACHABLE
        answered = error.reason in {"AuthenticationFailed", *_OF_DATABASE}
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
