"""Objects that are left while they are being deleted, and their holders, as text."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES


_NAMED = 3
"""Largest number of objects that a text names."""


def count(number: int, singular: str, many: str = "") -> str:
    """Return a number with its noun, such as ``2 exports``."""
    return f"{number} {singular}" if number == 1 else f"{number} {many or singular + 's'}"


def named(objects: Sequence[Object]) -> str:
    """Return the first of some objects as text, by kind and name."""
    names = [f"{obj.kind} {obj.key}" for obj in objects[:_NAMED]]
    if len(objects) > _NAMED:
        names.append(f"{len(objects) - _NAMED} more")
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else "".join(names)


def remaining_text(objects: Sequence[Object]) -> str:
    """Return a text with the first remaining objects and what holds each; "" for none."""
    names = [_with_holder(obj) for obj in objects[:_NAMED]]
    if len(objects) > _NAMED:
        names.append(f"and {len(objects) - _NAMED} more")
    return ", ".join(names)


def _with_holder(obj: Object) -> str:
    holders = [f"finalizer {', '.join(obj.meta.finalizers)}"] if obj.meta.finalizers else []
    if obj.kind == NAMESPACES.kind and obj.meta.deleting:
        holders += namespace_holders(obj)
    return f"{obj.kind} {obj.key}" + (f" ({'; '.join(holders)})" if holders else "")


def namespace_holders(namespace: Object) -> list[str]:
    """Return what keeps a namespace in Terminating, in the words of Kubernetes' controller.

    It counts the objects that are left by kind, those that have a finalizer by finalizer, and
    tells which kinds it cannot list. Source: ``NamespaceConditionType`` in k8s.io/api.
    """
    conditions = (namespace.to_dict().get("status") or {}).get("conditions") or []
    return [
        # Each begins with a sentence that says the type once more.
        condition["message"].partition(": ")[2] or condition["message"]
        for condition in conditions
        if condition.get("status") == "True" and condition.get("message")
    ]
