"""Binds all exports of the provider, for each APIServiceBindingBundle.

A binding goes only when the provider itself says that its export is gone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceBindingBundle,
    ClusterSecretKeyRef,
)
from fairlead.api.kubebind.conditions import status_events
from fairlead.api.meta import Key, Object, ObjectMeta
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from fairlead.client.lookups import find
from fairlead.konnector import bounds
from fairlead.konnector.connections import RunningConnections
from fairlead.konnector.consumer import Consumer, Provider
from fairlead.konnector.controllers.bindingsecret.controller import seconds_left, secret_valid
from fairlead.konnector.controllers.bundle.reconcile import (
    BundlePlan,
    BundleState,
    reconcile,
    status,
)
from fairlead.konnector.policies.work import SecretKey
from fairlead.konnector.statuses import with_status
from fairlead.runtime import Delta, Request, Result, StatusWriter, metadata_changed


class _Outcome(NamedTuple):
    failures: dict[str, str]
    retry: ClientError | None


class BundleController:
    """Watches bundles, their Secrets, bindings, and the exports of the connections they use."""

    name = "bundle"

    def __init__(self, consumer: Consumer, connections: RunningConnections) -> None:
        self._consumer = consumer
        self._connections = connections
        self._absence: dict[str, MissingExports] = {}
        self._unconnected: dict[str, int] = {}
        self._controller = consumer.controller("konnector-bundle", self._reconcile)
        self._statuses = StatusWriter(
            consumer.client, APISERVICEBINDINGBUNDLES, consumer.events, status_events
        )

    async def run(self) -> None:
        """Work until cancelled."""
        consumer = self._consumer
        async with AsyncExitStack() as stack:
            bundles = consumer.cluster.informer(APISERVICEBINDINGBUNDLES)
            stack.push_async_callback(bundles.close)
            self._controller.watch(bundles)
            bindings = consumer.cluster.informer(APISERVICEBINDINGS)
            stack.push_async_callback(bindings.close)
            # A binding's status is irrelevant to bundles.
            owned = metadata_changed("deletion_timestamp", "owner_references")
            self._controller.watch(bindings, self._everything, predicate=owned)
            consumer.secrets.listen(self._secret_changed)
            stack.callback(consumer.secrets.unlisten, self._secret_changed)
            stack.callback(self._connections.on_add(self._joined))
            await consumer.secrets.synced()
            await self._controller.run()

    def _everything(self, _delta: Delta | None = None) -> Iterable[Request]:
        return [Request("", "", found.meta.name) for found in self._consumer.bundles.list()]

    def _enqueue_all(self) -> None:
        for request in self._everything():
            self._controller.enqueue(request)

    def _secret_changed(self, key: Key) -> None:
        for obj in self._consumer.bundles.list():
            bundle = obj.try_decode(APIServiceBindingBundle)
            if bundle is not None and source(bundle).secret == key:
                self._controller.enqueue(Request("", "", obj.meta.name))

    def _joined(self, provider: Provider) -> None:
        """Watch exports by the connection's shared informer; it ends with the connection."""
        provider.kubebind.exports.subscribe(lambda _delta: self._enqueue_all())
        self._enqueue_all()

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self._consumer.bundles.get("", request.name)
        if obj is None:
            self._absence.pop(request.name, None)
            self._unconnected.pop(request.name, None)
            return None
        bundle = obj.decode(APIServiceBindingBundle)
        place = source(bundle).secret
        if not (self._consumer.secrets.has_synced(place) or self._consumer.secrets.error(place)):
            return Result(bounds.SOON_SECONDS)
        if left := seconds_left(self._consumer, obj, bundle.spec.kubeconfig_secret_ref):
            return Result(left)
        provider = self._connections.using(source(bundle))
        state = self._state(obj, bundle, provider)
        plan = reconcile(state)
        outcome = _Outcome({}, None)
        if provider is not None and plan.missing:
            gone, outcome = await self._ask(obj, provider, plan.missing)
            # Decided again, with the provider's answers about the missing exports.
            plan = reconcile(msgspec.structs.replace(state, gone=gone))
        outcome = await self._carry_out(obj, plan, outcome)
        await self._report(obj, state, plan, outcome.failures)
        if outcome.retry is not None:
            raise outcome.retry
        return Result(bounds.SOON_SECONDS if plan.waiting else self._interval)

    @property
    def _interval(self) -> float:
        return self._consumer.options.provider_polling_interval

    def _state(
        self, obj: Object, bundle: APIServiceBindingBundle, provider: Provider | None
    ) -> BundleState:
        valid = secret_valid(self._consumer, bundle.spec.kubeconfig_secret_ref)
        # A connection is made after its Secret is read: its absence is a fault only when it lasts.
        looks = self._unconnected.get(obj.meta.name, 0) + 1 if provider is None else 0
        self._unconnected[obj.meta.name] = looks
        exports = provider.kubebind.exports if provider is not None else None
        bindings = self._consumer.bindings
        return BundleState(
            bundle=bundle,
            owner=obj.owner_reference(),
            secret_valid=valid,
            exports={
                export.meta.name: export.meta.deleting
                for export in (exports.list() if exports else [])
            },
            bindings={one.meta.name: one.meta for one in bindings.list()},
            waiting=exports is None or not exports.has_synced or not bindings.has_synced,
            client_error=_UNCONNECTED if looks > bounds.LOOKS else "",
            exports_error=exports.error if exports is not None else "",
            bindings_error=bindings.error,
        )

    async def _ask(
        self, obj: Object, provider: Provider, missing: list[str]
    ) -> tuple[frozenset[str], _Outcome]:
        absence = self._absence.setdefault(obj.meta.name, MissingExports(self._interval))
        absence.keep(missing)
        gone: set[str] = set()
        failures: dict[str, str] = {}
        retry: ClientError | None = None
        for name in missing:
            try:
                if await absence.confirmed(provider, name):
                    gone.add(name)
            except ClientError as error:
                retry = error
                failures[name] = (
                    f"cannot find out whether APIServiceExport {name} is gone: {error}"
                )
        return frozenset(gone), _Outcome(failures, retry)

    async def _carry_out(self, obj: Object, plan: BundlePlan, before: _Outcome) -> _Outcome:
        failures, retry = dict(before.failures), before.retry
        for body in plan.create:
            name: str = body["metadata"]["name"]
            try:
                await self._consumer.client.create(APISERVICEBINDINGS, body)
            except AlreadyExists:
                # Perhaps our own binding, and the cache lags behind: the next look tells its
                # owner.
                self._controller.enqueue(Request("", "", obj.meta.name), after=bounds.SOON_SECONDS)
            except ApiError as error:
                retry = error
                failures[name] = f"APIServiceBinding {name} cannot be created: {error}"
            else:
                self._event(obj, "BindingCreated", f"APIServiceExport {name} is bound now")
        for meta in plan.delete:
            try:
                await self._delete(obj, meta)
            except ApiError as error:
                retry = error
                failures[meta.name] = f"APIServiceBinding {meta.name} cannot be deleted: {error}"
        return _Outcome(failures, retry)

    async def _delete(self, obj: Object, meta: ObjectMeta) -> None:
        """Delete a binding; its finalizer keeps the order: copies, then CRDs, then the binding."""
        client = self._consumer.client
        try:
            # The version is a precondition, too: a binding that was changed after the decision,
            # such as by a new owner, is looked at again instead.
            await client.delete(
                APISERVICEBINDINGS, meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return
        message = (
            f"the provider has no APIServiceExport {meta.name} any more: its binding is "
            "being deleted"
        )
        self._event(obj, "BindingDeleted", message)

    def _event(self, obj: Object, reason: str, message: str) -> None:
        self._consumer.events.event(obj, "Normal", reason, message)

    async def _report(
        self, obj: Object, state: BundleState, plan: BundlePlan, failures: dict[str, str]
    ) -> None:
        new = status(state, plan, failures, now=now())
        await self._statuses.write(obj, with_status(obj, new))


_UNCONNECTED = (
    "there is no connection to the provider, although its kubeconfig can be read: the konnector's "
    "log says why"
)


def source(bundle: APIServiceBindingBundle) -> SecretKey:
    """Return the Secret key with a bundle's kubeconfig."""
    ref: ClusterSecretKeyRef = bundle.spec.kubeconfig_secret_ref
    return SecretKey(Key(ref.namespace, ref.name), ref.key)


class MissingExports:
    """Counts looks in which exports of a bundle's bindings were missing on the provider."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._looks: dict[str, tuple[int, float]] = {}

    def keep(self, names: list[str]) -> None:
        """Drop the counts of all exports but these, which are missing now."""
        self._looks = {name: found for name, found in self._looks.items() if name in names}

    async def confirmed(self, provider: Provider, name: str) -> bool:
        """Whether an export is gone for certain; a look that comes too soon does not count.

        Raises:
            ClientError: the provider says nothing about this export; the looks begin anew.
        """
        now = asyncio.get_running_loop().time()
        # The first look is due at once, since every clock is later.
        count, last = self._looks.get(name, (0, -math.inf))
        # Two looks close together may meet the same fault, such as a server in the middle of its
        # start.
        if now - last < self._interval:
            return False
        self._looks.pop(name, None)
        if not await self._gone(provider, name):
            return False
        self._looks[name] = (count + 1, now)
        return count + 1 >= bounds.GONE_LOOKS

    async def _gone(self, provider: Provider, name: str) -> bool:
        if await find(provider.client, APISERVICEEXPORTS, name, provider.namespace) is not None:
            return False
        # A cluster namespace that goes takes all exports with it, although none was revoked.
        tie = await provider.client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, provider.namespace)
        return not tie.meta.deleting
