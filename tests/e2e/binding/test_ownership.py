"""Whose things on a workload are, on a control plane: nothing of others is touched or left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.binding import (
    DATA,
    RIGS,
    Team,
    bind,
    condition,
    encoded,
    mounted,
    pod,
    running,
)
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, REPLICASETS, SECRETS, STATEFULSETS
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.workloads.records import RECORD_PREFIX
from fairlead.client import Client
from fairlead.demo.identity import create_all


SERVICE = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
COREOS_SERVICE = {"group": "", "version": "v1", "kind": "Secret", "name": "login"}
ENV = [{"name": "X", "key": "host"}]


@pytest.fixture
async def binding(admin: Client, team: Team) -> AsyncIterator[None]:
    async with running(admin):
        yield


def spec(**changes: Any) -> JSON:
    return bind(**changes)


def coreos(name: str = "web", resource: str = "deployments", **changes: Any) -> JSON:
    application = {"group": "apps", "version": "v1", "resource": resource, "name": name}
    return {"services": [COREOS_SERVICE], "application": application, **changes}


async def bound(team: Team, name: str = "web", secret: str = "login") -> JSON:
    return await team.when(DEPLOYMENTS, name, lambda body: mounted(body) == secret)


async def unbound(team: Team, name: str = "web") -> JSON:
    """Without volume, mount, variable and record."""

    def bare(body: JSON) -> bool:
        container = pod(body)["containers"][0]
        names = {item["name"] for item in container.get("env") or []}
        return not (
            pod(body).get("volumes")
            or container.get("volumeMounts")
            or names - {"SERVICE_BINDING_ROOT"}
            or records(body)
        )

    return await team.when(DEPLOYMENTS, name, bare)


def records(body: JSON) -> list[str]:
    annotations = body["metadata"].get("annotations") or {}
    return [key for key in annotations if key.startswith(RECORD_PREFIX)]


async def gone(team: Team, name: str) -> None:
    await team.delete(SERVICEBINDINGS, name)
    await team.when(SERVICEBINDINGS, name, lambda body: not body)


async def test_a_workloads_own_volume_mount_and_variable_stay(team: Team, binding: None) -> None:
    own = {
        "containers": [
            {
                "name": "app",
                "image": "app",
                "env": [{"name": "X", "value": "mine"}],
                "volumeMounts": [{"name": "db", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "db", "emptyDir": {}}],
    }
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": own}
    workload = {"selector": {"matchLabels": labels}, "template": template}
    await team.create(DEPLOYMENTS, "web", spec=workload)
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV))
    said = await team.says("db", "InjectionReady", "False", "Error", text="Deployment")
    assert condition(said, "Ready")["status"] == "False"
    await gone(team, "db")
    after = (await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
    assert after["metadata"]["generation"] == 1

    freed = {"spec": {"template": {"spec": {**own, "volumes": []}}}}
    freed["spec"]["template"]["spec"]["containers"] = [{"name": "app", "image": "app"}]
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV))
    await team.says("db", "InjectionReady", "False", "Error")
    await team.patch(DEPLOYMENTS, "web", freed)
    await team.says("db", "Ready", "True", "ApplicationsBound")


async def test_what_uses_a_secret_of_a_generated_name_stays(team: Team, binding: None) -> None:
    name = "db-deadbeef"
    await team.create(SECRETS, name, data=encoded(**DATA))
    container = {
        "name": "app",
        "image": "app",
        "env": [{"name": "Y", "valueFrom": {"secretKeyRef": {"name": name, "key": "host"}}}],
        "envFrom": [{"secretRef": {"name": name}}],
        "volumeMounts": [{"name": "mine", "mountPath": "/mine"}],
    }
    volumes = [{"name": "mine", "secret": {"secretName": name}}]
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "volumes": volumes},
    }
    await team.create(
        DEPLOYMENTS, "web", spec={"selector": {"matchLabels": labels}, "template": template}
    )
    await team.create(SERVICEBINDINGS, "db", spec=spec())
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await gone(team, "db")
    after = pod((await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict())
    assert [item["name"] for item in after["volumes"]] == ["mine"]
    (left,) = after["containers"]
    assert [item["name"] for item in left["env"]] == ["Y"]
    assert left["envFrom"] == container["envFrom"]
    assert left["volumeMounts"] == container["volumeMounts"]


@pytest.mark.parametrize("api", ["one API", "both APIs"])
async def test_two_bindings_of_one_directory_do_not_take_turns(
    team: Team, binding: None, api: str
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "a-first", spec=spec(name="db", type="one"))
    await team.says("a-first", "Ready", "True", "ApplicationsBound")
    resource = SERVICEBINDINGS if api == "one API" else COREOS_SERVICEBINDINGS
    body = spec(name="db", type="two") if api == "one API" else coreos(name="web")
    await team.create(resource, "b-second", spec={**body, "name": "db"})

    async def settled() -> int:
        told = await team.says(
            "b-second", "InjectionReady", "False", "Error", text="a-first", resource=resource
        )
        assert "created first" in condition(told, "Ready")["message"]
        web = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
        return web.meta.generation

    generation = await settled()
    for cycle in range(4):
        # Each cycle has both look again, and is over when a third binding has been looked at.
        touched = {"metadata": {"annotations": {"cycle": str(cycle)}}}
        await team.patch(SERVICEBINDINGS, "a-first", touched)
        await team.patch(resource, "b-second", touched)
        await team.create(SERVICEBINDINGS, f"c-{cycle}", spec=spec(name=f"c{cycle}"))
        await team.says(f"c-{cycle}", "Ready", "True", "ApplicationsBound")
        assert await settled() == generation + cycle + 1
    await gone(team, "a-first")
    await team.says("b-second", "Ready", "True", "ApplicationsBound", resource=resource)


async def test_a_binding_that_comes_late_but_was_created_first_has_its_place(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    late = {**SERVICE, "name": "late"}
    await team.create(SERVICEBINDINGS, "a-first", spec=spec(name="db", service=late))
    await team.says("a-first", "Ready", "False", "ProcessingError")
    await team.create(SERVICEBINDINGS, "b-second", spec=spec(name="db"))
    await team.says("b-second", "Ready", "True", "ApplicationsBound")
    await team.create(SECRETS, "late", data=encoded(**DATA))
    await team.says("a-first", "Ready", "True", "ApplicationsBound")
    await team.says("b-second", "InjectionReady", "False", "Error", text="a-first")
    assert records(await bound(team, secret="late")).__len__() == 1


@pytest.mark.parametrize("service", ["service is there", "service is gone"])
async def test_the_only_workload_that_matches_is_relabelled(
    team: Team, binding: None, service: str
) -> None:
    await team.deployment("web", labels={"tier": "web"})
    selector = {"matchLabels": {"tier": "web"}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "selector": selector}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload, env=ENV))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    if service == "service is gone":
        await team.delete(SECRETS, "login")
        await team.says("db", "Ready", "False", "ProcessingError", text="login")
    await team.patch(DEPLOYMENTS, "web", {"metadata": {"labels": {"tier": None}}})
    await unbound(team)
    await gone(team, "db")


async def test_a_workload_that_is_missing_in_the_spec_unbinds_the_former_one(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.patch(SERVICEBINDINGS, "db", {"spec": {"workload": {"name": "missing"}}})
    await unbound(team)
    await gone(team, "db")


@pytest.mark.edge
@pytest.mark.parametrize("up", [True, False], ids=["controller is up", "controller is down"])
async def test_an_edited_spec_leaves_nothing_of_the_former_one(
    team: Team, admin: Client, up: bool
) -> None:
    labels = {"app": "web"}
    two = [{"name": name, "image": name} for name in "ab"]
    template = {"metadata": {"labels": labels}, "spec": {"containers": two}}
    await team.create(
        DEPLOYMENTS, "web", spec={"selector": {"matchLabels": labels}, "template": template}
    )
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV))
    changes = {"name": "renamed", "env": [], "workload": {"containers": ["b"]}}

    async def edit() -> None:
        await team.patch(SERVICEBINDINGS, "db", {"spec": changes})

    async with running(admin):
        await team.says("db", "Ready", "True", "ApplicationsBound")
        await bound(team)
        if up:
            await edit()
            await team.when(DEPLOYMENTS, "web", _narrowed)
    if not up:
        await edit()
    async with running(admin):
        after = await team.when(DEPLOYMENTS, "web", _narrowed)
        assert [item["name"] for item in pod(after)["volumes"]] == ["renamed"]
        first = pod(after)["containers"][0]
        assert not first.get("env")
        await gone(team, "db")
        await unbound(team)


def _narrowed(body: JSON) -> bool:
    first, second = pod(body)["containers"]
    return not first.get("volumeMounts") and [
        item["name"] for item in second.get("volumeMounts") or []
    ] == ["renamed"]


@pytest.mark.edge
async def test_another_kind_of_workload_unbinds_the_former_kind(team: Team, binding: None) -> None:
    await team.deployment("web")
    await team.create(RIGS, "rig", spec={"template": {"spec": {"containers": [{"name": "app"}]}}})
    await team.create(COREOS_SERVICEBINDINGS, "db", spec=coreos(name="web"))
    await team.says("db", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS)
    # It may not change while it is ready.
    await team.delete(SECRETS, "login")
    await team.says("db", "Ready", "False", "ProcessingError", resource=COREOS_SERVICEBINDINGS)
    application = {"group": RIGS.group, "version": "v1", "resource": RIGS.plural, "name": "rig"}
    await team.patch(COREOS_SERVICEBINDINGS, "db", {"spec": {"application": application}})
    await team.create(SECRETS, "login", data=encoded(**DATA))
    await team.when(RIGS, "rig", lambda body: mounted(body) == "login")
    await unbound(team)


@pytest.mark.parametrize("then", ["changed", "deleted", "deleted with the binding"])
async def test_a_mapping_that_changes_while_the_controller_is_down(
    team: Team, admin: Client, then: str
) -> None:
    containers = [{"path": ".spec.crew[*]", "env": ".vars", "volumeMounts": ".mounts"}]
    template = {"version": "*", "containers": containers, "volumes": ".spec.disks"}
    name = RIGS.group_resource
    mapping: JSON = {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": name},
        "spec": {"versions": [template]},
    }
    await create_all(admin, [mapping])
    await team.create(
        RIGS, "rig", spec={"crew": [{}], "template": {"spec": {"containers": [{"name": "app"}]}}}
    )
    workload = {"apiVersion": RIGS.api_version, "kind": "Rig", "name": "rig"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload, env=ENV))
    async with running(admin):
        await team.says("db", "Ready", "True", "ApplicationsBound")
        await team.when(RIGS, "rig", lambda body: bool(body["spec"].get("disks")))
    if then == "changed":
        moved = {"spec": {"versions": [{**template, "volumes": ".spec.holds"}]}}
        await admin.merge_patch(CLUSTERWORKLOADRESOURCEMAPPINGS, name, "", moved)
    else:
        await admin.delete(CLUSTERWORKLOADRESOURCEMAPPINGS, name)
    if then == "deleted with the binding":
        await team.delete(SERVICEBINDINGS, "db")

    def moved_on(body: JSON) -> bool:
        (crew,) = body["spec"]["crew"]
        names = {item["name"] for item in crew["vars"]} - {"SERVICE_BINDING_ROOT"}
        left = bool(body["spec"]["disks"])
        if then == "changed":
            return not left and bool(body["spec"].get("holds")) and bool(names)
        return not left and not crew["mounts"] and not names

    async with running(admin):
        await team.when(RIGS, "rig", moved_on)
        if then == "changed":
            await gone(team, "db")
        elif then == "deleted":
            await team.when(RIGS, "rig", lambda body: mounted(body) == "login")
        else:
            await team.when(SERVICEBINDINGS, "db", lambda body: not body)
    if then == "changed":
        await admin.delete(CLUSTERWORKLOADRESOURCEMAPPINGS, name)


async def test_a_binding_goes_although_its_mapping_broke(
    team: Team, admin: Client, binding: None
) -> None:
    name = RIGS.group_resource
    mapping: JSON = {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": name},
        "spec": {"versions": [{"version": "*", "volumes": ".spec.disks"}]},
    }
    await create_all(admin, [mapping])
    await team.create(RIGS, "rig", spec={"template": {"spec": {"containers": [{"name": "app"}]}}})
    workload = {"apiVersion": RIGS.api_version, "kind": "Rig", "name": "rig"}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    broken = {"spec": {"versions": [{"version": "*", "volumes": ".spec["}]}}
    await admin.merge_patch(CLUSTERWORKLOADRESOURCEMAPPINGS, name, "", broken)
    await team.says("db", "InjectionReady", "False", "ApplicationNotFound")
    await gone(team, "db")
    await team.when(RIGS, "rig", lambda body: not body["spec"]["disks"])
    await admin.delete(CLUSTERWORKLOADRESOURCEMAPPINGS, name)


async def test_a_generated_secret_that_somebody_deletes_or_edits_is_restored(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(type="t"))
    ready = await team.says("db", "Ready", "True", "ApplicationsBound")
    name = ready["status"]["binding"]["name"]
    wanted = encoded(**{**DATA, "type": "t"})
    before = await team.admin.get(SECRETS, name, team.namespace)
    await team.delete(SECRETS, name)
    await team.when(
        SECRETS,
        name,
        lambda body: bool(body) and body["metadata"]["uid"] != before.meta.uid,
    )
    await team.patch(SECRETS, name, {"data": encoded(type="forged", more="x")})
    after = await team.when(SECRETS, name, lambda body: bool(body) and body["data"] == wanted)
    assert after["data"] == wanted


async def test_former_content_goes_once_nothing_reads_it_any_more(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(type="t"))
    ready = await team.says("db", "Ready", "True", "ApplicationsBound")
    name = ready["status"]["binding"]["name"]
    web = await bound(team, secret=name)
    await _revision(team, web)
    await team.patch(SECRETS, "login", {"data": encoded(host="moved")})
    await team.when(DEPLOYMENTS, "web", lambda body: mounted(body) not in {"", name})
    await team.patch(SECRETS, "login", {"data": encoded(host="moved again")})
    middle = await team.when(
        SERVICEBINDINGS,
        "db",
        lambda body: (
            condition(body, "Ready").get("status") == "True"
            and body["status"]["binding"]["name"] != name
        ),
    )
    left = await _own_secrets(team, lambda names: len(names) == 2)
    assert name in left
    await team.delete(REPLICASETS, "web-1")
    left = await _own_secrets(team, lambda names: len(names) == 1)
    assert name not in left
    last = await team.admin.get(SERVICEBINDINGS, "db", team.namespace)
    assert last.to_dict()["status"]["binding"]["name"] in left
    assert last.meta.uid == middle["metadata"]["uid"]


async def test_a_former_secret_stays_while_what_is_left_of_a_former_kind_reads_it(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    await team.create(STATEFULSETS, "data", spec=_stateful())
    asked = coreos(name="web") | {"namingStrategy": "{{ .name | upper }}"}
    await team.create(COREOS_SERVICEBINDINGS, "db", spec=asked)
    await team.says("db", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS)
    web = (await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
    name = mounted(web)
    await _revision(team, web)
    # It may not change while it is ready.
    await team.delete(SECRETS, "login")
    await team.says("db", "Ready", "False", "ProcessingError", resource=COREOS_SERVICEBINDINGS)
    kind = {"group": "apps", "version": "v1", "resource": STATEFULSETS.plural}
    application = {**kind, "name": "data"}
    await team.patch(COREOS_SERVICEBINDINGS, "db", {"spec": {"application": application}})
    await team.create(SECRETS, "login", data=encoded(**DATA, more="x"))
    await team.when(STATEFULSETS, "data", lambda body: mounted(body) not in {"", name})
    await unbound(team)
    # Another pass would take it away.
    label = {"metadata": {"annotations": {"servicebinding.io/default-mode": "0400"}}}
    await team.patch(COREOS_SERVICEBINDINGS, "db", label)
    await team.when(STATEFULSETS, "data", lambda body: _mode(body) == 0o400)
    assert name in await _own_secrets(team, lambda names: len(names) == 2)
    await team.delete(REPLICASETS, "web-1")
    await _own_secrets(team, lambda names: len(names) == 1 and name not in names)


def _mode(body: JSON) -> int | None:
    found: int | None = pod(body)["volumes"][0]["secret"].get("defaultMode")
    return found


def _stateful() -> JSON:
    labels = {"app": "data"}
    containers = [{"name": "app", "image": "app"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {"selector": {"matchLabels": labels}, "serviceName": "data", "template": template}


async def _revision(team: Team, web: JSON) -> None:
    """What the controller of Deployments makes of one: it has the same annotations."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod(web)}
    revision: JSON = {
        "apiVersion": REPLICASETS.api_version,
        "kind": REPLICASETS.kind,
        "metadata": {
            "name": "web-1",
            "namespace": team.namespace,
            "annotations": web["metadata"]["annotations"],
        },
        "spec": {"selector": {"matchLabels": labels}, "template": template, "replicas": 0},
    }
    await team.admin.create(REPLICASETS, revision, team.namespace)


