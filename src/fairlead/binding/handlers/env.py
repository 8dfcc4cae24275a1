"""Projects the binding as environment variables."""

from __future__ import annotations

from fairlead.binding.contexts.protocol import Context
from fairlead.binding.fixedpath import ProjectionError
from fairlead.binding.handlers.failing import projection_failed
from fairlead.binding.projection import put_variable, remove, variable
from fairlead.binding.workload import Container, Workload


def bindings_as_env(context: Context) -> None:
    """The whole Secret with envFrom where files are not wanted, and single entries."""
    for workload in context.workloads():
        try:
            _clean(context, workload)
            if not context.bind_as_files or context.env_bindings:
                _project(context, workload)
        except ProjectionError as error:
            projection_failed(context, error)
            return


def _clean(context: Context, workload: Workload) -> None:
    """Take away what the binding put there with a spec or a Secret that it has no more."""
    wanted = [variable(binding, context.secret) for binding in context.env_bindings]
    source = {"secretRef": {"name": context.secret}}
    for container in workload.any_containers():
        remove(
            container.env(create=False),
            lambda item: context.traces.is_env(item) and item not in wanted,
        )
        remove(
            container.env_from(create=False),
            lambda item: (
                context.traces.is_env_from(item) and (context.bind_as_files or item != source)
            ),
        )


def _project(context: Context, workload: Workload) -> None:
    for container in workload.bound_containers(context.container_names):
        if not context.bind_as_files:
            _whole(container, context.secret)
        for binding in context.env_bindings:
            put_variable(container.env(), variable(binding, context.secret))


def _whole(container: Container, secret: str) -> None:
    wanted = {"secretRef": {"name": secret}}
    sources = container.env_from()
    if wanted not in sources:
        remove(sources, lambda item: (item.get("secretRef") or {}).get("name") == secret)
        sources.append(wanted)
