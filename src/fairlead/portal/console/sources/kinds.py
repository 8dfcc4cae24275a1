"""Exported kinds, their objects, Events and transitions, and the objects' consumers.

A kind is watched while an export names it. The cache drops the field lists of
``metadata.managedFields``, and keeps only metadata and conditions of a large object.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import structlog

from fairlead.api.conditions import Condition
from fairlead.api.definitions import crd_schema, crd_spec
from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    LABEL_EXPORTED,
    APIServiceExport,
    ExportSpec,
)
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Judgement, conditions_of, short, verdict_of
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS, NAMESPACES, Resource
from fairlead.api.timestamps import now
from fairlead.client import Forbidden
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.viewing import Topics, of_namespace
from fairlead.portal.model.timeline import ShownEvent, Transition
from fairlead.provider.copies import CopyNamespaces, places
from fairlead.provider.namespaces import owner_of
from fairlead.runtime import Cluster, Delta, Informer


class History:
    """Records transitions of conditions; each replica has its own."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, deque[Transition]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def heard(self, delta: Delta) -> None:
        """Record the transitions of a change, and drop the history of a deleted object."""
        if delta.new is None:
            if delta.old is not None:
                self._turns.pop(delta.old.meta.uid, None)
            return
        # An object that this process sees for the first time: its conditions are no transitions.
        if delta.old is None:
            return
        if turns := turned(conditions_of(delta.old), conditions_of(delta.new), at=now()):
            self._note(delta.new.meta.uid, turns)

    def of(self, uid: str) -> tuple[Transition, ...]:
        """Return an object's transitions, the newest first."""
        return tuple(reversed(self._turns.get(uid, ())))

    def _note(self, uid: str, turns: Iterable[Transition]) -> None:
        self._turns.setdefault(uid, deque(maxlen=bounds.TRANSITIONS)).extend(turns)
        self._turns.move_to_end(uid)
        if len(self._turns) > bounds.OBJECTS:
            self._turns.popitem(last=False)


def turned(old: Sequence[Condition], new: Sequence[Condition], *, at: str) -> list[Transition]:
    """Return the transitions in status or reason; ``at`` is used for conditions without a time."""
    before = {one.type: one for one in old}
    turns: list[Transition] = []
    for obj in new:
        was = before.get(obj.type)
        if was is not None and (was.status, was.reason) == (obj.status, obj.reason):
            continue
        turns.append(
            Transition(
                short(obj.type),
                obj.status,
                short(obj.reason),
                short(obj.message),
                short(obj.last_transition_time) or at,
                was.status if was is not None else "",
            )
        )
    return turns


_JUDGED: Final = ("conditions", "observedGeneration", "health", "phase", "state")
"""Members of the status that are kept of a large object, for they decide its verdict."""
_ABOUT: Final = "about"
"""Index of Events by the uid of their object."""
_BY_CONSUMER: Final = "consumer"
"""Index of namespaces by the consumer that owns them."""
_log = structlog.get_logger(logger_name="fairlead.portal.console")


class Whose(NamedTuple):
    """A consumer's cluster namespace, and the object's namespace in the consumer's cluster."""

    consumer: str
    namespace: str = ""


class FollowedKind:
    """A watched kind: its objects, their states, and the Events about them."""

    def __init__(self, resource: Resource, objects: Informer, events: Informer) -> None:
        self.resource = resource
        self.name = resource.group_resource
        """The kind as ``plural.group``."""
        self.objects = objects
        self.events = events
        self._verdicts: dict[str, dict[str, Judgement]] = {}
        self._numbers: dict[str, Counter[State]] = {}
        self._owned: tuple[CopyNamespaces, dict[str, list[Object]]] | None = None

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have objects of the kind; "" for cluster-scoped ones."""
        return self._verdicts

    @property
    def problem(self) -> str:
        """Why the kind's objects are unknown or stale, with the remedy; "" if they are current."""
        if isinstance(self.objects.cause, Forbidden):
            return missing(self.name)
        if self.objects.error:
            return f"Objects of {self.name} are not up to date: {short(self.objects.error)}"
        return "" if self.objects.has_synced else f"Objects of {self.name} are being read"

    @property
    def events_problem(self) -> str:
        """Why Events about the kind's objects are unknown; "" if they are known."""
        if isinstance(self.events.cause, Forbidden):
            return (
                "The server may not read Events: have the provider's team apply what fairlead"
                f" manifests provider --export {self.name} prints"
            )
        return short(self.events.error)

    def verdict(self, obj: Object) -> Judgement:
        """Return the state of a cached object."""
        cached = self._verdicts.get(obj.meta.namespace, {}).get(obj.meta.name)
        return cached if cached is not None else verdict_of(obj)

    def verdicts(self, namespace: str) -> Mapping[str, Judgement]:
        """Return the states of a namespace's objects, by name."""
        return self._verdicts.get(namespace, {})

    def numbers(self, namespace: str) -> Mapping[State, int]:
        """Return the numbers of a namespace's objects, by state."""
        return self._numbers.get(namespace, {})

    def heard(self, delta: Delta) -> None:
        """Update the state of a changed object."""
        self._owned = None
        namespace, name = delta.object.key
        names = self._verdicts.setdefault(namespace, {})
        numbers = self._numbers.setdefault(namespace, Counter())
        former = names.pop(name, None)
        if former is not None:
            numbers[former.state] -= 1
        if delta.new is not None:
            verdict = names[name] = verdict_of(delta.new)
            numbers[verdict.state] += 1
        if not names:
            del self._verdicts[namespace], self._numbers[namespace]

    def owned(self, where: CopyNamespaces) -> Mapping[str, Sequence[Object]]:
        """Return all objects by consumer; grouped once after a change and not per consumer."""
        if self._owned is None or self._owned[0] is not where:
            by_owner: dict[str, list[Object]] = {}
            for obj in self.objects.list():
                by_owner.setdefault(where.whose(self.resource, obj.meta), []).append(obj)
            self._owned = where, by_owner
        return self._owned[1]

    def about(self, obj: Object) -> list[Object]:
        """Return the Events about an object."""
        return self.events.by_index(_ABOUT, obj.meta.uid)

    async def close(self) -> None:
        """Stop watching the kind."""
        await self.objects.close()
        await self.events.close()


