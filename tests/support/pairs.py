"""Pairs of control planes: a provider and a consumer that nobody else uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.support.realplane import RealPlane

from fairlead.demo.world import Plane
from fairlead_sandbox import Sandbox


class Started:
    """A control plane that is up, as the story wants it."""

    def __init__(self, kubeconfig: bytes) -> None:
        self._kubeconfig = kubeconfig

    def kubeconfig(self) -> bytes:
        return self._kubeconfig


@asynccontextmanager
async def fresh_planes(kind: str, *names: str) -> AsyncIterator[list[Plane]]:
    """New control planes, ``kind`` "sandbox" or "real", all gone after the block."""
    async with AsyncExitStack() as stack:
        if kind == "sandbox":
            sandboxes = [Sandbox(name=name) for name in names]
            yield [await stack.enter_async_context(sandbox) for sandbox in sandboxes]
            return
        planes = [RealPlane() for _ in names]
        for plane in planes:
            stack.push_async_callback(plane.stop)
        await asyncio.gather(*(plane.start() for plane in planes))
        yield [Started(await plane.kubeconfig()) for plane in planes]
