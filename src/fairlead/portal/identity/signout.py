"""Ending of sessions by a command of an administrator, without a request to the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fairlead.api.resource import SECRETS
from fairlead.client import Client, NotFound
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.secretstore import LABEL_KIND, labels_of
from fairlead.portal.options import RedisOptions


_AT_ONCE = 20
"""Largest number of concurrent deletions of Secrets."""


class SignOutError(Exception):
    """Sessions could not be ended; the text says why."""


async def sign_out_in_secrets(
    client: Client, namespace: str, owner: str | None, *, dry_run: bool = False
) -> int:
    """End the sessions of a person's author name, or of all; return their number.

    Their one-time codes are deleted too. Replicas learn of it by their watch.

    Raises:
        ClientError: the API server refused or is unavailable; some sessions may have ended.
    """
    found = await client.list(SECRETS, namespace, labels=labels_of(owner), metadata_only=True)
    if not dry_run:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def end(name: str) -> None:
            async with slots:
                with suppress(NotFound):
                    await client.delete(SECRETS, name, namespace)

        await asyncio.gather(*(end(one.meta.name) for one in found.items))
    return sum(one.meta.labels.get(LABEL_KIND) == "session" for one in found.items)


async def sign_out_in_redis(
    options: RedisOptions, owner: str | None, *, dry_run: bool = False
) -> int:
    """End sessions that are stored in Redis; return their number.

    Raises:
        SignOutError: Redis refused or is unavailable.
    """
    # Imported here, since the Redis client is an extra.
    from fairlead.portal.identity.redisstore import RedisStore

    store = RedisStore.at(options)
    try:
        if dry_run:
            return await store.number_of(owner)
        return await store.remove_of(owner)
    except Refusal as refusal:
        raise SignOutError(
            f"--redis-addr {options.host}:{options.port}: {refusal.reason}"
        ) from None
    finally:
        await store.close()
