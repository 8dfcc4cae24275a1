"""The pipeline: stages in order over one context, which is always closed.

An intercepting filter: a handler reads and writes its context and decides whether the next one
runs. An exception of a handler becomes an error of its binding; only
:class:`~fairlead.binding.reads.PassEnded`, which ends the whole pass, is passed on.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from fairlead.binding.contexts.protocol import Context
from fairlead.binding.reads import PassEnded, UnansweredRead


Handler: TypeAlias = Callable[[Context], Awaitable[None] | None]
"""A stage's function; a coroutine function if it reads, else possibly a plain one."""

_OURS = {"fairlead", "msgspec", *sys.stdlib_module_names}
"""Packages whose frames in a traceback count as Fairlead's."""


class Stage(msgspec.Struct, frozen=True):
    """A handler with the name by which it can be replaced.

    A stage with ``always`` runs even after an earlier one has stopped the pass.
    """

    name: str
    handler: Handler
    always: bool = False


def stage(handler: Handler) -> Stage:
    """Return the stage of a handler, with the name of its function."""
    return Stage(getattr(handler, "__name__", type(handler).__name__), handler)


class Pipeline:
    """A sequence of stages, the same for every binding of an API."""

    def __init__(self, stages: Sequence[Stage | Handler]) -> None:
        self.stages = tuple(one if isinstance(one, Stage) else stage(one) for one in stages)

    async def process(self, context: Context) -> None:
        """Open the context, run the handlers until one stops and the ``always`` ones; close it.

        Raises:
            InvalidBinding: the binding is contradictory.
            PassEnded: the pass has too many reads.
            Exception: an error of the responder.
        """
        try:
            await context.open()
            for stage in self.stages:
                if context.flow.stop and not stage.always:
                    continue
                try:
                    done = stage.handler(context)
                    if done is not None:
                        await done
                except PassEnded:
                    raise
                except Exception as error:  # noqa: BLE001 (one binding must not break the others)
                    # Only the exception's type is told: its text may contain a Secret.
                    text = f"panic occurred: {type(error).__name__} in {stage.name}"
                    context.flow.retry_processing(
                        f"{text}; {_culprit(error, context)}", transient=True
                    )
                # Conditions and metrics name the first stage that stopped or failed.
                if not context.flow.stage and (context.flow.stop or context.flow.error):
                    context.flow.stage = stage.name
        except UnansweredRead as ended:
            raise ended.error from None
        context.close()


def _culprit(error: Exception, context: Context) -> str:
    """Return whether an exception is a defect of Fairlead or of a given handler or context."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _OURS:
            return f"it comes from {module}.{frame.f_code.co_qualname}, which Fairlead was given"
    given = type(context)
    if given.__module__.partition(".")[0] in _OURS:
        return "this is a defect of Fairlead"
    name = f"{given.__module__}.{given.__qualname__}"
    return f"this is a defect of the context {name} that Fairlead was given, or of Fairlead"


T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end.

    Raises:
        RuntimeError: the coroutine waits for something.
    """
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise RuntimeError("a handler waits for something other than its context: await run() instead")
