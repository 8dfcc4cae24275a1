"""A consumer namespace and its APIServiceNamespace live and go together."""

from __future__ import annotations

from typing import Literal

from fairlead.api.kubebind.names import LABEL_OWNER, OWNER_PROVIDER
from fairlead.api.meta import JSON, ObjectMeta


Action = Literal["nothing", "confirm", "delete-service-namespace", "create-namespace"]


def reconcile(
    service_namespace: ObjectMeta | None, *, namespace_found: bool, confirmed: bool = False
) -> Action:
    """What to do about one name.

    A namespace that is terminating is still there. With an APIServiceNamespace go all data in
    its provider namespace: so its absence is ``confirmed`` by the server itself before that.
    """
    if service_namespace is None or service_namespace.deleting or namespace_found:
        return "nothing"
    if service_namespace.labels.get(LABEL_OWNER) == OWNER_PROVIDER:
        return "create-namespace"
    return "delete-service-namespace" if confirmed else "confirm"


def new_namespace(name: str) -> JSON:
    """A consumer namespace that the provider asked for."""
    metadata = {"name": name, "labels": {LABEL_OWNER: OWNER_PROVIDER}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
