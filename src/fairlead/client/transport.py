"""Requests to one API server: one session, one connector, nothing shared between clients."""

from __future__ import annotations

import asyncio
import io
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from fairlead.client.config import ClusterConfig, Impersonation
from fairlead.client.connection import mapped_errors
from fairlead.client.credentials import Credential, credential_source
from fairlead.client.errors import (
    ApiError,
    ConnectionFailed,
    Fenced,
    api_error,
    status_from_answer,
)
from fairlead.client.metrics import RequestMetrics
from fairlead.client.retry import RetryPolicy
from fairlead.client.sockets import Sockets
from fairlead.client.tls import build_ssl_context
from fairlead.client.warnings import WarningLog


@dataclass(frozen=True)
class Timeouts:
    """Seconds; ``read`` and ``watch_idle`` limit silence, not the whole answer."""

    connect: float = 15.0
    read: float = 60.0
    watch_idle: float = 120.0


class Transport:
    """Sends requests with credentials, retries what may be retried, and types what fails."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        metrics: RequestMetrics | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        self.config = config
        self.timeouts = timeouts or Timeouts()
        self.fence: Callable[[str], str] = lambda _path: ""
        """Why nothing may be written to a path now, "" when it may."""
        self._server = urlsplit(config.server)
        self.host = self._server.netloc
        self._metrics = metrics
        self._retries = retries or RetryPolicy()
        self._credentials = credential_source(config)
        self._warnings = WarningLog(config.server)
        self._secure = config.server.startswith("https:")
        self._contexts: tuple[Credential, ssl.SSLContext] | None = None
        self._headers = _fixed_headers(config, user_agent)
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()
        self._closed = False

    async def close(self) -> None:
        """Closes every connection; requests under way fail, later ones too."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._sockets.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of a successful answer.

        Raises:
            ApiError: the server refused, also after the retries that its answer allows.
            ConnectionFailed: there was no whole answer.
            ConfigError: no credential or no TLS context can be made.
            Fenced: it is a write, and this process may not write any more.
        """
        url = self._url(path, params)
        attempt, waited = 0, 0.0
        while True:
            if method != "GET" and (reason := self.fence(path)):
                raise Fenced(f"{method} {path} was not sent: {reason}")
            try:
                answer = await self._send(method, url, body, headers, self.timeouts.read)
                try:
                    with mapped_errors(self.config.server):
                        return await answer.read()
                finally:
                    _end(answer)
            except ApiError as error:
                wait = self._retries.wait(method, error.code, error.retry_after, attempt, waited)
                if wait is None:
                    raise
            attempt, waited = attempt + 1, waited + wait
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The answer to a GET as it arrives; never retried.

        Raises:
            ApiError: the server refused.
            ConnectionFailed: the server was not reached.
            TimeoutError: from reading: nothing arrived for ``timeouts.watch_idle`` seconds.
        """
        url = self._url(path, params)
        answer = await self._send("GET", url, None, headers, self.timeouts.watch_idle)
        try:
            yield answer.content
        finally:
            _end(answer)

    async def _send(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        silence: float,
    ) -> aiohttp.ClientResponse:
        """An answer with a good status, to be ended; a 401 is tried again with new credentials."""
        credential = await self._credentials.current()
        answer = await self._exchange(method, url, body, headers, silence, credential)
        try:
            if answer.status == 401:
                fresh = await self._credentials.refresh(credential)
                if fresh is not None:
                    answer.release()
                    answer = await self._exchange(method, url, body, headers, silence, fresh)
            if not 200 <= answer.status < 300:
                raise await self._refused(method, url, answer)
        except BaseException:
            _end(answer)
            raise
        return answer

    async def _exchange(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        silence: float,
        credential: Credential,
    ) -> aiohttp.ClientResponse:
        session = self._open_session()
        sent = self._headers.copy()
        sent.update(headers or {})
        if credential.authorization:
            sent["Authorization"] = credential.authorization
        started, code = time.monotonic(), "<error>"
        try:
            with mapped_errors(self.config.server):
                answer = await session.request(
                    method,
                    url,
                    data=_payload(body),
                    headers=sent,
                    allow_redirects=False,
                    ssl=self._ssl(credential),
                    server_hostname=self.config.tls_server_name or None,
                    proxy=self.config.proxy_url or None,
                    timeout=_silence(self.timeouts.connect, silence),
                )
            code = str(answer.status)
        finally:
            if self._metrics is not None:
                elapsed = time.monotonic() - started
                self._metrics.observe(method, self.host, code, elapsed)
        self._warnings.handle(answer.headers.getall("Warning", ()))
        return answer

    async def _refused(self, method: str, url: URL, answer: aiohttp.ClientResponse) -> ApiError:
        with mapped_errors(self.config.server):
            body = await answer.read()
        status = status_from_answer(answer.status, body, f"{method} {url.path}")
        return api_error(status, retry_after=_retry_after(answer.headers.get("Retry-After")))

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        return URL.build(
            scheme=self._server.scheme,
            authority=self._server.netloc,
            path=self._server.path + quote(path, safe=_PATH_SAFE),
            query_string=urlencode(params) if params else "",
            encoded=True,
        )

    def _ssl(self, credential: Credential) -> ssl.SSLContext | bool:
        """One context as long as the client certificate stays the same."""
        if not self._secure:
            return True
        kept = self._contexts
        if kept is None or kept[0][1:] != credential[1:]:
            context = build_ssl_context(self.config, credential.certificate, credential.key)
            self._contexts = kept = (credential, context)
        return kept[1]

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ConnectionFailed(f"the client of {self.config.server} is closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, socket_factory=self._sockets.make)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        return self._session


_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_TOKEN_CHARACTER = re.compile(r"[^!#$&'*+\-.^_`|~0-9A-Za-z]")


def _fixed_headers(config: ClusterConfig, user_agent: str) -> CIMultiDict[str]:
    headers = CIMultiDict({"User-Agent": user_agent, "Accept": "application/json"})
    if config.disable_compression:
        headers["Accept-Encoding"] = "identity"
    if config.impersonation is not None:
        headers.extend(_impersonation_headers(config.impersonation))
    return headers


def _impersonation_headers(whom: Impersonation) -> CIMultiDict[str]:
    headers = CIMultiDict({"Impersonate-User": whom.user})
    for group in whom.groups:
        headers.add("Impersonate-Group", group)
    if whom.uid:
        headers["Impersonate-Uid"] = whom.uid
    for name, values in whom.extra.items():
        escaped = _TOKEN_CHARACTER.sub(lambda match: quote(match.group(), safe=""), name)
        for value in values:
            headers.add(f"Impersonate-Extra-{escaped}", value)
    return headers


@cache
def _silence(connect: float, read: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)


def _end(answer: aiohttp.ClientResponse) -> None:
    # A body that was not read to its end would be waited for, and so would the peer's goodbye in
    # TLS; ending it here and now is what we mean.
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Aiohttp wants large bodies as files, so that writing them does not hold up the loop."""
    return io.BytesIO(body) if body is not None and len(body) > 1 << 20 else body


def _retry_after(value: str | None) -> float | None:
    """Seconds; API servers give no dates."""
    return float(value) if value and value.isascii() and value.isdigit() else None
