"""Objects of kube-bind for tests, as a server would return them."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON, Object, object_from_dict


NS = "kube-bind-abc"
NOW = "2026-01-02T00:00:00Z"
OLD = "2026-01-01T00:00:00Z"


def kube(
    kind: str,
    name: str = "widgets",
    namespace: str = NS,
    *,
    spec: JSON | None = None,
    status: JSON | None = None,
    **metadata: Any,
) -> Object:
    """An object of ``kube-bind.io/v1alpha2``."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7"}
    body: JSON = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": kind,
        "metadata": meta | metadata,
        "spec": spec or {},
    }
    if status is not None:
        body["status"] = status
    return object_from_dict(body)


def resource(plural: str = "widgets", **fields: Any) -> JSON:
    return {"group": "example.org", "resource": plural, "versions": ["v1"], **fields}


def claim(plural: str = "secrets", **selector: Any) -> JSON:
    chosen = selector or {"namedResources": [{"name": "x"}]}
    return {"group": "", "resource": plural, "selector": chosen}


def export(**spec: Any) -> Object:
    given = {
        "resources": [resource()],
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
        **spec,
    }
    return kube("APIServiceExport", spec=given)


def crd_spec(plural: str = "widgets", *, scope: str = "Namespaced", **fields: Any) -> JSON:
    return {
        "group": "example.org",
        "names": {"kind": plural.title(), "plural": plural},
        "scope": scope,
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
        **fields,
    }


def crd(plural: str = "widgets", *, scope: str = "Namespaced", **fields: Any) -> Object:
    return object_from_dict(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.example.org",
                "labels": {"kube-bind.io/exported": "true"},
            },
            "spec": crd_spec(plural, scope=scope, **fields),
        }
    )


def bound_schema(
    plural: str = "widgets", *, scope: str = "Namespaced", owner: str = "", **fields: Any
) -> Object:
    metadata: JSON = {}
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "kube-bind.io/v1alpha2",
                "kind": "APIServiceExport",
                "name": owner,
                "uid": f"uid-{owner}",
                "controller": True,
            }
        ]
    spec = {**crd_spec(plural, scope=scope), "informerScope": "Namespaced", **fields}
    return kube("BoundSchema", f"{plural}.example.org", spec=spec, **metadata)


def conditions(body: JSON | None) -> dict[str, JSON]:
    """The conditions of a body, by type."""
    items = (body or {}).get("status", {}).get("conditions", [])
    return {item["type"]: item for item in items}
