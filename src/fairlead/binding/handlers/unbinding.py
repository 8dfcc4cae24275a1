"""Unbinding: removing projections of earlier passes.

The first stage of a pipeline unbinds all workloads if the binding is deleted or its mapping has
changed; the second one workloads that are no longer selected, even if the binding has errors. The
last stage before the decisions are handed over chooses the Secrets of former content to delete, or
all of a binding whose projection is withdrawn.
"""

from __future__ import annotations

from fairlead.api.servicebinding.common import (
    ERROR,
    INJECTION_READY,
    ITEMS_LEFT,
    WORKLOAD_NOT_ALLOWED,
)
from fairlead.binding.contexts.protocol import Context, in_one
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.reads import ReadError
from fairlead.binding.workloads.operations import MappingError, Operations


async def unbind(context: Context) -> None:
    """Remove the projection from all workloads, also from formerly selected ones.

    Missing workloads and kinds are skipped. Unreadable ones keep the binding, so that no
    projection is forgotten.
    """
    if not context.unbind_requested:
        return
    # Before the work, for this pass projects nothing, whether unbinding works or not.
    context.flow.stop_processing()
    stuck = _taken_away(context, await _bound(context))
    if context.left:
        context.set_condition(INJECTION_READY, "False", ITEMS_LEFT, in_one(context.left))
    if stuck:
        _failed(context, f"cannot unbind: {stuck}", transient=True)
    # Unbinding needed the recorded mapping; without it the next pass projects by the new one.
    if not context.flow.error and context.drop_mapping_annotation():
        context.flow.retry_processing()


async def _bound(context: Context) -> list[Operations]:
    try:
        return await context.bound()
    except ReadError as error:
        text, transient = f"cannot unbind: {error}", True
    except MappingError as error:
        text, transient = f"cannot unbind: {error}", False
    _failed(context, text, transient=transient)
    return []


def _failed(context: Context, text: str, *, transient: bool) -> None:
    context.set_condition(INJECTION_READY, "False", ERROR, text)
    context.flow.retry_processing(text, transient=transient)


def _taken_away(context: Context, projections: list[Operations]) -> str:
    """Remove projections where possible, and tell what stays; return why it failed elsewhere."""
    stuck: list[str] = []
    for projection in projections:
        try:
            left = projection.take_away()
        except ProjectionError as error:
            stuck.append(str(error))
        else:
            if left:
                context.leave(projection, left)
    return in_one(stuck)


async def unbind_leftovers(context: Context) -> None:
    """Remove the projection from workloads that are no longer selected by name or labels.

    Also from workloads of kinds that are no longer allowed, even if the binding has errors.
    """
    ineligible = await context.ineligible()
    if ineligible:
        context.set_condition(INJECTION_READY, "False", WORKLOAD_NOT_ALLOWED, ineligible)
    try:
        projections = await context.leftovers()
    except (ReadError, MappingError) as error:
        context.doubt(f"cannot unbind workloads that are no longer selected: {error}")
        return
    stuck = _taken_away(context, projections)
    if stuck:
        context.doubt(stuck)


async def drop_secrets(context: Context) -> None:
    """Choose all generated Secrets to delete, if no workload keeps the projection."""
    if context.flow.error:
        return
    try:
        await context.drop_secrets()
    except ReadError as error:
        _failed(context, f"cannot delete generated Secrets: {error}", transient=True)


async def drop_superseded(context: Context) -> None:
    """Choose the generated Secrets of former content to delete, if nothing reads them."""
    if not context.flow.error:
        await context.drop_superseded()
