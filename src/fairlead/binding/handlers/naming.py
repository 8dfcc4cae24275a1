"""Naming: entries from the binding's own mappings, and the names of services' entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairlead.api.servicebinding.common import COLLECTION_READY, NAMING_STRATEGY_ERROR
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.expressions.gotemplate import (
    JSON,
    SOURCE,
    BoundError,
    RenderingBudget,
    Template,
    TemplateError,
    of_string,
)
from fairlead.binding.services.items import Item, Source, TooManyEntries


async def apply_mappings(context: Context) -> None:
    """Render each mapping, with services by id and items by their present names."""
    if not context.mappings:
        return
    try:
        # Before any renaming: mappings know entries by their own names, host and not BACKEND_HOST.
        data = await context.template_data()
        await context.give_way()
        for item in _rendered(context.mappings, data):
            context.add_item(item)
    except (TemplateError, TooManyEntries) as error:
        # No condition of its own, as with Service Binding Operator: Ready has the error.
        context.flow.fail(str(error))
        context.flow.stop_processing()


def _rendered(mappings: Sequence[tuple[str, str]], data: Mapping[str, Any]) -> list[Item]:
    """Render the mappings, which share one budget, so that many small ones do not evade it."""
    if sum(len(text) for _, text in mappings) > SOURCE:
        raise TemplateError(f"template: mappings: more than {SOURCE} characters in all mappings")
    budget = RenderingBudget()
    return [
        Item(name, Template(text, name="mappings", functions=_FUNCTIONS).render(data, budget))
        for name, text in mappings
    ]


async def apply_naming(context: Context) -> None:
    """Rename by the naming strategy; items of mappings have no source and keep their names."""
    try:
        rename = naming(context.naming_strategy)
        if context.naming_strategy not in _PREDEFINED:
            await context.give_way()
        items = [(item, item.source) for item in context.items() if item.source]
        names = [rename(item.name, source) for item, source in items]
        for (item, _), name in zip(items, names, strict=True):
            # In place: a Secret with a renamed entry can no longer be projected as it is
            # (SecretSource).
            item.name = name
    except NamingError as error:
        context.flow.fail(str(error))
        context.flow.stop_processing()
        context.set_condition(COLLECTION_READY, "False", NAMING_STRATEGY_ERROR, str(error))


_FUNCTIONS = {"json": JSON}
_STEPS_PER_NAME = 100
"""Steps per name that are added to the shared budget."""

Rename = Callable[[str, Source], str]

_PREDEFINED: dict[str, Rename] = {
    # Not upper or lower: these are templates of constant text, which name every entry alike.
    "none": lambda name, _: name,
    "lowercase": lambda name, _: _lower(name),
    "uppercase": lambda name, source: f"{_upper(source.kind)}_{_upper(name)}",
}


class NamingError(ValueError):
    """An invalid naming strategy."""


def naming(strategy: str) -> Rename:
    """Return the renaming function of a predefined strategy or of a template.

    The function raises NamingError if the template fails.

    Raises:
        NamingError: the template is invalid.
    """
    if strategy in _PREDEFINED:
        return _PREDEFINED[strategy]
    functions = {
        "upper": of_string(_upper),
        "lower": of_string(_lower),
        "title": of_string(_title),
    }
    try:
        # Service Binding Operator has html/template here, which prints nothing for a missing
        # value. Its escaping (a+b becomes a&#43;b) is not wanted in a key.
        template = Template(strategy, name="template", functions=functions, no_value="")
    except TemplateError as error:
        raise NamingError(str(error)) from None

    budget = RenderingBudget()

    def rename(name: str, source: Source) -> str:
        # Many entries legitimately need many steps, but a single one stays bounded.
        budget.allow(_STEPS_PER_NAME)
        data = {"name": name, "service": {"kind": source.kind, "name": source.name}}
        try:
            return template.render(data, budget)
        except BoundError as error:
            raise NamingError(str(error)) from None
        except TemplateError:
            # Service Binding Operator's text, which also hides the error.
            raise NamingError("please check the namingStrategy template provided") from None

    return rename


def _upper(text: str) -> str:
    """Return upper case as Go does: a letter that would become several stays as it is."""
    return "".join(_single(character, character.upper()) for character in text)


def _lower(text: str) -> str:
    return "".join(_single(character, character.lower()) for character in text)


def _title(text: str) -> str:
    """Return the first letter of each word in upper case; ``_`` and digits belong to words."""
    return re.sub(r"\w+", lambda word: _upper(word[0][0]) + word[0][1:], text)


def _single(before: str, after: str) -> str:
    return after if len(after) == 1 else before
