"""Patches that the API server applies: JSON patch and strategic merge patch."""

from __future__ import annotations

from fairlead.sandbox.patches.errors import PatchError
from fairlead.sandbox.patches.jsonpatch import json_patch
from fairlead.sandbox.patches.strategic import strategic_merge_patch


__all__ = ["PatchError", "json_patch", "strategic_merge_patch"]
