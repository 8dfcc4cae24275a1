"""Both ends of one resource: where objects are read, and where the steps of each are carried out.

With the informer scope ``Namespaced`` the konnector has rights in single namespaces of the
provider only, so there is one watch for each; they come and go with the APIServiceNamespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from fairlead.api.meta import JSON, Key, Object, OwnerReference
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.client.bounds import cost
from fairlead.client.errors import (
    AlreadyExists,
    AnswerTooLarge,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    NotServed,
)
from fairlead.client.lookups import find
from fairlead.konnector.files import WatchBudget
from fairlead.konnector.policies.isolation import IsolationStrategy
from fairlead.konnector.policies.merge import BoundFields, CrossingFields
from fairlead.konnector.policies.steps import (
    Apply,
    AskNamespace,
    ConfirmNamespace,
    Create,
    Delete,
    Pair,
    PatchMetadata,
    Read,
    Replace,
    ReplaceStatus,
    Settle,
    Side,
    Step,
    StepOutcome,
)
from fairlead.konnector.reports import SyncFault
from fairlead.runtime import (
    Cluster,
    Handler,
    Informer,
    InformerClosed,
    patch_metadata,
    strip_managed_fields,
)
from fairlead.runtime.cache.expectations import Expectations
from fairlead.runtime.cache.store import NO_BODY


EVERYWHERE = frozenset({""})
"""The namespaces of a collection that is watched in the whole cluster."""


class WatchedCollection:
    """Objects of one resource on one side: watched while :meth:`run` runs, and written by us.

    ``namespaces`` returns the namespaces to watch, {""} for the whole cluster; :meth:`mark` has it
    called again. ``budget`` limits the number of watches: a namespace that gets none is reported
    as a fault, and watched once there is room. ``serves`` returns the consumer's namespace whose
    objects need a watched namespace. ``expectations`` has the answers to our writes that the
    watches have not shown yet. ``outcomes`` has, by the consumer's key, the outcomes of writes
    that differ from the wanted content. They are in memory alone: after a restart such an object
    costs one write that changes nothing.

    With ``metadata_only`` the watches have no bodies. One that was read or written is kept until
    :meth:`forget_body`, and stands for the object while it has the watched version.
    """

    def __init__(
        self,
        side: Side,
        cluster: Cluster,
        resource: Resource,
        namespaces: Callable[[], frozenset[str]],
        budget: WatchBudget | None = None,
        serves: Callable[[str], str] = str,
        *,
        metadata_only: bool = False,
    ) -> None:
        self.side = side
        self.client = cluster.client
        self.resource = resource
        self.expectations = Expectations()
        self.outcomes: dict[Key, StepOutcome] = {}
        self._cluster = cluster
        self._namespaces = namespaces
        self._leases: dict[str, Informer] = {}
        self._budget = budget or WatchBudget()
        self._serves = serves
        self._crowded: frozenset[str] = frozenset()
        self._dirty = asyncio.Event()
        self._metadata_only = metadata_only
        self._bodies: dict[Key, Object] = {}

    def newest(self, key: Key) -> Object | None:
        """Return the object as it was last seen or written, whichever is later."""
        lease = self._lease(key.namespace)
        cached = lease.get(key.namespace, key.name) if lease else None
        # Nearly always the watch has shown all that we wrote, and the cache is right.
        if key in self.expectations.written:
            cached = self.expectations.newest(key, cached)
        body = self._bodies.get(key)
        same = body is not None and cached is not None and _same(body, cached)
        return body if same else cached

    def keep_body(self, obj: Object) -> None:
        """Keep the body of an object that was read or written, where the watches have none.

        Raises:
            AnswerTooLarge: the server's bounds leave no room for it.
        """
        if not self._metadata_only:
            return
        obj = strip_managed_fields(obj)
        old, intake = self._bodies.get(obj.key), self.client.intake
        what = f"{self.resource.group_resource} {obj.key}"
        try:
            self._cluster.take_room(cost(obj) - (cost(old) if old is not None else 0))
        except AnswerTooLarge as error:
            intake.note(what, error)
            raise
        intake.note(what, None)
        self._bodies[obj.key] = obj

    def forget_body(self, key: Key) -> None:
        """Drop the kept body of an object, which is not needed any more."""
        if (old := self._bodies.pop(key, None)) is not None:
            self._cluster.take_room(-cost(old))
            if not self._bodies:
                # A dict keeps its largest table until it is cleared.
                self._bodies.clear()

    def has(self, key: Key) -> bool:
        """Whether the watch has shown the object, and not its deletion."""
        lease = self._lease(key.namespace)
        return lease is not None and lease.get(key.namespace, key.name) is not None

    def objects(self, namespace: str = "") -> list[Object]:
        """Return the objects in the caches: those of one namespace, or of all that are watched."""
        return [found for lease in self._leases.values() for found in lease.list(namespace)]

    def ready(self, namespace: str) -> bool:
        """Whether the first list of a namespace's objects is complete."""
        lease = self._lease(namespace)
        return lease is not None and lease.has_synced

    def all_listed(self) -> bool:
        """Whether the first lists of all wanted namespaces are complete."""
        # A namespace that was assigned a moment ago has no lease yet, and its objects are not
        # known.
        return self._leases.keys() == self._namespaces() and all(
            lease.has_synced for lease in self._leases.values()
        )

    def faults(self) -> list[SyncFault]:
        """Return the faults of the watches."""
        faults = [faults_of(lease) for lease in self._leases.values() if lease.error]
        return [*faults, *self._shortage()]

    def fault(self, namespace: str) -> SyncFault | None:
        """Return the fault of the watch that has a namespace's objects, None if it works."""
        lease = self._lease(namespace)
        return faults_of(lease) if lease is not None and lease.error else None

    def _shortage(self) -> list[SyncFault]:
        if not self._crowded:
            return []
        budget, without = self._budget, len(self._crowded)
        return [
            SyncFault(
                f"the konnector does not watch {self.resource.group_resource} in {without} of "
                f"{without + len(self._leases)} namespaces: each watch needs an open file, and "
                f"the konnector may open {budget.limit}, of which it keeps {budget.reserve} "
                f"for everything else; allow it {budget.needed} (ulimit -n, LimitNOFILE)"
            )
        ]

    def mark(self) -> None:
        """Have :meth:`run` ask again for the namespaces to watch, and open and close watches."""
        self._dirty.set()

    async def run(
        self,
        handler: Handler,
        announce: Callable[[str], None],
        opened: Callable[[Informer], None] = lambda _lease: None,
    ) -> None:
        """Follow the namespaces until cancelled, then give the leases back.

        Args:
            handler: called with every change.
            announce: called with a namespace whose objects are known now, "" for all.
            opened: called with each new lease.
        """
        self._dirty.set()
        self._budget.join(self, self.mark)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._dirty.wait()
                    self._dirty.clear()
                    places = self._allowed(self._namespaces())
                    for namespace in sorted(self._leases.keys() - places):
                        await self._leases.pop(namespace).close()
                        self._forget_bodies(namespace)
                    for namespace in sorted(places - self._leases.keys()):
                        lease = self._cluster.informer(
                            self.resource,
                            namespace=namespace,
                            metadata_only=self._metadata_only,
                        )
                        self._leases[namespace] = lease
                        opened(lease)
                        lease.subscribe(handler)
                        group.create_task(_announce(namespace, lease, announce))
        finally:
            for lease in self._leases.values():
                await lease.close()
            self._leases.clear()
            self._forget_bodies("")
            self._budget.leave(self)

    def _forget_bodies(self, namespace: str) -> None:
        for key in [key for key in self._bodies if namespace in {"", key.namespace}]:
            self.forget_body(key)

    def _allowed(self, namespaces: frozenset[str]) -> frozenset[str]:
        """Return the namespaces that the budget allows to watch; the others become a fault."""
        places = {namespace: self._watch_name(namespace) for namespace in sorted(namespaces)}
        served = {place: self._serves(namespace) for namespace, place in places.items()}
        self._budget.want(self, served)
        allowed = frozenset(one for one in namespaces if self._budget.allows(places[one]))
        self._crowded = namespaces - allowed
        return allowed

    def _watch_name(self, namespace: str) -> str:
        return f"{self._cluster.name} {self.resource} {namespace}"

    def _lease(self, namespace: str) -> Informer | None:
        return self._leases.get("" if "" in self._leases else namespace)


