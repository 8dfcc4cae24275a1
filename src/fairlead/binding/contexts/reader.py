"""Reads of a context, each checked against the requester's rights."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    REPLICASETS,
    SECRETS,
    SERVICES,
    Resource,
)
from fairlead.api.selectors import LabelMatcher, LabelSelector, SelectorError
from fairlead.api.servicebinding.common import MAPPING_ANNOTATION
from fairlead.api.servicebinding.mapping import (
    CLUSTERWORKLOADRESOURCEMAPPINGS,
    MappingSpec,
    mapping_name,
)
from fairlead.binding.contexts.requester import Requester
from fairlead.binding.reads import (
    Get,
    ListAll,
    Lookup,
    Marked,
    Read,
    ReadError,
    ReadFailure,
    RightsReview,
    Snapshot,
)
from fairlead.binding.rights import eligibility
from fairlead.binding.services.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.workloads.effort import BindingEffort
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.records import record_key
from fairlead.binding.workloads.workload import (
    Workload,
    WorkloadTemplate,
    build_template,
    default_mapping,
    parse_mapping,
)


ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
Selects = Callable[[Resource, ObjectMeta], bool]
MOST_SERVICE_BYTES = 4 * 1024 * 1024
"""Largest size of a binding's services together, in bytes."""
_SERVICES_AT_ONCE = 16
"""Number of services that are read at the same time, before their sizes are known."""
NO_WORKLOADS = "cannot find application resources for the given reference"


