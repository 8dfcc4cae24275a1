"""Workloads of custom kinds that somebody applies again and again, without our fields."""

from __future__ import annotations

import asyncio

import msgspec
from tests.support.binding import GROUP, RIGS, Team, bind, condition, crd, mounted, role, running
from tests.support.waiting import SECONDS

from fairlead.api.manifests import READ_VERBS
from fairlead.api.meta import JSON
from fairlead.api.resource import CRONJOBS, DEPLOYMENTS, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import bounds
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.runtime import install_crds


HULLS = Resource(GROUP, "v1", "hulls", "Hull")
"""Like a rig, with lists that merge by keys."""


def keyed(key: str, **properties: JSON) -> JSON:
    items: JSON = {
        "type": "object",
        "required": [key],
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {key: {"type": "string"}, **properties},
    }
    merge = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return {"type": "array", "items": items, **merge}


def hull() -> JSON:
    pod: JSON = {
        "volumes": keyed("name"),
        "containers": keyed("name", env=keyed("name"), volumeMounts=keyed("mountPath")),
    }
    schema: JSON = {"type": "object", "properties": pod}
    for field in ("spec", "template", "spec"):
        schema = {"type": "object", "properties": {field: schema}}
    definition = crd(HULLS)
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return definition


def wanted(team: Team, resource: Resource) -> JSON:
    """What a tool that syncs from Git applies."""
    labels = {"app": "web"}
    template: JSON = {"spec": {"containers": [{"name": "app", "image": "app"}]}}
    spec: JSON = {"template": template}
    if resource is DEPLOYMENTS:
        spec["selector"] = {"matchLabels": labels}
        template["metadata"] = {"labels": labels}
    meta = {"name": "web", "namespace": team.namespace}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "spec": spec,
    }


async def applied(team: Team, resource: Resource) -> JSON:
    found = await team.admin.apply(resource, wanted(team, resource), field_manager="sync")
    return found.to_dict()


def bound_to(resource: Resource) -> JSON:
    workload = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "web"}
    return bind(workload=workload)


async def test_who_applies_an_atomic_list_without_us_is_named_and_not_fought(
    team: Team, admin: Client
) -> None:
    for resource in (RIGS, DEPLOYMENTS):
        await applied(team, resource)
    async with running(admin):
        await team.create(SERVICEBINDINGS, "rig", spec=bound_to(RIGS))
        await team.create(SERVICEBINDINGS, "beside", spec=bound_to(DEPLOYMENTS))
        await team.says("beside", "Ready", "True", "ApplicationsBound")
        await team.says("rig", "Ready", "True", "ApplicationsBound")
        rounds = 0
        said: JSON = {"reason": ""}
        async with asyncio.timeout(SECONDS):
            while said["reason"] != "WriteUndone":
                rounds += 1
                await applied(team, RIGS)
                said = await _answered(team)
        assert bounds.FIGHT_WRITES <= rounds <= 2 * bounds.FIGHT_WRITES
        assert "it is sync, which applies the object: " in said["message"]
        assert "x-kubernetes-list-type: map" in said["message"]
        generation = (await applied(team, RIGS))["metadata"]["generation"]
        await team.delete(SERVICEBINDINGS, "rig")
        await team.when(SERVICEBINDINGS, "rig", lambda body: not body)
        after = (await admin.get(RIGS, "web", team.namespace)).to_dict()
        assert after["metadata"]["generation"] <= generation + 1
        # Lists of a built-in kind merge by their keys.
        assert mounted(await applied(team, DEPLOYMENTS)) == "login"


async def _answered(team: Team) -> JSON:
    """What the binding says, once it has projected again or says that it does not."""
    while True:
        rig = (await team.admin.get(RIGS, "web", team.namespace)).to_dict()
        binding = await team.admin.get(SERVICEBINDINGS, "rig", team.namespace)
        said = condition(binding.to_dict(), "InjectionReady")
        if _mounts(rig) or said["reason"] == "WriteUndone":
            return said
        await asyncio.sleep(0.02)


def _mounts(body: JSON) -> bool:
    (container,) = body["spec"]["template"]["spec"]["containers"]
    return bool(container.get("volumeMounts"))


async def test_a_custom_kind_whose_lists_merge_keeps_what_is_ours(
    team: Team, admin: Client
) -> None:
    await install_crds(admin, [hull()])
    await create_all(admin, [role(HULLS, (*READ_VERBS, "update", "patch"))])
    await applied(team, HULLS)
    async with running(admin):
        await team.create(SERVICEBINDINGS, "db", spec=bound_to(HULLS))
        await team.says("db", "Ready", "True", "ApplicationsBound")
        bound = await team.when(HULLS, "web", _mounts)
        assert (await applied(team, HULLS))["spec"] == bound["spec"]


async def test_what_an_owner_updates_is_left_alone_and_what_it_applies_is_bound(
    team: Team, admin: Client
) -> None:
    spec = wanted(team, RIGS)["spec"]
    owner = (await team.create(RIGS, "owner", spec=spec)).owner_reference()
    owners = [{**msgspec.to_builtins(owner), "controller": True}]
    body = wanted(team, DEPLOYMENTS)
    body["metadata"] |= {"name": "updated", "ownerReferences": owners}
    await admin.create(DEPLOYMENTS, body, team.namespace)
    body["metadata"] |= {"name": "applied"}
    await admin.apply(DEPLOYMENTS, body, field_manager="owner")
    async with running(admin):
        for name in ("updated", "applied"):
            workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
            await team.create(SERVICEBINDINGS, name, spec=bind(workload=workload))
        await team.says("applied", "Ready", "True", "ApplicationsBound")
        text = f"bind Rig owner of {GROUP} instead"
        await team.says("updated", "InjectionReady", "False", "WorkloadNotAllowed", text=text)
        left = (await admin.get(DEPLOYMENTS, "updated", team.namespace)).to_dict()
        assert left["metadata"]["generation"] == 1
        # It has no controller any more.
        patch = {"metadata": {"ownerReferences": None}}
        await team.patch(DEPLOYMENTS, "updated", patch)
        await team.says("updated", "Ready", "True", "ApplicationsBound")


async def test_a_cronjob_is_bound_without_a_mapping(team: Team, admin: Client) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    job = {"spec": {"template": template}}
    await team.create(CRONJOBS, "night", spec={"schedule": "@daily", "jobTemplate": job})
    async with running(admin):
        workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
        await team.create(SERVICEBINDINGS, "night", spec=bind(workload=workload))
        await team.says("night", "Ready", "True", "ApplicationsBound")
        found = (await admin.get(CRONJOBS, "night", team.namespace)).to_dict()
        assert mounted(found["spec"]["jobTemplate"]) == "login"
        await team.delete(SERVICEBINDINGS, "night")
        await team.when(SERVICEBINDINGS, "night", lambda body: not body)
        found = (await admin.get(CRONJOBS, "night", team.namespace)).to_dict()
        assert not mounted(found["spec"]["jobTemplate"])
