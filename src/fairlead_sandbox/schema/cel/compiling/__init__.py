"""Trees of CEL to functions, in one walk.

Each expression becomes a part (``parts``): its type, what it may cost at worst, and a function
that evaluates it and counts what it does cost. ``compiler`` has the walk and the operators,
``access`` what looks something up, ``calls`` the functions, ``macros`` the loops, ``literals``
what can be seen to fail before it is run.
"""

from __future__ import annotations

from fairlead_sandbox.schema.cel.compiling.compiler import Compiler
from fairlead_sandbox.schema.cel.compiling.literals import InstantiationError
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Run, Variable, unpaid


__all__ = ["Compiler", "Frame", "InstantiationError", "Run", "Variable", "unpaid"]
