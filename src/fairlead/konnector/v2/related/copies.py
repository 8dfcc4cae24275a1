"""Copies the related objects of each binding: it watches originals and copies, and writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress

import msgspec
import structlog

from fairlead.api.kbind import (
    BINDINGS,
    CLUSTERBINDINGS,
    BindingStatus,
    ClusterBinding,
)
from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_PLACES,
    CONSUMER_CLUSTER_UID,
    FIELD_MANAGER_RELATED,
    FINALIZER_CLEANUP,
    FORBIDDEN,
    FOREIGN_OBJECT,
    LABEL_MANAGED,
    PENDING,
    RELATED_FAILING,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.client import Client
from fairlead.client.errors import (
    AlreadyExists,
    ApiError,
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
)
from fairlead.client.lookups import find
from fairlead.konnector.reports import SHOWN
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.bindings.api import PAUSE_SECONDS, PROVIDER_GONE, WATCH_SECONDS
from fairlead.konnector.v2.bindings.coverage import is_admitted, stands_back, summary
from fairlead.konnector.v2.bindings.crds import Fault
from fairlead.konnector.v2.bindings.environment import Environment
from fairlead.konnector.v2.conditions import ReportedConditions
from fairlead.konnector.v2.providers import ConnectedProvider
from fairlead.konnector.v2.related.plan import CopyStep, is_ours, originals, plan
from fairlead.konnector.v2.related.rules import (
    RESOURCES,
    Place,
    RelatedSelection,
    Rules,
    judge,
    places_text,
    stored_places,
)
from fairlead.runtime import Cluster, Delta, Informer, delays, patch_metadata
from fairlead.runtime.cache.expectations import Expectations


_log = structlog.get_logger(logger_name="fairlead.konnector.v2.related")

_Scope = tuple[Cluster, Resource, str, RelatedSelection]
"""A watch: cluster, resource, namespace or "", and selection."""
_UNKNOWN = "its related copies are looked at first"
_MARKED = RelatedSelection(labels=f"{LABEL_MANAGED}=true")
"""The selection of all copies, those of other bindings among them."""


class _Refused(msgspec.Struct):
    """A copy that could not be written: when it is tried again, and what it was tried with."""

    fault: Fault
    versions: tuple[str, str]
    failures: int
    due: float


class _PlaceState:
    """The memory of one place: answers that no watch has shown, outcomes and refusals."""

    def __init__(self) -> None:
        self.expectations = Expectations()
        self.outcomes: dict[Key, tuple[str, str]] = {}
        self.refused: dict[Key, _Refused] = {}
        self.remaining = 0
        """Number of copies that are there still."""
        self.clear = False
        """Whether the last look has seen that there is no copy."""


class BindingCopies:
    """The related copies of one binding, in all its places.

    ``binding`` returns the binding as it is; ``changed`` is called when its faults or what it
    waits for have changed.
    """

    def __init__(
        self,
        environment: Environment,
        resource: Resource,
        binding: Callable[[], Object | None],
        changed: Callable[[], None],
    ) -> None:
        self.faults: list[Fault] | None = None
        """Faults of its rules and copies, None before the first look."""
        self.obstacle = _UNKNOWN
        """Why the binding has to stay once it is deleted, "" if it need not."""
        self._environment = environment
        self._resource = resource
        self._binding = binding
        self._changed = changed
        self._dirty = asyncio.Event()
        self._leases: dict[_Scope, Informer] = {}
        self._used: set[_Scope] = set()
        self._states: dict[Place, _PlaceState] = {}
        self._failing: dict[Informer, float] = {}
        self._away_since: float | None = None

    @property
    def _konnector(self) -> str:
        return self._environment.consumer.options.namespace

    def poke(self) -> None:
        """Have the binding looked at again."""
        self._dirty.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ClientError: the consumer's server refuses the note of where copies are.
        """
        try:
            while True:
                self._dirty.clear()
                before = (self.faults, self.obstacle)
                again = WATCH_SECONDS
                # Of a binding that has changed or is gone, an event tells.
                with suppress(Conflict, NotFound):
                    again = await self._advance()
                if before != (self.faults, self.obstacle):
                    self._changed()
                await self._wait(again)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await self._close(list(self._leases))

    async def _wait(self, seconds: float) -> None:
        """Wait for an event, a watch that fails, or the end of ``seconds``, 0 for no end."""
        health = self._environment.consumer.options.health_interval
        while not self._dirty.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds or health):
                    await self._dirty.wait()
            # No event tells of a watch that fails.
            if seconds or any(lease.error for lease in self._leases.values()):
                return

    async def _advance(self) -> float:
        """Bring all places a step on; return the seconds until the next look, 0 for an event."""
        self._used = set()
        obj = self._binding()
        parsed = obj.try_decode(ClusterBinding) if obj is not None else None
        if obj is None or parsed is None:
            return 0.0
        environment = self._environment
        connection = environment.connections.get("", parsed.spec.connection_ref.name)
        if connection is not None and stands_back(connection):
            await self._close(list(self._leases))
            return 0.0
        stored = stored_places(obj)
        former = {
            place for place in stored if place.connection not in {"", _connection_name(parsed)}
        }
        is_bound = FINALIZER_CLEANUP in obj.meta.finalizers and connection is not None
        is_bound = is_bound or parsed.metadata.deleting
        if not (is_bound or former):
            # The finalizer or the Connection brings the next look: no copy is made before.
            return 0.0
        rules = self._rules(obj, parsed, connection) if is_bound else Rules()
        places = stored | rules.selections.keys()
        if places != stored:
            # Known before the first copy is there, so that none is ever forgotten.
            self.obstacle = _UNKNOWN
            obj = await self._note(obj, places)
        faults, waits = list(rules.refusals), False
        looked_at = set(places if is_bound else former)
        for place in sorted(looked_at):
            selections = rules.selections.get(place)
            place_faults = await self._settle(place, obj, parsed, selections)
            waits = waits or bool(place_faults)
            faults += place_faults
        await self._close([scope for scope in self._leases if scope not in self._used])
        self._failing = {
            lease: since
            for lease, since in self._failing.items()
            if lease.error and not lease.closed
        }
        unsynced = any(lease.error or not lease.has_synced for lease in self._leases.values())
        finished = {
            place
            for place in looked_at - rules.selections.keys()
            if place in self._states and self._states[place].clear
        }
        leaving = self._leaving(parsed, looked_at - finished)
        finished |= self._given_up(obj, leaving, faults)
        if finished:
            await self._note(obj, places - finished)
            for place in finished:
                self._states.pop(place, None)
        self.faults = list(faults)
        self.obstacle = ""
        if left := sorted(places - finished):
            counts = [
                f"{self._states[place].remaining if place in self._states else 'some'} {place}"
                for place in left
            ]
            words = [f"waiting for the related copies: {', '.join(counts)}"]
            self.obstacle = "; ".join([*words, *(fault.message for fault in faults)])
        pending = waits or unsynced or bool(leaving - finished)
        return WATCH_SECONDS if pending else 0.0

    def _rules(self, obj: Object, parsed: ClusterBinding, connection: Object | None) -> Rules:
        binding = summary(obj)
        if connection is None or binding is None:
            return Rules()
        admitted = is_admitted(binding, connection)
        return judge(parsed, connection, self._konnector, admitted=admitted)

    async def _note(self, obj: Object, places: Collection[Place]) -> Object:
        """Note in the binding's annotation where it may have copies."""
        fields = {"annotations": {ANNOTATION_RELATED_PLACES: places_text(places)}}
        client = self._environment.consumer.client
        return await patch_metadata(client, self._resource, obj, fields)

    async def _settle(
        self,
        place: Place,
        obj: Object,
        parsed: ClusterBinding,
        selections: frozenset[RelatedSelection] | None,
    ) -> list[Fault]:
        """Bring one place to its state; return its faults. No selections take all copies away."""
        state = self._states.setdefault(place, _PlaceState())
        state.clear = False
        provider = self._environment.providers.of(place.connection or _connection_name(parsed))
        target = self._cluster(place.direction == "FromProvider", provider)
        source = self._cluster(place.direction == "FromConsumer", provider)
        if target is None or (selections and source is None):
            return []
        resource, namespace = RESOURCES[place.resource], obj.meta.namespace
        marked = self._watch(target, resource, namespace, _MARKED, state)
        watches = [marked]
        if selections and source is not None:
            watches += [
                self._watch(source, resource, namespace, selection)
                for selection in sorted(selections)
            ]
        if any(lease.error or not lease.has_synced for lease in watches):
            # What the watches show may be old, and a copy would be deleted for no reason.
            return [_watch_fault(place, lease) for lease in watches if self._is_stuck(lease)]
        sources = originals(
            (found for lease in watches[1:] for found in lease.list()), self._konnector
        )
        copies = self._copies(marked, state, obj.meta.uid)
        state.remaining = sum(is_ours(copy, obj.meta.uid) for copy in copies.values())
        state.clear = not sources and not state.remaining
        steps = plan(
            resource,
            sources,
            copies,
            state.outcomes,
            binding_uid=obj.meta.uid,
            cluster_uid=provider.local_uid if provider is not None else "",
        )
        keys = {step.key for step in steps}
        for key in [key for key in state.refused if key not in keys]:
            del state.refused[key]
        for step in steps:
            await self._carry_out(step, place, state, target.client, sources.get(step.key), obj)
        return _summarised([refused.fault for refused in state.refused.values()])

    def _cluster(self, here: bool, provider: ConnectedProvider | None) -> Cluster | None:
        if here:
            return self._environment.consumer.cluster
        return provider.cluster if provider is not None else None

    def _copies(self, marked: Informer, state: _PlaceState, uid: str) -> dict[Key, Object]:
        """Return what any konnector has marked, with our writes that the watch has not shown."""
        copies = {copy.key: copy for copy in marked.list()}
        for key in copies:
            state.expectations.note_seen(key)
        for key in list(state.expectations.written):
            newest = state.expectations.newest(key, copies.get(key))
            if newest is not None and is_ours(newest, uid):
                copies[key] = newest
        return copies

    async def _carry_out(
        self,
        step: CopyStep,
        place: Place,
        state: _PlaceState,
        client: Client,
        source: Object | None,
        binding: Object,
    ) -> None:
        """Carry out a step, unless it was refused a moment ago; remember a refusal."""
        now = asyncio.get_running_loop().time()
        versions = tuple(
            obj.meta.resource_version if obj is not None else "" for obj in (source, step.copy)
        )
        refused = state.refused.get(step.key)
        if refused is not None and refused.versions == versions and now < refused.due:
            return
        try:
            fault = await self._write(step, place, state, client, source, binding)
        except ClientError as error:
            forbidden = isinstance(error, Forbidden)
            what = f"{step.action} of {place.resource} {step.key} ({place})"
            message = error.message if isinstance(error, ApiError) else str(error)
            fault = Fault(FORBIDDEN if forbidden else PENDING, f"{what} failed: {message}")
        if fault is None:
            state.refused.pop(step.key, None)
            return
        failures = refused.failures + 1 if refused is not None else 1
        due = now + delays.NO_WATCH.delay(failures)
        state.refused[step.key] = _Refused(fault, (versions[0], versions[1]), failures, due)

    async def _write(
        self,
        step: CopyStep,
        place: Place,
        state: _PlaceState,
        client: Client,
        source: Object | None,
        binding: Object,
    ) -> Fault | None:
        """Write or delete a copy; return why not, None if it is done."""
        resource, (namespace, name) = (
            RESOURCES[place.resource],
            (step.key.namespace, step.key.name),
        )
        if step.action == "foreign":
            return _foreign(place, step.key)
        if step.action == "delete":
            if step.copy is not None:
                with suppress(NotFound, Conflict):
                    await client.delete(resource, name, namespace, uid=step.copy.meta.uid)
            return None
        copy = step.copy
        if copy is None:
            # The watch shows marked objects alone: another one may have the place.
            copy = await find(client, resource, name, namespace)
            if copy is not None and not is_ours(copy, binding.meta.uid):
                return _foreign(place, step.key)
        body = step.body
        try:
            written = await _apply(client, resource, body, is_new=copy is None)
        except Conflict:
            # Another writer was faster: it decides the next look.
            self.poke()
            return None
        state.expectations.wrote(written, created=copy is None)
        if source is not None:
            state.outcomes[step.key] = (
                source.meta.resource_version,
                written.meta.resource_version,
            )
        return None

    def _leaving(self, binding: ClusterBinding, places: set[Place]) -> set[Place]:
        """Return the places of which a deletion waits for the end of the copies.

        These are all of a deleted binding, and those of a deleted Connection that it has left.
        """
        if binding.metadata.deleting:
            return places
        connections, current = self._environment.connections, binding.spec.connection_ref.name
        left = {place for place in places if place.connection not in {"", current}}
        objects = {place: connections.get("", place.connection) for place in left}
        return {place for place, obj in objects.items() if obj is None or obj.meta.deleting}

    def _given_up(self, obj: Object, places: set[Place], faults: list[Fault]) -> set[Place]:
        """Return those of these places with a provider that stays away beyond the bound."""
        environment, now = self._environment, asyncio.get_running_loop().time()
        away = {place for place in places if place.connection and self._is_away(place)}
        if not away:
            self._away_since = None
            return set()
        if self._away_since is None:
            self._away_since = now
        patience = environment.consumer.options.unbind_timeout
        names = ", ".join(sorted({place.connection for place in away}))
        if now - self._away_since < patience:
            faults.append(
                Fault(
                    PENDING,
                    f"the provider of Connection {names} cannot be reached or read: after "
                    f"{patience:g} s (the konnector's --unbind-timeout) the copies stay there",
                )
            )
            return set()
        message = f"the provider of Connection {names} counts as gone: related copies stay there"
        _log.warning("related copies are left at the provider", binding=str(obj.key))
        environment.events.event(obj, "Warning", PROVIDER_GONE, message)
        return away

    def _is_away(self, place: Place) -> bool:
        provider = self._environment.providers.of(place.connection)
        if provider is None:
            return True
        return any(
            lease.error
            for (cluster, resource, *_), lease in self._leases.items()
            if cluster is provider.cluster and resource == RESOURCES[place.resource]
        )

    def _is_stuck(self, lease: Informer) -> bool:
        """Whether a watch has failed for longer than a restart of its server may take."""
        if not lease.error:
            return False
        options, now = self._environment.consumer.options, asyncio.get_running_loop().time()
        since = self._failing.setdefault(lease, now)
        return now - since >= options.health_interval * options.health_patience

    def _watch(
        self,
        cluster: Cluster,
        resource: Resource,
        namespace: str,
        selection: RelatedSelection,
        state: _PlaceState | None = None,
    ) -> Informer:
        """Return the watch of a selection, which is opened if it is new."""
        scope = (cluster, resource, namespace, selection)
        self._used.add(scope)
        if (lease := self._leases.get(scope)) is not None:
            return lease
        lease = self._leases[scope] = cluster.informer(
            resource, namespace=namespace, labels=selection.labels, fields=selection.fields
        )

        def follow(delta: Delta) -> None:
            if state is not None and delta.new is None:
                state.expectations.forget(delta.object.key)
            self.poke()

        lease.subscribe(follow)
        lease.listen(self.poke)
        return lease

    async def _close(self, scopes: Collection[_Scope]) -> None:
        for scope in scopes:
            await self._leases.pop(scope).close()


