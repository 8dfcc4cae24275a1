"""Unbinding: taking away what earlier passes projected.

The first stage of a pipeline does it when the binding goes or its mapping has changed; a late one
for workloads that are selected no more.
"""

from __future__ import annotations

from fairlead.api.servicebinding.common import APPLICATION_NOT_FOUND, ERROR, INJECTION_READY
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.handlers.projecting import name_of, remove, variable
from fairlead.binding.reads import ReadError
from fairlead.binding.workload import MappingError, Workload


def unbind(context: Context) -> None:
    """Unproject from the selected workloads and from those that were selected once.

    Workloads that are gone, or whose kind is, have nothing to take away. Ones that cannot be read
    keep the binding, so that no leftover projection goes unnoticed.
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


def unbind_leftovers(context: Context) -> None:
    """Take the projection away from relabelled workloads, and from those of a former name."""
    try:
        found = context.leftovers()
    except ReadError as error:
        context.flow.retry_processing(str(error), transient=True)
        context.set_condition(INJECTION_READY, "False", APPLICATION_NOT_FOUND, str(error))
        return
    for workload in found:
        unproject(context, workload)


def unproject(context: Context, workload: Workload) -> None:
    """Remove the binding's volume, mounts, environment sources and variables.

    Lists that become empty stay, as does SERVICE_BINDING_ROOT: others may mount below it.
    """
    traces, name = context.traces, context.volume_name
    names = {
        item.get("name")
        for item in workload.volumes(create=False)
        if isinstance(item, dict) and traces.is_volume(item)
    } | {name}
    remove(workload.volumes(create=False), lambda item: name_of(item) in names)
    variables = [variable(item, context.former_secret) for item in context.env_bindings]
    for container in workload.any_containers():
        remove(container.volume_mounts(create=False), lambda item: name_of(item) in names)
        remove(
            container.env(create=False),
            lambda item: item in variables or traces.is_env(item),
        )
        remove(
            container.env_from(create=False),
            lambda item: (
                item == {"secretRef": {"name": context.former_secret}} or traces.is_env_from(item)
            ),
        )
