"""Reconcilers: requests and results, mappers and predicates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from fairlead.api.meta import Object
from fairlead.api.resource import split_api_version
from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.cache.informer import Delta


class Request(NamedTuple):
    """The object to look at; cluster-scoped objects have namespace ""."""

    cluster: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class Result(NamedTuple):
    """A reconciler's wish for another look, or for none.

    ``requeue_after`` is in seconds. With ``backoff`` the delay is the policy's for the number of
    such results in a row. Any other result starts the count from the beginning, except one that is
    ``waiting`` for an answer and will be enqueued when the answer is there.
    """

    requeue_after: float | None = None
    backoff: BackoffPolicy | None = None
    waiting: bool = False


class TerminalError(Exception):
    """Trying again would not help; the request is reported and waits for a change."""


Reconciler = Callable[[Request], Awaitable[Result | None]]
"""Function that brings one object closer to its wanted state; an exception asks for a retry."""

Mapper = Callable[[Delta], Iterable[Request]]
"""Function that returns the requests for a change."""

Predicate = Callable[[Delta], bool]
"""Function that tells whether a change makes requests."""


def object_mapper(cluster: str = "") -> Mapper:
    """Return a mapper to the changed object itself."""

    def map_(delta: Delta) -> Iterable[Request]:
        meta = delta.object.meta
        return (Request(cluster, meta.namespace, meta.name),)

    return map_


def owner_mapper(
    kind: str, api_group: str, cluster: str = "", *, namespaced: bool = True
) -> Mapper:
    """Return a mapper to the owners of this kind and group, former ones included.

    Owners are in the namespace of the owned object; with ``namespaced`` False they have none.
    """

    def map_(delta: Delta) -> Iterable[Request]:
        requests: dict[Request, None] = {}
        for object_ in (delta.old, delta.new):
            if object_ is None:
                continue
            namespace = object_.meta.namespace if namespaced else ""
            for owner in object_.meta.owner_references:
                if owner.kind == kind and split_api_version(owner.api_version)[0] == api_group:
                    requests[Request(cluster, namespace, owner.name)] = None
        return requests

    return map_


def changed(view: Callable[[Object | None], object]) -> Predicate:
    """Return a predicate that holds if ``view`` of the old and the new object differ.

    ``view`` gets None for the old state of a new object and the new state of a deleted one.
    """
    return lambda delta: view(delta.old) != view(delta.new)


def metadata_changed(*fields: str) -> Predicate:
    """Return a predicate for created and deleted objects, and for changes of metadata fields."""
    values = attrgetter(*fields)
    return changed(lambda obj: None if obj is None else (values(obj.meta),))


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that holds if at least one of the given ones holds."""
    return lambda delta: any(predicate(delta) for predicate in predicates)


spec_changed: Predicate = metadata_changed("generation", "deletion_timestamp")
"""Predicate for objects that were created or deleted, or whose spec has changed.

API servers raise the generation with the spec, and leave it alone when the status is written: so
the status writes of a controller do not call its reconciler again.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/
"""


def came_or_went(delta: Delta) -> bool:
    """Whether the object was added or deleted."""
    return delta.type != "MODIFIED"
