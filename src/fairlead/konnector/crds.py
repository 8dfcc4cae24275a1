"""Reads of a consumer's CRD, and comparisons with the provider's schema."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.definitions import crd_status
from fairlead.api.kubebind import (
    ANNOTATION_BOUND_BY,
    APIServiceExportRequest,
    BoundSchemaSpec,
    GroupResource,
)
from fairlead.api.kubebind.conditions import EXPORTS_READY, FIELDS_LOST, get_condition
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.versions import KindVersions, Lossless, crd_versions, lossless


_HERE = "in this cluster"


def established(crd: Object) -> bool:
    """Whether the API server serves the CRD's objects."""
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in (crd.to_dict().get("status") or {}).get("conditions") or []
    )


def names_accepted(crd: Object) -> bool:
    """Whether the API server has not refused a name of the CRD."""
    return not _refused_names(crd)


def _refused_names(crd: Object) -> str:
    """Return the API server's message about names of the CRD that it refuses, "" without one."""
    for condition in crd_status(crd).conditions or []:
        if condition.type == "NamesAccepted" and condition.status == "False":
            return condition.message or condition.reason
    return ""


def name_clashes(crd: Object, others: Iterable[Object]) -> str:
    """Return which name of a CRD another one has taken, "" while all are accepted.

    A name is taken by what an API server has accepted for another CRD of the group. Source:
    k8s.io/apiextensions-apiserver, ``pkg/controller/status``.

    Args:
        crd: the CRD.
        others: the CRDs of its group; it may be one of them.
    """
    refusal = _refused_names(crd)
    if not refusal:
        return ""
    names, accepted = crd.to_dict()["spec"]["names"], crd_status(crd).accepted_names or {}
    clashes = [
        f"{_NAMES[field]} {name} is taken by CustomResourceDefinition {other.meta.name}"
        for other in others
        if other.meta.name != crd.meta.name
        for field in _NAMES
        for name in _listed(names, field)
        if name not in _listed(accepted, field) and name in _taken(other, field)
    ]
    return ", ".join(clashes) or refusal


_NAMES = {
    "plural": "plural",
    "singular": "singular",
    "shortNames": "short name",
    "kind": "kind",
    "listKind": "list kind",
}
"""Fields of the names of a CRD that no other one of its group may have, as words."""
_KINDS = ("kind", "listKind")


def _listed(names: JSON, field: str) -> list[str]:
    value = names.get(field) or []
    return value if isinstance(value, list) else [value]


def _taken(crd: Object, field: str) -> set[str]:
    """Return the names by which a CRD keeps others from a name: kinds and resources are apart."""
    accepted = crd_status(crd).accepted_names or {}
    fields = [name for name in _NAMES if (name in _KINDS) == (field in _KINDS)]
    return {name for field in fields for name in _listed(accepted, field)}


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


def restored(crd: Object, owner: OwnerReference) -> bool:
    """Whether a backup restored the CRD that a binding of this name owned.

    Its binding has another uid since then. Under the former one the garbage collector takes the
    CRD, so that a backup which can be used leaves owners out.
    """
    said = crd.meta.annotations.get(ANNOTATION_BOUND_BY)
    return not crd.meta.owner_references and said == owner.name


def of_binding(crd: Object, owner: OwnerReference) -> JSON:
    """Return the CRD's body with the binding as its owner and its origin."""
    body = crd.to_dict()
    metadata = {**body["metadata"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), ANNOTATION_BOUND_BY: owner.name}
    if not owned(crd, owner):
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    return {**body, "metadata": metadata}


def consumer_versions(crd: Object, agreed: JSON | None = None) -> KindVersions:
    """Return the versions of a CRD in the consumer's cluster, by which its objects are stored.

    ``agreed`` is the body that the CRD is going to get; its objects stay as they are.
    """
    spec = crd.to_dict()["spec"]
    if agreed is None:
        return crd_versions(_HERE, spec, stored_versions(crd))
    return crd_versions(_HERE, agreed["spec"], stored_versions(crd), spec)


