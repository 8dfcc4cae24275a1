"""Requests to one API server: one session and one connector, not shared between clients."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.client import responses
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog
from multidict import CIMultiDict

from fairlead.api.status import REASON_CODES
from fairlead.client import limits
from fairlead.client.authorities import (
    is_of_another_issuer,
    issuer_at,
    refused_certificate,
)
from fairlead.client.bounds import Bounds, Chunks, Intake
from fairlead.client.caution import Caution
from fairlead.client.clocks import clock_difference
from fairlead.client.config import ClusterConfig, Impersonation
from fairlead.client.connection import FAULTS, build_ssl_context, failed
from fairlead.client.credentials import Credential, credential_source
from fairlead.client.errors import (
    AnswerTooLarge,
    ApiError,
    ConnectionFailed,
    Fenced,
    Unauthorized,
    api_error,
    status_from_answer,
)
from fairlead.client.exchange import IDEMPOTENT, Origin, Outgoing, ServerAnswer, ServerConnections
from fairlead.client.metrics import RequestMetrics
from fairlead.client.outages import Outages


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class WarningLog:
    """Log of an API server's warnings, each text once (RFC 7234, 5.5; code 299 alone)."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._warnings: set[str] = set()
        self._log = structlog.get_logger("fairlead.client")

    def handle(self, headers: Iterable[str]) -> None:
        """Log the texts that are new; after a thousand different ones, none."""
        for text in parse_warnings(headers):
            if text not in self._warnings and len(self._warnings) < limits.REMEMBERED:
                self._warnings.add(text)
                self._log.warning("API server warning", server=self._server, warning=text)


def parse_warnings(headers: Iterable[str]) -> list[str]:
    """Return the texts in the values of Warning headers."""
    return [
        re.sub(r"\\(.)", r"\1", match.group(1))
        for value in headers
        for match in _WARNING.finditer(value)
    ]


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds for one request; the caller's own back-off takes over beyond them.

    ``attempts`` counts the first one too. The first wait is about ``base`` seconds and doubles;
    all waits of a request add up to ``budget`` seconds at most.
    """

    attempts: int = 6
    budget: float = 30.0
    base: float = 0.25

    def wait(
        self, method: str, code: int, retry_after: float | None, attempt: int, waited: float
    ) -> float | None:
        """Return the seconds until the next attempt, None if the answer is final.

        A 429 was not processed, so any method may follow it; a 503 only an idempotent one, and
        only where the server says when.
        """
        if code == 429:
            delay = retry_after if retry_after is not None else self._backoff(attempt)
        elif code == 503 and method in IDEMPOTENT and retry_after is not None:
            delay = retry_after
        else:
            return None
        # A server that says 0 is still given a moment: no answer may cause a hot loop.
        delay = max(delay, self._backoff(attempt) if attempt else 0.0)
        if attempt + 1 >= self.attempts or waited + delay > self.budget:
            return None
        return delay

    def _backoff(self, attempt: int) -> float:
        return self.base * 2.0**attempt * random.uniform(1.0, 1.5)  # noqa: S311  jitter


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds; ``read`` and ``watch_idle`` limit silence, not the whole answer."""

    connect: float = 15.0
    read: float = 60.0
    watch_idle: float = 120.0


