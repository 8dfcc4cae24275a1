"""The client against each control plane: what its unit tests assume is what servers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest
from tests.support.planes import ControlPlane
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import (
    AlreadyExists,
    ApiError,
    Client,
    ClusterConfig,
    Conflict,
    Forbidden,
    Gone,
    Impersonation,
    Invalid,
    NotFound,
    NotServed,
    Unauthorized,
    WatchEvent,
    parse_kubeconfig,
)
from fairlead.client.lookups import wait_for


WIDGETS = Resource("client.example.org", "v1", "widgets", "Widget")


@pytest.fixture
def config(control_plane: ControlPlane) -> ClusterConfig:
    return parse_kubeconfig(control_plane.kubeconfig())


@pytest.fixture
async def client(config: ClusterConfig) -> AsyncIterator[Client]:
    async with Client(config) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "client-"}}
    name = (await client.create(NAMESPACES, body)).meta.name
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def widgets(client: Client) -> Resource:
    """A CRD of this suite's own, made once on each control plane."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.client.example.org"},
        "spec": {
            "group": "client.example.org",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    try:
        await client.create(CUSTOMRESOURCEDEFINITIONS, body)
    except AlreadyExists:
        return WIDGETS

    def established(crd: Object | None) -> str:
        status = crd.to_dict().get("status", {}) if crd else {}
        conditions = status.get("conditions") or []
        true = {condition["type"] for condition in conditions if condition["status"] == "True"}
        return "" if "Established" in true else "not established"

    name = "widgets.client.example.org"
    await wait_for(client, CUSTOMRESOURCEDEFINITIONS, name, until=established, timeout=SECONDS)
    return WIDGETS


def config_map(name: str, namespace: str, **data: str) -> JSON:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def some(client: Client, namespace: str, count: int) -> None:
    for number in range(count):
        await client.create(CONFIGMAPS, config_map(f"cm-{number}", namespace))


async def take(client: Client, namespace: str, version: str, count: int) -> list[WatchEvent]:
    """The next events about this suite's own objects."""
    found: list[WatchEvent] = []
    stream = client.watch(CONFIGMAPS, namespace, resource_version=version, timeout_seconds=20)
    async with asyncio.timeout(SECONDS), aclosing(stream) as events:
        async for event in events:
            if event.type != "BOOKMARK" and event.object.meta.name != "kube-root-ca.crt":
                found.append(event)
            if len(found) == count:
                break
    return found


class TestVerbs:
    """Objects are made, read, changed and removed."""

    async def test_create_and_get(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIGMAPS, config_map("a", namespace, k="v"))
        found = await client.get(CONFIGMAPS, "a", namespace)
        assert (found.api_version, found.kind, found.meta) == ("v1", "ConfigMap", made.meta)
        assert found.to_dict()["data"] == {"k": "v"}
        assert found.meta.uid
        assert found.meta.resource_version

    async def test_dry_run_stores_nothing(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIGMAPS, config_map("a", namespace), dry_run=True)
        assert made.meta.name == "a"
        with pytest.raises(NotFound):
            await client.get(CONFIGMAPS, "a", namespace)

    async def test_update_needs_the_current_version(self, client: Client, namespace: str) -> None:
        old = await client.create(CONFIGMAPS, config_map("a", namespace))
        new = await client.update(CONFIGMAPS, old.to_dict() | {"data": {"k": "v"}})
        assert new.meta.resource_version != old.meta.resource_version
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.update(CONFIGMAPS, old.to_dict() | {"data": {"k": "w"}})

    async def test_merge_patch_with_preconditions(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIGMAPS, config_map("a", namespace, k="v"))
        version = {"metadata": {"resourceVersion": made.meta.resource_version}}
        patch = version | {"data": {"k": None, "n": "w"}}
        found = await client.merge_patch(CONFIGMAPS, "a", namespace, patch)
        assert found.to_dict()["data"] == {"n": "w"}
        with pytest.raises(Conflict):
            await client.merge_patch(CONFIGMAPS, "a", namespace, patch)
        stranger = {"metadata": {"uid": "other", "resourceVersion": "1"}}
        with pytest.raises(Conflict):
            await client.merge_patch(CONFIGMAPS, "a", namespace, stranger)

    async def test_merge_patch_with_a_wrong_uid_alone(
        self, client: Client, namespace: str
    ) -> None:
        await client.create(CONFIGMAPS, config_map("a", namespace))
        with pytest.raises((Conflict, Invalid)):
            await client.merge_patch(CONFIGMAPS, "a", namespace, {"metadata": {"uid": "other"}})

    async def test_json_patch(self, client: Client, namespace: str) -> None:
        await client.create(CONFIGMAPS, config_map("a", namespace, k="v"))
        good = [
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "replace", "path": "/data/k", "value": "w"},
        ]
        found = await client.json_patch(CONFIGMAPS, "a", namespace, good)
        assert found.to_dict()["data"] == {"k": "w"}
        with pytest.raises(Invalid):
            await client.json_patch(CONFIGMAPS, "a", namespace, good)

    async def test_apply(self, client: Client, namespace: str) -> None:
        await client.apply(CONFIGMAPS, config_map("a", namespace, k="v"))
        body = config_map("a", namespace, k="w")
        with pytest.raises(Conflict, match="fairlead"):
            await client.apply(CONFIGMAPS, body, force=False, field_manager="other")

    async def test_delete_preconditions(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIGMAPS, config_map("a", namespace))
        with pytest.raises(Conflict):
            await client.delete(CONFIGMAPS, "a", namespace, uid="another")
        await client.delete(CONFIGMAPS, "a", namespace, uid=made.meta.uid)
        with pytest.raises(NotFound, match='configmaps "a" not found'):
            await client.delete(CONFIGMAPS, "a", namespace)

    async def test_delete_collection(self, client: Client, namespace: str) -> None:
        await some(client, namespace, 3)
        await client.delete_collection(CONFIGMAPS, namespace, labels="app in (cm-0,cm-2)")
        left = await client.list(CONFIGMAPS, namespace, labels="app")
        assert [item.meta.name for item in left.items] == ["cm-1"]

    async def test_status_is_apart(
        self, client: Client, namespace: str, widgets: Resource
    ) -> None:
        body: JSON = {
            "apiVersion": widgets.api_version,
            "kind": widgets.kind,
            "metadata": {"name": "w", "namespace": namespace},
            "spec": {"size": 1},
            "status": {"seen": 1},
        }
        made = await client.create(widgets, body)
        assert "status" not in made.to_dict()
        patch = {"spec": {"size": 2}, "status": {"seen": 2}}
        found = await client.merge_patch(widgets, "w", namespace, patch, subresource="status")
        assert found.to_dict()["status"] == {"seen": 2}
        assert found.to_dict()["spec"] == {"size": 1}
        assert found.meta.generation == made.meta.generation

    async def test_invalid_names_the_field(
        self, client: Client, namespace: str, widgets: Resource
    ) -> None:
        body: JSON = {
            "apiVersion": widgets.api_version,
            "kind": widgets.kind,
            "metadata": {"name": "w", "namespace": namespace},
            "spec": {"size": "large"},
        }
        with pytest.raises(Invalid, match=r"spec\.size") as caught:
            await client.create(widgets, body)
        details = caught.value.status.details
        assert details is not None
        assert [cause.field for cause in details.causes] == ["spec.size"]


