"""Bindings with the rights that users gave the original operator, and what a server refuses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.binding import (
    DATABASES,
    GROUP,
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

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.runtime import install_crds


@pytest.fixture
async def team(admin: Client) -> AsyncIterator[Team]:
    team = await Team.arrive(admin)
    async with running(admin):
        yield team


def spec(**changes: Any) -> JSON:
    return bind(**changes)


async def kind(team: Team, *verbs: str) -> Resource:
    """A kind of its own that binding controllers may do this with."""
    plural = f"things{uuid.uuid4().hex[:6]}"
    made = Resource(GROUP, "v1", plural, plural.capitalize())
    await install_crds(team.admin, [crd(made)])
    await create_all(team.admin, [role(made, verbs)])
    return made


async def test_a_service_that_must_not_be_watched_is_seen_all_the_same(team: Team) -> None:
    things = await kind(team, "get", "list")
    await team.deployment("web")
    service = {"apiVersion": things.api_version, "kind": things.kind, "name": "db"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(service=service))
    await team.says("db", "ServiceAvailable", "False", "ServiceNotFound")
    await team.create(things, "db", spec={})
    status = {"status": {"binding": {"name": "login"}}}
    await team.patch(things, "db", status, subresource="status")
    await team.says("db", "Ready", "True", "ApplicationsBound")


async def test_a_workload_that_may_be_updated_and_not_patched_is_put(team: Team) -> None:
    things = await kind(team, "get", "list", "watch", "update")
    body = {"template": {"spec": {"containers": [{"name": "app"}]}}}
    await team.create(things, "web", spec=body)
    workload = {"apiVersion": things.api_version, "kind": things.kind, "name": "web"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.delete(SERVICEBINDINGS, "db")
    await team.when(SERVICEBINDINGS, "db", lambda body: not body)
    await team.when(things, "web", lambda body: not mounted(body))


async def test_owned_resources_are_found_where_no_routes_are_served(team: Team) -> None:
    await team.deployment("web")
    database = await team.create(DATABASES, "db", spec={})
    owner = {
        "apiVersion": DATABASES.api_version,
        "kind": DATABASES.kind,
        "name": "db",
        "uid": database.meta.uid,
    }
    config: JSON = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "facts", "namespace": team.namespace, "ownerReferences": [owner]},
        "data": {"host": "db.example"},
    }
    await team.admin.create(CONFIGMAPS, config, team.namespace)
    service = {"group": GROUP, "version": "v1", "resource": "databases", "name": "db"}
    application = {"group": "apps", "version": "v1", "resource": "deployments", "name": "web"}
    await team.create(
        COREOS_SERVICEBINDINGS,
        "db",
        spec={"services": [service], "application": application, "detectBindingResources": True},
    )
    ready = await team.says(
        "db", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS
    )
    secret = await team.admin.get(SECRETS, ready["status"]["secret"], team.namespace)
    assert secret.to_dict()["data"] == encoded(host="db.example")


@pytest.mark.parametrize("name", ["a/b", "..", "A_B", "x" * 300, "-"])
async def test_a_service_with_an_illegal_name_is_not_available(team: Team, name: str) -> None:
    await team.deployment("web")
    service = {"apiVersion": DATABASES.api_version, "kind": "Database", "name": name}
    await team.create(SERVICEBINDINGS, "db", spec=spec(service=service))
    said = await team.says("db", "Ready", "False", "ProcessingError")
    assert condition(said, "ServiceAvailable")["status"] == "False"


@pytest.mark.parametrize("binding", [None, "x", ["x"], {"name": 1}], ids=str)
async def test_a_status_that_names_no_secret_is_unknown(team: Team, binding: Any) -> None:
    await team.deployment("web")
    await team.create(DATABASES, "db", spec={})
    status = {"status": {"binding": binding, "more": 1}}
    await team.patch(DATABASES, "db", status, subresource="status")
    service = {"apiVersion": DATABASES.api_version, "kind": "Database", "name": "db"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(service=service))
    said = await team.says("db", "Ready", "False", "ProcessingError")
    assert condition(said, "ServiceAvailable")["status"] == "Unknown"


async def test_an_entry_that_is_missing_for_a_variable_is_waited_for(team: Team) -> None:
    await team.deployment("web")
    env = [{"name": "X", "key": "port"}]
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=env))
    await team.says("db", "InjectionReady", "False", "RequiredBindingNotFound", text="'port'")
    untouched = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert untouched.meta.generation == 1
    await team.patch(SECRETS, "login", {"data": encoded(port="5432")})
    await team.says("db", "Ready", "True", "ApplicationsBound")
    bound = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert pod(bound.to_dict())["containers"][0]["env"][0]["name"] == "X"


async def test_more_than_a_secret_holds_is_said(team: Team) -> None:
    await team.deployment("web")
    for name in ("one", "two"):
        await team.create(SECRETS, name, data=encoded(**{name: "x" * 600 * 1024}))
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": name} for name in ("one", "two")
    ]
    application = {"group": "apps", "version": "v1", "resource": "deployments", "name": "web"}
    await team.create(
        COREOS_SERVICEBINDINGS, "db", spec={"services": services, "application": application}
    )
    said = await team.says(
        "db",
        "CollectionReady",
        "False",
        "ErrorPersistingSecret",
        text="1048576",
        resource=COREOS_SERVICEBINDINGS,
    )
    assert condition(said, "InjectionReady").get("status") != "True"


@pytest.mark.parametrize("path", ["the-shape-of-pods", "a-path"])
async def test_what_controllers_write_for_themselves_is_no_workload(team: Team, path: str) -> None:
    """An editor of a namespace who may not write Secrets there has nobody else do it."""
    await team.create(SECRETS, "victim", data=encoded(password="theirs"))
    await team.create(CONFIGMAPS, "settings", data={"password": "theirs"})
    await team.deployment("web")
    before = await team.admin.get(SECRETS, "victim", team.namespace)
    settings = await team.admin.get(CONFIGMAPS, "settings", team.namespace)
    if path == "a-path":
        binding = {"secretPath": "data.password"}
        for resource, name in ((SECRETS, "victim"), (CONFIGMAPS, "settings")):
            application = {"group": "", "version": "v1", "resource": resource.plural}
            spec_ = {
                "services": [{"group": "", "version": "v1", "kind": "Secret", "name": "login"}],
                "application": {**application, "name": name, "bindingPath": binding},
            }
            await team.create(COREOS_SERVICEBINDINGS, name, spec=spec_)
            await _refused(team, COREOS_SERVICEBINDINGS, name)
    else:
        for resource, name in ((SECRETS, "victim"), (CONFIGMAPS, "settings")):
            workload = {"apiVersion": "v1", "kind": resource.kind, "name": name}
            await team.create(SERVICEBINDINGS, name, spec=spec(workload=workload))
            await _refused(team, SERVICEBINDINGS, name)
    await team.create(SERVICEBINDINGS, "neighbour", spec=spec())
    await team.says("neighbour", "Ready", "True", "ApplicationsBound")
    for then in (before, settings):
        resource = SECRETS if then is before else CONFIGMAPS
        now = await team.admin.get(resource, then.meta.name, team.namespace)
        assert now.meta.resource_version == then.meta.resource_version


async def _refused(team: Team, resource: Resource, name: str) -> None:
    def holds(body: JSON) -> bool:
        found = condition(body, "InjectionReady")
        return found.get("status") == "False" and found.get("reason") == "WorkloadNotAllowed"

    await team.when(resource, name, holds)
