"""Taking consumers away: beside the controllers, and without them."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
import pytest
from tests.support.konnector import Link, World, invited, offer, secret
from tests.support.provider import request_namespace
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_SERVICE_NAMESPACE,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
)
from fairlead.client import Client, NotFound, Unauthorized, limits, parse_kubeconfig
from fairlead.provider import bounds
from fairlead.provider.commands.consumers import UnknownConsumerError, find_consumer
from fairlead.provider.commands.overview import consumers
from fairlead.provider.commands.revoke.inventory import inventory
from fairlead.provider.commands.revoke.work import ClearingError, RevokeError, revoke
from fairlead.provider.commands.rotation.work import RotateError, rotate
from fairlead.provider.identity import InviteError
from fairlead.provider.invitation import invite
from fairlead.provider.namespaces import identity_of
from fairlead.provider.options import InviteOptions, ProviderOptions
from fairlead_sandbox.errors import StatusError


@pytest.fixture
async def world(provider_world: World) -> World:
    await provider_world.konnector()
    return provider_world


async def revoked(
    client: Client,
    link: Link,
    *,
    keep: bool = False,
    timeout: float = 60.0,  # noqa: ASYNC109
    force: bool = False,
) -> list[str]:
    lines: list[str] = []
    consumer = await find_consumer(client, link.cluster_namespace)
    await revoke(
        client,
        consumer,
        keep_data=keep,
        timeout=timeout,
        progress=lines.append,
        force=force,
    )
    return lines


async def finished(
    client: Client,
    link: Link,
    *,
    keep: bool = False,
) -> None:
    """Say it again, unless the controllers have come to the end meanwhile."""
    with suppress(UnknownConsumerError):
        await revoked(client, link, keep=keep)


async def with_objects(world: World) -> tuple[Link, str]:
    """A consumer with an object, a claimed Secret, and their provider namespace."""
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    return link, namespace


async def other_consumer(world: World) -> tuple[Link, Object]:
    """Somebody else on the same provider, with rights and a namespace of his own."""
    template = world.group if world.group != "example.org" else "widgets"
    link = await invited(world.consumer, world.provider, name="other", template=template)
    await request_namespace(world.provider, link.cluster_namespace, "shop")
    name = await link.provider_namespace("shop")
    return link, await world.provider.get(NAMESPACES, name)


async def names(client: Client, namespace: str) -> list[str]:
    """The bindings that give a consumer any right."""
    found = []
    for resource in (ROLEBINDINGS, CLUSTERROLEBINDINGS):
        for one in (await client.list(resource)).items:
            subjects = one.to_dict().get("subjects") or []
            if any(subject.get("namespace") == namespace for subject in subjects):
                found.append(one.meta.name)
    return found


async def is_locked_out(link: Link) -> None:
    async with Client(parse_kubeconfig(link.response.kubeconfig)) as client:
        with pytest.raises(Unauthorized):
            await client.list(SECRETS, link.cluster_namespace)


@pytest.mark.edge
async def test_a_revoked_consumer_leaves_nothing_and_others_keep_all(world: World) -> None:
    link, namespace = await with_objects(world)
    other, theirs = await other_consumer(world)
    about = await inventory(
        world.provider, await find_consumer(world.provider, link.cluster_namespace)
    )
    assert (about.exports, about.namespaces, about.objects) == (1, 1, 1)
    lines = await revoked(world.provider, link)
    assert lines[0].startswith("removed its access: ")
    await is_locked_out(link)
    for name in (namespace, link.cluster_namespace):
        with pytest.raises(NotFound):
            await world.provider.get(NAMESPACES, name)
    assert await names(world.provider, link.cluster_namespace) == []
    assert await names(world.provider, other.cluster_namespace) == ["kube-binder"]
    assert not (await world.provider.get(NAMESPACES, theirs.meta.name)).meta.deleting
    # The consumer's own objects are its own.
    assert not (await world.consumer.get(world.widgets, "blue", "default")).meta.deleting
    with pytest.raises(UnknownConsumerError, match="does not exist"):
        await revoked(world.provider, link)


async def test_data_that_is_kept_is_nobodys(world: World) -> None:
    link, namespace = await with_objects(world)
    before = (await world.provider.get(world.widgets, "blue", namespace)).to_dict()
    await revoked(world.provider, link, keep=True)
    await is_locked_out(link)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)
    kept = (await world.provider.get(world.widgets, "blue", namespace)).to_dict()
    assert kept["spec"] == before["spec"]
    assert kept["metadata"]["uid"] == before["metadata"]["uid"]
    assert ANNOTATION_CLUSTER_NAMESPACE not in kept["metadata"]["annotations"]
    assert (await world.provider.get(SECRETS, "blue-origin", namespace)).meta.name
    stays = await world.provider.get(NAMESPACES, namespace)
    assert not stays.meta.deleting
    assert ANNOTATION_SERVICE_NAMESPACE not in stays.meta.annotations
    assert await names(world.provider, link.cluster_namespace) == []
    roles = [role.meta.name for role in (await world.provider.list(ROLES, namespace)).items]
    assert roles == []


async def test_it_waits_for_the_operators_and_says_for_whom(world: World) -> None:
    link, namespace = await with_objects(world)
    held = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, held)
    left = f"widgets.{world.group} has 1 resource instances"
    holder = f"{left}; example.org/factory in 1 resource instances"
    told = asyncio.Event()

    def progress(line: str) -> None:
        if line.startswith(f"waiting for Namespace {namespace} (") and holder in line:
            told.set()

    consumer = await find_consumer(world.provider, link.cluster_namespace)
    interrupted = asyncio.create_task(
        revoke(world.provider, consumer, keep_data=False, timeout=SECONDS, progress=progress)
    )
    async with asyncio.timeout(SECONDS):
        await told.wait()
    interrupted.cancel()
    seconds, message = 4.0, ""
    # A busy machine may need longer until it can say for whom; a quiet one does not wait for it.
    while holder not in message and seconds < SECONDS:
        with pytest.raises(ClearingError, match="run the command again") as caught:
            await revoked(world.provider, link, timeout=seconds)
        seconds, message = 2 * seconds, str(caught.value)
    assert holder in message
    await is_locked_out(link)
    finishing = asyncio.create_task(finished(world.provider, link))
    await world.provider.merge_patch(
        world.widgets, "blue", namespace, {"metadata": {"finalizers": None}}
    )
    await finishing
    await gone(world.provider, NAMESPACES, namespace)


async def test_between_two_runs_no_right_comes_back(world: World) -> None:
    link, namespace = await with_objects(world)
    held = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, held)
    with pytest.raises(RevokeError, match="waits for"):
        await revoked(world.provider, link, timeout=8.0)
    export = APISERVICEEXPORTS, link.name, link.cluster_namespace
    await when(
        world.provider,
        *export,
        until=lambda body: condition(body, "PermissionsGranted").get("reason") == "Revoked",
    )
    # Whatever has the controllers look again gives nothing back.
    touched = {"metadata": {"annotations": {"example.org/touched": "yes"}}}
    await world.provider.merge_patch(*export, touched)
    await world.provider.merge_patch(NAMESPACES, link.cluster_namespace, "", touched)
    # Another consumer's whole way shows that they have looked.
    await other_consumer(world)
    assert await names(world.provider, link.cluster_namespace) == []
    with pytest.raises(InviteError, match="is being revoked"):
        await invite(
            world.provider,
            name="again",
            template=world.group if world.group != "example.org" else "widgets",
            identity=identity_of(await world.provider.get(NAMESPACES, link.cluster_namespace)),
        )
    with pytest.raises(RotateError, match="is being revoked"):
        await rotate(
            world.provider,
            await find_consumer(world.provider, link.cluster_namespace),
            options=InviteOptions(),
            timeout=1.0,
            finish=False,
            progress=lambda _line: None,
        )
    (row,) = [
        one for one in await consumers(world.provider) if one.namespace == link.cluster_namespace
    ]
    assert (row.deleting, row.warnings) == (True, [])
    free: JSON = {"metadata": {"finalizers": None}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, free)
    await finished(world.provider, link)


async def test_by_force_a_consumers_finalizers_hold_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can write as many as it likes, on all that it may write."""
    monkeypatch.setattr(bounds, "FINALIZER_SECONDS", 3.0)
    link, namespace = await with_objects(world)
    mine: JSON = {"metadata": {"finalizers": ["example.org/mine"]}}
    async with Client(parse_kubeconfig(link.response.kubeconfig)) as hostile:
        for resource, name, where in (
            (world.widgets, "blue", namespace),
            (SECRETS, "blue-origin", namespace),
            (APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace),
        ):
            await hostile.merge_patch(resource, name, where, mine)
        # One more beside ours.
        found = await hostile.get(APISERVICENAMESPACES, "default", link.cluster_namespace)
        both = {"metadata": {"finalizers": [*found.meta.finalizers, "example.org/mine"]}}
        await hostile.merge_patch(APISERVICENAMESPACES, "default", link.cluster_namespace, both)
    with pytest.raises(RevokeError, match="--force takes finalizers off"):
        await revoked(world.provider, link, timeout=4.0)
    told = "\n".join(await revoked(world.provider, link, force=True))
    for kind in ("Widget", "Secret", "APIServiceExportRequest", "APIServiceNamespace"):
        assert f"taking finalizers off by force: {kind} " in told
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)