class Transport:
    """Sends requests with credentials, retries them where that is safe, raises typed errors."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        metrics: RequestMetrics | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        caution: Caution | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.config = config
        self._cautious = caution is not None
        self.timeouts = timeouts or Timeouts()
        self.fence: Callable[[str], str] = lambda _path: ""
        """Returns the reason why a path must not be written now, "" if it may be."""
        self.outages = Outages()
        self._server = urlsplit(config.server)
        self.host = self._server.netloc
        self._metrics = metrics
        self._retries = retries or RetryPolicy()
        self._credentials = credential_source(config)
        self._warnings = WarningLog(config.server)
        self._secure = config.server.startswith("https:")
        self._contexts: tuple[Credential, ssl.SSLContext] | None = None
        self._headers = _fixed_headers(config, user_agent)
        self._origins: tuple[Credential, Origin] | None = None
        self.intake = Intake(config.server, bounds, caution.most_bytes if caution else None)
        self._connections = ServerConnections(
            config.server,
            self.timeouts.connect,
            self.intake,
            caution.refused if caution else None,
        )

    async def close(self) -> None:
        """Close every connection; requests under way fail, later ones too."""
        await self._connections.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = 0,
    ) -> bytes:
        """Send a request and return the body of a successful answer.

        ``most`` are the bytes that are taken of a trusted server's, 0 for any number.

        Raises:
            ApiError: the server refused, also after the retries that its answer allows.
            ConnectionFailed: the answer is missing, incomplete or too large.
            ConfigError: no credential or no TLS context can be made.
            Fenced: the request is a write, and this process may not write any more.
        """

        def check() -> None:
            # Reads pass: a process that has lost its Lease may look, and must not write.
            if method != "GET" and (reason := self.fence(path)):
                raise Fenced(f"{method} {path} was not sent: {reason}")

        target = self._target(path, params)
        sent = Outgoing(method, target, headers or {}, body, self.timeouts.read, check)
        attempt, waited = 0, 0.0
        while True:
            # Before each attempt, since the wait for a retry may outlast the Lease.
            check()
            try:
                answer = await self._send(sent)
                try:
                    whole = await answer.read(most)
                except FAULTS as error:
                    raise self._failed(error) from error
                finally:
                    answer.end()
            except AnswerTooLarge as error:
                self.intake.note(path, error)
                raise
            except ApiError as error:
                wait = self._retries.wait(method, error.code, error.retry_after, attempt, waited)
                if wait is None:
                    raise
            else:
                self.intake.note(path, None)
                return whole
            attempt, waited = attempt + 1, waited + wait
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> AsyncIterator[Chunks]:
        """Yield the answer to a GET as it arrives; never retried.

        Raises:
            ApiError: the server refused.
            ConnectionFailed: the server was not reached.
            TimeoutError: while reading, no byte arrived for ``timeouts.watch_idle`` seconds.
        """
        target = self._target(path, params)
        idle = self.timeouts.watch_idle
        answer = await self._send(Outgoing("GET", target, headers, None, idle, _unchecked))
        try:
            yield answer.content
        finally:
            answer.end()

    async def _send(self, sent: Outgoing) -> ServerAnswer:
        """Send a request, after a 401 again with new credentials; return the successful answer."""
        credential = await self._credentials.current()
        answer = await self._exchange(sent, credential)
        try:
            if answer.status == 401:
                # Only once: a request that is refused with fresh credentials too is really
                # refused.
                fresh = await self._credentials.refresh(credential)
                if fresh is not None:
                    answer.end()
                    answer = await self._exchange(sent, fresh)
            if not 200 <= answer.status < 300:
                raise await self._refused(sent, answer)
        except BaseException:
            answer.end()
            raise
        return answer

    async def _exchange(self, sent: Outgoing, credential: Credential) -> ServerAnswer:
        started, code = time.monotonic(), "<error>"
        since = asyncio.get_running_loop().time()
        try:
            answer = await self._connections.exchange(self._origin(credential), sent)
            code = str(answer.status)
        except FAULTS as error:
            raise self._failed(error, since, await self._issuer(error)) from error
        finally:
            if self._metrics is not None:
                elapsed = time.monotonic() - started
                self._metrics.observe(sent.method, self.host, code, elapsed)
        self.outages.answered(sent.method, answer.status)
        if "Warning" in answer.headers and not self._cautious:
            self._warnings.handle(answer.headers.getall("Warning"))
        return answer

    async def _refused(self, sent: Outgoing, answer: ServerAnswer) -> ApiError:
        try:
            body = await answer.read()
        except FAULTS as error:
            raise self._failed(error) from error
        path = sent.target.partition("?")[0]
        status = status_from_answer(answer.status, body, f"{sent.method} {path}")
        if self._cautious:
            # The text is a stranger's, and would be shown to people as ours.
            message = f"{sent.method} {path}: {answer.status} {responses.get(answer.status, '')}"
            reason = status.reason if status.reason in REASON_CODES else ""
            status = msgspec.structs.replace(status, message=message.strip(), reason=reason)
        elif self.intake.bounds is not None:
            # It goes into conditions, which have a bound themselves.
            status = msgspec.structs.replace(
                status, message=status.message[: limits.TEXT_CHARACTERS]
            )
        # Of all refusals, this one can come from a clock.
        clock = clock_difference(answer.headers.get("Date", "")) if answer.status == 401 else ""
        if clock:
            text = "; ".join(filter(None, (status.message or status.reason, clock)))
            status = msgspec.structs.replace(status, message=text)
        refused = api_error(status, retry_after=_retry_after(answer.headers.get("Retry-After")))
        refused.server = self.config.server
        if isinstance(refused, Unauthorized):
            refused.clock = clock
        if self.outages.lasting and (answer.status >= 500 or answer.status == 401):
            refused.outages = self.outages
        return refused

    async def _issuer(self, fault: BaseException) -> str:
        """Return who issued a certificate that no trusted authority has; "" if that is unknown."""
        refusal = refused_certificate(fault)
        # Only a proxy reaches the server, or only some addresses may be connected to.
        if self.config.proxy_url or self._cautious:
            return ""
        if refusal is None or not is_of_another_issuer(refusal):
            return ""
        server = self._server
        return await issuer_at(
            server.hostname or "", server.port or 443, self.config.tls_server_name
        )

    def _failed(
        self, fault: BaseException, since: float | None = None, issuer: str = ""
    ) -> ConnectionFailed:
        self.outages.failed(since)
        error = failed(self.config, fault, issuer)
        error.outages = self.outages
        return error

    def _target(self, path: str, params: Mapping[str, str] | None) -> str:
        # The kubeconfig's server may have a path of its own, such as that of a proxy.
        target = self._server.path + (path if _plain(path) else quote(path, safe=_PATH_SAFE))
        return f"{target}?{_encoded(tuple(params.items()))}" if params else target

    def _origin(self, credential: Credential) -> Origin:
        """Return the origin, the same one as long as the credential does not change."""
        origins = self._origins
        if origins is None or origins[0] != credential:
            headers = self._headers.copy()
            if credential.authorization:
                headers["Authorization"] = credential.authorization
            origin = Origin(
                self.config.server,
                headers,
                context=self._ssl(credential),
                server_hostname=self.config.tls_server_name,
                proxy=self.config.proxy_url,
            )
            self._origins = origins = (credential, origin)
        return origins[1]

    def _ssl(self, credential: Credential) -> ssl.SSLContext | bool:
        """Return the context, the same one as long as the client certificate does not change."""
        if not self._secure:
            return True
        contexts = self._contexts
        # A token changes often and needs no new context; making one reads all certificates again.
        if contexts is None or contexts[0][1:] != credential[1:]:
            context = build_ssl_context(self.config, credential.certificate, credential.key)
            self._contexts = contexts = (credential, context)
        return contexts[1]


_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_plain = re.compile(r"[A-Za-z0-9/.:_-]*").fullmatch
"""Matches paths that need no quoting, nearly all of them."""


@lru_cache(maxsize=256)
def _encoded(params: tuple[tuple[str, str], ...]) -> str:
    """Encode the query string; the cache helps since requests repeat a few of them."""
    return urlencode(params)


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
        # Of the keys of extra fields API servers take percent-encoded what no header name may have
        # (Kubernetes, "Authenticating", user impersonation).
        escaped = _TOKEN_CHARACTER.sub(lambda match: quote(match.group(), safe=""), name)
        for value in values:
            headers.add(f"Impersonate-Extra-{escaped}", value)
    return headers


def _retry_after(value: str | None) -> float | None:
    """Parse Retry-After in seconds; API servers give no dates."""
    return float(value) if value and value.isascii() and value.isdigit() else None


def _unchecked() -> None:
    """Do nothing: a read is never held back by the fence."""
