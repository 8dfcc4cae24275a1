"""Logins: the addresses of a host in turn, with the authentication method of the server.

libpq gets a password only for md5. For SCRAM-SHA-256 it gets keys that were derived here, because
libpq would compute the rounds of the server on the event loop.
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
from fairlead.postgres.database.connections.keys import ScramKeys
from fairlead.postgres.database.connections.rounds import Challenge, HostAddress, ask
from fairlead.postgres.database.plans.password import MAX_ITERATIONS


C = TypeVar("C")
Connect = Callable[[HostAddress, Mapping[str, Any]], Awaitable[C]]
"""Connects to one address, with libpq's parameters of the login."""


async def log_in(endpoint: Endpoint, database: str, seconds: float, connect: Connect[C]) -> C:
    """Log in at the first address of the host that accepts the login.

    Args:
        endpoint: the hosts and the login.
        database: the name of the database.
        seconds: the timeout of an address until it names its authentication method.
        connect: connects to one address.

    Raises:
        psycopg.Error: all addresses refused; its text joins their texts.
    """
    failures: list[psycopg.Error] = []
    for place in await _places(endpoint):
        try:
            return await _log_in_at(place, endpoint, database, seconds, connect)
        # Other addresses have the same verifier, and so the same number of rounds.
        except TooManyRoundsError:
            raise
        except psycopg.Error as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise psycopg.OperationalError("\n".join(map(str, failures)))


async def _places(endpoint: Endpoint) -> list[HostAddress]:
    found = await conninfo_attempts_async({"host": endpoint.host, "port": str(endpoint.port)})
    return [
        HostAddress(str(one.get("host") or ""), str(one.get("hostaddr") or ""), endpoint.port)
        for one in found
    ]


def at(place: HostAddress) -> dict[str, Any]:
    """Return libpq's parameters of an address."""
    where = {"host": place.host, "port": place.port}
    return where | ({"hostaddr": place.address} if place.address else {})


async def _log_in_at(
    place: HostAddress, endpoint: Endpoint, database: str, seconds: float, connect: Connect[C]
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


def _with(made: ScramKeys) -> dict[str, str]:
    return {
        "require_auth": "scram-sha-256",
        "scram_client_key": made.client,
        "scram_server_key": made.server,
    }


async def _without_scram(place: HostAddress, endpoint: Endpoint, connect: Connect[C]) -> C:
    """Log in to a server that asks for another method, or could not be asked for its method."""
    # A server that asks for the password in clear is an impostor, or badly set up. A verified
    # server that has accepted the client's certificate may do without the password (none).
    certified = endpoint.certificate and endpoint.ssl_mode.startswith("verify-")
    methods = "md5,none" if certified else "md5"
    try:
        return await connect(place, {"require_auth": methods, "password": endpoint.password})
    except psycopg.Error as error:
        if asks_for_other(error) and "SASL" in str(error):
            raise InconstantError from None
        raise


async def _challenge(
    place: HostAddress, endpoint: Endpoint, database: str, seconds: float
) -> Challenge | None:
    """Return the server's challenge of SCRAM; None if the server wants another method.

    Raises:
        TooManyRoundsError: the challenge has more rounds than MAX_ITERATIONS.
    """
    try:
        challenge = await ask(endpoint, database, place, seconds)
    except TimeoutError:
        # A try with libpq would wait for as long again.
        raise psycopg.errors.ConnectionTimeout("connection timeout expired") from None
    if challenge is not None and challenge.rounds > MAX_ITERATIONS:
        keys.forget(endpoint, place)
        raise TooManyRoundsError(challenge.rounds)
    return challenge
