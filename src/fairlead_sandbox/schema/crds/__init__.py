"""Validation of a CustomResourceDefinition before it is served.

The names of the CRD are defaulted before. The result is the list of its errors: in names and scope
(``definition``), in each version (``versions``), in the structure of its schema (``structural``,
``lists``), in defaults, and in CEL rules and their estimated cost (``rules``).
"""

from __future__ import annotations

from fairlead_sandbox.schema.crds.definition import complete_crd, validate_crd


__all__ = ["complete_crd", "validate_crd"]
