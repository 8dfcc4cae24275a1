"""Worlds that are broken, each in a way of its own, as a person meets them at a terminal alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.commands import fairlead
from tests.support.konnector import WIDGETS, Link, World, widget
from tests.support.postgres import access, prepare
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEEXPORTS, CLUSTERBINDINGS
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
)
from fairlead.api.timestamps import format_micro_time, format_time, moment
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.explain.explaining import explain
from fairlead.explain.targets import parse_target
from fairlead.konnector.manifests import LEASE
from fairlead_sandbox import Sandbox


async def crd_deleted(world: World, link: Link) -> None:
    await world.provider.delete(CUSTOMRESOURCEDEFINITIONS, "widgets.example.org")
    await link.says(Ready="False")


async def server_gone(world: World, link: Link) -> None:
    await world.provider_plane.close()
    await link.says(Ready="False")


async def export_deleted(world: World, link: Link) -> None:
    await world.provider.delete(APISERVICEEXPORTS, link.name, link.cluster_namespace)
    await link.says(Ready="False")


async def lease_left(world: World, link: Link) -> None:
    """The provider still counts on it, and its own cluster shows that it has stopped."""
    await world.one.stop()
    await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    spec = {
        "holderIdentity": "konnector-a",
        "renewTime": format_micro_time(moment() - timedelta(minutes=1)),
        "leaseDurationSeconds": 15,
    }
    at = {"name": LEASE, "namespace": "kube-bind"}
    body: JSON = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": at}
    await world.consumer.create(LEASES, {**body, "spec": spec})
    beat = {"lastHeartbeatTime": format_time(moment() - timedelta(minutes=1))}
    place = ("cluster", link.cluster_namespace)
    await world.provider.merge_patch(
        CLUSTERBINDINGS, *place, {"status": beat}, subresource="status"
    )


async def konnector_stopped(world: World, link: Link) -> None:
    """It has been silent for long, and a change waits for it."""
    await world.one.stop()
    await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    status = {"status": {"lastHeartbeatTime": "2026-01-01T00:00:00Z"}}
    at = ("cluster", link.cluster_namespace)
    await world.provider.merge_patch(CLUSTERBINDINGS, *at, status, subresource="status")
    await when(
        world.provider,
        CLUSTERBINDINGS,
        *at,
        until=lambda body: condition(body, "Ready").get("status") == "False",
    )


def shows(reason: str, body: JSON) -> bool:
    return reason in str(body.get("status"))


class Broken(NamedTuple):
    breaks: Callable[[World, Link], Awaitable[None]]
    reason: str
    remedy: str


@pytest.mark.parametrize(
    "broken",
    [
        Broken(crd_deleted, "SchemaNotFound", "ask the provider's team to install the kind's CRD"),
        Broken(
            server_gone, "NotReached", "see that this machine can reach the provider's API server"
        ),
        Broken(export_deleted, "APIServiceExportNotFound", "ask the provider's team for a new"),
        Broken(lease_left, "KonnectorStopped", "see whether the konnector runs"),
        Broken(konnector_stopped, "HeartbeatTimeout", "see whether the konnector runs"),
    ],
    ids=lambda broken: broken.breaks.__name__,
)
async def test_an_object_its_binding_and_the_list_name_one_cause(
    world: World, broken: Broken, tmp_path: Path
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
    await link.says(Ready="True")
    await broken.breaks(world, link)

    async def run(*command: str) -> tuple[int, str, str]:
        return await fairlead(world.consumer_plane, tmp_path, *command)

    _, out, _ = await run("bindings", "--json")
    (row,) = json.loads(out)["bindings"]
    assert (row["state"], row["reason"]) == ("failed", broken.reason)
    assert row["remedy"].startswith(broken.remedy)
    assert row["since"]
    _, out, _ = await run("bindings")
    assert f"; next: {row['remedy']}" in out
    assert " (for " in out
    for target in ("apiservicebinding/widgets", "widget/blue"):
        code, out, _ = await run("explain", target)
        head, *_, last = out.splitlines()
        assert (code, head.rpartition(": ")[2]) == (1, broken.reason), target
        assert last == f"next: {row['remedy']}"
        # What is to do is said once.
        assert " ".join(out.split()).count("bind` with") == 0
        assert "(since 20" in out


async def test_advice_on_an_access_is_for_who_may_change_it() -> None:
    async with (
        Sandbox(name="app") as plane,
        Client(parse_kubeconfig(plane.kubeconfig())) as admin,
    ):
        await prepare(admin)
        await admin.create(POSTGRESACCESSES, access("db", "default", "main"))
        ready = {
            "type": "Ready",
            "status": "False",
            "reason": "OwnsObjects",
            "message": "role db owns 2 tables",
            "lastTransitionTime": format_time(moment()),
        }
        status = {"status": {"observedGeneration": 1, "conditions": [ready]}}
        await admin.merge_patch(POSTGRESACCESSES, "db", "default", status, subresource="status")
        names: JSON = {"metadata": {"name": "tenant", "namespace": "default"}}
        rule = {
            "apiGroups": [POSTGRESACCESSES.group],
            "resources": ["*"],
            "verbs": ["get", "list"],
        }
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
        subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}
        for resource, more in (
            (SERVICEACCOUNTS, {}),
            (ROLES, {"rules": [rule]}),
            (ROLEBINDINGS, {"roleRef": role, "subjects": [subject]}),
        ):
            typed = {"apiVersion": resource.api_version, "kind": resource.kind}
            await admin.create(resource, {**typed, **names, **more})
        target = parse_target("postgresaccess/db")
        async with Client(await as_service_account(admin, "default", "tenant")) as tenant:
            found = await explain(tenant, target, "default", "default")
            (chain,) = found.chains
            assert chain.next_step.startswith("ask who may change PostgresAccess default/db: ")
        (chain,) = (await explain(admin, target, "default", "default")).chains
        assert "ask who may" not in chain.next_step
