"""Brings the provider's exported schemas to the consumer as CRDs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TypeVar

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    CLUSTER_BINDING_NAME,
    FINALIZER_UNBIND,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    APIServiceNamespace,
    BindingStatus,
    BoundSchema,
    BoundSchemaSpec,
    ClusterBinding,
    approval_of,
    crd_name,
)
from fairlead.api.kubebind.conditions import (
    NAMESPACE_READY,
    OBJECTS_REMAIN,
    OBJECTS_UNKNOWN,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.meta import JSON, Object, OwnerReference, Undecodable
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, ApiError, Conflict, Forbidden, Invalid
from fairlead.client.lookups import find
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Provider, owning_names
from fairlead.konnector.controllers.apiservicebinding.reconcile import (
    BindingState,
    CRDWrite,
    adopted_conversions,
    changed_claims,
    failure,
    reconcile,
    status,
)
from fairlead.konnector.conversions import adoption
from fairlead.konnector.crds import names_accepted, owned, unselectable
from fairlead.konnector.policies.steps import StepOutcome, outcome
from fairlead.konnector.rights import remedy
from fairlead.runtime import (
    Delta,
    Request,
    Result,
    add_finalizer,
    any_of,
    changed,
    spec_changed,
)


T = TypeVar("T")


_APPROVED = changed(lambda obj: approval_of(obj.meta) if obj is not None else "")
"""Predicate for BoundSchemas whose approval has changed."""


class APIServiceBindingController:
    """Watches bindings and CRDs of the consumer, exports and BoundSchemas of the provider."""

    name = "apiservicebinding"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._consumer = provider.consumer
        self._outcomes: dict[str, StepOutcome] = {}
        self._controller = self._provider.consumer.controller(
            "konnector-apiservicebinding", self._reconcile
        )

    async def run(self) -> None:
        """Work until cancelled."""
        controller, provider = self._controller, self._provider
        async with AsyncExitStack() as stack:
            bindings = self._consumer.cluster.informer(APISERVICEBINDINGS)
            stack.push_async_callback(bindings.close)
            controller.watch(bindings)
            crds = self._consumer.cluster.informer(CUSTOMRESOURCEDEFINITIONS)
            stack.push_async_callback(crds.close)
            controller.watch(crds, self._bindings_of_crd)
            for informer in (provider.kubebind.exports, provider.kubebind.requests):
                # kube-bind joins request, export and binding by equal names alone.
                controller.watch(informer, lambda delta: [_named(delta.object.meta.name)])
            for informer in (provider.kubebind.schemas, provider.kubebind.cluster_bindings):
                # Of both the konnector writes the status itself, which tells it nothing new.
                controller.watch(informer, self._all, predicate=any_of(spec_changed, _APPROVED))
            controller.watch(
                provider.service_namespaces.informer,
                self._all,
                predicate=changed(_retained_namespace),
            )
            provider.on_join(self._enqueue_all)
            await controller.run()

    def _enqueue_all(self) -> None:
        for name in sorted(self._provider.bindings):
            self._controller.enqueue(_named(name))

    def _all(self, _delta: Delta) -> Iterable[Request]:
        return [_named(name) for name in sorted(self._provider.bindings)]

    def _bindings_of_crd(self, delta: Delta) -> Iterable[Request]:
        """Return requests for the CRD's binding, and for all that may wait for its name."""
        owners = owning_names(delta)
        if delta.type == "DELETED":
            owners |= self._provider.bindings
        return [_named(name) for name in sorted(owners & self._provider.bindings)]

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self._consumer.bindings.get("", request.name)
        if obj is None:
            return None
        state = self._state(obj)
        plan = reconcile(state)
        if plan.connected is None:
            return None
        if plan.writes:
            # Before the first CRD, so that a CRD is never left without a kubeconfig of its
            # provider.
            await add_finalizer(self._consumer.client, APISERVICEBINDINGS, obj, FINALIZER_UNBIND)
        failures: list[KubeBindCondition] = []
        retry: ApiError | None = None
        for write in plan.writes:
            try:
                await self._write(write, obj, state.owner)
            except Conflict as error:
                # Another writer was faster: the binding has no fault, and the next look sees the
                # change.
                retry = error
            except ApiError as error:
                failures.append(
                    failure(
                        created=write.old is None,
                        name=write.name,
                        message=_advice(error, request.name),
                    )
                )
                # An invalid CRD stays so until the provider changes its schema, which is an event.
                retry = retry if isinstance(error, Invalid) else error

        def change(binding: APIServiceBinding) -> BindingStatus:
            # Other controllers write conditions too: these are laid over the newest status, not
            # over the one that the pass began with.
            fresh = msgspec.structs.replace(state, binding=binding)
            return status(fresh, plan, failures, now=now())

        for webhook_ in adopted_conversions(state):
            # Before the record: an Event that comes twice is better than one that is lost.
            message = adoption(state.binding, webhook_)
            self._consumer.events.event(obj, "Warning", "ConversionAccepted", message)
        await self._consumer.statuses.update(request.name, change)
        self._consumer.reports.refusals.report(request.name, "claims", changed_claims(state))
        # Only after the status shows the fault, so that a person sees the reason of the retries.
        if retry is not None:
            raise retry
        return Result(bounds.STOPPING_SECONDS) if plan.stopping else None

    def _state(self, obj: Object) -> BindingState:
        name, namespace = obj.meta.name, self._provider.namespace
        export = self._provider.kubebind.exports.get(namespace, name)
        request = self._provider.kubebind.requests.get(namespace, name)
        unreadable: list[str] = []
        parsed = _read(export, APIServiceExport, unreadable)
        resources = parsed.spec.resources if parsed else []
        binding = obj.decode(APIServiceBinding)
        resources_known = [*resources, *binding.status.bound_schemas]
        names = {crd_name(item.resource, item.group) for item in resources_known}
        crds = {name: crd for name in names if (crd := self._consumer.crds.get("", name))}
        return BindingState(
            binding=binding,
            owner=obj.owner_reference(),
            export=parsed,
            request=_read(request, APIServiceExportRequest, unreadable),
            schemas=self._schemas([item.name for item in resources], unreadable),
            approvals=self._approvals([item.name for item in resources]),
            crds=crds,
            neighbours=self._neighbours(crds.values()),
            provider_name=self._pretty_name(),
            converged=self._converged,
            retained=[] if export else self._retained(),
            ours=name in self._provider.bindings and not obj.meta.deleting,
            running={
                key.name: version
                for key, version in self._provider.sync_versions.items()
                if key.binding == name
            },
            unreadable=unreadable,
        )

    def _retained(self) -> list[str]:
        listed = self._provider.service_namespaces.informer.list(self._provider.namespace)
        return [name for one in listed if (name := _retained_namespace(one))]

    def _schemas(self, names: Iterable[str], unreadable: list[str]) -> dict[str, BoundSchemaSpec]:
        schemas, namespace = self._provider.kubebind.schemas, self._provider.namespace
        by_name = {
            name: _read(schemas.get(namespace, name), BoundSchema, unreadable) for name in names
        }
        return {name: schema.spec for name, schema in by_name.items() if schema is not None}

    def _neighbours(self, crds: Iterable[Object]) -> list[Object]:
        """Return the CRDs of groups in which the API server refuses a name of one of these."""
        groups = {_group(crd) for crd in crds if not names_accepted(crd)}
        return [crd for crd in self._consumer.crds.list() if _group(crd) in groups]

    def _approvals(self, names: Iterable[str]) -> dict[str, str]:
        schemas, namespace = self._provider.kubebind.schemas, self._provider.namespace
        schemas_by_name = {name: schemas.get(namespace, name) for name in names}
        return {name: approval_of(found.meta) for name, found in schemas_by_name.items() if found}

    def _pretty_name(self) -> str:
        cluster_binding = self._provider.kubebind.cluster_bindings.get(
            self._provider.namespace, CLUSTER_BINDING_NAME
        )
        binding = cluster_binding.try_decode(ClusterBinding) if cluster_binding else None
        return binding.spec.provider_pretty_name if binding else ""

    def _converged(self, body: JSON, obj: Object) -> bool:
        # API servers add defaults to a CRD: compared with the wanted body alone it would be
        # written in each pass.
        now = outcome(body["spec"], obj.to_dict().get("spec"))
        return now is None or self._outcomes.get(obj.meta.name) == now

    async def _write(self, write: CRDWrite, binding: Object, owner: OwnerReference) -> None:
        client = self._consumer.client
        if write.old is None:
            try:
                written = await client.create(CUSTOMRESOURCEDEFINITIONS, write.body)
            except AlreadyExists:
                crd = await find(client, CUSTOMRESOURCEDEFINITIONS, write.name)
                if crd is None or not owned(crd, owner):
                    raise
                # It is our own write of a moment ago: the cache does not show it yet.
                return
        else:
            written = await client.update(CUSTOMRESOURCEDEFINITIONS, write.body)
        result = outcome(write.body["spec"], written.to_dict().get("spec"))
        if result is None:
            self._outcomes.pop(write.name, None)
            return
        is_same = self._outcomes.get(write.name) == result
        self._outcomes[write.name] = result
        if not is_same and (versions := unselectable(write.body, written)):
            message = (
                "this cluster's API server does not support the selectable fields of "
                f"{write.name} in {', '.join(versions)}, so field selectors cannot use them "
                "here. Objects are synchronised all the same; selectable fields need "
                "Kubernetes 1.31"
            )
            self._consumer.events.event(binding, "Normal", "SelectableFieldsLeftOut", message)


def _read(obj: Object | None, type_: type[T], unreadable: list[str]) -> T | None:
    """Decode an object of the provider; note in ``unreadable`` that it cannot be read."""
    if obj is None:
        return None
    try:
        return obj.decode(type_)
    except Undecodable as error:
        unreadable.append(error.message)
        return None


def _group(crd: Object) -> str:
    return crd.meta.name.partition(".")[2]


def _named(name: str) -> Request:
    return Request("", "", name)


def _retained_namespace(obj: Object | None) -> str:
    """Return the provider namespace that is kept for its objects alone, else ""."""
    if obj is None or not obj.meta.deleting:
        return ""
    parsed = obj.try_decode(APIServiceNamespace)
    if parsed is None:
        return ""
    status = parsed.status
    ready = get_condition(status.conditions, NAMESPACE_READY)
    remains = ready is not None and ready.reason in {OBJECTS_REMAIN, OBJECTS_UNKNOWN}
    return status.namespace if remains else ""


def _advice(error: ApiError, binding: str) -> str:
    lacks_right = isinstance(error, Forbidden) and error.lacks_right
    return f"{error.message}. {remedy(binding)}" if lacks_right else error.message
