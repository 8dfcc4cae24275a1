"""The link of a Connection to its provider, by one kubeconfig: who answers, and what it offers.

It runs as tasks of its own, so that a provider that is silent holds up no other Connection. At
rest it watches the offered CRDs, or asks for the index of OpenAPI, and renews the Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

import msgspec
import structlog

from fairlead.api.kbind import Connection
from fairlead.api.kbind.names import FIELD_MANAGER
from fairlead.api.kbind.types import SchemaSource
from fairlead.client import (
    Bounds,
    Client,
    ClientError,
    ClusterConfig,
    Forbidden,
    Timeouts,
)
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.connection.reconcile import LinkState
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.lease import RENEW_SECONDS, WATCH_SECONDS, ConsumerLease
from fairlead.konnector.v2.providers import ConnectedProvider
from fairlead.konnector.v2.schemas.source import ANSWER_SECONDS, ProviderSchemas
from fairlead.runtime import (
    Backoff,
    Cluster,
    Engagement,
    Manager,
    delays,
    strip_managed_fields,
)


TIMEOUTS = Timeouts(connect=10.0, read=30.0)
"""Limits on a provider's silence, so that no request to it waits for ever."""

_log = structlog.get_logger(logger_name="fairlead.konnector.v2.connection")


class LinkOptions(msgspec.Struct, frozen=True):
    """Options of all links of a konnector; times are in seconds."""

    local_uid: str
    instance: str
    interval: float
    patience: int


class ProviderLink:
    """The link to the provider of one Connection by one kubeconfig.

    ``changed`` is called when :attr:`state` has changed. Of the Connection's status the uid of the
    cluster that was connected first is taken, and what it offered.
    """

    def __init__(
        self,
        connection: Connection,
        kubeconfig: bytes,
        config: ClusterConfig,
        options: LinkOptions,
        changed: Callable[[], None],
        *,
        manager: Manager,
        bounds: Bounds | None = None,
    ) -> None:
        name = connection.metadata.name
        self.name = f"link of {name}"
        self.connection = name
        self.kubeconfig = kubeconfig
        self.state = LinkState()
        self.provider: ConnectedProvider | None = None
        """The provider, once its identity is known."""
        self._pinned = connection.status.remote_cluster_uid
        self._options = options
        self._changed = changed
        self._manager = manager
        self._client = Client(
            config,
            user_agent="fairlead-konnector",
            field_manager=FIELD_MANAGER,
            metrics=manager.metrics.requests,
            timeouts=TIMEOUTS,
            bounds=bounds,
        )
        self._cluster = Cluster(f"connection-{name}", self._client, transform=strip_managed_fields)
        self._syncers: Supervisor[Hashable] = Supervisor(f"syncers of {name}")
        self._engagement: Engagement | None = None
        self._schemas = ProviderSchemas(
            self._cluster,
            connection.spec.schema.source,
            connection.status,
            interval=options.interval,
            patience=options.patience,
            tell=self._set,
        )
        self._lease = ConsumerLease(self._client, options.local_uid, options.instance)
        self._renew_at = 0.0

    def choose(self, source: SchemaSource) -> None:
        """Read schemas from another source."""
        self._schemas.choose(source)

    async def start(self) -> None:
        """Begin to reach the provider."""
        self._engagement = await self._manager.engage(self._cluster, [self._syncers, self])

    async def stop(self) -> None:
        """End all work on the provider, and close its client."""
        if self._engagement is not None:
            await self._engagement.stop()
        await self._client.close()

    async def run(self) -> None:
        """Work until cancelled; no fault of the provider ends it."""
        backoff = Backoff(delays.SILENT_PROVIDER)
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._identify(backoff)
                backoff.good(loop.time())
                await self._follow()
            except ClientError as error:
                self._set(silent=str(error))
            except Exception as error:  # noqa: BLE001  one provider must not end the others
                _log.exception("link failed and is begun again", connection=self.connection)
                self._set(silent=f"the konnector failed with {type(error).__name__}: see its log")
            await asyncio.sleep(backoff.failed(loop.time()))

    async def _identify(self, backoff: Backoff) -> None:
        """Wait until the provider tells its uid, and it is the pinned one."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    uid = await cluster_uid(self._client)
            except Forbidden as error:
                self._set(forbidden=str(error), silent="", remote_uid="")
            except TimeoutError:
                self._set(silent=self._silence())
            except ClientError as error:
                self._set(silent=str(error))
            else:
                self._set(remote_uid=uid, forbidden="")
                if self._pinned in {"", uid}:
                    self._pinned = uid
                    return
            await asyncio.sleep(backoff.failed(loop.time()))

    def _silence(self) -> str:
        return f"{self._client.config.server} has not answered for {ANSWER_SECONDS:g} s"

    async def _follow(self) -> None:
        """Follow what is offered and renew the Lease, until another cluster may be there."""
        if self.provider is None:
            self.provider = ConnectedProvider(
                self.connection,
                self._cluster,
                self._schemas,
                self.state.remote_uid,
                self._options.local_uid,
                self._syncers,
            )
        async with asyncio.TaskGroup() as group:
            parts = (self._keep_lease(), self._schemas.follow())
            tasks = [group.create_task(part) for part in parts]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    async def _keep_lease(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # A watch that broke in between is no reason to renew sooner.
            await asyncio.sleep(max(0.0, self._renew_at - loop.time()))
            holder = await self._lease.renew()
            self._set(holder=holder, lease_problem=self._lease.problem)
            self._renew_at = loop.time() + (
                WATCH_SECONDS if holder == "Another" else RENEW_SECONDS
            )

    def _set(self, **fields: object) -> None:
        state = msgspec.structs.replace(self.state, **fields)
        if state != self.state:
            self.state = state
            self._changed()
