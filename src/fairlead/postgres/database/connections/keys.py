"""What SCRAM-SHA-256 makes of passwords, worked out here and kept in this process's memory.

libpq takes these keys in place of a password and then works no rounds out, whatever a server asks.

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

from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.rounds import Challenge, Place
from fairlead.postgres.database.plans import password


_LIBPQ = 180000
"""The version of libpq that takes keys in place of a password."""
if psycopg.pq.version() < _LIBPQ:
    raise ImportError(
        f"fairlead needs libpq 18 and psycopg came with version {psycopg.pq.version()} of it;"
        " install psycopg[binary] 3.3 or newer"
    )

_MOST = 10_000
"""Logins whose keys are kept. What is forgotten costs a connection and a derivation again."""
_SECRET = secrets.token_bytes(32)
"""Of digests, which are in this process's memory alone."""
_DIGEST_BYTES = 16


class Keys(NamedTuple):
    """The keys of one password for one challenge, in base64."""

    challenge: Challenge
    client: str
    server: str


_Who = tuple[str, int, str, bytes]
_known: OrderedDict[_Who, Keys] = OrderedDict()
"""Keys that a server has taken, those that were used last at the end."""


async def derive(text: str, challenge: Challenge) -> Keys:
    """Work the keys out in a thread, beside the event loop."""
    client, server = await asyncio.to_thread(
        password.scram_keys, text, challenge.salt, challenge.rounds
    )
    return Keys(challenge, base64.b64encode(client).decode(), base64.b64encode(server).decode())


def known(endpoint: Endpoint, place: Place) -> Keys | None:
    """The keys that logged in last."""
    who = _who(endpoint, place)
    if who in _known:
        _known.move_to_end(who)
    return _known.get(who)


def remember(endpoint: Endpoint, place: Place, keys: Keys) -> None:
    """Keep keys that have logged in."""
    _known[_who(endpoint, place)] = keys
    while len(_known) > _MOST:
        _known.popitem(last=False)


def forget(endpoint: Endpoint, place: Place) -> None:
    """Keep no keys that were refused."""
    _known.pop(_who(endpoint, place), None)


def _who(endpoint: Endpoint, place: Place) -> _Who:
    # A role has one verifier, whichever way and database it is reached by, and so has a standby.
    digest = hashlib.blake2b(endpoint.password.encode(), key=_SECRET, digest_size=_DIGEST_BYTES)
    return place.host, place.port, endpoint.username, digest.digest()
