"""Outcomes as an administrator reads them: condition, reason and severity, until they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from tests.support.konnector import WIDGETS, Link, Requests, World, invited, secret, widget
from tests.support.provider import example, prepare, running
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    Isolation,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS, SECRETS, Resource
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.provider.options import ProviderOptions
from fairlead.runtime import install_crds


GADGETS = Resource("example.org", "v1", "gadgets", "Gadget")


class Seen:
    """One object of one side, and what its conditions come to say."""

    def __init__(self, link: Link, resource: Resource, name: str = "") -> None:
        self._client = link.consumer if resource == APISERVICEBINDINGS else link.provider
        self._namespace = "" if resource == APISERVICEBINDINGS else link.cluster_namespace
        self._resource = resource
        self._name = name or link.name

    async def says(self, type_: str, status: str, severity: str = "", reason: str = "") -> str:
        """The condition's message, once the condition is exactly so."""

        def so(body: JSON) -> bool:
            one = condition(body, type_) if body else {}
            found = (one.get("status"), one.get("severity", ""), one.get("reason", ""))
            return found == (status, severity, reason)

        body = await when(self._client, self._resource, self._name, self._namespace, until=so)
        message: str = condition(body, type_).get("message", "")
        return message


def binding_of(link: Link) -> Seen:
    return Seen(link, APISERVICEBINDINGS)


def export_of(link: Link) -> Seen:
    return Seen(link, APISERVICEEXPORTS)


async def bind_by_hand(link: Link, name: str, *, kubeconfig: bool = True) -> Seen:
    """A binding as people write it, with its Secret, or with that to come."""
    ref = {"name": "by-hand", "namespace": DEFAULT_NAMESPACE, "key": "kubeconfig"}
    if kubeconfig:
        await give_kubeconfig(link)
    body = {
        "apiVersion": API_VERSION,
        "kind": "APIServiceBinding",
        "metadata": {"name": name},
        "spec": {"kubeconfigSecretRef": ref},
    }
    await link.consumer.create(APISERVICEBINDINGS, body)
    return Seen(link, APISERVICEBINDINGS, name)


async def give_kubeconfig(link: Link) -> None:
    kubeconfig = link.response.kubeconfig.decode()
    body = secret("by-hand", DEFAULT_NAMESPACE, kubeconfig=kubeconfig)
    await link.consumer.create(SECRETS, body)


async def ask(link: Link, name: str, change: Callable[[JSON], None]) -> Seen:
    """A request like that of the invitation, changed, under another name."""
    body = msgspec.to_builtins(link.response.requests[0])
    change(body["spec"])
    body["metadata"] = {"name": name, "namespace": link.cluster_namespace}
    await link.provider.create(APISERVICEEXPORTREQUESTS, body)
    return Seen(link, APISERVICEEXPORTREQUESTS, name)


def crd_of(resource: Resource, *, like: Resource = WIDGETS, **spec: Any) -> JSON:
    """A CRD like that of the example, for another resource."""
    text = msgspec.json.encode(example("crd"))
    text = text.replace(b"widgets", resource.plural.encode())
    text = text.replace(b'"widget"', f'"{resource.kind.lower()}"'.encode())
    text = text.replace(like.kind.encode(), resource.kind.encode())
    body: JSON = msgspec.json.decode(text)
    body["spec"]["names"].pop("shortNames", None)
    return {**body, "spec": {**body["spec"], **spec}}


async def test_a_binding_without_its_secret_until_there_is_one(world: World) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider)
    seen = await bind_by_hand(link, "widgets", kubeconfig=False)
    told = await seen.says("SecretValid", "False", "Error", "KubeconfigSecretNotFound")
    assert "kube-bind/by-hand not found" in told
    await seen.says("Ready", "False", "Error", "KubeconfigSecretNotFound")
    await give_kubeconfig(link)
    await seen.says("SecretValid", "True")
    await seen.says("Heartbeating", "True")
    told = await seen.says("Connected", "False", "Error", "APIServiceExportNotFound")
    assert "no APIServiceExport widgets" in told


