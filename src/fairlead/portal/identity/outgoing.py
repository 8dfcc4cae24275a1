"""Requests to an issuer: bounded in bytes and in time, and led nowhere else."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import aiohttp

from fairlead.portal.options import is_loopback


MOST_BYTES = 1 << 20
"""Bytes of an issuer's answer."""
CALL_SECONDS = 10.0
"""Seconds after which an issuer's answer is not awaited any more."""

_printable = re.compile(r"[!-~]+").fullmatch


class IssuerAway(Exception):  # noqa: N818  what happened
    """The issuer gave no answer that can be used; the text says what happened."""


class Answered(NamedTuple):
    """An answer of an issuer, whole."""

    status: int
    body: bytes


class Issuing(Protocol):
    """How an issuer is reached."""

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
    """An issuer at its address; ``authority`` is the PEM of a CA of its own, "" for the system's.

    Raises:
        ValueError: the PEM is none.
    """

    def __init__(self, authority: str = "", *, seconds: float = CALL_SECONDS) -> None:
        try:
            self._tls = ssl.create_default_context(cadata=authority or None)
        except ssl.SSLError as error:
            raise ValueError(f"--oidc-ca-file has no certificate in PEM: {error}") from None
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
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "fairlead", "Accept": "application/json"},
            )
        try:
            async with (
                asyncio.timeout(self._seconds),
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
            raise IssuerAway(f"{_place(url)}: {type(error).__name__} {error}") from error


def check_address(url: str, what: str, *, plain: bool) -> None:
    """Refuse an address whose answers could be another's.

    ``plain`` allows http to any host; to this machine it is allowed in any case.

    Raises:
        ValueError: it is no https address, or has a user, a query or a fragment.
    """
    # Parsing drops line ends and tabs, which would be sent on with the address.
    if not _printable(url):
        raise ValueError(f"{what} {url!r:.200} may have printable ASCII characters alone")
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
    """Scheme, host and path, without what else an address may hold."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