async def test_no_force_takes_off_what_the_consumer_could_not_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "FINALIZER_SECONDS", 1.0)
    link, namespace = await with_objects(world)
    body = {"kind": "ServiceAccount", "apiVersion": "v1"}
    theirs = {"metadata": {"name": "theirs", "finalizers": ["example.org/theirs"]}}
    await world.provider.create(SERVICEACCOUNTS, body | theirs, namespace)
    told = ""
    async with asyncio.timeout(SECONDS):
        # On a busy machine the namespace still has other things in it the first time.
        while not re.search(r"serviceaccounts\.? has 1 .*; example.org/theirs in 1", told):
            with pytest.raises(ClearingError) as stuck:
                await revoked(world.provider, link, timeout=12.0, force=True)
            told = str(stuck.value)
    free: JSON = {"metadata": {"finalizers": None}}
    await world.provider.merge_patch(SERVICEACCOUNTS, "theirs", namespace, free)
    await finished(world.provider, link)


async def test_what_a_consumer_writes_into_annotations_costs_nobody_else(
    stack: AsyncExitStack,
) -> None:
    """Every consumer of a cluster-scoped kind may write all objects of it."""
    world = World(stack, scope="Cluster", options=ProviderOptions())
    await world.start()
    await world.konnector()
    gauges = msgspec.structs.replace(world.widgets, namespaced=False)
    link = await world.bound()
    body = world.widget()
    del body["metadata"]["namespace"]
    await world.consumer.create(gauges, body)
    await when(world.provider, gauges, f"{link.cluster_namespace}-blue", until=bool)
    native = {**body, "metadata": {"name": "native", "annotations": {}}}
    native["metadata"]["annotations"][ANNOTATION_CLUSTER_NAMESPACE] = link.cluster_namespace
    await world.provider.create(gauges, native)
    namespace = await find_consumer(world.provider, link.cluster_namespace)
    assert (await inventory(world.provider, namespace)).objects == 1
    await revoked(world.provider, link)
    assert (await world.provider.get(gauges, "native")).meta.name == "native"


