"""The protocol of a program's duties at its removal, and their common functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from fairlead.api.meta import JSON, Object
from fairlead.api.reasons.verdict import DELETING, Judgement, verdict_of
from fairlead.api.resource import Resource
from fairlead.provider.commands.revoke.cluster import Desk
from fairlead.uninstall.findings import Use


class Duties(Protocol):
    """Duties of a program, for its removal.

    ``uses`` returns the users of the program, ``notes`` further consequences for a person.
    ``orphan`` releases the objects that only the program could have cleaned up, once it does not
    run any more. ``clear`` deletes the objects that serve the program alone.
    """

    async def uses(self) -> list[Use]:
        """Return the users of the program."""
        ...

    async def notes(self) -> list[str]:
        """Return further consequences of the removal."""
        ...

    async def orphan(self) -> None:
        """Release the objects that wait for the program."""
        ...

    async def clear(self) -> None:
        """Delete the objects that only the program needs."""
        ...


def without(finalizers: Collection[str]) -> Callable[[Object], JSON | None]:
    """Return a function that removes these finalizers from a body; None if it has none."""

    def body(obj: Object) -> JSON | None:
        finalizers_left = [one for one in obj.meta.finalizers if one not in finalizers]
        if finalizers_left == obj.meta.finalizers:
            return None
        # Desk.change sends the difference with the resourceVersion: a finalizer that another
        # controller adds at the same moment is a conflict, and is not lost.
        body_ = obj.to_dict()
        body_["metadata"]["finalizers"] = finalizers_left
        return body_

    return body


async def let_go(
    desk: Desk, resource: Resource, objects: Sequence[Object], *finalizers: str
) -> int:
    """Remove finalizers from objects, deleted or not; return how many had one."""
    return await desk.change(resource, objects, without(finalizers))


def having(objects: Sequence[Object], *finalizers: str) -> list[Object]:
    """Return the objects with at least one of these finalizers."""
    return [one for one in objects if not set(finalizers).isdisjoint(one.meta.finalizers)]


def standing(obj: Object, awaited: str) -> str:
    """Return the end of a sentence about an object: what it waits for, and the verdict on it.

    Args:
        obj: the object.
        awaited: what an object that is being deleted waits for, while its program runs.
    """
    verdict = verdict_of(obj)
    ends = f", and waits for {awaited}" if obj.meta.deleting else ""
    return ends if verdict.reason == DELETING else ends + judged(verdict)


def judged(verdict: Judgement) -> str:
    """Return a verdict in parentheses, "" for an object that is in order or says nothing."""
    if verdict.state == "ok" or not verdict.text:
        return ""
    return "" if verdict.state == "unknown" else f" ({verdict.state}: {verdict.text})"


def remedy_for(obj: Object, deletion: str) -> str:
    """Return the remedy for a use: its ``deletion``, or what lets a deletion that fails go on."""
    verdict = verdict_of(obj)
    if obj.meta.deleting and verdict.state == "failed" and verdict.remedy:
        return verdict.remedy
    return deletion
