"""Compilation of CEL's syntax trees to functions, in one walk.

Each expression becomes a part (``parts``): its type, its worst cost, and a function that evaluates
it and counts its actual cost. ``expressions`` has the walk and the operators, ``access`` fields,
entries and items, ``macros`` the loops, ``calls`` the functions, ``literals`` the checks of
constant arguments, ``compiler`` the state of the walk.
"""

from __future__ import annotations

from fairlead_sandbox.schema.cel.compiling.expressions import compiler
from fairlead_sandbox.schema.cel.compiling.literals import InstantiationError
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Run, Variable, unpaid


__all__ = ["Frame", "InstantiationError", "Run", "Variable", "compiler", "unpaid"]
