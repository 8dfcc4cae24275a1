"""Logins with an end: what their status says, and what is left."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.e2e.postgres.test_secrets import OPTIONS, operator, world
from tests.support.pgworld import World, grant
from tests.support.postgres import running
from tests.support.waiting import condition, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.timestamps import format_time, moment
from fairlead.postgres.controllers.rules.desired import TWO_ENDS


__all__ = ["operator", "world"]


def reason(body: JSON, type_: str = "Ready") -> str:
    found = [one for one in body["status"].get("conditions", ()) if one["type"] == type_]
    return found[0]["reason"] if found else ""


@pytest.mark.usefixtures("operator")
async def test_a_date_ends_the_login_and_leaves_the_rest(world: World) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    known = await world.secret(name)
    await world.patch(name, attributes={"validUntil": "2026-01-01T00:00:00Z"})
    body = await world.wait(name, lambda body: reason(body) == "LoginEnded")
    assert reason(body, "Expiring") == "Ended"
    assert condition(body, "Stalled")["status"] == "True"
    assert body["status"]["expiresAt"] == "2026-01-01T00:00:00Z"
    assert body["status"]["binding"] == {"name": f"{name}-login"}
    assert await world.secret(name) == known
    assert not await world.logs_in(known["uri"])

    later = format_time(moment() + timedelta(days=400))
    await world.patch(name, attributes={"validUntil": later})
    body = await world.ready(name)
    assert (body["status"]["expiresAt"], reason(body, "Expiring")) == (later, "")
    assert await world.logs_in(known["uri"])

    # What the object has set it takes back.
    await world.patch(name, attributes={"validUntil": None})
    await world.wait(name, lambda body: is_ready(body) and "expiresAt" not in body["status"])
    query = "SELECT rolvaliduntil = 'infinity' FROM pg_roles WHERE rolname = %s"
    assert await world.fetch(query, name) == [(True,)]


async def test_an_access_of_a_former_version_with_two_ends_goes_on(world: World) -> None:
    """No rule refuses a write of its status."""
    spec: JSON = {"expiresAfter": "8760h", "attributes": {"validUntil": "2099-01-01T00:00:00Z"}}
    name = await world.create(grants=[grant(world.database, "CONNECT")], **spec)
    await world.admin.merge_patch(
        POSTGRESACCESSES,
        name,
        world.namespace,
        {"status": {"username": name}},
        subresource="status",
    )
    async with running(world.admin, OPTIONS):
        body = await world.ready(name)
        assert TWO_ENDS in body["status"]["warnings"]
        await world.patch(name, expiresAfter="8761h")
        await world.ready(name)
        await world.patch(name, expiresAfter=None)
        await world.wait(
            name,
            lambda body: is_ready(body) and TWO_ENDS not in body["status"].get("warnings", ()),
        )