class RelatedCopies:
    """The related copies of all bindings, each binding in a task of its own.

    ``changed`` is called with the key of a binding whose faults or obstacle have changed.
    """

    def __init__(self, environment: Environment, changed: Callable[[Key], None]) -> None:
        self._environment = environment
        self._changed = changed
        self._works: dict[Key, tuple[str, BindingCopies]] = {}
        self._supervisor: Supervisor[Key] = Supervisor("related copies")
        self._bindings: Mapping[bool, Informer] = {}
        self._dirty = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        environment = self._environment
        consumer = environment.consumer
        async with AsyncExitStack() as stack:
            self._bindings = {
                False: consumer.kbind_informer(CLUSTERBINDINGS),
                True: consumer.kbind_informer(BINDINGS),
            }
            for informer in self._bindings.values():
                stack.push_async_callback(informer.close)
                informer.subscribe(self._binding_changed)
            environment.connections.subscribe(lambda _delta: self._poke_all())
            stack.callback(environment.providers.listen(lambda _connection: self._poke_all()))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.run())
                group.create_task(self._follow())

    def faults(self, key: Key) -> list[Fault] | None:
        """Return the faults of a binding's related objects, None while they are not known."""
        work = self._works.get(key)
        return work[1].faults if work is not None else []

    def obstacle(self, obj: Object) -> str:
        """Return why a deleted binding has to stay for its related copies, "" if it need not."""
        if not stored_places(obj):
            return ""
        work = self._works.get(obj.key)
        return work[1].obstacle if work is not None else _UNKNOWN

    def leaving(self, connection: str) -> list[str]:
        """Return the related copies that go from the provider of a Connection, as words.

        Args:
            connection: name of a Connection that no binding names any more.
        """
        objects = [obj for informer in self._bindings.values() for obj in informer.list()]
        return sorted(
            f"related copies of {'Binding' if obj.meta.namespace else 'ClusterBinding'} {obj.key}"
            for obj in objects
            if any(place.connection == connection for place in stored_places(obj))
        )

    def _binding_changed(self, delta: Delta) -> None:
        work = self._works.get(delta.object.key)
        if work is not None:
            work[1].poke()
        self._dirty.set()

    def _poke_all(self) -> None:
        for _, work in self._works.values():
            work.poke()

    def _binding(self, key: Key) -> Object | None:
        return self._bindings[bool(key.namespace)].get(*key)

    async def _follow(self) -> None:
        """Run the work on each binding that has rules, or copies of former rules."""
        await self._supervisor.running()
        while True:
            self._dirty.clear()
            bindings = {
                obj.key: obj
                for informer in self._bindings.values()
                for obj in informer.list()
                if _has_work(obj)
            }
            for key, (uid, _) in list(self._works.items()):
                if key not in bindings or bindings[key].meta.uid != uid:
                    del self._works[key]
                    await self._supervisor.stop(key)
                    self._changed(key)
            for key, obj in bindings.items():
                if key not in self._works:
                    work = BindingCopies(
                        self._environment,
                        BINDINGS if key.namespace else CLUSTERBINDINGS,
                        lambda key=key: self._binding(key),  # type: ignore[misc]
                        lambda key=key: self._changed(key),  # type: ignore[misc]
                    )
                    self._works[key] = (obj.meta.uid, work)
                    self._supervisor.start(key, work)
            await self._dirty.wait()


