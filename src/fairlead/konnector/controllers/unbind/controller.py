"""Takes bindings apart in order when they are deleted.

A provider that stays out of reach for long enough counts as gone; its objects are let go here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from fairlead.api.definitions import crd_spec, lossless_resource
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    FINALIZER_UNBIND,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BoundSchema,
    resource_name,
)
from fairlead.api.meta import Object, Undecodable
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import ApiError, Conflict, Forbidden, Invalid, NotFound
from fairlead.konnector import bounds
from fairlead.konnector.connections import RunningConnections
from fairlead.konnector.consumer import (
    Consumer,
    Provider,
    binding_itself,
    owning_bindings,
)
from fairlead.konnector.controllers.unbind.reconcile import (
    Obstacles,
    UnbindPlan,
    gone_message,
    kept_condition,
    left_message,
    reconcile,
)
from fairlead.konnector.crds import left_behind, opened, sync_version
from fairlead.konnector.policies.work import ReleaseSpec, WorkKey
from fairlead.konnector.rights import ADMISSION_REMEDY, remedy
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.sync.passes import REFUSALS
from fairlead.konnector.sync.release import Releaser
from fairlead.runtime import Request, Result, remove_finalizer


class _Refusal(NamedTuple):
    """This cluster's answer to the deletion of a CRD; ``lacks_right`` says that a role helps.

    ``final`` is False for a server that cannot answer now, which no deadline ends.
    """

    message: str
    lacks_right: bool
    final: bool


class UnbindController:
    """Deletes the CRDs of each deleted binding, and then removes the binding's finalizer."""

    name = "unbind"

    def __init__(self, consumer: Consumer, connections: RunningConnections) -> None:
        self._consumer = consumer
        self._connections = connections
        self._patience = UnbindPatience(consumer.options.unbind_timeout)
        self._releases = Releases(consumer)
        self._refused: dict[str, _Refusal] = {}

    async def run(self) -> None:
        """Run the controller and its releasers until cancelled."""
        controller = self._consumer.controller("konnector-unbind", self._reconcile)
        async with AsyncExitStack() as stack:
            for resource, mapper in (
                (APISERVICEBINDINGS, binding_itself),
                (CUSTOMRESOURCEDEFINITIONS, owning_bindings),
            ):
                informer = self._consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                controller.watch(informer, mapper)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._releases.supervisor.run())
                group.create_task(controller.run())

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self._consumer.bindings.get("", request.name)
        if obj is None or not obj.meta.deleting:
            self._patience.forget(request.name)
            await self._releases.forget(request.name)
            self._refused.pop(request.name, None)
            if obj is None:
                self._consumer.syncs.forget(request.name)
                self._consumer.reports.forget(request.name)
            return None
        provider = self._connections.of(request.name)
        owned = self._owned(obj)
        if not owned:
            self._refused.pop(request.name, None)
        refused = self._refused.get(request.name)
        obstacles = self._obstacles(request.name, provider, owned)
        moment = asyncio.get_running_loop().time()
        # A refusal, and objects that no request can let go without taking fields from them, are
        # waited for as long as a provider that is away, for all may be mended.
        given_up = self._patience.ended(request.name, unreachable=obstacles.may_end(), now=moment)
        plan = reconcile(
            obj.meta,
            owned,
            claimed=_claimed(obj.decode(APIServiceBinding), provider),
            obstacles=obstacles,
            patience=self._patience.timeout,
            given_up=given_up,
            refused=self._consumer.reports.invalid(request.name),
            is_held=provider is not None
            and provider.hold(request.name).holding in {"Hold", "Wait"},
        )
        await self._releases.follow(request.name, plan.let_go)
        if plan.release and given_up:
            self._tell(obj, obstacles, refused)
        return await self._carry_out(obj, plan, given_up=given_up)

    def _obstacles(
        self, binding: str, provider: Provider | None, owned: Sequence[Object]
    ) -> Obstacles:
        refused, reports = self._refused.get(binding), self._consumer.reports
        failing, unreachable = reports.failing(binding), _unreachable(provider)
        leftovers = provider.retained.items() if provider is not None else ()
        looks = [leftover for key, leftover in leftovers if key.binding == binding]
        undeletable = unanswered = ""
        if refused is not None and refused.final:
            undeletable = refused.message
        elif refused is not None:
            unanswered = refused.message
        # The watches of a provider that is away fail for the reason that is told already.
        faults = provider.problem(binding) if provider and not unreachable else ""
        return Obstacles(
            unreachable=unreachable,
            lossy=_lossy(provider, binding, owned),
            undeletable=undeletable,
            faults="; ".join(one for one in (unanswered, faults) if one),
            objects=failing.message if failing is not None else "",
            retained=next((why for leftover in looks if (why := leftover())), ""),
        )

    def _tell(self, obj: Object, obstacles: Obstacles, refused: _Refusal | None) -> None:
        """Record an Event about the objects that a given-up binding leaves behind."""
        if refused is not None:
            reason = "RightsMissing" if refused.lacks_right else "DeletionRefused"
            message = left_message(refused.message)
            self._consumer.events.event(obj, "Warning", reason, message)
            return
        message = gone_message(obstacles, self._releases.count(obj.meta.name))
        reason = "ProviderGone" if obstacles.unreachable else "CopiesLeft"
        self._consumer.events.event(obj, "Warning", reason, message)

    async def _carry_out(
        self, obj: Object, plan: UnbindPlan, *, given_up: bool = False
    ) -> Result | None:
        for crd in (*plan.open, *plan.delete):
            try:
                if crd not in plan.open or not await self._open(crd):
                    # The version too: a CRD that was handed over meanwhile is not this binding's,
                    # and all its objects would go with it.
                    await self._consumer.client.delete(
                        CUSTOMRESOURCEDEFINITIONS,
                        crd.meta.name,
                        uid=crd.meta.uid,
                        resource_version=crd.meta.resource_version,
                    )
            except (Conflict, NotFound):
                # The next look sees the CRD as it is now.
                continue
            except ApiError as error:
                # A refusal is no failure of the pass: the condition reports it, and the binding is
                # given up when the patience is over.
                self._refused[obj.meta.name] = _Refusal(
                    f"this cluster refuses to delete CustomResourceDefinition {crd.meta.name}: "
                    f"{_advised(error, obj.meta.name)}",
                    lacks_right=isinstance(error, Forbidden) and error.lacks_right,
                    final=isinstance(error, REFUSALS),
                )
            else:
                self._refused.pop(obj.meta.name, None)
        if plan.condition is not None:
            await self._consumer.statuses.set(obj.meta.name, plan.condition)
            waits = obj.meta.name in self._refused
            return Result(bounds.REFUSED_SECONDS if waits else bounds.RELEASE_SECONDS)
        if plan.release:
            provider = self._connections.of(obj.meta.name)
            if provider is not None and not self._owned(obj):
                # Who takes over its objects waits for the end of the binding. The controller of
                # exports stops nothing while the provider is away.
                await provider.end_objects(obj.meta.name)
            if provider is not None and not given_up:
                # Before the finalizer: after it no pass would come back to do this.
                await provider.forget_cluster(obj.meta.name)
            try:
                await remove_finalizer(
                    self._consumer.client, APISERVICEBINDINGS, obj, FINALIZER_UNBIND
                )
            except (Conflict, NotFound):
                raise
            except ApiError as error:
                name = obj.meta.name
                condition = kept_condition(name, _advised(error, name))
                await self._consumer.statuses.set(name, condition)
                return Result(bounds.REFUSED_SECONDS)
        return None

    async def _open(self, crd: Object) -> bool:
        """Open a CRD; return whether the server takes it."""
        try:
            await self._consumer.client.update(CUSTOMRESOURCEDEFINITIONS, opened(crd))
        except Invalid:
            # A CRD that takes no change at all is deleted as it is.
            return False
        return True

    def _owned(self, obj: Object) -> list[Object]:
        return [crd for crd in self._consumer.crds.list() if crd.meta.owned_by(obj.meta.uid)]


