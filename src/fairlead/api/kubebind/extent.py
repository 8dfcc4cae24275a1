"""How much one APIServiceExportRequest may ask for.

The provider works on all of a request at once, so that one without a bound would be work without
one. kube-bind itself has no bounds.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead.api.kubebind.types import MOST_NAMESPACES, ExportRequestSpec


TOO_MANY_NAMESPACES = "TooManyNamespaces"


class ExtentError(NamedTuple):
    """Why a request can never be granted: the reason of a condition, and its message."""

    reason: str
    message: str


def check_extent(spec: ExportRequestSpec) -> ExtentError | None:
    """How a request asks for too much; None when it does not."""
    if len(spec.namespaces) > MOST_NAMESPACES:
        return ExtentError(
            TOO_MANY_NAMESPACES,
            f"spec.namespaces names {len(spec.namespaces)} namespaces, and one request can have "
            f"{MOST_NAMESPACES} of them made beforehand: leave the others out, each is made when "
            "an object needs it",
        )
    return None
