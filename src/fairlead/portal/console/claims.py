"""Sentences about the objects that a template's permission claims select."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.kubebind import PermissionClaim


KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}
"""Kinds of claimed objects by plural."""


def in_words(claims: Sequence[PermissionClaim]) -> list[str]:
    """Return one sentence for each selector of the claims."""
    return [sentence for claim in claims for sentence in _sentences(claim)]


def _sentences(claim: PermissionClaim) -> list[str]:
    kind, selector = KINDS.get(claim.resource, claim.resource), claim.selector
    found: list[str] = []
    for named in selector.named_resources:
        where = f" of namespace {named.namespace}" if named.namespace else " of any namespace"
        found.append(f"The {kind} {named.name}{where} is copied.")
    for reference in selector.references:
        at = f"that {reference.resource} name in {reference.json_path.name or 'their fields'}"
        found.append(f"Each {kind} {at} is copied.")
    labels = selector.label_selector
    if labels is not None:
        terms = [f"{key}={value}" for key, value in sorted(labels.match_labels.items())]
        terms += [
            f"{one.key} {one.operator} {', '.join(one.values)}".strip()
            for one in labels.match_expressions
        ]
        which = f" with the labels {', '.join(terms)}" if terms else ""
        found.append(f"Each {kind}{which} is copied.")
    return found or [f"No {kind} is copied: the claim selects none."]