async def _own_secrets(team: Team, until: Callable[[set[str]], bool]) -> set[str]:
    async with asyncio.timeout(SECONDS):
        while True:
            found = await team.admin.list(SECRETS, team.namespace)
            names = {item.meta.name for item in found.items if item.meta.name.startswith("db-")}
            if until(names):
                return names
            await asyncio.sleep(0.05)


async def test_one_of_two_workloads_that_cannot_be_projected_keeps_only_itself(
    team: Team, binding: None
) -> None:
    labels = {"tier": "web"}
    good: JSON = {"template": {"spec": {"containers": [{"name": "app"}]}}}
    bad: JSON = {"template": {"spec": {"containers": [{"name": "app", "volumeMounts": "none"}]}}}
    await team.create(RIGS, "bad", spec=bad, labels=labels)
    await team.create(RIGS, "good", spec=good, labels=labels)
    selector = {"matchLabels": labels}
    workload = {"apiVersion": RIGS.api_version, "kind": "Rig", "selector": selector}
    await team.create(SERVICEBINDINGS, "db", spec=spec(workload=workload))
    await team.when(RIGS, "good", lambda body: mounted(body) == "login")
    said = await team.says("db", "Ready", "False", "ProcessingError", text="/bad")
    assert "/good" not in condition(said, "Ready")["message"]
    repaired = {"spec": {"template": {"spec": {"containers": [{"name": "app"}]}}}}
    await team.patch(RIGS, "bad", repaired)
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await gone(team, "db")
    for name in ("good", "bad"):
        await team.when(RIGS, name, lambda body: not mounted(body))


