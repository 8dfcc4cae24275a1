"""What every contract test stands on: a client, a namespace of its own, and a CRD."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable

import pytest
from tests.contract.support import WIDGETS, eventually, widget_crd
from tests.support.planes import ControlPlane

from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SERVICEACCOUNTS,
)
from fairlead.client import AlreadyExists, Client, NotFound, parse_kubeconfig


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A fresh namespace, deleted without waiting for it."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    # What a control plane makes in a new namespace by itself would come between a test's events.
    await eventually(lambda: _exists(client.get(SERVICEACCOUNTS, "default", name)))
    await eventually(lambda: _exists(client.get(CONFIGMAPS, "kube-root-ca.crt", name)))
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def widgets(client: Client) -> None:
    """The CRD ``widgets``, established and served."""
    try:
        await client.create(CUSTOMRESOURCEDEFINITIONS, widget_crd())
    except AlreadyExists:
        return
    await eventually(lambda: _exists(client.list(WIDGETS, "default")))


async def _exists(request: Awaitable[object]) -> bool:
    try:
        await request
    except NotFound:
        return False
    return True
