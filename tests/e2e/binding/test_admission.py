"""The webhooks of the binding, asked by control planes, with the rights of the manifests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
from tests.support.binding import mounted
from tests.support.bindinghooks import (
    Served,
    coreos,
    eventually,
    mapping,
    proving,
    repeated,
    serving_webhooks,
    spec_binding,
)
from tests.support.tiers import today
from tests.support.waiting import when

from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    DEPLOYMENTS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    WEBHOOKCONFIGURATIONS,
    Resource,
)
from fairlead.api.servicebinding.common import IMMUTABLE, REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.admission.names import NAME, SECRET
from fairlead.binding.manifests import manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import ApiError, Client, Invalid, NotFound
from fairlead.client.config import Impersonation
from fairlead.demo.identity import as_service_account
from fairlead.runtime import Cluster
from fairlead.runtime.admission.keeping import CertificateUser
from fairlead.runtime.admission.server import AdmissionServer


ANN = Impersonation(user="ann", groups=("developers",))
DATA = {"type": "postgresql", "host": "db", "password": "s3cret"}


@pytest.fixture
async def served(admin: Client) -> AsyncIterator[Served]:
    async with serving_webhooks(admin, manifests(image="fairlead", webhooks=True)) as found:
        yield found


@contextlib.asynccontextmanager
async def as_ann(served: Served, *rules_: JSON) -> AsyncIterator[Client]:
    """Ann, who may do this in the team's namespace and nothing else."""
    namespace = served.team.namespace
    await served.admin.create(
        ROLES, {"metadata": {"name": "ann"}, "rules": list(rules_)}, namespace
    )
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": "ann", "apiGroup": group}
    reference = {"apiGroup": group, "kind": "Role", "name": "ann"}
    body = {"metadata": {"name": "ann"}, "roleRef": reference, "subjects": [subject]}
    await served.admin.create(ROLEBINDINGS, body, namespace)
    async with Client(replace(served.admin.config, impersonation=ANN)) as client:
        yield client


@pytest.mark.edge
async def test_a_binding_is_worked_on_with_the_rights_of_who_edited_it(served: Served) -> None:
    team = served.team
    await team.deployment("web")
    everything = rule("servicebinding.io", ["servicebindings"], ["*"])
    async with as_ann(served, everything) as ann:

        async def allowed() -> bool:
            await ann.list(SERVICEBINDINGS, team.namespace)
            return True

        await repeated(allowed)
        body = spec_binding("db")
        forged = json.dumps({"username": "admin", "groups": ["system:masters"]})
        body["metadata"]["annotations"] = {REQUESTER_ANNOTATION: forged}
        made = await ann.create(SERVICEBINDINGS, body, team.namespace)
        noted = json.loads(made.meta.annotations[REQUESTER_ANNOTATION])
        assert noted["username"] == "ann"
        assert "developers" in noted["groups"]
    found = await team.says("db", "ServiceAvailable", "False", "ServiceForbidden")
    assert not mounted((await served.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict())
    assert (
        found["metadata"]["annotations"][REQUESTER_ANNOTATION]
        == made.meta.annotations[REQUESTER_ANNOTATION]
    )
    # The controller has written a finalizer meanwhile, which is no edit.
    assert found["metadata"]["finalizers"]
    edited = await team.patch(SERVICEBINDINGS, "db", {"metadata": {"labels": {"checked": "yes"}}})
    assert json.loads(edited.meta.annotations[REQUESTER_ANNOTATION])["username"] != "ann"
    await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) == "login")


