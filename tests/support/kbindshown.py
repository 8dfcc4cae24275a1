"""A consumer of kbind v2 whose console has something to show: what works, and what does not."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import KbindWorld


BROKEN = "broken"
"""Name of the Connection that does not work."""
SHOP = "shop"
"""Namespace of all objects."""
TAKEN = "taken"
"""Name of the object of which another has the copy's place."""


async def furnished(stack: AsyncExitStack) -> tuple[KbindWorld, dict[str, str]]:
    """A consumer with two Connections, of which one works; and the names in paths of pages."""
    world = KbindWorld(stack)
    await world.start()
    bound = BoundWorld(world)
    api = await world.provider.offer()
    await world.provider.offer("gadgets")
    await bound.accept("widgets")
    await world.konnector()
    await world.connect(await bound.kubeconfig("widgets"))
    await world.connect(b"nonsense", BROKEN)
    resource = widgets(world.provider)
    related = [
        {"resource": "secrets", "direction": "FromProvider", "selector": {"names": ["login"]}},
        {"resource": "configmaps", "direction": "FromConsumer", "selector": {"names": ["ca"]}},
    ]
    await bound.bind("all", api, relatedResources=related)
    await namespace(world.consumer, SHOP)
    await bound.bind("late", api, connection=BROKEN, namespace=SHOP)
    await bound.says("Ready", "True")
    await namespace(world.provider.admin, SHOP)
    await world.provider.admin.create(resource, widget(resource, TAKEN, SHOP))
    for name in ("photos", TAKEN, "videos"):
        await world.consumer.create(resource, widget(resource, name, SHOP))
    await bound.says("Conflicts", "True")
    return world, {"connection": world.name, "api": api}
