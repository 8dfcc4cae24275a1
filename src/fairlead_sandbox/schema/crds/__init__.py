"""What the API server wants of a CustomResourceDefinition before it serves it.

A CRD comes in with its names completed; out goes the list of what is wrong with it: its names and
scope (``definition``), each version (``versions``), the structure of its schema (``structural``,
``lists``), its defaults and its rules with what they may cost (``rules``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.crds.definition import complete_crd, validate_crd


__all__ = ["complete_crd", "validate_crd"]
