"""The commands of kbind v2 as a person runs them, and what they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.commands import fairlead
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, KbindWorld
from tests.support.waiting import when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS, ROLES, SECRETS
from fairlead.client.lookups import list_all


class BindWorld:
    """A consumer with a konnector that serves kbind v2, and a provider with one offered API."""

    def __init__(self, world: KbindWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.bound = BoundWorld(world)
        self.resource = widgets(world.provider)

    async def start(self, *, konnector: bool = True, **options: Any) -> None:
        self.api = await self.world.provider.offer()
        self.file = self.folder / "provider.kubeconfig"
        self.file.write_bytes(await self.bound.kubeconfig("widgets", "gadgets"))
        await namespace(self.world.consumer, "shop")
        if konnector:
            self.konnector = await self.world.konnector(**options)

    async def run(self, *words: str, **more: Any) -> tuple[int, str, str]:
        return await fairlead(self.world.consumer_plane.sandbox, self.folder, *words, **more)

    async def bind(self, *words: str) -> tuple[int, str, str]:
        given = ("--provider-kubeconfig", str(self.file), "--connection", "acme")
        return await self.run("bind", *given, *words)

    async def create(self, name: str, place: str = "shop") -> None:
        await self.world.consumer.create(self.resource, widget(self.resource, name, place))

    async def copied(self, name: str, place: str = "shop") -> None:
        await when(self.world.provider.admin, self.resource, name, place, until=bool)

    async def left(self) -> set[str]:
        """What a bind writes and is there."""
        return await left(self.world)


async def left(world: KbindWorld) -> set[str]:
    """What `fairlead bind` writes by kbind v2 and is there."""
    consumer = world.consumer
    found = {f"{one.kind} {one.key}" for one in (await consumer.list(SECRETS, NAMESPACE)).items}
    for resource in (CLUSTERROLES, ROLES, ROLEBINDINGS):
        found |= {
            f"{one.kind} {one.key}"
            for one in (await consumer.list(resource)).items
            if one.meta.name.startswith(("kbind-",))
        }
    for resource in (CONNECTIONS, CLUSTERBINDINGS, BINDINGS):
        found |= {f"{one.kind} {one.key}" for one in await list_all(consumer, resource)}
    return found


WHOLE = {
    "Connection acme",
    "Secret kube-bind/acme-kubeconfig",
    "ClusterBinding acme",
    "ClusterRole kbind-konnector-acme",
    "ClusterRole kbind-edit-acme",
    "ClusterRole kbind-view-acme",
}
"""What a bind of a Connection and a ClusterBinding leaves."""