async def test_a_labelled_secret_gives_heartbeats_before_anything_is_bound(world: World) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider)
    seen = Seen(link, CLUSTERBINDINGS, "cluster")
    await seen.says("Healthy", "False", "Info", "FirstHeartbeatPending")
    await give_kubeconfig(link)
    labels = {"kube-bind.io/provider-kubeconfig": "true"}
    change = {"metadata": {"labels": labels}}
    await world.consumer.merge_patch(SECRETS, "by-hand", DEFAULT_NAMESPACE, change)
    for type_ in ("Healthy", "SecretValid", "ValidVersion", "Ready"):
        await seen.says(type_, "True")
    found = await world.provider.get(CLUSTERBINDINGS, "cluster", link.cluster_namespace)
    ref = {"name": "by-hand", "namespace": DEFAULT_NAMESPACE}
    assert found.to_dict()["status"]["consumerSecretRef"] == ref


async def test_a_request_that_failed_is_told_on_its_binding(world: World) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider)

    def twice(spec: JSON) -> None:
        spec["permissionClaims"] = [spec["permissionClaims"][0]] * 2

    request = await ask(link, "twice", twice)
    told = await request.says("PermissionClaim", "False", "Error", "DuplicatePermissionClaim")
    assert "spec.permissionClaims[1]: secrets.core is claimed twice" in told
    await request.says("Ready", "False", "Error", "DuplicatePermissionClaim")
    seen = await bind_by_hand(link, "twice")
    told = await seen.says("Connected", "False", "Error", "APIServiceExportFailed")
    assert "claimed twice" in told


