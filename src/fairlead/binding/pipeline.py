"""The pipeline: handlers in their order over one context, which is always closed.

An intercepting filter: a handler reads and writes its context and decides whether the next one
runs. A handler that breaks is contained and becomes an error of the binding it broke on; only
:class:`~fairlead.binding.reads.Need`, the request for a read, passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.handlers.collecting import (
    binding_definitions,
    binding_items,
    collect_preflight,
    direct_secret,
    owned_resources,
    provisioned_service,
)
from fairlead.binding.handlers.naming import apply_mappings, apply_naming
from fairlead.binding.handlers.projecting import (
    bindings_as_env,
    bindings_as_files,
    inject_secret_ref,
    postflight,
    project_preflight,
)
from fairlead.binding.handlers.unbinding import drop_superseded, unbind, unbind_leftovers
from fairlead.binding.reads import Need


Handler = Callable[[Context], None]


class Pipeline:
    """A sequence of handlers, the same for every binding of an API."""

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.handlers = tuple(handlers)

    def process(self, context: BaseContext) -> None:
        """Run the handlers until one stops, then close the context.

        Raises:
            Need: a read has no answer yet; answer it and process a fresh context.
        """
        for handler in self.handlers:
            _contained(handler, context)
            if context.flow.stop:
                break
        context.close()


def _contained(handler: Handler, context: BaseContext) -> None:
    """Run a handler; of an exception only the type is told, for its text may hold a Secret."""
    try:
        handler(context)
    except Need:
        raise
    except Exception as error:  # noqa: BLE001 (one binding must not break the others)
        name = getattr(handler, "__name__", "handler")
        text = f"panic occurred: {type(error).__name__} in {name}; this is a defect of Fairlead"
        context.flow.retry_processing(text, transient=True)


def spec_pipeline() -> Pipeline:
    """The stages for servicebinding.io."""
    return Pipeline(
        [
            unbind,
            unbind_leftovers,
            collect_preflight,
            provisioned_service,
            direct_secret,
            binding_definitions,
            binding_items,
            project_preflight("type"),
            bindings_as_env,
            bindings_as_files,
            postflight,
            drop_superseded,
        ]
    )


def coreos_pipeline() -> Pipeline:
    """The stages for binding.operators.coreos.com."""
    return Pipeline(
        [
            unbind,
            unbind_leftovers,
            collect_preflight,
            provisioned_service,
            direct_secret,
            binding_definitions,
            binding_items,
            owned_resources,
            apply_mappings,
            apply_naming,
            project_preflight(),
            inject_secret_ref,
            bindings_as_env,
            bindings_as_files,
            postflight,
            drop_superseded,
        ]
    )
