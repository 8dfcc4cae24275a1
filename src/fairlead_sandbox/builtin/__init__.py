"""The built-in kinds, which a cluster serves before its first CRD.

``resources`` is the table: each built-in resource with its names, the columns that kubectl prints,
and the strategy that defaults and validates its objects (``strategies``, ``workloads``,
``services``, ``events``, ``rbac``). The fields of each kind are in ``kinds/types.txt``.
"""

from __future__ import annotations

from fairlead_sandbox.builtin.resources import builtin_types
from fairlead_sandbox.builtin.services import give_addresses


__all__ = ["builtin_types", "give_addresses"]