class Kinds:
    """Watches the kinds that exports name, for all pages."""

    name = "exported kinds"

    def __init__(self, cluster: Cluster, hub: Hub, history: History) -> None:
        self._cluster = cluster
        self._hub = hub
        self._history = history
        self._kinds: dict[str, FollowedKind] = {}
        self._dirty = asyncio.Event()
        self._dirty.set()
        self._places: CopyNamespaces | None = None
        self._crds = hub.informer(
            cluster, CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true"
        )
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._namespaces.add_index(_BY_CONSUMER, _consumer_of)
        self._crds.subscribe(self._offered)
        self._exports.subscribe(self._exported)
        self._exports.subscribe(history.heard)
        self._namespaces.subscribe(self._placed)

    def __iter__(self) -> Iterator[FollowedKind]:
        return iter(self._kinds.values())

    def get(self, name: str) -> FollowedKind | None:
        """Return a watched kind by its ``plural.group``."""
        return self._kinds.get(name)

    def schema(self, name: str) -> JSON | None:
        """Return a kind's schema in the watched version, None without one."""
        kind, crd = self._kinds.get(name), self._crds.get("", name)
        if kind is None or crd is None:
            return None
        try:
            return crd_schema(crd, kind.resource.version)
        except msgspec.ValidationError:
            return None

    def problem(self, name: str) -> str:
        """Return why a kind's objects are unknown or stale, with the remedy; "" if current."""
        kind = self._kinds.get(name)
        if kind is not None:
            return kind.problem
        if self._crds.get("", name) is None:
            return (
                f"Objects of {name} are unknown: its CustomResourceDefinition does not exist, or"
                f" has no label {LABEL_EXPORTED}=true"
            )
        return f"Objects of {name} are being read"

    def namespaces(self, consumer: str) -> list[str]:
        """Return a consumer's namespaces on the provider, the cluster namespace first."""
        namespaces = self._namespaces.by_index(_BY_CONSUMER, consumer)
        return [consumer, *sorted(one.meta.name for one in namespaces)]

    def whose(self, kind: FollowedKind, obj: Object) -> Whose | None:
        """Return the consumer and namespace that an object is a copy for; None without one."""
        consumer = self._where().whose(kind.resource, obj.meta)
        if not consumer:
            return None
        namespace = self._namespaces.get("", obj.meta.namespace)
        owner = owner_of(namespace) if namespace is not None else None
        return Whose(consumer, owner.name if owner is not None else "")

    def objects(self, kind: FollowedKind, consumer: str) -> Iterator[Object]:
        """Yield a consumer's objects of a kind."""
        if kind.resource.namespaced:
            for namespace in self.namespaces(consumer):
                yield from kind.objects.list(namespace) if kind.verdicts(namespace) else ()
            return
        yield from kind.owned(self._where()).get(consumer, ())

    async def run(self) -> None:
        """Watch the exported kinds, until canceled."""
        await self._exports.synced()
        await self._crds.synced()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            wanted_kinds = self._wanted()
            for name, kind in list(self._kinds.items()):
                if wanted_kinds.get(name) != kind.resource:
                    del self._kinds[name]
                    await kind.close()
                    _log.info("a kind is no longer watched", kind=name)
            for name, resource in wanted_kinds.items():
                if name not in self._kinds:
                    self._open(name, resource)
                    _log.info("a kind is watched for the pages", kind=name)

    def _wanted(self) -> dict[str, Resource]:
        names = {one.name for export in self._exports.list() for one in spec_of(export).resources}
        served = {
            name: _served(crd) for name in sorted(names) if (crd := self._crds.get("", name))
        }
        return {name: one for name, one in served.items() if one is not None}

    def _open(self, name: str, resource: Resource) -> None:
        def whose(obj: Object) -> Topics:
            consumer = self._where().whose(resource, obj.meta)
            return (consumer,) if consumer else ()

        def topics_about(event: Object) -> Topics:
            home = self._where().homes.get(event.meta.namespace)
            if home is not None:
                return (home,)
            # Events about cluster-scoped objects are in a namespace of no consumer.
            return () if resource.namespaced else ("",)

        objects = self._hub.informer(self._cluster, resource, topics=whose, transform=_condensed)
        events = self._hub.informer(
            self._cluster,
            EVENTS,
            # Not by apiVersion, which would leave out Events about other versions; an object of
            # the same kind in another group has another uid.
            fields=f"involvedObject.kind={resource.kind}",
            topics=topics_about,
            transform=_brief,
        )
        events.add_index(_ABOUT, _uid)
        kind = self._kinds[name] = FollowedKind(resource, objects, events)
        objects.subscribe(kind.heard)
        objects.subscribe(self._history.heard)
        # Pages show whether the kind's objects have been read.
        self._hub.changed("")

    def _where(self) -> CopyNamespaces:
        if self._places is None:
            self._places = places(self._namespaces.list(), self._exports.list())
        return self._places

    def _offered(self, delta: Delta) -> None:
        self._dirty.set()

    def _placed(self, delta: Delta) -> None:
        old, new = delta.old, delta.new
        if old is None or new is None or old.meta.annotations != new.meta.annotations:
            self._places = None

    def _exported(self, delta: Delta) -> None:
        old, new = delta.old, delta.new
        if old is None or new is None or old.meta.generation != new.meta.generation:
            self._places = None
            self._dirty.set()


