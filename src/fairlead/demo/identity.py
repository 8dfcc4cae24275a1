"""Runs a program as the ServiceAccount of its manifests, as in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import SERVICEACCOUNTS
from fairlead.client import AlreadyExists, Client, ClusterConfig


TOKEN_SECONDS = 3600
"""Seconds for which tokens of the demo's and the tests' programs are valid."""


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


async def create_all(client: Client, manifests: Sequence[JSON]) -> None:
    """Create the missing objects; Deployments are left out, since nothing would run them."""
    for body in manifests:
        # A sandbox has no controller of Deployments: one would stay without Pods.
        if body["kind"] == "Deployment":
            continue
        resource = await client.discovery.resource_for(body["apiVersion"], body["kind"])
        try:
            await client.create(resource, body, body["metadata"].get("namespace", ""))
        except AlreadyExists:
            continue


async def as_service_account(admin: Client, namespace: str, name: str) -> ClusterConfig:
    """Return the admin's cluster with the credentials of a ServiceAccount.

    Raises:
        ApiError: the ServiceAccount does not exist, or tokens are not allowed.
    """
    request: JSON = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {},
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = await admin.create(
        SERVICEACCOUNTS, request, namespace, name=name, subresource="token"
    )
    return replace(
        admin.config,
        token=answer.decode(_TokenRequest).status.token,
        # A server that gets the administrator's certificate takes its user, and not the token's.
        client_certificate=b"",
        client_key=b"",
        namespace=namespace,
    )
