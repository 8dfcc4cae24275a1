"""Waiting for what control planes come to have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client, Forbidden
from fairlead.client.lookups import wait_for


SECONDS = 180.0
"""How long tests wait for what is going to happen, so that none hangs where it does not.

It is a hundred times what the slowest takes on a machine of its own, since tests have to hold on
one that others load. No test may need it to pass, nor last for it.
"""


_TURN_SECONDS = 0.02


async def idle(seconds: float, unless: Callable[[], bool] = lambda: False) -> bool:
    """Let so much time pass in which this process could work, and had nothing to do.

    Turns of the loop that come late do not count: where the machine is busy, or the loop is, that
    nothing has happened for a while says nothing.

    Returns:
        False as soon as ``unless`` holds, else True.
    """
    loop = asyncio.get_running_loop()
    passed = 0.0
    async with asyncio.timeout(SECONDS):
        while passed < seconds:
            begun = loop.time()
            await asyncio.sleep(_TURN_SECONDS)
            if unless():
                return False
            if loop.time() - begun < 2 * _TURN_SECONDS:
                passed += _TURN_SECONDS
    return True


async def when(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    until: Callable[[JSON], Any],
) -> JSON:
    """The object once it is as wanted; {} stands for an absent one."""

    def missing(found: Object | None) -> str:
        body = found.to_dict() if found is not None else {}
        return "" if until(body) else f"is {body}"

    found = await wait_for(client, resource, name, namespace, until=missing, timeout=SECONDS)
    return found.to_dict() if found is not None else {}


async def gone(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    """Wait until an object is not there any more."""
    await when(client, resource, name, namespace, until=lambda body: not body)


def condition(body: JSON, type_: str) -> JSON:
    """A condition of an object; {} when it was never set."""
    conditions = (body.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == type_), {})


def is_ready(body: JSON) -> bool:
    """Whether Ready is True for the spec as it is."""
    fresh = body.get("status", {}).get("observedGeneration") == body["metadata"]["generation"]
    return bool(fresh and condition(body, "Ready").get("status") == "True")


def failed_with(text: str) -> Callable[[JSON], bool]:
    """Whether Ready is False for the spec as it is, and tells of this."""

    def until(body: JSON) -> bool:
        status = body.get("status", {})
        if status.get("observedGeneration") != body.get("metadata", {}).get("generation"):
            return False
        ready = condition(body, "Ready")
        return ready.get("status") == "False" and text in f"{ready['reason']} {ready['message']}"

    return until


async def eventually(check: Callable[..., Awaitable[bool]], *arguments: object) -> None:
    """Ask until it holds, of what tells nobody when it changes, such as a database."""
    async with asyncio.timeout(SECONDS):
        while not await check(*arguments):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def refusal(ask: Callable[[], Awaitable[object]]) -> None:
    """Wait until this is forbidden: servers hear of rights that were taken away a moment later."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await ask()
            except Forbidden:
                return
            await asyncio.sleep(0.05)
