"""A password that is changed in its place, while somebody holds the role or something dies."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from tests.integration.postgres.tenants.test_neighbours import brief, holding, reason
from tests.integration.postgres.test_roles import Admin, role
from tests.support.hostile import Stalling
from tests.support.pgserver import PASSWORD, can_login, endpoint_of
from tests.support.servers import OPERATOR
from tests.support.waiting import SECONDS

from fairlead.api.postgresaccess import Attributes
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.rotating import rotate
from fairlead.postgres.errors import AccessError


NEW = "the new one"


class Secret:
    """What everybody may read who uses the login."""

    def __init__(self) -> None:
        self.password = PASSWORD

    async def publish(self) -> None:
        self.password = NEW


async def test_server_and_secret_have_it_or_neither(admin: Admin) -> None:
    await admin.one(role())
    secret = Secret()
    seen = []

    async def publish() -> None:
        # Nobody can log in with the new one before it holds, and the old one still does.
        seen.append([await can_login(admin.server, "app", one) for one in (PASSWORD, NEW)])
        await secret.publish()

    await rotate(admin.sessions, role(password=NEW), admin.verifiers, publish)
    assert seen == [[True, False]]
    assert [await can_login(admin.server, "app", one) for one in (PASSWORD, NEW)] == [False, True]
    await admin.settled(role(password=NEW))


@pytest.mark.differs("version", "administrator")
async def test_a_role_that_somebody_holds_keeps_its_password_and_its_secret(admin: Admin) -> None:
    await brief(admin, role("tenant"), role("neighbour", uid="u2"))
    secret, other = Secret(), Secret()
    wanted = role("tenant", password=NEW)
    async with holding(admin, "tenant", "ALTER ROLE tenant SET work_mem = '8MB'"):
        # That row is none of the password's.
        await rotate(admin.sessions, wanted, admin.verifiers, secret.publish)
    assert secret.password == NEW
    secret = Secret()
    await admin.one(role("tenant"))
    async with holding(admin, "tenant", "ALTER ROLE tenant PASSWORD 'x'"):
        for way in (True, False):
            with pytest.raises(AccessError) as held:
                await rotate(admin.sessions, wanted, admin.verifiers, secret.publish, brief=way)
            assert held.value.reason == "Locked"
        assert "change the password of role tenant; pid " in held.value.message
        assert "of role tenant" in held.value.message
        assert secret.password == PASSWORD
        changed = role("neighbour", uid="u2", password=NEW)
        await rotate(admin.sessions, changed, admin.verifiers, other.publish, brief=True)
        assert await can_login(admin.server, "neighbour", NEW)
    assert await can_login(admin.server, "tenant", PASSWORD)
    assert reason((await admin.sync(role("tenant")))["tenant"]) == ""


@pytest.mark.differs("administrator")
@pytest.mark.parametrize("refusal", ["refused", "silent"])
async def test_a_secret_that_is_not_written_leaves_the_old_password(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    monkeypatch.setattr(bounds, "PUBLISH_SECONDS", 0.05)
    await admin.one(role())

    async def publish() -> None:
        if refusal == "refused":
            raise PermissionError
        await asyncio.Event().wait()

    with pytest.raises((PermissionError, AccessError)) as failed:
        await rotate(admin.sessions, role(password=NEW), admin.verifiers, publish)
    if refusal == "silent":
        assert "within 0.05 s" in str(failed.value)
    assert await can_login(admin.server, "app", PASSWORD)
    await admin.settled(role())


@pytest.mark.differs("administrator")
async def test_a_role_of_another_claim_is_left_and_so_is_the_secret(admin: Admin) -> None:
    await admin.one(role(uid="theirs", claim=role("other", uid="theirs").claim))
    secret = Secret()
    with pytest.raises(AccessError) as refused:
        await rotate(admin.sessions, role(password=NEW), admin.verifiers, secret.publish)
    assert refused.value.reason == "UsernameConflict"
    assert secret.password == PASSWORD
    assert await can_login(admin.server, "app", PASSWORD)


async def test_a_role_that_has_gone_is_made_with_the_password_of_the_secret(admin: Admin) -> None:
    secret = Secret()
    await rotate(admin.sessions, role(password=NEW), admin.verifiers, secret.publish)
    assert secret.password == NEW
    await admin.one(role(password=NEW, attributes=Attributes(connection_limit=3)))
    assert await can_login(admin.server, "app", NEW)


@pytest.mark.differs("administrator")
@pytest.mark.parametrize("answerless", [False, True])
async def test_killed_at_each_statement_the_next_pass_brings_what_the_secret_has(
    admin: Admin, *, answerless: bool
) -> None:
    who = () if admin.superuser else (OPERATOR, OPERATOR)
    states = set()
    for number in range(1, 40):
        await admin.one(role())
        secret = Secret()
        async with Stalling(admin.server, number, answerless=answerless) as proxy:
            sessions = Sessions(replace(endpoint_of(admin.server, *who), port=proxy.port))
            work = asyncio.create_task(
                rotate(sessions, role(password=NEW), Verifiers(), secret.publish, brief=True)
            )
            reached = asyncio.create_task(proxy.reached.wait())
            await asyncio.wait({work, reached}, return_when="FIRST_COMPLETED", timeout=SECONDS)
            died = not work.done()
            # Nothing that a dying process still says arrives.
            await proxy.cut()
            for task in (work, reached):
                task.cancel()
                with suppress(asyncio.CancelledError, AccessError, psycopg.Error):
                    await task
            await sessions.close()
        states.add(secret.password)
        if secret.password == PASSWORD:
            assert await can_login(admin.server, "app", PASSWORD)
        assert reason((await admin.sync(role(password=secret.password)))["app"]) == ""
        assert await can_login(admin.server, "app", secret.password)
        if not died:
            break
    assert states == {PASSWORD, NEW}
    assert 10 < number < 39
