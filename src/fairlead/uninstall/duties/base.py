"""What all duties have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.provider.commands.revoke.cluster import Desk
from fairlead.uninstall.findings import Use


class Duties(Protocol):
    """What a program is there for, as its end sees it.

    ``uses`` is what still needs it, ``notes`` what a person should know besides. ``orphan`` lets
    go of what only the program could have cleaned up, once it does not run any more. ``clear``
    takes away what is of use to the program alone.
    """

    async def uses(self) -> list[Use]:
        """What still needs the program."""
        ...

    async def notes(self) -> list[str]:
        """What else becomes of it."""
        ...

    async def orphan(self) -> None:
        """Let go of what waits for the program."""
        ...

    async def clear(self) -> None:
        """Take away what nothing else needs."""
        ...


def without(finalizers: Collection[str]) -> Callable[[Object], JSON | None]:
    """An object that waits for these finalizers no more; None where it does not anyway."""

    def body(obj: Object) -> JSON | None:
        kept = [one for one in obj.meta.finalizers if one not in finalizers]
        if kept == obj.meta.finalizers:
            return None
        found = obj.to_dict()
        found["metadata"]["finalizers"] = kept
        return found

    return body


async def let_go(
    desk: Desk, resource: Resource, objects: Sequence[Object], *finalizers: str
) -> int:
    """Take finalizers off objects, whether they are going or not; how many had one."""
    return await desk.change(resource, objects, without(finalizers))


def having(objects: Sequence[Object], *finalizers: str) -> list[Object]:
    """Those of the objects that wait for one of these finalizers."""
    return [one for one in objects if not set(finalizers).isdisjoint(one.meta.finalizers)]


def named(objects: Sequence[Object]) -> str:
    """The first of some objects, by kind and name."""
    told = [f"{one.kind} {one.key}" for one in objects[:_NAMED]]
    if len(objects) > _NAMED:
        told.append(f"{len(objects) - _NAMED} more")
    return " and ".join([", ".join(told[:-1]), told[-1]]) if told[1:] else "".join(told)


_NAMED = 3


async def pause() -> None:
    """Let a server get on with it before the next look."""
    await asyncio.sleep(_PAUSE_SECONDS)


_PAUSE_SECONDS = 0.2
