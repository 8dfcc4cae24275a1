"""JSONPath templates in Kubernetes' dialect, as kubectl and client-go read them.

A template is text and any number of ``{...}`` actions. ``@`` and ``$`` both mean the value at
hand; a field step skips inputs without the field and fails only when none has it; filters compare
values of the same type alone.
"""

from fairlead.binding.jsonpath.evaluate import JSONPath, print_results
from fairlead.binding.jsonpath.nodes import JSONPathError


__all__ = ["JSONPath", "JSONPathError", "print_results"]
