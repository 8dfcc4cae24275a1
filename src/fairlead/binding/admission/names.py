"""Names and paths of the webhook server, and the webhooks by which API servers call it.

The paths are those of Service Binding Operator 1.4, except the projector's, which it lacks.
"""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.binding import bounds
from fairlead.binding.options import PROJECTOR, AdmissionOptions


NAME = "fairlead-binding"
SERVICE = f"{NAME}-webhooks"
SECRET = f"{NAME}-webhook-certificate"
KEY_SECRET = f"{NAME}-requester-key"
PORT = 9443

REQUESTER_PATH = "/mutate-servicebinding"
COREOS_PATH = "/validate-binding-operators-coreos-com-v1alpha1-servicebinding"
SPEC_PATH = "/validate-servicebinding-io-v1beta1-servicebinding"
PROJECTOR_PATH = "/project-workload"
MAPPING_PATH = "/validate-servicebinding-io-v1beta1-clusterworkloadresourcemapping"

CALLED = {
    REQUESTER_PATH: "requester",
    SPEC_PATH: "bindings",
    COREOS_PATH: "coreos-bindings",
    MAPPING_PATH: "mappings",
    PROJECTOR_PATH: PROJECTOR,
}
"""Names of the webhooks in configurations and metrics, by path."""
_DOMAIN = "admission.servicebinding.io"
_SPEC, _COREOS = "servicebinding.io", "binding.operators.coreos.com"


def host(namespace: str) -> str:
    """Return the DNS name by which API servers call the server."""
    return f"{SERVICE}.{namespace}.svc"


def mutating(options: AdmissionOptions, url: str = "") -> list[JSON]:
    """Return the webhooks of the MutatingWebhookConfiguration.

    Args:
        options: of the webhook server.
        url: of a server that API servers do not call through its Service; else "".
    """
    webhooks = [_webhook("requester", REQUESTER_PATH, [_SPEC, _COREOS], options, url)]
    # The proof has to cover changes that other webhooks make to the spec.
    webhooks[0]["reinvocationPolicy"] = "IfNeeded"
    return [*webhooks, _projector(options, url)] if options.projected else webhooks


def _projector(options: AdmissionOptions, url: str) -> JSON:
    projected = options.projected
    hook = _webhook(PROJECTOR, PROJECTOR_PATH, [], options, url)
    hook["failurePolicy"] = "Fail" if options.fail_closed else "Ignore"
    hook["rules"] = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": sorted({plural for plural, other in projected if other == group}),
            "scope": "Namespaced",
        }
        for group in sorted({group for _, group in projected})
    ]
    # Containers that other webhooks add have to be bound too.
    hook["reinvocationPolicy"] = "IfNeeded"
    return hook


def validating(options: AdmissionOptions, url: str = "") -> list[JSON]:
    """Return the webhooks of the ValidatingWebhookConfiguration, as :func:`mutating` does."""
    mapping = "clusterworkloadresourcemappings"
    webhooks = [
        _webhook("bindings", SPEC_PATH, [_SPEC], options, url),
        _webhook("bindings", COREOS_PATH, [_COREOS], options, url),
        _webhook("mappings", MAPPING_PATH, [_SPEC], options, url, mapping),
    ]
    # API servers refuse a configuration in which two webhooks have one name.
    webhooks[1]["name"] = f"coreos-{webhooks[1]['name']}"
    return webhooks


def _webhook(
    name: str,
    path: str,
    groups: list[str],
    options: AdmissionOptions,
    url: str,
    plural: str = "servicebindings",
) -> JSON:
    # Servers before 1.21 do not set this label; serving exempts the namespaces itself for them.
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", options.namespace],
    }
    rule = {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
        "scope": "*",
    }
    service = {"name": SERVICE, "namespace": options.namespace, "path": path, "port": 443}
    return {
        "name": f"{name}.{_DOMAIN}",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {"url": url + path} if url else {"service": service},
        "failurePolicy": "Ignore" if name in options.fail_open else "Fail",
        "namespaceSelector": {"matchExpressions": [excluded]},
        "rules": [rule],
        # Reviews write nothing, so that servers may ask for them on dry runs, too.
        "sideEffects": "None",
        "timeoutSeconds": bounds.WEBHOOK_SECONDS,
    }