def has_body(obj: Object | None) -> bool:
    """Whether the content of an object is known; True for none, which has no content."""
    return obj is None or obj.raw != NO_BODY


def _same(left: Object, other: Object) -> bool:
    return (left.meta.uid, left.meta.resource_version) == (
        other.meta.uid,
        other.meta.resource_version,
    )


def _lacks_namespace(error: NotFound, namespace: JSON) -> bool:
    """Whether a server says that the namespace of the object is missing."""
    details = error.status.details
    kind = details.kind if details is not None else ""
    return kind == NAMESPACES.plural and error.concerns(namespace["metadata"]["name"])


def faults_of(lease: Informer) -> SyncFault:
    """Return the fault of a lease's watch, with "" if it works."""
    return SyncFault(lease.error, lease.cause)


async def _announce(namespace: str, lease: Informer, announce: Callable[[str], None]) -> None:
    try:
        await lease.synced()
    except InformerClosed:
        # The namespace went before its objects were known, so that no pass waits for them any
        # more.
        return
    announce(namespace)


class NamespaceAssignments(Protocol):
    """The provider's namespaces for the consumer's, as the engine follows them."""

    @property
    def has_synced(self) -> bool:
        """Whether all assignments are known."""
        ...

    async def synced(self) -> None:
        """Wait until all assignments are known."""
        ...

    def provider(self, namespace: str) -> str:
        """Return the provider namespace for a consumer namespace, "" if none is assigned."""
        ...

    def consumer(self, namespace: str) -> str:
        """Return the consumer namespace for a provider namespace, "" if it is none of ours."""
        ...

    def listen(self, listener: Callable[[str, str], None]) -> None:
        """Call the listener with both namespaces of each change, "" for an assignment's end."""
        ...

    def unlisten(self, listener: Callable[[str, str], None]) -> None:
        """Call the listener no more."""
        ...

    async def ask(self, namespace: str, export: OwnerReference) -> None:
        """Ask the provider for a namespace."""
        ...

    async def gone(self, namespace: str) -> bool:
        """Whether the provider itself says that it has no namespace for this one."""
        ...


