"""The workloads of a context: selected ones, and formerly selected ones."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from fairlead.api.meta import ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.contexts.reader import Reader, Selects, selection
from fairlead.binding.reads import Lookup, ReadError
from fairlead.binding.services.service import WorkloadReference
from fairlead.binding.workloads.effort import TooMuchEffortError
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.projection import Projection, ProjectionOwner
from fairlead.binding.workloads.records import (
    BindingRecord,
    read_records,
    record_key,
    reference_key,
)
from fairlead.binding.workloads.takeover import Former, infer
from fairlead.binding.workloads.workload import Workload


_BINDINGS = {one.group: one for one in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)}


class Finder:
    """Finds workloads for one binding in one pass.

    ``former`` is the state after earlier passes. ``kinds`` are those that the binding's annotation
    notes; None means that it may be projected onto workloads without a record. ``secret`` is the
    Secret to project.
    """

    def __init__(
        self,
        reader: Reader,
        reference: WorkloadReference,
        former: Former,
        kinds: list[Lookup] | None,
        secret: str,
    ) -> None:
        self._reader = reader
        self._reference = reference
        self._former = former
        self._kinds = kinds
        self._secret = secret
        self._key = record_key(former.owner.uid)
        self._selection: Selects | None = None

    async def selected(self) -> tuple[list[Projection], list[tuple[Projection, ReadError]]]:
        """Return the selected workloads, and those of them that may not be updated.

        Raises:
            ReadError: workloads cannot be read, or the named one does not exist.
            MappingError: their mapping is invalid.
        """
        workloads = await self._reader.workloads(self._reference)
        denied = await self._reader.not_to_update(workloads)
        found = [await self._projection(item) for item in workloads]
        return found, [(found[position], error) for position, error in denied]

    async def leftovers(self) -> list[Projection]:
        """Return the workloads with a projection that are no longer selected.

        Raises:
            ReadError: workloads of a former kind cannot be read.
            MappingError: a projection without a record needs the mapping, which is invalid.
        """
        # By metadata first, so that selected workloads are not read here.
        found = await self._marked(self._key, strict=False, unselected=True)
        if self._legacy:
            with contextlib.suppress(ReadError):
                unmarked = await self._unmarked(await self._everything())
                found = _distinct([*found, *unmarked])
        return [
            item
            for item in found
            if await self._is_unselected(item.workload.resource, item.workload.original.meta)
        ]

    async def _is_unselected(self, known: Resource, meta: ObjectMeta) -> bool:
        # A kind that may no longer be a workload loses its projections.
        if not await self._reader.is_eligible(known):
            return True
        if self._selection is None:
            resource = await self._reader.served(self._reference.lookup)
            self._selection = selection(self._reader, self._reference, resource)
        return not self._selection(known, meta)

    async def bound(self) -> list[Projection]:
        """Return all workloads with a projection of the binding.

        Raises:
            ReadError: workloads cannot be read.
            MappingError: a projection without a record needs the mapping, which is invalid.
        """
        keys = [
            self._key,
            *([reference_key(self._former.owner.uid)] if self._of_reference else []),
        ]
        found = [
            item
            for key in keys
            for item in await self._marked(key, strict=self._reference.selector is not None)
        ]
        if self._legacy:
            found += await self._unmarked(await self._everything())
        elif self._is_noted(self._reference.lookup):
            found += await self._unmarked(await self._still_selected())
        return _distinct(found)

    def _is_noted(self, lookup: Lookup) -> bool:
        """Whether workloads of the kind may have a projection, by status and annotation.

        Without a Secret in the status nothing was projected, and a kind is noted before the first
        projection onto its workloads. A user who may edit the binding can add notes, too.
        """
        return bool(self._former.secret) and (self._kinds is None or lookup in self._kinds)

    async def _is_missed(self, lookup: Lookup) -> bool:
        """Whether workloads of the kind, which cannot be read, may have a projection."""
        if not self._is_noted(lookup):
            return False
        try:
            return await self._reader.is_eligible(await self._reader.snapshot.lookup(lookup))
        except ReadError:
            return True

    @property
    def _of_reference(self) -> bool:
        """Whether the reference runtime of servicebinding.io handles bindings of this API."""
        return self._former.owner.group == SERVICEBINDINGS.group

    @property
    def _legacy(self) -> bool:
        return bool(self._former.secret) and self._kinds is None

    async def _marked(
        self, key: str, *, strict: bool, unselected: bool = False
    ) -> list[Projection]:
        """Return workloads with an annotation, with ``unselected`` only no longer selected ones.

        Without ``strict`` errors are ignored for the current kind, and for kinds that cannot have
        a projection.
        """
        current = self._reference.lookup
        found: list[Workload] = []
        # Several lookups may lead to one kind, whose objects are read once.
        seen: set[tuple[str, str]] = set()
        for lookup in dict.fromkeys([current, *(self._kinds or ())]):
            try:
                resource = await self._reader.served(lookup)
                if resource is None or (resource.group, resource.plural) in seen:
                    continue
                marked = await self._reader.marked(resource, key)
                if unselected:
                    marked = [
                        one for one in marked if await self._is_unselected(resource, one.meta)
                    ]
                found += await self._reader.whole(resource, marked)
                seen.add((resource.group, resource.plural))
            except ReadError:
                if (strict or lookup != current) and await self._is_missed(lookup):
                    raise
        kept = [item for item in found if key in item.original.meta.annotations]
        return [await self._projection(item) for item in kept]

    async def _everything(self) -> list[Workload]:
        try:
            return await self._reader.everything(self._reference)
        except ReadError:
            # With a name, workloads can be read without the right to list.
            if self._reference.selector is not None:
                raise
        return await self._still_selected()

    async def _still_selected(self) -> list[Workload]:
        try:
            resource, selected = await self._reader.selected(self._reference)
        except ReadError as error:
            # A reference that is invalid, or whose kind is not served, never selected anything.
            lost = error.missing or error.failure.code == "Invalid"
            if lost or not await self._is_missed(self._reference.lookup):
                return []
            raise
        marked = [item for item in selected if self._key in item.meta.annotations]
        found = [self._reader.recorded(resource, item) for item in marked]
        recorded = {item.meta.name for item in marked}
        if len(marked) < len(selected):
            template = await self._reader.template(resource, self._reference)
            found += [
                self._reader.workload(item, resource, template)
                for item in selected
                if item.meta.name not in recorded
            ]
        return found

    async def _unmarked(self, workloads: Iterable[Workload]) -> list[Projection]:
        """Return the workloads with a projection, with a record or without."""
        staying = [item for item in workloads if not item.original.meta.deleting]
        found = [await self._projection(item) for item in staying]
        return [item for item in found if item.known]

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
            secrets={self._former.secret, self._secret},
            others=others,
            alive=self._alive,
            variables=self._former.variables if self._of_reference else None,
        )

    async def _inferred(
        self, workload: Workload, others: Collection[BindingRecord]
    ) -> BindingRecord | None:
        """Infer the record of a projection without one, if it is certainly the binding's.

        A user may have written the same by hand, and the rights of the user who deletes a binding
        are unknown. So the binding has to be from before notes, or its Secret its own.
        """
        former = self._former
        own = former.generated and await self._reader.owns_secret(former.secret, former.owner.uid)
        if not self._legacy and not own:
            return None
        found = infer(workload, former, others)
        requester, original = self._reader.requester, workload.original.meta
        if found is None or await requester.may_update(workload.resource, original):
            return found
        return None

    async def _alive(self, other: ProjectionOwner) -> bool:
        resource = _BINDINGS.get(other.group)
        return resource is None or await self._reader.exists(resource, other.name, other.uid)


def _distinct(projections: Iterable[Projection]) -> list[Projection]:
    """Drop duplicates: two versions of a kind have the same objects."""
    found: dict[tuple[str, str, str], Projection] = {}
    for item in projections:
        resource = item.workload.resource
        key = resource.group, resource.plural, item.workload.original.meta.name
        found.setdefault(key, item)
    return list(found.values())
