"""Takes away what earlier passes projected, when the binding goes or its mapping changed."""

from __future__ import annotations

from fairlead.api.servicebinding.common import ERROR, INJECTION_READY
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.projection import unproject
from fairlead.binding.reads import ReadError
from fairlead.binding.templates import MappingError
from fairlead.binding.workload import Workload


def unbind(context: Context) -> None:
    """Unproject from the selected workloads and from those that were selected once.

    Workloads that are gone, or whose kind is, have nothing to take away. Ones that cannot be read
    keep the binding, so that no projection is left behind unnoticed.
    """
    if not context.unbind_requested:
        return
    context.flow.stop_processing()
    for workload in _workloads(context):
        unproject(context, workload)
    if not context.flow.error and context.drop_mapping_annotation():
        context.flow.retry_processing()


def _workloads(context: Context) -> list[Workload]:
    if not context.former_secret:
        return []
    try:
        return [*context.workloads(), *context.leftovers()]
    except ReadError as error:
        if not error.missing:
            text = f"cannot unbind: {error}"
            context.set_condition(INJECTION_READY, "False", ERROR, text)
            context.flow.retry_processing(text, transient=True)
    except MappingError as error:
        text = f"cannot unbind: {error}"
        context.set_condition(INJECTION_READY, "False", ERROR, text)
        context.flow.retry_processing(text)
    return []
