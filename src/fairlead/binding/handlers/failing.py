"""What a failed projection comes to."""

from __future__ import annotations

from fairlead.api.servicebinding.common import ERROR, INJECTION_READY
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.fixedpath import ProjectionError


def projection_failed(context: Context, error: ProjectionError) -> None:
    """Stop; no workload is written, since one that fails must not leave others half bound."""
    context.flow.fail(str(error))
    context.flow.stop_processing()
    context.set_condition(INJECTION_READY, "False", ERROR, str(error))