@pytest.mark.edge
@today("no rules: the webhook says it, with 403")
async def test_a_bound_binding_of_coreos_does_not_change(served: Served) -> None:
    team = served.team
    await team.deployment("web")
    await served.admin.create(COREOS_SERVICEBINDINGS, coreos("db"), team.namespace)
    await team.says("db", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS)
    # The rule of the CRD says it before the webhook does.
    with pytest.raises(Invalid, match=re.escape(IMMUTABLE)):
        await team.patch(COREOS_SERVICEBINDINGS, "db", {"spec": {"bindAsFiles": False}})
    await team.patch(COREOS_SERVICEBINDINGS, "db", {"metadata": {"labels": {"a": "b"}}})
    await team.delete(COREOS_SERVICEBINDINGS, "db")
    await team.when(COREOS_SERVICEBINDINGS, "db", lambda body: not body)


@pytest.mark.edge
@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3"])
async def test_every_version_is_judged(served: Served, version: str) -> None:
    admin, namespace = served.admin, served.team.namespace
    old = replace_version(SERVICEBINDINGS, version)
    body = spec_binding("db", both=True) | {"apiVersion": old.api_version}
    with pytest.raises(ApiError, match="name and selector MUST NOT be defined in the app"):
        await admin.create(old, body, namespace)
    mappings = replace_version(CLUSTERWORKLOADRESOURCEMAPPINGS, version)
    twice: JSON = mapping("v1")
    twice["apiVersion"] = mappings.api_version
    twice["spec"]["versions"] *= 2
    with pytest.raises(ApiError, match=r"spec.versions\[1\].version v1 is there twice"):
        await admin.create(mappings, twice)


def replace_version(resource: Resource, version: str) -> Resource:
    return Resource(
        resource.group, version, resource.plural, resource.kind, namespaced=resource.namespaced
    )


async def test_a_dry_run_leaves_nothing(served: Served) -> None:
    namespace = served.team.namespace
    made = await served.admin.create(SERVICEBINDINGS, spec_binding("db"), namespace, dry_run=True)
    assert REQUESTER_ANNOTATION in made.meta.annotations
    with pytest.raises(NotFound):
        await served.admin.get(SERVICEBINDINGS, "db", namespace)


async def test_nothing_is_said_about_the_system(served: Served) -> None:
    made = await served.admin.create(
        SERVICEBINDINGS, spec_binding("db"), "kube-system", dry_run=True
    )
    assert REQUESTER_ANNOTATION not in made.meta.annotations


async def test_what_is_taken_away_from_the_certificate_comes_back(served: Served) -> None:
    admin = served.admin
    before = (await admin.get(SECRETS, SECRET, DEFAULT_NAMESPACE)).to_dict()["data"]
    await admin.delete(SECRETS, SECRET, DEFAULT_NAMESPACE)
    await when(
        admin,
        SECRETS,
        SECRET,
        DEFAULT_NAMESPACE,
        until=lambda body: body and body["data"]["ca.crt"] != before["ca.crt"],
    )
    for resource in WEBHOOKCONFIGURATIONS:
        body = (await admin.get(resource, NAME)).to_dict()
        for hook in body["webhooks"]:
            hook["clientConfig"].pop("caBundle", None)
        await repeated(partial(_updated, admin, resource, body))
        await when(
            admin,
            resource,
            NAME,
            until=lambda body: all("caBundle" in one["clientConfig"] for one in body["webhooks"]),
        )
    namespace = served.team.namespace
    body = spec_binding("db")

    async def noted() -> bool:
        made = await admin.create(SERVICEBINDINGS, body, namespace, dry_run=True)
        return REQUESTER_ANNOTATION in made.meta.annotations

    await repeated(noted)


async def _updated(admin: Client, resource: Resource, body: JSON) -> bool:
    live = await admin.get(resource, NAME)
    body["metadata"]["resourceVersion"] = live.meta.resource_version
    await admin.update(resource, body)
    return True


async def test_webhooks_are_registered_once_they_are_trusted(served: Served) -> None:
    """What a person or a tool applies has none, so that nothing is refused until then."""
    admin = served.admin
    for resource in WEBHOOKCONFIGURATIONS:
        live = await admin.get(resource, NAME)
        without = {"metadata": {"labels": live.meta.labels, "name": NAME}}
        await admin.delete(resource, NAME)
        await admin.create(resource, without)
        found = await when(admin, resource, NAME, until=lambda body: body.get("webhooks"))
        assert all(hook["clientConfig"]["caBundle"] for hook in found["webhooks"])
    await proving(admin)