@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep-data"])
async def test_a_kind_that_cannot_be_listed_keeps_no_access(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch, *, keep: bool
) -> None:
    """Its conversion webhook is down, so that every request for its objects is an error."""
    world = World(stack)
    await world.start()
    await world.konnector()
    link, namespace = await with_objects(world)
    other, theirs = await other_consumer(world)
    faults = world.provider_plane.faults
    faults.fail("*", "widgets", 500, times=-1)
    (row,) = [
        one for one in await consumers(world.provider) if one.namespace == link.cluster_namespace
    ]
    assert list(row.not_counted) == ["widgets.example.org"]
    found = await find_consumer(world.provider, link.cluster_namespace)
    assert "widgets.example.org is not counted: " in (await inventory(world.provider, found)).text(
        keep_data=keep
    )
    monkeypatch.setattr(bounds, "UNLISTED_SECONDS", 0.5)
    with pytest.raises(
        ClearingError, match=r"no longer has access, but .* list all .*widgets.example"
    ):
        await revoked(world.provider, link, keep=keep)
    await is_locked_out(link)
    assert await names(world.provider, link.cluster_namespace) == []
    assert await names(world.provider, other.cluster_namespace) == ["kube-binder"]
    assert not (await world.provider.get(NAMESPACES, theirs.meta.name)).meta.deleting
    faults.clear()
    if keep:
        kept = await world.provider.get(world.widgets, "blue", namespace)
        assert ANNOTATION_CLUSTER_NAMESPACE in kept.meta.annotations
    await finished(world.provider, link, keep=keep)
    if keep:
        kept = await world.provider.get(world.widgets, "blue", namespace)
        assert ANNOTATION_CLUSTER_NAMESPACE not in kept.meta.annotations
    else:
        await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)
    assert not (await world.provider.get(NAMESPACES, theirs.meta.name)).meta.deleting


