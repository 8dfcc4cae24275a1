"""A subset of CEL, enough for the validation rules that CRDs commonly carry.

Covered: literals, lists, field selection, indexing, ``has()``, the operators, ``in``, ``?:``, the
macros ``all``, ``exists``, ``exists_one``, ``filter``, ``map``, and the functions of
:mod:`fairlead.sandbox.schema.cel.functions`. All else is refused when the rule is compiled, so
that no rule passes unread. Source: the CEL specification, and "Validation rules" in the CRD
documentation for types, escaping and errors.
"""

from __future__ import annotations

from fairlead.sandbox.schema.cel.compiler import Program, compile_rule
from fairlead.sandbox.schema.cel.errors import CelError, CompileError


__all__ = ["CelError", "CompileError", "Program", "compile_rule"]
