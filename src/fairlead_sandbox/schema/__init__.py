"""Structural schemas: what custom resources must look like, and what their definitions must.

A CRD is checked when it is written (``crds``). Its schema is then compiled, once, to functions
that prune, complete and check each object (``objects``), with patterns in Go's language
(``patterns``), rules in CEL (``cel``) and a limit to what one object may cost (``effort``). What
is wrong comes out as field errors in Kubernetes' words (``errors``).
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
