"""Waiting for what control planes come to have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client, Forbidden
from fairlead.client.lookups import wait_for


SECONDS = 20.0
"""Longer than anything takes that is going to happen."""


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


async def refusal(ask: Callable[[], Awaitable[object]]) -> None:
    """Wait until this is forbidden: servers hear of rights that were taken away a moment later."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await ask()
            except Forbidden:
                return
            await asyncio.sleep(0.05)
