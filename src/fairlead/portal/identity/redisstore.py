"""Sessions, used states and one-time codes in Redis, for ``--redis-addr`` alone.

This module needs the extra ``redis``: import it only where Redis is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import structlog
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError

from fairlead.client.authorities import (
    explain_refusal,
    is_of_another_issuer,
    issuer_at,
    refused_certificate,
)
from fairlead.portal import bounds
from fairlead.portal.identity.sessions import HeldSession, SessionStore, unavailable
from fairlead.portal.options import RedisOptions
from fairlead.runtime import delays


PREFIX = "fairlead:portal:"
"""Prefix of all keys and of the channel's name."""

_CHANNEL = f"{PREFIX}gone"
"""Channel of the names of removed sessions."""
_ALL = f"{PREFIX}sessions"
"""Sorted set of all sessions and codes, by their expiry in seconds since 1970."""
_EVERYTHING = b"*"
"""Message after which all cached sessions have to be read again."""
_log = structlog.get_logger(logger_name="fairlead.portal.redisstore")


P = ParamSpec("P")
T = TypeVar("T")


def _asked(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a method to raise a Refusal with status 503 if Redis fails, so clients retry."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            async with asyncio.timeout(bounds.REDIS_SECONDS):
                return await method(*args, **kwargs)
        except (RedisError, OSError, TimeoutError) as error:
            store = cast("RedisStore", args[0])
            raise unavailable(f"Redis: {store.reason(error)}") from error

    return call


class RedisStore(SessionStore):
    """A SessionStore in one Redis; replicas learn of removed sessions by its channel.

    Run it as a task. Keys expire by Redis's own clock.
    """

    name = "sessions"

    def __init__(self, client: redis.Redis, options: RedisOptions) -> None:
        super().__init__()
        # Any: the package's types do not say which answers are awaitable.
        self._redis: Any = client
        self._options = options
        self._issuer = ""
        """Issuer of the certificate that Redis showed at the last failure, "" if it is unknown."""
        self._fault = "it does not listen to Redis yet"

    @classmethod
    def at(cls, options: RedisOptions) -> RedisStore:
        """Return the store that the flags describe."""
        more: dict[str, Any] = {}
        if options.tls:
            more = {"ssl": True, "ssl_check_hostname": True}
            if options.ca_file is not None:
                more["ssl_ca_certs"] = str(options.ca_file)
        return cls(
            redis.Redis(
                host=options.host,
                port=options.port,
                db=options.database,
                username=options.username or None,
                password=options.password or None,
                socket_connect_timeout=bounds.REDIS_SECONDS,
                # Redis closes idle connections. A command that a retry sends twice is at worst
                # refused, since values are set with NX.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 2),
                **more,
            ),
            options,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._redis.aclose()

    def not_ready(self) -> str:
        """Return why Redis cannot be used; "" if it can."""
        return self._fault

    async def run(self) -> None:
        """Listen to other replicas until canceled, and close every connection then."""
        failures = 0
        try:
            while True:
                try:
                    await self._listen()
                except (RedisError, OSError, TimeoutError) as error:
                    if not self._fault:
                        failures = 0
                    await self._read_issuer(error)
                    reason = self.reason(error)
                    self._fault = f"Redis is away: {reason}"
                    _log.warning("Redis is away", error=reason)
                await asyncio.sleep(delays.REDIS_AWAY.delay(failures))
                failures += 1
        finally:
            await self.close()

    def reason(self, error: Exception) -> str:
        """Return what is wrong with Redis, and the remedy where one is known."""
        if isinstance(error, AuthenticationError):
            return f"it refuses the login: check $REDIS_PASSWORD and --redis-username ({error})"
        refusal = refused_certificate(error)
        if refusal is None:
            return str(error) or type(error).__name__
        trusted = b""
        if self._options.ca_file is not None:
            # The file may have been replaced since the start, and is read at each connection.
            with contextlib.suppress(OSError):
                trusted = self._options.ca_file.read_bytes()
        return explain_refusal(
            refusal,
            trusted,
            self._issuer,
            authority="--redis-ca-file",
            name="--redis-addr",
        )

    async def _read_issuer(self, error: Exception) -> None:
        """Read who issued the certificate of Redis; only here, since requests may be many."""
        refusal = refused_certificate(error)
        self._issuer = ""
        if refusal is not None and is_of_another_issuer(refusal):
            self._issuer = await issuer_at(self._options.host, self._options.port)

    @_asked
    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Set the key with NX, and add it to its owner's index."""
        at = int(expires * 1000)
        # Redis would delete the key at once, and the caller would believe it stored.
        if at <= time.time() * 1000:
            return False
        pipe = self._redis.pipeline(transaction=True)
        if owner and kind in {"session", "code"}:
            # The index first: an entry without a key is harmless, but a key without its entry
            # could not be signed out.
            for index in (_ALL, _index(owner)):
                pipe.zremrangebyscore(index, "-inf", time.time())
                pipe.zadd(index, {f"{kind}:{name}": expires})
                # The index lives as long as its longest entry: the first call sets an expiry, the
                # second one only extends it.
                pipe.pexpireat(index, at, nx=True)
                pipe.pexpireat(index, at, gt=True)
        pipe.set(_key(kind, name), value, nx=True, pxat=at)
        return bool((await pipe.execute())[-1])

    @_asked
    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Return the key's value, None without the key."""
        value: bytes | None = await self._redis.get(_key(kind, name))
        return value

    @_asked
    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Read and delete the key in one command, so that only one replica gets it."""
        value: bytes | None = await self._redis.getdel(_key(kind, name))
        return value

    @_asked
    async def remove(self, name: str, *, kind: str) -> None:
        """Delete the key, and publish its name to the other replicas."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.delete(_key(kind, name))
        pipe.zrem(_ALL, f"{kind}:{name}")
        # In the same transaction, so that no replica hears of a session that is still there.
        pipe.publish(_CHANNEL, name)
        await pipe.execute()

    @_asked
    async def remove_of(self, owner: str | None) -> int:
        """Delete the sessions of an owner or of all, and their codes; return the sessions' number.

        Replicas drop their caches.
        """
        index = _index(owner)
        members = [one.decode(errors="replace") for one in await self._redis.zrange(index, 0, -1)]
        pipe = self._redis.pipeline(transaction=True)
        for member in members:
            pipe.delete(f"{PREFIX}{member}")
            pipe.zrem(index, member)
            pipe.zrem(_ALL, member)
        pipe.publish(_CHANNEL, _EVERYTHING)
        answers = await pipe.execute()
        deleted = answers[: 3 * len(members) : 3]
        return sum(
            int(count)
            for member, count in zip(members, deleted, strict=True)
            if member.startswith("session:")
        )

    @_asked
    async def held(self, owner: str | None) -> Sequence[HeldSession]:
        """Return the sessions of an owner or of all; ended ones of the index are left out."""
        entries = await self._redis.zrange(_index(owner), 0, -1, withscores=True)
        named = [(member.decode(errors="replace"), float(score)) for member, score in entries]
        sessions = [(m.partition(":")[2], s) for m, s in named if m.startswith("session:")]
        if not sessions:
            return []
        pipe = self._redis.pipeline(transaction=False)
        for name, _ in sessions:
            pipe.exists(_key("session", name))
        there = await pipe.execute()
        return [HeldSession(*one) for one, exists in zip(sessions, there, strict=True) if exists]

    @_asked
    async def count(self) -> int:
        """Return the size of the index of all sessions and codes."""
        await self._redis.zremrangebyscore(_ALL, "-inf", time.time())
        return int(await self._redis.zcard(_ALL))

    async def _listen(self) -> None:
        """Tell the listeners of removed sessions, until Redis stops answering."""
        async with self._redis.pubsub() as channel:
            await channel.subscribe(_CHANNEL)
            silent = 0
            while silent < bounds.REDIS_PINGS:
                message = await channel.get_message(timeout=bounds.REDIS_SILENT_SECONDS)
                silent = 0 if message is not None else silent + 1
                if message is None:
                    # Only a write shows that a connection is broken.
                    await channel.ping()
                    continue
                if message["type"] == "subscribe":
                    # Messages before the subscription are lost: drop everything cached.
                    self._fault = ""
                    self.tell(None)
                elif message["type"] == "message":
                    data = bytes(message["data"])
                    self.tell(None if data == _EVERYTHING else data.decode(errors="replace"))
        raise TimeoutError("it does not answer pings")


async def sign_out(options: RedisOptions, owner: str | None, *, dry_run: bool = False) -> int:
    """End the sessions of a person's author name, or of all; return their number.

    Raises:
        Refusal: Redis refused or is unavailable.
    """
    store = RedisStore.at(options)
    try:
        return len(await store.held(owner)) if dry_run else await store.remove_of(owner)
    finally:
        await store.close()


def _key(kind: str, name: str) -> str:
    return f"{PREFIX}{kind}:{name}"


def _index(owner: str | None) -> str:
    if owner is None:
        return _ALL
    return f"{PREFIX}of:{hashlib.sha256(owner.encode()).hexdigest()}"