async def test_a_crd_that_the_provider_deletes_is_told_by_the_export_until_it_is_back(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    export, schema = export_of(link), (WIDGETS.group_resource, link.cluster_namespace)
    await export.says("ProviderInSync", "True")
    before = (await world.provider.get(BOUNDSCHEMAS, *schema)).to_dict()["spec"]
    crd = await world.provider.get(CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    await world.provider.delete(CUSTOMRESOURCEDEFINITIONS, crd.meta.name)
    told = await export.says("ProviderInSync", "False", "Error", "SchemaNotFound")
    assert crd.meta.name in told
    # No schema is taken from the consumer, and none of its objects.
    assert (await world.provider.get(BOUNDSCHEMAS, *schema)).to_dict()["spec"] == before
    await world.consumer.get(WIDGETS, "blue", "default")
    body = crd.to_dict()
    labels = {"name": crd.meta.name, "labels": dict(crd.meta.labels)}
    await install_crds(world.provider, [{**body, "metadata": labels, "status": {}}])
    await export.says("ProviderInSync", "True")


async def test_a_missing_schema_is_told_by_all_three_and_stops_what_needs_it(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    binding, export = binding_of(link), export_of(link)
    await export.says("ProviderInSync", "True")
    name, namespace = WIDGETS.group_resource, link.cluster_namespace
    schema = (await world.provider.get(BOUNDSCHEMAS, name, namespace)).to_dict()
    await world.provider.delete(APISERVICEEXPORTREQUESTS, link.name, namespace)
    await gone(world.provider, APISERVICEEXPORTREQUESTS, link.name, namespace)
    await world.provider.delete(BOUNDSCHEMAS, name, namespace)
    await export.says("ProviderInSync", "False", "Error", "BoundSchemaMissing")
    told = await export.says("Connected", "False", "Warning", "BoundSchemasNotValid")
    assert name in told
    told = await binding.says("Connected", "False", "Error", "BoundSchemaFetchFailed")
    assert name in told
    await binding.says("Ready", "False", "Error", "BoundSchemaFetchFailed")
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        schema["metadata"].pop(key, None)
    schema.pop("status", None)
    await world.provider.create(BOUNDSCHEMAS, schema)
    await export.says("ProviderInSync", "True")
    await export.says("Connected", "True")
    await binding.says("Ready", "True")


async def test_a_crd_that_cannot_be_created_until_it_can(world: World) -> None:
    await world.konnector()
    world.consumer_plane.faults.fail("create", "customresourcedefinitions", 403, times=-1)
    link = await invited(world.consumer, world.provider)
    binding, export = binding_of(link), export_of(link)
    task = asyncio.create_task(link.bind())
    told = await binding.says(
        "Connected", "False", "Error", "CustomResourceDefinitionCreateFailed"
    )
    assert WIDGETS.group_resource in told
    await export.says("Connected", "True")
    await export.says("ConsumerInSync", "False", "Info", "Unknown")
    world.consumer_plane.faults.clear()
    await task
    await binding.says("Connected", "True")
    await export.says("ConsumerInSync", "True")


async def test_a_crd_that_the_cache_does_not_tell_of_yet(world: World) -> None:
    await world.konnector()
    faults, crds = world.consumer_plane.faults, CUSTOMRESOURCEDEFINITIONS.plural
    faults.fail("watch", crds, 503, times=-1)
    faults.drop_watches(crds)
    requests = Requests(world.consumer_plane)
    link = await invited(world.consumer, world.provider)
    task = asyncio.create_task(link.bind())

    async def created(times: int) -> None:
        async with asyncio.timeout(SECONDS):
            while requests.count("create", resource=crds) < times:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    await created(1)
    touched = {"metadata": {"annotations": {"seen": "again"}}}
    await world.provider.merge_patch(APISERVICEEXPORTS, "widgets", link.cluster_namespace, touched)
    await created(2)
    faults.clear()
    await task
    await binding_of(link).says("Connected", "True")
    told = {one.to_dict()["reason"] for one in (await world.consumer.list(EVENTS)).items}
    assert "CustomResourceDefinitionCreateFailed" not in told
    assert "CustomResourceDefinitionNotEstablished" in told


async def test_a_crd_that_cannot_be_updated_until_it_can(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    binding = binding_of(link)
    world.consumer_plane.faults.fail("update", "customresourcedefinitions", 403, times=-1)
    found = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)).to_dict()
    found["spec"]["names"]["shortNames"] = ["wdg"]
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, found)
    told = await binding.says(
        "Connected", "False", "Error", "CustomResourceDefinitionUpdateFailed"
    )
    assert WIDGETS.group_resource in told
    world.consumer_plane.faults.clear()
    await binding.says("Connected", "True")
    await when(
        world.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        WIDGETS.group_resource,
        until=lambda body: body["spec"]["names"]["shortNames"] == ["wdg"],
    )


async def test_a_crd_whose_names_are_taken_is_told_on_both_sides(world: World) -> None:
    await world.konnector()
    other = crd_of(GADGETS)
    other["spec"]["names"] |= {"kind": "Widget", "listKind": "WidgetList"}
    await install_crds(world.consumer, [other])
    link = await invited(world.consumer, world.provider)
    task = asyncio.create_task(link.bind())
    binding, export = binding_of(link), export_of(link)
    schema = Seen(link, BOUNDSCHEMAS, WIDGETS.group_resource)
    for seen, type_ in ((binding, "SchemaInSync"), (export, "ConsumerInSync")):
        await seen.says(type_, "False", "Info", "CustomResourceDefinitionNotEstablished")
    body = await when(
        world.provider,
        APISERVICEEXPORTS,
        link.name,
        link.cluster_namespace,
        until=lambda body: condition(body, "NamesAccepted").get("status") == "False",
    )
    told = condition(body, "NamesAccepted")
    assert told["severity"] == "Error"
    assert told["message"].startswith(f"{WIDGETS.group_resource}: ")
    for seen in (export, schema):
        await seen.says("NamesAccepted", "False", "Error", told["reason"])
        await seen.says("Established", "False", "Error", "NotAccepted")
    await world.consumer.delete(CUSTOMRESOURCEDEFINITIONS, GADGETS.group_resource)
    await task
    for type_, reason in (
        ("NamesAccepted", "NoConflicts"),
        ("Established", "InitialNamesAccepted"),
    ):
        await export.says(type_, "True")
        await schema.says(type_, "True", reason=reason)
    await export.says("Ready", "True")


async def test_an_export_made_anew_brings_no_more_than_was_agreed_to(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    binding, export = binding_of(link), export_of(link)
    await binding.says("PermissionClaim", "True")
    await install_crds(world.provider, [crd_of(GADGETS)])
    for resource in (APISERVICEEXPORTREQUESTS, APISERVICEEXPORTS):
        await world.provider.delete(resource, link.name, link.cluster_namespace)
        await gone(world.provider, resource, link.name, link.cluster_namespace)

    def wider(spec: JSON) -> None:
        spec["resources"].append({**spec["resources"][0], "resource": "gadgets"})
        spec["permissionClaims"][0]["selector"] = {"labelSelector": {}}

    template = (await world.provider.get(APISERVICEEXPORTTEMPLATES, link.name)).to_dict()
    wider(template["spec"])
    await world.provider.update(APISERVICEEXPORTTEMPLATES, template)
    await ask(link, link.name, wider)
    told = await binding.says("Connected", "False", "Error", "APIServiceExportChanged")
    assert "gadgets.example.org" in told
    told = await binding.says("PermissionClaim", "False", "Warning", "ClaimRefused")
    assert "to accept the new ones, delete the binding" in told
    await export.says("ProviderInSync", "True")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, GADGETS.group_resource)


@pytest.mark.parametrize(
    "others",
    [ProviderOptions(consumer_scope="Cluster"), ProviderOptions(isolation="Namespaced")],
    ids=["scope", "isolation"],
)
async def test_a_provider_that_is_started_with_other_options_keeps_its_exports(
    stack: AsyncExitStack, others: ProviderOptions
) -> None:
    world = World(stack)
    _, provider = await world.plane("provider")
    _, world.consumer = await world.plane("consumer")
    await prepare(provider, exports=[WIDGETS.group_resource])
    await world.konnector()
    async with running(provider):
        link = await invited(world.consumer, provider)
        await link.bind()
    async with running(provider, others):
        found = (await provider.get(CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)).to_dict()
        found["spec"]["names"]["shortNames"] = ["wdg"]
        await provider.update(CUSTOMRESOURCEDEFINITIONS, found)
        await when(
            world.consumer,
            CUSTOMRESOURCEDEFINITIONS,
            WIDGETS.group_resource,
            until=lambda body: body["spec"]["names"]["shortNames"] == ["wdg"],
        )
        await world.consumer.create(WIDGETS, widget())
        namespace = await link.provider_namespace()
        await when(provider, WIDGETS, "blue", namespace, until=bool)
        await binding_of(link).says("Ready", "True")


async def test_bindings_that_cannot_be_listed_are_told_on_the_bundle(world: World) -> None:
    await world.konnector(provider_polling_interval=1.0)
    link = await invited(world.consumer, world.provider)
    await give_kubeconfig(link)
    ref = {"name": "by-hand", "namespace": DEFAULT_NAMESPACE, "key": "kubeconfig"}
    body = {"apiVersion": API_VERSION, "kind": "APIServiceBindingBundle"}
    spec = {"kubeconfigSecretRef": ref}
    await world.consumer.create(
        APISERVICEBINDINGBUNDLES, {**body, "metadata": {"name": "all"}, "spec": spec}
    )

    async def synced(status: str, reason: str = "") -> JSON:
        found = await when(
            world.consumer,
            APISERVICEBINDINGBUNDLES,
            "all",
            until=lambda body: (
                (one := condition(body, "Synced")).get("status") == status
                and one.get("reason", "") == reason
            ),
        )
        return condition(found, "Synced")

    await synced("True")
    faults = world.consumer_plane.faults
    for verb in ("list", "watch"):
        faults.fail(verb, APISERVICEBINDINGS.plural, 403, times=-1)
    faults.drop_watches(APISERVICEBINDINGS.plural)
    metadata = {"metadata": {"labels": {"look": "again"}}}
    await world.consumer.merge_patch(APISERVICEBINDINGBUNDLES, "all", "", metadata)
    assert (await synced("False", "ListBindingsFailed"))["severity"] == "Error"
    faults.clear()
    await synced("True")


async def test_a_version_that_is_none_is_told_to_the_provider(world: World) -> None:
    await world.konnector(version="latest")
    link = await world.bound()
    seen = Seen(link, CLUSTERBINDINGS, "cluster")
    told = await seen.says("ValidVersion", "False", "Warning", "ParseError")
    assert "latest" in told
    await seen.says("Healthy", "True")
    await seen.says("Ready", "False", "Warning", "ParseError")
    found = await world.provider.get(CLUSTERBINDINGS, "cluster", link.cluster_namespace)
    assert found.to_dict()["status"]["konnectorVersion"] == "unknown"


async def test_a_heartbeat_without_an_interval_says_nothing(world: World) -> None:
    link = await invited(world.consumer, world.provider)
    seen = Seen(link, CLUSTERBINDINGS, "cluster")
    await seen.says("Healthy", "False", "Info", "FirstHeartbeatPending")
    status = {"lastHeartbeatTime": "2024-01-01T00:00:00Z"}
    await world.provider.merge_patch(
        CLUSTERBINDINGS,
        "cluster",
        link.cluster_namespace,
        {"status": status},
        subresource="status",
    )
    await seen.says("Healthy", "False", "Info", "HeartbeatIntervalMissing")


@pytest.mark.parametrize(
    ("isolation", "spec", "both", "reason", "told"),
    [
        pytest.param(
            *("Prefixed", {"scope": "Cluster"}, True, "DifferentScopes", "same scope"),
            id="one namespaced and one cluster-scoped",
        ),
        pytest.param(
            *("Namespaced", {"scope": "Cluster"}, False, "UnsupportedIsolation", "prefixed"),
            id="cluster-scoped under Namespaced isolation",
        ),
    ],
)
async def test_a_request_that_waits_says_what_for(
    stack: AsyncExitStack, isolation: Isolation, spec: JSON, both: bool, reason: str, told: str
) -> None:
    options = ProviderOptions(isolation=isolation, requests="any")
    world = World(stack, options=options)
    await world.start()
    gadgets = msgspec.structs.replace(GADGETS, group=world.group)
    crd = crd_of(GADGETS, **spec)
    text = msgspec.json.encode(crd).replace(b"example.org", world.group.encode())
    await install_crds(world.provider, [msgspec.json.decode(text)])
    link = await invited(world.consumer, world.provider, name=world.name, template=world.group)

    def change(spec: JSON) -> None:
        other = {**spec["resources"][0], "resource": gadgets.plural}
        spec["resources"] = [spec["resources"][0], other] if both else [other]

    request = await ask(link, "gadgets", change)
    assert told in await request.says("ExportsReady", "False", "Error", reason)
    await request.says("Ready", "False", "Error", reason)
    found = await world.provider.get(APISERVICEEXPORTREQUESTS, "gadgets", link.cluster_namespace)
    assert found.to_dict()["status"]["phase"] == "Pending"


async def test_an_export_that_the_server_refuses_is_told_until_it_does_not(world: World) -> None:
    world.provider_plane.faults.fail("create", "apiserviceexports", 403, times=-1)
    link = await invited(world.consumer, world.provider)
    request = await ask(link, link.name, lambda spec: None)
    await request.says("ExportsReady", "False", "Error", "ExportFailed")
    world.provider_plane.faults.clear()
    await request.says("ExportsReady", "True")


async def test_a_namespace_that_no_provider_can_have_is_told(world: World) -> None:
    link = await invited(world.consumer, world.provider)
    body = {"apiVersion": API_VERSION, "kind": "APIServiceNamespace", "spec": {}}
    metadata = {"name": "a.b", "namespace": link.cluster_namespace}
    await world.provider.create(APISERVICENAMESPACES, {**body, "metadata": metadata})
    seen = Seen(link, APISERVICENAMESPACES, "a.b")
    await seen.says("NamespaceReady", "False", "Error", "InvalidNamespaceName")
