"""Trees of CEL to functions, in one walk.

Each expression becomes a part (``parts``): its type, what it may cost at worst, and a function
that evaluates it and counts what it does cost. From the top: ``expressions`` has the walk and
the operators, ``access`` what looks something up, ``macros`` the loops, ``calls`` the functions,
``literals`` what can be seen to fail before it is run, ``compiler`` the state of the walk.
"""

from __future__ import annotations

from fairlead_sandbox.schema.cel.compiling.expressions import compiler
from fairlead_sandbox.schema.cel.compiling.literals import InstantiationError
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Run, Variable, unpaid


__all__ = ["Frame", "InstantiationError", "Run", "Variable", "compiler", "unpaid"]
