"""Go's text/template, whole, for JSON values (https://pkg.go.dev/text/template).

``template`` renders what ``reading`` makes of a text; ``evaluating`` knows what expressions give,
``calling`` what can be called. Errors have Go's words, except that they never
show a value: it may be a password. A template ends, for it is a tenant's: ``bounds`` says when.
"""

from fairlead.binding.expressions.gotemplate.calling.calls import JSON, Callee, of_string
from fairlead.binding.expressions.gotemplate.nodes import TemplateError
from fairlead.binding.expressions.gotemplate.template import Template


__all__ = ["JSON", "Callee", "Template", "TemplateError", "of_string"]
