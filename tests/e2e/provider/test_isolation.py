"""What a consumer's own kubeconfig can reach on the provider, whatever it tries."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.consumers import Consumer, consumer, secret, widget
from tests.support.planes import ControlPlane
from tests.support.provider import (
    DEFAULT_NAMESPACE,
    WIDGETS,
    prepare,
    request_export,
    request_namespace,
    running,
)
from tests.support.waiting import condition, refusal, when

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    Isolation,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
)
from fairlead.client import Client, Forbidden, parse_kubeconfig
from fairlead.provider.options import DEFAULT_PREFIX, ProviderOptions


ISOLATIONS = pytest.mark.parametrize("isolation", ["Prefixed", "None"])
KINDS = (
    *(WIDGETS, SECRETS, CONFIGMAPS, SERVICEACCOUNTS, ROLES, ROLEBINDINGS),
    *(APISERVICEEXPORTS, APISERVICEEXPORTREQUESTS, APISERVICENAMESPACES),
    *(BOUNDSCHEMAS, CLUSTERBINDINGS),
)


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


async def in_use(stack: AsyncExitStack, admin: Client, name: str) -> tuple[Consumer, str]:
    """A consumer with a widget and a Secret in a provider namespace."""
    team = await consumer(stack, admin)
    await team.bind()
    namespace = await team.provider_namespace(name)
    await team.client.create(WIDGETS, widget(), namespace)
    await team.client.create(SECRETS, secret("blue-origin"), namespace)
    return team, namespace


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:6]}"


def attempts(client: Client, namespace: str) -> Iterator[Awaitable[Any]]:
    """All verbs on all kinds that a konnector knows, in a namespace that is not its own."""
    label: JSON = {"metadata": {"labels": {"mine": "yes"}}}
    for kind in KINDS:
        yield client.list(kind, namespace)
        yield client.delete_collection(kind, namespace)
        yield client.get(kind, "blue", namespace)
        yield client.delete(kind, "blue", namespace)
        yield client.merge_patch(kind, "blue", namespace, label)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "blue"}}
        yield client.create(kind, body, namespace)
    for kind in (APISERVICEEXPORTS, APISERVICENAMESPACES, CLUSTERBINDINGS, BOUNDSCHEMAS):
        yield client.merge_patch(kind, "blue", namespace, {"status": {}}, subresource="status")


def on_the_cluster(client: Client, other: Consumer) -> Iterator[Awaitable[Any]]:
    for kind in KINDS:
        yield client.list(kind)
    for kind in (NAMESPACES, CLUSTERROLES, CLUSTERROLEBINDINGS):
        yield client.list(kind)
        yield client.create(kind, {"metadata": {"name": "mine"}})
    yield client.get(NAMESPACES, other.namespace)
    yield client.delete(NAMESPACES, other.namespace)
    for name in ("kubeconfig", "kube-binder"):
        yield client.get(SECRETS, name, other.namespace)
    yield client.get(CLUSTERBINDINGS, "cluster", other.namespace)
    yield client.get(APISERVICEEXPORTS, "widgets", other.namespace)
    yield client.create(
        SERVICEACCOUNTS, {"spec": {}}, other.namespace, name="kube-binder", subresource="token"
    )


def at_home(team: Consumer) -> Iterator[Awaitable[Any]]:
    """What would widen a consumer's own rights."""
    client, namespace = team.client, team.namespace
    spec: JSON = {"spec": {"informerScope": "Cluster", "isolation": "None"}}
    yield client.merge_patch(APISERVICEEXPORTS, "widgets", namespace, spec)
    yield client.delete(APISERVICEEXPORTS, "widgets", namespace)
    yield client.merge_patch(
        BOUNDSCHEMAS, "widgets.example.org", namespace, {"spec": {"scope": "Cluster"}}
    )
    yield client.merge_patch(CLUSTERBINDINGS, "cluster", namespace, {"spec": {}})
    yield client.create(SECRETS, secret("mine"), namespace)
    yield client.merge_patch(NAMESPACES, namespace, "", {"metadata": {"annotations": {"a": "b"}}})
    for kind in (ROLES, ROLEBINDINGS):
        yield client.create(kind, {"metadata": {"name": "mine"}}, namespace)