def missing(name: str) -> str:
    """Return the problem and the remedy for a kind that the server may not read."""
    return (
        f"The server may not read {name}, so its objects are not shown: have the provider's team"
        f" apply what fairlead manifests provider --export {name} prints; they are here a minute"
        " later at most"
    )


def spec_of(export: Object) -> ExportSpec:
    """Return the spec of an export; an empty one if it is invalid."""
    try:
        return export.decode(APIServiceExport).spec
    except msgspec.ValidationError:
        return _NOTHING


_NOTHING = ExportSpec(resources=[], informer_scope="Namespaced", isolation="Namespaced")


def _served(crd: Object) -> Resource | None:
    try:
        versions = crd_spec(crd).readable()
    except msgspec.ValidationError:
        return None
    return versions if versions is not None and versions.group else None


def _consumer_of(namespace: Object) -> list[str]:
    owner = owner_of(namespace)
    return [owner.namespace] if owner is not None else []


def _uid(event: Object) -> list[str]:
    return [event.decode(ShownEvent).involved_object.uid]


def _condensed(obj: Object) -> Object:
    """Return an object without its writers' field lists, and cut if it is large."""
    body = obj.to_dict()
    metadata = body["metadata"]
    written = metadata.get("managedFields")
    if isinstance(written, list):
        entries = [one for one in written if isinstance(one, dict)][-bounds.WRITERS :]
        metadata["managedFields"] = [_without(one, "fieldsV1", "fieldsType") for one in entries]
    raw = msgspec.json.encode(body)
    if len(raw) > bounds.OBJECT_BYTES:
        status = body.get("status")
        judged = (
            {name: status[name] for name in _JUDGED if name in status}
            if isinstance(status, dict)
            else {}
        )
        body = {name: body.get(name) for name in ("apiVersion", "kind", "metadata")}
        raw = msgspec.json.encode(body | ({"status": judged} if judged else {}))
        if len(raw) > bounds.OBJECT_BYTES:
            # Even its conditions or its metadata are too large: nothing of its content is shown.
            raw = b"{}"
    return msgspec.structs.replace(obj, raw=raw)


def _brief(event: Object) -> Object:
    """Return an Event with only the fields that pages show."""
    shown = event.decode(ShownEvent)
    shown.message, shown.reason = short(shown.message), short(shown.reason)
    return msgspec.structs.replace(event, raw=msgspec.json.encode(shown))


def _without(body: JSON, *names: str) -> JSON:
    return {name: value for name, value in body.items() if name not in names}


def kept_of(body: JSON) -> Object:
    """Return an object as the cache of an exported kind stores it."""
    return _condensed(object_from_dict(body))