def with_related(
    status: BindingStatus, faults: list[Fault] | None, generation: int, *, now: str
) -> BindingStatus:
    """Return a status with the condition about related objects; unknown faults leave it as it is.

    It is there only while something is wrong, and says nothing about the bound objects.
    """
    if faults is None:
        return status
    conditions = ReportedConditions(status.conditions, generation, now)
    if faults:
        message = "; ".join(dict.fromkeys(fault.message for fault in faults))
        conditions.set(RELATED_FAILING, "True", faults[0].reason, message)
    else:
        conditions.remove(RELATED_FAILING)
    return msgspec.structs.replace(status, conditions=conditions.all)


def _has_work(obj: Object) -> bool:
    parsed = obj.try_decode(ClusterBinding)
    return bool(stored_places(obj) or (parsed is not None and parsed.spec.related_resources))


def _connection_name(binding: ClusterBinding) -> str:
    return binding.spec.connection_ref.name


def _watch_fault(place: Place, lease: Informer) -> Fault:
    reason = FORBIDDEN if isinstance(lease.cause, Forbidden) else PENDING
    return Fault(reason, f"{place} cannot be watched: {lease.error}")


def _foreign(place: Place, key: Key) -> Fault:
    where = f"at the provider of Connection {place.connection}" if place.connection else "here"
    return Fault(
        FOREIGN_OBJECT,
        f"{place.resource} {key} ({place.direction}) is not copied, since an object of that "
        f"name {where} is not a copy of this binding: rename or delete one of them, or narrow "
        "the rule",
    )


def _summarised(faults: list[Fault]) -> list[Fault]:
    """Return the first faults, and the number of all others."""
    shown = faults[:SHOWN]
    if len(faults) > SHOWN:
        shown.append(Fault(faults[SHOWN].reason, f"and {len(faults) - SHOWN} more"))
    return shown


async def _apply(client: Client, resource: Resource, body: JSON, *, is_new: bool) -> Object:
    """Apply a copy, in a namespace that is created if it is missing.

    Raises:
        Conflict: the copy is new, and another writer has made an object of its name meanwhile.
    """
    try:
        return await client.apply(
            resource, body, force=not is_new, field_manager=FIELD_MANAGER_RELATED
        )
    except NotFound:
        metadata = body["metadata"]
        namespace = {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {
                "name": metadata["namespace"],
                "labels": {LABEL_MANAGED: "true"},
                "annotations": {
                    CONSUMER_CLUSTER_UID: metadata["annotations"][CONSUMER_CLUSTER_UID]
                },
            },
        }
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, namespace)
        return await client.apply(
            resource, body, force=not is_new, field_manager=FIELD_MANAGER_RELATED
        )
