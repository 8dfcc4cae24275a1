"""Services of other namespaces, bound with the rights of who was proven to ask for them."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.support.binding import DATA, Team, encoded, mounted
from tests.support.bindinghooks import Served, coreos, proving, repeated, serving_webhooks

from fairlead.api.keys import key_in
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    DEPLOYMENTS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
)
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION
from fairlead.binding.admission.names import KEY_SECRET, NAME
from fairlead.binding.manifests import manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import Client, NotFound
from fairlead.client.config import Impersonation


RBAC = "rbac.authorization.k8s.io"
UNPROVEN = "no webhook has recorded the requester of this spec"
FORGED = json.dumps({"username": "admin", "groups": ["system:masters"]})


@contextlib.asynccontextmanager
async def serving(admin: Client) -> AsyncIterator[Served]:
    async with serving_webhooks(admin, manifests(image="fairlead", webhooks=True)) as found:
        await found.team.deployment("web")
        yield found


@contextlib.asynccontextmanager
async def user_of(
    team: Team, other: Team, *, entitled: bool, account: str = ""
) -> AsyncIterator[Client]:
    """Somebody who edits in the team's namespace, and may read the other's login or not.

    It is a person, unless it has the user name of a service account.
    """
    user = f"user-{uuid.uuid4().hex[:8]}"
    subjects = [{"kind": "User", "name": account or user, "apiGroup": RBAC}]
    rights = {
        team: [
            rule(COREOS_SERVICEBINDINGS.group, [COREOS_SERVICEBINDINGS.plural], ["*"]),
            rule("apps", ["deployments"], ["get", "list", "update"]),
        ]
    }
    if entitled:
        rights[other] = [rule("", ["secrets"], ["get"], names=["login"])]
    for place, rules in rights.items():
        await place.create(ROLES, user, rules=rules)
        reference = {"apiGroup": RBAC, "kind": "Role", "name": user}
        await place.create(ROLEBINDINGS, user, roleRef=reference, subjects=subjects)
    mappings = rule("servicebinding.io", ["clusterworkloadresourcemappings"], ["get"])
    await team.admin.create(CLUSTERROLES, {"metadata": {"name": user}, "rules": [mappings]})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
    body = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
    await team.admin.create(CLUSTERROLEBINDINGS, body)
    config = replace(team.admin.config, impersonation=Impersonation(user=account or user))
    async with Client(config) as client:

        async def allowed() -> bool:
            await client.list(COREOS_SERVICEBINDINGS, team.namespace)
            return True

        await repeated(allowed)
        yield client


def foreign(other: Team, **meta: object) -> JSON:
    body = coreos("db")
    body["metadata"] |= meta
    body["spec"]["services"][0]["namespace"] = other.namespace
    return body


async def says(team: Team, status: str, reason: str, text: str = "") -> JSON:
    return await team.says(
        "db", "Ready", status, reason, text=text, resource=COREOS_SERVICEBINDINGS
    )


async def bound(team: Team) -> JSON:
    """The binding, once the workload has the data."""
    found = await says(team, "True", "ApplicationsBound")
    web = (await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
    secret = await team.admin.get(SECRETS, mounted(web), team.namespace)
    assert secret.to_dict()["data"]["password"] == encoded(**DATA)["password"]
    return found


async def is_unbound(team: Team) -> bool:
    return not mounted((await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict())


async def test_who_may_read_a_secret_elsewhere_gets_it(admin: Client) -> None:
    other = await Team.arrive(admin)
    async with serving(admin) as served, user_of(served.team, other, entitled=True) as ann:
        team = served.team
        forged = foreign(other, annotations={REQUESTER_ANNOTATION: FORGED, PROOF_ANNOTATION: "0"})
        made = await ann.create(COREOS_SERVICEBINDINGS, forged, team.namespace)
        found = (await bound(team))["metadata"]
        # The controllers have written a finalizer and an annotation meanwhile.
        assert found["finalizers"]
        for name in (REQUESTER_ANNOTATION, PROOF_ANNOTATION):
            assert found["annotations"][name] == made.meta.annotations[name]
            assert made.meta.annotations[name] != forged["metadata"]["annotations"][name]
        key = key_in(await admin.get(SECRETS, KEY_SECRET, DEFAULT_NAMESPACE))
        assert key.hex() not in json.dumps(found)


@pytest.mark.edge
async def test_who_may_not_is_refused_by_name(admin: Client) -> None:
    other = await Team.arrive(admin)
    async with serving(admin) as served, user_of(served.team, other, entitled=False) as bob:
        await bob.create(COREOS_SERVICEBINDINGS, foreign(other), served.team.namespace)
        text = f"cannot read service login in namespace {other.namespace}"
        await says(served.team, "False", "ProcessingError", text)
        assert await is_unbound(served.team)


@pytest.mark.edge
async def test_a_delivery_tool_does_not_lend_its_rights(admin: Client) -> None:
    other = await Team.arrive(admin)
    tool = f"system:serviceaccount:{other.namespace}:tool"
    async with (
        serving(admin) as served,
        user_of(served.team, other, entitled=True, account=tool) as delivery,
        user_of(served.team, other, entitled=True) as ann,
    ):
        team = served.team
        await delivery.create(COREOS_SERVICEBINDINGS, foreign(other), team.namespace)
        await says(
            team, "False", "ProcessingError", f"{tool}, who edited it last, may not request"
        )
        assert await is_unbound(team)

        async def edit(client: Client, change: JSON) -> None:
            await client.merge_patch(COREOS_SERVICEBINDINGS, "db", team.namespace, change)

        await edit(ann, {"metadata": {"labels": {"checked": "yes"}}})
        name = (await bound(team))["status"]["secret"]
        # What a person has had projected stays, until the tool changes what is asked for.
        await edit(delivery, {"metadata": {"labels": {"wave": "2"}}})
        await says(team, "False", "ProcessingError", "stays as it is until its spec changes")
        web = (await admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
        assert mounted(web) == name
        await edit(delivery, {"spec": {"detectBindingResources": True}})
        await team.when(DEPLOYMENTS, "web", lambda body: not mounted(body))
        await team.says(
            "db",
            "CollectionReady",
            "False",
            "ErrorReadingServices",
            resource=COREOS_SERVICEBINDINGS,
        )
        with pytest.raises(NotFound):
            await admin.get(SECRETS, name, team.namespace)


async def test_what_was_written_by_hand_counts_once_somebody_edits_it(admin: Client) -> None:
    other = await Team.arrive(admin)
    async with serving(admin) as served, user_of(served.team, other, entitled=True) as ann:
        team = served.team
        configuration = (await admin.get(MUTATINGWEBHOOKCONFIGURATIONS, NAME)).to_dict()
        await admin.delete(MUTATINGWEBHOOKCONFIGURATIONS, NAME)
        by_hand = foreign(other, annotations={REQUESTER_ANNOTATION: FORGED, PROOF_ANNOTATION: "0"})

        async def not_asked() -> bool:
            made = await admin.create(
                COREOS_SERVICEBINDINGS, by_hand, team.namespace, dry_run=True
            )
            return made.meta.annotations[REQUESTER_ANNOTATION] == FORGED

        await repeated(not_asked)
        await admin.create(COREOS_SERVICEBINDINGS, by_hand, team.namespace)
        await says(team, "False", "ProcessingError", UNPROVEN)
        assert await is_unbound(team)
        meta = {name: configuration["metadata"][name] for name in ("name", "labels")}
        await admin.create(MUTATINGWEBHOOKCONFIGURATIONS, {**configuration, "metadata": meta})
        await proving(admin)
        label = {"metadata": {"labels": {"checked": "yes"}}}
        await ann.merge_patch(COREOS_SERVICEBINDINGS, "db", team.namespace, label)
        await bound(team)


async def test_controllers_that_start_again_believe_what_was_proven(admin: Client) -> None:
    other = await Team.arrive(admin)
    async with serving(admin) as served:
        team = served.team
        async with user_of(team, other, entitled=True) as ann:
            await ann.create(COREOS_SERVICEBINDINGS, foreign(other), team.namespace)
            await bound(team)
    before = (await admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
    async with serving(admin):
        data = {"data": encoded(password="n3w")}
        await admin.merge_patch(SECRETS, "login", other.namespace, data)
        await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) != mounted(before))
        await says(team, "True", "ApplicationsBound")
        # Who takes the key away takes all that was proven with it back.
        await admin.delete(SECRETS, KEY_SECRET, DEFAULT_NAMESPACE)
        await says(team, "False", "ProcessingError", UNPROVEN)
        await proving(admin)


async def test_a_dry_run_proves_and_leaves_nothing(admin: Client) -> None:
    other = await Team.arrive(admin)
    async with serving(admin) as served, user_of(served.team, other, entitled=True) as ann:
        before = await admin.get(SECRETS, KEY_SECRET, DEFAULT_NAMESPACE)
        namespace = served.team.namespace
        made = await ann.create(COREOS_SERVICEBINDINGS, foreign(other), namespace, dry_run=True)
        assert PROOF_ANNOTATION in made.meta.annotations
        with pytest.raises(NotFound):
            await admin.get(COREOS_SERVICEBINDINGS, "db", namespace)
        after = await admin.get(SECRETS, KEY_SECRET, DEFAULT_NAMESPACE)
        assert after.meta.resource_version == before.meta.resource_version
