"""Consumers that are invited by kbind v2, each with a cluster and a konnector of its own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from tests.support.kbindbound import namespace, widget, widgets
from tests.support.kbindworld import KbindWorld, has
from tests.support.waiting import gone, when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS
from fairlead.api.kbind.names import KBIND_KINDS
from fairlead.api.meta import JSON
from fairlead.client import AlreadyExists, Client
from fairlead.demo.identity import create_all
from fairlead.provider.v2.invitation import invite
from fairlead.provider.v2.record import KbindInvitation, home_of


def kubeconfig_of(file: Sequence[JSON]) -> bytes:
    """The kubeconfig in a consumer's file."""
    (secret,) = (one for one in file if one["kind"] == "Secret")
    return base64.b64decode(secret["data"]["kubeconfig"])


class Invited:
    """A consumer of a world's provider; its names are its own, on servers that tests share."""

    def __init__(self, world: KbindWorld, name: str = "") -> None:
        self.world = world
        self.name = name or world.name
        self.home = home_of(self.name)
        self.there, self.here = world.provider.admin, world.consumer
        self.group = world.provider.group
        self.resource = widgets(world.provider)
        self.api = f"widgets.{self.group}"
        self.lines: list[str] = []
        self.file: list[JSON] = []

    async def invite(self, *apis: str, existing: bool = False, **asked: Any) -> list[JSON]:
        """Invite it, and keep its file."""
        wish = KbindInvitation(apis=apis or (self.api,), **asked)
        self.file = await invite(
            self.there,
            name=self.name,
            request=wish,
            existing_namespaces=existing,
            progress=self.lines.append,
        )
        return self.file

    async def apply(self, client: Client | None = None) -> None:
        """Apply the file in its cluster, after its namespaces."""
        here = client or self.here
        for one in self.file:
            if one["kind"] == "Binding":
                try:
                    await namespace(here, one["metadata"]["namespace"])
                except AlreadyExists:
                    continue
        await apply_all(here, self.file)

    async def clean(self) -> None:
        """Delete the file in its cluster, so that no other konnector there has to do with it."""
        kinds = {one.kind: one for one in KBIND_KINDS}
        objects = [
            (kinds[body["kind"]], body["metadata"]["name"], body["metadata"].get("namespace", ""))
            for body in self.file
            if body["kind"] in kinds
        ]
        for one in objects:
            await self.here.delete(*one)
        for one in objects:
            await gone(self.here, *one)

    async def bound(self, client: Client | None = None) -> None:
        """Wait until all its bindings are Ready."""
        for one in self.file:
            if one["kind"] in {"Binding", "ClusterBinding"}:
                resource = BINDINGS if one["kind"] == "Binding" else CLUSTERBINDINGS
                meta = one["metadata"]
                await when(
                    client or self.here,
                    resource,
                    meta["name"],
                    meta.get("namespace", ""),
                    until=has("Ready", "True"),
                )

    async def create(self, name: str = "a", space: str = "", **more: Any) -> None:
        """Create an object in its cluster."""
        await self.here.create(
            self.resource, widget(self.resource, name, space or self.name, **more)
        )

    async def copied(self, name: str = "a", space: str = "", until: Any = bool) -> JSON:
        """The copy at the provider."""
        return await when(self.there, self.resource, name, space or self.name, until=until)


async def apply_all(client: Client, documents: list[JSON]) -> None:
    """Create objects, or replace them, as kubectl apply does."""
    for body in documents:
        await create_all(client, [body])
        resource = await client.discovery.resource_for(body["apiVersion"], body["kind"])
        meta = body["metadata"]
        await client.merge_patch(resource, meta["name"], meta.get("namespace", ""), body)
