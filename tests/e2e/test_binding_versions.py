"""Both APIs in all their versions, on a control plane."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.support.binding import Team, mounted, pod, prepare, running
from tests.support.planes import ControlPlane

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client, parse_kubeconfig


DATA = {"type": "postgresql", "host": "db"}


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client)
        yield client


@pytest.fixture
async def team(admin: Client) -> AsyncIterator[Team]:
    team = Team(admin, f"binding-{uuid.uuid4().hex[:8]}")
    await team.start()
    data = {name: base64.b64encode(text.encode()).decode() for name, text in DATA.items()}
    await team.create(SECRETS, "login", data=data)
    await team.deployment("web")
    async with running(admin):
        yield team


def spec(**changes: object) -> JSON:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    service = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
    return {"workload": workload, "service": service, **changes}


def of(resource: Resource, version: str) -> Resource:
    return msgspec.structs.replace(resource, version=version)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3"])
async def test_a_binding_of_any_version_is_the_same_one(team: Team, version: str) -> None:
    resource = of(SERVICEBINDINGS, version)
    env = [{"name": "HOST", "key": "host"}]
    with capture_logs() as logs:
        await team.create(resource, "db", spec=spec(name="store", env=env))
    warned = [str(line) for line in logs if "is deprecated, use v1" in str(line)]
    assert bool(warned) is (version != "v1")
    ready = await team.says("db", "Ready", "True", "ApplicationsBound", resource=resource)
    stored = await team.admin.get(SERVICEBINDINGS, "db", team.namespace)
    assert {**stored.to_dict(), "apiVersion": ""} == {**ready, "apiVersion": ""}
    assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
    bound = await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) == "login")
    (container,) = pod(bound)["containers"]
    assert container["volumeMounts"] == [{"name": "store", "mountPath": "/bindings/store"}]
    assert [item["name"] for item in container["env"]] == ["HOST", "SERVICE_BINDING_ROOT"]
    await team.delete(resource, "db")
    await team.when(resource, "db", lambda body: not body)
    await team.when(DEPLOYMENTS, "web", lambda body: not mounted(body))


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3"])
async def test_a_mapping_of_any_version_is_used(team: Team, version: str) -> None:
    resource = of(CLUSTERWORKLOADRESOURCEMAPPINGS, version)
    path = ".spec.template.spec.initContainers[*]"
    body: JSON = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "deployments.apps"},
        "spec": {"versions": [{"version": "*", "containers": [{"path": path}]}]},
    }
    with capture_logs() as logs:
        await team.admin.create(resource, body)
    try:
        warned = [str(line) for line in logs if "is deprecated, use v1" in str(line)]
        assert bool(warned) is (version != "v1")
        await team.create(SERVICEBINDINGS, "db", spec=spec())
        await team.says("db", "Ready", "False", "ProcessingError", text="initContainers")
    finally:
        await team.admin.delete(resource, "deployments.apps")
    await team.says("db", "Ready", "True", "ApplicationsBound")


async def test_a_binding_without_spec_is_told_so(team: Team) -> None:
    await team.create(SERVICEBINDINGS, "db")
    await team.says("db", "Ready", "False", "ProcessingError", text="spec")
    await team.delete(SERVICEBINDINGS, "db")
    await team.when(SERVICEBINDINGS, "db", lambda body: not body)
