"""Consumers of a provider in any state, without konnectors: what each of them would have."""

from __future__ import annotations

from typing import Any

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_PRETTY_NAME,
    ANNOTATION_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    API_VERSION,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import now
from fairlead.client import Client


async def customer(
    admin: Client,
    namespace: str,
    *,
    identity: str = "",
    pretty: str = "",
    author: str = "",
    heartbeat: str = "now",
    version: str = "v1.2.3",
    templates: tuple[str, ...] = ("widgets",),
    conditions: tuple[JSON, ...] = (),
    original: bool = False,
) -> None:
    """A consumer with a ClusterBinding; ``heartbeat`` "" is that of none.

    With ``original`` it is kube-bind's own konnector that has told.
    """
    annotations = {ANNOTATION_IDENTITY: identity or f"id-of-{namespace}"}
    if author:
        annotations[ANNOTATION_AUTHOR] = author
    await admin.create(NAMESPACES, _object("v1", "Namespace", namespace, annotations=annotations))
    binding = _object(API_VERSION, "ClusterBinding", "cluster", namespace)
    if pretty:
        binding["metadata"]["annotations"] = {ANNOTATION_CLUSTER_PRETTY_NAME: pretty}
    binding["spec"] = {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Fairlead",
        "serviceProviderSpec": {"templates": [{"name": one} for one in templates]},
    }
    made = await admin.create(CLUSTERBINDINGS, binding)
    status: JSON = {"conditions": list(conditions)}
    if heartbeat:
        beat = now() if heartbeat == "now" else heartbeat
        status |= {"lastHeartbeatTime": beat, "heartbeatInterval": "5m0s"}
        status |= {"konnectorVersion": version}
        status["conditions"] += [] if original else [_in_use(beat)]
    await admin.update(CLUSTERBINDINGS, made.to_dict() | {"status": status}, subresource="status")


async def exported(admin: Client, namespace: str, name: str = "widgets", **spec: Any) -> None:
    """An export of widgets to a consumer."""
    body = _object(API_VERSION, "APIServiceExport", name, namespace)
    body["spec"] = {
        "resources": [{"group": "example.org", "resource": "widgets", "versions": ["v1"]}],
        "informerScope": "Namespaced",
        "isolation": "None",
    } | spec
    await admin.create(APISERVICEEXPORTS, body)


async def housed(admin: Client, namespace: str, name: str) -> None:
    """A provider namespace of a consumer."""
    annotations = {ANNOTATION_SERVICE_NAMESPACE: f"{namespace}/{name}"}
    await admin.create(NAMESPACES, _object("v1", "Namespace", name, annotations=annotations))


def _object(
    version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    annotations: dict[str, str] | None = None,
) -> JSON:
    metadata: JSON = {"name": name, "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _in_use(at: str) -> JSON:
    """What Fairlead's konnector tells, and no other does."""
    return {
        "type": "CredentialsInUse",
        "status": "True",
        "message": "sha256:0",
        "lastTransitionTime": at,
    }
