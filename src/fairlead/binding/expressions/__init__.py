"""The languages that users of bindings write in, read as the original operators read them.

``jsonpath`` finds values: templates in Kubernetes' dialect, in which a template is text and any
number of ``{...}`` actions. ``@`` and ``$`` both mean the value at hand; a field step skips inputs
without the field and fails only when none has it; filters compare values of the same type alone
(https://kubernetes.io/docs/reference/kubectl/jsonpath/). ``fixedpath`` is the part of it that has
field steps alone, along which values can be written. ``gotemplate`` renders entries and names
(https://pkg.go.dev/text/template), and ``gotext`` prints values as Go does
(https://pkg.go.dev/fmt). What tenants write has to end: templates and paths have bounds, and an
error names the one that they went beyond.
"""

from fairlead.binding.expressions.jsonpath import JSONPath, print_results
from fairlead.binding.expressions.nodes import Budget, BudgetExhausted, JSONPathError


__all__ = ["Budget", "BudgetExhausted", "JSONPath", "JSONPathError", "print_results"]
