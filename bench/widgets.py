"""Widgets: a CRD with a schema, and its objects as clients write them."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
FIELDS = 24
"""Members of a spec beside those that have a meaning."""

_TEXT: JSON = {"type": "string", "maxLength": 64, "pattern": "^[a-z0-9-]+$"}


def crd() -> JSON:
    """Make a CRD with patterns, an enum, bounds, a list map and a status, as many have."""
    condition: JSON = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string"},
            "message": {"type": "string", "maxLength": 1024},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    }
    conditions: JSON = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    spec: JSON = {
        "type": "object",
        "required": ["mode", "size"],
        "properties": {
            "mode": {"type": "string", "enum": ["fast", "safe"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "retries": {"type": "integer", "default": 3},
            **{f"field{index}": _TEXT for index in range(FIELDS)},
        },
    }
    schema: JSON = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"conditions": conditions}},
        },
    }
    version: JSON = {
        "name": WIDGETS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS.group_resource},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {
                "plural": WIDGETS.plural,
                "singular": "widget",
                "kind": WIDGETS.kind,
                "listKind": f"{WIDGETS.kind}List",
            },
            "versions": [version],
        },
    }


def widget(name: str, namespace: str, number: int) -> JSON:
    """Make an object of about 1.5 KB as a client writes it."""
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": f"app-{number % 50}", "team": f"team-{number % 7}"},
            "annotations": {"example.org/description": f"widget number {number}"},
        },
        "spec": {
            "mode": "fast",
            "size": 1,
            **{f"field{index}": f"{number}-{index}".ljust(39, "v") for index in range(FIELDS)},
        },
    }
