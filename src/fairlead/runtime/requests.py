"""What reconcilers are asked, what they answer, and how changes become requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from fairlead.api.resource import split_api_version
from fairlead.runtime.informer import Delta


class Request(NamedTuple):
    """The object to look at; cluster-scoped objects have namespace ""."""

    cluster: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class Result(NamedTuple):
    """What a reconciler asks for: another look after so many seconds, or none."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """Trying again would not help; the request is reported and waits for a change."""


Reconciler = Callable[[Request], Awaitable[Result | None]]
"""Brings one object nearer to what is wanted; raises to be called again after a back-off."""

Mapper = Callable[[Delta], Iterable[Request]]
"""The requests that a change gives rise to."""

Predicate = Callable[[Delta], bool]
"""Whether a change is of interest."""


def object_mapper(cluster: str = "") -> Mapper:
    """A mapper to the changed object itself."""

    def map_(delta: Delta) -> Iterable[Request]:
        meta = delta.object.meta
        return (Request(cluster, meta.namespace, meta.name),)

    return map_


def owner_mapper(
    kind: str, api_group: str, cluster: str = "", *, namespaced: bool = True
) -> Mapper:
    """A mapper to the owners of this kind and group, those of before the change included.

    Owners live in the namespace of what they own, or have none when not ``namespaced``.
    """

    def map_(delta: Delta) -> Iterable[Request]:
        found: dict[Request, None] = {}
        for object_ in (delta.old, delta.new):
            if object_ is None:
                continue
            namespace = object_.meta.namespace if namespaced else ""
            for owner in object_.meta.owner_references:
                if owner.kind == kind and split_api_version(owner.api_version)[0] == api_group:
                    found[Request(cluster, namespace, owner.name)] = None
        return found

    return map_
