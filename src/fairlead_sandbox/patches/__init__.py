"""Patches of a document: JSON patch, strategic merge patch, and server-side apply.

:func:`fairlead.api.patch.apply_merge_patch` applies merge patches. ``apply`` keeps the owners of
fields, which every write records in ``metadata.managedFields``. All functions are pure.
"""

from __future__ import annotations

from fairlead_sandbox.patches.errors import PatchError
from fairlead_sandbox.patches.jsonpatch import json_patch
from fairlead_sandbox.patches.strategic import strategic_merge_patch


__all__ = ["PatchError", "json_patch", "strategic_merge_patch"]
