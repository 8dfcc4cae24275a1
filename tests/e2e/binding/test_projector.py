"""Workloads that are bound as they are created, by control planes that ask the projector."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.binding import bind, condition, prepare
from tests.support.bindinghooks import Served, coreos, repeated, serving_webhooks
from tests.support.planes import ControlPlane
from tests.support.realplane import CONTROLLERS, RealPlane
from tests.support.waiting import gone

from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    DEPLOYMENTS,
    JOBS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    PODS,
    SECRETS,
    Resource,
)
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.admission.names import NAME
from fairlead.binding.manifests import manifests, resource_of
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.binding.workloads.records import RECORD_PREFIX
from fairlead.client import ApiError, Client, NotFound, parse_kubeconfig
from fairlead.client.config import Impersonation


PROJECTED = ["jobs.batch", "pods", "deployments.apps"]


@contextlib.asynccontextmanager
async def projecting(admin: Client, **changes: Any) -> AsyncIterator[Served]:
    documents = manifests(image="fairlead", webhooks=True, projected=PROJECTED)
    kinds = tuple(resource_of(name) for name in PROJECTED)
    async with serving_webhooks(admin, documents, projected=kinds, **changes) as found:
        yield found
    # Others on this control plane do without these rights.
    await admin.delete(CLUSTERROLES, f"{NAME}-projected")


@pytest.fixture
async def served(control_plane: ControlPlane) -> AsyncIterator[Served]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        async with projecting(admin) as found:
            yield found


def pod_spec() -> JSON:
    return {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]}


def job(name: str = "migrate") -> JSON:
    body: JSON = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    return {**body, "spec": {"template": {"spec": pod_spec()}}}


def bare_pod(**meta: Any) -> JSON:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()}


def to_job(**changes: Any) -> JSON:
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "migrate"}
    return bind(**{"workload": workload, **changes})


def volumes(workload: Object) -> dict[str, str]:
    """The Secrets of the volumes of a Job or a Pod by their names."""
    spec = workload.to_dict()["spec"]
    found = (spec["template"]["spec"] if "template" in spec else spec).get("volumes") or []
    return {one["name"]: one["secret"]["secretName"] for one in found if "secret" in one}


def records(workload: Object) -> list[str]:
    return [key for key in workload.meta.annotations if key.startswith(RECORD_PREFIX)]


async def made(served: Served, resource: Resource, body: JSON, bindings: int = 1) -> Object:
    """The workload, created once the control plane has its webhooks asked, which dry runs tell."""
    namespace = served.team.namespace

    async def is_bound() -> bool:
        answer = await served.admin.create(resource, copy.deepcopy(body), namespace, dry_run=True)
        return len(records(answer)) == bindings

    await repeated(is_bound)
    if name := body["metadata"].get("name"):
        with pytest.raises(NotFound):
            await served.admin.get(resource, name, namespace)
    return await served.admin.create(resource, body, namespace)


async def collected(served: Served, name: str, resource: Resource = SERVICEBINDINGS) -> JSON:
    return await served.team.says(
        name, "CollectionReady", "True", "DataCollected", resource=resource
    )


@pytest.mark.edge
async def test_a_job_is_bound_as_it_is_created_and_never_written_again(served: Served) -> None:
    team = served.team
    binding = await team.create(SERVICEBINDINGS, "db", spec=to_job())
    await collected(served, "db")
    bound = await made(served, JOBS, job())
    assert volumes(bound) == {"db": "login"}
    assert records(bound) == [RECORD_PREFIX + binding.meta.uid]
    (container,) = bound.to_dict()["spec"]["template"]["spec"]["containers"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/bindings/db"]
    ready = await team.says("db", "Ready", "True", "ApplicationsBound")
    assert condition(ready, "InjectionReady")["message"] == ""
    text = served.manager.metrics.render()[0].decode()
    said = 'webhook="projector",operation="CREATE",verdict="changed"'
    labels = said.split(",")
    assert any(
        line.startswith("fairlead_webhook_reviews_total{") and all(one in line for one in labels)
        for line in text.splitlines()
    )
    assert 'fairlead_webhook_review_seconds_count{webhook="requester"}' in text
    now = await served.admin.get(JOBS, "migrate", team.namespace)
    assert now.meta.resource_version == bound.meta.resource_version


@pytest.mark.edge
async def test_a_deployment_is_bound_as_it_is_created_and_changed_later(served: Served) -> None:
    team = served.team
    await team.create(SERVICEBINDINGS, "db", spec=bind())
    await collected(served, "db")
    body: JSON = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    body["spec"]["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
    del body["spec"]["template"]["spec"]["restartPolicy"]
    bound = await made(served, DEPLOYMENTS, body)
    assert volumes(bound) == {"db": "login"}
    await team.says("db", "Ready", "True", "ApplicationsBound")
    now = await served.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert now.meta.resource_version == bound.meta.resource_version
    await team.delete(SERVICEBINDINGS, "db")
    await gone(served.admin, SERVICEBINDINGS, "db", team.namespace)
    after = await served.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert (records(after), volumes(after)) == ([], {})


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_without_an_answer_the_policy_decides(
    control_plane: ControlPlane, policy: str
) -> None:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        async with projecting(admin, fail_closed=policy == "Fail") as served:
            await without_an_answer(served, policy)


async def without_an_answer(served: Served, policy: str) -> None:
    team, admin = served.team, served.admin
    await team.create(SERVICEBINDINGS, "db", spec=to_job())
    await collected(served, "db")
    await made(served, JOBS, job())

    async def unanswered() -> bool:
        body = (await admin.get(MUTATINGWEBHOOKCONFIGURATIONS, NAME)).to_dict()
        # A URL that somebody gave it stays.
        body["webhooks"][-1]["clientConfig"]["url"] = "https://127.0.0.1:1/"
        await admin.update(MUTATINGWEBHOOKCONFIGURATIONS, body)
        return True

    await repeated(unanswered)
    await admin.delete(JOBS, "migrate", team.namespace, propagation="Background")
    await gone(admin, JOBS, "migrate", team.namespace)

    async def decided() -> bool:
        try:
            answer = await admin.create(JOBS, job(), team.namespace, dry_run=True)
        except ApiError as error:
            return policy == "Fail" and "failed calling webhook" in error.message
        return policy == "Ignore" and not records(answer)

    await repeated(decided)


@pytest.mark.edge
@pytest.mark.parametrize("how", ["finished", "deleted"])
async def test_a_running_job_keeps_its_binding(served: Served, how: str) -> None:
    team = served.team
    await team.create(SERVICEBINDINGS, "db", spec=to_job())
    await collected(served, "db")
    bound = await made(served, JOBS, job())
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.delete(SERVICEBINDINGS, "db")
    await team.says("db", "InjectionReady", "False", "Error", text="cannot be changed any more")
    if how == "deleted":
        await served.admin.delete(JOBS, "migrate", team.namespace, propagation="Background")
        await gone(served.admin, SERVICEBINDINGS, "db", team.namespace)
        return
    at = "2026-01-01T00:00:00Z"
    conditions = [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")]
    finished = {"startTime": at, "completionTime": at, "conditions": conditions}
    await team.patch(JOBS, "migrate", {"status": finished}, subresource="status")
    await gone(served.admin, SERVICEBINDINGS, "db", team.namespace)
    after = await served.admin.get(JOBS, "migrate", team.namespace)
    assert (records(after), volumes(after)) == ([], volumes(bound))


async def test_a_job_that_was_there_before_says_what_helps(served: Served) -> None:
    team = served.team
    await served.admin.create(JOBS, job(), team.namespace)
    await team.create(SERVICEBINDINGS, "db", spec=to_job())
    text = f"Job {team.namespace}/migrate was created without this binding"
    await team.says("db", "InjectionReady", "False", "Error", text=text)
    await served.admin.delete(JOBS, "migrate", team.namespace, propagation="Background")
    await gone(served.admin, JOBS, "migrate", team.namespace)
    await made(served, JOBS, job())
    await team.says("db", "Ready", "True", "ApplicationsBound")


async def test_pods_of_a_selector_are_bound_by_both_apis(served: Served) -> None:
    team = served.team
    selector = {"matchLabels": {"app": "a"}}
    workload = {"apiVersion": "v1", "kind": "Pod", "selector": selector}
    await team.create(SERVICEBINDINGS, "db", spec=bind(workload=workload))
    other = coreos("queue")
    other["spec"]["application"] = {"group": "", "version": "v1", "resource": "pods"}
    other["spec"]["application"]["labelSelector"] = selector
    other["spec"] |= {"bindAsFiles": True, "mappings": [{"name": "url", "value": "a://b"}]}
    await served.admin.create(COREOS_SERVICEBINDINGS, other, team.namespace)
    await collected(served, "db")
    status = await collected(served, "queue", COREOS_SERVICEBINDINGS)
    body = bare_pod(generateName="web-", labels={"app": "a"})
    bound = await made(served, PODS, body, bindings=2)
    own = status["status"]["secret"]
    found = volumes(bound)
    assert (found["db"], found["queue"]) == ("login", own)
    assert own.startswith("queue-")
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.says("queue", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS)
    unselected = bare_pod(name="other", labels={"app": "b"})
    assert records(await served.admin.create(PODS, unselected, team.namespace)) == []


async def test_what_changes_counts_for_jobs_to_come(served: Served) -> None:
    team = served.team
    await team.create(SERVICEBINDINGS, "db", spec=to_job(type="mysql"))
    before = (await collected(served, "db"))["status"]["binding"]["name"]
    bound = await made(served, JOBS, job())
    assert volumes(bound) == {"db": before}
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.patch(SERVICEBINDINGS, "db", {"spec": {"type": "mariadb"}})
    text = f"Job {team.namespace}/migrate keeps what it was created with"
    after = await team.says("db", "InjectionReady", "True", "ApplicationUpdated", text=text)
    new = after["status"]["binding"]["name"]
    # The Job reads the former one still.
    await served.admin.get(SECRETS, before, team.namespace)
    await served.admin.delete(JOBS, "migrate", team.namespace, propagation="Background")
    await gone(served.admin, JOBS, "migrate", team.namespace)
    assert volumes(await made(served, JOBS, job())) == {"db": new}
    await gone(served.admin, SECRETS, before, team.namespace)


async def test_jobs_are_bound_with_the_rights_of_who_edited_the_binding(served: Served) -> None:
    team, admin = served.team, served.admin
    await team.create(SERVICEBINDINGS, "db", spec=to_job())
    await collected(served, "db")
    await made(served, JOBS, job("migrate"))
    await admin.delete(JOBS, "migrate", team.namespace, propagation="Background")
    reading = [rule("", ["secrets"], ["get"]), rule("batch", ["jobs"], ["get"])]
    reading.append(rule("servicebinding.io", ["clusterworkloadresourcemappings"], ["get"]))
    name = f"dev-{team.namespace}"
    await admin.create(CLUSTERROLES, {"metadata": {"name": name}, "rules": reading})
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": name, "apiGroup": group}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    body: JSON = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await admin.create(CLUSTERROLEBINDINGS, body)
    # As the controllers themselves, whose writes are nobody's edits.
    dev = {REQUESTER_ANNOTATION: json.dumps({"username": name})}
    await as_controllers(served, {"metadata": {"annotations": dev}})

    async def bound() -> bool:
        return bool(records(await admin.create(JOBS, job(), team.namespace, dry_run=True)))

    async def unbound() -> bool:
        return not await bound()

    await repeated(unbound)
    await collected(served, "db")
    reading.append(rule("batch", ["jobs"], ["update"]))
    await admin.merge_patch(CLUSTERROLES, name, "", {"rules": reading})
    await repeated(bound)


async def as_controllers(served: Served, patch: JSON) -> None:
    user = f"system:serviceaccount:{DEFAULT_NAMESPACE}:{NAME}"
    config = replace(served.admin.config, impersonation=Impersonation(user=user))
    async with Client(config) as client:
        await client.merge_patch(SERVICEBINDINGS, "db", served.team.namespace, patch)


@pytest.mark.usefixtures("real_programs")
async def test_real_pods_of_a_job_have_the_files() -> None:
    async with (
        RealPlane(controllers=(*CONTROLLERS, "job")) as plane,
        Client(parse_kubeconfig(plane.admin_kubeconfig())) as admin,
    ):
        await prepare(admin)
        async with projecting(admin) as served:
            team = served.team
            await team.create(SERVICEBINDINGS, "db", spec=to_job())
            await collected(served, "db")
            bound = await made(served, JOBS, job())
            name = {"job-name": "migrate"}

            def of_job(found: list[Object]) -> list[Object]:
                return [one for one in found if name.items() <= one.meta.labels.items()]

            async def is_there() -> bool:
                return bool(of_job((await admin.list(PODS, team.namespace)).items))

            await repeated(is_there)
            (pod,) = of_job((await admin.list(PODS, team.namespace)).items)
            assert volumes(pod).items() >= volumes(bound).items() == {("db", "login")}
            (container,) = pod.to_dict()["spec"]["containers"]
            assert "/bindings/db" in [one["mountPath"] for one in container["volumeMounts"]]
            await team.says("db", "Ready", "True", "ApplicationsBound")