class TestErrors:
    """Refusals have the type that callers catch."""

    async def test_already_exists(self, client: Client, namespace: str) -> None:
        await client.create(CONFIGMAPS, config_map("a", namespace))
        with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
            await client.create(CONFIGMAPS, config_map("a", namespace))

    async def test_missing_namespace(self, client: Client) -> None:
        with pytest.raises(NotFound, match='namespaces "client-none" not found'):
            await client.create(CONFIGMAPS, config_map("a", "client-none"))

    async def test_missing_resource(self, client: Client, namespace: str) -> None:
        nothing = Resource("nothing.example.org", "v1", "things", "Thing")
        with pytest.raises(NotFound) as caught:
            await client.list(nothing, namespace)
        assert caught.value.code == 404

    async def test_a_wrong_token(self, config: ClusterConfig) -> None:
        nobody = replace(config, token="wrong", client_certificate=b"", client_key=b"")
        async with Client(nobody) as client:
            with pytest.raises(Unauthorized):
                await client.list(NAMESPACES)

    async def test_impersonation_is_authorized(self, config: ClusterConfig) -> None:
        nobody = replace(config, impersonation=Impersonation("client-nobody", ("devs",)))
        async with Client(nobody) as client:
            with pytest.raises(Forbidden, match='User "client-nobody" cannot list'):
                await client.list(CONFIGMAPS, "default")


class TestTokens:
    """A ServiceAccount's token is somebody."""

    async def test_token_request(
        self, client: Client, config: ClusterConfig, namespace: str
    ) -> None:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "bot", "namespace": namespace},
        }
        await client.create(SERVICEACCOUNTS, account)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = await client.create(
            SERVICEACCOUNTS, body, namespace, name="bot", subresource="token"
        )
        token = made.to_dict()["status"]["token"]
        bot = replace(config, token=token, client_certificate=b"", client_key=b"")
        async with Client(bot) as other:
            with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:bot"):
                await other.list(CONFIGMAPS, namespace)


