"""Revoking that is killed: what it has said is carried out by the provider's controllers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import msgspec
import pytest
from tests.support.dying import DyingClient, KilledError
from tests.support.konnector import Link, Requests, World, invited
from tests.support.provider import request_namespace, running
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, gone, when

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    Isolation,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    Resource,
)
from fairlead.client import Client, Forbidden, Unauthorized, parse_kubeconfig
from fairlead.client.lookups import find
from fairlead.konnector.commands.request import request_export
from fairlead.provider import bounds
from fairlead.provider.commands.consumers import UnknownConsumerError, find_consumer
from fairlead.provider.commands.revoke.work import ClearingError, _Revocation, revoke
from fairlead.provider.offer import record_of, with_revocation
from fairlead.provider.options import ProviderOptions
from fairlead_sandbox import Sandbox


KINDS: list[tuple[Isolation, str]] = [
    ("Prefixed", "Namespaced"),
    ("Prefixed", "Cluster"),
    ("Namespaced", "Namespaced"),
]
"""Isolation and scope, by which copies are in three places."""
OF_A_CONSUMER = (
    *(APISERVICEEXPORTREQUESTS, APISERVICEEXPORTS, BOUNDSCHEMAS),
    *(APISERVICENAMESPACES, CLUSTERBINDINGS, SECRETS, ROLES),
)
PLACES = ["service-namespaces", "prefixed", "in-the-cluster-namespace"]


class Customer:
    """A consumer with an export and the copy of an object, and without a konnector."""

    def __init__(self, world: World, link: Link, resource: Resource, copy: Object) -> None:
        self.provider = world.provider
        self.link = link
        self.name = link.cluster_namespace
        self.resource = resource
        self.copy = copy

    async def revoked(
        self,
        client: Client,
        *,
        keep: bool = False,
        timeout: float = SECONDS,  # noqa: ASYNC109
    ) -> None:
        consumer = await find_consumer(client, self.name)
        await revoke(
            client, consumer, keep_data=keep, timeout=timeout, progress=lambda _line: None
        )

    async def is_locked_out(self) -> None:
        async with Client(parse_kubeconfig(self.link.response.kubeconfig)) as theirs:
            with pytest.raises(Unauthorized):
                await theirs.get(CLUSTERBINDINGS, "cluster", self.name)
        async with asyncio.timeout(SECONDS):
            while await self._rights():  # noqa: ASYNC110  two kinds have no common watch
                await asyncio.sleep(0.05)

    async def is_cleared(self, *, keep: bool = False, here: bool = False) -> None:
        """Nothing of it is left, or nothing but its data."""
        client, copy = self.provider, self.copy.meta
        if not (keep and here):
            await gone(client, NAMESPACES, self.name)
        await self.is_locked_out()
        with pytest.raises(UnknownConsumerError):
            await find_consumer(client, self.name)
        if not keep:
            await gone(client, self.resource, copy.name, copy.namespace)
            return
        found = await client.get(self.resource, copy.name, copy.namespace)
        assert found.meta.uid == copy.uid
        assert not found.meta.deleting

    async def _rights(self) -> list[str]:
        return [
            one.meta.name
            for kind in (ROLEBINDINGS, CLUSTERROLEBINDINGS)
            for one in (await self.provider.list(kind)).items
            if any(
                subject.get("namespace") == self.name
                for subject in one.to_dict().get("subjects") or []
            )
        ]


async def customer(world: World, isolation: Isolation = "Prefixed") -> Customer:
    """A consumer whose copy is where the isolation puts it."""
    template = world.group if world.group != "example.org" else "widgets"
    link = await invited(world.consumer, world.provider, name=world.name, template=template)
    (request,) = link.response.requests
    name = link.cluster_namespace
    await request_export(
        world.provider, request, namespace=name, timeout=SECONDS, progress=lambda _line: None
    )
    crd = await world.provider.discovery.resource_by_plural(world.group, "widgets")
    body: JSON = world.widget()
    body["metadata"] = {
        "name": "blue" if crd.namespaced else f"{name}-blue",
        "annotations": {ANNOTATION_CLUSTER_NAMESPACE: name},
    }
    namespace = name if crd.namespaced else ""
    if isolation == "Prefixed" and crd.namespaced:
        await request_namespace(world.provider, name, "default")
        namespace = await link.provider_namespace()
    copy = await world.provider.create(crd, body, namespace)
    return Customer(world, link, crd, copy)


class Stoppable(World):
    """A world whose programs stop before its control planes do."""

    def __init__(self, planes: AsyncExitStack, programs: AsyncExitStack, **chosen: Any) -> None:
        super().__init__(programs, **chosen)
        self._planes = planes

    async def plane(self, name: str) -> tuple[Sandbox, Client]:
        plane = await self._planes.enter_async_context(Sandbox(name=name))
        return plane, await self._client(plane.kubeconfig())

    async def _client(self, kubeconfig: bytes) -> Client:
        return await self._planes.enter_async_context(Client(parse_kubeconfig(kubeconfig)))


async def left_alone(planes: AsyncExitStack, isolation: Isolation, scope: str) -> Customer:
    """A consumer whose provider has stopped."""
    async with AsyncExitStack() as programs:
        options = ProviderOptions(isolation=isolation)
        world = Stoppable(planes, programs, scope=scope, options=options)
        await world.start()
        return await customer(world, isolation)


@pytest.fixture(params=KINDS, ids=PLACES)
async def placed(request: pytest.FixtureRequest, stack: AsyncExitStack) -> tuple[World, Isolation]:
    isolation, scope = request.param
    world = World(stack, scope=scope, options=ProviderOptions(isolation=isolation))
    await world.start()
    return world, isolation


async def dies(work: Coroutine[Any, Any, object]) -> bool:
    try:
        await work
    except KilledError:
        return True
    except ExceptionGroup as group:
        return group.split(KilledError)[1] is None
    return False


async def killed_once_said(one: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoke, and die as soon as it is said what is to go."""

    async def die(_work: _Revocation, _exports: Sequence[Object]) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(_Revocation, "_watch", die)
        assert await dies(one.revoked(one.provider))