async def test_a_container_filter_that_matches_nothing_is_ignored(
    team: Team, binding: None
) -> None:
    await team.deployment("web")
    body = spec()
    body["workload"] = {**body["workload"], "containers": ["absent"]}
    await team.create(SERVICEBINDINGS, "db", spec=body)
    await team.says("db", "Ready", "True", "ApplicationsBound")
    web = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert web.meta.generation == 1


@pytest.mark.parametrize("name", ["...", "---"])
async def test_a_name_of_punctuation_alone_is_bound(team: Team, binding: None, name: str) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(name=name))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    after = await bound(team)
    assert pod(after)["containers"][0]["volumeMounts"][0]["mountPath"] == f"/bindings/{name}"


async def test_whoever_applies_the_workload_anew_finds_the_binding_on_it_again(
    team: Team, binding: None
) -> None:
    first = await team.deployment("web")
    # With a type the Secret is the binding's own, and so is whatever reads it.
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV, type="mysql"))
    said = await team.says("db", "Ready", "True", "ApplicationsBound")
    bodies, secret = first.to_dict(), said["status"]["binding"]["name"]
    live = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    # As kubectl replace does it: annotations and projection go together.
    body = {**bodies, "metadata": {"name": "web", "namespace": team.namespace}}
    body["metadata"]["resourceVersion"] = live.meta.resource_version
    await team.admin.update(DEPLOYMENTS, body)
    await bound(team, secret=secret)
    # And as somebody does it who drops annotations alone.
    live = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    dropped = {"metadata": {"annotations": dict.fromkeys(records(live.to_dict()))}}
    await team.patch(DEPLOYMENTS, "web", dropped)
    await team.when(DEPLOYMENTS, "web", lambda body: bool(records(body)))
    await gone(team, "db")
    await unbound(team)


@pytest.mark.edge
async def test_server_side_apply_keeps_what_is_ours(team: Team, binding: None) -> None:
    body: JSON = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": team.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        },
    }

    async def apply() -> None:
        await team.admin.apply(DEPLOYMENTS, body, field_manager="kubectl")

    await apply()
    await team.create(SERVICEBINDINGS, "db", spec=spec(env=ENV))
    await team.says("db", "Ready", "True", "ApplicationsBound")
    generation = (await bound(team))["metadata"]["generation"]
    await apply()
    again = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    assert again.meta.generation == generation
    assert records(again.to_dict())
    await gone(team, "db")
    await unbound(team)
