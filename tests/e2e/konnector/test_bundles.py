"""Bundles bind whatever a provider exports, and lose nothing by mistake."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.konnector import (
    WIDGETS,
    Lies,
    Link,
    Requests,
    World,
    event,
    invited,
    konnector,
    offer,
    quiet,
    widget,
)
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    KUBECONFIG_NAME,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.unbind import UnbindError, unbind


INTERVAL = 0.2


@pytest.fixture
async def world(world: World, stack: AsyncExitStack) -> World:
    await stack.enter_async_context(konnector(world.consumer, provider_polling_interval=INTERVAL))
    return world


@pytest.fixture
async def any_world(any_world: World, stack: AsyncExitStack) -> World:
    await stack.enter_async_context(
        konnector(any_world.consumer, provider_polling_interval=INTERVAL)
    )
    return any_world


class Bundle:
    """A bundle of the consumer, and the provider's side of it."""

    def __init__(self, link: Link, name: str = "all") -> None:
        self.link = link
        self.name = name
        self.ref = {"name": f"{name}-way", "namespace": "kube-bind", "key": KUBECONFIG_NAME}
        self.consumer = link.consumer
        self.provider = link.provider

    async def create(self, *, secret: bool = True) -> None:
        if secret:
            await self.give(self.link.response.kubeconfig)
        body = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "APIServiceBindingBundle"}
        spec = {"kubeconfigSecretRef": self.ref}
        await self.consumer.create(
            APISERVICEBINDINGBUNDLES, {**body, "metadata": {"name": self.name}, "spec": spec}
        )

    async def give(self, kubeconfig: bytes) -> None:
        data = {KUBECONFIG_NAME: base64.b64encode(kubeconfig).decode()}
        metadata = {"name": self.ref["name"], "namespace": self.ref["namespace"]}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        await self.consumer.create(SECRETS, body)

    async def export(self, link: Link) -> None:
        """Have the provider export what an invitation offers."""
        body = msgspec.to_builtins(link.response.requests[0])
        body["metadata"] = {"name": link.name, "namespace": link.cluster_namespace}
        await self.provider.create(APISERVICEEXPORTREQUESTS, body)

    async def allow(self, link: Link) -> list[str]:
        """What an administrator does for each binding: the konnector can write no rights."""
        lines: list[str] = []
        await accept(self.consumer, link.name, timeout=SECONDS, progress=lines.append)
        return lines

    async def said(self, type_: str, status: str, reason: str = "") -> JSON:
        body = await when(
            self.consumer,
            APISERVICEBINDINGBUNDLES,
            self.name,
            until=lambda body: (
                (one := condition(body, type_)).get("status") == status
                and one.get("reason", "") == reason
            ),
        )
        return condition(body, type_)

    async def binding(self, name: str = "") -> JSON:
        return await when(self.consumer, APISERVICEBINDINGS, name or self.link.name, until=bool)


@pytest.fixture
async def bundle(world: World) -> Bundle:
    return Bundle(await invited(world.consumer, world.provider, identity="one"))


async def works(link: Link) -> None:
    """Wait until a binding is ready; as long as little is known of it, it says so too."""
    for type_ in ("SchemaInSync", "InformersSynced", "Ready"):
        await link.condition(type_, lambda one: one.get("status") == "True")


async def bound(bundle: Bundle) -> None:
    """One export, bound and at work."""
    await bundle.create()
    await bundle.export(bundle.link)
    await bundle.binding()
    await bundle.allow(bundle.link)
    await works(bundle.link)