async def test_a_kind_that_hangs_is_not_waited_for(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.2)
    world = World(stack)
    await world.start()
    await world.konnector()
    link, _ = await with_objects(world)
    world.provider_plane.faults.delay(2 * SECONDS, "list", "widgets")
    (row,) = await consumers(world.provider)
    assert row.not_counted == {
        "widgets.example.org": "the server has not answered for 0.2 s",
    }
    monkeypatch.setattr(bounds, "UNLISTED_SECONDS", 0.5)
    with pytest.raises(ClearingError, match="has not answered"):
        await revoked(world.provider, link)
    await is_locked_out(link)


async def test_a_kind_of_nobody_that_cannot_be_listed_holds_nothing(
    stack: AsyncExitStack,
) -> None:
    world = World(stack)
    await world.start()
    await world.konnector()
    await offer(world.provider, "other.org", scope="Cluster")
    link, namespace = await with_objects(world)
    # Both groups have a kind of this plural: the second is the one that nobody has bound.
    original = world.provider_plane.faults.apply

    async def apply(info: Any) -> None:
        if info.group == "other.org":
            raise StatusError(500, "InternalError", "conversion webhook failed")
        await original(info)

    world.provider_plane.faults.apply = apply  # type: ignore[method-assign]
    await revoked(world.provider, link)
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("*", "clusterbindings"),
        ("list", "rolebindings"),
        ("list", "clusterrolebindings"),
        ("delete", "roles"),
        ("list", "secrets"),
        ("delete", "serviceaccounts"),
    ],
)
async def test_what_cannot_be_taken_keeps_nothing_else_of_the_access(
    stack: AsyncExitStack, verb: str, resource: str
) -> None:
    world = World(stack)
    await world.start()
    await world.konnector()
    link, namespace = await with_objects(world)
    other, _ = await other_consumer(world)
    faults = world.provider_plane.faults
    faults.fail(verb, resource, 403, times=-1)
    with pytest.raises(RevokeError, match="did not touch its data: fix that, or use other"):
        await revoked(world.provider, link)
    faults.clear()
    if resource != "rolebindings":
        assert "kube-binder" not in await names(world.provider, link.cluster_namespace)
    await is_locked_out(link)
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting
    assert await names(world.provider, other.cluster_namespace) == ["kube-binder"]
    await revoked(world.provider, link)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)


async def test_a_cluster_namespace_that_was_deleted_by_hand_goes_with_all(world: World) -> None:
    """It takes no declaration any more, and waits for the provider namespaces."""
    link, namespace = await with_objects(world)
    await world.provider.delete(NAMESPACES, link.cluster_namespace)
    await gone(world.provider, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, link.cluster_namespace)
    await revoked(world.provider, link)
    await gone(world.provider, NAMESPACES, namespace)


async def test_a_deletion_that_the_server_refuses_is_told(stack: AsyncExitStack) -> None:
    world = World(stack)
    await world.start()
    await world.konnector()
    link, _ = await with_objects(world)
    faults = world.provider_plane.faults
    faults.fail("delete", "namespaces", 403, times=-1)
    with pytest.raises(ClearingError, match=r"waits for Namespace .*: injected fault: HTTP 403"):
        await revoked(world.provider, link, timeout=6.0)
    faults.clear()
    await finished(world.provider, link)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)


async def test_two_commands_at_once_and_an_invitation_meanwhile(world: World) -> None:
    link, namespace = await with_objects(world)
    held: JSON = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, held)
    before = await world.provider.get(NAMESPACES, link.cluster_namespace)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(revoked(world.provider, link))
        await when(
            world.provider,
            NAMESPACES,
            namespace,
            until=lambda body: body["metadata"].get("deletionTimestamp"),
        )
        with pytest.raises(InviteError, match="is being revoked"):
            await invite(
                world.provider,
                name="x",
                template=world.group if world.group != "example.org" else "widgets",
                identity=identity_of(before),
            )
        free: JSON = {"metadata": {"finalizers": None}}
        await world.provider.merge_patch(world.widgets, "blue", namespace, free)
    await gone(world.provider, NAMESPACES, link.cluster_namespace)
