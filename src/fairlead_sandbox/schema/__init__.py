"""Structural schemas of custom resources: validation of CRDs and of their objects.

A CRD is validated when it is written (``crds``). Its schema is then compiled once, to functions
that prune, default and validate each object (``objects``), with patterns in Go's syntax
(``patterns``), rules in CEL (``cel``) and a limit of the work for one object (``effort``).
Errors come out as field errors with Kubernetes' messages (``errors``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.crds import complete_crd, validate_crd
from fairlead_sandbox.schema.errors import FieldError, summarize
from fairlead_sandbox.schema.objects import CompiledSchema, compile_schema


__all__ = [
    "CompiledSchema",
    "FieldError",
    "compile_schema",
    "complete_crd",
    "summarize",
    "validate_crd",
]
