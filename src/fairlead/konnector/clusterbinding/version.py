"""The konnector's version as the provider wants to read it."""

from __future__ import annotations

import re


UNKNOWN = "unknown"
_MARK = "+kube-bind-"
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)(?:$|[-+.]|(?:a|b|rc)\d)")


def konnector_version(raw: str) -> str | None:
    """``vX.Y.Z`` from a build's version; None when there is none in it.

    ``v1.2.3+kube-bind-v0.6.0`` is the version after the mark (ClusterBinding's
    ``status.konnectorVersion``); what follows the patch number is left out.
    """
    marked = raw.partition(_MARK)[2] or raw
    found = _VERSION.match(marked)
    return f"v{found.group(1)}" if found else None