async def test_what_revoke_has_said_is_carried_out_without_it(
    placed: tuple[World, Isolation], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, isolation = placed
    one, other = await customer(world, isolation), await customer(world, isolation)
    await killed_once_said(one, monkeypatch)
    await one.is_cleared()
    there = other.copy.meta
    assert not (
        await world.provider.get(other.resource, there.name, there.namespace)
    ).meta.deleting
    for name in (other.name, there.namespace):
        found = await find(world.provider, NAMESPACES, name) if name else None
        assert found is None or not found.meta.deleting
    async with Client(parse_kubeconfig(other.link.response.kubeconfig)) as theirs:
        assert not (await theirs.get(APISERVICEEXPORTS, world.name, other.name)).meta.deleting


async def test_nothing_is_made_again_of_what_is_cleared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await customer(world)
    requests = Requests(world.provider_plane)
    await killed_once_said(one, monkeypatch)
    requests.seen.clear()
    await one.is_cleared()
    made = {resource for verb, resource in requests.seen if verb in {"create", "patch"}}
    rights = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
    assert not made & {"namespaces", *rights}


@pytest.mark.needs_control_plane
async def test_a_real_server_has_it_carried_out_as_well(
    stack: AsyncExitStack, realplane: RealPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(stack, real="provider", plane=realplane)
    await world.start()
    one = await customer(world)
    await killed_once_said(one, monkeypatch)
    await one.is_cleared()


@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep-data"])
async def test_killed_after_every_single_write_it_still_comes_to_its_end(
    placed: tuple[World, Isolation], *, keep: bool
) -> None:
    world, isolation = placed
    here = isolation == "Namespaced"
    one = await customer(world, isolation)
    deaths, again = 0, True
    while again:
        async with DyingClient(world.provider.config, writes=1) as client:
            try:
                again = await dies(one.revoked(client, keep=keep))
            except UnknownConsumerError:
                again = False
        deaths += again
        assert deaths < 100
    assert deaths > 4
    await one.is_cleared(keep=keep, here=here)


async def test_a_consumer_cannot_have_anything_cleared(world: World) -> None:
    """It writes the status of its ClusterBinding, and never what an administrator says there."""
    one = await customer(world)
    said: JSON = {"spec": {"serviceProviderSpec": with_revocation({}, clearing=True)}}
    async with Client(parse_kubeconfig(one.link.response.kubeconfig)) as theirs:
        with pytest.raises(Forbidden):
            await theirs.merge_patch(CLUSTERBINDINGS, "cluster", one.name, said)
        # With a status beside it, as a konnector writes it.
        await theirs.merge_patch(
            CLUSTERBINDINGS,
            "cluster",
            one.name,
            {**said, "status": {"konnectorVersion": "v1.0.0"}},
            subresource="status",
        )
        await when(
            world.provider,
            CLUSTERBINDINGS,
            "cluster",
            one.name,
            until=lambda body: body["status"].get("konnectorVersion"),
        )
    tie = await world.provider.get(CLUSTERBINDINGS, "cluster", one.name)
    assert not record_of(tie).clearing


async def test_a_copy_that_has_to_go_keeps_the_fields_that_its_stored_version_has(
    stack: AsyncExitStack,
) -> None:
    """Its controller needs them, to take away what is behind the copy."""
    world = World(stack, scope="Cluster", options=ProviderOptions())
    await world.start()
    one = await customer(world)
    stored = await stored_in_more(world, one.resource)
    more = {"metadata": {"finalizers": ["example.org/hold"]}, "spec": {"size": 3}}
    await world.provider.merge_patch(stored, one.copy.meta.name, "", more)
    async with asyncio.TaskGroup() as group:
        group.create_task(one.revoked(world.provider))
        going = await when(
            world.provider,
            stored,
            one.copy.meta.name,
            until=lambda body: body["metadata"].get("deletionTimestamp"),
        )
        assert going["spec"]["size"] == 3
        free: JSON = {"metadata": {"finalizers": None}}
        await world.provider.merge_patch(stored, one.copy.meta.name, "", free)
    await one.is_cleared()


async def test_a_copy_stays_while_its_deletion_would_take_fields_from_it(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "UNLISTED_SECONDS", 0.5)
    world = World(stack, scope="Cluster", options=ProviderOptions())
    await world.start()
    one = await customer(world)
    stored = await stored_in_more(world, one.resource)
    name = one.copy.meta.name
    more = {"metadata": {"finalizers": ["example.org/hold"]}, "spec": {"size": 3}}
    await world.provider.merge_patch(stored, name, "", more)
    await served(world, stored, serve=False)
    with pytest.raises(ClearingError, match=r"v1 lacks \.spec\.size of v1beta1"):
        await one.revoked(world.provider)
    assert not (await world.provider.get(one.resource, name)).meta.deleting
    await served(world, stored, serve=True)
    going = await when(
        world.provider, stored, name, until=lambda body: body["metadata"].get("deletionTimestamp")
    )
    assert going["spec"]["size"] == 3
    await world.provider.merge_patch(stored, name, "", {"metadata": {"finalizers": None}})
    await one.is_cleared()


async def served(world: World, resource: Resource, *, serve: bool) -> None:
    """Serve a version of a kind, or serve it no more."""
    name = resource.group_resource
    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    for version in crd["spec"]["versions"]:
        if version["name"] == resource.version:
            version["served"] = serve
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)


async def stored_in_more(world: World, resource: Resource) -> Resource:
    """Give a kind another version, in which objects are stored, with one more field."""
    name = resource.group_resource
    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    (v1,) = crd["spec"]["versions"]
    beta = copy.deepcopy(v1) | {"name": "v1beta1"}
    spec = beta["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"] = {"type": "integer"}
    crd["spec"]["versions"] = [{**v1, "storage": False}, beta]
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)
    stored = msgspec.structs.replace(resource, version="v1beta1")
    await when(world.provider, stored, "absent", until=lambda body: not body)
    return stored


