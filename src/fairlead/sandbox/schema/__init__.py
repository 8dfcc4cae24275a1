"""Structural schemas: pruning, defaulting and validation of custom resources, and of CRDs."""

from __future__ import annotations

from fairlead.sandbox.schema.compiled import CompiledSchema, compile_schema
from fairlead.sandbox.schema.crd import complete_crd, validate_crd
from fairlead.sandbox.schema.errors import FieldError, summarize
from fairlead.sandbox.schema.jsonpath import compile_path


__all__ = [
    "CompiledSchema",
    "FieldError",
    "compile_path",
    "compile_schema",
    "complete_crd",
    "summarize",
    "validate_crd",
]
