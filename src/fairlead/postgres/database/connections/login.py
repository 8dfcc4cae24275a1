"""Logins: the addresses of a host in turn, with the authentication method of the server.

libpq gets a password only for md5. For SCRAM-SHA-256 it gets keys that were derived here, because
libpq would compute the rounds of the server on the event loop. ``startup`` has the options of a
session, by which its settings are none that the owner of a database can change.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_attempts_async

from fairlead.client import limits
from fairlead.postgres import bounds
from fairlead.postgres.database.connections import keys
from fairlead.postgres.database.connections.answers import OF_TENANTS
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import (
    InconstantError,
    NotLetInError,
    TooManyRoundsError,
    asks_for_other,
    explain_connect,
    is_without_tls,
    may_be_refused,
    pooled,
)
from fairlead.postgres.database.connections.keys import ScramKeys
from fairlead.postgres.database.connections.rounds import Challenge, HostAddress, ask, distrust
from fairlead.postgres.database.connections.session import LimitedConnection, Session, WriteCheck
from fairlead.postgres.database.connections.startup import (
    APPLICATION,
    NEWEST,
    forget_environment,
    older_version,
    start_options,
)
from fairlead.postgres.database.connections.tls import settings_of
from fairlead.postgres.errors import AccessError


_older: dict[str, int] = {}
"""``server_version_num`` of servers that do not know all options yet, by address.

Only a failed login tells that. Without this value each new connection would begin with one.
"""


async def open_session(
    endpoint: Endpoint, database: str, check: WriteCheck = lambda: None
) -> Session:
    """Open a session in one database.

    Raises:
        AccessError: ConnectionFailed, AuthenticationFailed, TLSFailed or DatabaseNotFound.
    """
    return Session(await _open(endpoint, database), check)


@asynccontextmanager
async def connect(
    endpoint: Endpoint, database: str, check: WriteCheck = lambda: None
) -> AsyncIterator[Session]:
    """Open a session in one database for the block.

    Raises:
        AccessError: ConnectionFailed, AuthenticationFailed, TLSFailed or DatabaseNotFound.
    """
    connection = await _open(endpoint, database)
    # psycopg's own block would send a ROLLBACK first, and close nothing if that is cancelled.
    try:
        yield Session(connection, check)
    finally:
        await connection.close()


async def logs_in(endpoint: Endpoint, database: str, username: str, password: str) -> bool | None:
    """Whether the server accepts this password for this role; None if it allows no such login.

    Raises:
        AccessError: the server could not be asked.
    """
    probe = replace(endpoint, username=username, password=password)
    try:
        connection = await _open(probe, database)
    except NotLetInError:
        return None
    except AccessError as error:
        # A refused password answers the question, and is no failure.
        if error.reason == "AuthenticationFailed":
            return False
        # The server checks the password before these.
        if error.reason in {"DatabaseNotFound", "InsufficientPrivilege", "RoleIsFull"}:
            return True
        raise
    await connection.close()
    return True


async def _open(endpoint: Endpoint, database: str) -> LimitedConnection:
    try:
        # libpq's connect_timeout holds for each address alone, and a tenant's host may have many.
        async with asyncio.timeout(bounds.LOGIN_SECONDS):
            connection = await _login_as_known(endpoint, database)
    except (psycopg.Error, OSError, UnicodeError, ValueError) as error:
        raise explain_connect(
            error,
            str(endpoint),
            database,
            endpoint.username,
            discreet=endpoint.discreet,
            source=endpoint.source,
            distrust=await _distrust(endpoint, error),
        ) from None
    # Without the options each statement would run under settings that a database's owner
    # may choose.
    if connection.info.parameter_status("application_name") != APPLICATION:
        await connection.close()
        raise pooled(str(endpoint))
    return connection


async def _distrust(endpoint: Endpoint, error: Exception) -> str:
    """Return why the server's certificate was refused; "" if it was not, or must not be told."""
    verified = endpoint.ssl_mode.startswith("verify-")
    if endpoint.discreet or not verified or not is_without_tls(error):
        return ""
    with suppress(psycopg.Error, OSError, ValueError):
        async with asyncio.timeout(limits.ISSUER_SECONDS):
            return await distrust(endpoint, await _places(endpoint))
    return ""


async def _login_as_known(endpoint: Endpoint, database: str) -> LimitedConnection:
    """Log in with all options that the version of the server knows."""
    server = str(endpoint)
    version = _older.get(server, NEWEST)
    for _ in range(bounds.LOGIN_TRIES):
        # A server refuses a login with an unknown option, and tells its version only after a
        # login. So the most options are tried first.
        options = start_options(version)
        try:
            connection = await _login(endpoint, database, options)
        except psycopg.Error as error:
            older = older_version(str(error), version)
            if older is None:
                raise
            version = older
            continue
        version = connection.info.server_version
        if start_options(version) == options:
            _remember(server, version)
            return connection
        # The server has been upgraded since it was remembered as an older one.
        await connection.close()
    raise psycopg.OperationalError("the server does not report its version")


def _remember(server: str, version: int) -> None:
    if version >= NEWEST:
        _older.pop(server, None)
        return
    # Tenants may name any number of addresses. A forgotten one costs one failed login.
    if len(_older) >= bounds.OLDER_SERVERS:
        _older.clear()
    _older[server] = version


