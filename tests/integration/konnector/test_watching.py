"""What is watched, and what not: Secrets, namespaces of the provider, collections."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.konnector.conftest import secret_body, until

from fairlead.api.kubebind import APISERVICEEXPORTS, APISERVICENAMESPACES
from fairlead.api.meta import JSON, Key, OwnerReference, object_from_dict
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.files import WatchBudget
from fairlead.konnector.secrets import content
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.sync.ends import EVERYWHERE, WatchedCollection
from fairlead.runtime import Cluster, Delta


def scopes(cluster: Cluster) -> set[tuple[str, str]]:
    return {
        (informer.scope.namespace, informer.scope.fields)
        for informer in cluster.informers()
        if informer.scope.resource == SECRETS
    }


async def namespace(client: Client, name: str) -> None:
    metadata = {"name": name}
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )


async def test_secrets_elsewhere_are_watched_by_name_while_referred_to(
    consumer: Consumer, client: Client
) -> None:
    assert scopes(consumer.cluster) == {("kube-bind", "")}
    await namespace(client, "team")
    here, there = Key("kube-bind", "k"), Key("team", "k")
    await consumer.secrets.follow({here, there})
    assert scopes(consumer.cluster) == {("kube-bind", ""), ("team", "metadata.name=k")}
    told: list[Key] = []
    consumer.secrets.listen(told.append)
    await client.create(SECRETS, secret_body("other", "team"))
    await client.create(SECRETS, secret_body("k", "team", kubeconfig="x"))
    await until(lambda: consumer.secrets.get(there))
    assert told == [there]
    assert consumer.secrets.has_synced(there)
    await consumer.secrets.follow({here})
    assert scopes(consumer.cluster) == {("kube-bind", "")}
    assert consumer.secrets.get(there) is None
    consumer.secrets.unlisten(told.append)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"a": "Yg=="}, b"b", id="there"),
        pytest.param({}, b"", id="key-missing"),
        pytest.param({"a": "***"}, b"", id="no-base64"),
        pytest.param({"a": ""}, b"", id="empty"),
        pytest.param(None, b"", id="no-data"),
    ],
)
def test_the_content_of_a_secret(data: JSON | None, expected: bytes) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data}
    assert content(object_from_dict(body), "a") == expected
    assert content(None, "a") == b""


@pytest.fixture
async def owner(client: Client, provider_kinds: None) -> OwnerReference:
    """The export that a namespace is asked for."""
    await namespace(client, "cluster-abc")
    body = {
        "apiVersion": APISERVICEEXPORTS.api_version,
        "kind": APISERVICEEXPORTS.kind,
        "metadata": {"name": "db", "namespace": "cluster-abc"},
        "spec": {
            "resources": [{"group": "example.org", "resource": "widgets", "versions": ["v1"]}],
            "informerScope": "Namespaced",
            "isolation": "Prefixed",
        },
    }
    return (await client.create(APISERVICEEXPORTS, body)).owner_reference()


async def service_namespaces(cluster: Cluster) -> ServiceNamespaces:
    informer = cluster.informer(APISERVICENAMESPACES, namespace="cluster-abc")
    mapping = ServiceNamespaces(cluster.client, informer, "cluster-abc")
    await mapping.synced()
    return mapping


async def test_service_namespaces_map_both_ways(cluster: Cluster, owner: OwnerReference) -> None:
    mapping = await service_namespaces(cluster)
    told: list[tuple[str, str]] = []
    mapping.listen(lambda *pair: told.append(pair))
    await mapping.ask("shop", owner)
    await mapping.ask("shop", owner)
    await until(lambda: mapping.get("shop"))
    assert mapping.is_requested("shop")
    assert mapping.provider("shop") == ""
    await cluster.client.merge_patch(
        APISERVICENAMESPACES,
        "shop",
        "cluster-abc",
        {"status": {"namespace": "cluster-abc-shop"}},
        subresource="status",
    )
    await until(lambda: mapping.provider("shop"))
    assert mapping.consumer("cluster-abc-shop") == "shop"
    assert mapping.assigned() == {"shop": "cluster-abc-shop"}
    late: list[tuple[str, str]] = []
    mapping.listen(lambda *pair: late.append(pair))
    await cluster.client.delete(APISERVICENAMESPACES, "shop", "cluster-abc")
    await until(lambda: not mapping.provider("shop"))
    assert mapping.consumer("cluster-abc-shop") == ""
    assert not mapping.is_requested("shop")
    assert told == late == [("shop", "cluster-abc-shop"), ("shop", "")]


@pytest.mark.parametrize("made_again", [False, True], ids=["gone", "made-again"])
async def test_nothing_is_asked_for_an_export_that_is_gone(
    cluster: Cluster, owner: OwnerReference, made_again: bool
) -> None:
    export = await cluster.client.get(APISERVICEEXPORTS, owner.name, "cluster-abc")
    await cluster.client.delete(APISERVICEEXPORTS, owner.name, "cluster-abc")
    if made_again:
        body = export.to_dict()
        body["metadata"] = {"name": owner.name, "namespace": "cluster-abc"}
        await cluster.client.create(APISERVICEEXPORTS, body)
    mapping = await service_namespaces(cluster)
    await mapping.ask("shop", owner)
    assert not (await cluster.client.list(APISERVICENAMESPACES, "cluster-abc")).items


async def test_one_that_was_never_assigned_is_told_of_when_it_goes(
    cluster: Cluster, owner: OwnerReference
) -> None:
    """Somebody asked for it and waits: he has to ask again."""
    mapping = await service_namespaces(cluster)
    told: list[tuple[str, str]] = []
    mapping.listen(lambda *pair: told.append(pair))
    await mapping.ask("shop", owner)
    await until(lambda: mapping.get("shop"))
    await cluster.client.delete(APISERVICENAMESPACES, "shop", "cluster-abc")
    await until(lambda: told)
    assert told == [("shop", "")]


class Watched:
    """A collection whose namespaces a test decides."""

    def __init__(
        self, cluster: Cluster, *namespaces: str, budget: WatchBudget | None = None
    ) -> None:
        self.namespaces = frozenset(namespaces)
        self.seen: list[Key] = []
        self.synced: list[str] = []
        self.collection = WatchedCollection(
            "consumer", cluster, SECRETS, lambda: self.namespaces, budget
        )

    async def run(self) -> None:
        await self.collection.run(self._take, self.synced.append)

    def _take(self, delta: Delta) -> None:
        self.seen.append(delta.object.key)


async def test_a_collection_follows_its_namespaces(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await namespace(cluster.client, name)
        await cluster.client.create(SECRETS, secret_body("s", name))
    watched = Watched(cluster, "a")
    task = asyncio.create_task(watched.run())
    await until(watched.collection.all_listed)
    assert watched.collection.ready("a")
    assert not watched.collection.ready("b")
    assert watched.seen == [Key("a", "s")]
    watched.namespaces = frozenset({"b"})
    watched.collection.mark()
    await until(lambda: watched.synced == ["a", "b"])
    assert watched.collection.newest(Key("a", "s")) is None
    assert watched.collection.newest(Key("b", "s")) is not None
    assert [obj.key for obj in watched.collection.objects()] == [Key("b", "s")]
    assert scopes(cluster) == {("b", "")}
    task.cancel()
    await asyncio.wait([task])
    assert scopes(cluster) == set()


async def test_namespaces_that_no_file_is_left_for_wait_and_say_so(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await namespace(cluster.client, name)
        await cluster.client.create(SECRETS, secret_body("s", name))
    budget = WatchBudget(4)
    watched = Watched(cluster, "a", "b", "c", budget=budget)
    neighbour = Watched(cluster, "a", budget=budget)
    tasks = [asyncio.create_task(one.run()) for one in (watched, neighbour)]
    await until(lambda: set(watched.synced) == {"a", "b"} and neighbour.synced)
    assert not watched.collection.all_listed()
    (fault,) = watched.collection.faults()
    assert "does not watch secrets in 1 of 3 namespaces" in fault.message
    assert (
        f"may open 4, of which it keeps 2 for everything else; allow it {budget.needed}"
        in fault.message
    )
    assert neighbour.collection.faults() == []
    watched.namespaces = frozenset({"b", "c"})
    watched.collection.mark()
    await until(lambda: not watched.collection.ready("a"))
    assert set(watched.synced) == {"a", "b"}
    # What the neighbour gives back has room for the one that waits.
    tasks[1].cancel()
    await until(watched.collection.all_listed)
    # Its task hears of it a moment after the cache is full.
    await until(lambda: set(watched.synced) == {"a", "b", "c"})
    assert watched.collection.faults() == []
    tasks[0].cancel()
    await asyncio.wait(tasks)


async def test_a_collection_of_everything(cluster: Cluster) -> None:
    await namespace(cluster.client, "a")
    await cluster.client.create(SECRETS, secret_body("s", "a"))
    watched = Watched(cluster, *EVERYWHERE)
    task = asyncio.create_task(watched.run())
    await until(lambda: watched.synced)
    assert watched.collection.ready("a")
    assert watched.collection.newest(Key("a", "s")) is not None
    assert Key("a", "s") in [obj.key for obj in watched.collection.objects("a")]
    task.cancel()
    await asyncio.wait([task])
