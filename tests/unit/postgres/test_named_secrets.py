"""Secrets that accesses name are watched while one names them, and no longer."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.resource import SECRETS, Resource
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules import policy
from fairlead.postgres.controllers.watches import AccessWatches
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Delta
from fairlead.runtime.cache.store import IndexFunction, Store


class FakeInformer:
    """An informer that hears of nothing but what a test puts in."""

    has_synced, error = True, ""

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


def access(name: str, **spec: Any) -> PostgresAccess:
    body = {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {
            "username": name,
            "generatedSecret": f"{name}-login",
            "connection": {"serverRef": {"name": "main"}},
            **spec,
        },
    }
    return msgspec.convert(body, PostgresAccess)


def secret(name: str, version: str, namespace: str = "team", owner: str = "") -> Object:
    metadata: JSON = {"name": name, "namespace": namespace, "resourceVersion": version}
    if owner:
        kind = {"apiVersion": "access.k8s.delta10.nl/v1", "kind": "PostgresAccess"}
        metadata["ownerReferences"] = [kind | {"name": owner, "uid": owner, "controller": True}]
    return object_from_dict({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


class Named:
    """The named Secrets of a cluster with the namespaces team and other."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        watches = AccessWatches(cast("Any", self.cluster), PostgresOptions())
        self.secrets = watches.named_secrets
        self.opened: list[object] = []
        self.secrets.opened = self.opened.append
        for name in ("team", "other"):
            metadata = {"metadata": {"name": name}}
            namespace = object_from_dict({"apiVersion": "v1", "kind": "Namespace", **metadata})
            cast("FakeInformer", watches.namespaces).store.put(namespace)
        for name in ("one", "two"):
            metadata = {"metadata": {"name": name, "namespace": "team", "uid": name}}
            kind = {"apiVersion": "access.k8s.delta10.nl/v1", "kind": "PostgresAccess"}
            cast("FakeInformer", watches.accesses).store.put(object_from_dict(kind | metadata))

    async def follow(self, name: str, *secrets: Key) -> None:
        await self.secrets.follow(Key("team", name), secrets)

    def concerned(self, old: Object | None, new: Object | None) -> set[str]:
        """The accesses that a change of a Secret concerns."""
        return {one.name for one in self.secrets.accesses_of(Delta("MODIFIED", old, new))}


VAULT, LOGIN = Key("team", "vault"), Key("other", "login")


@pytest.fixture
def named() -> Named:
    return Named()


async def test_a_namespace_is_watched_once_and_until_the_last_has_gone(named: Named) -> None:
    await named.follow("one", VAULT)
    await named.follow("two", VAULT, LOGIN)
    assert (len(named.opened), len(named.cluster.open("team"))) == (2, 1)
    await named.follow("one")
    await named.follow("two", VAULT)
    assert named.cluster.open("team"), "another access still names a Secret there"
    assert not named.cluster.open("other")
    await named.follow("two")
    assert not named.cluster.open("team")
    await named.follow("two", VAULT)
    await named.secrets.close()
    assert not named.cluster.open("team")


async def test_a_change_concerns_those_that_have_not_read_it(named: Named) -> None:
    await named.follow("one", VAULT)
    await named.follow("two", VAULT)
    first, second = secret("vault", "1"), secret("vault", "2")
    assert named.concerned(None, first) == {"one", "two"}
    for name in ("one", "two"):
        named.secrets.has_read(Key("team", name), VAULT, "1")
        # Each pass names its Secrets again, and knows what the former one has read.
        await named.follow(name, VAULT)
    assert named.concerned(None, first) == set()
    named.secrets.has_read(Key("team", "two"), VAULT, "2")
    assert named.concerned(first, second) == {"one"}
    assert named.concerned(second, None) == {"one", "two"}
    named.secrets.has_read(Key("team", "two"), VAULT, "")
    assert named.concerned(second, None) == {"one"}
    assert named.concerned(None, secret("other", "3")) == set()


async def test_the_secret_that_an_access_generates_does_not_concern_itself(named: Named) -> None:
    for name in ("one", "two"):
        await named.follow(name, VAULT)
    assert named.concerned(None, secret("vault", "1", owner="one")) == {"two"}


async def test_what_cannot_be_watched_is_said(named: Named, monkeypatch: Any) -> None:
    one, missing = Key("team", "one"), Key("missing", "login")
    await named.follow("one", VAULT)
    assert named.secrets.are_watched(one)
    await named.follow("one", VAULT, missing)
    assert not named.cluster.open("missing")
    assert not named.secrets.are_watched(one)
    await named.follow("one", VAULT)
    (lease,) = named.cluster.open("team")
    monkeypatch.setattr(lease, "error", "forbidden")
    assert not named.secrets.are_watched(one)
    monkeypatch.setattr(bounds, "NAMESPACES", 1)
    await named.follow("two", LOGIN)
    assert not named.cluster.open("other")
    await named.follow("one")
    await named.follow("two", LOGIN)
    assert named.secrets.are_watched(Key("team", "two"))


_REF = {"secretRef": {"name": "login", "key": "password"}}
_WRITTEN = {"host": "db", "username": {"value": "admin"}, "password": _REF}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, set(), id="serverRef"),
        pytest.param({"passwordSecretRef": {"name": "vault"}}, {VAULT}, id="password"),
        pytest.param({"connection": {"existingSecret": "vault"}}, {VAULT}, id="existingSecret"),
        pytest.param(
            {"connection": {"existingSecret": "login", "existingSecretNamespace": "other"}},
            {LOGIN},
            id="of-another-namespace",
        ),
        pytest.param(
            {"connection": {"existingSecret": "login", "existingSecretNamespace": "denied"}},
            set(),
            id="of-a-namespace-that-is-not-allowed",
        ),
        pytest.param({"connection": _WRITTEN}, {Key("team", "login")}, id="secretRef"),
        pytest.param(
            {
                "connection": _WRITTEN
                | {
                    "caSecretRef": {"name": "vault"},
                    "clientCertificateSecretRef": {"name": "client"},
                }
            },
            {Key("team", "login"), VAULT, Key("team", "client")},
            id="certificates",
        ),
    ],
)
def test_the_secrets_that_an_access_names(spec: Any, expected: set[Key]) -> None:
    options = PostgresOptions(existing_secret_namespace=True, allowed_secret_namespaces=("other",))
    assert policy.named_secrets(access("app", **spec), options) == expected
