"""Kubernetes' dialect of JSONPath.

A template is text and any number of ``{...}`` actions. ``@`` and ``$`` both mean the current
value; a field step skips inputs without the field and fails only when none has it; filters compare
values of the same type alone (https://kubernetes.io/docs/reference/kubectl/jsonpath/). Templates
of tenants are evaluated too: size, nesting and visited values are bounded, and an error names the
bound.
"""

from fairlead.api.jsonpath.nodes import Budget, BudgetExhausted, JSONPathError
from fairlead.api.jsonpath.search import JSONPath, print_results


__all__ = ["Budget", "BudgetExhausted", "JSONPath", "JSONPathError", "print_results"]