class TestLists:
    """Lists come whole, in pages, selected."""

    async def test_pages(self, client: Client, namespace: str) -> None:
        await some(client, namespace, 7)
        found = await client.list(CONFIGMAPS, namespace, labels="app", limit=3)
        assert [item.meta.name for item in found.items] == [f"cm-{n}" for n in range(7)]
        assert all(item.kind == "ConfigMap" for item in found.items)
        assert found.resource_version

    async def test_selectors(self, client: Client, namespace: str) -> None:
        await some(client, namespace, 3)
        by_label = await client.list(CONFIGMAPS, namespace, labels="app notin (cm-0),app")
        assert [item.meta.name for item in by_label.items] == ["cm-1", "cm-2"]
        by_field = await client.list(CONFIGMAPS, namespace, fields="metadata.name=cm-1")
        assert [item.meta.name for item in by_field.items] == ["cm-1"]

    async def test_metadata_only(self, client: Client, namespace: str) -> None:
        await client.create(CONFIGMAPS, config_map("a", namespace, k="v" * 1000))
        found = await client.list(CONFIGMAPS, namespace, labels="app", metadata_only=True)
        assert [(item.kind, item.meta.name) for item in found.items] == [("ConfigMap", "a")]


class TestWatches:
    """Watches resume where they were."""

    async def test_events_in_order(self, client: Client, namespace: str) -> None:
        start = (await client.list(CONFIGMAPS, namespace)).resource_version
        await client.create(CONFIGMAPS, config_map("a", namespace))
        await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"k": "v"}})
        await client.delete(CONFIGMAPS, "a", namespace)
        events = await take(client, namespace, start, 3)
        assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        versions = [int(event.object.meta.resource_version) for event in events]
        assert versions == sorted(set(versions))
        assert events[2].object.to_dict()["data"] == {"k": "v"}

    async def test_resume_after_an_event(self, client: Client, namespace: str) -> None:
        start = (await client.list(CONFIGMAPS, namespace)).resource_version
        await some(client, namespace, 3)
        (first,) = await take(client, namespace, start, 1)
        rest = await take(client, namespace, first.object.meta.resource_version, 2)
        assert [event.object.meta.name for event in rest] == ["cm-1", "cm-2"]

    async def test_selector_makes_entering_and_leaving(
        self, client: Client, namespace: str
    ) -> None:
        start = (await client.list(CONFIGMAPS, namespace)).resource_version
        await client.create(CONFIGMAPS, config_map("a", namespace))
        for value in ("on", "off"):
            patch = {"metadata": {"labels": {"mode": value}}}
            await client.merge_patch(CONFIGMAPS, "a", namespace, patch)
        found = []
        stream = client.watch(
            CONFIGMAPS, namespace, resource_version=start, labels="mode=on", timeout_seconds=20
        )
        async with asyncio.timeout(SECONDS), aclosing(stream) as events:
            async for event in events:
                found += [event.type] if event.type != "BOOKMARK" else []
                if event.type == "DELETED":
                    break
        assert found == ["ADDED", "DELETED"]

    async def test_ends_when_its_time_is_up(self, client: Client, namespace: str) -> None:
        start = (await client.list(CONFIGMAPS, namespace)).resource_version
        stream = client.watch(CONFIGMAPS, namespace, resource_version=start, timeout_seconds=1)
        async with asyncio.timeout(SECONDS):
            async for _ in stream:
                pass

    async def test_a_compacted_version_is_gone(
        self, client: Client, namespace: str, control_plane: ControlPlane
    ) -> None:
        # The real server keeps no window of Events in memory: what is compacted is gone at once.
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "e-", "namespace": namespace},
            "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": namespace},
        }
        old = await client.create(EVENTS, body)
        await client.create(EVENTS, body)
        await control_plane.compact()
        version = str(int(old.meta.resource_version) - 1)
        with pytest.raises(Gone):
            await anext(client.watch(EVENTS, namespace, resource_version=version))

    async def test_a_version_that_is_none(self, client: Client, namespace: str) -> None:
        stream = client.watch(CONFIGMAPS, namespace, resource_version="yesterday")
        with pytest.raises(ApiError, match='Invalid value: "yesterday"'):
            await anext(stream)


class TestDiscovery:
    """The server says what it serves."""

    async def test_built_in(self, client: Client) -> None:
        assert await client.discovery.resource_for("apps/v1", "Deployment") == DEPLOYMENTS
        assert await client.discovery.resource_by_plural("apps", "deployments") == DEPLOYMENTS
        assert await client.discovery.resource_by_plural("", "configmaps", "v1") == CONFIGMAPS

    async def test_groups(self, client: Client) -> None:
        groups = {group.name: group.versions for group in await client.discovery.groups()}
        assert groups[""] == ("v1",)
        assert "v1" in groups["apps"]

    async def test_a_new_crd_is_found(self, client: Client, widgets: Resource) -> None:
        assert await client.discovery.resource_for("client.example.org/v1", "Widget") == widgets
        found = await client.discovery.resource_by_plural("client.example.org", "widgets")
        assert found == widgets

    async def test_unknown(self, client: Client) -> None:
        with pytest.raises(NotServed, match="is its CRD installed"):
            await client.discovery.resource_for("nothing.example.org/v1", "Thing")

    async def test_version(self, client: Client) -> None:
        assert (await client.discovery.server_version()).startswith("v")
