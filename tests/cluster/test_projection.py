"""Workloads that are bound as they are created, and what runs in their containers."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hack.nodes.clusters import Cluster
from tests.support.helm import CHART, MISSING, NAMESPACE, RELEASE, Helm, program
from tests.support.policies import policy, refusing, rules
from tests.support.waiting import condition, eventually, when

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CRONJOBS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SECRETS,
    Resource,
)
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import ApiError, Client, NotFound, parse_kubeconfig


pytestmark = pytest.mark.skipif(not program("helm"), reason=MISSING)

TEAM = "apps"
"""A namespace under Pod Security "restricted"."""
PASSWORD = "s3cret"
CHECK = f"""
import os, pathlib
file = pathlib.Path(os.environ["SERVICE_BINDING_ROOT"], "db", "password")
assert file.read_text() == "{PASSWORD}", file
"""
HARDENED: JSON = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
PROJECTED = ["jobs.batch", "cronjobs.batch", "pods"]


_POD = ".spec.jobTemplate.spec.template.spec"
MAPPING: JSON = {
    "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
    "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
    "metadata": {"name": "cronjobs.batch"},
    "spec": {
        "versions": [
            {
                "version": "*",
                "annotations": ".spec.jobTemplate.spec.template.metadata.annotations",
                "containers": [
                    {"path": f"{_POD}.{part}[*]", "name": ".name"}
                    for part in ("containers", "initContainers")
                ],
                "volumes": f"{_POD}.volumes",
            }
        ]
    },
}
"""Where a CronJob has its Pod's spec."""


@pytest.fixture
async def admin(planes: list[Cluster]) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(planes[1].kubeconfig.read_bytes())) as client:
        yield client


@pytest.fixture
async def release(planes: list[Cluster], admin: Client, tmp_path: Path) -> Helm:
    """The chart's release, which the first test installs that asks for it."""
    helm = Helm(tmp_path, planes[1].kubeconfig.read_bytes())
    try:
        await admin.get(DEPLOYMENTS, "fairlead-binding", "fairlead-binding")
    except NotFound:
        webhooks = {"enabled": True, "project": PROJECTED}
        values: JSON = {
            "image": {"pullPolicy": "Never"},
            "binding": {"enabled": True, "webhooks": webhooks},
        }
        words = ("install", RELEASE, str(CHART), *NAMESPACE, "--wait", "--timeout", "150s")
        await helm.does(*words, values=values)
    return helm


def container(name: str, code: str = CHECK, **more: Any) -> JSON:
    return {
        "name": name,
        "image": "fairlead:0.2.0",
        "imagePullPolicy": "Never",
        "command": ["python3.11", "-c", code],
        "securityContext": HARDENED,
        "resources": {"requests": {"cpu": "1m"}, "limits": {"memory": "64Mi"}},
        **more,
    }


