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
    context: Context, reason: str, error: Exception, *, message: str = ""
) -> None:
    """Stop and come again, with CollectionReady False."""
    text = message or str(error)
    transient = isinstance(error, ReadError) and error.failure.code in {
        "Error",
        "Forbidden",
        "Denied",
    }
    context.flow.retry_processing(text, transient=transient)
    context.set_condition(COLLECTION_READY, "False", reason, text)
