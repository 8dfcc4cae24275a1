"""How a login goes: where to, and by which of the ways that servers ask for.

libpq gets a password only for md5. For SCRAM-SHA-256 it gets the keys that were worked out of it
here, so that no server has it work out rounds, with which it would hold up the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_attempts_async

from fairlead.postgres.database.connections import keys
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import (
    InconstantError,
    TooManyRoundsError,
    asks_for_other,
    may_be_refused,
)
from fairlead.postgres.database.connections.keys import Keys
from fairlead.postgres.database.connections.rounds import Challenge, Place, ask
from fairlead.postgres.database.plans.password import MAX_ITERATIONS


C = TypeVar("C")
Connect = Callable[[Place, Mapping[str, Any]], Awaitable[C]]
"""Connects at one address, with what libpq is told about the login."""


async def log_in(endpoint: Endpoint, database: str, seconds: float, connect: Connect[C]) -> C:
    """Log in at the first address of the host that lets us.

    Args:
        endpoint: with all hosts, and who logs in.
        database: where to.
        seconds: that an address may take to say how it checks passwords.
        connect: connects at one of them.

    Raises:
        psycopg.Error: there is none; its text has those of all addresses.
    """
    failures: list[psycopg.Error] = []
    for place in await _places(endpoint):
        try:
            return await _log_in_at(place, endpoint, database, seconds, connect)
        # Other addresses have the same verifier.
        except TooManyRoundsError:
            raise
        except psycopg.Error as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise psycopg.OperationalError("\n".join(map(str, failures)))


async def _places(endpoint: Endpoint) -> list[Place]:
    found = await conninfo_attempts_async({"host": endpoint.host, "port": str(endpoint.port)})
    return [
        Place(str(one.get("host") or ""), str(one.get("hostaddr") or ""), endpoint.port)
        for one in found
    ]


def at(place: Place) -> dict[str, Any]:
    """What libpq is told about an address."""
    where = {"host": place.host, "port": place.port}
    return where | ({"hostaddr": place.address} if place.address else {})


async def _log_in_at(
    place: Place, endpoint: Endpoint, database: str, seconds: float, connect: Connect[C]
) -> C:
    if not endpoint.password:
        return await connect(place, {"require_auth": "none"})
    refusal: psycopg.Error | None = None
    known = keys.known(endpoint, place)
    if known is not None:
        try:
            return await connect(place, _with(known))
        except psycopg.Error as error:
            if not may_be_refused(error):
                raise
            refusal = error
    challenge = await _challenge(place, endpoint, database, seconds)
    if challenge is None:
        return await _without_scram(place, endpoint, connect)
    if refusal is not None and known is not None and known.challenge == challenge:
        keys.forget(endpoint, place)
        raise refusal
    made = await keys.derive(endpoint.password, challenge)
    try:
        connection = await connect(place, _with(made))
    except psycopg.Error as error:
        if asks_for_other(error):
            raise InconstantError from None
        raise
    keys.remember(endpoint, place, made)
    return connection


def _with(made: Keys) -> dict[str, str]:
    return {
        "require_auth": "scram-sha-256",
        "scram_client_key": made.client,
        "scram_server_key": made.server,
    }


async def _without_scram(place: Place, endpoint: Endpoint, connect: Connect[C]) -> C:
    """Log in where the server asks for something else, or find out why it could not be asked."""
    # A server that asks for the password in clear is an impostor, or badly set up. A certificate
    # has proved who we are before anybody asks, and a password may be there as well: a verified
    # server need not ask for it.
    certified = endpoint.certificate and endpoint.ssl_mode.startswith("verify-")
    methods = "md5,none" if certified else "md5"
    try:
        return await connect(place, {"require_auth": methods, "password": endpoint.password})
    except psycopg.Error as error:
        if asks_for_other(error) and "SASL" in str(error):
            raise InconstantError from None
        raise


async def _challenge(
    place: Place, endpoint: Endpoint, database: str, seconds: float
) -> Challenge | None:
    """What the password is to be worked out with; None where the server wants something else.

    Raises:
        TooManyRoundsError: it wants more of us than it gets.
    """
    try:
        challenge = await ask(endpoint, database, place, seconds)
    except TimeoutError:
        # libpq would wait as long once more.
        raise psycopg.errors.ConnectionTimeout("connection timeout expired") from None
    if challenge is not None and challenge.rounds > MAX_ITERATIONS:
        keys.forget(endpoint, place)
        raise TooManyRoundsError(challenge.rounds)
    return challenge
