"""The control side of the konnector: what is told to the provider, and whom it believes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.konnector import WIDGETS, Lies, Link, World, invited, offer, widget
from tests.support.waiting import condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    BINDER_NAME,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import SECRETS, Resource


async def export(link: Link, type_: str, status: str) -> JSON:
    """A condition of the export, once it has this status; "" stands for none."""
    body = await when(
        link.provider,
        APISERVICEEXPORTS,
        link.name,
        link.cluster_namespace,
        until=lambda body: condition(body, type_).get("status", "") == status,
    )
    return condition(body, type_)


async def test_an_export_carries_what_the_consumers_crds_say(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    for type_ in ("Connected", "ConsumerInSync", "Established", "NamesAccepted", "Ready"):
        await export(link, type_, "True")
    await world.consumer.delete(APISERVICEBINDINGS, link.name)
    await gone(world.consumer, APISERVICEBINDINGS, link.name)
    connected = await export(link, "Connected", "False")
    assert (connected["reason"], connected["severity"]) == ("APIServiceBindingNotFound", "Info")
    in_sync = await export(link, "ConsumerInSync", "False")
    assert (in_sync["reason"], in_sync["severity"]) == ("NA", "Info")
    await export(link, "Established", "")
    ready = await export(link, "Ready", "False")
    assert (ready["reason"], ready["severity"]) == ("APIServiceBindingNotFound", "Info")
    await when(
        world.provider,
        BOUNDSCHEMAS,
        WIDGETS.group_resource,
        link.cluster_namespace,
        until=lambda body: not body["status"].get("conditions"),
    )


@pytest.mark.parametrize("resource", [APISERVICEEXPORTS, BOUNDSCHEMAS], ids=["exports", "schemas"])
async def test_a_wrong_empty_list_stops_no_syncer(
    world: World, monkeypatch: pytest.MonkeyPatch, resource: Resource
) -> None:
    lies = Lies(monkeypatch, world.provider_plane)
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("old"))
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "old", namespace, until=bool)
    await lies.tell_nothing_of(resource)
    await link.condition("Connected", lambda one: one.get("status") == "False")
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.consumer.delete(WIDGETS, "old", "default")
    await gone(world.consumer, WIDGETS, "old", "default")
    await gone(world.provider, WIDGETS, "old", namespace)


async def test_a_name_that_begins_anothers_stops_nothing_of_the_other(world: World) -> None:
    await world.konnector()
    await offer(world.provider, "other.org")
    short = await invited(world.consumer, world.provider, name="foo", identity="shop")
    long = await invited(
        world.consumer, world.provider, name="foobar", template="other.org", identity="shop"
    )
    await long.bind()
    others = msgspec.structs.replace(WIDGETS, group="other.org")
    await short.bind()
    await world.consumer.delete(APISERVICEBINDINGS, "foo")
    await gone(world.consumer, APISERVICEBINDINGS, "foo")
    connected = await export(short, "Connected", "False")
    assert connected["reason"] == "APIServiceBindingNotFound"
    await world.consumer.create(others, {**widget(), "apiVersion": "other.org/v1"})
    namespace = await long.provider_namespace()
    await when(world.provider, others, "blue", namespace, until=bool)


class Credentials:
    """What the provider keeps for the consumer, and what the consumer works with."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def given(self) -> JSON:
        """The provider's kubeconfig."""
        found = await self._link.provider.get(SECRETS, "kubeconfig", self._link.cluster_namespace)
        text = base64.b64decode(found.to_dict()["data"]["kubeconfig"])
        kubeconfig: JSON = yaml.safe_load(text)
        return kubeconfig

    async def give(self, content: str | JSON) -> bytes:
        """Put another kubeconfig there."""
        text = (content if isinstance(content, str) else yaml.safe_dump(content)).encode()
        data = {"kubeconfig": base64.b64encode(text).decode()}
        namespace = self._link.cluster_namespace
        await self._link.provider.merge_patch(SECRETS, "kubeconfig", namespace, {"data": data})
        return text

    async def renewed(self, name: str) -> JSON:
        """The same with another token of the same account."""
        return await self.renewed_of(await self.given(), name)

    async def renewed_of(self, kubeconfig: JSON, name: str) -> JSON:
        namespace = self._link.cluster_namespace
        metadata = {
            "name": name,
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": BINDER_NAME},
        }
        body = {"type": "kubernetes.io/service-account-token", "metadata": metadata}
        await self._link.provider.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **body})
        found = await when(
            self._link.provider,
            SECRETS,
            name,
            namespace,
            until=lambda body: body.get("data", {}).get("token"),
        )
        token = base64.b64decode(found["data"]["token"]).decode()
        return with_user(kubeconfig, token=token)

    async def taken(self, content: bytes) -> None:
        """Wait until the consumer works with this."""
        wanted = base64.b64encode(content).decode()
        name, namespace = await self._place()
        await when(
            self._link.consumer,
            SECRETS,
            name,
            namespace,
            until=lambda body: body.get("data", {}).get("kubeconfig") == wanted,
        )

    async def in_use(self) -> bytes:
        name, namespace = await self._place()
        found = await self._link.consumer.get(SECRETS, name, namespace)
        return base64.b64decode(found.to_dict()["data"]["kubeconfig"])

    async def forget(self) -> None:
        """Delete the consumer's Secret."""
        await self._link.consumer.delete(SECRETS, *await self._place())

    async def said(self, status: str, reason: str = "") -> JSON:
        """SecretValid of the ClusterBinding, once it says so."""
        body = await when(
            self._link.provider,
            CLUSTERBINDINGS,
            "cluster",
            self._link.cluster_namespace,
            until=lambda body: (
                (one := condition(body, "SecretValid")).get("status") == status
                and one.get("reason", "") == reason
            ),
        )
        return condition(body, "SecretValid")

    async def _place(self) -> tuple[str, str]:
        binding = await self._link.consumer.get(APISERVICEBINDINGS, self._link.name)
        ref = binding.to_dict()["spec"]["kubeconfigSecretRef"]
        return ref["name"], ref["namespace"]