class BothEnds(msgspec.Struct, frozen=True):
    """Both ends of one resource, and the mapping between their keys.

    ``export`` owns the APIServiceNamespaces that are asked for.
    """

    consumer: WatchedCollection
    provider: WatchedCollection
    strategy: IsolationStrategy
    namespaces: NamespaceAssignments
    export: OwnerReference

    def at(self, side: Side) -> WatchedCollection:
        """Return the end on this side."""
        return self.consumer if side == "consumer" else self.provider

    def pair(self, key: Key) -> Pair | None:
        """Return both ends of an object, by the consumer's key; None while one end may be unseen.

        An object that is seen can be worked on while the list is incomplete. The absence of one is
        known only when the list is complete.
        """
        consumer = self.consumer.newest(key)
        # Before the first list is complete, a missing object may merely not be listed yet.
        if consumer is None and not self.consumer.ready(key.namespace):
            return None
        target, requested, refusal = self.strategy.place(key)
        provider = self.provider.newest(target) if target is not None else None
        if target is not None and provider is None and not self.provider.ready(target.namespace):
            return None
        outcomes: dict[Side, StepOutcome] = {}
        for end in (self.consumer, self.provider):
            if (outcome := end.outcomes.get(key)) is not None:
                outcomes[end.side] = outcome
        return Pair(
            key=key,
            consumer=consumer,
            provider=provider,
            target=target,
            namespace_asked=requested,
            namespace_refusal=refusal,
            outcomes=outcomes,
        )


