"""Requests to a front door: bounded, without redirects, with errors that name the remedy."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from fairlead.api.kubebind import BindingResponse, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.client.authorities import (
    AuthorityError,
    explain_refusal,
    is_of_another_issuer,
    issuer_at,
    read_authority,
    refused_certificate,
    trust_only,
)
from fairlead.client.transport import parse_warnings
from fairlead.portal import bounds
from fairlead.portal.client.addresses import (
    Address,
    FrontDoorError,
    Refused,
    SignInNeeded,
    StrangeAnswer,
    Unreachable,
)


class Trust(msgspec.Struct, frozen=True):
    """TLS trust of a server; ``authority`` is a CA in PEM, b"" for the system's."""

    authority: bytes = b""
    insecure: bool = False

    @classmethod
    def of_file(cls, path: str, *, insecure: bool = False) -> Trust:
        """Return the trust in a file's CA; "" stands for the system's.

        Raises:
            OSError: the file cannot be read.
            FrontDoorError: it holds no certificate that can be trusted.
        """
        try:
            authority = read_authority(Path(path), "--server-ca-file") if path else b""
        except AuthorityError as error:
            raise FrontDoorError(str(error)) from None
        return cls(authority, insecure)

    def context(self) -> ssl.SSLContext:
        """Return the SSL context of connections.

        Raises:
            FrontDoorError: the authority is not a certificate in PEM.
        """
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        if not self.authority:
            return ssl.create_default_context()
        try:
            return trust_only(self.authority)
        except AuthorityError as error:
            raise FrontDoorError(f"--server-ca-file {error}") from None