@pytest.mark.parametrize(("isolation", "scope"), KINDS, ids=PLACES)
async def test_without_a_provider_the_access_goes_and_the_data_is_declared_to(
    isolation: Isolation, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a provider runs again, the data may be kept after all."""
    monkeypatch.setattr(bounds, "UNTOUCHED_SECONDS", 0.5)
    async with AsyncExitStack() as planes:
        one = await left_alone(planes, isolation, scope)
        provider, copy, name = one.provider, one.copy.meta, one.name
        remedy = "no provider's controllers .* apply `fairlead manifests provider`"
        with pytest.raises(ClearingError, match=remedy):
            await one.revoked(provider)
        await one.is_locked_out()
        binding = await provider.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, name)
        assert record_of(binding).clearing
        here = isolation == "Namespaced"
        with nullcontext() if here else pytest.raises(ClearingError, match=remedy):
            await one.revoked(provider, keep=True)
        if here:
            for kind in OF_A_CONSUMER:
                assert (await provider.list(kind, name)).items == []
        async with running(provider, ProviderOptions(isolation=isolation)):
            if not here:
                await gone(provider, NAMESPACES, name)
            with pytest.raises(UnknownConsumerError):
                await find_consumer(provider, name)
            kept = (await provider.get(one.resource, copy.name, copy.namespace)).meta
            assert (kept.uid, kept.deleting, kept.owner_references) == (copy.uid, False, [])
            assert (ANNOTATION_CLUSTER_NAMESPACE in kept.annotations) is here


async def test_a_consumer_cannot_pretend_that_its_data_is_being_deleted() -> None:
    async with AsyncExitStack() as planes:
        one = await left_alone(planes, "Prefixed", "Namespaced")
        where = (CLUSTERBINDINGS, CLUSTER_BINDING_NAME, one.name)
        forged = {"type": "Cleared", "status": "False", "message": "a moment", "reason": "X"}
        async with Client(parse_kubeconfig(one.link.response.kubeconfig)) as theirs:
            body = {"status": {"conditions": [forged]}}
            await theirs.merge_patch(*where, body, subresource="status")
        with pytest.raises(ClearingError, match=r"within 8 s no provider's controllers "):
            await one.revoked(one.provider, timeout=8.0)
