"""Reads the services once, so that the handlers after it need not mind failures."""

from __future__ import annotations

from fairlead.api.servicebinding.common import COLLECTION_READY, ERROR_READING_SERVICES
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.reads import ReadError


def collect_preflight(context: Context) -> None:
    """Stop, and wait, unless every service can be read."""
    try:
        context.services()
    except ReadError as error:
        collection_failed(context, ERROR_READING_SERVICES, error)


def collection_failed(
    context: Context, reason: str, error: Exception, *, message: str = "", missing: bool = False
) -> None:
    """Stop and come again, with CollectionReady False.

    Args:
        context: of the pass.
        reason: of the condition.
        error: what failed.
        message: of the condition; default: the error's.
        missing: whether something has only not come yet; a ReadError knows it by itself.
    """
    text = message or str(error)
    read = error if isinstance(error, ReadError) else None
    if missing or (read and read.missing):
        context.flow.wait_for_change(text)
    else:
        context.flow.retry_processing(text, transient=bool(read and read.transient))
    context.set_condition(COLLECTION_READY, "False", reason, text)
