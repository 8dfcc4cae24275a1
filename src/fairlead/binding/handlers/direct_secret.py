"""Gathers the entries of services that are Secrets themselves."""

from __future__ import annotations

from fairlead.api.servicebinding.common import DEFINITION_ANNOTATION, ERROR_READING_SECRET
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.handlers.preflight import collection_failed
from fairlead.binding.items import secret_source
from fairlead.binding.reads import ReadError


def direct_secret(context: Context) -> None:
    """Add each Secret, except those that say with annotations what of them is bound."""
    for service in context.services():
        annotations = service.meta.annotations
        annotated = any(key.startswith(DEFINITION_ANNOTATION) for key in annotations)
        if not service.is_secret or annotated:
            continue
        try:
            secret = context.read_secret(service.namespace, service.name)
            source = secret_source(secret, service.source)
        except (ReadError, ValueError) as error:
            collection_failed(context, ERROR_READING_SECRET, error)
            return
        if source:
            context.add_source(source)