class Reader:
    """Reads of one pass, with the rights of the user who edited the binding last, if known."""

    def __init__(self, snapshot: Snapshot, binding: ObjectMeta) -> None:
        self.snapshot = snapshot
        self.binding = binding
        self.requester = Requester(snapshot, binding)
        self._service_bytes = 0
        self.cluster_services: Callable[[], Awaitable[bool]] = _no
        """Whether services may be cluster-scoped, which rights in a namespace do not cover."""
        self._effort = BindingEffort()
        self._labels: LabelSelector | None = None
        self.kind_is_read = False
        """Whether workloads could be read, so that the binding may be projected onto them."""

    def _collect(self, found: Object) -> None:
        """Count a service's size; all services are decoded in memory together."""
        self._service_bytes += len(found.raw)
        if self._service_bytes > MOST_SERVICE_BYTES:
            raise _failure(
                "Invalid",
                f"the services of the binding have more than {MOST_SERVICE_BYTES} bytes together; "
                "bind fewer of them at once",
            )

    async def look_ahead_at(
        self, services: Sequence[ServiceReference], workloads: WorkloadReference
    ) -> None:
        """Read the objects that a binding names at once, as far as its author may read them.

        Reads that are not used afterwards do not count as dependencies.
        """
        namespace, some = self.binding.namespace, services[:_SERVICES_AT_ONCE]
        await self.snapshot.want([*(one.lookup for one in some), workloads.lookup])
        reads = await self._reads_of(some)
        free: list[Read] = [_crd_of(one.resource) for one in reads if one.resource.group]
        free.append(Marked(SECRETS, namespace, owner=self.binding.uid, optional=True))
        updates: list[RightsReview | None] = []
        resource = self.snapshot.known(workloads.lookup)
        if isinstance(resource, Resource) and eligibility(resource) != "never":
            free.append(Marked(resource, namespace, record_key(self.binding.uid)))
            reads.append(_mapping_of(resource))
            # What is a workload only where it is mapped is read once that is known.
            named = workloads.name and workloads.selector is None
            if named and eligibility(resource) == "free":
                reads.append(Get(resource, namespace, workloads.name, spec_only=True))
                updates.append(
                    self.requester.question("update", resource, namespace, workloads.name)
                )
        await self._want_allowed(reads, free, updates)

    async def services(self, references: Sequence[ServiceReference]) -> list[Service]:
        """Return all services; the ReadError is about the first that cannot be read."""
        await self.snapshot.want(one.lookup for one in references)
        found: list[Service] = []
        for start in range(0, len(references), _SERVICES_AT_ONCE):
            some = references[start : start + _SERVICES_AT_ONCE]
            await self._want_allowed(await self._reads_of(some))
            found += [await self._service(one) for one in some]
        return found

    async def _reads_of(self, references: Sequence[ServiceReference]) -> list[Get]:
        """Return the reads of services whose kinds are known and allowed."""
        return [
            Get(resource, one.namespace if resource.namespaced else "", one.name)
            for one in references
            if isinstance(resource := self.snapshot.known(one.lookup), Resource)
            and (resource.namespaced or await self.cluster_services())
        ]

    async def _want_allowed(
        self,
        reads: Sequence[Get],
        free: Iterable[Read] = (),
        reviews: Iterable[RightsReview | None] = (),
    ) -> None:
        """Read the objects that the author may get, and those that need no right, at once."""
        rights = [
            self.requester.question("get", one.resource, one.namespace, one.name) for one in reads
        ]
        await self.snapshot.want(one for one in (*rights, *reviews) if one)
        allowed = [
            read
            for read, right in zip(reads, rights, strict=True)
            if not self.requester.is_known or (right and self.snapshot.known(right) is True)
        ]
        await self.snapshot.want([*free, *allowed])

    async def _service(self, reference: ServiceReference) -> Service:
        resource = await self.snapshot.lookup(reference.lookup)
        if not resource.namespaced and not await self.cluster_services():
            raise _failure(
                "Invalid",
                f"{reference.place} is {resource.kind} {reference.name}, which is in no namespace"
                " and would be read with the controller's rights; name a service in the binding's"
                " own namespace",
            )
        namespace = reference.namespace if resource.namespaced else ""
        place = f"service {reference.name} in namespace {reference.namespace}"
        await self.requester.check(
            "get", resource, namespace, reference.name, f"cannot read {place}"
        )
        read = Get(resource, namespace, reference.name)
        try:
            found = await self.snapshot.get(read)
            self._collect(found)
            return Service(found, resource, reference.id, await self.snapshot.body(read))
        except ReadError as error:
            if error.failure.code != "NotFound":
                raise
            where = f"in namespace {reference.namespace}" if resource.namespaced else "by its name"
            text = (
                f"{error}: {reference.place} asks for it {where}; create it or correct the binding"
            )
            raise _failure("NotFound", text) from None

    async def secret(self, namespace: str, name: str) -> JSON:
        """Return a Secret; raises ReadError."""
        refusal = f"cannot read secret {name} in namespace {namespace}"
        await self.requester.check("get", SECRETS, namespace, name, refusal)
        return await self.snapshot.body(Get(SECRETS, namespace, name))

    async def owns_secret(self, name: str, uid: str) -> bool:
        """Whether the Secret ``name`` was generated for the binding with this uid."""
        try:
            found = await self.snapshot.get(Get(SECRETS, self.binding.namespace, name))
        except ReadError:
            return False
        return found.meta.owned_by(uid)

    async def own_secret(self, name: str) -> JSON | None:
        """Return a Secret that the binding owns; None if it is missing or another's.

        A change or deletion of it starts another pass.
        """
        read = Get(SECRETS, self.binding.namespace, name)
        try:
            found = await self.snapshot.get(read)
        except ReadError:
            return None
        return await self.snapshot.body(read) if found.meta.owned_by(self.binding.uid) else None

    async def config_map(self, namespace: str, name: str) -> JSON:
        """Return a ConfigMap; raises ReadError."""
        refusal = f"cannot read configmap {name} in namespace {namespace}"
        await self.requester.check("get", CONFIGMAPS, namespace, name, refusal)
        return await self.snapshot.body(Get(CONFIGMAPS, namespace, name))

    async def crd(self, resource: Resource) -> JSON | None:
        """Return the CRD of a resource; None for built-in kinds and for a missing CRD."""
        if not resource.group:
            return None
        try:
            return await self.snapshot.body(_crd_of(resource))
        except ReadError as error:
            if error.failure.code == "NotFound":
                return None
            raise

    async def owned(self, service: Service) -> list[JSON]:
        """Return the objects that a service owns in its namespace, of the served kinds."""
        result: list[JSON] = []
        for resource in (CONFIGMAPS, SECRETS, SERVICES, ROUTES):
            try:
                if resource is ROUTES:
                    # A watch of a kind that is not served would be retried forever.
                    await self.snapshot.lookup(
                        Lookup(ROUTES.group, ROUTES.version, plural=ROUTES.plural)
                    )
                found = await self.owned_by(resource, service.namespace, service.meta.uid)
            except ReadError as error:
                if error.missing:
                    continue
                raise
            result += [{"kind": resource.kind, **item.to_dict()} for item in found]
        return result

    async def owned_by(self, resource: Resource, namespace: str, uid: str) -> list[Object]:
        """Return the objects of a resource that another object owns.

        Raises:
            ReadError: they cannot be read.
        """
        read = Marked(resource, namespace, owner=uid)
        found = await self._whole(read, await self.snapshot.list(read))
        owned = [item for item in found if item.meta.owned_by(uid)]
        reviews = [self.requester.question_of("get", resource, item.meta) for item in owned]
        await self.snapshot.want(review for review in reviews if review)
        for item in owned:
            meta = item.meta
            what = f"{resource.kind.lower()} {meta.name} in namespace {meta.namespace}"
            await self.requester.check(
                "get", resource, meta.namespace, meta.name, f"cannot read {what}"
            )
        return owned

    async def look_ahead(
        self, resources: Iterable[Resource], namespace: str, uids: list[str]
    ) -> None:
        """Read the objects that several objects own at once, for :meth:`owned_by` of each.

        Raises:
            ReadError: some cannot be read.
        """
        kinds = list(resources)
        reads = [Marked(resource, namespace, owner=uid) for uid in uids for resource in kinds]
        await self.snapshot.want(reads)
        await self.snapshot.want(
            [
                Get(read.resource, read.namespace, seen.meta.name, spec_only=read.spec_only)
                for read in reads
                for seen in await self.snapshot.list(read)
            ]
        )

    async def selected(self, reference: WorkloadReference) -> tuple[Resource, list[Object]]:
        """Return the resource of workloads, and the selected ones.

        Raises:
            ReadError: they cannot be read, or none is there.
        """
        resource = await self.snapshot.lookup(reference.lookup)
        if reference.selector is None:
            found = [await self._by_name(resource, reference.name)] if reference.name else []
        else:
            found = await self._by_selector(resource, reference)
        return resource, found

    async def workloads(self, reference: WorkloadReference) -> list[Workload]:
        """Return the workloads of a reference; none without a name or selector.

        Raises:
            ReadError: they cannot be read, or none is there.
            MappingError: their mapping cannot be used.
        """
        if not reference.name and reference.selector is None:
            return []
        resource = await self.snapshot.lookup(reference.lookup)
        await self.check_eligible(resource)
        template = await self.template(resource, reference)
        try:
            _, found = await self.selected(reference)
        except ReadError as error:
            # A missing workload is a successful read.
            self.kind_is_read = error.missing
            raise
        self.kind_is_read = True
        return [
            self.workload(item, resource, template, secret_path=reference.secret_path)
            for item in found
        ]

    async def check_eligible(self, resource: Resource) -> None:
        """Refuse kinds that may not be workloads, regardless of the requester's rights.

        Raises:
            ReadError: the kind is refused, or the administrator's mapping of it cannot be read.
        """
        kind = f"{resource.kind} ({resource.group_resource})"
        match eligibility(resource):
            case "never":
                raise _failure(
                    "Ineligible",
                    f"{kind} may not be a workload: the controllers write it for themselves, or it"
                    " decides about rights; refer to another kind",
                )
            case "mapped" if not await self._is_mapped(resource):
                raise _failure(
                    "Ineligible",
                    f"{kind} is a workload only where the administrator has a"
                    f" ClusterWorkloadResourceMapping named {mapping_name(resource)}; have it"
                    " created, or refer to another kind",
                )

    async def ineligible(self, reference: WorkloadReference) -> str:
        """Return why the kind of a reference may not be a workload; "" if it may or is unknown."""
        try:
            await self.check_eligible(await self.snapshot.lookup(reference.lookup))
        except ReadError as error:
            return str(error) if error.failure.code == "Ineligible" else ""
        return ""

    async def is_eligible(self, resource: Resource) -> bool:
        """Whether ``resource`` may be a workload; True if that cannot be read."""
        try:
            await self.check_eligible(resource)
        except ReadError as error:
            return error.failure.code != "Ineligible"
        return True

    async def _is_mapped(self, resource: Resource) -> bool:
        """Whether a mapping in the cluster names the kind; the binding's own does not count."""
        try:
            await self.snapshot.get(_mapping_of(resource))
        except ReadError as error:
            if error.missing:
                return False
            raise
        return True

    async def not_to_update(self, workloads: Sequence[Workload]) -> list[tuple[int, ReadError]]:
        """Return the positions of workloads that may not be updated, with the errors."""
        reviews = [
            self.requester.question_of("update", item.resource, item.original.meta)
            for item in workloads
        ]
        await self.snapshot.want(review for review in reviews if review)
        denied: list[tuple[int, ReadError]] = []
        for position, workload in enumerate(workloads):
            meta = workload.original.meta
            refusal = (
                f"cannot update application resource {meta.name} in namespace {meta.namespace}"
            )
            try:
                await self.requester.check(
                    "update", workload.resource, meta.namespace, meta.name, refusal
                )
            except ReadError as error:
                denied.append((position, error))
        return denied

    async def served(self, lookup: Lookup) -> Resource | None:
        """Return the resource of a kind; None if it is not served.

        Raises:
            ReadError: the kinds cannot be read.
        """
        try:
            return await self.snapshot.lookup(lookup)
        except ReadError as error:
            if error.missing:
                return None
            raise

    async def marked(self, resource: Resource, annotation: str) -> Sequence[Object]:
        """Return the metadata of a kind's objects with an annotation; none if it is not served.

        Raises:
            ReadError: they cannot be read.
        """
        try:
            return await self.snapshot.list(Marked(resource, self.binding.namespace, annotation))
        except ReadError as error:
            if error.missing:
                return ()
            raise

    async def whole(self, resource: Resource, marked: Iterable[Object]) -> list[Workload]:
        """Return the workloads whose metadata :meth:`marked` returned.

        Raises:
            ReadError: they cannot be read.
        """
        whole = await self._whole(Marked(resource, self.binding.namespace), marked)
        return [self.recorded(resource, item) for item in whole if not _copied(resource, item)]

    def recorded(self, resource: Resource, item: Object) -> Workload:
        """Return a workload with a record, which needs no mapping."""
        return self.workload(item, resource, build_template(MappingSpec(), ""))

    def workload(
        self,
        item: Object,
        resource: Resource,
        template: WorkloadTemplate,
        *,
        secret_path: str = "",
    ) -> Workload:
        """Return a workload; all workloads of a pass share one budget of effort."""
        return Workload(item, resource, template, secret_path=secret_path, effort=self._effort)

    async def _whole(self, read: Marked, found: Iterable[Object]) -> list[Object]:
        """Return the whole objects of seen metadata, without objects deleted since."""
        reads = [
            Get(read.resource, read.namespace, seen.meta.name, spec_only=read.spec_only)
            for seen in found
        ]
        await self.snapshot.want(reads)
        whole: list[Object] = []
        for one in reads:
            try:
                whole.append(await self.snapshot.get(one))
            except ReadError as error:
                if not error.missing:
                    raise
        return whole

    async def everything(self, reference: WorkloadReference) -> list[Workload]:
        """Return all workloads of the reference's kind.

        Raises:
            ReadError: they cannot be read.
            MappingError: their mapping cannot be used.
        """
        resource = await self.snapshot.lookup(reference.lookup)
        found = await self.snapshot.list(ListAll(resource, self.binding.namespace, spec_only=True))
        template = await self.template(resource, reference)
        return [self.workload(item, resource, template) for item in found]

    async def exists(self, resource: Resource, name: str, uid: str) -> bool:
        """Whether the object with this uid exists; True if that cannot be read."""
        try:
            read = Get(resource, self.binding.namespace, name, spec_only=True)
            return (await self.snapshot.get(read)).meta.uid == uid
        except ReadError as error:
            return not error.missing

    async def _by_name(self, resource: Resource, name: str) -> Object:
        namespace = self.binding.namespace
        refusal = f"cannot read application {name} in namespace {namespace}"
        await self.requester.check("get", resource, namespace, name, refusal)
        try:
            return await self.snapshot.get(Get(resource, namespace, name, spec_only=True))
        except ReadError as error:
            if error.failure.code != "NotFound":
                raise
            raise _failure("NotFound", f"{NO_WORKLOADS}: {error}") from None

    def labels(self, reference: WorkloadReference) -> LabelSelector:
        """Return the selector of a reference, parsed once per pass.

        Raises:
            SelectorError: the selector is too long or invalid.
        """
        if self._labels is None:
            self._labels = reference.labels()
        return self._labels

    async def _by_selector(self, resource: Resource, reference: WorkloadReference) -> list[Object]:
        namespace = self.binding.namespace
        refusal = f"cannot read application in namespace {namespace}"
        await self.requester.check("list", resource, namespace, "", refusal)
        try:
            labels = self.labels(reference)
        except SelectorError as error:
            raise _failure("Invalid", f"the workload's label selector is wrong: {error}") from None
        read = ListAll(resource, namespace, spec_only=True, labels=labels)
        found = await self.snapshot.list(read)
        if not found:
            raise _failure("NotFound", NO_WORKLOADS)
        return list(found)

    async def template(self, resource: Resource, reference: WorkloadReference) -> WorkloadTemplate:
        """Return the paths in workloads of a resource; raises MappingError."""
        return build_template(
            await self._mapping(resource),
            resource.version,
            containers_path=reference.containers_path,
        )

    async def _mapping(self, resource: Resource) -> MappingSpec:
        """Return the superseded mapping while the binding has it, else the cluster's."""
        if MAPPING_ANNOTATION in self.binding.annotations:
            return _old_mapping(self.binding.annotations[MAPPING_ANNOTATION])
        name = mapping_name(resource)
        refusal = f"Unable to retrieve ClusterWorkloadResourceMapping for type {name}"
        await self.requester.check("get", CLUSTERWORKLOADRESOURCEMAPPINGS, "", name, refusal)
        try:
            return parse_mapping((await self.snapshot.get(_mapping_of(resource))).to_dict())
        except ReadError as error:
            if error.failure.code == "NotFound":
                return default_mapping(resource)
            raise


