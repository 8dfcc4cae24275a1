"""What the webhook server is called, and the configurations that name it.

The paths are those of Service Binding Operator 1.4.
"""

from __future__ import annotations

from collections.abc import Collection

from fairlead.api.meta import JSON


NAME = "fairlead-binding"
SERVICE = f"{NAME}-webhooks"
SECRET = f"{NAME}-webhook-certificate"
PORT = 9443

REQUESTER_PATH = "/mutate-servicebinding"
COREOS_PATH = "/validate-binding-operators-coreos-com-v1alpha1-servicebinding"
SPEC_PATH = "/validate-servicebinding-io-v1beta1-servicebinding"
MAPPING_PATH = "/validate-servicebinding-io-v1beta1-clusterworkloadresourcemapping"

WEBHOOKS = ("requester", "bindings", "mappings")
"""What may be asked to fail open, each by itself."""
_DOMAIN = "admission.servicebinding.io"
_SPEC, _COREOS = "servicebinding.io", "binding.operators.coreos.com"
_SECONDS = 5
"""How long an API server waits for an answer, which takes us a few milliseconds."""


def host(namespace: str) -> str:
    """The name by which API servers call the server."""
    return f"{SERVICE}.{namespace}.svc"


def mutating(namespace: str, fail_open: Collection[str]) -> list[JSON]:
    """The webhooks of the MutatingWebhookConfiguration."""
    return [
        _webhook("requester", REQUESTER_PATH, [_SPEC, _COREOS], namespace, fail_open),
    ]


def validating(namespace: str, fail_open: Collection[str]) -> list[JSON]:
    """The webhooks of the ValidatingWebhookConfiguration."""
    mapping = "clusterworkloadresourcemappings"
    found = [
        _webhook("bindings", SPEC_PATH, [_SPEC], namespace, fail_open),
        _webhook("bindings", COREOS_PATH, [_COREOS], namespace, fail_open),
        _webhook("mappings", MAPPING_PATH, [_SPEC], namespace, fail_open, mapping),
    ]
    found[1]["name"] = f"coreos-{found[1]['name']}"
    return found


def _webhook(
    name: str,
    path: str,
    groups: list[str],
    namespace: str,
    fail_open: Collection[str],
    plural: str = "servicebindings",
) -> JSON:
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", namespace],
    }
    rule = {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
    }
    service = {"name": SERVICE, "namespace": namespace, "path": path, "port": 443}
    return {
        "name": f"{name}.{_DOMAIN}",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Ignore" if name in fail_open else "Fail",
        "namespaceSelector": {"matchExpressions": [excluded]},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
    }
