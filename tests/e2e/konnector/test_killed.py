"""Commands of the consumer's side that are killed at each of their writes: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from tests.support.dying import DyingClient, KilledError
from tests.support.konnector import WIDGETS, Link, World, invited, widget
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, gone, when

from fairlead.api.kubebind import APISERVICEBINDINGBUNDLES, APISERVICEBINDINGS
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client
from fairlead.client.lookups import find, list_all
from fairlead.konnector.commands.bind import BindError, bind, bind_bundle
from fairlead.konnector.commands.readiness import WaitOptions
from fairlead.konnector.commands.unbind import UnbindError, unbind
from fairlead.konnector.rights import role_labels


MOST_WRITES = 30
"""Writes that no command needs."""
SAID = 4
"""Writes of unbind until all is said: two roles, a Secret, and the deletion."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        world = World(stack)
        await world.start()
        yield world


_ROLES = tuple(role_labels(""))
"""How the names of a binding's ClusterRoles begin."""


async def left(client: Client) -> set[str]:
    """What bind has written and is there: rights, Secrets, bindings, bundles."""
    roles = [one.meta.name for one in (await client.list(CLUSTERROLES)).items]
    secrets = [one.meta.name for one in (await client.list(SECRETS, "kube-bind")).items]
    found = {name for name in roles if name.startswith(_ROLES)}
    found |= {name for name in secrets if name.startswith("kubeconfig-")}
    for resource in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES):
        found |= {f"{one.kind} {one.meta.name}" for one in await list_all(client, resource)}
    return found


async def nothing_left(client: Client) -> None:
    async with asyncio.timeout(SECONDS):
        while await left(client):  # noqa: ASYNC110  several kinds have no common watch
            await asyncio.sleep(0.05)


async def dies(work: Coroutine[Any, Any, object]) -> bool:
    try:
        await work
    except KilledError:
        return True
    return False


async def with_copy(world: World, link: Link) -> str:
    """An object whose copy is at the provider; the copy's namespace."""
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    return namespace


async def is_going(client: Client, name: str) -> bool:
    found = await find(client, APISERVICEBINDINGS, name)
    return found is None or found.meta.deleting


async def killed_unbind(world: World, name: str, writes: int, **more: Any) -> bool:
    async with DyingClient(world.consumer.config, writes=writes) as client:
        return await dies(unbind(client, name, timeout=SECONDS, **more))


async def killed_once_said(client: Client, name: str, *, orphan: bool = False) -> None:
    """Unbind, and die as soon as the binding is being deleted."""
    async with DyingClient(client.config, writes=MOST_WRITES) as dying:

        def kill(line: str) -> None:
            if line.startswith("deleting"):
                dying.kill()

        assert await dies(unbind(dying, name, orphan=orphan, timeout=SECONDS, progress=kill))


@pytest.mark.parametrize("orphan", [False, True], ids=["all", "orphan"])
async def test_what_unbind_has_said_is_carried_out_without_it(
    world: World, *, orphan: bool
) -> None:
    await world.konnector()
    link = await world.bound()
    namespace = await with_copy(world, link)
    await killed_once_said(world.consumer, link.name, orphan=orphan)
    await nothing_left(world.consumer)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    assert (await find(world.provider, WIDGETS, "blue", namespace) is not None) is orphan


@pytest.mark.needs_control_plane
async def test_the_real_garbage_collector_carries_out_what_unbind_has_said(
    stack: AsyncExitStack, realplane: RealPlane
) -> None:
    world = World(stack, real="consumer", plane=realplane)
    await world.start()
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    binding = await world.consumer.get(APISERVICEBINDINGS, link.name)
    secret = binding.to_dict()["spec"]["kubeconfigSecretRef"]["name"]
    await killed_once_said(world.consumer, link.name)
    await gone(world.consumer, APISERVICEBINDINGS, link.name)
    await gone(world.consumer, SECRETS, secret, "kube-bind")
    for role in role_labels(link.name):
        await gone(world.consumer, CLUSTERROLES, role)
    await gone(world.provider, world.widgets, "blue", namespace)


@pytest.mark.extended
@pytest.mark.parametrize("orphan", [False, True], ids=["all", "orphan"])
async def test_unbind_is_killed_at_every_write(world: World, *, orphan: bool) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider)
    for writes in range(MOST_WRITES):
        await link.bind()
        namespace = await with_copy(world, link)
        died = await killed_unbind(world, link.name, writes, orphan=orphan)
        if not await is_going(world.consumer, link.name):
            # Nothing is begun: the binding lives, and so does what it brought.
            assert died
            await world.consumer.merge_patch(
                WIDGETS, "blue", "default", {"spec": {"colour": "red"}}
            )
            await when(world.provider, WIDGETS, "blue", namespace, until=is_red)
            await unbind(world.consumer, link.name, orphan=orphan, timeout=SECONDS)
        await nothing_left(world.consumer)
        await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
        if orphan:
            assert await find(world.provider, WIDGETS, "blue", namespace) is not None
            await world.provider.delete(WIDGETS, "blue", namespace)
        await gone(world.provider, WIDGETS, "blue", namespace)
        if not died:
            assert writes > SAID
            return
    pytest.fail("unbind never ended")