class Executor:
    """Carries out one write or read per step, and records the outcome in the pair.

    Writes name the uid and the resourceVersion of the object that was seen. ``outcome`` compares
    one end with its wanted content, after a write and for :class:`Settle`. ``fields`` says which
    fields of a copy are ours. ``forbidden_steps`` has the first refusal of each kind of step that
    the consumer's server forbids, until it allows one.
    """

    def __init__(
        self,
        ends: BothEnds,
        outcome: Callable[[Side, Pair], StepOutcome | None],
        fields: CrossingFields = BoundFields(),  # noqa: B008  it is frozen
    ) -> None:
        self.forbidden_steps: dict[type[Step], Forbidden] = {}
        self._ends = ends
        self._outcome = outcome
        self._fields = fields

    async def carry_out(self, step: Step, pair: Pair) -> Pair | None:
        """Carry out one step; None if no step can follow until an event.

        Raises:
            NotServed: the provider does not serve the kind, so this is about all objects of it.
            ClientError: a server refused or cannot be reached, or said 404 of something else
                than the object.
        """
        side = getattr(step, "side", "")
        ours = side == "consumer"
        try:
            after = await self._do(step, pair)
        except Forbidden as error:
            if ours and error.lacks_right:
                self.forbidden_steps.setdefault(type(step), error)
            raise
        except NotFound as error:
            if side == "provider" and error.unserved:
                raise NotServed(error.status) from error
            raise
        except MethodNotAllowed as error:
            # A server answers so for a kind whose CRD is being deleted.
            if side == "provider":
                raise NotServed(error.status) from error
            raise
        if ours:
            self.forbidden_steps.pop(type(step), None)
        return after

    async def _do(self, step: Step, pair: Pair) -> Pair | None:
        match step:
            case AskNamespace():
                # The assignment arrives as an event of the APIServiceNamespace.
                await self._ends.namespaces.ask(pair.key.namespace, self._ends.export)
                return None
            case ConfirmNamespace():
                gone = await self._ends.namespaces.gone(pair.key.namespace)
                return pair.knowing(namespace_gone=True) if gone else None
            case Read():
                return await self._read(step.side, pair)
            case PatchMetadata():
                return await self._patch(step, pair)
            case Create():
                return await self._create(step, pair)
            case Apply():
                return await self._apply(step, pair)
            case Replace():
                return await self._replace(step, pair)
            case ReplaceStatus():
                return await self._replace_status(step, pair)
            case Delete():
                return await self._delete(step, pair)
            case Settle():
                return self._remember_outcome(step.side, pair)
        raise TypeError(f"{step} is no step to carry out")

    async def _read(self, side: Side, pair: Pair) -> Pair | None:
        end, place = self._ends.at(side), pair.place(side)
        if place is None:
            return None
        try:
            obj = await find(end.client, end.resource, place.name, place.namespace)
        except NotFound:
            # The kind is not served, which holds up all objects of it, or a proxy has answered: no
            # copy counts as gone for that.
            if side == "provider":
                raise
            # Without its CRD the object's state is unknown; its watch will bring us back.
            return None
        if obj is None:
            end.expectations.forget(place)
            end.forget_body(place)
            return pair.without(side)
        end.keep_body(obj)
        if side == "provider":
            body = obj.to_dict()
            pair = pair.knowing(owned=self._fields.owned(body), wrote=self._fields.wrote(body))
        if not end.has(place):
            # It may be gone again before a watch shows it, like an object that was just created.
            end.expectations.wrote(obj, created=True)
        pair = pair.having(side, obj)
        return pair.knowing(read=True) if side == "consumer" else pair

    async def _patch(self, step: PatchMetadata, pair: Pair) -> Pair | None:
        end, old = self._ends.at(step.side), pair.at(step.side)
        if old is None:
            return None
        try:
            written = await patch_metadata(end.client, end.resource, old, step.metadata)
        except NotFound:
            return None
        if old.meta.deleting and "finalizers" in step.metadata:
            # It is gone after this write, or waits for other finalizers than ours.
            return None
        # The watch will show this version, which then causes no pass.
        end.expectations.wrote(written)
        end.keep_body(written)
        pair = pair.having(step.side, written)
        return pair.knowing(read=True) if step.side == "consumer" else pair

    async def _create(self, step: Create, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        namespace = step.body["metadata"].get("namespace", "")
        try:
            created = await end.client.create(end.resource, step.body, namespace)
        except AlreadyExists:
            # The cache is behind, or another writer was faster: the existing object decides the
            # next step.
            return await self._read(step.side, pair)
        if step.side == "provider":
            pair = pair.knowing(created=created.meta.uid)
        return self._wrote(step.side, pair, created, created=True)

    async def _apply(self, step: Apply, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            written = await end.client.apply(end.resource, step.body, force=step.force)
        except NotFound as error:
            if step.namespace is None or not _lacks_namespace(error, step.namespace):
                raise
            # Asked for only now: a credential may well write where it may make no namespace.
            with suppress(AlreadyExists):
                await end.client.create(NAMESPACES, step.namespace)
            written = await end.client.apply(end.resource, step.body, force=step.force)
        except Conflict:
            if step.force:
                raise
            # The object exists after all, with fields of others: it decides the next step.
            return await self._read(step.side, pair)
        if not step.force and _has_other_writers(written, end.client.field_manager):
            # Another client has made the object since it was looked for, and none of its fields
            # has changed: an apply of nothing takes ours off again, and the object decides.
            await end.client.apply(end.resource, _nothing_of(written), force=False)
            return await self._read(step.side, pair)
        return self._wrote(step.side, pair, written)

    async def _replace(self, step: Replace, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            written = await end.client.update(end.resource, step.body)
        except NotFound:
            if (place := pair.place(step.side)) is not None:
                end.expectations.forget(place)
            # The pair does not record the absence as confirmed: before an original is released,
            # the server is asked for the copy itself.
            return pair.having(step.side, None)
        return self._wrote(step.side, pair, written)

    async def _replace_status(self, step: ReplaceStatus, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            written = await end.client.update(end.resource, step.body, subresource="status")
        except NotFound:
            return None
        except (BadRequest, Forbidden, Invalid):
            if not step.optional:
                raise
            return self._remember_outcome(step.side, pair)
        return self._wrote(step.side, pair, written)

    async def _delete(self, step: Delete, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            await end.client.delete(end.resource, step.key.name, step.key.namespace, uid=step.uid)
        except NotFound as error:
            # A 404 of something else, such as the kind, does not prove that this object is gone.
            if not error.concerns(step.key.name):
                raise
            end.expectations.forget(step.key)
            return pair.without(step.side)
        except Conflict:
            # The uid does not match any more: another object has taken the name.
            return await self._read(step.side, pair)
        if not end.has(step.key):
            # A watch that never showed the object will not show its deletion either.
            return await self._read(step.side, pair)
        # Finalizers may keep the object for a while; the watch shows when it is gone.
        return None

    def _wrote(self, side: Side, pair: Pair, written: Object, *, created: bool = False) -> Pair:
        # The cache is behind this write for a while: until it has the version, the answer stands
        # for the object, and the event with that version is recognized as an echo.
        end = self._ends.at(side)
        # An object that a late list has not shown yet may be gone again before it does, like an
        # object that was just created.
        end.expectations.wrote(written, created=created or not end.has(written.key))
        end.keep_body(written)
        return self._remember_outcome(side, pair.having(side, written))

    def _remember_outcome(self, side: Side, pair: Pair) -> Pair:
        """Remember the outcome of a write if it differs from the wanted content."""
        outcomes = self._ends.at(side).outcomes
        outcome = self._outcome(side, pair)
        if outcome is None and side not in pair.outcomes:
            return pair
        others = {name: value for name, value in pair.outcomes.items() if name != side}
        if outcome is None:
            outcomes.pop(pair.key, None)
        else:
            outcomes[pair.key] = others[side] = outcome
        return pair.knowing(outcomes=others)


class _ManagedFields(msgspec.Struct):
    manager: str = ""


class _ManagedMetadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_ManagedFields] = []


class _Managed(msgspec.Struct):
    metadata: _ManagedMetadata


def _has_other_writers(written: Object, manager: str) -> bool:
    """Whether other field managers have written an object too, as no new one has."""
    entries = written.decode(_Managed).metadata.managed_fields
    return any(entry.manager != manager for entry in entries)


def _nothing_of(written: Object) -> JSON:
    """Return the body whose apply takes away all fields of a manager."""
    meta = written.meta
    metadata: JSON = {"name": meta.name, "uid": meta.uid}
    if meta.namespace:
        metadata["namespace"] = meta.namespace
    return {"apiVersion": written.api_version, "kind": written.kind, "metadata": metadata}