async def test_what_others_add_to_a_webhook_stays(served: Served) -> None:
    """As a provider of clusters does, which excludes namespaces of its own from all webhooks."""
    admin = served.admin
    term = {"key": "example.org/plane", "operator": "DoesNotExist"}
    foreign = {
        "name": "a.hooks.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    (resource, *_) = WEBHOOKCONFIGURATIONS

    async def changed() -> bool:
        body = (await admin.get(resource, NAME)).to_dict()
        (hook, *_) = body["webhooks"]
        hook["namespaceSelector"]["matchExpressions"].append(term)
        hook["failurePolicy"] = "Ignore"
        body["webhooks"] = [foreign, hook]
        await admin.update(resource, body)
        return True

    await repeated(changed)
    found = await when(
        admin,
        resource,
        NAME,
        until=lambda body: body["webhooks"][0]["name"] != foreign["name"],
    )
    hook, other = found["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert term in hook["namespaceSelector"]["matchExpressions"]
    assert len(hook["namespaceSelector"]["matchExpressions"]) == 2
    assert other["name"] == "a.hooks.example.org"


async def test_replicas_share_the_certificate(served: Served) -> None:
    config = await as_service_account(served.admin, DEFAULT_NAMESPACE, NAME)
    async with Client(config) as client, asyncio.TaskGroup() as group:
        cluster = Cluster("replica", client)
        other = AdmissionServer("127.0.0.1:0", {})
        user = CertificateUser(
            cluster, other, owner=NAME, key=(DEFAULT_NAMESPACE, SECRET), hosts=("127.0.0.1",)
        )
        tasks = [group.create_task(run) for run in (cluster.run(), other.run(), user.run())]
        await eventually(lambda: not other.not_ready())
        for task in tasks:
            task.cancel()


async def test_what_somebody_else_has_is_left_alone(served: Served) -> None:
    admin = served.admin
    for resource in WEBHOOKCONFIGURATIONS:
        await admin.delete(resource, NAME)
        await admin.create(resource, {"metadata": {"name": NAME}, "webhooks": []})
        hook = {
            "name": "a.hooks.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await admin.merge_patch(resource, NAME, "", {"webhooks": [hook]})
    before = await admin.get(SECRETS, SECRET, DEFAULT_NAMESPACE)
    # What is ours is written again, and so the program has looked at all of it.
    await admin.merge_patch(SECRETS, SECRET, DEFAULT_NAMESPACE, {"data": {"tls.crt": "YQ=="}})
    await when(
        admin,
        SECRETS,
        SECRET,
        DEFAULT_NAMESPACE,
        until=lambda body: (
            body["data"]["tls.crt"] not in {"YQ==", before.to_dict()["data"]["tls.crt"]}
        ),
    )
    for resource in WEBHOOKCONFIGURATIONS:
        live = (await admin.get(resource, NAME)).to_dict()
        assert "caBundle" not in live["webhooks"][0]["clientConfig"]


@pytest.mark.edge
async def test_the_rights_are_no_more_than_needed(served: Served) -> None:
    found = (await served.admin.get(CLUSTERROLES, f"{NAME}-controllers")).to_dict()["rules"]
    (given,) = [one for one in found if one["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert given["resourceNames"] == [NAME]
    assert sorted(given["verbs"]) == ["get", "list", "patch", "watch"]
    assert not [
        one
        for one in await _bindings(served.admin)
        if one["roleRef"]["name"] == "cluster-admin"
        and NAME in [subject["name"] for subject in one.get("subjects") or []]
    ]


async def _bindings(admin: Client) -> list[JSON]:
    return [item.to_dict() for item in (await admin.list(CLUSTERROLEBINDINGS)).items]
