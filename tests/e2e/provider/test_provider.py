"""The provider alone: from an invitation to rights in namespaces of the consumer's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.consumers import Consumer, consumer, secret, widget
from tests.support.planes import ControlPlane
from tests.support.provider import (
    WIDGETS,
    example,
    prepare,
    request_export,
    request_namespace,
    running,
)
from tests.support.waiting import condition, when

from fairlead.api.kubebind import (
    ANNOTATION_SERVICE_NAMESPACE,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    request_from_template,
)
from fairlead.api.kubebind import APIServiceExportTemplate as Template
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    Resource,
)
from fairlead.client import Client, Forbidden, Invalid, parse_kubeconfig
from fairlead.provider.identity import InviteError
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import export_roles
from fairlead.provider.options import ProviderOptions


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


@pytest.mark.edge
async def test_an_invitation_leads_to_an_export_and_a_namespace_with_exactly_its_rights(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        request = await team.says(APISERVICEEXPORTREQUESTS, "Ready", "True")
        assert request["status"]["phase"] == "Succeeded"
        schema = await team.when(
            BOUNDSCHEMAS,
            "widgets.example.org",
            until=lambda body: bool(body["metadata"].get("ownerReferences")),
        )
        assert schema["metadata"]["ownerReferences"][0]["kind"] == "APIServiceExport"

        namespace = await team.provider_namespace("shop")
        assert namespace == f"{team.namespace}-shop"
        await team.client.create(WIDGETS, widget(), namespace)
        await team.client.create(SECRETS, secret("blue-origin"), namespace)
        assert len((await team.client.list(WIDGETS, namespace)).items) == 1

        roles = await admin.list(ROLES, namespace)
        assert {role.meta.name for role in roles.items} == {
            "kube-binder-claims-widgets",
            "kube-binder-resources-widgets",
        }
        for role in roles.items:
            for rule in role.to_dict()["rules"]:
                assert sorted(rule["verbs"]) == sorted(
                    ["get", "list", "watch", "create", "update", "patch", "delete"]
                )
        await _reaches_nothing_else(team, admin)
        warnings = [
            event.to_dict()["message"]
            for event in (await admin.list(EVENTS, team.namespace)).items
            if event.to_dict()["type"] == "Warning"
        ]
        assert warnings == []


async def _reaches_nothing_else(team: Consumer, admin: Client) -> None:
    outside: list[tuple[Resource, str]] = [
        (WIDGETS, ""),
        (WIDGETS, "default"),
        (WIDGETS, team.namespace),
        (SECRETS, ""),
        (SECRETS, "kube-system"),
        (CONFIGMAPS, team.namespace),
        (APISERVICEEXPORTS, ""),
        (NAMESPACES, ""),
        (ROLES, team.namespace),
    ]
    for resource, namespace in outside:
        with pytest.raises(Forbidden):
            await team.client.list(resource, namespace)
    with pytest.raises(Forbidden):
        await team.client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    with pytest.raises(Forbidden):
        await team.client.merge_patch(
            APISERVICENAMESPACES,
            "shop",
            team.namespace,
            {"status": {"namespace": "kube-system"}},
            subresource="status",
        )


async def test_consumers_do_not_reach_one_another(admin: Client, stack: AsyncExitStack) -> None:
    async with running(admin):
        first, second = await consumer(stack, admin), await consumer(stack, admin)
        await first.bind()
        await second.bind()
        namespace = await first.provider_namespace("shop")
        other = await second.provider_namespace("shop")
        assert namespace != other
        await first.client.create(WIDGETS, widget(), namespace)
        for resource in (WIDGETS, SECRETS, CONFIGMAPS):
            with pytest.raises(Forbidden):
                await second.client.list(resource, namespace)
        with pytest.raises(Forbidden):
            await second.client.list(SECRETS, first.namespace)


async def test_a_namespace_of_somebody_else_is_never_used_nor_deleted(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        foreign = f"{team.namespace}-taken"
        await admin.create(NAMESPACES, {"metadata": {"name": foreign}})
        await request_namespace(team.client, team.namespace, "taken")
        body = await team.when(
            APISERVICENAMESPACES,
            "taken",
            until=lambda body: (
                condition(body, "NamespaceReady").get("status") == "False"
                and condition(body, "NamespaceReady")["reason"] == "ForeignNamespace"
            ),
        )
        assert "namespace" not in body["status"]
        with pytest.raises(Forbidden):
            await team.client.list(WIDGETS, foreign)

        await team.client.delete(APISERVICENAMESPACES, "taken", team.namespace)
        ready = await team.provider_namespace("shop")
        assert ready == f"{team.namespace}-shop"
        assert not (await admin.get(NAMESPACES, foreign)).meta.deleting

        await request_namespace(team.client, team.namespace, "taken")
        annotation = {ANNOTATION_SERVICE_NAMESPACE: f"{team.namespace}/taken"}
        await admin.merge_patch(NAMESPACES, foreign, "", {"metadata": {"annotations": annotation}})
        await team.when(
            APISERVICENAMESPACES,
            "taken",
            until=lambda body: body.get("status", {}).get("namespace") == foreign,
        )


@pytest.mark.edge
async def test_an_api_service_namespace_takes_its_namespace_with_it(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        namespace = await team.provider_namespace("shop")
        await team.client.create(WIDGETS, widget(), namespace)
        await team.client.delete(APISERVICENAMESPACES, "shop", team.namespace)
        await when(admin, NAMESPACES, namespace, until=lambda body: not body)
        await when(
            admin, APISERVICENAMESPACES, "shop", team.namespace, until=lambda body: not body
        )
        assert await team.provider_namespace("shop") == namespace
        assert (await team.client.list(WIDGETS, namespace)).items == []


@pytest.mark.edge
async def test_what_goes_while_the_provider_is_down_is_cleaned_up_later(
    admin: Client, stack: AsyncExitStack
) -> None:
    options = ProviderOptions(consumer_scope="Cluster")
    async with running(admin, options):
        team = await consumer(stack, admin)
        await team.bind()
        namespace = await team.provider_namespace("shop")
    await admin.delete(NAMESPACES, team.namespace)
    await when(admin, APISERVICEEXPORTS, "widgets", team.namespace, until=lambda body: not body)
    name = f"kube-binder-resources-{team.namespace}.widgets"
    assert (await admin.get(CLUSTERROLES, name)).meta.name == name
    async with running(admin, options):
        for resource in (CLUSTERROLEBINDINGS, CLUSTERROLES):
            await when(admin, resource, name, until=lambda body: not body)
        for resource, name, within in (
            (NAMESPACES, namespace, ""),
            (APISERVICENAMESPACES, "shop", team.namespace),
        ):
            await when(admin, resource, name, within, until=lambda body: not body)


@pytest.mark.edge
async def test_rights_that_are_edited_or_deleted_by_hand_come_back(
    admin: Client, stack: AsyncExitStack
) -> None:
    role = "kube-binder-resources-widgets"
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        shop, bank = [await team.provider_namespace(name) for name in ("shop", "bank")]
        rules = (await admin.get(ROLES, role, shop)).to_dict()["rules"]
        binding = (await admin.get(ROLEBINDINGS, role, bank)).to_dict()

        await admin.merge_patch(ROLES, role, shop, {"rules": []})
        await when(admin, ROLES, role, shop, until=lambda body: body.get("rules") == rules)
        await admin.merge_patch(ROLEBINDINGS, role, bank, {"subjects": []})
        subjects = binding["subjects"]
        await when(
            admin, ROLEBINDINGS, role, bank, until=lambda body: body.get("subjects") == subjects
        )
        for resource in (ROLEBINDINGS, ROLES):
            await admin.delete(resource, role, bank)
            await when(admin, resource, role, bank, until=bool)
        # Without the label the controller's watch does not have it.
        label = {"app.kubernetes.io/managed-by": None}
        await admin.merge_patch(ROLES, role, shop, {"metadata": {"labels": label}})
        await when(admin, ROLES, role, shop, until=lambda body: "labels" in body["metadata"])
    await admin.delete(ROLEBINDINGS, role, bank)
    await admin.merge_patch(ROLES, role, shop, {"rules": []})
    async with running(admin):
        await when(admin, ROLEBINDINGS, role, bank, until=bool)
        await when(admin, ROLES, role, shop, until=lambda body: body.get("rules") == rules)


@pytest.mark.edge
async def test_rights_go_with_their_export(admin: Client, stack: AsyncExitStack) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        # Without owner the namespace outlives the export, and must not keep its rights.
        namespace = await team.provider_namespace("shop")
        await admin.delete(APISERVICEEXPORTS, "widgets", team.namespace)
        for name in ("kube-binder-claims-widgets", "kube-binder-resources-widgets"):
            await when(admin, ROLEBINDINGS, name, namespace, until=lambda body: not body)
            await when(admin, ROLES, name, namespace, until=lambda body: not body)
        body = await team.says(APISERVICEEXPORTREQUESTS, "Ready", "False")
        assert condition(body, "Ready")["reason"] == "APIServiceExportNotFound"


@pytest.mark.edge
async def test_a_claim_that_cannot_be_granted_fails_the_request_for_ever(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        template = msgspec.convert(example("template"), Template)
        request = request_from_template(template.spec, name="greedy")
        request["spec"]["permissionClaims"][0]["resource"] = "pods"
        await request_export(team.client, team.namespace, request)
        body = await team.when(
            APISERVICEEXPORTREQUESTS,
            "greedy",
            until=lambda body: body.get("status", {}).get("phase") == "Failed",
        )
        assert "pods.core cannot be claimed" in body["status"]["terminalMessage"]
        assert condition(body, "Ready")["reason"] == "InvalidPermissionClaim"
        assert (await team.client.list(BOUNDSCHEMAS, team.namespace)).items == []
        await team.event(admin, "InvalidPermissionClaim")


async def test_informer_scope_cluster_lets_consumers_read_the_kind_and_nothing_more(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin, ProviderOptions(consumer_scope="Cluster")):
        team, other = await consumer(stack, admin), await consumer(stack, admin)
        await team.bind()
        await other.bind()
        namespace = await other.provider_namespace("shop")
        await team.provider_namespace("shop")
        await team.client.list(WIDGETS)
        for attempt in (
            team.client.create(WIDGETS, widget(), namespace),
            team.client.list(SECRETS),
            team.client.list(SECRETS, namespace),
        ):
            with pytest.raises(Forbidden):
                await attempt
        name = f"kube-binder-resources-{team.namespace}.widgets"
        await admin.delete(APISERVICEEXPORTS, "widgets", team.namespace)
        for resource in (CLUSTERROLEBINDINGS, CLUSTERROLES):
            await when(admin, resource, name, until=lambda body: not body)
        assert (await other.client.list(WIDGETS, namespace)).items == []


async def test_namespaced_isolation_keeps_objects_in_the_cluster_namespace(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin, ProviderOptions(isolation="Namespaced")):
        team = await consumer(stack, admin)
        await team.bind()
        await _granted(team)
        schema = await team.client.get(BOUNDSCHEMAS, "widgets.example.org", team.namespace)
        assert schema.to_dict()["spec"]["scope"] == "Cluster"
        await team.client.create(WIDGETS, widget(), team.namespace)
        with pytest.raises(Forbidden):
            await team.client.list(WIDGETS)


async def test_a_request_cannot_be_widened_once_it_was_granted(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        await _granted(team)
        claims = [{"resource": "serviceaccounts", "selector": {"labelSelector": {}}}]
        try:
            await team.client.merge_patch(
                APISERVICEEXPORTREQUESTS,
                "widgets",
                team.namespace,
                {"spec": {"permissionClaims": claims}},
            )
        except Invalid as error:
            assert "permissionClaims is immutable" in str(error)  # noqa: PT017
        else:
            # A server without CEL takes it; the provider does not.
            body = await team.says(APISERVICEEXPORTREQUESTS, "Ready", "False")
            assert condition(body, "Ready")["reason"] == "ImmutableFieldChanged"
        export = await team.client.get(APISERVICEEXPORTS, "widgets", team.namespace)
        assert "serviceaccounts" not in str(export.to_dict()["spec"])


@pytest.mark.edge
async def test_a_request_waits_for_its_crd_and_says_so(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin, ProviderOptions(requests="any")):
        team = await consumer(stack, admin)
        request = team.response["requests"][0]
        request["spec"]["resources"] = [{"group": "example.org", "resource": "gadgets"}]
        request["spec"]["permissionClaims"] = []
        await request_export(team.client, team.namespace, request)
        body = await team.says(
            APISERVICEEXPORTREQUESTS, "ExportsReady", "SchemaNotFound", field="reason"
        )
        assert body["status"]["phase"] == "Pending"
        crd = example("crd")
        crd["metadata"]["name"] = "gadgets.example.org"
        crd["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
        resource = await admin.discovery.resource_for(crd["apiVersion"], crd["kind"])
        await admin.create(resource, crd)
        try:
            await team.when(
                APISERVICEEXPORTREQUESTS,
                "widgets",
                until=lambda body: body["status"]["phase"] == "Succeeded",
            )
            export = await team.when(
                APISERVICEEXPORTS,
                "widgets",
                until=lambda body: bool(condition(body, "PermissionsGranted")),
            )
            assert export["spec"]["resources"] == request["spec"]["resources"]
            await _rights_arrive_with_the_providers_own(team, admin)
        finally:
            await admin.delete(resource, "gadgets.example.org")


async def _rights_arrive_with_the_providers_own(team: Consumer, admin: Client) -> None:
    """The provider does not hold rights on gadgets, so it cannot hand them out yet."""
    await request_namespace(team.client, team.namespace, "shop")
    export = await team.says(APISERVICEEXPORTS, "PermissionsGranted", "False")
    assert (
        "fairlead manifests provider --export"
        in condition(export, "PermissionsGranted")["message"]
    )
    body = await team.says(
        APISERVICENAMESPACES, "NamespaceReady", "PermissionsPending", name="shop", field="reason"
    )
    assert not body["status"].get("namespace")
    (role,) = export_roles(["gadgets.example.org"], claims=[])
    await admin.create(CLUSTERROLES, role)
    await team.when(
        APISERVICENAMESPACES,
        "shop",
        until=lambda body: bool(body.get("status", {}).get("namespace")),
    )


@pytest.mark.edge
async def test_a_schema_change_reaches_exports_with_policy_always(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        export = (await team.client.get(APISERVICEEXPORTS, "widgets", team.namespace)).to_dict()
        annotation = "kube-bind.io/source-spec-hash"
        before = export["metadata"]["annotations"][annotation]
        crd = example("crd")
        resource = await admin.discovery.resource_for(crd["apiVersion"], crd["kind"])
        names = {"spec": {"names": {"shortNames": [f"w{uuid.uuid4().hex[:6]}"]}}}
        await admin.merge_patch(resource, "widgets.example.org", "", names)
        await team.when(
            APISERVICEEXPORTS,
            "widgets",
            until=lambda body: body["metadata"]["annotations"][annotation] != before,
        )


async def test_invitations_are_repeatable_and_belong_to_their_author(
    admin: Client, stack: AsyncExitStack
) -> None:
    identity = str(uuid.uuid4())
    first = await invite(admin, name="t", template="widgets", identity=identity, author="ann")
    again = await invite(admin, name="t", template="widgets", identity=identity, author="ann")
    assert first == again
    binding = await admin.get(CLUSTERBINDINGS, "cluster", first["providerNamespace"])
    assert binding.to_dict()["spec"]["providerPrettyName"] == "Fairlead"
    with pytest.raises(InviteError, match="belongs to author ann, not to author bob"):
        await invite(admin, name="t", template="widgets", identity=identity, author="bob")
    with pytest.raises(
        InviteError, match=r"no-such-template does not exist; there are: .*widgets"
    ):
        await invite(admin, name="t", template="no-such-template", identity=identity)


async def test_a_settled_provider_writes_nothing(admin: Client, stack: AsyncExitStack) -> None:
    kinds = (
        *(APISERVICEEXPORTREQUESTS, APISERVICEEXPORTS, APISERVICENAMESPACES, BOUNDSCHEMAS),
        *(CLUSTERBINDINGS,),
    )

    async def versions(namespace: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for kind in kinds:
            for item in (await admin.list(kind, namespace)).items:
                found[f"{kind.plural}/{item.meta.name}"] = item.meta.resource_version
        return found

    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        await team.provider_namespace("shop")
        await _healthy_is_stored(team)
        await _granted(team)
    settled = await versions(team.namespace)
    async with running(admin):
        # A second consumer's whole way shows that the first one's requests were looked at.
        other = await consumer(stack, admin)
        await other.bind()
        await other.provider_namespace("shop")
        await _healthy_is_stored(other)
    assert await versions(team.namespace) == settled


async def _granted(team: Consumer) -> None:
    await team.granted()
    await team.when(
        BOUNDSCHEMAS,
        "widgets.example.org",
        until=lambda body: bool(body["metadata"].get("ownerReferences")),
    )


async def _healthy_is_stored(team: Consumer) -> None:
    body = await team.when(
        CLUSTERBINDINGS,
        "cluster",
        until=lambda body: bool(condition(body, "Healthy")),
    )
    assert condition(body, "Healthy")["reason"] == "FirstHeartbeatPending"