def sync_version(
    schema: BoundSchemaSpec, crd: Object | None, agreed: JSON | None = None
) -> Lossless:
    """Return the version in which objects are synchronised: no request in it loses a field.

    Args:
        schema: the provider's versions.
        crd: the consumer's CRD, None before there is one.
        agreed: the body that the CRD is going to get, if another one.
    """
    here = [] if crd is None else [consumer_versions(crd, agreed)]
    return lossless(schema.kind_versions(), *here)


def left_behind(request: APIServiceExportRequest | None) -> str:
    """Return why the provider's copies would lose fields by requests in any version bound here.

    The provider alone knows it where its CRD has changed and BoundSchemas do not follow it.
    """
    if request is None or request.status.phase != "Succeeded":
        return ""
    condition = get_condition(request.status.conditions, EXPORTS_READY)
    return condition.message if condition is not None and condition.reason == FIELDS_LOST else ""


def loses(schema: BoundSchemaSpec, crd: Object, agreed: JSON, version: str) -> bool:
    """Whether requests in a version will take fields from objects, once the CRD is as wanted."""
    clusters = (schema.kind_versions(), consumer_versions(crd, agreed))
    return any(True for one in clusters for _ in one.losses(version))


def stored_versions(crd: Object) -> list[str]:
    """Return the versions in which objects may be stored; a CRD must keep each of them."""
    return crd_status(crd).stored_versions or []


def with_versions_of(body: JSON, crd: Object) -> tuple[JSON, list[str]]:
    """Return a CRD's body with versions that it lacks and objects are stored in, and their names.

    They are not served. Without them the API server refuses the body for ever, and the stored
    objects could not be read.
    """
    versions: list[JSON] = body["spec"]["versions"]
    names = {one["name"] for one in versions}
    gone = [name for name in stored_versions(crd) if name not in names]
    old: dict[str, JSON] = {one["name"]: one for one in crd.to_dict()["spec"]["versions"]}
    unserved = [{**old[name], "served": False, "storage": False} for name in gone if name in old]
    spec = {**body["spec"], "versions": [*versions, *unserved]}
    return {**body, "spec": spec}, [one["name"] for one in unserved]


def unselectable(body: JSON, stored: Object) -> list[str]:
    """Return the versions of a wanted CRD whose selectable fields the API server left out.

    Kubernetes below 1.31 does not have them by default (KEP-4358: alpha in 1.30, beta in 1.31).
    """
    fields = {
        version["name"]
        for version in stored.to_dict()["spec"]["versions"]
        if version.get("selectableFields")
    }
    return [
        version["name"]
        for version in body["spec"]["versions"]
        if version.get("selectableFields") and version["name"] not in fields
    ]


_OPEN: JSON = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def is_open(crd: Object) -> bool:
    """Whether a CRD neither converts by a webhook nor refuses or drops any field."""
    spec = crd.to_dict()["spec"]
    converted = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    return not converted and all(one.get("schema") == _OPEN for one in spec["versions"])


def opened(crd: Object) -> JSON:
    """Return the body of a CRD that neither converts by a webhook nor refuses or drops any field.

    Read in another version than the stored one, an object then has the fields of the stored one.
    """
    body = crd.to_dict()
    # A selectable field has to be one of the schema.
    versions = [
        {
            **{key: value for key, value in version.items() if key != "selectableFields"},
            "schema": _OPEN,
        }
        for version in body["spec"]["versions"]
    ]
    spec = {**body["spec"], "versions": versions, "conversion": {"strategy": "None"}}
    return {**body, "spec": spec}


def has_status(crd: Object, version: str) -> bool:
    """Whether a version has a status subresource."""
    versions: list[JSON] = crd.to_dict()["spec"]["versions"]
    return any(
        served["name"] == version and "status" in (served.get("subresources") or {})
        for served in versions
    )