@pytest.mark.edge
async def test_a_bundle_binds_whatever_the_provider_exports(any_world: World) -> None:
    world, name = any_world, any_world.name
    template = "widgets" if name == "widgets" else world.group
    link = await invited(world.consumer, world.provider, name=name, template=template)
    bundle = Bundle(link, f"all-{name}")
    await bundle.create()
    await bundle.said("SecretValid", "True")
    await bundle.said("Synced", "True")
    await bundle.said("Ready", "True")
    await bundle.export(link)
    body = await bundle.binding()
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        *("APIServiceBindingBundle", bundle.name, True),
    )
    assert body["spec"]["kubeconfigSecretRef"] == bundle.ref
    await event(world.consumer, "default", "BindingCreated")
    told = await link.condition("InformersSynced", lambda one: one.get("status") == "False")
    assert f"`fairlead accept {name}` writes that role" in told["message"]
    lines = await bundle.allow(link)
    assert lines[:3] == [
        f"binds {world.widgets.group_resource}",
        "claims secrets.core",
        "claims configmaps.core",
    ]
    assert not [line for line in await bundle.allow(link) if "ClusterRole" in line]
    await works(link)
    await world.consumer.create(world.widgets, world.widget())
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    await world.provider.delete(APISERVICEEXPORTS, name, link.cluster_namespace)
    await gone(world.consumer, APISERVICEBINDINGS, name)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, world.widgets.group_resource)
    await world.consumer.delete(APISERVICEBINDINGBUNDLES, bundle.name)


async def test_what_cannot_be_accepted(world: World, bundle: Bundle) -> None:
    with pytest.raises(BindError, match="there are none"):
        await accept(world.consumer, "widgets", timeout=SECONDS)
    await bundle.create()
    await bundle.export(bundle.link)
    await bundle.binding()
    with pytest.raises(BindError, match=r"did you mean widgets\?"):
        await accept(world.consumer, "gadgets", timeout=SECONDS)
    ref = {**bundle.ref, "key": "other"}
    for name in ("mine", "lost"):
        body = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "APIServiceBinding"}
        spec = {"kubeconfigSecretRef": bundle.ref if name == "mine" else ref}
        await world.consumer.create(
            APISERVICEBINDINGS, {**body, "metadata": {"name": name}, "spec": spec}
        )
    with pytest.raises(BindError, match="no APIServiceExport mine"):
        await accept(world.consumer, "mine", timeout=SECONDS)
    with pytest.raises(BindError, match="Secret kube-bind/all-way, key 'other'"):
        await accept(world.consumer, "lost", timeout=SECONDS)


async def test_a_binding_that_nobody_accepted_goes_too(
    stack: AsyncExitStack,
) -> None:
    """Without the right to delete its CRD the konnector leaves it to the garbage collector."""
    world = World(stack)
    await world.start()
    await stack.enter_async_context(konnector(world.consumer, unbind_timeout=0.5))
    bundle = Bundle(await invited(world.consumer, world.provider, identity="one"))
    await bundle.create()
    await bundle.export(bundle.link)
    await bundle.binding()
    await when(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource, until=bool)
    await world.consumer.delete(APISERVICEBINDINGBUNDLES, "all")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    told = await event(world.consumer, "default", "RightsMissing")
    assert "`fairlead accept widgets` writes that role" in told["message"]


