"""Reads what libpq does not tell: a server's SCRAM-SHA-256 challenge, and a refused certificate.

With SCRAM-SHA-256 the server says how many rounds its client has to compute, and a role chooses
its own number with ``ALTER ROLE ... PASSWORD``. libpq computes as many as the server says, up to
2,147,483,647, and nothing else runs in this process meanwhile. So a connection of its own reads
the challenge first. It carries the user name, the database and a nonce, and nothing that depends
on the password; therefore it does not verify the server.

Of a certificate that it refuses libpq tells neither the fault nor the issuer. Two connections that
end with their TLS handshake read them; they carry no login.

https://www.postgresql.org/docs/current/sasl-authentication.html, RFC 5802
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import psycopg

from fairlead.client.authorities import explain_refusal, is_of_another_issuer, issuer_of
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.tls import unverified, verifying


_MECHANISM = b"SCRAM-SHA-256"

_ENCRYPTED = {"disable": (False,), "allow": (False, True), "prefer": (True, False)}
"""Whether a try uses TLS, in libpq's order by sslmode; all other modes use TLS alone."""
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_PROTOCOL = 196608
"""Protocol 3.0, the version that every server speaks."""
_SASL = 10
_SASL_CONTINUE = 11
_NONCE_BYTES = 18
# By RFC 5802, section 7, a nonce is printable without commas, and a number begins with no 0. Ten
# digits are enough for libpq's greatest number.
_CHALLENGE = re.compile(
    rb"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<rounds>[1-9][0-9]{0,9})"
)


T = TypeVar("T")


class Challenge(NamedTuple):
    """Salt and number of rounds with which SCRAM-SHA-256 derives keys from a password."""

    salt: bytes
    rounds: int


class HostAddress(NamedTuple):
    """One address of a host. Without ``address`` the host is the directory of a Unix socket."""

    host: str
    address: str
    port: int


class NoMechanismError(psycopg.OperationalError):
    """A server that wants SASL, but does not offer SCRAM-SHA-256."""

    def __init__(self) -> None:
        super().__init__("authentication method requirement: no SCRAM-SHA-256")


async def ask(
    endpoint: Endpoint, database: str, place: HostAddress, seconds: float
) -> Challenge | None:
    """Return the server's challenge; None if it wants another method or could not be asked.

    Raises:
        NoMechanismError: the server wants another mechanism of SASL.
        TimeoutError: the server did not answer in time.
    """
    async with asyncio.timeout(seconds):
        # libpq never encrypts a Unix socket, in any sslmode.
        mode = endpoint.ssl_mode if place.address else "disable"
        for encrypted in _ENCRYPTED.get(mode, (True,)):
            try:
                return await _challenge(endpoint, database, place, encrypted=encrypted)
            # libpq's own try explains a failed connection better.
            except (OSError, ValueError):
                continue
    return None


async def _challenge(
    endpoint: Endpoint, database: str, place: HostAddress, *, encrypted: bool
) -> Challenge | None:
    family, where = _address(place)
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, where)
        line = _Line(own)
        if encrypted:
            await line.encrypt(unverified(endpoint), place.host)
        question = await _question(line, endpoint.username, database)
        await line.leave()
        return question


async def distrust(endpoint: Endpoint, places: Sequence[HostAddress]) -> str:
    """Return why the server's certificate is not trusted, and the remedy.

    It is "" if the certificate is trusted, or none is shown.

    Raises:
        OSError: the server did not show its certificate again.
        ValueError: the host is no valid server name for TLS.
    """
    bare = replace(endpoint, certificate="", key="")
    # libpq never encrypts a Unix socket.
    for place in (place for place in places if place.address):
        refusal = await _refusal(bare, place)
        if refusal is None:
            continue
        issuer = ""
        if is_of_another_issuer(refusal):
            issuer = issuer_of(await _shown(bare, place, unverified(bare)))
        return explain_refusal(
            refusal, endpoint.ca.encode(), issuer, authority="caSecretRef", name="host"
        )
    return ""


async def _refusal(endpoint: Endpoint, place: HostAddress) -> ssl.SSLCertVerificationError | None:
    try:
        await _shown(endpoint, place, verifying(endpoint))
    except ssl.SSLCertVerificationError as error:
        return error
    except OSError:
        # Another address of the host may answer.
        pass
    return None


async def _shown(endpoint: Endpoint, place: HostAddress, context: ssl.SSLContext) -> bytes:
    """Return the certificate in DER that the server shows, and end the connection."""
    family, where = _address(place)
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, where)
        line = _Line(own)
        await line.encrypt(context, endpoint.host)
        certificate = line.certificate
        await line.leave()
        return certificate


def _address(place: HostAddress) -> tuple[int, Any]:
    if place.address:
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        addresses = socket.getaddrinfo(
            place.address, place.port, type=socket.SOCK_STREAM, flags=numeric
        )
        family, _, _, _, where = addresses[0]
        return family, where
    if not place.host.startswith("/"):
        raise ValueError(place.host)
    return socket.AF_UNIX, f"{place.host}/.s.PGSQL.{place.port}"


