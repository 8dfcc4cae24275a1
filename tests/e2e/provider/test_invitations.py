"""A consumer gets what it was invited to, whatever it writes with its kubeconfig."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from tests.support.consumers import Consumer, consumer
from tests.support.kubebind import claim
from tests.support.planes import ControlPlane
from tests.support.provider import WIDGETS, example, prepare, request_export, running
from tests.support.waiting import condition, when

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, Resource
from fairlead.client import Client, Forbidden, Invalid, NotFound, parse_kubeconfig
from fairlead.client.config import IN_CLUSTER
from fairlead.provider.identity import InviteError
from fairlead.provider.invitation import invite
from fairlead.provider.offer import InvitationRecord, record_of
from fairlead.provider.options import InviteOptions, ProviderOptions
from fairlead.runtime import install_crds


GAUGES = Resource("example.org", "v1", "gauges", "Gauge", namespaced=False)
"""Exported too, but in no template that the consumers here are invited to."""


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org", "gauges.example.org"])
        gauges = example("crd")
        gauges["metadata"]["name"] = "gauges.example.org"
        gauges["spec"] |= {"names": {"kind": "Gauge", "plural": "gauges"}, "scope": "Cluster"}
        await install_crds(client, [gauges])
        yield client


def entry(plural: str, **more: Any) -> JSON:
    return {"group": "example.org", "resource": plural, "versions": ["v1"], **more}


async def template(admin: Client, *resources: JSON, claims: tuple[JSON, ...] = ()) -> str:
    """A template of a name of its own."""
    name = f"t{uuid.uuid4().hex[:8]}"
    spec = {"scope": "Namespaced", "resources": list(resources), "permissionClaims": list(claims)}
    body = {"apiVersion": API_VERSION, "kind": "APIServiceExportTemplate", "spec": spec}
    await admin.create(APISERVICEEXPORTTEMPLATES, body | {"metadata": {"name": name}})
    return name


async def ask(team: Consumer, name: str, **spec: Any) -> None:
    """Create a request of the consumer's own making."""
    body = {"apiVersion": API_VERSION, "kind": "APIServiceExportRequest", "spec": spec}
    await request_export(team.client, team.namespace, body | {"metadata": {"name": name}})


async def refused(team: Consumer, name: str) -> str:
    """Why the provider has refused a request; it has made nothing of it."""
    body = await team.when(
        APISERVICEEXPORTREQUESTS,
        name,
        until=lambda body: condition(body, "ExportsReady").get("reason") == "NotInvited",
    )
    assert body["status"]["phase"] == "Failed"
    assert condition(body, "Ready")["reason"] == "NotInvited"
    with pytest.raises(NotFound):
        await team.client.get(APISERVICEEXPORTS, name, team.namespace)
    message: str = body["status"]["terminalMessage"]
    return message


async def succeeded(team: Consumer, name: str) -> None:
    await team.when(
        APISERVICEEXPORTREQUESTS,
        name,
        until=lambda body: body.get("status", {}).get("phase") == "Succeeded",
    )


