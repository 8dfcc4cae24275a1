"""CEL, the language of ``x-kubernetes-validations``, with Kubernetes' library and its costs.

:func:`compile_rule` takes the text of a rule and the declaration of ``self`` from the schema, and
returns a program, or the errors of the rule with Kubernetes' messages.

``syntax`` parses the text. ``types``, ``values`` and ``times`` are the types and values of rules;
``declarations`` derives types from schemas. ``compiling`` turns the syntax tree into functions,
``library`` has the functions that rules call. ``costs`` estimates the worst cost, which limits
the rules of a CRD, and counts the actual cost, which limits the work for each object.
"""

from __future__ import annotations

from fairlead_sandbox.schema.cel.costs import PER_EXPRESSION, PER_OBJECT
from fairlead_sandbox.schema.cel.declarations import Declaration, converter, declare
from fairlead_sandbox.schema.cel.program import Program, compile_rule
from fairlead_sandbox.schema.cel.syntax import CompileError
from fairlead_sandbox.schema.cel.values import CelError, CostError


__all__ = [
    "PER_EXPRESSION",
    "PER_OBJECT",
    "CelError",
    "CompileError",
    "CostError",
    "Declaration",
    "Program",
    "compile_rule",
    "converter",
    "declare",
]