class BackendClient:
    """A client of one server for one person.

    Every method raises :class:`~fairlead.portal.client.addresses.Refused` if the server refuses,
    :class:`~fairlead.portal.client.addresses.Unreachable` if there is no complete answer, and
    :class:`~fairlead.portal.client.addresses.StrangeAnswer` if the answer is not a front door's.

    Args:
        address: the server and its cluster.
        token: the session's token, "" before sign-in.
        trust: the trusted certificates.
        seconds: longest wait for an answer.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        trust: Trust | None = None,
        seconds: float = 30.0,
    ) -> None:
        self.address = address
        self._token = token
        self._seconds = seconds
        # Only for https: loading the system's CAs is slow.
        encrypted = address.url.startswith("https:")
        self._trust = trust or Trust()
        self._context = self._trust.context() if encrypted else True
        self._session: aiohttp.ClientSession | None = None
        self.warnings: list[str] = []
        """Warnings in the last answer, as in the headers of Kubernetes' API servers."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": "fairlead",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
        )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def provider(self) -> JSON:
        """Return the server's BindingProvider."""
        provider = self._json(await self._ask("GET", "/api/exports"), "BindingProvider")
        if provider.get("kind", "BindingProvider") != "BindingProvider":
            raise self._strange("is no BindingProvider")
        return provider

    async def ping(self) -> None:
        """Check that the server still accepts the token."""
        await self._ask("GET", "/api/ping")

    async def templates(self) -> list[JSON]:
        """Return the APIServiceExportTemplates that this person may bind."""
        return self._items(await self._ask("GET", "/api/templates"), "APIServiceExportTemplate")

    async def collections(self) -> list[JSON]:
        """Return the Collections with templates that this person may bind."""
        return self._items(await self._ask("GET", "/api/collections"), "Collection")

    async def bind(self, request: JSON) -> BindingResponse:
        """Send a BindableResourcesRequest and return the BindingResponse."""
        body = await self._ask("POST", "/api/bind", request, seconds=bounds.BIND_SECONDS)
        return self._response(body)

    async def redeem(self, code: str, verifier: str) -> JSON:
        """Redeem a one-time code of Fairlead's server; return the token's answer."""
        body: JSON = {"code": code, "code_verifier": verifier}
        return self._json(await self._ask("POST", "/api/token", body), "token")

    async def redeem_response(self, code: str, verifier: str) -> BindingResponse:
        """Redeem a one-time code of Fairlead's server for a BindingResponse."""
        body: JSON = {"code": code, "code_verifier": verifier}
        answer = await self._ask("POST", "/api/token", body, seconds=bounds.BIND_SECONDS)
        return self._response(answer)

    async def logout(self) -> None:
        """End the session that the token belongs to, on the server."""
        await self._ask("POST", "/api/logout", {})

    async def _ask(
        self, method: str, path: str, body: JSON | None = None, *, seconds: float = 0.0
    ) -> bytes:
        assert self._session is not None  # noqa: S101
        url = self.address.url + path
        cluster = self.address.cluster
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with self._session.request(
                method,
                url,
                params={"cluster_id": cluster} if cluster else None,
                data=None if body is None else msgspec.json.encode(body),
                headers=headers,
                # A redirect would send the token to another server.
                allow_redirects=False,
                proxy=_proxy(url),
                timeout=aiohttp.ClientTimeout(total=seconds or self._seconds, sock_connect=15),
            ) as answer:
                content = await _read(answer)
                status, answer_headers = answer.status, answer.headers
                self.warnings = parse_warnings(answer_headers.getall("Warning", ()))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            if refusal := refused_certificate(error):
                raise Unreachable(await self._distrust(refusal)) from None
            raise Unreachable(self._why(error, seconds or self._seconds)) from None
        if content is None:
            raise self._strange(f"is larger than {bounds.ANSWER_BYTES} bytes")
        if not 200 <= status < 300:
            raise self._refusal(status, answer_headers, content)
        return content

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> FrontDoorError:
        if 300 <= status < 400:
            return StrangeAnswer(
                f"{self.address.url} redirects ({status}) to "
                f"{_origin(headers.get('Location', ''))}: if you trust that, use its address"
            )
        try:
            decoded = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            decoded = {}
        error = decoded if isinstance(decoded, dict) else {}
        if status == 401:
            return SignInNeeded(
                f"{self.address.url} does not know you, or your sign-in has ended: "
                f"{self._login()}{_details(error)}"
            )
        reason = _text(error, "message") or _text(error, "error")
        code = _text(error, "code")
        text = f"{self.address.url} answers {status}"
        text += (
            f": {reason}{_details(error)}" if reason else ": it is not a front door of kube-bind, "
        )
        if not reason:
            text += "or a proxy answers for it"
        after = headers.get("Retry-After", "")
        if after.isascii() and after.isdigit():
            text += f"; try again in {int(after[:6])} s"
        return Refused(text, status=status, code=code)

    def _login(self) -> str:
        cluster = f" --cluster {self.address.cluster}" if self.address.cluster else ""
        return f"fairlead login {self.address.url}{cluster}"

    def _json(self, body: bytes, what: str) -> JSON:
        try:
            value: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise self._strange(f"is not JSON, but a {what} was expected") from None
        if not isinstance(value, dict):
            raise self._strange(f"is no {what}")
        return value

    def _items(self, body: bytes, kind: str) -> list[JSON]:
        items = self._json(body, f"list of {kind}s").get("items")
        entries = [] if items is None else items
        if not isinstance(entries, list):
            raise self._strange(f"is no list of {kind}s")
        for item in entries:
            metadata = item.get("metadata") if isinstance(item, dict) else None
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if not isinstance(name, str) or not name:
                raise self._strange(f"is no list of {kind}s: one has no metadata.name")
        return entries

    def _response(self, body: bytes) -> BindingResponse:
        try:
            return decode_binding_response(body)
        except ValueError as error:
            raise self._strange(f"is unusable: {error}") from None

    def _strange(self, what: str) -> StrangeAnswer:
        return StrangeAnswer(f"the answer of {self.address.url} {what}")

    async def _distrust(self, refusal: ssl.SSLCertVerificationError) -> str:
        url = self.address.url
        parts = urlsplit(url)
        # Where a proxy is asked, the server may be out of reach from here.
        direct = is_of_another_issuer(refusal) and not _proxy(url)
        issuer = await issuer_at(parts.hostname or "", parts.port or 443) if direct else ""
        fault = explain_refusal(
            refusal,
            self._trust.authority,
            issuer,
            authority="--server-ca-file",
            name="the server's address",
        )
        return f"{url} cannot be trusted: {fault}"

    def _why(self, error: Exception, seconds: float) -> str:
        where = self.address.url
        match error:
            case TimeoutError():
                return f"{where} did not answer within {seconds:g} s"
            case aiohttp.ClientConnectorDNSError():
                return f"{where} cannot be reached: its host name is unknown"
            case aiohttp.ClientConnectorError():
                detail = error.os_error.strerror or type(error.os_error).__name__
                refused = isinstance(error.os_error, ConnectionRefusedError)
                detail = "connection refused" if refused else detail.partition(" [")[0]
                return f"{where} cannot be reached: {detail}"
            case _:
                return f"the connection to {where} broke: {type(error).__name__}"


async def _read(answer: aiohttp.ClientResponse) -> bytes | None:
    """Read the body; return None if it is too large."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_chunked(65536):
        size += len(part)
        if size > bounds.ANSWER_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _proxy(url: str) -> str | None:
    """Return the environment's proxy for an address; None for loopback."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    # A proxy would look for the server on a loopback of its own.
    if host in {"localhost", "::1"} or host.startswith("127.") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def _origin(location: str) -> str:
    try:
        parts = urlsplit(location)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "an invalid address"
    if not host:
        return "another page of its own"
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _text(error: Mapping[str, Any], name: str) -> str:
    value = error.get(name)
    return value[: bounds.ERROR_CHARACTERS] if isinstance(value, str) else ""


def _details(error: Mapping[str, Any]) -> str:
    details = _text(error, "details")
    return f" ({details})" if details else ""
