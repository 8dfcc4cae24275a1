"""Keys that replicas share in a Secret."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.integration.portal.identity.conftest import NAMESPACE, ended, until

from fairlead.api.resource import SECRETS
from fairlead.client import Client
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.keys import KEYS_SECRET, Sealing, SecretKeys
from fairlead.runtime import Cluster


class Value(msgspec.Struct):
    text: str


@contextlib.asynccontextmanager
async def replica(client: Client, namespace: str = NAMESPACE) -> AsyncIterator[SecretKeys]:
    cluster = Cluster("portal", client)
    keys = SecretKeys(cluster, namespace)
    tasks = [asyncio.create_task(one) for one in (cluster.run(), keys.run())]
    try:
        yield keys
    finally:
        await ended(tasks)


async def test_replicas_that_start_together_have_one_key(client: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(replica(client)) for _ in range(4)]
        with pytest.raises(Refusal) as refused:
            Sealing(replicas[0].fernet).seal("test", Value("x"))
        assert refused.value.status == 503
        await until(lambda: not any(keys.not_ready() for keys in replicas))
        sealed = Sealing(replicas[0].fernet).seal("test", Value("x"))
        opened = [
            Sealing(keys.fernet).open("test", sealed, Value, seconds=60) for keys in replicas
        ]
        assert opened == [Value("x")] * 4


async def test_a_new_key_loses_no_sign_in_that_has_begun(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(client) as one, replica(client) as other:
        await until(lambda: not one.not_ready() and not other.not_ready())
        before = Sealing(one.fernet).seal("test", Value("before"))
        begun = time.time()
        monkeypatch.setattr(time, "time", lambda: begun + 31 * 86400)
        assert await one.renew()
        assert not await one.renew()
        # A replica that has not heard of it yet opens what is sealed by one that has.
        lagging = SecretKeys(Cluster("portal", client), NAMESPACE)
        lagging._keys = one._keys[1:]
        sealed = Sealing(one.fernet).seal("test", Value("meanwhile"))
        assert Sealing(lagging.fernet).open("test", sealed, Value, seconds=60) == Value(
            "meanwhile"
        )
        await until(lambda: other._keys == one._keys)
        found = Sealing(other.fernet).open("test", before, Value, seconds=40 * 86400)
        assert found == Value("before")
        monkeypatch.setattr(time, "time", lambda: begun + 31 * 86400 + 601)
        sealed = Sealing(one.fernet).seal("test", Value("after"))
        assert Sealing(lagging.fernet).open("test", sealed, Value, seconds=60) is None
        assert Sealing(other.fernet).open("test", sealed, Value, seconds=60) == Value("after")


async def test_keys_are_bounded_and_what_cannot_be_read_is_replaced(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.time()
    async with replica(client) as keys:
        await until(lambda: not keys.not_ready())
        for months in range(1, 6):
            monkeypatch.setattr(time, "time", lambda m=months: begun + m * 31 * 86400)
            await keys.renew()
        assert len(keys._keys) == bounds.KEYS
        known = keys._keys
        patch = {"data": {"keys": "bm9uc2Vuc2U="}}
        await client.merge_patch(SECRETS, KEYS_SECRET, NAMESPACE, patch)
        await keys.renew()
        assert keys._keys == known
    monkeypatch.undo()
    async with replica(client) as fresh:
        await until(lambda: not fresh.not_ready())


async def test_a_namespace_that_is_missing_is_told_with_the_remedy(client: Client) -> None:
    async with replica(client, "elsewhere") as keys:
        await until(lambda: "elsewhere" in keys.not_ready())
        await until(lambda: "`fairlead manifests serve`" in keys.not_ready())
