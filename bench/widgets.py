"""What the load consists of: a CRD with a schema, its objects, and somebody who may write them."""

from __future__ import annotations

import msgspec

from bench.stream import WIDGETS
from fairlead.api import resource
from fairlead.api.meta import JSON
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import install_crds


NAMESPACE = "bench"
ACCOUNT = "writer"
PATH = WIDGETS.path(NAMESPACE)

_FIELDS = 24
_TEXT: JSON = {"type": "string", "maxLength": 64, "pattern": "^[a-z0-9-]+$"}


def crd() -> JSON:
    """Strings with patterns, an enum, bounds, a list map and a status, as CRDs commonly have."""
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
            **{f"field{index}": _TEXT for index in range(_FIELDS)},
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


def widget(number: int, size: int = 1) -> JSON:
    """An object of about 1.5 KB as a client writes it."""
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {
            "name": f"widget-{number}",
            "namespace": NAMESPACE,
            "labels": {"app": f"app-{number % 50}", "team": f"team-{number % 7}"},
            "annotations": {"example.org/description": f"widget number {number}"},
        },
        "spec": {
            "mode": "fast",
            "size": size,
            **{f"field{index}": f"{number}-{index}".ljust(39, "v") for index in range(_FIELDS)},
        },
    }


async def prepare(admin: ClusterConfig) -> str:
    """Make the CRD, and a ServiceAccount that may do everything with its objects; its token."""
    async with Client(admin) as client:
        await install_crds(client, [crd()])
        metadata = {"name": NAMESPACE}
        await client.create(resource.NAMESPACES, _body(resource.NAMESPACES, metadata))
        metadata = {"name": ACCOUNT, "namespace": NAMESPACE}
        for kind, members in (
            (resource.SERVICEACCOUNTS, {}),
            (resource.ROLES, {"rules": [_rule()]}),
            (resource.ROLEBINDINGS, _binding()),
        ):
            await client.create(kind, _body(kind, metadata) | members, NAMESPACE)
        answer = await client.create(
            resource.SERVICEACCOUNTS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600},
            },
            NAMESPACE,
            name=ACCOUNT,
            subresource="token",
        )
        return str(msgspec.json.decode(answer.raw)["status"]["token"])


def _body(kind: resource.Resource, metadata: JSON) -> JSON:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _rule() -> JSON:
    verbs = ["get", "list", "watch", "create", "update"]
    return {"apiGroups": [WIDGETS.group], "resources": [WIDGETS.plural], "verbs": verbs}


def _binding() -> JSON:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    return {"subjects": [subject], "roleRef": role}
