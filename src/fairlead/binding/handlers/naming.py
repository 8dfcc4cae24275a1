"""Renames the items that came from services."""

from __future__ import annotations

from fairlead.api.servicebinding.common import COLLECTION_READY, NAMING_STRATEGY_ERROR
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.naming import NamingError, naming


def apply_naming(context: Context) -> None:
    """Rename by the strategy in force; mappings' items have no source and keep their names."""
    try:
        rename = naming(context.naming_strategy)
        for item in context.items():
            if item.source:
                item.name = rename(item.name, item.source)
    except NamingError as error:
        context.flow.fail(str(error))
        context.flow.stop_processing()
        context.set_condition(COLLECTION_READY, "False", NAMING_STRATEGY_ERROR, str(error))
