"""What works beside the routes, in the program as it is put together."""

from __future__ import annotations

import asyncio

import structlog
from tests.integration.portal.handshake.conftest import ADA, BEN
from tests.support.portal import serve_options
from tests.support.waiting import SECONDS, eventually

from fairlead.api.kubebind import ANNOTATION_AUTHOR, ANNOTATION_IDENTITY
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.demo.identity import as_service_account
from fairlead.portal.app import run_all
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.runtime import Cluster, Manager


async def test_hand_overs_are_told(admin: Client) -> None:
    annotations = {ANNOTATION_AUTHOR: ADA.author, ANNOTATION_IDENTITY: "cluster-1"}
    await admin.create(NAMESPACES, {"metadata": {"name": "mine", "annotations": annotations}})
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    with structlog.testing.capture_logs() as lines:
        async with Client(config) as client, asyncio.TaskGroup() as group:
            manager, cluster = Manager(), Cluster(NAME, client)
            await run_all(manager, cluster, serve_options())
            task = group.create_task(manager.run())
            # What was there at the start is told by no line.
            for informer in list(cluster.informers()):
                await asyncio.wait_for(informer.synced.wait(), SECONDS)
            change = {"metadata": {"annotations": {ANNOTATION_AUTHOR: BEN.author}}}
            await admin.merge_patch(NAMESPACES, "mine", "", change)

            async def told() -> bool:
                return any(line["event"] == "hand-over" for line in lines)

            await eventually(told)
            task.cancel()