def is_red(body: JSON) -> bool:
    return bool(body["spec"]["colour"] == "red")


@pytest.mark.extended
async def test_unbinding_a_bundle_is_killed_at_every_write(world: World) -> None:
    await world.konnector(provider_polling_interval=0.5)
    link = await invited(world.consumer, world.provider)
    for writes in range(MOST_WRITES):
        await bind_bundle(world.consumer, link.response, name="all", timeout=SECONDS)
        namespace = await with_copy(world, link)
        died = await killed_unbind(world, "all", writes, bundle=True)
        if await find(world.consumer, APISERVICEBINDINGBUNDLES, "all") is not None:
            assert died
            assert not await is_going(world.consumer, link.name)
            await unbind(world.consumer, "all", bundle=True, timeout=SECONDS)
        await nothing_left(world.consumer)
        await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
        await gone(world.provider, WIDGETS, "blue", namespace)
        if not died:
            assert writes > SAID
            return
    pytest.fail("unbind never ended")


@pytest.mark.extended
async def test_a_bind_that_fails_is_killed_at_every_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it takes back what it has written: what it has said goes without it."""

    async def failed(*_args: object) -> None:
        raise BindError("nothing comes of it")

    monkeypatch.setattr(WaitOptions, "binding", failed)
    link = await invited(world.consumer, world.provider)
    alive = going = 0
    for writes in range(MOST_WRITES):
        async with DyingClient(world.consumer.config, writes=writes) as client:
            # One that fails by itself has taken back all that it wrote.
            with suppress(BindError):
                assert await dies(bind(client, link.response, timeout=SECONDS))
        died = client.dead.is_set()
        there = bool(await list_all(world.consumer, APISERVICEBINDINGS))
        if there:
            # What is there is of a binding that can be seen, so that unbind ends it.
            assert died
            await unbind(world.consumer, link.name, timeout=SECONDS)
        alive, going = alive + there, going + (died and not there)
        await nothing_left(world.consumer)
        if not died:
            break
    # Three writes of what stays come before the binding.
    assert alive > SAID
    assert going > SAID


@pytest.mark.extended
async def test_a_bind_is_killed_at_every_write(world: World) -> None:
    """With its last write all is said, and before that the next one goes on."""
    await world.konnector()
    link = await invited(world.consumer, world.provider)
    for writes in range(MOST_WRITES):
        async with DyingClient(world.consumer.config, writes=writes) as client:
            died = await dies(bind(client, link.response, timeout=SECONDS))
        if died:
            await link.bind()
        await link.condition("Ready", lambda found: found.get("status") == "True")
        namespace = await with_copy(world, link)
        await unbind(world.consumer, link.name, timeout=SECONDS)
        await nothing_left(world.consumer)
        await gone(world.provider, WIDGETS, "blue", namespace)
        if not died:
            assert writes >= SAID
            return
    pytest.fail("bind never ended")


async def test_a_binding_that_comes_meanwhile_keeps_its_way_to_the_provider(world: World) -> None:
    """A person makes it, while the last binding of before is taken apart.

    The konnector makes a Secret anew that a binding of its own uses.
    """
    konnector = await world.konnector()
    link = await world.bound()
    await with_copy(world, link)
    await konnector.stop()
    with pytest.raises(UnbindError, match="to go on waiting"):
        await unbind(world.consumer, link.name, timeout=0.3)
    going = await world.consumer.get(APISERVICEBINDINGS, link.name)
    (secret,) = (
        one
        for one in (await world.consumer.list(SECRETS, "kube-bind")).items
        if one.meta.name.startswith("kubeconfig-")
    )
    assert secret.meta.owned_by(going.meta.uid)
    body = {**going.to_dict(), "metadata": {"name": "other"}}
    await world.consumer.create(APISERVICEBINDINGS, body)
    await konnector.start()
    await gone(world.consumer, APISERVICEBINDINGS, link.name)
    await when(
        world.consumer,
        SECRETS,
        secret.meta.name,
        "kube-bind",
        # It is gone for a moment, until the konnector makes it anew.
        until=lambda body: body and "ownerReferences" not in body["metadata"],
    )


async def test_a_bind_keeps_what_a_killed_unbind_has_left_to_go(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    await konnector.stop()
    # All but the deletion: what goes with the binding is written down, and it lives.
    assert await killed_unbind(world, link.name, SAID - 1)
    await konnector.start()
    await link.bind()
    owned = [*(await world.consumer.list(CLUSTERROLES)).items]
    owned += (await world.consumer.list(SECRETS, "kube-bind")).items
    binding = await world.consumer.get(APISERVICEBINDINGS, link.name)
    assert not [one.meta.name for one in owned if one.meta.owned_by(binding.meta.uid)]