def _advised(error: ApiError, binding: str) -> str:
    """Return the message of this cluster's server about a write that it refused, with a remedy."""
    lacks_right = isinstance(error, Forbidden) and error.lacks_right
    return f"{error.message}. {remedy(binding) if lacks_right else ADMISSION_REMEDY}"


def _unreachable(provider: Provider | None) -> str:
    """Return why the provider itself cannot be reached, "" if it can."""
    if provider is None:
        return "there is no connection to the provider"
    return provider.error()


def _lossy(provider: Provider | None, binding: str, crds: Iterable[Object]) -> str:
    """Return why objects of CRDs are not written, "" if they are."""
    if provider is None:
        return ""
    caches, namespace = provider.kubebind, provider.namespace
    export = caches.exports.get(namespace, binding)
    request = caches.requests.get(namespace, binding)
    try:
        if export is not None:
            export.decode(APIServiceExport)
        if request is not None and (why := left_behind(request.decode(APIServiceExportRequest))):
            return why
        for crd in crds:
            spec = crd_spec(crd)
            name = resource_name(spec.names.plural, spec.group)
            schema = caches.schemas.get(namespace, name)
            if schema is None:
                # Without the export its objects are released in any case.
                if export is not None and caches.schemas.has_synced:
                    return f"the provider has no BoundSchema {name} any more"
            elif why := sync_version(schema.decode(BoundSchema).spec, crd).why:
                return f"objects of {crd.meta.name} would lose fields: {why}"
    except Undecodable as error:
        return f"on the provider, {error.message}"
    return ""


