"""A consumer's and a provider's control plane, and a front door between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.konnector.test_bind import (
    CLAIMS,
    CLUSTER_BINDING,
    RESOURCES,
    anonymous,
    be_konnector,
    export,
)
from tests.support.commands import against
from tests.support.frontdoor import FrontDoor

from fairlead.api.kubebind import CLUSTERBINDINGS, new_binding_response, provider_crds
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


def request(name: str) -> JSON:
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportRequest",
        "metadata": {"name": name},
        "spec": {"resources": RESOURCES, "permissionClaims": CLAIMS},
        "status": {},
    }


class Planes:
    """Both sides, and how commands name the consumer's."""

    def __init__(self, here: Sandbox, there: Sandbox, folder: Path) -> None:
        self.here = here
        self.there = there
        self.options = against(here, folder)
        self.client = Client(parse_kubeconfig(here.kubeconfig()))
        self.provider = Client(parse_kubeconfig(there.kubeconfig()))

    def kubeconfig(self) -> bytes:
        return anonymous(self.there).encode()

    def response(self, name: str) -> JSON:
        return new_binding_response(
            kubeconfig=self.kubeconfig(),
            requests=[request(name)],
            provider_namespace="cluster-abc",
            identity="issuer/ann",
        )


@pytest.fixture
async def planes(tmp_path: Path) -> AsyncIterator[Planes]:
    """Both sides; the provider exports ``db``, and a konnector works here."""
    async with (
        Sandbox(name="consumer", tls=False, rbac=False) as here,
        Sandbox(name="provider", tls=False, rbac=False) as there,
    ):
        made = Planes(here, there, tmp_path)
        async with made.client, made.provider:
            await install_crds(made.provider, provider_crds())
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-abc"}}
            await made.provider.create(NAMESPACES, body)
            await made.provider.create(CLUSTERBINDINGS, CLUSTER_BINDING)
            await export(made.provider, RESOURCES, CLAIMS)
            konnector = asyncio.create_task(be_konnector(made.client))
            yield made
            konnector.cancel()
            await asyncio.wait([konnector])


@pytest.fixture(params=[True, False], ids=["ours", "original"])
async def door(request: pytest.FixtureRequest, planes: Planes) -> AsyncIterator[FrontDoor]:
    async with FrontDoor(ours=request.param) as door:

        def answer(body: dict[str, Any]) -> JSON:
            return planes.response(body["metadata"]["name"])

        door.response = answer
        yield door
