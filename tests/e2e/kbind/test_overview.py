"""Bindings of kbind v2 as commands and consoles see them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.commands import fairlead
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, RULES, KbindWorld, connection, secret
from tests.support.konnector import Konnector
from tests.support.waiting import SECONDS, gone

from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS, Connection, lease_name
from fairlead.api.kbind import GROUP as KBIND_GROUP
from fairlead.api.kbind.names import LABEL_EXPORTED, LEASE_NAMESPACE
from fairlead.api.kubebind import GROUP, consumer_crds
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, LEASES, SECRETS
from fairlead.client import Client, Forbidden
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import reports
from fairlead.konnector.commands.overview.fetch import Overview, SeenBindings
from fairlead.konnector.commands.overview.links import origin_of
from fairlead.konnector.commands.overview.mirrored import LISTED_PLACES
from fairlead.konnector.commands.overview.rows import (
    MirroredRow,
    OverviewRow,
    make_row,
    object_rows,
)
from fairlead.konnector.manifests import NAME
from fairlead.runtime import install_crds


async def seen(consumer: Client, name: str = "") -> tuple[dict[str, OverviewRow], SeenBindings]:
    """The rows by their titles, and all that was seen."""
    async with Overview(consumer) as overview:
        found = await overview.fetch_all(name)
        rows = [make_row(bound, datetime.now(UTC)) for bound in found.bindings]
        return {row.title: row for row in rows}, found


async def row_once(
    consumer: Client, title: str, until: Callable[[OverviewRow], Any]
) -> OverviewRow:
    """The row of a title, once it is as wanted."""
    async with asyncio.timeout(SECONDS):
        while True:
            rows, _ = await seen(consumer)
            if title in rows and until(rows[title]):
                return rows[title]
            await asyncio.sleep(0.05)


async def test_a_binding_with_its_objects_its_connection_and_the_lease(kbind: KbindWorld) -> None:
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    row = await row_once(kbind.consumer, f"connection/{kbind.name}", lambda row: row.state == "ok")
    assert row.resources == [api]
    assert [remark.message for remark in row.remarks] == [
        "no binding names it, so it binds nothing"
    ]
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    await namespace(kbind.consumer, "shop")
    resource = widgets(kbind.provider)
    for name in ("a", "b"):
        await kbind.consumer.create(resource, widget(resource, name, "shop"))
    row = await row_once(kbind.consumer, "clusterbinding/all", lambda row: row.in_sync == 2)
    assert isinstance(row, MirroredRow)
    assert (row.objects, row.lag_seconds, row.problem, row.remarks) == (2, None, "", [])
    assert (row.connection, row.resources, row.versions) == (kbind.name, [api], {api: ["v1"]})
    server = kbind.provider.admin.config.server.partition("://")[2]
    assert row.provider == f"{kbind.name} ({server})"
    assert row.last_heartbeat_time
    rows, _ = await seen(kbind.consumer)
    assert set(rows) == {"clusterbinding/all"}


async def test_a_conflict_is_counted_and_its_object_names_the_remedy(kbind: KbindWorld) -> None:
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    resource = widgets(kbind.provider)
    for admin in (kbind.provider.admin, kbind.consumer):
        await namespace(admin, "shop")
        await admin.create(resource, widget(resource, "a", "shop"))
    row = await row_once(kbind.consumer, "clusterbinding/all", lambda row: row.remarks)
    assert isinstance(row, MirroredRow)
    assert (row.in_sync, row.objects, row.conflicts) == (0, 1, 1)
    (remark,) = row.remarks
    assert (remark.reason, remark.remedy) == (
        "ForeignObjectExists",
        (
            "rename one of the two objects; for bound objects you can also set conflictPolicy:"
            " Adopt on the binding"
        ),
    )


async def test_the_connections_fault_is_told_in_place_of_the_wait_for_it(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    await kbind.konnector()
    await kbind.consumer.create(CONNECTIONS, connection("acme"))
    await bound.bind("all", "widgets.example.org", connection="acme")
    await bound.says("Ready", "False", "Pending")
    row = await row_once(kbind.consumer, "clusterbinding/all", lambda row: row.reason)
    assert (row.state, row.reason) == ("failed", "SecretNotFound")
    assert row.problem.startswith("Connection acme: Secret kube-bind/acme not found")
    assert row.remedy.startswith("create the Secret in the konnector's namespace")


async def test_a_binding_without_its_connection_and_one_that_nothing_looks_at(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    konnector = await kbind.konnector()
    await bound.bind("all", "widgets.example.org", connection="acme")
    await bound.says("Ready", "False", "Pending")
    row = await row_once(kbind.consumer, "clusterbinding/all", lambda row: row.reason)
    assert (row.state, row.problem) == ("waiting", "Connection acme: it does not exist")
    assert row.remedy == "create Connection acme, or correct spec.connectionRef"
    await konnector.stop()
    await kbind.consumer.create(CONNECTIONS, connection("acme"))
    await bound.bind("late", "widgets.example.org", connection="acme")
    rows, _ = await seen(kbind.consumer)
    early, late = rows["clusterbinding/all"], rows["clusterbinding/late"]
    assert (early.state, early.reason) == ("waiting", "Unseen")
    assert early.problem.startswith("Connection acme: no controller has processed it")
    assert (late.state, late.reason) == ("waiting", "Unseen")
    assert late.problem.startswith("no konnector has picked it up: ")
    assert "--protocols" in late.problem


class Mirroring:
    """A world in which a ClusterBinding brings widgets, and a namespace has two of them."""

    def __init__(self, world: KbindWorld, name: str = "all", space: str = "shop") -> None:
        self.world, self.name, self.space = world, name, space
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin
        self.resource = widgets(world.provider)
        self.api = self.resource.group_resource
        self.account = f"team-{world.name}"

    @property
    def title(self) -> str:
        return f"clusterbinding/{self.name}"

    async def start(self) -> None:
        await self.world.provider.offer()
        await self.bound.accept("widgets")
        self.konnector: Konnector = await self.world.konnector()
        await self.world.connect(await self.bound.kubeconfig("widgets", name=self.account))
        await self.bound.bind(self.name, self.api)
        await self.bound.says("Ready", "True", key=Key("", self.name))
        await namespace(self.here, self.space)
        for name in ("a", "b"):
            await self.create(name)
        await row_once(self.here, self.title, lambda row: row.in_sync == 2)

    async def create(self, name: str) -> None:
        await self.here.create(self.resource, widget(self.resource, name, self.space))

    async def change(self, name: str) -> None:
        await self.here.merge_patch(self.resource, name, self.space, {"spec": {"size": 2}})

    async def row(self) -> OverviewRow:
        return (await seen(self.here))[0][self.title]


@pytest.fixture
async def mirrored(kbind: KbindWorld) -> Mirroring:
    world = Mirroring(kbind)
    await world.start()
    return world


@pytest.mark.edge
async def test_a_real_server_on_either_side(any_kbind: KbindWorld) -> None:
    world = Mirroring(any_kbind, any_kbind.name, f"shop-{any_kbind.name}")
    await world.start()
    await world.konnector.stop()
    await world.change("a")
    row = await world.row()
    assert (row.in_sync, row.objects) == (1, 2)
    assert row.lag_seconds is not None
    status = {"status": {"made": 1}}
    await world.there.merge_patch(world.resource, "b", world.space, status, subresource="status")
    assert (await world.row()).in_sync == 0
    await any_kbind.konnector()
    await row_once(world.here, world.title, lambda row: row.in_sync == 2)
    for kind, name in ((CLUSTERBINDINGS, world.name), (CONNECTIONS, any_kbind.name)):
        await world.here.delete(kind, name)
        await gone(world.here, kind, name)


async def test_the_command_shows_a_binding_and_its_objects(
    mirrored: Mirroring, tmp_path: Path
) -> None:
    plane = mirrored.world.consumer_plane.sandbox
    await mirrored.konnector.stop()
    await mirrored.change("a")
    for name in ("all", "clusterbinding/all"):
        code, out, err = await fairlead(plane, tmp_path, "bindings", name)
        assert (code, err) == (0, "")
        header, line = out.splitlines()
        assert header.split()[:3] == ["BINDING", "PROTOCOL", "PROVIDER"]
        assert line.split()[:2] == ["clusterbinding/all", "v2"]
        assert line.split()[4:7] == ["widgets", "(v1)", "1/2"]
    code, out, err = await fairlead(plane, tmp_path, "bindings", "--json")
    (row,) = json.loads(out)["bindings"]
    expected = msgspec.to_builtins(await mirrored.row())
    assert row == expected | {"lagSeconds": row["lagSeconds"]}
    code, out, err = await fairlead(plane, tmp_path, "bindings", "all", "--objects")
    assert code == 0, err
    assert "Widget shop/a" in out
    assert "its last change to reach the copy" in out


async def test_a_name_of_several_bindings_is_not_one_of_none(
    mirrored: Mirroring, tmp_path: Path
) -> None:
    plane = mirrored.world.consumer_plane.sandbox
    await namespace(mirrored.here, "away")
    for space in ("shop", "away"):
        await mirrored.bound.bind("own", "gears.example.org", namespace=space)
    code, out, _ = await fairlead(plane, tmp_path, "bindings", "own")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *("BINDING", "binding/away/own", "binding/shop/own")
    ]
    code, _, err = await fairlead(plane, tmp_path, "bindings", "own", "--objects")
    assert code == 1
    assert "several bindings have the name own: binding/away/own and binding/shop/own" in err
    code, _, err = await fairlead(plane, tmp_path, "bindings", "clusterbinding/al")
    assert code == 1
    assert "clusterbinding/al does not exist; did you mean clusterbinding/all?" in err


async def test_a_binding_counts_the_objects_that_it_decides_about(mirrored: Mirroring) -> None:
    await mirrored.bound.bind("own", mirrored.api, namespace="shop")
    await mirrored.bound.says("Ready", "True", key=Key("shop", "own"))
    rows, _ = await seen(mirrored.here)
    assert (rows["binding/shop/own"].objects, rows["clusterbinding/all"].objects) == (0, 2)


async def test_a_deleted_binding_says_what_it_waits_for(mirrored: Mirroring) -> None:
    held = {"metadata": {"finalizers": ["example.org/slow"]}}
    await mirrored.there.merge_patch(mirrored.resource, "a", "shop", held)
    await mirrored.here.delete(CLUSTERBINDINGS, "all")
    row = await row_once(mirrored.here, mirrored.title, lambda row: "copies of 1" in row.problem)
    assert (row.state, row.reason, row.objects, row.in_sync) == ("waiting", "Pending", 1, 0)
    free: JSON = {"metadata": {"finalizers": []}}
    await mirrored.there.merge_patch(mirrored.resource, "a", "shop", free)
    await gone(mirrored.here, CLUSTERBINDINGS, "all")


async def test_an_object_that_the_provider_refuses_has_its_answer(
    mirrored: Mirroring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "LASTING_SECONDS", 0.0)
    rules = [*RULES, rule(mirrored.resource.group, ["*"], ("get", "list", "watch"))]
    await mirrored.world.provider.grant(mirrored.account, rules)
    await mirrored.create("c")
    async with asyncio.timeout(SECONDS), Overview(mirrored.here) as overview:
        while True:
            (bound,) = (await overview.fetch_all()).bindings
            objects = [obj for kind in bound.kinds or () for obj in kind.objects]
            rows = object_rows(bound, await overview.warnings(objects), datetime.now(UTC))
            if rows and rows[0].state == "failed":
                break
            await asyncio.sleep(0.05)
    (row,) = rows
    assert row.name == "c"
    assert row.waits_for.startswith("the provider refuses its last change: ")
    assert row.remedy == (
        "ask the provider's team to give the consumer the right that the message names"
    )


async def test_an_object_of_an_api_that_is_offered_no_more_says_so(mirrored: Mirroring) -> None:
    """Its binding has it bound still, so that the next process knows of its copies."""
    label = {"metadata": {"labels": {LABEL_EXPORTED: None}}}
    await mirrored.there.merge_patch(CUSTOMRESOURCEDEFINITIONS, mirrored.api, "", label)
    body = await mirrored.bound.says("Ready", "False", "APINotExported")
    assert [bound["name"] for bound in body["status"]["boundAPIs"]] == [mirrored.api]
    obj = await mirrored.here.get(mirrored.resource, "a", mirrored.space)
    origin = await origin_of(mirrored.here, mirrored.resource, obj)
    assert origin is not None
    assert [(link.state, link.reason) for link in origin.links[:1]] == [
        ("failed", "APINotExported")
    ]


async def test_a_secret_that_the_konnector_refuses_is_read_by_no_look(kbind: KbindWorld) -> None:
    await kbind.konnector()
    kubeconfig = await kbind.provider.kubeconfig()
    await namespace(kbind.consumer, "shop")
    await kbind.consumer.create(SECRETS, secret("astray", kubeconfig, "shop"))
    await kbind.consumer.create(CONNECTIONS, connection("astray", "shop"))
    title = "connection/astray"
    await row_once(kbind.consumer, title, lambda row: row.reason == "SecretRefused")
    assert kbind.provider.plane is not None
    here, there = kbind.consumer_plane.traffic, kbind.provider.plane.traffic
    here.seen.clear()
    there.seen.clear()
    rows, _ = await seen(kbind.consumer)
    assert rows[title].reason == "SecretRefused"
    assert [one.name for one in here.seen if (one.resource, one.verb) == ("secrets", "get")] == []
    assert there.seen == []


async def test_the_lease_at_the_provider_says_whether_a_konnector_runs(
    mirrored: Mirroring,
) -> None:
    # One that has no Pod here may still run elsewhere.
    labels = {"app": "konnector"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "konnector", "image": "fairlead"}]},
        },
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    metadata = {"name": NAME, "namespace": NAMESPACE}
    await mirrored.here.create(DEPLOYMENTS, {**body, "metadata": metadata})
    assert (await mirrored.row()).problem == ""
    await mirrored.konnector.stop()
    await mirrored.here.delete(DEPLOYMENTS, NAME, NAMESPACE)
    connected = (await mirrored.here.get(CONNECTIONS, mirrored.world.name)).decode(Connection)
    lease = lease_name(connected.status.local_cluster_uid)
    old = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    await mirrored.there.merge_patch(LEASES, lease, LEASE_NAMESPACE, old)
    row = await mirrored.row()
    assert (row.state, row.reason, row.since) == (
        *("failed", "KonnectorStopped", "2026-01-01T00:00:00Z"),
    )
    assert row.problem.startswith(f"no konnector has renewed Lease kbind/{lease} at the provider")


async def test_many_namespaces_of_copies_are_listed_at_once(mirrored: Mirroring) -> None:
    spaces = [f"shop-{number}" for number in range(LISTED_PLACES)]
    for space in spaces:
        await namespace(mirrored.here, space)
        await mirrored.here.create(mirrored.resource, widget(mirrored.resource, "a", space))
    await row_once(mirrored.here, mirrored.title, lambda row: row.in_sync == 2 + len(spaces))
    plane = mirrored.world.provider.plane
    assert plane is not None
    plane.traffic.seen.clear()
    await mirrored.row()
    assert plane.traffic.count("list", resource="widgets") == 1


async def reader(admin: Client, name: str, *rules: JSON) -> Client:
    """A client of an account of namespace shop with these rights in the whole cluster."""
    placed = {"name": name, "namespace": "shop"}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", **placed}
    await create_all(
        admin,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": placed},
            {**rbac, "kind": "ClusterRole", "rules": list(rules)},
            {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
        ],
    )
    return Client(await as_service_account(admin, "shop", name))


async def test_who_may_not_list_a_kind_is_told_so_in_a_line(mirrored: Mirroring) -> None:
    async with await reader(mirrored.here, "nobody") as limited:
        with pytest.raises(Forbidden):
            await seen(limited)
    theirs = rule(GROUP, ["apiservicebindings"], ("list",))
    async with await reader(mirrored.here, "former", theirs) as limited:
        rows, bindings = await seen(limited)
    assert rows == {}
    assert bindings.notes == [
        f"you may not list {plural}.{KBIND_GROUP}: they are left out"
        for plural in ("connections", "clusterbindings", "bindings")
    ]
    ours = rule(KBIND_GROUP, ["connections", "clusterbindings"], ("list",))
    async with await reader(mirrored.here, "latter", ours) as limited:
        rows, bindings = await seen(limited)
    row = rows["clusterbinding/all"]
    assert (row.state, row.in_sync, row.objects) == ("ok", None, None)
    assert row.remarks[0].message.startswith(f"you may not list {mirrored.api}, so objects")
    assert [note.partition(":")[0] for note in bindings.notes] == [
        f"you may not list bindings.{KBIND_GROUP}",
        f"you may not list apiservicebindings.{GROUP}",
    ]


async def test_who_may_list_nothing_of_kbind_hears_nothing_of_it_where_it_is_not_served(
    kbind: KbindWorld,
) -> None:
    await install_crds(kbind.consumer, consumer_crds())
    await namespace(kbind.consumer, "shop")
    theirs = rule(GROUP, ["apiservicebindings"], ("list",))
    async with await reader(kbind.consumer, "former", theirs) as limited:
        rows, bindings = await seen(limited)
    assert (rows, bindings.notes) == ({}, [])


async def test_nothing_is_seen_where_the_kinds_are_not_served(kbind: KbindWorld) -> None:
    rows, found = await seen(kbind.consumer)
    assert (rows, found.notes) == ({}, [])
