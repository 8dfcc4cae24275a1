"""The link of a Connection to its provider, by one kubeconfig: who answers, and what it offers.

It runs as tasks of its own, so that a provider that is silent holds up no other Connection. At
rest it watches the offered CRDs and renews the Lease, and asks nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress

import msgspec
import structlog

from fairlead.api.kbind.names import FIELD_MANAGER, LABEL_EXPORTED
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import (
    Bounds,
    Client,
    ClientError,
    ClusterConfig,
    Forbidden,
    Timeouts,
)
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.connection.reconcile import LinkState, exported_apis
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.lease import RENEW_SECONDS, WATCH_SECONDS, ConsumerLease
from fairlead.konnector.v2.providers import ConnectedProvider
from fairlead.runtime import (
    Backoff,
    Cluster,
    Engagement,
    Informer,
    Manager,
    delays,
    strip_managed_fields,
)


ANSWER_SECONDS = 10.0
"""Seconds after which a provider that has not answered counts as silent."""
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

    ``changed`` is called when :attr:`state` has changed. ``pinned`` is the uid of the cluster that
    was connected first, "" if none was.
    """

    def __init__(
        self,
        connection: str,
        kubeconfig: bytes,
        config: ClusterConfig,
        options: LinkOptions,
        changed: Callable[[], None],
        *,
        pinned: str = "",
        manager: Manager,
        bounds: Bounds | None = None,
    ) -> None:
        self.name = f"link of {connection}"
        self.connection = connection
        self.kubeconfig = kubeconfig
        self.state = LinkState()
        self.provider: ConnectedProvider | None = None
        """The provider, once its identity is known."""
        self._pinned = pinned
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
        self._cluster = Cluster(
            f"connection-{connection}", self._client, transform=strip_managed_fields
        )
        self._syncers: Supervisor[Hashable] = Supervisor(f"syncers of {connection}")
        self._engagement: Engagement | None = None
        self._crds: Informer | None = None
        self._lost_since: float | None = None
        self._lease = ConsumerLease(self._client, options.local_uid, options.instance)
        self._renew_at = 0.0

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
                self._set(silent=f"{type(error).__name__} of the konnector: see its log")
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
        """Watch the offered CRDs and renew the Lease, until another cluster may be there."""
        crds = self._crds
        if crds is None:
            crds = self._crds = self._cluster.informer(
                CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true"
            )
            crds.subscribe(lambda _delta: self._offer())
        if self.provider is None:
            self.provider = ConnectedProvider(
                self.connection,
                self._cluster,
                crds,
                self.state.remote_uid,
                self._options.local_uid,
                self._syncers,
            )
        async with asyncio.TaskGroup() as group:
            parts = (self._keep_lease(), self._watch_health(crds))
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

    async def _watch_health(self, crds: Informer) -> None:
        """Look at the watch of the CRDs, without a request, until it tells of a fault for long."""
        loop, looks = asyncio.get_running_loop(), 0
        while True:
            if not crds.has_synced and not crds.error:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._options.interval):
                        await crds.synced()
            if self._is_lost(crds):
                looks += 1
                since = self._lost_since = self._lost_since or loop.time()
                # A watch that breaks is soon mended, and a provider that answers is not silent.
                if loop.time() - since >= ANSWER_SECONDS:
                    self._set(silent=crds.error)
                if looks >= self._options.patience:
                    return
            elif crds.has_synced or crds.error:
                looks, self._lost_since = 0, None
                refused = crds.error if crds.error and not self._is_unwatched(crds) else ""
                self._set(forbidden=refused, silent="")
                if self.state.apis is None:
                    self._offer()
            await asyncio.sleep(self._options.interval)

    @staticmethod
    def _is_unwatched(crds: Informer) -> bool:
        """Whether the CRDs may be listed, and not watched: the protocol asks for no more."""
        return crds.has_synced and crds.error.startswith("cannot watch")

    @staticmethod
    def _is_lost(crds: Informer) -> bool:
        """Whether the provider does not tell what it offers, for another reason than a right."""
        return crds.cause is not None and not isinstance(crds.cause, Forbidden)

    def _offer(self) -> None:
        if self._crds is not None and self._crds.has_synced:
            self._set(apis=exported_apis(self._crds.list()))

    def _set(self, **fields: object) -> None:
        state = msgspec.structs.replace(self.state, **fields)
        if state != self.state:
            self.state = state
            self._changed()
