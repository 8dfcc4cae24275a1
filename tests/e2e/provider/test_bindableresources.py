"""Invitations that are asked for by an object, with the rights of the manifests and no others."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.planes import ControlPlane
from tests.support.provider import example, invited, prepare, request_export, running
from tests.support.waiting import condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, EVENTS, NAMESPACES, SECRETS
from fairlead.client import Client, NotFound, parse_kubeconfig
from fairlead.demo.identity import create_all
from fairlead.provider.commands.consumers import UnknownConsumerError, find_consumer
from fairlead.provider.commands.handover import hand_over
from fairlead.provider.controllers.bindableresources.reconcile import ANNOTATION_MOST_CONSUMERS
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import manifests


ROLE = "fairlead-provider-invitations"


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        await create_all(client, manifests(image="fairlead", invitations=True))
        yield client


@pytest.fixture
async def namespace(admin: Client) -> str:
    """Where requests are made."""
    name = f"asks-{uuid.uuid4().hex[:8]}"
    await admin.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def request(namespace: str, identity: str = "", **spec: Any) -> JSON:
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindableResourcesRequest",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "templateRef": {"name": "widgets"},
            "clusterIdentity": {"identity": identity or str(uuid.uuid4()), "prettyName": "Shop"},
            "author": "ann",
            **spec,
        },
    }


async def ended(admin: Client, namespace: str, reason: str) -> JSON:
    body = await when(
        admin,
        BINDABLERESOURCESREQUESTS,
        "shop",
        namespace,
        until=lambda body: condition(body, "Ready").get("reason") == reason,
    )
    status: JSON = body["status"]
    return status


def ready(status: JSON) -> JSON:
    return condition({"status": status}, "Ready")


async def answer(admin: Client, namespace: str, ref: JSON) -> bytes:
    secret = (await admin.get(SECRETS, ref["name"], namespace)).to_dict()
    return base64.b64decode(secret["data"][ref["key"]])


async def phase_of(client: Client, namespace: str, name: str, phase: str) -> None:
    """Wait until a request has come to a phase."""
    await when(
        client,
        APISERVICEEXPORTREQUESTS,
        name,
        namespace,
        until=lambda body: (body.get("status") or {}).get("phase") == phase,
    )


@pytest.mark.edge
@pytest.mark.parametrize(
    ("named", "ref"),
    [
        pytest.param({}, {"name": "shop-binding-response", "key": "binding-response"}, id="own"),
        pytest.param(
            {"kubeconfigSecretRef": {"name": "mine", "key": "k"}},
            {"name": "mine", "key": "k"},
            id="named",
        ),
    ],
)
async def test_a_request_is_answered_with_all_that_a_consumer_needs(
    admin: Client, namespace: str, named: JSON, ref: JSON
) -> None:
    async with running(admin):
        await admin.create(BINDABLERESOURCESREQUESTS, request(namespace, **named))
        status = await ended(admin, namespace, "SecretReady")
        assert status["phase"] == "Succeeded"
        assert status["completionTime"]
        assert status["kubeconfigSecretRef"] == ref
        assert ready(status)["status"] == "True"
        content = await answer(admin, namespace, ref)
        response = decode_binding_response(content)
        assert response.provider_namespace == status["namespace"]
        async with invited(content) as (client, theirs):
            (wanted,) = response.requests
            assert wanted.metadata.name == "widgets"
            assert (await client.list(APISERVICEEXPORTREQUESTS, theirs)).items == []
            # What it was invited to is recorded, so that it may request it, and no more.
            for name, plural, phase in (
                ("widgets", "widgets", "Succeeded"),
                ("more", "gadgets", "Failed"),
            ):
                body = msgspec.to_builtins(wanted)
                body["spec"]["resources"][0]["resource"] = plural
                await request_export(client, theirs, body | {"metadata": {"name": name}})
                await phase_of(client, theirs, name, phase)
        reasons = [
            event.to_dict()["reason"] for event in (await admin.list(EVENTS, namespace)).items
        ]
        assert reasons.count("SecretReady") <= 1


async def test_it_goes_with_its_secret_when_its_time_is_up(admin: Client, namespace: str) -> None:
    async with running(admin):
        body = request(namespace, ttlAfterFinished="2s")
        await admin.create(BINDABLERESOURCESREQUESTS, body)
        await when(admin, SECRETS, "shop-binding-response", namespace, until=bool)
        await when(
            admin, BINDABLERESOURCESREQUESTS, "shop", namespace, until=lambda body: not body
        )
    secret = await admin.list(SECRETS, namespace, fields="metadata.name=shop-binding-response")
    # A real server's collector learns of new kinds within half a minute.
    for one in secret.items:
        assert one.meta.controller() is not None


async def test_it_waits_for_its_template(admin: Client, namespace: str) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    async with running(admin):
        await admin.create(
            BINDABLERESOURCESREQUESTS, request(namespace, templateRef={"name": name})
        )
        status = await ended(admin, namespace, "TemplateNotFound")
        assert status["phase"] == "Failed"
        assert f"{name} does not exist; there are: " in ready(status)["message"]
        assert "namespace" not in status
        await admin.create(
            APISERVICEEXPORTTEMPLATES, example("template") | {"metadata": {"name": name}}
        )
        assert (await ended(admin, namespace, "SecretReady"))["phase"] == "Succeeded"


async def test_an_identity_stays_with_its_author(admin: Client, namespace: str) -> None:
    identity = str(uuid.uuid4())
    await invite(admin, name="t", template="widgets", identity=identity, author="bob")
    async with running(admin):
        await admin.create(BINDABLERESOURCESREQUESTS, request(namespace, identity))
        status = await ended(admin, namespace, "IdentityTaken")
    assert status["phase"] == "Failed"
    assert "belongs to author bob, not to author ann" in ready(status)["message"]
    found = await admin.list(SECRETS, namespace, fields="metadata.name=shop-binding-response")
    assert found.items == []


async def test_a_group_begins_no_consumer(admin: Client, namespace: str) -> None:
    identity, group = str(uuid.uuid4()), "group:oidc:team-a"
    async with running(admin):
        body = request(namespace, identity, author=group)
        await admin.create(BINDABLERESOURCESREQUESTS, body)
        status = await ended(admin, namespace, "IdentityTaken")
        assert "`fairlead provider hand-over` gives it to the group" in ready(status)["message"]
        with pytest.raises(UnknownConsumerError):
            await find_consumer(admin, identity)
        await invite(admin, name="t", template="widgets", identity=identity, author="ann")
        await hand_over(admin, await find_consumer(admin, identity), group)
        # What it was given it may bind: a refusal is looked at again when its template changes.
        patch = {"metadata": {"labels": {"changed": uuid.uuid4().hex}}}
        await admin.merge_patch(APISERVICEEXPORTTEMPLATES, "widgets", "", patch)
        assert (await ended(admin, namespace, "SecretReady"))["phase"] == "Succeeded"


@pytest.mark.parametrize("begun", ["by-a-request", "by-an-administrator"])
async def test_an_identity_is_handed_out_in_one_namespace_alone(
    admin: Client, namespace: str, begun: str
) -> None:
    """A request names its author itself: who may make some elsewhere would pass for each."""
    identity, elsewhere = str(uuid.uuid4()), f"{namespace}-2"
    await admin.create(NAMESPACES, {"metadata": {"name": elsewhere}})
    if begun == "by-an-administrator":
        await invite(admin, name="t", template="widgets", identity=identity, author="ann")
    async with running(admin):
        await admin.create(BINDABLERESOURCESREQUESTS, request(namespace, identity))
        await ended(admin, namespace, "SecretReady")
        await admin.create(BINDABLERESOURCESREQUESTS, request(elsewhere, identity))
        status = await ended(admin, elsewhere, "IdentityTaken")
        assert f"only requests in namespace {namespace} get" in ready(status)["message"]
        with pytest.raises(NotFound):
            await admin.get(SECRETS, "shop-binding-response", elsewhere)
        # An administrator goes on inviting it, and hands it over to be asked for elsewhere.
        await invite(admin, name="t", template="widgets", identity=identity, author="ann")
        await hand_over(admin, await find_consumer(admin, identity), "ann")
        patch = {"metadata": {"labels": {"changed": uuid.uuid4().hex}}}
        await admin.merge_patch(APISERVICEEXPORTTEMPLATES, "widgets", "", patch)
        await ended(admin, elsewhere, "SecretReady")


async def test_a_request_bounds_its_authors_consumers(admin: Client, namespace: str) -> None:
    author, identity = f"ann-{uuid.uuid4().hex[:8]}", str(uuid.uuid4())
    async with running(admin):

        async def ends(identity: str, most: str, reason: str) -> JSON:
            body = request(namespace, identity, author=author)
            body["metadata"]["annotations"] = {ANNOTATION_MOST_CONSUMERS: most}
            await admin.create(BINDABLERESOURCESREQUESTS, body)
            status = await ended(admin, namespace, reason)
            await admin.delete(BINDABLERESOURCESREQUESTS, "shop", namespace)
            await gone(admin, SECRETS, "shop-binding-response", namespace)
            return ready(status)

        assert (
            "has to be a whole number"
            in (await ends(identity, "-1", "HandleResourcesFailed"))["message"]
        )
        await ends(identity, "1", "SecretReady")
        other = str(uuid.uuid4())
        assert "already has 1 consumers" in (await ends(other, "1", "TooManyConsumers"))["message"]
        with pytest.raises(UnknownConsumerError):
            await find_consumer(admin, other)
        # One that is there is no new one.
        await ends(identity, "0", "SecretReady")
        await ends(other, "2", "SecretReady")


async def test_nobodys_secret_is_overwritten(admin: Client, namespace: str) -> None:
    precious: JSON = {"metadata": {"name": "mine"}, "stringData": {"k": "precious"}}
    await admin.create(SECRETS, precious, namespace)
    async with running(admin):
        body = request(namespace, kubeconfigSecretRef={"name": "mine", "key": "k"})
        await admin.create(BINDABLERESOURCESREQUESTS, body)
        status = await ended(admin, namespace, "SecretCreationFailed")
    assert "was not made for this request" in ready(status)["message"]
    assert await answer(admin, namespace, {"name": "mine", "key": "k"}) == b"precious"


async def test_without_the_right_to_invite_it_says_how_to_get_it(
    admin: Client, namespace: str
) -> None:
    await admin.delete(CLUSTERROLEBINDINGS, ROLE)
    async with running(admin):
        await admin.create(BINDABLERESOURCESREQUESTS, request(namespace))
        status = await ended(admin, namespace, "HandleResourcesFailed")
        assert status["phase"] == "Pending"
        assert "`fairlead manifests provider --invitations`" in ready(status)["message"]
        await create_all(admin, manifests(image="fairlead", invitations=True))
        assert (await ended(admin, namespace, "SecretReady"))["phase"] == "Succeeded"
