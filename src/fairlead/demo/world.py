"""The world of the story while it runs: two clusters, a database and the programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Protocol

from fairlead.api.kubebind import BindingResponse, provider_crds
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.frontdoor import FrontDoor, Someone
from fairlead.demo.postgres.database import DatabaseServer
from fairlead.demo.programs import consumer_programs, provider_programs, run
from fairlead.konnector.commands.bind import bind
from fairlead.postgres.options import DEFAULT_NAMESPACE as OPERATOR_NAMESPACE
from fairlead.runtime import install_crds


__all__ = ["OPERATOR_NAMESPACE", "Plane", "World", "open_world"]

EXPORTS = (f"postgresaccesses.{objects.ACCESS_GROUP}",)


class Plane(Protocol):
    """A running control plane, embedded or real."""

    def kubeconfig(self) -> bytes:
        """Return the administrator's kubeconfig."""
        ...


class World:
    """Both clusters with their administrators' clients, the database server and the front door.

    The first person of the front door is of the story's team, the second of another team.
    """

    def __init__(
        self, provider: Client, consumer: Client, database: DatabaseServer, door: FrontDoor
    ) -> None:
        self.provider = provider
        self.consumer = consumer
        self.database = database
        self.door = door
        self.binding_name = ""

    async def bind(self, response: BindingResponse) -> None:
        """Bind a response, as ``fairlead bind`` does."""
        await bind(self.consumer, response)


@asynccontextmanager
async def open_world(
    provider: Plane, consumer: Plane, database: DatabaseServer
) -> AsyncIterator[World]:
    """Run every program while the block runs.

    Raises:
        ExceptionGroup: a program has failed; the block was cancelled.
    """
    people = Someone("ada", objects.TEAM), Someone("ben", objects.OTHER_TEAM)
    # Here, for a program that is stopped before its first step closes nothing.
    with closing(FrontDoor(*people)) as door:
        async with (
            Client(parse_kubeconfig(provider.kubeconfig())) as provider_client,
            Client(parse_kubeconfig(consumer.kubeconfig())) as consumer_client,
            asyncio.TaskGroup() as group,
        ):
            programs = [
                *((one, provider_client, "provider") for one in provider_programs(EXPORTS)),
                *((one, consumer_client, "consumer") for one in consumer_programs()),
            ]
            tasks = [
                *(
                    group.create_task(run(program, client, cluster_name=name), name=program.name)
                    for program, client, name in programs
                ),
                group.create_task(_serve(door, provider_client), name=door.program.name),
            ]
            try:
                yield World(provider_client, consumer_client, database, door)
            finally:
                # Programs run until they are cancelled, and the group waits for their end.
                for task in tasks:
                    task.cancel()


async def _serve(door: FrontDoor, admin: Client) -> None:
    """Run the front door, but not before the CRDs exist: its informers would wait in back-off."""
    await install_crds(admin, provider_crds())
    await run(door.program, admin, cluster_name="provider")
