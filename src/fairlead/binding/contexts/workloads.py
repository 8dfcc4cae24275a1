"""The workloads of a context: the selected ones, and those that still have a projection.

What a binding selects is read with the rights of the user who edited it last. What has one of its
records is read with the controllers' own: unbinding must not depend on the rights of that user.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence

from fairlead.api.meta import Object, ObjectMeta, OwnerReference
from fairlead.api.resource import DEPLOYMENTS, REPLICASETS, Resource
from fairlead.api.selectors import LabelMatcher, LabelSelector, SelectorError
from fairlead.api.servicebinding.common import MAPPING_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import (
    CLUSTERWORKLOADRESOURCEMAPPINGS,
    MappingSpec,
    mapping_name,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.contexts.reader import Reader, failure, mapping_of
from fairlead.binding.reads import Get, ListAll, Lookup, Marked, ReadError
from fairlead.binding.services.service import WorkloadReference
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.projection import Projection, ProjectionOwner
from fairlead.binding.workloads.records import (
    BindingRecord,
    read_records,
    reference_key,
)
from fairlead.binding.workloads.takeover import Former, infer, is_applied
from fairlead.binding.workloads.workload import (
    TooMuchEffortError,
    Workload,
    WorkloadTemplate,
    build_template,
    default_template,
    parse_mapping,
)


NO_WORKLOADS = "cannot find application resources for the given reference"
_BINDINGS = {one.group: one for one in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)}


class Finder:
    """Finds workloads for one binding in one pass.

    ``former`` is the state after earlier passes. ``kinds`` are those that the binding's annotation
    notes; None means that it may be projected onto workloads without a record. ``secret`` returns
    the Secret to project, "" before it is chosen.
    """

    def __init__(
        self,
        reader: Reader,
        reference: WorkloadReference,
        former: Former,
        kinds: list[Lookup] | None,
        secret: Callable[[], str],
    ) -> None:
        self._reader = reader
        self._snapshot = reader.snapshot
        self._namespace = reader.binding.namespace
        self._reference = reference
        self._former = former
        self._kinds = kinds
        self._secret = secret
        self._key = reader.record_key
        self._labels: LabelSelector | None = None
        self._matcher: LabelMatcher | None = None

    async def selected(self) -> tuple[list[Projection], list[tuple[Projection, ReadError]]]:
        """Return the selected workloads, and those of them that may not be updated.

        A workload of another controller is one, since that would undo the projection.

        Raises:
            ReadError: workloads cannot be read, or the named one does not exist.
            MappingError: their mapping is invalid.
        """
        reference = self._reference
        if not reference.name and reference.selector is None:
            return [], []
        resource = await self._resource(reference.lookup)
        await self._reader.check_eligible(resource)
        template = await self._template(resource)
        try:
            objects = await self._named_or_matching(resource)
        except ReadError as error:
            # A missing workload is a successful read.
            self._reader.kind_is_read = error.missing
            raise
        self._reader.kind_is_read = True
        workloads = [
            self._workload(item, resource, template, secret_path=reference.secret_path)
            for item in objects
        ]
        denied = dict(await self._not_to_update(workloads))
        projections = [await self._projection(item) for item in workloads]
        for position, projection in enumerate(projections):
            text = "" if position in denied else await self._controlled(projection)
            if text:
                denied[position] = failure("Ineligible", text)
        return projections, [(projections[position], error) for position, error in denied.items()]

    async def leftovers(self) -> list[Projection]:
        """Return the workloads with a projection that are no longer selected.

        A copy of a selected one under another name, as programs for canaries make it, keeps what
        it was copied with: its maker may not write it again for days.

        Raises:
            ReadError: workloads of a former kind cannot be read.
            MappingError: a projection without a record needs the mapping, which is invalid.
        """
        # By metadata first, so that selected workloads are not read here.
        projections = await self._marked(self._key, unselected=True)
        if self._legacy:
            with contextlib.suppress(ReadError):
                unmarked = await self._unmarked(await self._everything())
                projections = _distinct([*projections, *unmarked])
        return [
            item
            for item in projections
            if await self._is_unselected(item.workload.resource, item.workload.original.meta)
            and not await self._is_renamed(item.workload)
        ]

    async def _is_renamed(self, workload: Workload) -> bool:
        """Whether a workload was copied with its record from one with another name.

        Copies of a kind that may no longer be a workload are not told apart.
        """
        meta = workload.original.meta
        record = read_records(meta.annotations).get(self._former.owner.uid)
        copied = record is not None and record.workload not in {"", meta.name}
        return copied and await self._is_eligible(workload.resource)

    async def bound(self) -> list[Projection]:
        """Return all workloads with a projection of the binding, and all selected ones.

        What a selected one without a record has of the binding's Secret is told, at least.

        Raises:
            ReadError: workloads cannot be read.
            MappingError: a projection without a record needs the mapping, which is invalid.
        """
        keys = [
            self._key,
            *([reference_key(self._former.owner.uid)] if self._of_reference else []),
        ]
        projections = [item for key in keys for item in await self._marked(key)]
        if self._legacy:
            projections += await self._unmarked(await self._everything())
        elif self._is_noted(self._reference.lookup):
            selected = await self._still_selected()
            staying = [item for item in selected if not item.original.meta.deleting]
            projections += [await self._projection(item) for item in staying]
        return _distinct(projections)

    def _is_noted(self, lookup: Lookup) -> bool:
        """Whether workloads of the kind may have a projection, by annotation or status.

        A kind is noted before the first projection onto its workloads. The status does not count
        then: it is written after them, and a pass may end in between. A user who may edit the
        binding can add notes, too.
        """
        return bool(self._former.secret) if self._kinds is None else lookup in self._kinds

    async def _is_missed(self, lookup: Lookup) -> bool:
        """Whether workloads of the kind, which cannot be read, may have a projection."""
        if not self._is_noted(lookup):
            return False
        try:
            return await self._is_eligible(await self._snapshot.lookup(lookup))
        except ReadError:
            return True

    def _is_only_named(self, error: ReadError) -> bool:
        """Whether only the named workload of a kind that may not be listed was ever selected.

        An API server counts each change of a spec in ``metadata.generation``, and the deletion.
        """
        meta = self._reader.binding
        return (
            error.failure.code == "Forbidden"
            and self._reference.selector is None
            and meta.generation - meta.deleting <= 1
        )

    @property
    def _of_reference(self) -> bool:
        """Whether the reference runtime of servicebinding.io handles bindings of this API."""
        return self._former.owner.group == SERVICEBINDINGS.group

    @property
    def _legacy(self) -> bool:
        return bool(self._former.secret) and self._kinds is None

    async def _marked(self, key: str, *, unselected: bool = False) -> list[Projection]:
        """Return workloads with an annotation, with ``unselected`` only no longer selected ones.

        Errors are ignored for kinds that cannot have a projection, and for the current one where
        the selected workloads, which are read besides, are all that can have one.
        """
        current = self._reference.lookup
        projections: list[Projection] = []
        # Several lookups may lead to one kind, whose objects are read once.
        places: set[tuple[str, str]] = set()
        for lookup in dict.fromkeys([current, *(self._kinds or ())]):
            try:
                resource = await self._served(lookup)
                if resource is None or (resource.group, resource.plural) in places:
                    continue
                marked = await self._with_annotation(resource, key)
                if unselected:
                    marked = [
                        item for item in marked if await self._is_unselected(resource, item.meta)
                    ]
                whole = (
                    await self._reader.whole(Marked(resource, self._namespace), marked)
                    if marked
                    else ()
                )
                places.add((resource.group, resource.plural))
            except ReadError as error:
                # While the binding stays, the pass tells by itself that it cannot read the kind.
                skipped = lookup == current and (unselected or self._is_only_named(error))
                if not skipped and await self._is_missed(lookup):
                    raise
                continue
            projections += [
                await self._projection(self._recorded(resource, item))
                for item in whole
                if key in item.meta.annotations and not _copied(resource, item)
            ]
        return projections

    async def _served(self, lookup: Lookup) -> Resource | None:
        """Return the resource of a kind; None if it is not served."""
        try:
            return await self._resource(lookup)
        except ReadError as error:
            if error.missing:
                return None
            raise

    async def _resource(self, lookup: Lookup) -> Resource:
        """Return the resource of a kind in which its objects are read and written."""
        return await self._reader.unpruned(await self._snapshot.lookup(lookup))

    async def _with_annotation(self, resource: Resource, annotation: str) -> Sequence[Object]:
        """Return the metadata of a kind's objects with an annotation; none if it is not served."""
        try:
            return await self._snapshot.list(Marked(resource, self._namespace, annotation))
        except ReadError as error:
            if error.missing:
                return ()
            raise

    async def _everything(self) -> list[Workload]:
        """Return all workloads of the reference's kind, or those that can be read by name."""
        try:
            resource = await self._resource(self._reference.lookup)
            listed = await self._snapshot.list(ListAll(resource, self._namespace, spec_only=True))
            template = await self._template(resource)
            return [self._workload(item, resource, template) for item in listed]
        except ReadError:
            # With a name, workloads can be read without the right to list.
            if self._reference.selector is not None:
                raise
        return await self._still_selected()

    async def _still_selected(self) -> list[Workload]:
        try:
            resource = await self._resource(self._reference.lookup)
            selected = await self._named_or_matching(resource)
        except ReadError as error:
            # A reference that is invalid, or whose kind is not served, never selected anything.
            lost = error.missing or error.failure.code == "Invalid"
            if lost or not await self._is_missed(self._reference.lookup):
                return []
            raise
        marked = [item for item in selected if self._key in item.meta.annotations]
        projections = [self._recorded(resource, item) for item in marked]
        recorded = {item.meta.name for item in marked}
        if len(marked) < len(selected):
            template = await self._template(resource)
            projections += [
                self._workload(item, resource, template)
                for item in selected
                if item.meta.name not in recorded
            ]
        return projections

    async def _unmarked(self, workloads: Iterable[Workload]) -> list[Projection]:
        """Return the workloads with a projection, with a record or without."""
        staying = [item for item in workloads if not item.original.meta.deleting]
        projections = [await self._projection(item) for item in staying]
        return [item for item in projections if item.is_recorded]

    async def _is_unselected(self, own: Resource, meta: ObjectMeta) -> bool:
        # A kind that may no longer be a workload loses its projections.
        if not await self._is_eligible(own):
            return True
        resource = await self._served(self._reference.lookup)
        if resource is None or (own.group, own.plural) != (resource.group, resource.plural):
            return True
        if self._reference.selector is None:
            return meta.name != self._reference.name
        if self._matcher is None:
            try:
                self._matcher = LabelMatcher(self._parsed_labels())
            except SelectorError:
                # An invalid selector counts as selecting everything, so that no projection goes.
                self._matcher = LabelMatcher(LabelSelector())
        # A reference with both is an error, and either may be meant.
        return not self._matcher.matches(meta.labels) and meta.name != self._reference.name

    async def _is_eligible(self, resource: Resource) -> bool:
        """Whether ``resource`` may be a workload; True if that cannot be read."""
        try:
            await self._reader.check_eligible(resource)
        except ReadError as error:
            return error.failure.code != "Ineligible"
        return True

    async def _not_to_update(self, workloads: Sequence[Workload]) -> list[tuple[int, ReadError]]:
        """Return the positions of workloads that may not be updated, with the errors."""
        requester = self._reader.requester
        if not requester.is_known:
            return []
        reviews = [
            requester.question_of("update", item.resource, item.original.meta)
            for item in workloads
        ]
        await self._snapshot.want(review for review in reviews if review)
        denied: list[tuple[int, ReadError]] = []
        for position, workload in enumerate(workloads):
            meta = workload.original.meta
            refusal = (
                f"cannot update application resource {meta.name} in namespace {meta.namespace}"
            )
            try:
                await requester.check(
                    "update", workload.resource, meta.namespace, meta.name, refusal
                )
            except ReadError as error:
                denied.append((position, error))
        return denied

    async def _controlled(self, projection: Projection) -> str:
        """Return which controller would undo a projection, and what to bind; "" if none would.

        Controllers that apply their objects leave fields of others alone. A projection that is
        whole shows that its workload's controller does, too.
        """
        workload = projection.workload
        owner = workload.original.meta.controller()
        if owner is None or workload.is_of_fixed_kind or projection.is_whole:
            return ""
        if is_applied(workload):
            return ""
        text = (
            f"{workload} belongs to {_named(owner)}, which writes its Pods' template and would "
            "undo the binding"
        )
        passed = {owner.uid}
        while (above := await self._owner(owner)) is not None:
            controller = above.meta.controller()
            if controller is None or controller.uid in passed:
                return f"{text}: bind {_named(owner)} instead"
            owner = controller
            passed.add(owner.uid)
        return f"{text}: bind {_named(owner)} instead, or the controller of that"

    async def _owner(self, owner: OwnerReference) -> Object | None:
        """Return the object of a reference; None if it cannot be read.

        The reads are only for a message, so they are no dependencies.
        """
        group, _, version = owner.api_version.rpartition("/")
        (resource,) = await self._snapshot.want([Lookup(group, version, kind=owner.kind)])
        if not isinstance(resource, Resource) or not resource.namespaced:
            return None
        requester = self._reader.requester
        if requester.is_known:
            right = requester.question("get", resource, self._namespace, owner.name)
            if right is None or (await self._snapshot.want([right]))[0] is not True:
                return None
        read = Get(resource, self._namespace, owner.name, spec_only=True)
        (obj,) = await self._snapshot.want([read])
        return obj if isinstance(obj, Object) and obj.meta.uid == owner.uid else None

    async def _named_or_matching(self, resource: Resource) -> list[Object]:
        """Return the objects that the reference selects.

        Raises:
            ReadError: they cannot be read, or none is there.
        """
        reference, namespace = self._reference, self._namespace
        if reference.selector is None:
            return [await self._by_name(resource, reference.name)] if reference.name else []
        refusal = f"cannot read application in namespace {namespace}"
        await self._reader.requester.check("list", resource, namespace, "", refusal)
        try:
            labels = self._parsed_labels()
        except SelectorError as error:
            raise failure("Invalid", f"the workload's label selector is wrong: {error}") from None
        read = ListAll(resource, namespace, spec_only=True, labels=labels)
        workloads = await self._snapshot.list(read)
        if not workloads:
            raise failure("NotFound", NO_WORKLOADS)
        return list(workloads)

    async def _by_name(self, resource: Resource, name: str) -> Object:
        namespace = self._namespace
        refusal = f"cannot read application {name} in namespace {namespace}"
        await self._reader.requester.check("get", resource, namespace, name, refusal)
        try:
            return await self._snapshot.get(Get(resource, namespace, name, spec_only=True))
        except ReadError as error:
            if error.failure.code != "NotFound":
                raise
            raise failure("NotFound", f"{NO_WORKLOADS}: {error}") from None

    def _parsed_labels(self) -> LabelSelector:
        """Return the selector of the reference, parsed once; raises SelectorError."""
        if self._labels is None:
            self._labels = self._reference.labels()
        return self._labels

    async def _template(self, resource: Resource) -> WorkloadTemplate:
        """Return the paths in workloads of a resource; raises MappingError.

        The binding's superseded mapping counts while it is noted, else that of the cluster.
        """
        added, annotations = self._reference.containers_path, self._reader.binding.annotations
        # Mappings are of the version that the binding names, which may not be the stored one.
        version = self._reference.lookup.version or resource.version
        if MAPPING_ANNOTATION in annotations:
            mapping = _old_mapping(annotations[MAPPING_ANNOTATION])
            return build_template(mapping, version, containers_path=added)
        name = mapping_name(resource)
        refusal = f"Unable to retrieve ClusterWorkloadResourceMapping for type {name}"
        await self._reader.requester.check(
            "get", CLUSTERWORKLOADRESOURCEMAPPINGS, "", name, refusal
        )
        try:
            obj = await self._snapshot.get(mapping_of(resource))
        except ReadError as error:
            if error.failure.code == "NotFound":
                return default_template(resource, containers_path=added)
            raise
        mapping = parse_mapping(obj.to_dict())
        return build_template(mapping, version, containers_path=added)

    def _recorded(self, resource: Resource, item: Object) -> Workload:
        """Return a workload with a record, which itself has the paths of its items."""
        return self._workload(item, resource, default_template())

    def _workload(
        self,
        item: Object,
        resource: Resource,
        template: WorkloadTemplate,
        *,
        secret_path: str = "",
    ) -> Workload:
        """Return a workload; all workloads of a pass share one budget of effort."""
        effort = self._reader.effort
        return Workload(item, resource, template, secret_path=secret_path, effort=effort)

    async def _projection(self, workload: Workload) -> Projection:
        try:
            return await self._projected(workload)
        except TooMuchEffortError as error:
            raise MappingError(str(error)) from None

    async def _projected(self, workload: Workload) -> Projection:
        owner = self._former.owner
        records = read_records(workload.original.meta.annotations)
        mine = records.pop(owner.uid, None) or await self._inferred(workload, records.values())
        others = {
            ProjectionOwner(
                uid, record.group, owner.namespace, record.name, record.created
            ): record
            for uid, record in records.items()
        }
        return Projection(
            workload,
            owner,
            mine,
            secrets={self._former.secret, self._secret()},
            others=others,
            alive=self._alive,
            variables=self._former.variables if self._of_reference else None,
        )

    async def _inferred(
        self, workload: Workload, others: Collection[BindingRecord]
    ) -> BindingRecord | None:
        """Infer the record of a projection without one, if it is certainly the binding's.

        A user may have written parts of it by hand, and the rights of the user who deletes a
        binding are unknown: its author has to have the right to update the workload.
        """
        former = self._former
        if not former.secret:
            return None
        own = former.generated and (
            self._legacy or await self._reader.owns_secret(former.secret, former.owner.uid)
        )
        inferred = infer(workload, former, others, own=own, recorded=not self._legacy)
        requester, original = self._reader.requester, workload.original.meta
        if inferred is None or await requester.may_update(workload.resource, original):
            return inferred
        return None

    async def _alive(self, other: ProjectionOwner) -> bool:
        """Whether the binding with this uid exists; True if that cannot be read."""
        resource = _BINDINGS.get(other.group)
        if resource is None:
            return True
        try:
            obj = await self._snapshot.get(
                Get(resource, self._namespace, other.name, spec_only=True)
            )
        except ReadError as error:
            return not error.missing
        return obj.meta.uid == other.uid


def _named(owner: OwnerReference) -> str:
    group, _, _ = owner.api_version.rpartition("/")
    return f"{owner.kind} {owner.name}" + (f" of {group}" if "." in group else "")


def _copied(resource: Resource, item: Object) -> bool:
    """Whether ``item`` is a Deployment's ReplicaSet, to which the record was only copied."""
    owner = item.meta.controller()
    return resource == REPLICASETS and owner is not None and owner.kind == DEPLOYMENTS.kind


def _distinct(projections: Iterable[Projection]) -> list[Projection]:
    """Drop duplicates: two versions of a kind have the same objects."""
    by_place: dict[tuple[str, str, str], Projection] = {}
    for item in projections:
        resource = item.workload.resource
        key = resource.group, resource.plural, item.workload.original.meta.name
        by_place.setdefault(key, item)
    return list(by_place.values())


def _old_mapping(annotation: str) -> MappingSpec:
    try:
        mapping = json.loads(annotation)
    except ValueError:
        raise MappingError("annotation servicebinding.io/mapping is not JSON") from None
    if not isinstance(mapping, dict):
        raise MappingError("annotation servicebinding.io/mapping is not an object")
    return parse_mapping(mapping)
