"""The kinds that a cluster has before anybody defines one."""

from __future__ import annotations

from fairlead.sandbox.builtin.resources import builtin_types
from fairlead.sandbox.builtin.services import give_addresses


__all__ = ["builtin_types", "give_addresses"]
