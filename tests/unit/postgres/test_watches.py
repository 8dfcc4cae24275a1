"""Secrets of passwords are watched while somebody takes one from them, and no longer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import SECRETS, Resource
from fairlead.postgres.controllers.watches import AccessWatches
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Delta
from fairlead.runtime.cache.store import IndexFunction, Store


class FakeInformer:
    """An informer that hears of nothing but what a test puts in."""

    def __init__(self) -> None:
        self.store = Store()
        self.closed = False
        self._indexes: dict[str, IndexFunction] = {}

    def add_index(self, name: str, function: IndexFunction) -> None:
        self._indexes[name] = function
        self.store.add_index(function)

    def by_index(self, name: str, value: str) -> list[Object]:
        return self.store.by_index(self._indexes[name], value)

    def get(self, namespace: str, name: str) -> Object | None:
        return self.store.get(namespace, name)

    async def close(self) -> None:
        self.closed = True


class FakeCluster:
    name = "here"

    def __init__(self) -> None:
        self.leases: list[tuple[Resource, str, FakeInformer]] = []

    def informer(self, resource: Resource, *, namespace: str = "", **_: Any) -> FakeInformer:
        made = FakeInformer()
        self.leases.append((resource, namespace, made))
        return made

    def open(self, namespace: str) -> list[FakeInformer]:
        return [
            lease
            for resource, where, lease in self.leases
            if resource == SECRETS and where == namespace and not lease.closed
        ]


def access(name: str, password: str = "", *, deleting: bool = False) -> Object:
    spec = {"passwordSecretRef": {"name": password}} if password else {}
    metadata = {"name": name, "namespace": "team", "uid": name}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return object_from_dict(
        {"apiVersion": "x/v1", "kind": "PostgresAccess", "metadata": metadata, "spec": spec}
    )


def secret(name: str, version: str) -> Object:
    metadata = {"name": name, "namespace": "team", "resourceVersion": version}
    return object_from_dict({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def watches(cluster: FakeCluster) -> AccessWatches:
    return AccessWatches(cast("Any", cluster), PostgresOptions())


def put(watches: AccessWatches, *accesses: Object) -> None:
    for one in accesses:
        cast("FakeInformer", watches.accesses).store.put(one)


async def follow(watches: AccessWatches, name: str, *, wanted: bool) -> int:
    opened: list[object] = []
    await watches.follow_passwords("team", name, wanted=wanted, opened=opened.append)
    return len(opened)


async def test_a_namespace_is_watched_once_and_until_the_last_has_gone(
    cluster: FakeCluster, watches: AccessWatches
) -> None:
    put(watches, access("one", "vault"), access("two", "vault"), access("none"))
    assert await follow(watches, "none", wanted=False) == 0
    assert not cluster.open("team")
    assert await follow(watches, "one", wanted=True) == 1
    assert await follow(watches, "two", wanted=True) == 0
    assert len(cluster.open("team")) == 1
    assert await follow(watches, "one", wanted=False) == 0
    assert cluster.open("team"), "another access still takes its password from there"
    put(watches, access("one", "vault", deleting=True))
    await follow(watches, "two", wanted=False)
    assert not cluster.open("team")


async def test_a_change_concerns_those_that_take_it(watches: AccessWatches) -> None:
    put(watches, access("one", "vault"), access("two", "other"), access("none"))
    delta = Delta("MODIFIED", secret("vault", "1"), secret("vault", "2"))
    assert [one.name for one in watches.accesses_of_password(delta)] == ["one"]