def with_user(kubeconfig: JSON, **user: str) -> JSON:
    (one,) = kubeconfig["users"]
    return {**kubeconfig, "users": [{**one, "user": user}]}


def with_cluster(kubeconfig: JSON, **cluster: str) -> JSON:
    (one,) = kubeconfig["clusters"]
    return {**kubeconfig, "clusters": [{**one, "cluster": {**one["cluster"], **cluster}}]}


def with_context(kubeconfig: JSON, **context: str) -> JSON:
    (one,) = kubeconfig["contexts"]
    return {**kubeconfig, "contexts": [{**one, "context": {**one["context"], **context}}]}


BROKEN = [
    pytest.param(lambda _: "{ very-secret", "YAML", id="unparsable"),
    pytest.param(
        lambda known: with_cluster(known, server="https://127.0.0.1:1"),
        "127.0.0.1:1",
        id="unreachable",
    ),
    pytest.param(
        lambda known: with_user(known, token="very-secret"),
        "nauthorized",
        id="revoked-token",
    ),
    pytest.param(
        lambda known: with_context(known, namespace="very-other"), "very-other", id="namespace"
    ),
    pytest.param(with_user, "nonymous", id="no-credentials"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN)
async def test_a_broken_kubeconfig_never_replaces_a_working_one(
    world: World, broken: Any, message: str
) -> None:
    await world.konnector()
    link = await world.bound()
    credentials = Credentials(link)
    await credentials.said("True")
    working, known = await credentials.in_use(), await credentials.given()
    await credentials.give(broken(known))
    told = await credentials.said("False", "ProviderSecretInvalid")
    assert told["severity"] == "Warning"
    assert message in told["message"]
    assert "very-secret" not in str(told)
    assert await credentials.in_use() == working
    await link.condition("Heartbeating", lambda one: one.get("status") == "True")
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await credentials.forget()
    good = await credentials.give(await credentials.renewed_of(known, "kubeconfig-2"))
    await credentials.taken(good)
    await credentials.said("True")


async def test_credentials_are_rotated_under_load(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    credentials = Credentials(link)
    namespace = await _loaded(world, link)
    names = [f"widget-{number}" for number in range(60)]

    async def load() -> None:
        for name in names:
            await world.consumer.create(WIDGETS, widget(name))
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        group.create_task(load())
        for number in range(3):
            good = await credentials.give(await credentials.renewed(f"token-{number}"))
            await credentials.taken(good)
    for name in names:
        await when(world.provider, WIDGETS, name, namespace, until=bool)
    await credentials.said("True")
    assert len((await world.provider.list(WIDGETS, namespace)).items) == len(names) + 1


async def _loaded(world: World, link: Link) -> str:
    await world.consumer.create(WIDGETS, widget("first"))
    return await link.provider_namespace()


async def test_a_lost_secret_of_the_provider_is_told_and_the_line_stays(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    credentials = Credentials(link)
    known, working = await credentials.given(), await credentials.in_use()
    await world.provider.delete(SECRETS, "kubeconfig", link.cluster_namespace)
    told = await credentials.said("False", "ProviderSecretNotFound")
    assert told["severity"] == "Warning"
    assert await credentials.in_use() == working
    metadata = {"name": "kubeconfig", "namespace": link.cluster_namespace}
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}
    await world.provider.create(SECRETS, empty)
    told = await credentials.said("False", "ProviderSecretInvalid")
    assert "key is missing" in told["message"]
    good = await credentials.give(await credentials.renewed_of(known, "again"))
    await credentials.taken(good)
    await credentials.said("True")


async def test_a_heartbeat_that_is_refused_is_told(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await Credentials(link).said("True")
    world.provider_plane.faults.fail("patch", "clusterbindings", 403, times=-1)
    await world.provider.delete(SECRETS, "kubeconfig", link.cluster_namespace)
    told = await link.condition("Heartbeating", lambda one: one.get("status") == "False")
    assert (told["reason"], told["severity"]) == ("ClusterBindingUpdateFailed", "Warning")
    world.provider_plane.faults.clear()
    await link.condition("Heartbeating", lambda one: one.get("status") == "True")
