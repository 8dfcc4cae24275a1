"""Checks of a CustomResourceDefinition before it is served.

A CRD comes in with its names completed; out goes the list of its faults: in its names and scope
(``definition``), in each version (``versions``), in the structure of its schema (``structural``,
``lists``), in its defaults, and in its rules with what they may cost (``rules``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.crds.definition import complete_crd, validate_crd


__all__ = ["complete_crd", "validate_crd"]
