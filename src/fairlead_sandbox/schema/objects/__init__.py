"""Schemas applied to objects: members to drop, defaults to add, faults to report.

``compiled`` turns a schema, once, into functions: ``prune`` drops what it does not describe,
``defaults`` adds what it has, and the rest report what does not fit: keywords of JSON Schema
(``values``, ``scalars``), lists that are sets or maps (``lists``), resources within
resources (``embedded``) and, last, rules in CEL (``rules``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.objects.compiled import CompiledSchema, compile_schema


__all__ = ["CompiledSchema", "compile_schema"]