def pod_spec(**more: Any) -> JSON:
    """What a Pod of today has, with an init container, a sidecar, and files of its own."""
    sources = [
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "settings", "optional": True}},
    ]
    own = [{"name": "own", "mountPath": "/own", "readOnly": True, "recursiveReadOnly": "Disabled"}]
    waiting = "import time; time.sleep(3600)"
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            # Of no one in particular: the image has no such user, nor has the files' group.
            "runAsUser": 4711,
            "runAsGroup": 4711,
            "supplementalGroupsPolicy": "Merge",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["db.example.org"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "os": {"name": "linux"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "any"}},
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
        "initContainers": [
            container("prepare"),
            container("sidecar", CHECK + waiting, restartPolicy="Always"),
        ],
        "containers": [
            container(
                "app",
                volumeMounts=own,
                resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                env=[
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
            )
        ],
        "volumes": [
            {"name": "own", "projected": {"sources": sources}},
            {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
        **more,
    }


def bound(resource: Resource, body: JSON) -> JSON:
    """The binding of a workload that is to come."""
    workload = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": body["metadata"]["name"],
    }
    return {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": "ServiceBinding",
        "metadata": {"name": body["metadata"]["name"]},
        "spec": {
            "name": "db",
            "type": "postgresql",
            "workload": workload,
            "service": {"apiVersion": "v1", "kind": "Secret", "name": "login"},
        },
    }


def named(resource: Resource, name: str, spec: JSON) -> JSON:
    meta = {"metadata": {"name": name}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **meta, "spec": spec}


async def made(admin: Client, resource: Resource, body: JSON) -> None:
    """Create a workload once its binding is known to the webhook, which a dry run tells."""
    binding = bound(resource, body)
    await admin.create(SERVICEBINDINGS, binding, TEAM)

    async def projected() -> bool:
        answer = await admin.create(resource, copy.deepcopy(body), TEAM, dry_run=True)
        return '"mountPath": "/bindings/db"' in json.dumps(answer.to_dict())

    await eventually(projected)
    await admin.create(resource, body, TEAM)


def succeeded(body: JSON) -> bool:
    status = body.get("status", {})
    failed = status.get("failed") or status.get("phase") == "Failed"
    assert not failed, status
    return bool(status.get("phase") == "Succeeded" or status.get("succeeded"))


def ready(body: JSON) -> bool:
    return condition(body, "Ready").get("status") == "True"


@pytest.mark.usefixtures("release")
async def test_whatever_is_created_reads_its_binding(planes: list[Cluster], admin: Client) -> None:
    """A Job, a Pod and a CronJob's Job, as any user, on a root file system that is read-only."""
    cluster = planes[1]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await admin.create(NAMESPACES, {"metadata": {"name": TEAM, "labels": labels}})
    login = {"metadata": {"name": "login"}, "stringData": {"password": PASSWORD}}
    await admin.create(SECRETS, login, TEAM)

    await admin.create(CLUSTERWORKLOADRESOURCEMAPPINGS, MAPPING)
    job = {"template": {"spec": pod_spec()}, "backoffLimit": 0, "podReplacementPolicy": "Failed"}
    cron = {"schedule": "0 0 1 1 *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": job}}
    await made(admin, JOBS, named(JOBS, "migrate", job))
    await made(admin, PODS, named(PODS, "import", pod_spec()))
    await made(admin, CRONJOBS, named(CRONJOBS, "nightly", cron))
    nightly = ("create", "job", "by-hand", "--from=cronjob/nightly")
    cluster.kubectl("-n", TEAM, *nightly)
    for resource, name in ((JOBS, "migrate"), (PODS, "import"), (JOBS, "by-hand")):
        await when(admin, resource, name, TEAM, until=succeeded)
    for name in ("migrate", "import", "nightly"):
        await when(admin, SERVICEBINDINGS, name, TEAM, until=ready)

    # What no node here runs, the projection leaves as it is.
    exotic = pod_spec(
        hostUsers=False,
        schedulingGates=[{"name": "example.org/quota"}],
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        resources={"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}},
    )
    exotic["volumes"].append({"name": "model", "image": {"reference": "example.org/model:1"}})
    claimed = {"claims": [{"name": "gpu"}]}
    exotic["containers"][0]["resources"] |= claimed
    exotic["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 1}}}
    plain = named(PODS, "exotic", exotic)
    without = (await admin.create(PODS, copy.deepcopy(plain), TEAM, dry_run=True)).to_dict()
    await made(admin, PODS, plain)
    stored = (await admin.get(PODS, "exotic", TEAM)).to_dict()
    assert without_binding(stored["spec"]) == without["spec"]


def without_binding(spec: JSON) -> JSON:
    """A Pod's spec without what the binding has added."""
    spec["volumes"] = [one for one in spec["volumes"] if one.get("secret") is None]
    for one in (*spec["initContainers"], *spec["containers"]):
        one["env"] = [it for it in one["env"] if it["name"] != "SERVICE_BINDING_ROOT"]
        mounts = [it for it in one["volumeMounts"] if not it["mountPath"].endswith("/db")]
        one["volumeMounts"] = mounts
        for key in ("env", "volumeMounts"):
            if not one[key]:
                del one[key]
    return spec


@pytest.mark.usefixtures("release")
async def test_pods_that_a_policy_refuses_are_told_beside_ready(admin: Client) -> None:
    """A Deployment that the server takes with its binding, and whose new Pods it refuses."""
    team = "strict"
    await admin.create(NAMESPACES, {"metadata": {"name": team}})
    login = {"metadata": {"name": "login"}, "stringData": {"password": PASSWORD}}
    await admin.create(SECRETS, login, team)
    waiting = container("app", "import time; time.sleep(3600)")
    spec: JSON = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [waiting]},
        },
    }
    web = named(DEPLOYMENTS, "web", spec)
    await admin.create(DEPLOYMENTS, copy.deepcopy(web), team)
    refused = "object.spec.volumes.all(one, !has(one.secret))"
    probe = named(PODS, "probe", {**spec["template"]["spec"], "volumes": [{"name": "own"}]})
    probe["spec"]["volumes"][0]["secret"] = {"secretName": "login"}

    async def is_refused() -> bool:
        try:
            await admin.create(PODS, copy.deepcopy(probe), team, dry_run=True)
        except ApiError as error:
            return "no Secrets here" in str(error)
        return False

    def told(body: JSON) -> bool:
        failing = condition(body, "RolloutFailing")
        return ready(body) and failing.get("reason") == "PodsRefused"

    def quiet(body: JSON) -> bool:
        return ready(body) and not condition(body, "RolloutFailing")

    refusal = refusing(refused, "no Secrets here")
    async with policy(admin, team, rules("pods"), refusal, is_refused):
        await admin.create(SERVICEBINDINGS, bound(DEPLOYMENTS, web), team)
        body = await when(admin, SERVICEBINDINGS, "web", team, until=told)
        assert "denied request: no Secrets here" in condition(body, "RolloutFailing")["message"]
    await admin.merge_patch(
        DEPLOYMENTS, "web", team, {"spec": {"template": {"metadata": {"labels": {"again": "1"}}}}}
    )
    await when(admin, SERVICEBINDINGS, "web", team, until=quiet)