async def _login(endpoint: Endpoint, database: str, options: str) -> LimitedConnection:
    """Log in at the first address of the host that accepts the login.

    Raises:
        psycopg.Error: all addresses refused; its text joins their texts.
    """
    failures: list[psycopg.Error] = []
    for place in await _places(endpoint):
        try:
            return await _Door(place, endpoint, database, options).log_in()
        # Other addresses have the same verifier, and so the same number of rounds.
        except TooManyRoundsError:
            raise
        except psycopg.Error as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise psycopg.OperationalError("\n".join(map(str, failures)))


async def _places(endpoint: Endpoint) -> list[HostAddress]:
    # psycopg looks there for PGHOSTADDR.
    forget_environment()
    addresses = await conninfo_attempts_async({"host": endpoint.host, "port": str(endpoint.port)})
    hosts = [(str(one.get("host") or ""), str(one.get("hostaddr") or "")) for one in addresses]
    # psycopg takes an address that begins with two colons for a path of Windows, and resolves
    # none.
    return [
        HostAddress(host, address or (host if _is_address(host) else ""), endpoint.port)
        for host, address in hosts
    ]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Door(NamedTuple):
    """A database at one address, to log in to with these options of the session."""

    place: HostAddress
    endpoint: Endpoint
    database: str
    options: str

    async def log_in(self) -> LimitedConnection:
        endpoint, place = self.endpoint, self.place
        if not endpoint.password:
            # The certificate is part of the TLS handshake, so the server asks for nothing more.
            return await self._connect(require_auth="none")
        refusal: psycopg.Error | None = None
        # Known keys save the connection that reads the challenge, and the derivation.
        scram_keys = keys.proven_keys(endpoint, place)
        if scram_keys is not None:
            try:
                return await self._with(scram_keys)
            except psycopg.Error as error:
                if not may_be_refused(error):
                    raise
                refusal = error
        challenge = await self._challenge()
        if challenge is None:
            return await self._without_scram()
        # The refused keys are of this challenge, and would be derived again: the password is
        # wrong. Another challenge means that the role's password was set again, maybe to the same
        # text.
        if refusal is not None and scram_keys is not None and scram_keys.challenge == challenge:
            keys.forget(endpoint, place)
            raise refusal
        derived = await keys.derive(endpoint.password, challenge)
        try:
            connection = await self._with(derived)
        except psycopg.Error as error:
            # The server wants another method than a moment ago: the role has got an md5 password,
            # for example.
            if asks_for_other(error):
                raise InconstantError from None
            raise
        keys.remember(endpoint, place, derived)
        return connection

    async def _with(self, scram_keys: ScramKeys) -> LimitedConnection:
        return await self._connect(
            require_auth="scram-sha-256",
            scram_client_key=scram_keys.client,
            scram_server_key=scram_keys.server,
        )

    async def _without_scram(self) -> LimitedConnection:
        """Log in to a server that asks for another method, or could not be asked for it."""
        endpoint = self.endpoint
        # A server that asks for the password in clear is an impostor, or badly set up. A verified
        # server that has accepted the client's certificate may do without the password (none).
        certified = endpoint.certificate and endpoint.ssl_mode.startswith("verify-")
        methods = "md5,none" if certified else "md5"
        try:
            return await self._connect(require_auth=methods, password=endpoint.password)
        except psycopg.Error as error:
            # libpq names the method that the server wants. With SCRAM it would compute any number
            # of rounds, so the login waits for the next try, which reads the challenge first.
            if asks_for_other(error) and "SASL" in str(error):
                raise InconstantError from None
            raise

    async def _challenge(self) -> Challenge | None:
        """Return the server's challenge of SCRAM; None if the server wants another method.

        Raises:
            TooManyRoundsError: the challenge has more rounds than bounds.ITERATIONS_MOST.
        """
        try:
            challenge = await ask(self.endpoint, self.database, self.place, bounds.CONNECT_SECONDS)
        except TimeoutError:
            # A try with libpq would wait for as long again.
            raise psycopg.errors.ConnectionTimeout("connection timeout expired") from None
        if challenge is not None and challenge.rounds > bounds.ITERATIONS_MOST:
            keys.forget(self.endpoint, self.place)
            raise TooManyRoundsError(challenge.rounds)
        return challenge

    async def _connect(self, **settings: str) -> LimitedConnection:
        forget_environment()
        if self.place.address:
            settings["hostaddr"] = self.place.address
        tls = settings_of(self.endpoint)
        connection = await LimitedConnection.begin(
            host=self.place.host,
            port=self.place.port,
            dbname=self.database,
            user=self.endpoint.username,
            **settings,
            **tls.parameters,
            # This file does not exist. libpq would print a warning about a device.
            passfile="/dev/null/none",
            gssencmode="disable",
            # Of several hosts, the current primary.
            target_session_attrs="read-write",
            connect_timeout=bounds.CONNECT_SECONDS,
            # The options alone set it: its value at the server shows that no pooler dropped
            # them.
            application_name="",
            client_encoding="UTF8",
            options=self.options,
            autocommit=True,
            # Poolers between us and the server lose prepared statements.
            prepare_threshold=None,
        )
        connection.files = tls.files
        connection.budget = OF_TENANTS if self.endpoint.of_tenant else None
        return connection