async def record(admin: Client, team: Consumer) -> InvitationRecord:
    return record_of(await admin.get(CLUSTERBINDINGS, "cluster", team.namespace))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"resources": [entry("gauges")]}, "gauges.example.org", id="cluster-scoped"),
        pytest.param(
            {"resources": [entry("widgets"), entry("gauges")]}, "resources[1]", id="one more"
        ),
        pytest.param({"resources": [entry("widgets", versions=["v1", "v9"])]}, "v9", id="version"),
        pytest.param(
            {"resources": [entry("widgets", versions=[])]}, "all versions", id="versions"
        ),
        pytest.param(
            {
                "resources": [entry("widgets")],
                "permissionClaims": [claim("secrets", labelSelector={})],
            },
            "wider",
            id="all Secrets",
        ),
        pytest.param(
            {"resources": [entry("widgets")], "permissionClaims": [claim("serviceaccounts")]},
            "serviceaccounts.core",
            id="another claim",
        ),
    ],
)
async def test_what_goes_beyond_an_invitation_is_refused_and_names_its_template(
    admin: Client, stack: AsyncExitStack, spec: JSON, told: str
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await ask(team, "more", **spec)
        why = await refused(team, "more")
        assert told in why
        assert "template widgets offers widgets.example.org v1" in why
        assert (await admin.list(BOUNDSCHEMAS, team.namespace)).items == []
        await team.event(admin, "NotInvited")
        for resource in (GAUGES, WIDGETS):
            with pytest.raises(Forbidden):
                await team.client.list(resource)
        await team.bind()


async def test_the_name_of_another_template_opens_nothing(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        other = await template(admin, entry("gauges"))
        team = await consumer(stack, admin)
        spoken = {"parameters": {"templateRef": {"name": other}}}
        metadata = {"name": other, "annotations": {"kube-bind.io/template": other}}
        body = {"apiVersion": API_VERSION, "kind": "APIServiceExportRequest"}
        spec = {"spec": {"resources": [entry("gauges")], **spoken}}
        await request_export(team.client, team.namespace, body | spec | {"metadata": metadata})
        why = await refused(team, other)
        assert f"template {other}" not in why


def forgeries(team: Consumer, other: str) -> Iterator[Awaitable[Any]]:
    """What would make a consumer's record say more, or its rights come without one."""
    client, namespace = team.client, team.namespace
    spec = {"spec": {"serviceProviderSpec": {"templates": [{"name": other}]}}}
    yield client.merge_patch(CLUSTERBINDINGS, "cluster", namespace, spec)
    yield client.delete(CLUSTERBINDINGS, "cluster", namespace)
    body = {"apiVersion": API_VERSION, "kind": "ClusterBinding", "metadata": {"name": "cluster"}}
    yield client.create(CLUSTERBINDINGS, body | spec, namespace)
    yield client.merge_patch(NAMESPACES, namespace, "", {"metadata": {"annotations": {"a": "b"}}})
    widened = {"spec": {"resources": [entry("gauges")]}}
    yield client.merge_patch(APISERVICEEXPORTTEMPLATES, "widgets", "", widened)
    yield client.get(APISERVICEEXPORTTEMPLATES, other)
    export = {"resources": [entry("gauges")], "informerScope": "Cluster", "isolation": "None"}
    yield client.create(
        APISERVICEEXPORTS,
        {
            "apiVersion": API_VERSION,
            "kind": "APIServiceExport",
            "metadata": {"name": "gauges"},
            "spec": export,
        },
        namespace,
    )
    yield client.merge_patch(APISERVICEEXPORTS, "widgets", namespace, {"spec": export})
    yield client.merge_patch(
        BOUNDSCHEMAS, "widgets.example.org", namespace, {"spec": {"scope": "Cluster"}}
    )
    yield client.merge_patch(
        APISERVICEEXPORTREQUESTS,
        "widgets",
        namespace,
        {"status": {"phase": "Succeeded"}},
        subresource="status",
    )


async def test_a_consumer_cannot_write_what_it_was_invited_to(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        other = await template(admin, entry("gauges"))
        team = await consumer(stack, admin)
        await team.bind()
        await team.granted()
        for attempt in forgeries(team, other):
            with pytest.raises(Forbidden):
                await attempt
        # Its heartbeats go to the status; what else is in their body must not count.
        mine: JSON = {
            "spec": {"serviceProviderSpec": {"templates": [{"name": other}]}},
            "metadata": {"annotations": {"a": "b"}},
            "status": {"konnectorVersion": "v9.9.9"},
        }
        await team.client.merge_patch(
            CLUSTERBINDINGS, "cluster", team.namespace, mine, subresource="status"
        )
        stored = (await admin.get(CLUSTERBINDINGS, "cluster", team.namespace)).to_dict()
        assert stored["status"]["konnectorVersion"] == "v9.9.9"
        assert "a" not in stored["metadata"]["annotations"]
        assert (await record(admin, team)).templates == ("widgets",)
        forged: JSON = {"kind": "ClusterBinding", "apiVersion": API_VERSION}
        forged |= {"metadata": stored["metadata"], "spec": {**stored["spec"], **mine["spec"]}}
        await team.client.update(
            CLUSTERBINDINGS, forged | {"status": stored["status"]}, subresource="status"
        )
        assert (await record(admin, team)).templates == ("widgets",)
        await ask(team, "gauges", resources=[entry("gauges")])
        await refused(team, "gauges")


async def test_a_request_that_is_changed_after_it_was_granted_brings_no_more(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await team.bind()
        wider = {"spec": {"resources": [*team.response["requests"][0]["spec"]["resources"]]}}
        wider["spec"]["resources"].append(entry("gauges"))
        try:
            await team.client.merge_patch(
                APISERVICEEXPORTREQUESTS, "widgets", team.namespace, wider
            )
        except Invalid as error:
            assert "resources is immutable" in str(error)  # noqa: PT017
        else:
            # A server without CEL takes it; the provider does not.
            await team.says(
                APISERVICEEXPORTREQUESTS, "ExportsReady", "ImmutableFieldChanged", field="reason"
            )
        # Nor does a new one of the same name, whose export is there already.
        await team.client.delete(APISERVICEEXPORTREQUESTS, "widgets", team.namespace)
        await when(
            admin, APISERVICEEXPORTREQUESTS, "widgets", team.namespace, until=lambda body: not body
        )
        await ask(team, "widgets", **wider["spec"])
        await team.says(
            APISERVICEEXPORTREQUESTS, "ExportsReady", "ImmutableFieldChanged", field="reason"
        )
        export = await team.client.get(APISERVICEEXPORTS, "widgets", team.namespace)
        assert "gauges" not in str(export.to_dict()["spec"])
        bindings = [item.meta.name for item in (await admin.list(CLUSTERROLEBINDINGS)).items]
        assert not [name for name in bindings if team.namespace in name]


async def test_inviting_a_known_consumer_adds_to_what_it_may_request(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        identity = str(uuid.uuid4())
        team = await consumer(stack, admin, identity=identity)
        other = await template(admin, entry("gauges"))
        await ask(team, "gauges", resources=[entry("gauges")])
        assert "template widgets" in await refused(team, "gauges")
        await invite(admin, name="team", template=other, identity=identity)
        await succeeded(team, "gauges")
        await team.bind()
        assert (await record(admin, team)).templates == ("widgets", other)
    kept = await record(admin, team)
    async with running(admin):
        # What is recorded outlives the program.
        await ask(team, "more", resources=[entry("gauges", versions=["v1", "v2"])])
        assert f"template {other} offers gauges.example.org v1" in await refused(team, "more")
    assert await record(admin, team) == kept


async def test_a_template_that_changes_is_what_counts_from_then_on(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        name = await template(admin, entry("widgets"))
        team = await consumer(stack, admin, template=name)
        both = [entry("widgets"), entry("gauges")]
        await ask(team, "gauges", resources=[entry("gauges")])
        await refused(team, "gauges")
        await admin.merge_patch(APISERVICEEXPORTTEMPLATES, name, "", {"spec": {"resources": both}})
        await succeeded(team, "gauges")
        await ask(team, "widgets", resources=[entry("widgets")], schemaUpdatePolicy="Always")
        await succeeded(team, "widgets")
        namespace = await team.provider_namespace("shop")

        await admin.merge_patch(
            APISERVICEEXPORTTEMPLATES, name, "", {"spec": {"resources": [entry("gauges")]}}
        )
        body = await team.says(
            APISERVICEEXPORTREQUESTS, "ExportsReady", "NotInvited", field="reason"
        )
        assert body["status"]["phase"] == "Succeeded"
        assert "stays as it is" in condition(body, "ExportsReady")["message"]
        # What was exported stays, with its rights.
        await team.says(APISERVICEEXPORTS, "PermissionsGranted", "True")
        assert (await team.client.list(WIDGETS, namespace)).items == []
        await ask(team, "again", resources=[entry("widgets")])
        await refused(team, "again")

        await admin.delete(APISERVICEEXPORTTEMPLATES, name)
        await ask(team, "gone", resources=[entry("gauges")])
        assert f"template {name} does not exist any more" in await refused(team, "gone")


async def test_schemas_are_carried_on_only_as_far_as_the_template_goes(
    admin: Client, stack: AsyncExitStack
) -> None:
    crds = await admin.discovery.resource_for(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    )

    async def change(name: str) -> None:
        names = {"spec": {"names": {"shortNames": [name]}}}
        await admin.merge_patch(crds, "widgets.example.org", "", names)

    def called(name: str) -> Any:
        return lambda body: body["spec"]["names"].get("shortNames") == [name]

    async with running(admin):
        name = await template(admin, entry("widgets"))
        team = await consumer(stack, admin, template=name)
        # Its schema tells when the provider has seen a change of the CRD.
        other = await consumer(stack, admin)
        await other.bind()
        await ask(team, "widgets", resources=[entry("widgets")], schemaUpdatePolicy="Always")
        await succeeded(team, "widgets")
        await change("wone")
        await team.when(BOUNDSCHEMAS, "widgets.example.org", until=called("wone"))
        await admin.merge_patch(
            APISERVICEEXPORTTEMPLATES, name, "", {"spec": {"resources": [entry("gauges")]}}
        )
        await team.says(APISERVICEEXPORTREQUESTS, "ExportsReady", "NotInvited", field="reason")
        await change("wtwo")
        await other.when(BOUNDSCHEMAS, "widgets.example.org", until=called("wtwo"))
        schema = (await admin.get(BOUNDSCHEMAS, "widgets.example.org", team.namespace)).to_dict()
        assert called("wone")(schema)
        await admin.merge_patch(
            APISERVICEEXPORTTEMPLATES, name, "", {"spec": {"resources": [entry("widgets")]}}
        )
        await team.when(BOUNDSCHEMAS, "widgets.example.org", until=called("wtwo"))


async def test_a_consumer_without_a_record_keeps_its_exports_and_gets_no_more(
    admin: Client, stack: AsyncExitStack
) -> None:
    identity = str(uuid.uuid4())
    async with running(admin, ProviderOptions(requests="any")):
        team = await consumer(stack, admin, identity=identity)
        # As an older version has left it.
        nothing: JSON = {"spec": {"serviceProviderSpec": None}}
        await admin.merge_patch(CLUSTERBINDINGS, "cluster", team.namespace, nothing)
        await team.bind()
        await ask(team, "gauges", resources=[entry("gauges")])
        await succeeded(team, "gauges")
    async with running(admin):
        await ask(team, "more", resources=[entry("widgets")])
        assert "provider invite" in await refused(team, "more")
        for name in ("widgets", "gauges"):
            await team.says(APISERVICEEXPORTREQUESTS, "ExportsReady", "True", name=name)
            await team.says(APISERVICEEXPORTS, "PermissionsGranted", "True", name=name)
        assert (await team.client.list(GAUGES)).items == []
        assert (await record(admin, team)).templates is None
        await invite(admin, name="team", template="widgets", identity=identity)
        await team.says(
            APISERVICEEXPORTREQUESTS,
            "ExportsReady",
            "BoundSchemaConflict",
            name="more",
            field="reason",
        )


async def test_any_request_is_the_originals_rule(admin: Client, stack: AsyncExitStack) -> None:
    async with running(admin, ProviderOptions(requests="any")):
        team = await consumer(stack, admin)
        await ask(team, "gauges", resources=[entry("gauges")])
        await succeeded(team, "gauges")


async def test_nobody_is_invited_to_an_address_that_only_pods_reach(admin: Client) -> None:
    """A provider in a Pod knows the Service of its API server alone."""
    name = f"t{uuid.uuid4().hex[:8]}"
    outside = InviteOptions(external_address=admin.config.server)
    async with Client(replace(admin.config, context=IN_CLUSTER)) as pod:
        with pytest.raises(InviteError, match=r"only Pods .* --external-address"):
            await invite(pod, name=name, template="widgets")
        assert await invite(pod, name=name, template="widgets", options=outside)
        # The address of a consumer that is known stays.
        assert await invite(pod, name=name, template="widgets")