async def test_bindings_come_and_go_with_their_exports(world: World, bundle: Bundle) -> None:
    await bound(bundle)
    await world.consumer.create(WIDGETS, widget())
    await offer(world.provider, "other.org")
    other = await invited(
        world.consumer, world.provider, name="gadgets", template="other.org", identity="one"
    )
    await bundle.export(other)
    await bundle.binding("gadgets")
    await bundle.allow(other)
    await works(other)
    await world.provider.delete(APISERVICEEXPORTS, "gadgets", other.cluster_namespace)
    await gone(world.consumer, APISERVICEBINDINGS, "gadgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, "widgets.other.org")
    await event(world.consumer, "default", "BindingDeleted")
    await bundle.link.condition("Ready", lambda one: one.get("status") == "True")
    namespace = await bundle.link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.consumer.delete(APISERVICEBINDINGBUNDLES, "all")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    await gone(world.provider, WIDGETS, "blue", namespace)


async def asked(requests: Requests, times: int) -> None:
    """Wait until the provider was asked about the export itself this often."""
    async with asyncio.timeout(SECONDS):
        while requests.count("get", resource="apiserviceexports") < times:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("code", [0, 403, 404, 500], ids=["lists", "403", "404", "500"])
async def test_a_wrong_empty_list_unbinds_nothing(
    world: World, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Whatever the provider answers, besides that this very export is not there."""
    lies = Lies(monkeypatch, world.provider_plane)
    await bound(bundle)
    requests = Requests(world.provider_plane)
    await lies.tell_nothing_of(APISERVICEEXPORTS)
    if code:
        world.provider_plane.faults.fail("get", "apiserviceexports", code, times=-1)
    await asked(requests, 4)
    if code:
        told = await bundle.said("Synced", "False", "SyncErrors")
        assert "APIServiceExport widgets" in told["message"]
    assert "deletionTimestamp" not in (await bundle.binding())["metadata"]
    lies.stop()
    touched = {"metadata": {"annotations": {"example.org/touched": "true"}}}
    namespace = bundle.link.cluster_namespace
    await world.provider.merge_patch(APISERVICEEXPORTS, "widgets", namespace, touched)
    await bundle.said("Synced", "True")
    await works(bundle.link)


async def test_a_binding_of_somebody_else_is_neither_adopted_nor_deleted(
    world: World, bundle: Bundle
) -> None:
    link = await world.bound()
    bundle.link = await invited(world.consumer, world.provider, identity="one")
    await bundle.create()
    await bundle.export(bundle.link)
    told = await bundle.said("Synced", "False", "SyncErrors")
    assert told["severity"] == "Warning"
    assert told["message"].startswith("1 error: APIServiceBinding widgets exists")
    assert "ownerReferences" not in (await bundle.binding())["metadata"]
    await event(world.consumer, "default", "SyncErrors")
    await world.consumer.delete(APISERVICEBINDINGBUNDLES, "all")
    await gone(world.consumer, APISERVICEBINDINGBUNDLES, "all")
    await link.condition("Ready", lambda one: one.get("status") == "True")
    await bundle.create(secret=False)
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await bundle.said("Synced", "True")
    assert (await bundle.binding())["metadata"]["ownerReferences"][0]["name"] == "all"


async def test_a_binding_of_a_bundle_is_not_unbound_alone(world: World, bundle: Bundle) -> None:
    await bound(bundle)
    before = (await bundle.binding())["metadata"]
    with pytest.raises(UnbindError, match=r"Bundle all created .*unbind --bundle all"):
        await unbind(world.consumer, bundle.link.name, orphan=True, timeout=SECONDS)
    after = (await bundle.binding())["metadata"]
    # Its status may change at any time, and with it version and owners of fields.
    for kept in ("uid", "finalizers", "ownerReferences", "annotations", "deletionTimestamp"):
        assert after.get(kept) == before.get(kept)
    await world.consumer.delete(APISERVICEBINDINGBUNDLES, bundle.name)
    await gone(world.consumer, APISERVICEBINDINGS, bundle.link.name)


async def test_a_bundle_says_what_is_wrong_with_its_secret(world: World, bundle: Bundle) -> None:
    await bundle.create(secret=False)
    await bundle.said("SecretValid", "False", "KubeconfigSecretNotFound")
    await bundle.said("Synced", "False", "ProviderClientError")
    await bundle.give(b"{")
    await bundle.said("SecretValid", "False", "KubeconfigSecretInvalid")
    ready = await bundle.said("Ready", "False", "KubeconfigSecretInvalid")
    assert ready["severity"] == "Error"
    await world.consumer.delete(SECRETS, bundle.ref["name"], bundle.ref["namespace"])
    await bundle.give(bundle.link.response.kubeconfig)
    await bundle.said("Ready", "True")


async def test_a_bundle_says_that_exports_cannot_be_listed(world: World, bundle: Bundle) -> None:
    for verb in ("list", "watch"):
        world.provider_plane.faults.fail(verb, "apiserviceexports", 403, times=-1)
    await bundle.create()
    told = await bundle.said("Synced", "False", "ListExportsFailed")
    assert told["severity"] == "Error"
    world.provider_plane.faults.clear()
    await bundle.said("Synced", "True")


async def test_a_settled_bundle_writes_nothing_and_asks_nothing(
    world: World, bundle: Bundle
) -> None:
    await bound(bundle)
    await quiet(Requests(world.provider_plane), Requests(world.consumer_plane))
