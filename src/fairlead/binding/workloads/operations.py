"""What the pipeline does to a workload, wherever workloads run.

Handlers know no more of a workload than these operations. ``projection`` has them for Kubernetes,
``outside.compose`` for services of Compose; another place to bind in is another implementation,
and a :class:`Workloads` that finds what to operate on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from fairlead.binding.reads import ReadError


C = TypeVar("C")


class MappingError(ValueError):
    """What says where workloads of a kind have what cannot be used; the text tells why."""


class Target(Protocol):
    """A workload; as text it is what messages call it."""

    @property
    def secret_path(self) -> str:
        """The dotted path at which the Secret's name is wanted, "" for nowhere."""

    @property
    def changed(self) -> bool:
        """Whether it is not any more as it was read."""


class WorkloadOperations(Protocol[C]):
    """One binding on one workload, whose containers are of type ``C``.

    Operations change nothing but a copy; those that may have to read first are coroutines. They
    raise ProjectionError where something is in the
    way, with a text that names it and the remedy; none replaces what is not the binding's.
    """

    @property
    def workload(self) -> Target:
        """What is operated on."""

    @property
    def settled(self) -> bool:
        """Whether it is as it has to be, and so may be written.

        :meth:`settle` and :meth:`take_away` say so; what neither has done is never written.
        """

    def containers(self, names: Collection[str]) -> list[C]:
        """The containers with these names, all for no names."""

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Have a volume of a Secret, whose files have a mode."""

    async def mount(self, container: C, volume: str, directory: str) -> None:
        """Mount a volume at a directory below the container's binding root."""

    async def variable(self, container: C, name: str, key: str, secret: str) -> None:
        """Have a variable with the value of an entry of a Secret."""

    async def whole(self, container: C, secret: str) -> None:
        """Have every entry of a Secret as a variable."""

    async def secret_name(self, path: str, secret: str) -> None:
        """Have the Secret's name at a dotted path."""

    def content(self, mark: str) -> None:
        """Have what runs made anew whenever the mark is another one."""

    def settle(self) -> str:
        """Take away what an earlier pass put there and this one did not ask for; be settled.

        Says what is left as it was, since it cannot be changed any more; "" for nothing.
        """

    def take_away(self) -> None:
        """Take away all that the binding has there; be settled."""


Operations = WorkloadOperations[Any]
"""On workloads of any place."""


class Workloads(Protocol):
    """Finds the workloads of one binding in one pass.

    Its methods raise ReadError where workloads cannot be read, and MappingError where it cannot
    be told where they have what.
    """

    async def selected(
        self,
    ) -> tuple[Sequence[Operations], Sequence[tuple[Operations, ReadError]]]:
        """The selected ones, and those of them that may not be updated, with what says so.

        It raises ReadError also where none is there.
        """

    async def leftovers(self) -> Sequence[Operations]:
        """Those that have something of the binding and are not selected any more."""

    async def bound(self) -> Sequence[Operations]:
        """All that have something of the binding."""
