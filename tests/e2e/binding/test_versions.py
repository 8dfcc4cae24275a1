"""Both APIs in all their versions, on a control plane."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.support.binding import GROUP, Team, crd, mounted, pod, role, running
from tests.support.waiting import SECONDS

from fairlead.api.manifests import READ_VERBS
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, Resource
from fairlead.api.servicebinding.coreos import BINDABLEKINDS, BINDABLEKINDS_NAME
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client
from fairlead.client.lookups import wait_for
from fairlead.demo.identity import create_all
from fairlead.runtime import install_crds


DATA = {"type": "postgresql", "host": "db"}


@pytest.fixture
async def team(admin: Client) -> AsyncIterator[Team]:
    team = await Team.arrive(admin)
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


async def test_kinds_that_can_be_bound_are_listed_as_long_as_they_can(team: Team) -> None:
    plurals = sorted(f"things{uuid.uuid4().hex[:6]}" for _ in range(3))
    kinds = [Resource(GROUP, "v1", plural, plural.capitalize()) for plural in plurals]
    bodies = [crd(kind) for kind in kinds]
    bodies[0]["metadata"]["labels"] = {"servicebinding.io/provisioned-service": "true"}
    name: JSON = {"type": "object", "properties": {"name": {"type": "string"}}}
    status = {"type": "object", "properties": {"binding": name}}
    whole = bodies[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    whole["properties"] = {"status": status}
    await install_crds(team.admin, bodies)

    async def listed(*expected: str) -> JSON:
        def as_expected(body: JSON) -> bool:
            found = [one["kind"] for one in body.get("status", ()) if one["group"] == GROUP]
            return [kind for kind in found if kind.lower() in plurals] == list(expected)

        return await when_listed(team, as_expected)

    first = await listed(kinds[0].kind, kinds[1].kind)
    assert {"group": GROUP, "kind": kinds[0].kind, "version": "v1"} in first["status"]
    order = [(one["group"], one["kind"], one["version"]) for one in first["status"]]
    assert order == sorted(order)
    # Somebody else's entry goes again.
    forged = {"status": [{"group": "x", "kind": "Y", "version": "v1"}]}
    await team.admin.merge_patch(BINDABLEKINDS, BINDABLEKINDS_NAME, "", forged)
    await listed(kinds[0].kind, kinds[1].kind)

    definitions = {"metadata": {"annotations": {"service.binding/host": "path={.spec.host}"}}}
    await team.admin.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, kinds[2].group_resource, "", definitions
    )
    await listed(*(kind.kind for kind in kinds))
    unlabelled = {"metadata": {"labels": {"servicebinding.io/provisioned-service": None}}}
    await team.admin.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, kinds[0].group_resource, "", unlabelled
    )
    await team.admin.delete(CUSTOMRESOURCEDEFINITIONS, kinds[1].group_resource)
    await listed(kinds[2].kind)


async def when_listed(team: Team, until: Callable[[JSON], bool]) -> JSON:
    def missing(found: Object | None) -> str:
        body = found.to_dict() if found is not None else {}
        return "" if until(body) else f"is {body}"

    found = await wait_for(
        team.admin, BINDABLEKINDS, BINDABLEKINDS_NAME, "", until=missing, timeout=SECONDS
    )
    assert found is not None
    return found.to_dict()


def engines(version: str) -> Resource:
    return Resource("engines.example.org", version, "engines", "Engine")


@pytest.fixture
async def two_versions(admin: Client) -> AsyncIterator[None]:
    """Engines, stored in a version with a field that the older one lacks; a mapping of that."""
    old, new = engines("v1"), engines("v2")
    body = crd(old)
    (version,) = body["spec"]["versions"]

    def schema(**fields: JSON) -> JSON:
        free: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        spec: JSON = {"type": "object", "properties": {"run": free, **fields}}
        return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}

    body["spec"]["versions"] = [
        {**version, "storage": False, "schema": schema()},
        {**version, "name": new.version, "schema": schema(power={"type": "integer"})},
    ]
    await install_crds(admin, [body])
    await create_all(admin, [role(old, (*READ_VERBS, "update", "patch"))])
    paths: JSON = {"annotations": ".spec.run.annotations", "volumes": ".spec.run.volumes"}
    paths["containers"] = [{"path": ".spec.run.containers[*]", "name": ".name"}]
    mapping: JSON = {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": old.group_resource},
        "spec": {"versions": [{"version": "v1", **paths}]},
    }
    await admin.create(CLUSTERWORKLOADRESOURCEMAPPINGS, mapping)
    yield
    await admin.delete(CLUSTERWORKLOADRESOURCEMAPPINGS, old.group_resource)
    await admin.delete(CUSTOMRESOURCEDEFINITIONS, old.group_resource)


async def test_a_binding_of_an_older_version_takes_no_field_of_a_newer_one(
    team: Team, two_versions: None
) -> None:
    new: JSON = {"power": 9, "run": {"containers": [{"name": "app", "image": "app"}]}}
    await team.create(engines("v2"), "main", spec=new)
    workload = {"apiVersion": engines("v1").api_version, "kind": "Engine", "name": "main"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    bound = (await team.admin.get(engines("v2"), "main", team.namespace)).to_dict()
    assert bound["spec"]["power"] == 9
    assert bound["spec"]["run"]["volumes"][0]["secret"] == {"secretName": "login"}
    await team.delete(SERVICEBINDINGS, "db")
    await team.when(SERVICEBINDINGS, "db", lambda body: not body)
    left = (await team.admin.get(engines("v2"), "main", team.namespace)).to_dict()
    assert left["spec"]["power"] == 9
    assert not left["spec"]["run"]["volumes"]
