"""Faults planted in Service Binding: each function spoils the product in this Python for good.

``FAULTS`` has them by name; the scenario ``binding`` has to find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import Object
from fairlead.binding.cluster.committing import Committer, Stored
from fairlead.binding.contexts import superseded
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.contexts.reader import Requester
from fairlead.binding.controller import BindingController
from fairlead.binding.handlers import unbinding
from fairlead.binding.workloads.holdings import Holding, name_of
from fairlead.binding.workloads.operations import Operations
from fairlead.runtime import Request


def workload_before_secret() -> None:
    """Write workloads before the Secret that they name."""
    write = Committer.write

    async def hasty(self: Committer, context: BaseContext, stored: Stored | None = None) -> Object:
        await self._workloads(context, context.changed_workloads(), {})
        return await write(self, context, stored)

    Committer.write = hasty  # type: ignore[method-assign]


def unbinding_forgets_one() -> None:
    """Of several workloads take the projection off all but one."""
    bound = unbinding._bound

    async def most(context: Any) -> list[Operations]:
        found = await bound(context)
        return found[:-1] if len(found) > 1 else found

    unbinding._bound = most


def rights_not_asked() -> None:
    """Ask nobody whether the requester may do it."""

    async def check(*_: Any) -> None:
        """Ask nothing."""

    Requester.check = check  # type: ignore[assignment,method-assign]
    Requester.question = lambda *_: None  # type: ignore[method-assign]


def secrets_go_at_once() -> None:
    """Delete former Secrets, whatever still reads them."""

    async def nothing(*_: Any) -> set[str]:
        return set()

    superseded._used = nothing  # type: ignore[assignment]


def volumes_by_name() -> None:
    """Take a volume of a binding's name for its own, whatever it has."""

    def ours(self: Holding, item: Any) -> bool:
        return bool(self.record.volumes) and name_of(item) == self.record.volume

    Holding.is_volume = ours  # type: ignore[method-assign]


def finalizer_comes_late() -> None:
    """Project first, and note the finalizer then."""
    prepare, write = BindingController._prepare, BindingController._write

    async def later(self: BindingController, request: Request, context: BaseContext) -> None:
        return None

    async def first(self: BindingController, request: Request, context: BaseContext) -> Object:
        written = await write(self, request, context)
        if not context.meta.deleting:
            await prepare(self, request, context)
        return written

    BindingController._prepare = later  # type: ignore[method-assign]
    BindingController._write = first  # type: ignore[method-assign]


def leftovers_stay() -> None:
    """Take nothing off workloads that are not selected any more."""
    unbinding.unbind_leftovers.__code__ = (lambda context: None).__code__


FAULTS: dict[str, Callable[[], None]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        workload_before_secret,
        unbinding_forgets_one,
        rights_not_asked,
        secrets_go_at_once,
        volumes_by_name,
        finalizer_comes_late,
        leftovers_stay,
    )
}
