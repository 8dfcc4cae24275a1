"""Kubernetes' dialect of JSONPath.

A template is text and any number of ``{...}`` actions. ``@`` and ``$`` both mean the value at
hand; a field step skips inputs without the field and fails only when none has it; filters compare
values of the same type alone (https://kubernetes.io/docs/reference/kubectl/jsonpath/). A template
may be a tenant's: it has bounds, and an error names the one that it went beyond.
"""

from fairlead.api.jsonpath.nodes import Budget, BudgetExhausted, JSONPathError
from fairlead.api.jsonpath.search import JSONPath, print_results


__all__ = ["Budget", "BudgetExhausted", "JSONPath", "JSONPathError", "print_results"]
