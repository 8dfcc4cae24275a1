"""Coming from the reference runtime of servicebinding.io, on a control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.binding import DEFAULT, PROJECTOR, Team, bind, pod, running

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.coreos import COREOS_FINALIZER
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER
from fairlead.client import Client


ENV = [{"name": "HOST", "key": "host"}]


def projected(*uids: str) -> JSON:
    """The spec of a Deployment with what the runtime puts there for bindings."""
    names = {uid: f"servicebinding-{uid}" for uid in uids}
    host: JSON = {"name": "HOST", "valueFrom": {"secretKeyRef": {"name": "login", "key": "host"}}}
    container = {
        "name": "app",
        "image": "app",
        "env": [{"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}, host],
        "volumeMounts": [
            {"name": name, "mountPath": f"/bindings/{number}", "readOnly": True}
            for number, name in enumerate(names.values())
        ],
    }
    sources = [{"secret": {"name": "login"}}]
    volumes = [
        {"name": name, "projected": {"defaultMode": 420, "sources": sources}}
        for name in names.values()
    ]
    notes = {f"{PROJECTOR}/secret-{uid}": "login" for uid in uids}
    labels = {"app": "web"}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": notes},
            "spec": {"containers": [container], "volumes": volumes},
        },
    }


async def arrive(team: Team) -> str:
    """A binding as the runtime leaves it, and its neighbour's; returns its uid."""
    meta = {"name": "db", "namespace": team.namespace, "finalizers": [SPEC_FINALIZER]}
    body: JSON = {"apiVersion": SERVICEBINDINGS.api_version, "kind": SERVICEBINDINGS.kind}
    body |= {"metadata": meta, "spec": bind(name="0", env=ENV)}
    made = await team.admin.create(SERVICEBINDINGS, body, team.namespace)
    said = {"type": "Ready", "status": "True", "reason": "ServiceBound", "message": ""}
    said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"binding": {"name": "login"}, "conditions": [said], "observedGeneration": 1}
    await team.patch(SERVICEBINDINGS, "db", {"status": status}, subresource="status")
    uid = made.meta.uid
    await team.create(DEPLOYMENTS, "web", spec=projected(uid, "neighbour"))
    notes = {f"{PROJECTOR}/mapping-{one}": json.dumps(DEFAULT) for one in (uid, "neighbour")}
    await team.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": notes}})
    return uid


def parts(body: JSON) -> dict[str, Any]:
    (container,) = pod(body)["containers"]
    return {
        "volumes": [item["name"] for item in pod(body)["volumes"]],
        "mounts": [item["mountPath"] for item in container["volumeMounts"]],
        "env": [item["name"] for item in container["env"]],
        "notes": body["spec"]["template"]["metadata"]["annotations"],
    }


NEIGHBOUR = {f"{PROJECTOR}/secret-neighbour": "login"}


async def test_what_the_runtime_projected_is_taken_over_in_one_rollout(
    team: Team, admin: Client
) -> None:
    uid = await arrive(team)
    before = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
    async with running(admin):
        await team.says("db", "Ready", "True", "ApplicationsBound")
        after = (await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
        assert after["metadata"]["generation"] == before.meta.generation + 1
        assert f"{PROJECTOR}/mapping-{uid}" not in after["metadata"]["annotations"]
        assert f"{PROJECTOR}/mapping-neighbour" in after["metadata"]["annotations"]
        assert parts(after) == {
            "volumes": ["servicebinding-neighbour", "0"],
            "mounts": ["/bindings/1", "/bindings/0"],
            "env": ["SERVICE_BINDING_ROOT", "HOST"],
            "notes": NEIGHBOUR,
        }
        await team.delete(SERVICEBINDINGS, "db")
        await team.when(SERVICEBINDINGS, "db", lambda body: not body)


@pytest.mark.parametrize("when", ["before it starts", "while it runs"])
async def test_a_binding_of_the_runtime_goes_with_all_that_is_its(
    team: Team, admin: Client, when: str
) -> None:
    await arrive(team)
    if when == "before it starts":
        await team.delete(SERVICEBINDINGS, "db")
    async with running(admin):
        if when == "while it runs":
            await team.says("db", "Ready", "True", "ApplicationsBound")
            await team.delete(SERVICEBINDINGS, "db")
        await team.when(SERVICEBINDINGS, "db", lambda body: not body)
        after = (await team.admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
        assert parts(after) == {
            "volumes": ["servicebinding-neighbour"],
            "mounts": ["/bindings/1"],
            "env": ["SERVICE_BINDING_ROOT"],
            "notes": NEIGHBOUR,
        }


@pytest.mark.parametrize("finalizers", [[COREOS_FINALIZER], [COREOS_FINALIZER, SPEC_FINALIZER]])
async def test_what_waits_for_a_controller_that_is_gone_goes_when_ours_comes(
    team: Team, admin: Client, finalizers: list[str]
) -> None:
    await team.deployment("web")
    body: JSON = {"apiVersion": SERVICEBINDINGS.api_version, "kind": SERVICEBINDINGS.kind}
    meta = {"name": "db", "namespace": team.namespace, "finalizers": finalizers}
    await team.admin.create(
        SERVICEBINDINGS, {**body, "metadata": meta, "spec": bind()}, team.namespace
    )
    await team.create(SERVICEBINDINGS, "beside", spec=bind())
    await team.delete(SERVICEBINDINGS, "db")
    async with running(admin):
        await team.when(SERVICEBINDINGS, "db", lambda found: not found)
        await team.says("beside", "Ready", "True", "ApplicationsBound")
