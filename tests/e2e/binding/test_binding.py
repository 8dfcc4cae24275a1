"""Service binding on a control plane: from a service's Secret to a workload, and back."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from tests.support.binding import (
    DATA,
    DATABASES,
    GROUP,
    PASSES,
    RIGS,
    Team,
    bind,
    condition,
    crd,
    encoded,
    mounted,
    pod,
    role,
    running,
)
from tests.support.planes import ControlPlane, LoopThread, SandboxControlPlane
from tests.support.waiting import eventually

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    SECRETS,
    Resource,
)
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.controller import BindingController
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.demo.pods.runner import RunResult, run_workload
from fairlead.portal.console.examples import example
from fairlead.runtime import install_crds


@pytest.fixture
async def team(admin: Client) -> Team:
    return await Team.arrive(admin, login=False)


@pytest.fixture
async def binding(admin: Client, team: Team) -> AsyncIterator[list[BindingController]]:
    async with running(admin) as controllers:
        yield controllers


def spec(**changes: Any) -> JSON:
    service = {"apiVersion": DATABASES.api_version, "kind": "Database", "name": "db"}
    return bind(**{"service": service, **changes})


SECRET_SERVICE = {"apiVersion": "v1", "kind": "Secret", "name": "login"}


@pytest.mark.edge
async def test_a_provisioned_service_is_waited_for_bound_and_unbound(
    team: Team, binding: list[BindingController]
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "web-db", spec=spec())
    await team.says("web-db", "ServiceAvailable", "False", "ServiceNotFound")

    await team.create(DATABASES, "db", spec={})
    await team.says("web-db", "ServiceAvailable", "Unknown", "ServiceMissingBinding")

    await team.patch(
        DATABASES, "db", {"status": {"binding": {"name": "login"}}}, subresource="status"
    )
    waiting = await team.says(
        "web-db", "Ready", "False", "ProcessingError", text="login, which Database"
    )
    assert condition(waiting, "ServiceAvailable")["reason"] == "ErrorReadingSecret"
    assert "has not arrived yet" in condition(waiting, "ServiceAvailable")["message"]
    untouched = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert not mounted(untouched.to_dict())

    await team.create(SECRETS, "login", data=encoded(**DATA))
    ready = await team.says("web-db", "Ready", "True", "ApplicationsBound")
    assert ready["status"]["binding"] == {"name": "login"}
    assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
    assert ready["metadata"]["finalizers"] == ["servicebinding.io/finalizer"]
    assert condition(ready, "ServiceAvailable")["status"] == "True"
    bound = await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) == "login")
    container = pod(bound)["containers"][0]
    assert container["env"] == [{"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}]
    assert container["volumeMounts"] == [{"name": "web-db", "mountPath": "/bindings/web-db"}]
    assert bound["metadata"]["generation"] == 2

    await team.delete(SERVICEBINDINGS, "web-db")
    await team.when(SERVICEBINDINGS, "web-db", lambda body: not body)
    unbound = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert not mounted(unbound.to_dict())
    assert not pod(unbound.to_dict())["containers"][0].get("volumeMounts")


async def test_the_example_of_the_console_binds(
    team: Team, binding: list[BindingController]
) -> None:
    written = example(
        {},
        api_version=SERVICEBINDINGS.api_version,
        kind=SERVICEBINDINGS.kind,
        namespaced=SERVICEBINDINGS.namespaced,
    )
    body = yaml.safe_load(written)
    await team.deployment("example")
    await team.create(SECRETS, "example-login", data=encoded(**DATA))
    await team.create(SERVICEBINDINGS, "example", spec=body["spec"])
    await team.says("example", "Ready", "True", "ApplicationsBound")
    await team.when(DEPLOYMENTS, "example", lambda body: mounted(body) == "example-login")


async def test_a_bound_workload_runs_here_with_its_binding(
    team: Team, binding: list[BindingController]
) -> None:
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(**DATA))
    env = [{"name": "DB_HOST", "key": "host"}]
    await team.create(SERVICEBINDINGS, "web-db", spec=spec(service=SECRET_SERVICE, env=env))
    await team.says("web-db", "Ready", "True", "ApplicationsBound")
    code = (
        "import os, pathlib; root = pathlib.Path(os.environ['SERVICE_BINDING_ROOT']);"
        "print((root / 'web-db' / 'password').read_text(), os.environ['DB_HOST'])"
    )
    result = await run_workload(
        team.admin,
        DEPLOYMENTS,
        team.namespace,
        "web",
        command=[sys.executable, "-c", code],
        capture=True,
    )
    assert result == RunResult(0, "s3cret db\n")


@pytest.mark.edge
async def test_changed_content_is_a_new_secret_and_a_rollout(
    team: Team, binding: list[BindingController]
) -> None:
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(**DATA))
    body = spec(
        service=SECRET_SERVICE, provider="fairlead", env=[{"name": "DB_HOST", "key": "host"}]
    )
    await team.create(SERVICEBINDINGS, "web-db", spec=body)
    ready = await team.says("web-db", "Ready", "True", "ApplicationsBound")
    first: str = ready["status"]["binding"]["name"]
    assert first.startswith("web-db-")
    made = await team.admin.get(SECRETS, first, team.namespace)
    assert made.to_dict()["data"] == encoded(**DATA, provider="fairlead")
    assert made.meta.owned_by(ready["metadata"]["uid"])

    await team.patch(SECRETS, "login", {"data": encoded(host="other")})
    bound = await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) not in {"", first})
    second = mounted(bound)
    references = [
        item["valueFrom"]["secretKeyRef"]
        for item in pod(bound)["containers"][0]["env"]
        if "valueFrom" in item
    ]
    assert references == [{"name": second, "key": "host"}]


@pytest.mark.edge
async def test_workloads_that_stop_matching_are_unbound(
    team: Team, binding: list[BindingController]
) -> None:
    for name in ("one", "two"):
        await team.deployment(name, labels={"tier": "web"})
    await team.create(SECRETS, "login", data=encoded(**DATA))
    expressions = [{"key": "tier", "operator": "In", "values": ["web"]}]
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "selector": {"matchExpressions": expressions},
    }
    body = spec(service=SECRET_SERVICE, workload=workload)
    await team.create(SERVICEBINDINGS, "all", spec=body)
    for name in ("one", "two"):
        await team.when(DEPLOYMENTS, name, lambda body: mounted(body) == "login")

    await team.patch(DEPLOYMENTS, "one", {"metadata": {"labels": {"tier": "batch"}}})
    await team.when(DEPLOYMENTS, "one", lambda body: not mounted(body))
    await team.deployment("three", labels={"tier": "web"})
    await team.when(DEPLOYMENTS, "three", lambda body: mounted(body) == "login")
    two = await team.admin.get(DEPLOYMENTS, "two", team.namespace)
    assert mounted(two.to_dict()) == "login"


@pytest.mark.edge
async def test_a_mapping_says_where_and_its_change_moves_the_projection(
    team: Team, binding: list[BindingController]
) -> None:
    template = {
        "version": "*",
        "containers": [{"path": ".spec.crew[*]", "env": ".vars", "volumeMounts": ".mounts"}],
        "volumes": ".spec.disks",
    }
    mapping: JSON = {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": RIGS.group_resource},
        "spec": {"versions": [template]},
    }
    await create_all(team.admin, [mapping])
    await team.create(RIGS, "rig", spec={"crew": [{"vars": []}]})
    await team.create(SECRETS, "login", data=encoded(**DATA))
    workload = {"apiVersion": RIGS.api_version, "kind": "Rig", "name": "rig"}
    await team.create(
        SERVICEBINDINGS, "rig-db", spec=spec(service=SECRET_SERVICE, workload=workload)
    )
    bound = await team.when(RIGS, "rig", lambda body: bool(body["spec"].get("disks")))
    assert bound["spec"]["crew"][0]["mounts"][0]["mountPath"] == "/bindings/rig-db"

    await team.says("rig-db", "Ready", "True", "ApplicationsBound")
    moved = {"spec": {"versions": [{**template, "volumes": ".spec.holds"}]}}
    name = RIGS.group_resource
    await team.admin.merge_patch(CLUSTERWORKLOADRESOURCEMAPPINGS, name, "", moved)
    after = await team.when(RIGS, "rig", lambda body: bool(body["spec"].get("holds")))
    assert after["spec"]["disks"] == []
    await team.when(
        SERVICEBINDINGS,
        "rig-db",
        lambda body: "servicebinding.io/mapping" not in body["metadata"].get("annotations", {}),
    )
    await team.delete(SERVICEBINDINGS, "rig-db")
    await team.when(RIGS, "rig", lambda body: not body["spec"]["holds"])
    await team.admin.delete(CLUSTERWORKLOADRESOURCEMAPPINGS, name)


@pytest.mark.edge
async def test_a_kind_that_is_not_served_or_not_allowed_is_said_and_waited_for(
    team: Team, binding: list[BindingController]
) -> None:
    plural = f"caches{uuid.uuid4().hex[:6]}"
    caches = Resource(GROUP, "v1", plural, plural.capitalize())
    await team.deployment("web")
    service = {"apiVersion": caches.api_version, "kind": caches.kind, "name": "cache"}
    await team.create(SERVICEBINDINGS, "web-cache", spec=spec(service=service))
    await team.says("web-cache", "Ready", "False", "ProcessingError", text="install its CRD")

    await install_crds(team.admin, [crd(caches)])
    await team.create(caches, "cache", spec={})
    forbidden = await team.says(
        "web-cache", "ServiceAvailable", "False", "ServiceForbidden", text=plural
    )
    text = condition(forbidden, "ServiceAvailable")["message"]
    assert "ClusterRole labelled servicebinding.io/controller=true" in text

    await create_all(team.admin, [role(caches)])
    await team.says("web-cache", "ServiceAvailable", "Unknown", "ServiceMissingBinding")


@pytest.mark.edge
async def test_nothing_is_done_when_nothing_changed(
    team: Team, binding: list[BindingController]
) -> None:
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.create(SERVICEBINDINGS, "web-db", spec=spec(service=SECRET_SERVICE))
    await team.says("web-db", "Ready", "True", "ApplicationsBound")
    marker = {**SECRET_SERVICE, "name": "absent"}
    await team.create(SERVICEBINDINGS, "marker", spec=spec(service=marker))
    await team.says("marker", "Ready", "False", "ProcessingError")
    versions = await _versions(team)
    passes = PASSES[team.namespace, "web-db"]

    for replicas in range(5):
        patch = {"status": {"replicas": replicas, "observedGeneration": 1}}
        await team.patch(DEPLOYMENTS, "web", patch, subresource="status")
    await team.patch(SERVICEBINDINGS, "marker", {"metadata": {"annotations": {"touched": "1"}}})
    await team.patch(SERVICEBINDINGS, "marker", {"spec": {"name": "touched"}})
    await team.when(
        SERVICEBINDINGS, "marker", lambda body: body["status"].get("observedGeneration") == 2
    )
    assert await _versions(team) == versions
    assert PASSES[team.namespace, "web-db"] - passes <= 1


async def test_a_binding_is_looked_at_once_and_not_for_its_own_writes(
    team: Team, binding: list[BindingController]
) -> None:
    await team.create(SECRETS, "login", data=encoded(**DATA))
    made = spec(service=SECRET_SERVICE, type="own")
    workload = made["workload"]
    for name in ("first", "second"):
        await team.deployment(name)
        await team.create(
            SERVICEBINDINGS, name, spec={**made, "workload": {**workload, "name": name}}
        )
        ready = await team.says(name, "Ready", "True", "ApplicationsBound")
    generated = ready["status"]["binding"]["name"]

    # What the watches show of others' writes comes after what they show of ours.
    await team.patch(DEPLOYMENTS, "second", {"spec": {"replicas": 0}})
    await eventually(_passed, team, "second", 2)
    await team.patch(SECRETS, generated, {"metadata": {"labels": {"touched": "1"}}})
    await eventually(_passed, team, "second", 3)
    assert PASSES[team.namespace, "second"] == 3


async def test_changed_content_takes_a_pass_and_a_former_secret_another(
    team: Team, binding: list[BindingController]
) -> None:
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(service=SECRET_SERVICE, type="own"))
    ready = await team.says("db", "Ready", "True", "ApplicationsBound")
    former = ready["status"]["binding"]["name"]
    passes = PASSES[team.namespace, "db"]

    await team.patch(SECRETS, "login", {"data": encoded(host="other")})
    await team.when(SECRETS, former, lambda body: not body)
    web = await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) not in {"", former})
    # What the watches show of others' writes comes after what they show of ours.
    await team.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}})
    await eventually(_passed, team, "db", passes + 3)
    await team.patch(SECRETS, mounted(web), {"metadata": {"labels": {"touched": "1"}}})
    await eventually(_passed, team, "db", passes + 4)
    assert PASSES[team.namespace, "db"] == passes + 4


async def _passed(team: Team, name: str, count: int) -> bool:
    return PASSES[team.namespace, name] >= count


async def _versions(team: Team) -> list[str]:
    bound = await team.admin.get(SERVICEBINDINGS, "web-db", team.namespace)
    web = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    return [bound.meta.resource_version, str(web.meta.generation)]


@pytest.mark.edge
async def test_the_operators_own_api_binds_several_services_as_environment(
    team: Team, binding: list[BindingController]
) -> None:
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(user="shop"))
    await team.create(
        DATABASES, "db", spec={"host": "db.example"}, status={"binding": {"name": "other"}}
    )
    await team.patch(
        DATABASES,
        "db",
        {"metadata": {"annotations": {"service.binding/host": "path={.spec.host}"}}},
    )
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": "login"},
        {"group": GROUP, "version": "v1", "resource": "databases", "name": "db"},
    ]
    application = {"group": "apps", "version": "v1", "resource": "deployments", "name": "web"}
    await team.create(
        COREOS_SERVICEBINDINGS,
        "web-all",
        spec={"services": services, "application": application, "bindAsFiles": False},
    )
    ready = await team.says(
        "web-all", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS
    )
    secret = await team.admin.get(SECRETS, ready["status"]["secret"], team.namespace)
    assert secret.to_dict()["data"] == encoded(SECRET_USER="shop", DATABASE_HOST="db.example")
    bound = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    sources = pod(bound.to_dict())["containers"][0]["envFrom"]
    assert sources == [{"secretRef": {"name": ready["status"]["secret"]}}]

    await team.delete(COREOS_SERVICEBINDINGS, "web-all")
    await team.when(COREOS_SERVICEBINDINGS, "web-all", lambda body: not body)
    unbound = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert not pod(unbound.to_dict())["containers"][0].get("envFrom")


@pytest.mark.edge
async def test_a_binding_that_contradicts_itself_says_so_and_can_be_deleted(
    team: Team, binding: list[BindingController]
) -> None:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "selector": {}}
    await team.create(SERVICEBINDINGS, "both", spec=spec(workload=workload))
    said = await team.says(
        "both", "Ready", "False", "ProcessingError", text="spec.workload.selector"
    )
    # Nothing is projected that somebody would have to take away.
    assert not said["metadata"].get("finalizers")
    events = await team.admin.list(EVENTS, team.namespace)
    assert all(DATA["password"] not in event.raw.decode() for event in events.items)
    await team.delete(SERVICEBINDINGS, "both")
    await team.when(SERVICEBINDINGS, "both", lambda body: not body)


@pytest.mark.edge
async def test_nothing_is_lost_when_watches_break(
    team: Team,
    binding: list[BindingController],
    control_plane: ControlPlane,
    plane_thread: LoopThread,
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "web-db", spec=spec(service=SECRET_SERVICE))
    await team.says("web-db", "Ready", "False", "ProcessingError")
    if isinstance(control_plane, SandboxControlPlane):
        await plane_thread.call(control_plane.sandbox.faults.drop_watches)
    await control_plane.compact()
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.says("web-db", "Ready", "True", "ApplicationsBound")


@pytest.mark.edge
async def test_a_crd_that_goes_and_comes_back_is_followed(
    team: Team, binding: list[BindingController]
) -> None:
    plural = f"stores{uuid.uuid4().hex[:6]}"
    stores = Resource(GROUP, "v1", plural, plural.capitalize())
    await install_crds(team.admin, [crd(stores)])
    await create_all(team.admin, [role(stores)])
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.create(stores, "store", spec={})
    bound = {"status": {"binding": {"name": "login"}}}
    await team.patch(stores, "store", bound, subresource="status")
    service = {"apiVersion": stores.api_version, "kind": stores.kind, "name": "store"}
    await team.create(SERVICEBINDINGS, "web-store", spec=spec(service=service))
    await team.says("web-store", "Ready", "True", "ApplicationsBound")

    await team.admin.delete(CUSTOMRESOURCEDEFINITIONS, stores.group_resource)
    await team.says("web-store", "ServiceAvailable", "False", "ServiceNotFound")
    still = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert mounted(still.to_dict()) == "login"

    await install_crds(team.admin, [crd(stores)])
    await team.create(stores, "store", spec={})
    await team.patch(stores, "store", bound, subresource="status")
    await team.says("web-store", "Ready", "True", "ApplicationsBound")
    await team.delete(SERVICEBINDINGS, "web-store")
    await team.when(SERVICEBINDINGS, "web-store", lambda body: not body)


async def test_another_workload_in_the_spec_moves_the_binding(
    team: Team, binding: list[BindingController]
) -> None:
    for name in ("web", "other"):
        await team.deployment(name)
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.create(SERVICEBINDINGS, "web-db", spec=spec(service=SECRET_SERVICE))
    await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) == "login")
    await team.says("web-db", "Ready", "True", "ApplicationsBound")
    await team.patch(SERVICEBINDINGS, "web-db", {"spec": {"workload": {"name": "other"}}})
    await team.when(DEPLOYMENTS, "other", lambda body: mounted(body) == "login")
    await team.when(DEPLOYMENTS, "web", lambda body: not mounted(body))