async def refused(tries: Iterator[Awaitable[Any]]) -> None:
    for one in tries:
        with pytest.raises(Forbidden):
            await one


@ISOLATIONS
async def test_a_consumer_reaches_nothing_of_another(
    admin: Client, stack: AsyncExitStack, isolation: Isolation
) -> None:
    async with running(admin, ProviderOptions(isolation=isolation)):
        victim, theirs = await in_use(stack, admin, unique("shop"))
        team, mine = await in_use(stack, admin, unique("till"))
        assert (await team.client.list(WIDGETS, mine)).items
        for namespace in (victim.namespace, theirs, DEFAULT_NAMESPACE, "default", "kube-system"):
            await refused(attempts(team.client, namespace))
        await refused(on_the_cluster(team.client, victim))
        await refused(at_home(team))
        assert [item.meta.name for item in (await admin.list(WIDGETS, theirs)).items] == ["blue"]


@ISOLATIONS
async def test_no_name_of_a_service_namespace_leads_to_anothers(
    admin: Client, stack: AsyncExitStack, isolation: Isolation
) -> None:
    plain, new = unique("plain"), f"{DEFAULT_PREFIX}{uuid.uuid4().hex[:6]}"
    await admin.create(NAMESPACES, {"metadata": {"name": plain}})
    async with running(admin, ProviderOptions(isolation=isolation)):
        victim, theirs = await in_use(stack, admin, unique("shop"))
        team, mine = await in_use(stack, admin, unique("till"))
        wanted = {
            theirs: "ForeignNamespace",
            plain: "ForeignNamespace",
            victim.namespace: "ReservedNamespace",
            team.namespace: "ReservedNamespace",
            new: "ReservedNamespace",
            "default": "ReservedNamespace",
            "kube-system": "ReservedNamespace",
            "kube-new": "ReservedNamespace",
            DEFAULT_NAMESPACE: "ReservedNamespace",
        }
        for name, reason in wanted.items():
            await request_namespace(team.client, team.namespace, name)
            await _judged(team, name, isolation, reason)
        if isolation == "None":
            await team.event(admin, "ReservedNamespace")
            await team.event(admin, "ForeignNamespace")
        await _granted_at_home_alone(admin, team, {mine}, wanted)
        for name in wanted:
            await team.client.delete(APISERVICENAMESPACES, name, team.namespace)
        for name in wanted:
            await when(
                admin, APISERVICENAMESPACES, name, team.namespace, until=lambda body: not body
            )
        there = {item.meta.name: item for item in (await admin.list(NAMESPACES)).items}
        for name in set(wanted) - {new, "kube-new"}:
            assert not there[name].meta.deleting
        assert not {new, "kube-new"} & set(there)
        assert (await victim.client.get(WIDGETS, "blue", theirs)).meta.name == "blue"


async def _judged(team: Consumer, name: str, isolation: Isolation, reason: str) -> None:
    """Under None the name is refused; else it is but a part of another."""

    def judged(body: JSON) -> bool:
        status = body.get("status", {})
        if isolation == "None":
            told: bool = condition(body, "NamespaceReady").get("reason") == reason
            return told and "namespace" not in status
        assigned: str = status.get("namespace", "")
        return assigned.startswith(f"{team.namespace}-")

    await team.when(APISERVICENAMESPACES, name, until=judged)


