"""Connections: a link for each, finalizers on it and on its Secret, and its status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack

import structlog

from fairlead.api.conditions import Event, stored_conditions, turned
from fairlead.api.kbind import (
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    Binding,
    Connection,
)
from fairlead.api.kbind.names import FIELD_MANAGER, FINALIZER_CLEANUP, READY
from fairlead.api.meta import Key, Object
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import now
from fairlead.client import ApiError, Bounds, ClientError, ConfigError, parse_kubeconfig
from fairlead.client.errors import Conflict
from fairlead.client.kubeconfig import ReferenceRefused
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.secrets import content
from fairlead.konnector.statuses import refresh, with_whole_status
from fairlead.konnector.v2.autobind import AutoBinder, AutoBindPlan, with_auto_bind
from fairlead.konnector.v2.bindings.controller import BindingsController
from fairlead.konnector.v2.bindings.coverage import stands_back
from fairlead.konnector.v2.connection.link import LinkOptions, ProviderLink
from fairlead.konnector.v2.connection.reconcile import (
    ConnectionOutcome,
    ConnectionState,
    LinkState,
    SecretFault,
    reconcile,
    secret_fault,
)
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.providers import ConnectedProvider, ConnectedProviders
from fairlead.konnector.v2.pulls import PulledAPIs
from fairlead.konnector.v2.related.rules import stored_places
from fairlead.runtime import (
    Backoff,
    Delta,
    Manager,
    Request,
    StatusWriter,
    add_finalizer,
    any_of,
    delays,
    metadata_changed,
    remove_finalizer,
    spec_changed,
)
from fairlead.runtime.cache.expectations import Expectations


_log = structlog.get_logger(logger_name="fairlead.konnector.v2.connection")

_WORKERS = 4
"""Connections whose statuses are written at the same time; none waits for a provider."""


class _Links:
    """The link of a Connection that is in use, and one that is tried before it is."""

    def __init__(self, current: ProviderLink) -> None:
        self.current = current
        self.candidate: ProviderLink | None = None

    def all(self) -> Iterator[ProviderLink]:
        yield self.current
        if self.candidate is not None:
            yield self.candidate


class ConnectionController:
    """Watches Connections, the Secrets of the konnector's namespace, and bindings."""

    name = "kbind-connections"

    def __init__(
        self,
        manager: Manager,
        consumer: Consumer,
        providers: ConnectedProviders,
        pulls: PulledAPIs,
        bound: BindingsController,
        bounds: Bounds | None = None,
    ) -> None:
        self._manager = manager
        self._pulls = pulls
        self._bound = bound
        self._consumer = consumer
        self._providers = providers
        self._bounds = bounds
        cluster = consumer.cluster
        self._connections = consumer.kbind_informer(CONNECTIONS)
        self._cluster_bindings = consumer.kbind_informer(CLUSTERBINDINGS)
        self._bindings = consumer.kbind_informer(BINDINGS)
        self._writer = StatusWriter(
            cluster.client, CONNECTIONS, cluster.events(FIELD_MANAGER), _events
        )
        self._written = Expectations()
        self._links: dict[str, _Links] = {}
        self._local_uid = ""
        self._auto_binder = AutoBinder(cluster.client, self._cluster_bindings, self._look_again)
        self._controller = consumer.controller(
            "kbind-connections", self._reconcile, workers=_WORKERS
        )
        pulls.listen(self._look_again)
        bound.listen(self._look_at_deleted)

    async def run(self) -> None:
        """Work until cancelled, then leave all providers."""
        controller, consumer = self._controller, self._consumer
        async with AsyncExitStack() as stack:
            for informer in (self._connections, self._cluster_bindings, self._bindings):
                stack.push_async_callback(informer.close)
            # Also for a status: one that a cache was behind is compared with what is so by now.
            controller.watch(self._connections)
            controller.watch(
                self._cluster_bindings,
                _named,
                predicate=any_of(
                    spec_changed, metadata_changed("owner_references", "labels", "annotations")
                ),
            )
            controller.watch(
                self._bindings,
                _named,
                predicate=any_of(spec_changed, metadata_changed("annotations")),
            )
            consumer.secrets.listen(self._secret_changed)
            stack.callback(consumer.secrets.unlisten, self._secret_changed)
            await consumer.secrets.synced()
            self._local_uid = await self._identity()
            stack.push_async_callback(self._leave_all)
            await controller.run()

    async def _identity(self) -> str:
        """Return the uid of the consumer's cluster, which is awaited."""
        backoff = Backoff(delays.NO_WATCH)
        while True:
            try:
                return await cluster_uid(self._consumer.client)
            except ClientError as error:
                _log.warning("this cluster's identity is not known", error=str(error))
            await asyncio.sleep(backoff.failed(asyncio.get_running_loop().time()))

    def _secret_changed(self, key: Key) -> None:
        for name in self._users(key):
            self._look_again(name)

    def _look_again(self, name: str) -> None:
        self._controller.enqueue(Request("", "", name))

    def _look_at_deleted(self) -> None:
        for obj in self._connections.list():
            if obj.meta.deleting:
                self._look_again(obj.meta.name)

    def _users(self, secret: Key) -> list[str]:
        """Return the Connections that name a Secret."""
        return [
            obj.meta.name
            for obj in self._connections.list()
            if (parsed := obj.try_decode(Connection)) is not None and _source(parsed) == secret
        ]

    async def _reconcile(self, request: Request) -> None:
        name = request.name
        key = Key("", name)
        obj = self._written.newest(key, self._connections.get("", name))
        if obj is None:
            self._written.forget(key)
            await self._leave(name)
            await self._release_secrets()
            return
        try:
            await self._settle(obj)
        except Conflict:
            await refresh(self._written, self._consumer.client, CONNECTIONS, key)
            raise

    async def _settle(self, obj: Object) -> None:
        name = obj.meta.name
        connection = obj.decode(Connection)
        bindings, leaving = self._naming(name), list[str]()
        if obj.meta.deleting and not bindings:
            leaving = [] if stands_back(obj) else self._bound.leaving(name)
            if not leaving:
                await self._finish(obj, connection)
                return
        fault = self._fault(connection)
        if not obj.meta.deleting:
            obj = await self._hold(obj, connection)
        await self._connect(connection, fault)
        links = self._links.get(name)
        state = ConnectionState(
            connection=connection,
            local_uid=self._local_uid,
            secret_fault=fault,
            link=links.current.state if links is not None else None,
            untried=_untried(links),
            pulls=self._pulls.faults(name),
            bindings=tuple(bindings),
            leaving=tuple(leaving),
        )
        await self._commit(obj, state)

    async def _commit(self, obj: Object, state: ConnectionState) -> None:
        outcome = reconcile(state, now=now())
        name = obj.meta.name
        links = self._links.get(name)
        usable = outcome.usable and links is not None
        provider = links.current.provider if usable and links else None
        self._providers.put(name, provider)
        plan, refusal = AutoBindPlan(settled=False), None
        if state.link is None or state.link.holder != "Another":
            plan, refusal = await self._auto_bind(obj, outcome, provider)
        if outcome.status is not None:
            status = with_auto_bind(outcome.status, plan, obj.meta.generation, now=now())
            body = with_whole_status(obj, status)
            self._wrote(obj, await self._writer.write(obj, body))
        if refusal is not None:
            raise refusal

    async def _auto_bind(
        self, obj: Object, outcome: ConnectionOutcome, provider: ConnectedProvider | None
    ) -> tuple[AutoBindPlan, ApiError | None]:
        status = outcome.status
        if not outcome.usable or status is None:
            return await self._auto_binder.settle(obj, None, None)
        offered = [api.name for api in status.exported_apis]
        # Of an API that is not a CRD of the provider nothing proves that it is gone for good.
        proving = provider if status.active_schema_source == "CRD" else None
        return await self._auto_binder.settle(obj, proving, offered)

    def _fault(self, connection: Connection) -> SecretFault | None:
        ref = connection.spec.kubeconfig_secret_ref
        key = _source(connection)
        secrets = self._consumer.secrets
        secret = secrets.get(key)
        kubeconfig = content(secret, ref.key)
        fault, refused = "", False
        if kubeconfig:
            try:
                parse_kubeconfig(kubeconfig)
            except ConfigError as error:
                fault, refused = str(error), isinstance(error, ReferenceRefused)
        return secret_fault(
            ref,
            self._consumer.options.namespace,
            exists=secret is not None,
            content=kubeconfig,
            unreadable=secrets.error(key),
            fault=fault,
            refused=refused,
        )

    async def _hold(self, obj: Object, connection: Connection) -> Object:
        """Add the finalizers to the Secret and to the Connection, unless another one is at work.

        Raises:
            ClientError: a finalizer cannot be added; without one, nothing would be unwound.
        """
        links = self._links.get(obj.meta.name)
        if links is not None and links.current.state.holder == "Another":
            return obj
        client = self._consumer.client
        # Of another namespace's Secret nothing is known here, and nothing is written to it.
        secret = self._consumer.secrets.get(_source(connection))
        if secret is not None and not secret.meta.deleting:
            await add_finalizer(client, SECRETS, secret, FINALIZER_CLEANUP)
        return self._wrote(obj, await add_finalizer(client, CONNECTIONS, obj, FINALIZER_CLEANUP))

    def _wrote(self, old: Object, new: Object) -> Object:
        if new is not old:
            self._written.wrote(new)
        return new

    async def _connect(self, connection: Connection, fault: SecretFault | None) -> None:
        """Have the link that the Secret asks for, and try new credentials beside those in use."""
        name = connection.metadata.name
        links = self._links.get(name)
        if fault is not None:
            await self._leave(name)
            return
        ref = connection.spec.kubeconfig_secret_ref
        kubeconfig = content(self._consumer.secrets.get(_source(connection)), ref.key)
        if links is None:
            links = self._links[name] = _Links(self._link(connection, kubeconfig))
            await links.current.start()
            return
        for link in links.all():
            link.choose(connection.spec.schema.source)
        candidate = links.candidate
        if links.current.kubeconfig == kubeconfig:
            links.candidate = None
            if candidate is not None:
                await candidate.stop()
            return
        if candidate is None or candidate.kubeconfig != kubeconfig:
            links.candidate = self._link(connection, kubeconfig)
            if candidate is not None:
                await candidate.stop()
            await links.candidate.start()
            candidate = links.candidate
        if _is_better(candidate.state, links.current.state, connection):
            former, links.current, links.candidate = links.current, candidate, None
            # Bindings leave the former provider before its tasks end.
            self._providers.put(name, None)
            await former.stop()

    def _link(self, connection: Connection, kubeconfig: bytes) -> ProviderLink:
        name = connection.metadata.name
        options = self._consumer.options
        return ProviderLink(
            connection,
            kubeconfig,
            parse_kubeconfig(kubeconfig),
            LinkOptions(
                self._local_uid,
                self._consumer.instance,
                options.health_interval,
                options.health_patience,
            ),
            lambda: self._look_again(name),
            manager=self._manager,
            bounds=self._bounds,
        )

    async def _leave(self, name: str) -> None:
        self._providers.put(name, None)
        self._auto_binder.forget(name)
        links = self._links.pop(name, None)
        if links is not None:
            for link in links.all():
                await link.stop()

    async def _leave_all(self) -> None:
        for name in list(self._links):
            await self._leave(name)

    async def _finish(self, obj: Object, connection: Connection) -> None:
        """Let a deleted Connection go that no binding names, and its Secret with the last one."""
        await self._leave(obj.meta.name)
        if not stands_back(obj):
            await self._pulls.release(obj)
        source = _source(connection)
        if not any(self._uses(name) for name in self._users(source) if name != obj.meta.name):
            await self._release(source)
        await remove_finalizer(self._consumer.client, CONNECTIONS, obj, FINALIZER_CLEANUP)

    def _uses(self, name: str) -> bool:
        """Whether a Connection still needs its Secret: not if nothing but its end is left."""
        obj = self._connections.get("", name)
        return obj is not None and (not obj.meta.deleting or bool(self._naming(name)))

    async def _release_secrets(self) -> None:
        """Take the finalizer off Secrets that no Connection names: one was removed by force."""
        for secret in self._consumer.secrets.own():
            if FINALIZER_CLEANUP in secret.meta.finalizers and not self._users(secret.key):
                await self._release(secret.key)

    async def _release(self, source: Key) -> None:
        secret = self._consumer.secrets.get(source)
        if secret is not None:
            try:
                await remove_finalizer(self._consumer.client, SECRETS, secret, FINALIZER_CLEANUP)
            except Conflict:
                latest = await self._consumer.client.get(SECRETS, source.name, source.namespace)
                await remove_finalizer(self._consumer.client, SECRETS, latest, FINALIZER_CLEANUP)

    def _naming(self, name: str) -> list[str]:
        """Return the bindings that name a Connection, in the order of kinds and names."""
        result = []
        for informer in (self._cluster_bindings, self._bindings):
            for obj in informer.list():
                parsed = obj.try_decode(Binding)
                if parsed is not None and parsed.spec.connection_ref.name == name:
                    result.append(f"{informer.resource.kind} {obj.key}")
        return sorted(result)


