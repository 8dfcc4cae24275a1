"""Decides the Secret, and sees that there are workloads and something to project."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.servicebinding.common import (
    APPLICATION_NOT_FOUND,
    COLLECTION_READY,
    DATA_COLLECTED,
    EMPTY_APPLICATION,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    NO_BINDING_DATA,
    REQUIRED_BINDING_NOT_FOUND,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.reads import ReadError
from fairlead.binding.templates import MappingError


def project_preflight(*mandatory: str) -> Callable[[Context], None]:
    """The handler, for an API that demands these entries.

    The Secret comes first, so that it exists even without any workload.
    """

    def handler(context: Context) -> None:
        try:
            context.persist_secret()
        except ValueError as error:
            context.flow.fail(str(error))
            context.flow.stop_processing()
            context.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, str(error))
            return
        context.set_condition(COLLECTION_READY, "True", DATA_COLLECTED)
        if _workloads_found(context):
            _check_items(context, mandatory)

    return handler


def _workloads_found(context: Context) -> bool:
    try:
        found = context.workloads()
    except (ReadError, MappingError) as error:
        if isinstance(error, ReadError) and error.missing:
            context.flow.wait_for_change(str(error))
        else:
            transient = isinstance(error, ReadError) and error.transient
            context.flow.retry_processing(str(error), transient=transient)
        context.set_condition(INJECTION_READY, "False", APPLICATION_NOT_FOUND, str(error))
        return False
    if not found:
        context.set_condition(INJECTION_READY, "False", EMPTY_APPLICATION)
        context.flow.stop_processing()
        return False
    return True


def _check_items(context: Context, mandatory: tuple[str, ...]) -> None:
    names = {item.name for item in context.items()}
    if not names:
        text = "no binding data to project"
        context.flow.wait_for_change(text)
        context.set_condition(INJECTION_READY, "False", NO_BINDING_DATA, text)
        return
    for name in mandatory:
        if name not in names:
            text = (
                f"Mandatory binding '{name}' not found: add the entry to the service's Secret, or "
                f"set it in the binding's spec"
            )
            context.flow.fail(text)
            context.flow.stop_processing()
            context.set_condition(INJECTION_READY, "False", REQUIRED_BINDING_NOT_FOUND, text)
