"""Says that the projection is done."""

from __future__ import annotations

from fairlead.api.servicebinding.common import APPLICATION_UPDATED, INJECTION_READY
from fairlead.binding.contexts.protocol import Context


def postflight(context: Context) -> None:
    """InjectionReady is True; workloads that a selector comes to match are watched for."""
    context.set_condition(INJECTION_READY, "True", APPLICATION_UPDATED)