async def _question(line: _Line, username: str, database: str) -> Challenge | None:
    words = [word.encode() for word in ("user", username, "database", database)]
    if any(b"\0" in word for word in words):
        raise ValueError("a name has a NUL byte")
    body = b"".join(word + b"\0" for word in words) + b"\0"
    await line.send(struct.pack("!ii", len(body) + 8, _PROTOCOL) + body)
    kind, said = await _authentication(line)
    if kind != _SASL:
        return None
    if _MECHANISM not in said.split(b"\0"):
        raise NoMechanismError
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES))
    # Without channel binding (n,,), and with an empty user name: PostgreSQL ignores it, and takes
    # that of the startup message.
    first = b"n,,n=,r=" + nonce
    body = _MECHANISM + b"\0" + struct.pack("!i", len(first)) + first
    await line.send(b"p" + struct.pack("!i", len(body) + 4) + body)
    kind, said = await _authentication(line)
    if kind != _SASL_CONTINUE:
        raise ConnectionError("the server goes on with something else")
    return read_challenge(said, nonce)


async def _authentication(line: _Line) -> tuple[int, bytes]:
    """Return kind and body of the next message, which must be about authentication."""
    sort, length = struct.unpack("!ci", await line.receive(5))
    # The length counts itself and the kind, but not the letter before it.
    if sort != b"R" or not 8 <= length <= bounds.MESSAGE_BYTES:
        raise ConnectionError("this is no message of authentication")
    said = await line.receive(length - 4)
    return int.from_bytes(said[:4]), said[4:]


def read_challenge(said: bytes, nonce: bytes) -> Challenge:
    """Parse the server's first message of SCRAM (RFC 5802, section 7).

    Raises:
        ValueError: the message is malformed, or does not continue this nonce.
    """
    match = _CHALLENGE.fullmatch(said)
    if match is None or not match["nonce"].startswith(nonce) or match["nonce"] == nonce:
        raise ValueError("this is no challenge of SCRAM")
    return Challenge(base64.b64decode(match["salt"], validate=True), int(match["rounds"]))


class _Line:
    """A connection to a server, in clear or with TLS, that receives a limited number of bytes.

    Streams of asyncio do not tell when the other side has read the end.
    """

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._left = bounds.HANDSHAKE_BYTES
        self._read = bytearray()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None

    async def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        """Begin TLS.

        Raises:
            OSError: the server has no TLS, or the handshake failed.
            ValueError: the host is no valid server name for TLS.
        """
        await self.send(_SSL_REQUEST)
        # More than one byte before the handshake could be from a man in the middle.
        if await self._heard(1) != b"S":
            raise ConnectionError("the server has no TLS")
        # Nothing is verified: the server's name is for SNI alone, by which a proxy finds the
        # server.
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host or None)
        await self._worked(self._tls.do_handshake)

    @property
    def certificate(self) -> bytes:
        """Certificate in DER that the server has shown; b"" without TLS."""
        return (self._tls and self._tls.getpeercert(binary_form=True)) or b""

    async def send(self, data: bytes) -> None:
        """Send the data, over TLS if that has begun."""
        if (tls := self._tls) is None:
            await self._loop.sock_sendall(self._own, data)
        else:
            await self._worked(lambda: tls.write(data))

    async def receive(self, count: int) -> bytes:
        """Return exactly ``count`` bytes.

        Raises:
            OSError: the server ended the connection, or sent more than the limit.
        """
        while len(self._read) < count:
            if (tls := self._tls) is None:
                self._read += await self._heard(bounds.HANDSHAKE_READ_BYTES)
            else:
                data = await self._worked(lambda: tls.read(bounds.HANDSHAKE_READ_BYTES))
                if not data:
                    raise ConnectionError("the server has ended TLS")
                self._read += data
        taken = bytes(self._read[:count])
        del self._read[:count]
        return taken

    async def leave(self) -> None:
        """End the connection, and wait until the server has closed it.

        Until then it counts toward max_connections, and may take the last place.
        """
        try:
            async with asyncio.timeout(bounds.LEAVE_SECONDS):
                if self._tls is not None:
                    await self._bid_farewell(self._tls)
                self._own.shutdown(socket.SHUT_WR)
                while True:
                    await self._heard(bounds.HANDSHAKE_READ_BYTES)
        except OSError:
            # The server has closed, or takes longer than the timeout.
            return

    async def _bid_farewell(self, tls: ssl.SSLObject) -> None:
        """Send close_notify of TLS: without it a server logs an error."""
        with suppress(ssl.SSLError):
            tls.unwrap()
        await self._flush()

    async def _worked(self, step: Callable[[], T]) -> T:
        """Run a step of TLS, and send and receive the bytes that it needs."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                # The server may be waiting for these bytes.
                await self._flush()
                self._incoming.write(await self._heard(bounds.HANDSHAKE_READ_BYTES))
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self._loop.sock_sendall(self._own, data)

    async def _heard(self, count: int) -> bytes:
        """Return the next bytes that come in, at most ``count``."""
        data = await self._loop.sock_recv(self._own, count)
        self._left -= len(data)
        if not data or self._left < 0:
            raise ConnectionError("the server has ended the connection, or says too much")
        return data
