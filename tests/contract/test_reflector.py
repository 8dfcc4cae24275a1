"""Reflector and informer on real connections: what is cut, refused or forgotten is made up for."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.support.planes import ControlPlane
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.client import (
    BadRequest,
    Client,
    Impersonation,
    NotFound,
    WatchEvent,
    limits,
    parse_kubeconfig,
)
from fairlead.client.wire import Page
from fairlead.runtime import BackoffPolicy, Cluster, Delta, Informer, install_crds


QUICK = BackoffPolicy(initial=0.05, maximum=0.4)


class Proxy:
    """Forwards TCP to a server until told to cut it off. Certificates name the address alone."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._scheme = parts.scheme
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.refusing = False

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{self._scheme}://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await until(lambda: not self._writers)

    def cut(self) -> None:
        """Break every connection as it stands."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refusing:
            writer.transport.abort()
            return
        target_reader, target_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, target_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, target_writer))
                group.create_task(_pump(target_reader, writer))
        finally:
            self._writers -= {writer, target_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


class Watched:
    """A namespace of its own, the way past the proxy to write, and the way through it to watch."""

    def __init__(self, direct: Client, cluster: Cluster, proxy: Proxy, namespace: str) -> None:
        self.direct = direct
        self.cluster = cluster
        self.proxy = proxy
        self.namespace = namespace
        self.resource = CONFIGMAPS

    async def create(self, name: str) -> None:
        resource = self.resource
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
        }
        await self.direct.create(resource, body, self.namespace)

    async def change(self, name: str, value: str) -> None:
        await self.direct.merge_patch(
            self.resource, name, self.namespace, {"data": {"value": value}}
        )

    async def delete(self, name: str) -> None:
        await self.direct.delete(self.resource, name, self.namespace)

    def informer(self, labels: str = "") -> tuple[Informer, list[tuple[str, str]]]:
        informer = self.cluster.informer(self.resource, namespace=self.namespace, labels=labels)
        return informer, told_by(informer)


def told_by(informer: Informer) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []

    def tell(delta: Delta) -> None:
        # A namespace may be given objects by the server itself.
        if not delta.object.meta.name.startswith("kube-"):
            told.append((delta.type, delta.object.meta.name))

    informer.subscribe(tell)
    return told


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def crd(resource: Resource) -> JSON:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "names": {"plural": resource.plural, "kind": resource.kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def sprockets() -> Resource:
    return Resource(f"g{uuid.uuid4().hex[:8]}.example.org", "v1", "sprockets", "Sprocket")


@asynccontextmanager
async def watched(plane: ControlPlane) -> AsyncIterator[Watched]:
    config = parse_kubeconfig(plane.kubeconfig())
    namespace = f"reflector-{uuid.uuid4().hex[:8]}"
    async with (
        Client(config) as direct,
        Proxy(config.server) as proxy,
        Client(dataclasses.replace(config, server=proxy.url)) as watching,
    ):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await direct.create(NAMESPACES, body)
        cluster = Cluster("watched", watching, backoff=QUICK)
        task = asyncio.create_task(cluster.run())
        yield Watched(direct, cluster, proxy, namespace)
        task.cancel()
        await asyncio.wait([task])
        await direct.delete(NAMESPACES, namespace)


def quick(patch: pytest.MonkeyPatch) -> None:
    """Have caches compared many times a second."""
    patch.setattr(limits, "DUE_SECONDS", 0.02)
    patch.setattr(limits, "COMPARED_SECONDS", 0.02)
    patch.setattr(limits, "BEHIND_SECONDS", 0.2)


class Losing(Client):
    """A client whose watches leave out the next events, as a server does that has lost them."""

    losing = 0

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(super().watch(*args, **more)) as events:
            async for event in events:
                if self.losing and event.type != "BOOKMARK":
                    self.losing -= 1
                else:
                    yield event


def restarts(cluster: Cluster) -> dict[str, int]:
    (informer,) = cluster.informers()
    return dict(informer.reflector.restarts)


async def test_follows_what_happens(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        await here.create("first")
        informer, told = here.informer()
        await informer.synced()
        await here.create("second")
        await here.change("first", "x")
        await here.delete("second")
        await until(lambda: len(told) == 4)
        assert told == [
            ("ADDED", "first"),
            ("ADDED", "second"),
            ("MODIFIED", "first"),
            ("DELETED", "second"),
        ]
        first = informer.get(here.namespace, "first")
        assert first is not None
        assert first.to_dict()["data"] == {"value": "x"}
        assert informer.error == ""
        assert restarts(here.cluster) == {}


@pytest.mark.parametrize("managed", [True, False], ids=["managedFields", "body"])
async def test_an_object_of_any_depth_keeps_no_neighbour_from_being_seen(
    control_plane: ControlPlane, managed: bool
) -> None:
    async with watched(control_plane) as here:
        if not managed:
            here.resource = sprockets()
            await install_crds(here.direct, [crd(here.resource)])
        await here.create("deep")
        path = here.resource.path(here.namespace, "deep")
        deep = '{"f:a":' * 5_000 + "{}" + "}" * 5_000
        entry = {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}
        body: JSON = {
            "apiVersion": here.resource.api_version,
            "kind": here.resource.kind,
            "metadata": {"name": "deep"},
        }
        if managed:
            fields = {**entry, "apiVersion": "v1", "fieldsV1": msgspec.Raw(deep.encode())}
            body["metadata"]["managedFields"] = [fields]
        else:
            found = await here.direct.get(here.resource, "deep", here.namespace)
            body["metadata"]["resourceVersion"] = found.meta.resource_version
            body["spec"] = msgspec.Raw(deep.encode())
        put = here.direct.request("PUT", path, body=msgspec.json.encode(body))
        if not control_plane.is_real:
            # The sandbox takes no such thing, in whatever place.
            with pytest.raises(BadRequest, match="nested too deeply"):
                await put
            return
        await put
        informer, told = here.informer()
        await informer.synced()
        assert ("ADDED", "deep") in told
        await here.create("neighbour")
        patch: JSON = {"metadata": {"labels": {"a": "b"}}}
        await here.direct.merge_patch(here.resource, "deep", here.namespace, patch)
        await here.delete("deep")
        await here.change("neighbour", "x")
        expected = [("ADDED", "neighbour"), ("MODIFIED", "deep"), ("DELETED", "deep")]
        await until(lambda: told[-1] == ("MODIFIED", "neighbour"))
        assert told[-4:-1] == expected
        assert restarts(here.cluster) == {}


async def test_a_cut_connection_loses_nothing_and_is_resumed(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        informer, told = here.informer()
        await informer.synced()
        for number in range(3):
            await here.create(f"before-{number}")
            await until(lambda: len(told) == 2 * number + 1)  # noqa: B023
            here.proxy.cut()
            await here.create(f"during-{number}")
            await until(lambda: len(told) == 2 * number + 2)  # noqa: B023
        assert told == [
            ("ADDED", f"{when}-{number}") for number in range(3) for when in ("before", "during")
        ]
        assert restarts(here.cluster) == {"cut": 3}
        assert here.proxy.connections <= 10


async def test_a_server_that_is_away_is_waited_for_and_said(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        await here.create("early")
        here.proxy.refusing = True
        informer, told = here.informer()
        await until(lambda: informer.error)
        assert not informer.has_synced
        await until(lambda: here.proxy.connections >= 4)
        here.proxy.refusing = False
        await informer.synced()
        assert told == [("ADDED", "early")]
        assert informer.error == ""


async def test_an_expired_version_is_made_up_for_by_a_list(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        # The cache of a resource that is new forgets what was before it was made.
        here.resource = sprockets()
        await install_crds(here.direct, [crd(here.resource)])
        for name in ("kept", "changed", "deleted"):
            await here.create(name)
        informer, told = here.informer()
        await informer.synced()
        (shared,) = here.cluster.informers()
        here.proxy.refusing = True
        here.proxy.cut()
        await here.change("changed", "x")
        await here.delete("deleted")
        await here.create("new")
        await control_plane.compact()
        told.clear()
        shared.reflector._version = "1"
        here.proxy.refusing = False
        await until(lambda: len(told) == 3)
        assert sorted(told) == [("ADDED", "new"), ("DELETED", "deleted"), ("MODIFIED", "changed")]
        # A busy real server may still remember the version in its cache, and tell the same.
        expired = restarts(here.cluster).get("expired", 0)
        assert expired == 1 or (control_plane.is_real and not expired)
        await here.delete("new")
        await until(lambda: ("DELETED", "new") in told)
        await here.direct.delete(CUSTOMRESOURCEDEFINITIONS, here.resource.group_resource)


@pytest.mark.parametrize("labels", ["", "app=x"])
@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata"])
async def test_what_a_watch_leaves_out_is_found_by_comparing(
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
    labels: str,
    metadata_only: bool,
) -> None:
    """Nothing else is: as long as nothing is lost, nothing is listed anew."""
    quick(monkeypatch)
    config = parse_kubeconfig(control_plane.kubeconfig())
    async with watched(control_plane) as here, Losing(config) as losing:
        patch = {"metadata": {"labels": {"app": "x"}}}
        for name in ("changed", "deleted", "kept"):
            await here.create(name)
            await here.direct.merge_patch(CONFIGMAPS, name, here.namespace, patch)
        cluster = Cluster("losing", losing, backoff=QUICK)
        informer = cluster.informer(
            CONFIGMAPS, namespace=here.namespace, labels=labels, metadata_only=metadata_only
        )
        told = told_by(informer)
        task = asyncio.create_task(cluster.run())
        await informer.synced()
        asked, answered = asyncio.Event(), asyncio.Event()
        original = losing.page
        answered.set()

        async def page(*args: Any, **more: Any) -> Page:
            asked.set()
            await answered.wait()
            return await original(*args, **more)

        monkeypatch.setattr(losing, "page", page)
        async with asyncio.timeout(SECONDS):
            for value in ("1", "2", "3"):
                await here.change("kept", value)
                asked.clear()
                await asked.wait()
        await until(lambda: len(told) == 6)
        assert restarts(cluster) == {}
        told.clear()
        # Both are lost before the next comparison begins.
        answered.clear()
        asked.clear()
        await until(asked.is_set)
        losing.losing = 2
        await here.change("changed", "x")
        await here.delete("deleted")
        await until(lambda: not losing.losing)
        assert told == []
        answered.set()
        await until(lambda: len(told) == 2)
        assert sorted(told) == [("DELETED", "deleted"), ("MODIFIED", "changed")]
        (shared,) = cluster.informers()
        assert shared.missed == 2
        task.cancel()
        await asyncio.wait([task])


async def test_a_selector_makes_members_come_and_go(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        await here.create("a")
        informer, told = here.informer(labels="app=x")
        await informer.synced()
        for app in ("x", "y"):
            patch = {"metadata": {"labels": {"app": app}}}
            await here.direct.merge_patch(CONFIGMAPS, "a", here.namespace, patch)
        await until(lambda: len(told) == 2)
        assert told == [("ADDED", "a"), ("DELETED", "a")]


async def test_what_is_forbidden_says_so_until_it_is_granted(control_plane: ControlPlane) -> None:
    user = f"reader-{uuid.uuid4().hex[:8]}"
    config = parse_kubeconfig(control_plane.kubeconfig())
    config = dataclasses.replace(config, impersonation=Impersonation(user=user))
    async with watched(control_plane) as here, Client(config) as reader:
        await here.create("a")
        cluster = Cluster("reader", reader, backoff=QUICK)
        task = asyncio.create_task(cluster.run())
        informer = cluster.informer(CONFIGMAPS, namespace=here.namespace)
        await until(lambda: informer.error)
        assert not informer.has_synced
        assert f'"{user}" cannot list resource "configmaps"' in informer.error
        await grant(here.direct, user, here.namespace)
        await informer.synced()
        assert informer.error == ""
        assert informer.get(here.namespace, "a") is not None
        task.cancel()
        await asyncio.wait([task])


async def grant(client: Client, user: str, namespace: str) -> None:
    """Let a user read the namespace's ConfigMaps."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    api_version = ROLES.api_version
    role = {"apiVersion": api_version, "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]}
    binding = {
        "apiVersion": api_version,
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": user}],
    }
    await client.create(ROLES, role, namespace)
    await client.create(ROLEBINDINGS, binding, namespace)


async def test_metadata_is_enough_where_it_is_asked_for(control_plane: ControlPlane) -> None:
    async with watched(control_plane) as here:
        await here.create("a")
        informer = here.cluster.informer(CONFIGMAPS, namespace=here.namespace, metadata_only=True)
        told = told_by(informer)
        await informer.synced()
        await here.change("a", "x" * 1000)
        await until(lambda: ("MODIFIED", "a") in told)
        found = informer.get(here.namespace, "a")
        assert found is not None
        assert found.kind == "ConfigMap"
        # The metadata is decoded, and nothing else is kept.
        assert found.meta.resource_version
        assert found.to_dict() == {}


async def test_a_crd_that_goes_takes_its_objects_and_may_come_back(
    control_plane: ControlPlane,
) -> None:
    resource = sprockets()
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
    async with watched(control_plane) as here:
        await install_crds(here.direct, [crd(resource)])
        informer = here.cluster.informer(resource)
        told = told_by(informer)
        await informer.synced()
        await here.direct.create(resource, body, here.namespace)
        await until(lambda: told == [("ADDED", "a")])
        await here.direct.delete(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
        await until(lambda: told == [("ADDED", "a"), ("DELETED", "a")])
        await until(lambda: "does not serve" in informer.error)
        await until_gone(here.direct, resource)
        await install_crds(here.direct, [crd(resource)])
        await until(lambda: not informer.error)
        await here.direct.create(resource, body, here.namespace)
        await until(lambda: len(told) == 3)
        await here.direct.delete(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)


async def until_gone(client: Client, resource: Resource) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await client.get(CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
            except NotFound:
                return
            await asyncio.sleep(0.05)
