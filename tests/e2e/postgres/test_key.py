"""The installation's key: made once, whoever asks first, and never replaced in silence."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator

import pytest
from tests.support.planes import ControlPlane

from fairlead.api.keys import KEY_BYTES
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.postgres.controllers.access.claims import KEY_SECRET, installation_key
from fairlead.postgres.errors import AccessError


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        yield client


@pytest.fixture
async def namespace(admin: Client) -> str:
    name = f"operator-{uuid.uuid4().hex[:8]}"
    await admin.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    return name


async def test_those_who_start_together_have_one_key(admin: Client, namespace: str) -> None:
    keys = await asyncio.gather(*(installation_key(admin, namespace) for _ in range(8)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == KEY_BYTES
    assert await installation_key(admin, namespace) == keys[0]
    made = (await admin.get(SECRETS, KEY_SECRET, namespace)).to_dict()
    assert made["immutable"] is True
    assert base64.b64decode(made["data"]["key"]) == keys[0]


async def test_a_key_that_is_none_is_told_and_stays(admin: Client, namespace: str) -> None:
    spoilt = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEY_SECRET, "namespace": namespace},
        "stringData": {"key": "short"},
    }
    made = await admin.create(SECRETS, spoilt, namespace)
    with pytest.raises(AccessError, match=f"{namespace}/{KEY_SECRET} has 5 bytes") as told:
        await installation_key(admin, namespace)
    assert told.value.reason == "KeyInvalid"
    kept = await admin.get(SECRETS, KEY_SECRET, namespace)
    assert kept.meta.resource_version == made.meta.resource_version
