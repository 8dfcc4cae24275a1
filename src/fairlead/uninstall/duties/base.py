"""The base of a program's duties at its removal, and their common functions."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import DELETING, Judgement, verdict_of
from fairlead.runtime.removal import Removal
from fairlead.uninstall.findings import Use
from fairlead.uninstall.footprints import Footprint
from fairlead.uninstall.presence import runs


class Duties:
    """Duties of a program, for its removal.

    ``uses`` returns the users of the program, ``notes`` further consequences for a person.
    ``orphan`` releases the objects that only the program could have cleaned up, once it does not
    run any more. ``clear`` deletes the objects that serve the program alone.
    """

    def __init__(self, removal: Removal, footprint: Footprint) -> None:
        self._removal = removal
        self._client = removal.client
        self._footprint = footprint

    async def uses(self) -> list[Use]:
        """Return the users of the program."""
        raise NotImplementedError

    async def notes(self) -> list[str]:
        """Return further consequences of the removal."""
        return []

    async def orphan(self) -> None:
        """Release the objects that wait for the program."""

    async def clear(self) -> None:
        """Delete the objects that only the program needs."""

    async def _again(self, remedy: str) -> str:
        """Return the remedy for a program that does not run, "" for one that runs."""
        return "" if await runs(self._client, self._footprint) else remedy


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
