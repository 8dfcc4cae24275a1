"""Keys that SCRAM-SHA-256 derives from passwords, kept in the memory of this process.

libpq takes these keys in place of a password, and then computes no rounds for any server.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-SCRAM-CLIENT-KEY
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections import OrderedDict
from typing import NamedTuple

import psycopg

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.rounds import Challenge, HostAddress
from fairlead.postgres.database.plans import password


_LIBPQ = 180000
"""Lowest version of libpq that takes keys in place of a password, as PQlibVersion() has it."""
if psycopg.pq.version() < _LIBPQ:
    raise ImportError(
        f"fairlead needs libpq 18 and psycopg came with version {psycopg.pq.version()} of it;"
        " install psycopg[binary] 3.3 or newer"
    )

_SECRET = secrets.token_bytes(32)
"""Key of the passwords' digests, made anew at each start; both are in memory only."""
_DIGEST_BYTES = 16


class ScramKeys(NamedTuple):
    """The keys of one password for one challenge, in base64."""

    challenge: Challenge
    client: str
    server: str


_Who = tuple[str, int, str, bytes]
_proven: OrderedDict[_Who, ScramKeys] = OrderedDict()
"""Keys that have logged in, by login; the most recently used are at the end."""


async def derive(text: str, challenge: Challenge) -> ScramKeys:
    """Return the keys of a password, derived in a thread beside the event loop."""
    client, server = await asyncio.to_thread(
        password.scram_keys, text, challenge.salt, challenge.rounds
    )
    return ScramKeys(
        challenge, base64.b64encode(client).decode(), base64.b64encode(server).decode()
    )


def proven_keys(endpoint: Endpoint, place: HostAddress) -> ScramKeys | None:
    """Return the keys that logged in last, None without any."""
    who = _who(endpoint, place)
    if who in _proven:
        _proven.move_to_end(who)
    return _proven.get(who)


def remember(endpoint: Endpoint, place: HostAddress, keys: ScramKeys) -> None:
    """Keep keys that have logged in; the longest unused ones go."""
    _proven[_who(endpoint, place)] = keys
    while len(_proven) > bounds.LOGINS:
        _proven.popitem(last=False)


def forget(endpoint: Endpoint, place: HostAddress) -> None:
    """Forget the keys of a login, which the server refused."""
    _proven.pop(_who(endpoint, place), None)


def _who(endpoint: Endpoint, place: HostAddress) -> _Who:
    # A role has one verifier for all addresses and databases, and a standby has the same.
    digest = hashlib.blake2b(endpoint.password.encode(), key=_SECRET, digest_size=_DIGEST_BYTES)
    return place.host, place.port, endpoint.username, digest.digest()
