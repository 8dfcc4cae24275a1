"""More objects than a controller works on at a time: it comes back for the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.sandbox.api import CONFIGMAPS, CRDS, WIDGETS, Api, configmap, crd, widget

from fairlead.api.meta import JSON
from fairlead_sandbox import Sandbox
from fairlead_sandbox.controllers.reactor import MANY


COUNT = 2 * MANY + 10
NAMESPACE = "/api/v1/namespaces/many"


async def gone(api: Api, path: str) -> None:
    async with asyncio.timeout(60):
        while (await api.get(path)).code != 404:  # noqa: ASYNC110 - the server changes
            await asyncio.sleep(0.02)


async def test_a_full_namespace_goes(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "many"}})
    for index in range(COUNT):
        await api.post(f"{NAMESPACE}/configmaps", configmap(f"c{index}"))
    await api.delete(NAMESPACE)
    await gone(api, NAMESPACE)
    assert (await api.get(f"{NAMESPACE}/configmaps")).body["items"] == []


async def test_a_crd_goes_with_all_its_objects(sandbox: Sandbox, api: Api) -> None:
    await api.post(CRDS, crd())
    for index in range(COUNT):
        await api.post(WIDGETS, widget(f"w{index}"))
    await api.delete(f"{CRDS}/widgets.example.org")
    await gone(api, f"{CRDS}/widgets.example.org")
    assert not sandbox.core.store.collection("widgets.example.org").count()


@pytest.fixture
async def family(api: Api) -> str:
    return await _family(api)


async def _family(api: Api) -> str:
    """An owner; its many dependents are the other ConfigMaps."""
    owner = (await api.post(CONFIGMAPS, configmap("owner"))).body
    reference: JSON = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    for index in range(COUNT):
        await api.post(CONFIGMAPS, configmap(f"c{index}", ownerReferences=[reference]))
    return f"{CONFIGMAPS}/owner"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_many_dependents_go_with_their_owner(api: Api, family: str, policy: str) -> None:
    await api.send("DELETE", family, {"propagationPolicy": policy})
    await gone(api, family)
    for index in range(COUNT):
        await gone(api, f"{CONFIGMAPS}/c{index}")


async def test_many_orphans_stay(api: Api, family: str) -> None:
    await api.send("DELETE", family, {"propagationPolicy": "Orphan"})
    await gone(api, family)
    items = (await api.get(CONFIGMAPS)).body["items"]
    assert len(items) == COUNT
    assert not any("ownerReferences" in item["metadata"] for item in items)


async def test_many_orphans_are_written_once(tmp_path: Path) -> None:
    """Also where what was written is published later, once it is on the disk."""
    async with (
        Sandbox(tls=False, rbac=False, data=tmp_path) as sandbox,
        Api(sandbox.url) as api,
    ):
        owner = await _family(api)
        before = sandbox.core.store.rv
        await api.send("DELETE", owner, {"propagationPolicy": "Orphan"})
        await gone(api, owner)
        # The owner is marked, then loses its finalizer and goes.
        assert sandbox.core.store.rv - before <= COUNT + 3
