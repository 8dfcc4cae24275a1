"""Writes the Secret's name where a workload wants to have it."""

from __future__ import annotations

from fairlead.binding.contexts.protocol import Context
from fairlead.binding.fixedpath import ProjectionError, write
from fairlead.binding.handlers.failing import projection_failed


def inject_secret_ref(context: Context) -> None:
    """Set the dotted ``secretPath`` of each workload that has one."""
    for workload in context.workloads():
        if not workload.secret_path:
            continue
        try:
            write(workload.body, tuple(workload.secret_path.split(".")), context.secret)
        except ProjectionError as error:
            projection_failed(context, error)
            return
