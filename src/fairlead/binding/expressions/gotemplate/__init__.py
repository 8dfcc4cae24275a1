"""Go's complete text/template for JSON values (https://pkg.go.dev/text/template).

``reading`` parses a text, ``template`` renders it, ``evaluating`` evaluates expressions, and
``calling`` has the functions. Errors have Go's texts, but never show a value, which may be a
password. Templates are a tenant's, so ``bounds`` limits them.
"""

from fairlead.binding.expressions.gotemplate.bounds import SOURCE, BoundError, RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.calls import JSON, Callee, of_string
from fairlead.binding.expressions.gotemplate.nodes import TemplateError
from fairlead.binding.expressions.gotemplate.template import Template


__all__ = [
    "JSON",
    "SOURCE",
    "BoundError",
    "Callee",
    "RenderingBudget",
    "Template",
    "TemplateError",
    "of_string",
]
