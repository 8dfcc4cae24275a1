"""Requests to an issuer: bounded in bytes and time, without redirects."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import aiohttp

from fairlead.api.addresses import is_loopback
from fairlead.client.authorities import (
    explain_refusal,
    is_of_another_issuer,
    issuer_at,
    refused_certificate,
    trust_only,
)


MOST_BYTES = 1 << 20
"""Largest answer of an issuer, in bytes."""
CALL_SECONDS = 10.0
"""Longest wait for an issuer's answer, in seconds."""

_printable = re.compile(r"[!-~]+").fullmatch


class IssuerAway(Exception):  # noqa: N818  what happened
    """The issuer gave no usable answer; the text says what happened."""


class Answered(NamedTuple):
    """A complete answer of an issuer."""

    status: int
    body: bytes


class Issuing(Protocol):
    """Requests to an issuer: over HTTP, or within this process to the embedded one."""

    async def get(self, url: str) -> Answered:
        """Ask for a document.

        Raises:
            IssuerAway: there is no whole answer.
        """

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answered:
        """Send a form.

        Raises:
            IssuerAway: there is no whole answer.
        """

    async def close(self) -> None:
        """Close every connection."""


class OverHTTP:
    """Transport over HTTP; ``authority`` is the issuer's CA in PEM, b"" for the system's.

    Raises:
        AuthorityError: there is no certificate in PEM.
    """

    def __init__(self, authority: bytes = b"", *, seconds: float = CALL_SECONDS) -> None:
        self._authority = authority
        self._tls = trust_only(authority) if authority else ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str) -> Answered:
        """Ask for a document."""
        return await self._ask("GET", url, None, {})

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answered:
        """Send a form."""
        return await self._ask("POST", url, form, headers)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(
        self, method: str, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> Answered:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=50),
                # Requests for different people share the session, and may not share cookies.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "fairlead", "Accept": "application/json"},
            )
        try:
            async with (
                asyncio.timeout(self._seconds),
                # A redirect could send the client secret to another server.
                self._session.request(
                    method, url, data=form, headers=headers, allow_redirects=False
                ) as answer,
            ):
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise IssuerAway(f"{_place(url)} answered more than {MOST_BYTES} bytes")
                return Answered(answer.status, bytes(body))
        except TimeoutError:
            raise IssuerAway(f"{_place(url)} gave no answer in {self._seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if refusal := refused_certificate(error):
                raise IssuerAway(f"{_place(url)}: {await self._distrust(url, refusal)}") from error
            raise IssuerAway(f"{_place(url)}: {type(error).__name__} {error}") from error

    async def _distrust(self, url: str, refusal: ssl.SSLCertVerificationError) -> str:
        parts = urlsplit(url)
        issuer = ""
        if is_of_another_issuer(refusal):
            issuer = await issuer_at(parts.hostname or "", parts.port or 443)
        return explain_refusal(
            refusal,
            self._authority,
            issuer,
            authority="--oidc-ca-file",
            name="--oidc-issuer-url",
        )


def check_address(url: str, what: str, *, plain: bool) -> None:
    """Refuse an address whose answers another server could forge.

    ``what`` names the address in messages. ``plain`` allows http to any host; http to loopback is
    always allowed.

    Raises:
        ValueError: the address is not https, or has a user or a fragment.
    """
    # urlsplit drops line ends and tabs, so they have to be found before.
    if not _printable(url):
        raise ValueError(f"{what} {url!r:.200} may only have printable ASCII characters")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{what} {url!r} has to be an https address")
    if parts.username is not None or parts.fragment:
        raise ValueError(f"{what} {_place(url)!r} may have no user and no fragment")
    _ = parts.port
    if parts.scheme == "http" and not plain and not is_loopback(parts.hostname):
        raise ValueError(
            f"{what} {url!r} has to be https: others on the network could sign in as anyone"
        )


def _place(url: str) -> str:
    """Return scheme, host and path: user, password and query may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
