"""Reads what API servers hold, without a request, and sees each change as it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.sim.network import origin
from tests.sim.planes import Plane
from tests.sim.processes import Process
from tests.sim.simulation import Simulation

from fairlead.api.meta import Key, Object, decode_object
from fairlead.api.resource import Resource
from fairlead_sandbox.storage.records import Change


class Commit(NamedTuple):
    """One change as it becomes visible; ``writer`` is the process that has asked for it.

    The server's own controllers have no process: ``writer`` is None.
    """

    plane: Plane
    change: Change
    writer: Process | None

    @property
    def collection(self) -> str:
        """``plural.group``, or the plural alone in the core group."""
        return self.change.collection

    @property
    def key(self) -> Key:
        """Of the object."""
        return self.change.record.key

    @property
    def new(self) -> Object:
        """The object as it is now, or as it was at last when it is deleted."""
        return decode_object(self.change.record.raw)

    @property
    def old(self) -> Object | None:
        """The object as it was before."""
        return decode_object(self.change.old.raw) if self.change.old else None

    @property
    def by(self) -> str:
        """The writer's name, for people."""
        return self.writer.name if self.writer else f"{self.plane.name} itself"


Check = Callable[[Commit], str | None]
"""Looks at one change; the broken sentence, or nothing."""


def watch_commits(simulation: Simulation, *checks: Check) -> None:
    """Have each change of each control plane looked at, from the next start of each on."""

    def begun(plane: Plane) -> None:
        def observe(change: Change) -> None:
            commit = Commit(plane, change, origin.get())
            for check in checks:
                if text := check(commit):
                    simulation.violated(text)

        plane.store.observe(observe)

    simulation.on_plane.append(begun)


def held(plane: Plane, resource: Resource, namespace: str = "") -> list[Object]:
    """What a control plane holds of one resource, in one namespace or in all."""
    records = plane.store.collection(resource.group_resource).objects
    return [
        decode_object(record.raw)
        for key, record in sorted(records.items())
        if namespace in {"", key.namespace}
    ]


def one(plane: Plane, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """One object, if it is there."""
    record = plane.store.collection(resource.group_resource).get(Key(namespace, name))
    return decode_object(record.raw) if record else None
