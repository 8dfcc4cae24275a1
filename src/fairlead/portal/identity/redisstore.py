"""Sessions, used states and one-time codes in Redis, for ``--redis-addr`` alone.

This module needs the extra ``redis``: import it when it is wanted.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

import structlog
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError

from fairlead.portal.identity.sessions import Gone, Held, unavailable
from fairlead.portal.options import RedisOptions
from fairlead.runtime import delays


CALL_SECONDS = 5.0
"""Seconds after which a call is given up."""
LOOK_SECONDS = 1.0
"""Seconds without a word after which Redis is asked for one."""
SILENT_LOOKS = 5
"""Looks without a word after which Redis is held to be away."""
PREFIX = "fairlead:portal:"
"""The beginning of all keys, and of the channel's name."""

_CHANNEL = f"{PREFIX}gone"
_ALL = f"{PREFIX}sessions"
_EVERYTHING = b"*"
_log = structlog.get_logger(logger_name="fairlead.portal.redisstore")


P = ParamSpec("P")
T = TypeVar("T")


def _asked(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Answer with 503 when Redis cannot be asked: it is not the sender's fault."""

    @functools.wraps(method)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await method(*args, **kwargs)
        except (RedisError, OSError, TimeoutError) as error:
            raise unavailable(f"Redis: {_reason(error)}") from error

    return asked


class RedisStore:
    """A SessionStore in one Redis; replicas hear by a channel of it what is gone.

    Run it as a task. Keys end by Redis' own clock.
    """

    name = "sessions"

    def __init__(self, client: redis.Redis) -> None:
        # The package leaves it open what its answers are.
        self._redis: Any = client
        self._listeners: list[Gone] = []
        self._fault = "it does not listen to Redis yet"

    @classmethod
    def at(cls, options: RedisOptions) -> RedisStore:
        """The store of the flags."""
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
                socket_connect_timeout=CALL_SECONDS,
                # For connections that Redis has closed meanwhile. What is sent twice is refused
                # at worst.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 2),
                **more,
            )
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._redis.aclose()

    def listen(self, gone: Gone) -> None:
        """Tell of every session that is deleted, and of all where some may have been missed."""
        self._listeners.append(gone)

    def not_ready(self) -> str:
        """Say why Redis cannot be used; "" when it can."""
        return self._fault

    async def run(self) -> None:
        """Listen to other replicas until cancelled."""
        failures = 0
        while True:
            try:
                await self._listen()
            except (RedisError, OSError, TimeoutError) as error:
                if not self._fault:
                    failures = 0
                reason = _reason(error)
                self._fault = f"Redis is away: {reason}"
                _log.warning("Redis is away", error=reason)
            await asyncio.sleep(delays.REDIS_AWAY.delay(failures))
            failures += 1

    @_asked
    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Set it with NX, and note whose it is."""
        at = int(expires * 1000)
        if at <= time.time() * 1000:
            return False
        pipe = self._redis.pipeline(transaction=True)
        if owner and kind in {"session", "code"}:
            # One index more than there are keys is harmless, one less is not.
            for index in (_ALL, _of(owner)):
                pipe.zremrangebyscore(index, "-inf", time.time())
                pipe.zadd(index, {f"{kind}:{name}": expires})
                pipe.pexpireat(index, at, nx=True)
                pipe.pexpireat(index, at, gt=True)
        pipe.set(_key(kind, name), value, nx=True, pxat=at)
        return bool((await pipe.execute())[-1])

    @_asked
    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Read it."""
        return _bytes(await self._redis.get(_key(kind, name)))

    @_asked
    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Read and delete it in one step."""
        return _bytes(await self._redis.getdel(_key(kind, name)))

    @_asked
    async def remove(self, name: str, *, kind: str) -> None:
        """Delete it, and tell the others."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.delete(_key(kind, name))
        pipe.zrem(_ALL, f"{kind}:{name}")
        pipe.publish(_CHANNEL, name)
        await pipe.execute()

    @_asked
    async def remove_of(self, owner: str | None) -> int:
        """Delete sessions and codes by their index, and tell the others to forget all."""
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

    async def held(self, owner: str) -> Sequence[Held]:
        """The sessions of the owner's index that are there: one that was ended stays in it."""
        return await self._held(owner)

    async def number_of(self, owner: str | None) -> int:
        """How many sessions :meth:`remove_of` would delete."""
        return len(await self._held(owner))

    @_asked
    async def _held(self, owner: str | None) -> Sequence[Held]:
        found = await self._redis.zrange(_index(owner), 0, -1, withscores=True)
        named = [(member.decode(errors="replace"), float(score)) for member, score in found]
        sessions = [(m.partition(":")[2], s) for m, s in named if m.startswith("session:")]
        if not sessions:
            return []
        pipe = self._redis.pipeline(transaction=False)
        for name, _ in sessions:
            pipe.exists(_key("session", name))
        there = await pipe.execute()
        return [Held(*one) for one, exists in zip(sessions, there, strict=True) if exists]

    @_asked
    async def count(self) -> int:
        """The size of the index of all."""
        await self._redis.zremrangebyscore(_ALL, "-inf", time.time())
        return int(await self._redis.zcard(_ALL))

    async def _listen(self) -> None:
        async with self._redis.pubsub() as channel:
            await channel.subscribe(_CHANNEL)
            silent = 0
            while silent < SILENT_LOOKS:
                message = await channel.get_message(timeout=LOOK_SECONDS)
                silent = 0 if message is not None else silent + 1
                if message is None:
                    # A connection that is broken is noticed by what is sent on it.
                    await channel.ping()
                    continue
                if message["type"] == "subscribe":
                    # What was told before this may have been missed.
                    self._fault = ""
                    self._tell(None)
                elif message["type"] == "message":
                    data = bytes(message["data"])
                    self._tell(None if data == _EVERYTHING else data.decode(errors="replace"))
        raise TimeoutError("it gives no sign of life")

    def _tell(self, name: str | None) -> None:
        for gone in self._listeners:
            gone(name)


def _reason(error: Exception) -> str:
    if isinstance(error, AuthenticationError):
        return f"it does not let us in: check $REDIS_PASSWORD and --redis-username ({error})"
    return str(error) or type(error).__name__


def _key(kind: str, name: str) -> str:
    return f"{PREFIX}{kind}:{name}"


def _index(owner: str | None) -> str:
    return _ALL if owner is None else _of(owner)


def _of(owner: str) -> str:
    return f"{PREFIX}of:{hashlib.sha256(owner.encode()).hexdigest()}"


def _bytes(answer: object) -> bytes | None:
    return answer if isinstance(answer, bytes) else None
