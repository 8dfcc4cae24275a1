"""Bounds of one APIServiceExportRequest.

The provider works on a whole request in one pass: an unbounded request would hold up all others.
kube-bind itself has no such bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.api.kubebind.fields import PermissionClaim, Selector
from fairlead.api.kubebind.types import MOST_NAMESPACES, MOST_RESOURCES, ExportRequestSpec


TOO_MANY_NAMESPACES = "TooManyNamespaces"
TOO_MANY_RESOURCES = "TooManyResources"
DUPLICATE_RESOURCE = "DuplicateResource"
LARGE_PERMISSION_CLAIM = "LargePermissionClaim"

MOST_NAMED = 256
"""Largest number of objects that a claim names, and of values in an expression of its selector."""
MOST_TERMS = 64
"""Largest numbers of labels, of expressions and of references of a claim, each."""
_LONG = 128
"""Length to which a message cuts a name, in characters: a consumer chooses its names."""


class ExtentError(NamedTuple):
    """Why a request can never be granted: the reason of a condition, and its message."""

    reason: str
    message: str


def check_extent(spec: ExportRequestSpec) -> ExtentError | None:
    """Return the error if a request's resources or namespaces are too many; else None."""
    if len(spec.resources) > MOST_RESOURCES:
        return ExtentError(
            TOO_MANY_RESOURCES,
            f"spec.resources names {len(spec.resources)} resources, and one request can have "
            f"{MOST_RESOURCES}: make several requests",
        )
    names: set[str] = set()
    for index, resource in enumerate(spec.resources):
        if resource.name in names:
            return ExtentError(
                DUPLICATE_RESOURCE,
                f"spec.resources[{index}]: {resource.name[:_LONG]} is named twice; join all "
                "versions in one entry",
            )
        names.add(resource.name)
    if len(spec.namespaces) > MOST_NAMESPACES:
        return ExtentError(
            TOO_MANY_NAMESPACES,
            f"spec.namespaces names {len(spec.namespaces)} namespaces, and one request can have "
            f"{MOST_NAMESPACES} of them made beforehand: leave the others out, each is made when "
            "an object needs it",
        )
    return None


def check_selectors(claims: Iterable[PermissionClaim]) -> ExtentError | None:
    """Return the error of the first claim whose selector is too large; None if none is."""
    for index, claim in enumerate(claims):
        for field, number, most in _sizes(claim.selector):
            if number > most:
                return ExtentError(
                    LARGE_PERMISSION_CLAIM,
                    f"spec.permissionClaims[{index}]: {claim.name[:_LONG]}: {field} has {number} "
                    f"items, and can have {most}: select by a label instead",
                )
    return None


def _sizes(selector: Selector) -> Iterable[tuple[str, int, int]]:
    """Yield the lists of a selector: name, length and limit."""
    yield "namedResources", len(selector.named_resources), MOST_NAMED
    yield "references", len(selector.references), MOST_TERMS
    terms = selector.label_selector
    if terms is None:
        return
    yield "matchLabels", len(terms.match_labels), MOST_TERMS
    yield "matchExpressions", len(terms.match_expressions), MOST_TERMS
    for expression in terms.match_expressions:
        yield "values", len(expression.values), MOST_NAMED
