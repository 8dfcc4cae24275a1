from __future__ import annotations

import pytest
from tests.contract.support import (
    WIDGETS,
    configmap,
    eventually,
    gone,
    owned_by,
    widget,
)

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import Client, Conflict, Invalid, NotFound


async def test_a_finalizer_holds_an_object(client: Client, namespace: str, widgets: None) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.org/hold", "example.org/too"]
    await client.create(WIDGETS, body, namespace)
    await client.delete(WIDGETS, "a", namespace)
    held = await client.get(WIDGETS, "a", namespace)
    assert held.meta.deleting
    assert held.meta.deletion_grace_period_seconds == 0
    assert held.meta.generation == 2
    await client.delete(WIDGETS, "a", namespace)
    assert (await client.get(WIDGETS, "a", namespace)).meta == held.meta
    patch = {"metadata": {"finalizers": ["example.org/hold"]}}
    await client.merge_patch(WIDGETS, "a", namespace, patch)
    await client.merge_patch(WIDGETS, "a", namespace, {"metadata": {"finalizers": []}})
    with pytest.raises(NotFound):
        await client.get(WIDGETS, "a", namespace)


async def test_no_finalizer_is_added_to_what_is_going(client: Client, namespace: str) -> None:
    body = configmap("a", finalizers=["example.org/hold"])
    await client.create(CONFIGMAPS, body, namespace)
    await client.delete(CONFIGMAPS, "a", namespace)
    patch = {"metadata": {"finalizers": ["example.org/hold", "example.org/new"]}}
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being del"):
        await client.merge_patch(CONFIGMAPS, "a", namespace, patch)
    await client.merge_patch(CONFIGMAPS, "a", namespace, {"metadata": {"finalizers": None}})


async def test_preconditions_protect(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(Conflict, match=r"the UID in the precondition \(x\) does not match"):
        await client.delete(CONFIGMAPS, "a", namespace, uid="x")
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition \(1\) does not"):
        await client.delete(CONFIGMAPS, "a", namespace, resource_version="1")
    version = made.meta.resource_version
    await client.delete(CONFIGMAPS, "a", namespace, uid=made.meta.uid, resource_version=version)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_a_collection_is_deleted_by_its_selector(client: Client, namespace: str) -> None:
    for name, value in (("a", "1"), ("b", "1"), ("c", "2")):
        await client.create(CONFIGMAPS, configmap(name, labels={"k": value}), namespace)
    await client.delete_collection(CONFIGMAPS, namespace, labels="k=1")
    found = await client.list(CONFIGMAPS, namespace, labels="k")
    assert [item.meta.name for item in found.items] == ["c"]


async def test_what_is_owned_goes_with_its_owner(client: Client, namespace: str) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace)
    child = await client.create(
        CONFIGMAPS, configmap("child", ownerReferences=owned_by(owner)), namespace
    )
    await client.create(
        CONFIGMAPS, configmap("grandchild", ownerReferences=owned_by(child)), namespace
    )
    await client.delete(CONFIGMAPS, "owner", namespace, propagation="Background")
    await gone(client, "grandchild", namespace)
    await gone(client, "child", namespace)


async def test_one_owner_left_is_enough(client: Client, namespace: str) -> None:
    first = await client.create(CONFIGMAPS, configmap("first"), namespace)
    second = await client.create(CONFIGMAPS, configmap("second"), namespace)
    owners = owned_by(first) + owned_by(second)
    await client.create(CONFIGMAPS, configmap("child", ownerReferences=owners), namespace)
    await client.delete(CONFIGMAPS, "first", namespace)

    async def disowned() -> bool:
        child = await client.get(CONFIGMAPS, "child", namespace)
        return [owner.name for owner in child.meta.owner_references] == ["second"]

    await eventually(disowned)


async def test_orphans_stay(client: Client, namespace: str) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace)
    await client.create(CONFIGMAPS, configmap("child", ownerReferences=owned_by(owner)), namespace)
    await client.delete(CONFIGMAPS, "owner", namespace, propagation="Orphan")
    await gone(client, "owner", namespace)
    assert not (await client.get(CONFIGMAPS, "child", namespace)).meta.owner_references


@pytest.mark.parametrize("orphans", ["", "true", "no"])
async def test_the_query_can_ask_for_orphans(client: Client, namespace: str, orphans: str) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace)
    await client.create(CONFIGMAPS, configmap("child", ownerReferences=owned_by(owner)), namespace)
    path = CONFIGMAPS.path(namespace, "owner")
    await client.request("DELETE", path, params={"orphanDependents": orphans})
    await gone(client, "owner", namespace)
    assert not (await client.get(CONFIGMAPS, "child", namespace)).meta.owner_references


async def test_a_foreground_deletion_waits_for_what_blocks_it(
    client: Client, namespace: str
) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace)
    body = configmap(
        "child",
        ownerReferences=owned_by(owner, blockOwnerDeletion=True),
        finalizers=["example.org/hold"],
    )
    await client.create(CONFIGMAPS, body, namespace)
    await client.delete(CONFIGMAPS, "owner", namespace, propagation="Foreground")

    async def child_is_going() -> bool:
        return (await client.get(CONFIGMAPS, "child", namespace)).meta.deleting

    await eventually(child_is_going)
    held = await client.get(CONFIGMAPS, "owner", namespace)
    assert held.meta.finalizers == ["foregroundDeletion"]
    await client.merge_patch(CONFIGMAPS, "child", namespace, {"metadata": {"finalizers": None}})
    await gone(client, "owner", namespace)


async def test_an_owner_that_never_was_takes_its_dependents_along(
    client: Client, namespace: str
) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace)
    await client.delete(CONFIGMAPS, "owner", namespace)
    await client.create(CONFIGMAPS, configmap("late", ownerReferences=owned_by(owner)), namespace)
    await gone(client, "late", namespace)
