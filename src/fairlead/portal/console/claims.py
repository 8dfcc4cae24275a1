"""Sentences about the objects that claims select, and the rights that a binding grants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.api.kubebind import GroupResource, PermissionClaim, TemplateSpec, crd_name
from fairlead.portal.handshake.catalog import KINDS


def in_words(claims: Sequence[PermissionClaim]) -> list[str]:
    """Return one sentence for each selector of the claims."""
    return [sentence for claim in claims for sentence in _sentences(claim)]


def _sentences(claim: PermissionClaim) -> list[str]:
    kind, selector = KINDS.get(claim.resource, claim.resource), claim.selector
    sentences: list[str] = []
    for named in selector.named_resources:
        where = f" of namespace {named.namespace}" if named.namespace else " of any namespace"
        sentences.append(f"The {kind} {named.name}{where} is copied.")
    for reference in selector.references:
        at = f"that {reference.resource} name in {reference.json_path.name or 'their fields'}"
        sentences.append(f"Each {kind} {at} is copied.")
    labels = selector.label_selector
    if labels is not None:
        terms = [f"{key}={value}" for key, value in sorted(labels.match_labels.items())]
        terms += [
            f"{expression.key} {expression.operator} {', '.join(expression.values)}".strip()
            for expression in labels.match_expressions
        ]
        which = f" with the labels {', '.join(terms)}" if terms else ""
        sentences.append(f"Each {kind}{which} is copied.")
    return sentences or [f"No {kind} is copied: the claim selects none."]


def at_provider(spec: TemplateSpec, cluster_scoped: Iterable[str]) -> list[str]:
    """Return sentences about the rights of the consumer's ServiceAccount at the provider.

    Args:
        spec: the template's spec.
        cluster_scoped: names of CRDs that are known to be cluster-scoped.
    """
    everywhere = set(cluster_scoped)
    sentences = [
        "The konnector gets a namespace there, and in it a login: the ServiceAccount kube-binder.",
    ]
    for name in _names(spec.resources):
        if name in everywhere:
            sentences.append(
                f"It may read, write and delete all {name}, also those of others: they are"
                " cluster-scoped."
            )
        else:
            sentences.append(
                f"It may read, write and delete {name} in the namespaces that the provider creates"
                " for yours."
            )
    sentences += [
        f"It may read, write and delete {kind} in these namespaces, and copies only those named"
        " above."
        for kind in _claimed(spec)
    ]
    sentences.append(
        "It has no other rights there; the provider's team can revoke it at any time."
    )
    return sentences


def at_consumer(spec: TemplateSpec) -> list[str]:
    """Return sentences about the rights of the konnector in the consumer's cluster."""
    names = ", ".join(_names(spec.resources))
    sentences = [
        f"The konnector creates the CustomResourceDefinitions {names}, and keeps them up to date.",
        f"It may read and change {names} in all namespaces; it writes their status and metadata.",
    ]
    sentences += [
        f"It may read, write and delete {kind} in all namespaces: Kubernetes cannot narrow that."
        " It copies only those named above."
        for kind in _claimed(spec)
    ]
    sentences.append("It keeps its login at the provider in a Secret of the namespace kube-bind.")
    return sentences


def _names(resources: Iterable[GroupResource]) -> list[str]:
    return list(dict.fromkeys(crd_name(one.resource, one.group) for one in resources))


def _claimed(spec: TemplateSpec) -> list[str]:
    names = (one.resource for one in spec.permission_claims)
    return list(dict.fromkeys(f"{KINDS[one]}s" if one in KINDS else one for one in names))
