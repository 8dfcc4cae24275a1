"""Unbinds workloads that the binding does not select any more."""

from __future__ import annotations

from fairlead.api.servicebinding.common import APPLICATION_NOT_FOUND, INJECTION_READY
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.projection import unproject
from fairlead.binding.reads import ReadError


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
