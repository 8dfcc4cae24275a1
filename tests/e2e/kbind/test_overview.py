"""Bindings of kbind v2 as commands and consoles see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import KbindWorld, connection
from tests.support.waiting import SECONDS

from fairlead.api.kbind import CONNECTIONS
from fairlead.client import Client
from fairlead.konnector.commands.overview.fetch import Overview, SeenBindings
from fairlead.konnector.commands.overview.rows import MirroredRow, OverviewRow, make_row


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
        "no binding names it, so that nothing is bound"
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
        "rename one of them, or, of bound objects, set conflictPolicy Adopt on the binding",
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
    assert early.problem.startswith("Connection acme: no controller has looked at it")
    assert (late.state, late.reason) == ("waiting", "Unseen")
    assert late.problem.startswith("no konnector has picked it up: ")
    assert "--protocols" in late.problem


async def test_nothing_is_seen_where_the_kinds_are_not_served(kbind: KbindWorld) -> None:
    rows, found = await seen(kbind.consumer)
    assert (rows, found.notes) == ({}, [])
