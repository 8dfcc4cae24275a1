"""The commands of kbind v2 as a person runs them, and what they leave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.commands import FAIRLEAD
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, KbindWorld
from tests.support.waiting import when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS, ROLES, SECRETS
from fairlead.client.lookups import list_all


class BindWorld:
    """A consumer with a konnector that serves kbind v2, and a provider with one offered API."""

    def __init__(self, world: KbindWorld, folder: Path, *, shared: bool = False) -> None:
        # On a server that tests share the names are this test's own.
        self.name = world.name if shared else "acme"
        self.place = f"shop-{world.name}" if shared else "shop"
        self.world = world
        self.folder = folder
        self.bound = BoundWorld(world)
        self.resource = widgets(world.provider)

    async def start(self, *, konnector: bool = True, **options: Any) -> None:
        self.api = await self.world.provider.offer()
        self.file = self.folder / "provider.kubeconfig"
        self.file.write_bytes(await self.bound.kubeconfig("widgets", "gadgets"))
        await namespace(self.world.consumer, self.place)
        if konnector:
            self.konnector = await self.world.konnector(**options)

    async def run(self, *words: str) -> tuple[int, str, str]:
        file = self.folder / "consumer.kubeconfig"
        file.write_bytes(self.world.consumer_kubeconfig())
        process = await asyncio.create_subprocess_exec(
            *(*FAIRLEAD, *words, "--kubeconfig", str(file)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        assert b"Traceback" not in out + err, err.decode()
        return process.returncode, out.decode(), err.decode()

    async def bind(self, *words: str) -> tuple[int, str, str]:
        given = ("--provider-kubeconfig", str(self.file), "--connection", self.name)
        return await self.run("bind", *given, *words)

    async def create(self, name: str, place: str = "") -> None:
        body = widget(self.resource, name, place or self.place)
        await self.world.consumer.create(self.resource, body)

    async def copied(self, name: str, place: str = "") -> None:
        admin, place = self.world.provider.admin, place or self.place
        await when(admin, self.resource, name, place, until=bool)

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


def whole(name: str) -> set[str]:
    """What a bind of a Connection and a ClusterBinding leaves."""
    return {
        f"Connection {name}",
        f"Secret kube-bind/{name}-kubeconfig",
        f"ClusterBinding {name}",
        f"ClusterRole kbind-konnector-{name}",
        f"ClusterRole kbind-edit-{name}",
        f"ClusterRole kbind-view-{name}",
    }


WHOLE = whole("acme")
