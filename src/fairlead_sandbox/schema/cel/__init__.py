"""CEL, the language of ``x-kubernetes-validations``, with Kubernetes' library and its costs.

A rule comes in as text with the declaration that a schema makes of ``self``;
:func:`compile_rule` gives a program, or says what is wrong with the rule in Kubernetes' words.
``syntax`` reads the text; ``types``, ``values`` and ``times`` are what rules speak of,
``declarations`` how schemas come to it; ``compiling`` turns the tree to functions; ``library`` has
what can be called; ``costs`` is what all of it costs: at worst, to be limited when a CRD is
written, and in fact, to be limited for each object.
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