def _claimed(binding: APIServiceBinding, provider: Provider | None) -> list[str]:
    """Return the names of the remaining claimed objects, or of the claims without a connection."""
    if provider is not None:
        return provider.claimed(binding)
    return [f"claimed {claim.resource}" for claim in binding.status.permission_claims]


class UnbindPatience:
    """Decides when an unreachable provider counts as gone: after ``timeout`` seconds.

    The caller gives the time by a clock of its choice. Reaching the provider ends the wait.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._since: dict[str, float] = {}

    def ended(self, binding: str, *, unreachable: bool, now: float) -> bool:
        """Whether the provider of a binding has been unreachable for ``timeout`` seconds."""
        if not unreachable:
            self.forget(binding)
            return False
        return now - self._since.setdefault(binding, now) >= self.timeout

    def forget(self, binding: str) -> None:
        """Drop the wait of a binding that is gone or whose provider was reached."""
        self._since.pop(binding, None)


class Releases:
    """Runs one releaser for each CRD of a binding, and counts the released objects."""

    def __init__(self, consumer: Consumer) -> None:
        self.supervisor = Supervisor[WorkKey]("unbind")
        self._consumer = consumer
        self._counts: Counter[str] = Counter()

    def count(self, binding: str) -> int:
        """Return the number of objects that were released for a binding."""
        return self._counts[binding]

    async def follow(self, binding: str, crds: Sequence[Object]) -> None:
        """Run releasers for exactly these CRDs of a binding."""
        specs: dict[WorkKey, ReleaseSpec] = {}
        for crd in crds:
            resource, why = lossless_resource(crd)
            if resource is not None:
                key = WorkKey(binding, "release", crd.meta.name)
                specs[key] = ReleaseSpec(resource, lossy=bool(why))
        for key in list(self.supervisor.keys):
            if key.binding == binding and key not in specs:
                await self.supervisor.stop(key)
        for key, spec in specs.items():
            if key not in self.supervisor.keys:
                self.supervisor.start(key, self._releaser(binding, spec))

    async def forget(self, binding: str) -> None:
        """Stop the releasers of a binding that is gone, or whose provider is back."""
        await self.follow(binding, ())
        self._counts.pop(binding, None)

    def _releaser(self, binding: str, spec: ReleaseSpec) -> Releaser:
        def released() -> None:
            self._counts[binding] += 1

        lossy = spec.lossy
        return Releaser(self._consumer, binding, spec.resource, lossy=lossy, released=released)