def selection(reader: Reader, reference: WorkloadReference, resource: Resource | None) -> Selects:
    """Return a predicate: whether a reference to workloads of ``resource`` selects an object."""
    try:
        labels = LabelMatcher(reader.labels(reference))
    except SelectorError:
        # An invalid selector counts as selecting everything, so that no projection is removed.
        labels = LabelMatcher(LabelSelector())

    def selects(known: Resource, meta: ObjectMeta) -> bool:
        if resource is None or (known.group, known.plural) != (resource.group, resource.plural):
            return False
        if reference.selector is None:
            return meta.name == reference.name
        # A reference with both is an error, and either may be meant.
        return labels.matches(meta.labels) or meta.name == reference.name

    return selects


def _copied(resource: Resource, item: Object) -> bool:
    """Whether ``item`` is a Deployment's ReplicaSet, to which the record was only copied."""
    owner = item.meta.controller()
    return resource == REPLICASETS and owner is not None and owner.kind == DEPLOYMENTS.kind


def _crd_of(resource: Resource) -> Get:
    return Get(CUSTOMRESOURCEDEFINITIONS, "", resource.group_resource, spec_only=True)


def _mapping_of(resource: Resource) -> Get:
    return Get(CLUSTERWORKLOADRESOURCEMAPPINGS, "", mapping_name(resource), spec_only=True)


async def _no() -> bool:
    return False


def lookup_of(api_version: str, kind: str) -> Lookup:
    """Return the lookup for an apiVersion and a kind."""
    group, _, version = api_version.rpartition("/")
    return Lookup(group, version, kind=kind)


def _failure(code: Any, message: str) -> ReadError:
    return ReadError(ReadFailure(code, message))


def _old_mapping(annotation: str) -> MappingSpec:
    try:
        mapping = json.loads(annotation)
    except ValueError:
        raise MappingError("annotation servicebinding.io/mapping is not JSON") from None
    if not isinstance(mapping, dict):
        raise MappingError("annotation servicebinding.io/mapping is not an object")
    return parse_mapping(mapping)
