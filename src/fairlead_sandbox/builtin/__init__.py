"""The built-in kinds: those that a cluster has before the first CRD.

``resources`` is the table: each built-in resource with its strategy (what its objects default to
and what is refused: ``strategies``, ``workloads``, ``services``, ``events``, ``rbac``), its names
and the columns that kubectl prints. The fields of each kind are in ``kinds/types.txt``.
"""

from __future__ import annotations

from fairlead_sandbox.builtin.resources import builtin_types
from fairlead_sandbox.builtin.services import give_addresses


__all__ = ["builtin_types", "give_addresses"]