def _source(connection: Connection) -> Key:
    ref = connection.spec.kubeconfig_secret_ref
    return Key(ref.namespace, ref.name)


def _named(delta: Delta) -> Iterable[Request]:
    """Return the requests of the Connections that a binding names, or has named.

    A ClusterBinding may be the managed one of the Connection of its own name.
    """
    objects = [obj for obj in (delta.old, delta.new) if obj is not None]
    parsed = [obj.try_decode(Binding) for obj in objects]
    names = {binding.spec.connection_ref.name for binding in parsed if binding is not None}
    names |= {place.connection for obj in objects for place in stored_places(obj)} - {""}
    if not delta.object.meta.namespace:
        names.add(delta.object.meta.name)
    return [Request("", "", name) for name in sorted(names)]


def _is_better(new: LinkState, current: LinkState, connection: Connection) -> bool:
    """Whether a link by new credentials replaces the one in use."""
    works = not current.silent and not current.forbidden and bool(current.remote_uid)
    if not works:
        return True
    if new.remote_uid and new.remote_uid != connection.status.remote_cluster_uid:
        # Another cluster answers to the credentials that the Connection asks for: that is told.
        return True
    return bool(new.remote_uid) and new.apis is not None and not (new.silent or new.forbidden)


def _untried(links: _Links | None) -> str:
    if links is None or links.candidate is None:
        return ""
    state = links.candidate.state
    reason = state.silent or state.forbidden or "no answer yet"
    return (
        f"the konnector does not use the Secret's new kubeconfig: {reason}; it goes on "
        "with the former one"
    )


def _events(old: Object, new: Object) -> list[Event]:
    return turned(stored_conditions(old.to_dict()), stored_conditions(new.to_dict()), READY)