async def _granted_at_home_alone(
    admin: Client, team: Consumer, known: set[str], wanted: dict[str, str]
) -> None:
    bound = {
        binding.meta.namespace
        for binding in (await admin.list(ROLEBINDINGS)).items
        if any(
            subject.get("namespace") == team.namespace
            for subject in binding.to_dict().get("subjects") or []
        )
    }
    others = {name for name in bound - known if not name.startswith(f"{team.namespace}-")}
    assert others == {team.namespace}
    for name in set(wanted) - {team.namespace}:
        with pytest.raises(Forbidden):
            await team.client.list(WIDGETS, name)
        with pytest.raises(Forbidden):
            await team.client.list(SECRETS, name)


async def test_two_consumers_of_one_name_do_not_share_a_namespace(
    admin: Client, stack: AsyncExitStack
) -> None:
    name = unique("shop")
    async with running(admin, ProviderOptions(isolation="None")):
        first, second = await consumer(stack, admin), await consumer(stack, admin)
        await first.bind()
        await second.bind()
        assert await first.provider_namespace(name) == name
        await request_namespace(second.client, second.namespace, name)
        await _judged(second, name, "None", "ForeignNamespace")
        await first.client.delete(APISERVICENAMESPACES, name, first.namespace)
        body = await second.when(
            APISERVICENAMESPACES,
            name,
            until=lambda body: body.get("status", {}).get("namespace") == name,
        )
        assert condition(body, "NamespaceReady")["status"] == "True"
        await refusal(lambda: first.client.list(WIDGETS, name))


async def test_claims_are_cluster_wide_only_where_that_is_asked_for(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin, ProviderOptions(consumer_scope="Cluster", original_konnectors=True)):
        team, mine = await in_use(stack, admin, "shop")
        await team.granted()
        name = f"kube-binder-claims-{team.namespace}.widgets"
        role = (await admin.get(CLUSTERROLES, name)).to_dict()
        (secrets,) = [rule for rule in role["rules"] if "secrets" in rule["resources"]]
        assert sorted(secrets["verbs"]) == sorted(
            ["get", "list", "watch", "create", "update", "patch", "delete"]
        )
        (subject,) = (await admin.get(CLUSTERROLEBINDINGS, name)).to_dict()["subjects"]
        assert (subject["name"], subject["namespace"]) == ("kube-binder", team.namespace)
        assert (await team.client.list(SECRETS)).items
        stranger = await consumer(stack, admin)
        with pytest.raises(Forbidden):
            await stranger.client.list(SECRETS)
    async with running(admin, ProviderOptions(consumer_scope="Cluster")):
        for kind in (CLUSTERROLEBINDINGS, CLUSTERROLES):
            await when(admin, kind, name, until=lambda body: not body)
        await when(admin, ROLEBINDINGS, "kube-binder-claims-widgets", mine, until=bool)
        await refused(iter([team.client.list(SECRETS)]))
        await team.client.list(SECRETS, mine)


async def test_under_isolation_namespaced_original_konnectors_read_everywhere_if_asked_for(
    admin: Client, stack: AsyncExitStack
) -> None:
    options = ProviderOptions(isolation="Namespaced", original_konnectors=True)
    async with running(admin, options):
        team, other = await consumer(stack, admin), await consumer(stack, admin)
        for one in (team, other):
            await one.bind()
            await one.granted()
        await other.client.create(WIDGETS, widget(), other.namespace)
        found = [item.meta.namespace for item in (await team.client.list(WIDGETS)).items]
        assert other.namespace in found
        await team.client.create(WIDGETS, widget(), team.namespace)
        await refused(
            iter(
                [
                    team.client.create(WIDGETS, widget("mine"), other.namespace),
                    team.client.delete(WIDGETS, "blue", other.namespace),
                    team.client.list(SECRETS),
                ]
            )
        )
    async with running(admin, ProviderOptions(isolation="Namespaced")):
        await refusal(lambda: team.client.list(WIDGETS))
        assert (await team.client.list(WIDGETS, team.namespace)).items


