"""Admission policies of a real kube-apiserver, as the owner of a cluster writes them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.support.waiting import eventually

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client


_GROUP = "admissionregistration.k8s.io"
_VALIDATING = Resource(
    _GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
_MUTATING = Resource(
    _GROUP, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False
)


def rules(*resources: str, group: str = "") -> list[JSON]:
    """All writes of these kinds."""
    return [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": [*resources],
        }
    ]


def refusing(expression: str, message: str) -> JSON:
    """The part of a policy that refuses objects for which an expression is false."""
    return {"validations": [{"expression": expression, "message": message}]}


def setting(expression: str) -> JSON:
    """The part of a policy that applies a configuration, in CEL, to each object."""
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    return {"mutations": [change], "reinvocationPolicy": "Never"}


@asynccontextmanager
async def policy(
    client: Client,
    namespace: str,
    matched: list[JSON],
    body: JSON,
    in_force: Callable[[], Awaitable[bool]],
) -> AsyncIterator[str]:
    """A policy of one namespace, in force while the block runs; its name.

    A server hears of a policy a moment after it was written: ``in_force`` says whether it has.
    """
    kind = _VALIDATING if "validations" in body else _MUTATING
    bindings = Resource(
        _GROUP, "v1", kind.plural.replace("policies", "policybindings"), f"{kind.kind}Binding",
        namespaced=False,
    )  # fmt: skip
    name = f"policy-{uuid.uuid4().hex[:8]}"
    constraints: JSON = {"resourceRules": matched}
    spec: JSON = {"matchConstraints": constraints, "failurePolicy": "Fail", **body}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding: JSON = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    if kind is _VALIDATING:
        binding["validationActions"] = ["Deny"]
    await client.create(kind, {"metadata": {"name": name}, "spec": spec})
    try:
        await client.create(bindings, {"metadata": {"name": name}, "spec": binding})
        try:
            await eventually(in_force)
            yield name
        finally:
            await client.delete(bindings, name)
    finally:
        await client.delete(kind, name)
