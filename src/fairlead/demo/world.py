"""Everything that runs while the story is told: two clusters, a database and the programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from fairlead.api.kubebind import BindingResponse, decode_binding_response
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.postgres.database import DatabaseServer
from fairlead.demo.programs import consumer_programs, provider_programs, run
from fairlead.konnector.commands.bind import bind
from fairlead.postgres.options import DEFAULT_NAMESPACE as OPERATOR_NAMESPACE
from fairlead.provider.invitation import invite


__all__ = ["OPERATOR_NAMESPACE", "Plane", "World", "open_world"]

EXPORTS = (f"postgresaccesses.{objects.ACCESS_GROUP}",)


class Plane(Protocol):
    """A control plane that is up, embedded or real."""

    def kubeconfig(self) -> bytes:
        """The administrator's kubeconfig."""
        ...


class World:
    """The two clusters as their administrators reach them, and the database server."""

    def __init__(self, provider: Client, consumer: Client, database: DatabaseServer) -> None:
        self.provider = provider
        self.consumer = consumer
        self.database = database
        self.binding_name = ""

    async def invite(self, name: str, template: str) -> BindingResponse:
        """What ``fairlead provider invite`` writes."""
        response = await invite(self.provider, name=name, template=template)
        return decode_binding_response(msgspec.json.encode(response))

    async def bind(self, response: BindingResponse) -> None:
        """What ``fairlead bind`` does with it."""
        await bind(self.consumer, response)


@asynccontextmanager
async def open_world(
    provider: Plane, consumer: Plane, database: DatabaseServer
) -> AsyncIterator[World]:
    """Run every program while the block runs.

    Raises:
        ExceptionGroup: a program has failed; the block was cancelled.
    """
    async with (
        Client(parse_kubeconfig(provider.kubeconfig())) as provider_client,
        Client(parse_kubeconfig(consumer.kubeconfig())) as consumer_client,
        asyncio.TaskGroup() as group,
    ):
        tasks = [
            group.create_task(run(program, client, cluster_name=name), name=program.name)
            for name, client, programs in (
                ("provider", provider_client, provider_programs(EXPORTS)),
                ("consumer", consumer_client, consumer_programs()),
            )
            for program in programs
        ]
        try:
            yield World(provider_client, consumer_client, database)
        finally:
            for task in tasks:
                task.cancel()
