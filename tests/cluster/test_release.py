"""Releases of the chart on nodes: Pods, their probes and rollouts, and Jobs of hooks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from hack.nodes.clusters import Cluster
from tests.support.helm import CHART, MISSING, NAMESPACE, PROGRAMS, RELEASE, Helm, program
from tests.support.waiting import gone, when

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    DEPLOYMENTS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    PODS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import ApiError, Client, parse_kubeconfig


pytestmark = pytest.mark.skipif(not program("helm"), reason=MISSING)

WAITING = ("--wait", "--wait-for-jobs", "--timeout", "150s")


@pytest.fixture
async def admin(planes: list[Cluster]) -> AsyncIterator[Client]:
    """The provider's administrator."""
    async with Client(parse_kubeconfig(planes[0].kubeconfig.read_bytes())) as client:
        yield client


def everything(**binding: object) -> JSON:
    """All programs, each as two replicas where it may."""
    values: JSON = {
        "image": {"pullPolicy": "Never"},
        **{name: {"enabled": True} for name in PROGRAMS},
        **yaml.safe_load((CHART / "ci" / "provider.yaml").read_text()),
    }
    values["binding"] |= {"replicas": 2, **binding}
    return values


class Writes:
    """A team that writes bindings all the time; nothing is stored."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.count = 0
        self.refused: list[str] = []

    async def go_on(self) -> None:
        workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        service = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
        body: JSON = {
            "apiVersion": SERVICEBINDINGS.api_version,
            "kind": "ServiceBinding",
            "metadata": {"name": "trial"},
            "spec": {"workload": workload, "service": service},
        }
        while True:
            try:
                await self._client.create(SERVICEBINDINGS, body, "default", dry_run=True)
            except ApiError as error:
                self.refused.append(str(error))
            self.count += 1
            await asyncio.sleep(0.05)


def shared(body: JSON) -> dict[str, set[str]]:
    """The paths of an object that more than one manager has, with these."""
    managers: defaultdict[str, set[str]] = defaultdict(set)

    def note(fields: JSON, path: str, manager: str) -> None:
        for key, inner in fields.items():
            if key == ".":
                continue
            if inner:
                note(inner, f"{path}/{key}", manager)
            else:
                managers[f"{path}/{key}"].add(manager)

    for entry in body["metadata"]["managedFields"]:
        if not entry.get("subresource"):
            note(entry["fieldsV1"], "", entry["manager"])
    return {path: who for path, who in managers.items() if len(who) > 1}


@pytest.mark.parametrize("version", ["helm4", "helm"])
async def test_a_release_is_installed_upgraded_and_uninstalled(
    planes: list[Cluster], admin: Client, tmp_path: Path, version: str
) -> None:
    """Under Pod Security "restricted"; webhooks go on and off by rolling updates."""
    if not program(version):
        pytest.skip(MISSING)
    helm = Helm(tmp_path, planes[0].kubeconfig.read_bytes(), version)

    async def upgrade(**binding: object) -> None:
        await helm.does(
            *("upgrade", "--install", RELEASE, str(CHART), *NAMESPACE, *WAITING),
            values=everything(**binding),
        )

    await upgrade()
    for namespace, name in PROGRAMS.values():
        for pod in (await admin.list(PODS, namespace)).items:
            statuses = pod.to_dict()["status"]["containerStatuses"]
            steady = [status["ready"] and not status["restartCount"] for status in statuses]
            assert all(steady), (name, statuses)
    await helm.does("test", RELEASE, *NAMESPACE[:2])
    writes = Writes(admin)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writes.go_on())
        await upgrade(webhooks={"enabled": True, "project": ["jobs.batch"]})
        for kind in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS):
            await when(admin, kind, "fairlead-binding", until=lambda body: body.get("webhooks"))
        seen = writes.count
        while writes.count < seen + 40:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.05)
        await upgrade(webhooks={"enabled": False})
        task.cancel()
    assert writes.refused == []
    for kind in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS):
        await gone(admin, kind, "fairlead-binding")

    # A release whose Pods do not come up is taken back, and nobody else has written its objects.
    failing = everything()
    failing["image"]["tag"] = "of-nowhere"
    back = {"helm": ("--atomic",), "helm4": ("--rollback-on-failure", "--wait")}[version]
    waiting = (*back, "--timeout", "15s")
    refused = await helm.tell("upgrade", RELEASE, str(CHART), *NAMESPACE, *waiting, values=failing)
    assert (refused.code, "rolled back" in refused.err) == (1, True), refused.err
    for namespace, name in PROGRAMS.values():
        planes[0].kubectl("-n", namespace, "rollout", "status", f"deployment/{name}")
    manifest = await helm.does("get", "manifest", RELEASE, *NAMESPACE[:2])
    for body in yaml.safe_load_all(manifest):
        resource = await admin.discovery.resource_for(body["apiVersion"], body["kind"])
        meta = body["metadata"]
        stored = await admin.get(resource, meta["name"], meta.get("namespace", ""))
        assert shared(stored.to_dict()) == {}

    await helm.does("uninstall", RELEASE, *NAMESPACE[:2], "--wait", "--timeout", "150s")
    for namespace, name in PROGRAMS.values():
        await gone(admin, DEPLOYMENTS, name, namespace)
        await when(admin, PODS, name, namespace, until=lambda body: not body)
