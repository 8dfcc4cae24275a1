"""What a consumer's CRD and a provider's schema of it say."""

from __future__ import annotations

from fairlead.api.kubebind import BoundSchemaSpec, GroupResource
from fairlead.api.meta import Object, OwnerReference


def established(crd: Object) -> bool:
    """Whether the API server serves the CRD's objects."""
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in (crd.to_dict().get("status") or {}).get("conditions") or []
    )


def describes(schema: BoundSchemaSpec, item: GroupResource) -> bool:
    """Whether a schema is about the exported resource; a provider must not swap it for another.

    Names are not enough: ``secrets.core`` is both the core group's and that of a group "core".
    """
    return (schema.group, schema.names.plural) == item.group_resource


def owned(crd: Object, owner: OwnerReference) -> bool:
    """Whether this very binding owns the CRD: by name and uid, as kube-bind tests it."""
    return any(
        reference.uid == owner.uid and reference.name == owner.name
        for reference in crd.meta.owner_references
    )
