"""What the runtime writes, on servers that check it: CRDs, commits, events, leases."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.contract.test_reflector import crd, sprockets, until
from tests.support.planes import ControlPlane
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    Resource,
)
from fairlead.client import Client, ClientError, Conflict, Invalid, NotFound, parse_kubeconfig
from fairlead.runtime import (
    Cluster,
    Controller,
    LeaderElection,
    Manager,
    Request,
    commit,
    install_crds,
)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"runtime-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(NAMESPACES, body)
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def resource(client: Client) -> AsyncIterator[Resource]:
    """A custom resource with a status subresource."""
    resource = sprockets()
    definition = crd(resource)
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    await install_crds(client, [definition])
    yield resource
    await client.delete(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)


def gadget(resource: Resource, namespace: str, **spec: Any) -> JSON:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "a", "namespace": namespace},
        "spec": spec,
    }


async def test_installing_crds_again_writes_nothing(client: Client, resource: Resource) -> None:
    before = await client.get(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
    definition = crd(resource)
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    await install_crds(client, [definition])
    after = await client.get(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
    assert after.meta.resource_version == before.meta.resource_version


async def test_a_changed_crd_is_updated(client: Client, resource: Resource) -> None:
    definition = crd(resource)
    definition["metadata"]["labels"] = {"app": "x"}
    definition["spec"]["names"]["shortNames"] = ["gdg"]
    await install_crds(client, [definition])
    after = await client.get(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
    assert after.meta.labels == {"app": "x"}
    assert after.to_dict()["spec"]["names"]["shortNames"] == ["gdg"]


async def test_a_crd_that_is_wrong_is_refused_with_its_field(client: Client) -> None:
    definition = crd(sprockets())
    definition["spec"]["scope"] = "Somewhere"
    with pytest.raises(Invalid, match=r"spec\.scope"):
        await install_crds(client, [definition])


async def test_commit_writes_spec_and_status_apart(
    client: Client, resource: Resource, namespace: str
) -> None:
    old = await client.create(resource, gadget(resource, namespace, size=1, color="red"))
    body = old.to_dict()
    body["spec"] = {"size": 2}
    body["metadata"]["labels"] = {"app": "x"}
    body["status"] = {"ready": True}
    changed = await commit(client, resource, old, body)
    assert changed.to_dict()["spec"] == {"size": 2}
    assert changed.meta.labels == {"app": "x"}
    assert "status" not in changed.to_dict()
    done = await commit(client, resource, changed, body, subresource="status")
    assert done.to_dict()["status"] == {"ready": True}
    again = await commit(client, resource, done, done.to_dict())
    assert again is done


async def test_commit_refuses_what_was_changed_meanwhile(
    client: Client, resource: Resource, namespace: str
) -> None:
    old = await client.create(resource, gadget(resource, namespace, size=1))
    await client.merge_patch(resource, "a", namespace, {"spec": {"size": 2}})
    body = gadget(resource, namespace, size=3)
    with pytest.raises(Conflict):
        await commit(client, resource, old, body)


async def test_commit_refuses_another_object_of_the_same_name(
    client: Client, resource: Resource, namespace: str
) -> None:
    old = await client.create(resource, gadget(resource, namespace, size=1))
    await client.delete(resource, "a", namespace)
    body = gadget(resource, namespace, size=3)
    with pytest.raises(NotFound):
        await commit(client, resource, old, body)
    await client.create(resource, gadget(resource, namespace, size=2))
    with pytest.raises(ClientError):
        await commit(client, resource, old, body)
    now = await client.get(resource, "a", namespace)
    assert now.to_dict()["spec"] == {"size": 2}


async def events_of(client: Client, object_: Object) -> list[JSON]:
    fields = f"involvedObject.uid={object_.meta.uid}"
    listed = await client.list(EVENTS, object_.meta.namespace, fields=fields)
    return [event.to_dict() for event in listed.items]


async def test_events_are_there_for_describe_and_are_counted(
    client: Client, namespace: str
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    object_ = await client.create(CONFIGMAPS, body, namespace)
    cluster = Cluster("here", client)
    recorder = cluster.events("test")
    running = asyncio.create_task(cluster.run())
    found: list[JSON] = []
    for count in (1, 2):
        recorder.event(object_, "Warning", "Denied", "the role is missing")
        async with asyncio.timeout(SECONDS):
            while not found or found[0]["count"] != count:
                found = await events_of(client, object_)
                await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait([running])
    assert [event["message"] for event in found] == ["the role is missing"]
    assert found[0]["involvedObject"]["name"] == "a"


async def test_leadership_passes_from_one_to_the_next(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody loses the Lease for being slow, nor leaves it behind for that.
    durations = {"lease_duration": 503.0, "renew_deadline": 502.0, "retry_period": 0.1}
    monkeypatch.setattr("fairlead.client.limits.RELEASE_SECONDS", SECONDS)
    leading: list[str] = []
    stops = [asyncio.Event(), asyncio.Event()]

    def manager(name: str) -> Manager:
        async def reconcile(request: Request) -> None:
            leading.append(name)

        election = LeaderElection(client, namespace, "leader", name, **durations)
        result = Manager(leader_election=election)
        controller = Controller(name, reconcile)
        controller.enqueue(Request("", "", "start"))
        result.add(controller)
        return result

    first = asyncio.create_task(manager("first").run(stops[0]))
    await until(lambda: leading)
    second = asyncio.create_task(manager("second").run(stops[1]))
    lease = await client.get(LEASES, "leader", namespace)
    assert lease.to_dict()["spec"]["holderIdentity"] == "first"
    stops[0].set()
    await first
    await until(lambda: len(leading) == 2)
    assert leading == ["first", "second"]
    stops[1].set()
    await second
    lease = await client.get(LEASES, "leader", namespace)
    assert not lease.to_dict()["spec"].get("holderIdentity")


async def test_a_reconciler_brings_every_object_to_what_is_wanted(
    client: Client, resource: Resource, namespace: str
) -> None:
    cluster = Cluster("here", client)
    informer = cluster.informer(resource, namespace=namespace)

    async def reconcile(request: Request) -> None:
        object_ = informer.get(request.namespace, request.name)
        if object_ is not None:
            body = object_.to_dict()
            body["status"] = {"doubled": body["spec"]["size"] * 2}
            await commit(client, resource, object_, body, subresource="status")

    controller = Controller("double", reconcile)
    controller.watch(informer)
    manager = Manager()
    manager.add_cluster(cluster)
    manager.add(controller)
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await client.create(resource, gadget(resource, namespace, size=3))
    for size in (3, 5):
        await client.merge_patch(resource, "a", namespace, {"spec": {"size": size}})
        await until(settled(informer.get, namespace, size * 2))
    stop.set()
    await running


def settled(
    get: Callable[[str, str], Object | None], namespace: str, doubled: int
) -> Callable[[], bool]:
    def check() -> bool:
        object_ = get(namespace, "a")
        return object_ is not None and object_.to_dict().get("status") == {"doubled": doubled}

    return check
