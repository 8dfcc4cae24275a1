"""The workloads of a context: those that are selected, and those that were once."""

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
from fairlead.binding.workloads.projection import Owner, Projection
from fairlead.binding.workloads.records import Record, read_records, record_key, reference_key
from fairlead.binding.workloads.takeover import Former, infer
from fairlead.binding.workloads.workload import Workload


_BINDINGS = {one.group: one for one in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)}


class Finder:
    """Finds workloads for one binding in one pass.

    ``former`` is what is known of earlier passes. ``kinds`` are those that are noted on the
    binding; None tells that it may be projected onto workloads that have no record. ``secret`` is
    the one to project.
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
        """The selected workloads, and those of them that may not be updated.

        Raises:
            ReadError: they cannot be read, or none is there.
            MappingError: their mapping cannot be used.
        """
        workloads = await self._reader.workloads(self._reference)
        denied = await self._reader.not_to_update(workloads)
        found = [await self._projection(item) for item in workloads]
        return found, [(found[position], error) for position, error in denied]

    async def leftovers(self) -> list[Projection]:
        """The workloads that have something of the binding and are not selected any more.

        Raises:
            ReadError: those of a former kind cannot be read.
            MappingError: where they had it cannot be told without their mapping.
        """
        # By metadata first: of what is selected still, nothing more is asked here.
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
        # What may be no workload any more is taken away from.
        if not await self._reader.is_eligible(known):
            return True
        if self._selection is None:
            resource = await self._reader.served(self._reference.lookup)
            self._selection = selection(self._reader, self._reference, resource)
        return not self._selection(known, meta)

    async def bound(self) -> list[Projection]:
        """The workloads that have something of the binding.

        Raises:
            ReadError: they cannot be read.
            MappingError: where they have it cannot be told without their mapping.
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
        """Whether something may be on workloads of a kind, whatever there is to read of them.

        Without a Secret in the status nothing was projected at all, and a kind is noted before
        anything is projected onto its workloads. Whoever may edit the binding writes notes, too.
        """
        return bool(self._former.secret) and (self._kinds is None or lookup in self._kinds)

    async def _is_missed(self, lookup: Lookup) -> bool:
        """Whether something may be on workloads of a kind that cannot be read."""
        if not self._is_noted(lookup):
            return False
        try:
            return await self._reader.is_eligible(await self._reader.snapshot.lookup(lookup))
        except ReadError:
            return True

    @property
    def _of_reference(self) -> bool:
        """Whether the reference runtime knows bindings of this API."""
        return self._former.owner.group == SERVICEBINDINGS.group

    @property
    def _legacy(self) -> bool:
        return bool(self._former.secret) and self._kinds is None

    async def _marked(
        self, key: str, *, strict: bool, unselected: bool = False
    ) -> list[Projection]:
        """Find workloads with an annotation; ``unselected``: those not selected any more.

        Unless ``strict`` the current kind need not be readable, nor need kinds be that nothing
        can have been projected onto.
        """
        current = self._reference.lookup
        found: list[Workload] = []
        # Many a lookup may lead to one kind, whose objects are looked at once.
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
            # A name is enough where nothing may be listed.
            if self._reference.selector is not None:
                raise
        return await self._still_selected()

    async def _still_selected(self) -> list[Workload]:
        try:
            resource, selected = await self._reader.selected(self._reference)
        except ReadError as error:
            # What a server or nobody can read as a selector or a name has selected nothing.
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
        """Those that have something of the binding, with a record or without."""
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
            Owner(uid, record.group, owner.namespace, record.name, record.created): record
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

    async def _inferred(self, workload: Workload, others: Collection[Record]) -> Record | None:
        """The record of what was projected without one, where it is certainly the binding's.

        Others may have put the same there by hand, and of whoever deletes a binding no right is
        known. So it takes a binding from before there were notes, or a Secret of its own.
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

    async def _alive(self, other: Owner) -> bool:
        resource = _BINDINGS.get(other.group)
        return resource is None or await self._reader.exists(resource, other.name, other.uid)


def _distinct(projections: Iterable[Projection]) -> list[Projection]:
    """Two versions of one kind have the same objects."""
    found: dict[tuple[str, str, str], Projection] = {}
    for item in projections:
        resource = item.workload.resource
        key = resource.group, resource.plural, item.workload.original.meta.name
        found.setdefault(key, item)
    return list(found.values())
