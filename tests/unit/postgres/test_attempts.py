"""Attempts at a login: one of many while it may be refused, and ever later."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fairlead.postgres import bounds
from fairlead.postgres.database.connections import attempts
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import LoginRefusedError
from fairlead.postgres.errors import AccessError


ENDPOINT = Endpoint(
    host="db",
    port=5432,
    username="admin",
    password="wrong",
    ssl_mode="disable",
    source="Secret team/admin",
)


class Server:
    """A server that accepts one password, and counts the logins that it sees."""

    def __init__(self, password: str = "right") -> None:
        self.attempts = Attempts()
        self.password = password
        self.logins = 0
        self.open = asyncio.Event()
        self.open.set()

    async def log_in(self, endpoint: Endpoint, failure: str = "") -> str:
        """Return the reason of a failed login, "" for none."""
        try:
            async with self.attempts.attempt(endpoint):
                self.logins += 1
                await self.open.wait()
                await asyncio.sleep(0)
                if endpoint.password != self.password:
                    raise LoginRefusedError("AuthenticationFailed", "refused")
                if failure:
                    raise AccessError(failure, "after the password was accepted")
        except AccessError as error:
            return f"{error.reason}: {error.message}"
        return ""


async def test_one_of_many_tries_and_the_others_get_its_result() -> None:
    server = Server()
    results = await asyncio.gather(*(server.log_in(ENDPOINT) for _ in range(20)))
    assert server.logins == 1
    assert all(one.startswith("AuthenticationFailed") for one in results)
    assert server.attempts.is_refused(ENDPOINT)
    told = await server.log_in(replace(ENDPOINT, source="Secret other/copy"))
    # Each message names the Secret of the one who reads it.
    assert "correct the credentials in Secret other/copy" in told
    assert server.logins == 1


async def test_other_credentials_are_tried_at_once_and_then_by_all_at_once() -> None:
    server = Server()
    await server.log_in(ENDPOINT)
    right = replace(ENDPOINT, password="right")
    assert await server.log_in(right) == ""
    server.open.clear()
    logins = [asyncio.create_task(server.log_in(right)) for _ in range(3)]
    while server.logins < 5:  # noqa: ASYNC110
        await asyncio.sleep(0)
    server.open.set()
    assert await asyncio.gather(*logins) == ["", "", ""]


async def test_a_database_that_is_missing_is_no_refusal() -> None:
    server = Server("wrong")
    for _ in range(2):
        assert "DatabaseNotFound" in await server.log_in(ENDPOINT, "DatabaseNotFound")
    assert not server.attempts.is_refused(ENDPOINT)


async def test_attempts_come_ever_later_until_one_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, now = Server(), 0.0
    monkeypatch.setattr(attempts, "time_of", lambda: now)
    times = []
    while now < 600:
        before = server.logins
        await server.log_in(ENDPOINT)
        times += [now] if server.logins > before else []
        now += 1
    assert times == [0, 2, 6, 14, 30, 62, 126, 246, 366, 486]
    server.password = "wrong"
    now = 606.0
    assert await server.log_in(ENDPOINT) == ""
    assert not server.attempts.is_refused(ENDPOINT)


async def test_a_login_that_hangs_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "ATTEMPT_SECONDS", 0.01)
    server = Server("wrong")
    server.open.clear()
    logins = [asyncio.create_task(server.log_in(ENDPOINT)) for _ in range(2)]
    while server.logins < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    server.open.set()
    assert await asyncio.gather(*logins) == ["", ""]
