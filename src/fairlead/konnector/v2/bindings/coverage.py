"""Coverage of an API's objects by bindings.

A ClusterBinding covers all objects of an API, a Binding those of its namespace. The first
ClusterBinding by name decides, else the first Binding of the namespace. A binding that is being
deleted covers nothing, and neither does one of another Connection than the API's: the objects of
an API go to one provider. Source: kbind v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fairlead.api.conditions import get_condition, is_true, stored_conditions
from fairlead.api.kbind import ClusterBinding, Connection
from fairlead.api.kbind.names import ANOTHER_KONNECTOR, READY
from fairlead.api.kbind.types import ConflictPolicy
from fairlead.api.meta import Key, Object


ANNOTATION_BINDING_NAMESPACES = "fairlead.dev/binding-namespaces"
"""Annotation of a Connection: the namespaces whose Bindings may use it, separated by commas.

Without it all may. Who makes a Binding uses the credentials of its Connection, and has no right on
the Connection itself.
"""


class BindingSummary(msgspec.Struct, frozen=True):
    """The part of a ClusterBinding or Binding that decides about objects.

    ``key`` has namespace "" for a ClusterBinding, as ``str(key)`` has.
    """

    key: Key
    connection: str
    apis: tuple[str, ...]
    conflict_policy: ConflictPolicy = "Fail"
    deleting: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is a ClusterBinding."""
        return not self.key.namespace

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are in its scope; "" for cluster-scoped objects."""
        return self.whole or self.key.namespace == namespace


def summary(obj: Object) -> BindingSummary | None:
    """Return the summary of a ClusterBinding or Binding; None if it cannot be read."""
    # Both kinds have one spec.
    parsed = obj.try_decode(ClusterBinding)
    if parsed is None:
        return None
    spec = parsed.spec
    return BindingSummary(
        key=obj.key,
        connection=spec.connection_ref.name,
        apis=tuple(dict.fromkeys(api.name for api in spec.apis)),
        conflict_policy=spec.conflict_policy,
        deleting=obj.meta.deleting,
    )


class CopiesRecord(msgspec.Struct, frozen=True):
    """The APIs by which a ClusterBinding or Binding may have copies, as its status has them.

    ``apis`` is None where the binding was changed since: any may have been listed before.
    ``bound`` are those that went to ``connection``.
    """

    key: Key
    connection: str
    apis: frozenset[str] | None
    bound: frozenset[str] = frozenset()


def record_of(obj: Object) -> CopiesRecord | None:
    """Return the record of a ClusterBinding or Binding; None if it cannot be read."""
    parsed = obj.try_decode(ClusterBinding)
    if parsed is None:
        return None
    connection = parsed.spec.connection_ref.name
    ready = get_condition(parsed.status.conditions, READY)
    if ready is None or ready.observed_generation != obj.meta.generation:
        return CopiesRecord(obj.key, connection, None)
    listed = frozenset(api.name for api in parsed.spec.apis)
    bound = frozenset(api.name for api in parsed.status.bound_apis)
    return CopiesRecord(obj.key, connection, listed | bound, listed & bound)


def recorded_places(api: str, records: Iterable[CopiesRecord]) -> frozenset[str]:
    """Return the namespaces in which an API may have copies, "" for all of the cluster."""
    return frozenset(
        record.key.namespace for record in records if record.apis is None or api in record.apis
    )


def recorded_owner(api: str, records: Iterable[CopiesRecord]) -> str:
    """Return the Connection that the objects of an API went to, "" if no record has it."""
    bound = sorted((record.key, record.connection) for record in records if api in record.bound)
    return bound[0][1] if bound else ""


def is_admitted(binding: BindingSummary, connection: Object | None) -> bool:
    """Whether a Connection lets a binding use it."""
    if binding.whole or connection is None:
        return True
    listed = connection.meta.annotations.get(ANNOTATION_BINDING_NAMESPACES)
    return listed is None or binding.key.namespace in {one.strip() for one in listed.split(",")}


class Coverage(msgspec.Struct, frozen=True):
    """The bindings that decide about the objects of one API."""

    everywhere: BindingSummary | None = None
    namespaces: Mapping[str, BindingSummary] = {}

    def __bool__(self) -> bool:
        return self.everywhere is not None or bool(self.namespaces)

    def binding(self, namespace: str) -> BindingSummary | None:
        """Return the binding that decides about a namespace's objects, None if none does."""
        return self.everywhere or self.namespaces.get(namespace)

    def policy(self, namespace: str) -> ConflictPolicy | None:
        """Return the conflict policy for a namespace's objects, None if no binding covers them."""
        binding = self.binding(namespace)
        return None if binding is None else binding.conflict_policy


def in_order(bindings: Iterable[BindingSummary]) -> list[BindingSummary]:
    """Return bindings in the order in which they decide."""
    return sorted(bindings, key=lambda binding: binding.key)


def coverage(
    connection: str, bindings: Iterable[BindingSummary], obj: Object | None = None
) -> Coverage:
    """Return the coverage of an API that goes to a Connection.

    Args:
        connection: name of the Connection.
        bindings: the bindings that list the API.
        obj: the Connection, None if it is not there.
    """
    everywhere: BindingSummary | None = None
    namespaces: dict[str, BindingSummary] = {}
    for binding in in_order(bindings):
        if binding.deleting or binding.connection != connection or not is_admitted(binding, obj):
            continue
        if binding.whole:
            everywhere = everywhere or binding
        else:
            namespaces.setdefault(binding.key.namespace, binding)
    return Coverage(everywhere, namespaces)


def is_ready(obj: Object | None) -> bool:
    """Whether the status of a Connection says that its provider can be used."""
    return obj is not None and is_true(stored_conditions(obj.to_dict()), READY)


EVERYWHERE = frozenset({""})
"""The places of an API whose objects are read in the whole cluster."""


def places(
    api: str, connection: str, bindings: Iterable[BindingSummary], former: frozenset[str]
) -> frozenset[str]:
    """Return the namespaces in which objects of an API are read, {""} for the whole cluster.

    A Binding comes with rights in its own namespace alone, in both clusters. Bindings that are
    being deleted count, since their copies have to go.

    Args:
        api: name of the API.
        connection: name of the Connection that its objects go to.
        bindings: all bindings.
        former: the places where there are objects whose copies have to go.
    """
    chosen = former.union(
        binding.key.namespace
        for binding in bindings
        if binding.connection == connection and api in binding.apis
    )
    return EVERYWHERE if "" in chosen else chosen


def stands_back(obj: Object | None) -> bool:
    """Whether another konnector is at work on a Connection, and on its bindings with it."""
    return obj is not None and is_true(stored_conditions(obj.to_dict()), ANOTHER_KONNECTOR)


def connection_of(obj: Object | None) -> Connection | None:
    """Return a decoded Connection; None without one that can be read."""
    return obj.try_decode(Connection) if obj is not None else None
