"""Schemas applied to objects: pruning, defaulting and validation.

``compiled`` compiles a schema once to functions. ``prune`` removes unspecified fields,
``defaults`` adds defaults, and the others report errors: against keywords of JSON Schema
(``values``, ``scalars``), in lists that are sets or maps (``lists``), in embedded resources
(``embedded``) and, last, against rules in CEL (``rules``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.objects.compiled import CompiledSchema, compile_schema


__all__ = ["CompiledSchema", "compile_schema"]