async def test_cluster_wide_claims_go_with_their_export(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin, ProviderOptions(consumer_scope="Cluster", original_konnectors=True)):
        team, _ = await in_use(stack, admin, "shop")
        await team.granted()
        name = f"kube-binder-claims-{team.namespace}.widgets"
        # Whoever takes a binding away leaves a role that nothing tells the export of.
        await admin.get(CLUSTERROLES, name)
        await admin.delete(APISERVICEEXPORTS, "widgets", team.namespace)
        for kind in (CLUSTERROLEBINDINGS, CLUSTERROLES):
            await when(admin, kind, name, until=lambda body: not body)


async def test_a_resource_is_exported_to_a_consumer_once(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        await when(
            admin,
            BOUNDSCHEMAS,
            "widgets.example.org",
            team.namespace,
            until=lambda body: bool(body["metadata"].get("ownerReferences")),
        )
        first = (await admin.get(APISERVICEEXPORTS, "widgets", team.namespace)).to_dict()
        metadata = {"name": "second", "namespace": team.namespace}
        await admin.create(APISERVICEEXPORTS, first | {"metadata": metadata, "status": {}})
        request = team.response["requests"][0] | {"metadata": {"name": "third"}}
        await request_export(team.client, team.namespace, request)

        def told(type_: str) -> Any:
            def until(body: JSON) -> bool:
                found = condition(body, type_)
                owner = "belongs to APIServiceExport widgets"
                return found.get("reason") == "BoundSchemaConflict" and owner in found["message"]

            return until

        await when(
            admin, APISERVICEEXPORTS, "second", team.namespace, until=told("ProviderInSync")
        )
        await when(
            admin,
            APISERVICEEXPORTREQUESTS,
            "third",
            team.namespace,
            until=told("ExportsReady"),
        )
        await admin.delete(APISERVICEEXPORTS, "widgets", team.namespace)
        await admin.delete(APISERVICEEXPORTREQUESTS, "third", team.namespace)
        await when(
            admin,
            APISERVICEEXPORTS,
            "second",
            team.namespace,
            until=lambda body: (
                condition(body, "ProviderInSync").get("reason") != "BoundSchemaConflict"
            ),
        )


async def test_an_export_made_by_hand_becomes_the_owner_of_its_schemas(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        giver, team = await consumer(stack, admin), await consumer(stack, admin)
        await giver.bind()
        export = (await admin.get(APISERVICEEXPORTS, "widgets", giver.namespace)).to_dict()
        schema = (await admin.get(BOUNDSCHEMAS, "widgets.example.org", giver.namespace)).to_dict()
        for kind, body in ((BOUNDSCHEMAS, schema), (APISERVICEEXPORTS, export)):
            metadata = {"name": body["metadata"]["name"], "namespace": team.namespace}
            await admin.create(kind, body | {"metadata": metadata, "status": {}})
        made = await when(
            admin,
            APISERVICEEXPORTS,
            "widgets",
            team.namespace,
            until=lambda body: condition(body, "ProviderInSync").get("status") == "True",
        )
        owned = await admin.get(BOUNDSCHEMAS, "widgets.example.org", team.namespace)
        controller = owned.meta.controller()
        assert controller is not None
        assert controller.uid == made["metadata"]["uid"]
        namespace = await team.provider_namespace("shop")
        await team.client.create(WIDGETS, widget(), namespace)


async def test_kinds_of_kubernetes_are_not_exported(admin: Client, stack: AsyncExitStack) -> None:
    async with running(admin, ProviderOptions(requests="any")):
        team = await consumer(stack, admin)
        request = team.response["requests"][0]
        request["spec"] = {"resources": [{"group": "", "resource": "configmaps"}]}
        await request_export(team.client, team.namespace, request)
        body = await team.says(
            APISERVICEEXPORTREQUESTS, "ExportsReady", "NotExportable", field="reason"
        )
        assert body["status"]["phase"] == "Pending"
        assert "permissionClaims" in condition(body, "Ready")["message"]
        await team.event(admin, "NotExportable")
