"""Replicas with their sessions in Redis, which comes late, goes, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.portal.conftest import Ada, Provider
from tests.support.pki import Authority
from tests.support.redisserver import RedisServer, redis_program
from tests.support.replicas import Replica, replica
from tests.support.waiting import eventually


pytestmark = pytest.mark.extended
PASSWORD = "not for any eyes"
BRIEFLY = """
from fairlead.portal.identity.sessions import BrowserSessions
BrowserSessions.__init__.__kwdefaults__["believed"] = 0.1
"""
"""What has a replica ask about sessions soon, and not after ten seconds."""


async def test_redis_comes_late_goes_and_comes_back(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    redis_program()
    redis = RedisServer(tmp_path, password=PASSWORD, authority=Authority.create())
    flags = (*provider.flags(), "--redis-addr", redis.address)
    flags += ("--redis-ca-file", str(redis.options.ca_file))
    environ = {"REDIS_PASSWORD": PASSWORD}
    async with (
        replica(provider.config, tmp_path, "one", *flags, hangs=BRIEFLY, **environ) as one,
        replica(provider.config, tmp_path, "other", *flags, hangs=BRIEFLY, **environ) as other,
    ):
        try:
            # Without it they serve, and say of a sign-in that it has to wait.
            callback = await ada.to_callback(one)
            answered = await ada.browser.get(one.at(callback))
            assert answered.status == 503
            assert answered.headers["Retry-After"]
            await redis.start()
            await eventually(_signed_in, ada, one)
            assert await ada.known(other)
            await ada.bound(other)
            # Gone: who is signed in is not told that they are not.
            await redis.stop()
            await eventually(_told_to_wait, ada, one)
            await eventually(_told_to_wait, ada, other)
            status, answer = await ada.bind(one)
            assert (status, answer["code"]) == (503, "CLUSTER_CONNECTION_FAILED")
            # Back, and empty: they have to sign in again, and can.
            await redis.start()
            await eventually(_unknown, ada, one)
            await eventually(_unknown, ada, other)
            await eventually(_signed_in, ada, other)
            await ada.bound(one)
            assert len(await provider.consumers()) == 1
            assert await provider.stored("session") == []
        finally:
            await redis.stop()
        for each in (one, other):
            assert PASSWORD not in each.log()
            assert "Traceback" not in each.log()


async def _status(ada: Ada, at: Replica) -> int:
    headers = {"Authorization": f"Bearer {ada.token}"}
    return (await ada.browser.get(f"{at.url}/api/ping", headers=headers)).status


async def _signed_in(ada: Ada, at: Replica) -> bool:
    answered = await ada.browser.get(at.at(await ada.to_callback(at)))
    if answered.status == 503:
        return False
    await ada.sign_in(at)
    return True


async def _told_to_wait(ada: Ada, at: Replica) -> bool:
    return await _status(ada, at) == 503


async def _unknown(ada: Ada, at: Replica) -> bool:
    return await _status(ada, at) == 401
