"""The interface of the pipeline's operations on workloads, in Kubernetes or elsewhere.

Handlers only use these operations. ``projection`` implements them for Kubernetes,
``outside.compose`` for Compose services; another place to bind in needs another implementation,
and a :class:`Workloads` that finds its workloads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from fairlead.binding.reads import ReadError


C = TypeVar("C")


class MappingError(ValueError):
    """A mapping of a workload kind's paths is invalid; the text says why."""


class WorkloadTarget(Protocol):
    """A workload; str() is its name in messages."""

    @property
    def secret_path(self) -> str:
        """The dotted path for the Secret's name, "" for none."""

    @property
    def changed(self) -> bool:
        """Whether the workload differs from its state when read."""


class WorkloadOperations(Protocol[C]):
    """One binding on one workload, whose containers are of type ``C``.

    Operations only change a copy; those that may have to read are coroutines. They raise
    ProjectionError on a conflict, with a text that names the remedy, and never replace another
    writer's items.
    """

    @property
    def workload(self) -> WorkloadTarget:
        """The workload."""

    @property
    def settled(self) -> bool:
        """Whether the workload is in its wanted state, and so may be written.

        Only :meth:`settle` and :meth:`take_away` set it; other workloads are never written.
        """

    def containers(self, names: Collection[str]) -> list[C]:
        """Return the containers with these names, all without names."""

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Add a volume of a Secret, with a mode of its files."""

    async def mount(self, container: C, volume: str, directory: str) -> None:
        """Mount a volume at a directory below the container's binding root."""

    def path(self, container: C, directory: str) -> str:
        """Return the path of a directory below the container's binding root."""

    async def variable(self, container: C, name: str, key: str, secret: str) -> None:
        """Add a variable with the value of a Secret's entry."""

    async def text(self, container: C, name: str, text: str) -> None:
        """Add a variable with a text, in which ``$(NAME)`` is an earlier variable's value."""

    async def whole(self, container: C, secret: str) -> None:
        """Add every entry of a Secret as a variable."""

    async def secret_name(self, path: str, secret: str) -> None:
        """Write the Secret's name at a dotted path."""

    def content(self, mark: str) -> None:
        """Mark the pods, so that another mark causes a rollout."""

    def settle(self) -> str:
        """Remove items of earlier passes that this one did not request; the result is settled.

        Return a message on a workload that is immutable and keeps its state; else "".
        """

    def take_away(self) -> str:
        """Remove all of the binding's items; the result is settled.

        Return a message on what stays in their places; else "".
        """


Operations = WorkloadOperations[Any]
"""Operations on workloads of any place."""


class Workloads(Protocol):
    """Finds the workloads of one binding in one pass.

    Its methods raise ReadError if workloads cannot be read, and MappingError if their mapping is
    invalid.
    """

    async def selected(
        self,
    ) -> tuple[Sequence[Operations], Sequence[tuple[Operations, ReadError]]]:
        """Return the selected workloads, and those that may not be updated with the errors.

        It raises ReadError also if the named workload does not exist.
        """

    async def leftovers(self) -> Sequence[Operations]:
        """Return workloads with a projection that are no longer selected."""

    async def bound(self) -> Sequence[Operations]:
        """Return all workloads with a projection."""
