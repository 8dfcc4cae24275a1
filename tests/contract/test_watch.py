from __future__ import annotations

import asyncio

import pytest
from tests.contract.support import WIDGETS, configmap, names, take, widget
from tests.support.planes import ControlPlane

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import Client, Gone


async def test_a_watch_resumes_where_it_was_left(
    client: Client, namespace: str, widgets: None
) -> None:
    start = (await client.list(WIDGETS, namespace)).resource_version
    made = await client.create(WIDGETS, widget("a"), namespace)
    await client.merge_patch(WIDGETS, "a", namespace, {"spec": {"size": 2}})
    await client.delete(WIDGETS, "a", namespace)
    events = await take(client.watch(WIDGETS, namespace, resource_version=start), 3)
    assert names(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event.object.meta.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert events[2].object.to_dict()["spec"]["size"] == 2
    version = made.meta.resource_version
    rest = await take(client.watch(WIDGETS, namespace, resource_version=version), 2)
    assert rest == events[1:]


async def test_live_events_arrive(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIGMAPS, namespace)).resource_version
    watch = client.watch(CONFIGMAPS, namespace, resource_version=start)
    async with asyncio.TaskGroup() as group:
        events = group.create_task(take(watch, 2))
        await client.create(CONFIGMAPS, configmap("a"), namespace)
        await client.delete(CONFIGMAPS, "a", namespace)
    assert names(events.result()) == [("ADDED", "a"), ("DELETED", "a")]


async def test_without_a_version_a_watch_starts_with_what_is_there(
    client: Client, namespace: str, widgets: None
) -> None:
    for name in ("a", "b"):
        await client.create(WIDGETS, widget(name), namespace)
    events = await take(client.watch(WIDGETS, namespace, resource_version="0"), 2)
    assert sorted(names(events)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_entering_and_leaving_a_selection_looks_like_creation_and_deletion(
    client: Client, namespace: str
) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    for value in ("yes", "no"):
        patch = {"metadata": {"labels": {"in": value}}}
        await client.merge_patch(CONFIGMAPS, "a", namespace, patch)
    version = made.meta.resource_version
    watch = client.watch(CONFIGMAPS, namespace, resource_version=version, labels="in=yes")
    events = await take(watch, 2)
    assert names(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert events[1].object.meta.labels == {"in": "yes"}
    last = await client.get(CONFIGMAPS, "a", namespace)
    assert events[1].object.meta.resource_version == last.meta.resource_version


async def test_other_namespaces_are_not_shown(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIGMAPS, namespace)).resource_version
    other = await client.create(CONFIGMAPS, {"metadata": {"generateName": "o-"}}, "default")
    await client.create(CONFIGMAPS, configmap("mine"), namespace)
    events = await take(client.watch(CONFIGMAPS, namespace, resource_version=start), 1)
    assert names(events) == [("ADDED", "mine")]
    await client.delete(CONFIGMAPS, other.meta.name, "default")


async def test_one_object_can_be_watched(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIGMAPS, namespace)).resource_version
    for name in ("a", "b"):
        await client.create(CONFIGMAPS, configmap(name), namespace)
    watch = client.watch(CONFIGMAPS, namespace, resource_version=start, fields="metadata.name=b")
    assert names(await take(watch, 1)) == [("ADDED", "b")]


async def test_metadata_can_be_watched_alone(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIGMAPS, namespace)).resource_version
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    watch = client.watch(CONFIGMAPS, namespace, resource_version=start, metadata_only=True)
    (event,) = await take(watch, 1)
    assert event.object.meta.name == "a"
    assert "data" not in event.object.to_dict()


async def test_the_server_ends_a_watch_in_time(
    client: Client, namespace: str, widgets: None
) -> None:
    start = (await client.list(WIDGETS, namespace)).resource_version
    watch = client.watch(WIDGETS, namespace, resource_version=start, timeout_seconds=1)
    found = [event async for event in watch]
    assert all(event.type == "BOOKMARK" for event in found)


async def test_a_compacted_version_is_gone(
    client: Client, namespace: str, control_plane: ControlPlane, widgets: None
) -> None:
    made = await client.create(WIDGETS, widget("a"), namespace)
    for size in (2, 3):
        await client.merge_patch(WIDGETS, "a", namespace, {"spec": {"size": size}})
    await control_plane.compact()
    # A kube-apiserver still serves what its watch cache holds; version 1 is older than any cache.
    old = "1" if control_plane.is_real else made.meta.resource_version
    with pytest.raises(Gone) as found:
        await take(client.watch(WIDGETS, namespace, resource_version=old), 9)
    assert found.value.code == 410
    assert found.value.reason == "Expired"
