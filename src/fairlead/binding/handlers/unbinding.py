"""Unbinding: taking away what earlier passes projected.

The first stage of a pipeline does it when the binding goes or its mapping has changed; the second
one for workloads that are selected no more, whatever else is wrong with the binding.
"""

from __future__ import annotations

from fairlead.api.servicebinding.common import ERROR, INJECTION_READY, WORKLOAD_NOT_ALLOWED
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.reads import ReadError
from fairlead.binding.workloads.operations import MappingError, Operations


async def unbind(context: Context) -> None:
    """Unproject from all workloads, those that were selected once too.

    Workloads that are gone, or whose kind is, have nothing to take away. Ones that cannot be read
    keep the binding, so that no leftover projection goes unnoticed.
    """
    if not context.unbind_requested:
        return
    context.flow.stop_processing()
    stuck = _taken_away(await _bound(context))
    if stuck:
        _failed(context, f"cannot unbind: {stuck}", transient=True)
    # The mapping was recorded to be unbound by; with it gone, the next pass projects anew.
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


def _taken_away(projections: list[Operations]) -> str:
    """Take the projection away wherever that can be done; why it cannot elsewhere."""
    stuck: list[str] = []
    for projection in projections:
        try:
            projection.take_away()
        except ProjectionError as error:
            stuck.append(str(error))
    return "; ".join(stuck)


async def unbind_leftovers(context: Context) -> None:
    """Take the projection away from relabelled workloads, and from those of a former name.

    And from those of a kind that is none of a workload any more, whatever else is wrong.
    """
    ineligible = await context.ineligible()
    if ineligible:
        context.set_condition(INJECTION_READY, "False", WORKLOAD_NOT_ALLOWED, ineligible)
    try:
        found = await context.leftovers()
    except (ReadError, MappingError) as error:
        context.doubt(f"cannot unbind workloads that are not selected any more: {error}")
        return
    stuck = _taken_away(found)
    if stuck:
        context.doubt(stuck)


async def drop_superseded(context: Context) -> None:
    """Have generated Secrets of former content deleted, once nothing reads them any more."""
    if not context.flow.error:
        await context.drop_superseded()
