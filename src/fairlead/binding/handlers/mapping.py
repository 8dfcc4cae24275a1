"""Makes the extra items that the binding itself defines."""

from __future__ import annotations

from fairlead.binding.contexts.protocol import Context
from fairlead.binding.gotemplate import Template, TemplateError
from fairlead.binding.items import Item


def apply_mappings(context: Context) -> None:
    """Render each mapping with services by id and items by the names they have so far."""
    if not context.mappings:
        return
    data = context.template_data()
    rendered: list[Item] = []
    for name, text in context.mappings:
        try:
            rendered.append(Item(name, Template(text, name="mappings").render(data)))
        except TemplateError as error:
            context.flow.fail(str(error))
            context.flow.stop_processing()
            return
    for item in rendered:
        context.add_item(item)
