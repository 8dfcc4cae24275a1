"""Decides which of a consumer namespace and its APIServiceNamespace is made or deleted."""

from __future__ import annotations

import re
from typing import Literal

from fairlead.api.kubebind.names import LABEL_OWNER, OWNER_PROVIDER
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.konnector import bounds
from fairlead.konnector.policies.copies import is_orphan, is_system
from fairlead.konnector.policies.holding import Holding


Action = Literal[
    "nothing", "confirm", "delete-service-namespace", "create-namespace", "let-go", "take-up"
]


# Without a bound a provider could fill the consumer's cluster with namespaces.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def reconcile(
    service_namespace: ObjectMeta | None,
    *,
    namespace_found: bool,
    confirmed: bool = False,
    holding: Holding = "",
    created: int = 0,
) -> Action:
    """Decide the action for one name.

    ``created`` is how many of the consumer's namespaces were made on a provider's word.

    A namespace that is terminating still exists. The deletion of an APIServiceNamespace deletes
    all data in its provider namespace. So it is deleted only if the consumer's server has
    ``confirmed`` that the namespace is gone, and never while it has copies of another cluster. If
    these are kept, the annotation of orphans keeps them after the hold, until the namespace
    returns.
    """
    if service_namespace is None or service_namespace.deleting:
        return "nothing"
    is_kept = is_orphan(service_namespace)
    if namespace_found:
        return "take-up" if is_kept and not holding else "nothing"
    if service_namespace.labels.get(LABEL_OWNER) == OWNER_PROVIDER:
        return (
            "create-namespace"
            if created < bounds.NAMESPACES and _may_be_made(service_namespace.name)
            else "nothing"
        )
    if is_kept or holding == "Hold":
        return "nothing"
    if holding == "Keep":
        return "let-go"
    return "delete-service-namespace" if confirmed else "confirm"


def _may_be_made(name: str) -> bool:
    """Whether a provider may request a namespace of this name: not one of the cluster's own."""
    return not is_system(name) and _LABEL.fullmatch(name) is not None


def new_namespace(name: str) -> JSON:
    """Return the body of a consumer namespace that the provider has requested."""
    metadata = {"name": name, "labels": {LABEL_OWNER: OWNER_PROVIDER}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
