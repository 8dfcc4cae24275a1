"""Decisions about the provider namespaces of a deleted APIServiceNamespace.

A provider namespace is deleted only when no object of the consumer is left in it: a deleted
export, or a namespace that is deleted by mistake on the consumer, loses no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind.conditions import (
    NAMESPACE_READY,
    OBJECTS_REMAIN,
    OBJECTS_UNKNOWN,
    KubeBindCondition,
    false,
)
from fairlead.api.meta import Object
from fairlead.provider import bounds


class Remains(msgspec.Struct, frozen=True):
    """Synced objects in a provider namespace.

    ``names`` are kinds and names of the first, ``more`` is True if there are others, and
    ``refused`` are the reasons why some kinds could not be listed.
    """

    names: list[str] = []
    more: bool = False
    refused: list[str] = []

    @property
    def none(self) -> bool:
        """Whether it is certain that no synced object remains."""
        return not self.names and not self.refused


class Leaving(NamedTuple):
    """A provider namespace on the server; ``remains`` is None if it is being deleted.

    While it is ``open``, the consumer has rights there and may create objects after the look.
    """

    namespace: Object
    remains: Remains | None
    open: bool = False


class LeavingPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Decision about the namespaces of a deleted APIServiceNamespace.

    ``staying`` are namespaces that have to stay, with their conditions. ``closing`` are empty ones
    where the consumer loses its rights before another look, and ``retained`` are those that stay
    for another APIServiceNamespace. ``done`` is True if no other namespace is left.
    """

    delete: list[Object] = []
    staying: list[tuple[Object, KubeBindCondition]] = []
    closing: list[str] = []
    retained: list[str] = []
    going: list[str] = []
    done: bool = False


def leave(namespaces: Sequence[Leaving], *, keep: bool = False) -> LeavingPlan:
    """Decide which of our namespaces are deleted, held or closed.

    With ``keep`` none is deleted: the consumer goes on with them.
    """
    delete: list[Object] = []
    waiting: list[tuple[Object, KubeBindCondition]] = []
    closing: list[str] = []
    for namespace, remains, is_open in namespaces:
        if remains is None:
            continue
        if not remains.none:
            waiting.append((namespace, _remains_condition(namespace.meta.name, remains)))
        elif is_open:
            closing.append(namespace.meta.name)
        else:
            delete.append(namespace)
    going = [item.namespace.meta.name for item in namespaces if item.remains is None]
    names = [namespace.meta.name for namespace in delete] if keep else []
    return LeavingPlan(
        delete=[] if keep else delete,
        staying=waiting,
        closing=closing,
        retained=names,
        going=going,
        done=len(names) == len(namespaces),
    )


def _remains_condition(name: str, remains: Remains) -> KubeBindCondition:
    """Return why a namespace stays; found objects are reported before unlisted kinds."""
    if not remains.names:
        return false(
            NAMESPACE_READY,
            OBJECTS_UNKNOWN,
            f"provider namespace {name} is kept, since it may hold synced objects: "
            f"{'; '.join(remains.refused)}; apply the output of `fairlead manifests provider "
            "--export RESOURCE.GROUP` for all kinds that were exported",
            severity="Warning",
        )
    count = f"at least {len(remains.names)}" if remains.more else f"{len(remains.names)}"
    first = ", ".join(sorted(remains.names)[: bounds.NAMED])
    others = ", ..." if remains.more or len(remains.names) > bounds.NAMED else ""
    return false(
        NAMESPACE_READY,
        OBJECTS_REMAIN,
        f"provider namespace {name} is kept, since it holds synced objects ({count}: "
        f"{first}{others}): it is deleted when they are gone; delete them (in the consumer's "
        "cluster while it is bound, else here), or export their kind again to keep using them",
        severity="Info",
    )
