"""A server that is stopped while people bind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.portal.handshake import conftest
from tests.support.waiting import SECONDS, eventually

from fairlead.api.kubebind import BINDABLERESOURCESREQUESTS
from fairlead.client import Client
from fairlead.portal.handshake.bind import Bind
from fairlead_sandbox import Sandbox


async def test_a_bind_does_not_hold_up_a_server_that_is_stopped(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Bind] = []

    def noted(*args: Any, **more: Any) -> Bind:
        made.append(Bind(*args, **more))
        return made[0]

    async def declared() -> bool:
        return bool((await admin.list(BINDABLERESOURCESREQUESTS)).items)

    monkeypatch.setattr(conftest, "Bind", noted)
    async with conftest.house(plane, admin, provider=False, seconds=10 * SECONDS) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        running = asyncio.create_task(made[0].run())
        asked = asyncio.create_task(it.bind(conftest.ADA))
        await eventually(declared)
        running.cancel()
        async with asyncio.timeout(SECONDS):
            answer = await asked
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert "being stopped" in answer.text
        assert not await declared()
