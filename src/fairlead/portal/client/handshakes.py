"""The two handshakes with a browser: sign-in, and the choice on a provider's page."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from aiohttp import web

from fairlead.api.kubebind import BindingResponse, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.portal import bounds
from fairlead.portal.client.addresses import Address, FrontDoorError, Refused, StrangeAnswer
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.configfile import StoredToken, expiry


_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fairlead</title>
<style>:root{{color-scheme:light dark;font:1.1rem system-ui;text-align:center}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""


class Callback:
    """A context manager that listens at ``url``, which the front door sends the browser back to.

    Args:
        strict: whether an answer without our session id is refused. kube-bind's page sends the
        id back, and its sign-in does not.
    """

    def __init__(self, *, strict: bool) -> None:
        self.session_id = secrets.token_urlsafe(24)
        self.url = ""
        self._strict = strict
        self._secret = secrets.token_urlsafe(24)
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        self._answer = asyncio.get_running_loop().create_future()
        app = web.Application()
        app.router.add_get(f"/callback/{self._secret}", self._called, allow_head=False)
        # No access log: request lines contain tokens and kubeconfigs.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=2.0,
            max_line_size=bounds.CALLBACK_BYTES,
            max_field_size=bounds.CALLBACK_BYTES,
        )
        await self._runner.setup()
        try:
            # The address and not localhost, which may resolve to another one (RFC 8252, 8.3); any
            # free port.
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            await site.start()
        except BaseException:
            await self._runner.cleanup()
            raise
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/callback/{self._secret}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._runner is not None  # noqa: S101
        await self._runner.cleanup()

    async def answer(self, seconds: float) -> dict[str, str]:
        """Wait for the browser, and return its parameters.

        Raises:
            FrontDoorError: the server refused, or no answer came in time.
        """
        assert self._answer is not None  # noqa: S101
        try:
            async with asyncio.timeout(seconds):
                parameters = await self._answer
        except TimeoutError:
            raise FrontDoorError(
                f"no answer came within {seconds:g} s: look at the page in the browser"
            ) from None
        if parameters.get("success") == "false" and not parameters.get("error"):
            parameters["error"] = parameters.get("message") or "it gave no reason"
        if error := parameters.get("error"):
            reason = parameters.get("error_description") or ""
            raise FrontDoorError(
                f"the server refused: {error[:300]}" + (reason and f": {reason[:600]}")
            )
        return parameters

    async def _called(self, request: web.Request) -> web.Response:
        assert self._answer is not None  # noqa: S101
        query = request.query
        parameters = {name: query.getall(name)[0] for name in query}
        given = parameters.get("session_id", "")
        # Another page in the browser could guess the port, and send an answer of its own.
        mine = hmac.compare_digest(given.encode(), self.session_id.encode())
        if not mine and (given or self._strict):
            return _page(401, "Not for this terminal", "This answer belongs to another command.")
        if len(parameters) != len(query):
            return _page(400, "Not understood", "A parameter is given twice.")
        if not self._answer.done():
            self._answer.set_result(parameters)
        if parameters.get("error") or parameters.get("success") == "false":
            reason = (
                parameters.get("error_description")
                or parameters.get("error")
                or parameters.get("message")
            )
            return _page(200, "Refused", escape(reason or "The terminal says more."))
        return _page(200, "Done", "Go back to the terminal; this page can be closed.")


def _page(status: int, title: str, text: str) -> web.Response:
    response = web.Response(
        status=status,
        text=_PAGE.format(title=title, text=text),
        content_type="text/html",
        headers=_HEADERS,
    )
    response.force_close()
    return response


Show = Callable[[str], None]
"""Function that opens an address in the person's browser."""
_METHOD = "OAuth2CodeGrant"
"""Method of signing in, as a BindingProvider names it."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
"""A token that may be sent in a header (RFC 6750, section 2.1)."""


class Proof:
    """A PKCE verifier and its challenge (RFC 7636, S256)."""

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        self.challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    @property
    def parameters(self) -> dict[str, str]:
        """The address's PKCE parameters, which kube-bind's server ignores."""
        return {"code_challenge": self.challenge, "code_challenge_method": "S256"}


class SignedIn(NamedTuple):
    """The result of a sign-in: a token, and the person's name, "" if the server sent none."""

    token: StoredToken
    username: str = ""


async def sign_in(
    backend: BackendClient,
    show: Show,
    *,
    timeout: float,  # noqa: ASYNC109  it says what was waited for
) -> SignedIn:
    """Let a person sign in with a browser, and return the token.

    Args:
        backend: the server, without a token.
        show: opens the browser.
        timeout: longest wait for the person, in seconds.

    Raises:
        FrontDoorError: the server refused, or no answer came in time.
    """
    proof = Proof()
    where = authorize_url(await backend.provider(), backend.address)
    async with Callback(strict=False) as callback:
        query = {
            "redirect_url": callback.url,
            "session_id": callback.session_id,
            "client_type": "cli",
            **({"cluster_id": backend.address.cluster} if backend.address.cluster else {}),
            **proof.parameters,
        }
        show(with_query(where, query))
        parameters: Mapping[str, Any] = await callback.answer(timeout)
    if "code" in parameters:
        parameters = await backend.redeem(parameters["code"], proof.verifier)
    return _signed_in(parameters, backend.address)


def _signed_in(parameters: Mapping[str, Any], address: Address) -> SignedIn:
    text, type_ = parameters.get("access_token"), parameters.get("token_type") or "Bearer"
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise StrangeAnswer(f"{address.url} sent no usable token")
    if str(type_).lower() != "bearer":
        raise StrangeAnswer(f"{address.url} sent a token of an unknown type")
    cluster = str(parameters.get("cluster_id") or "")
    if address.cluster and cluster not in {"", address.cluster}:
        raise StrangeAnswer(f"{address.url} signed in to another cluster than requested")
    username = parameters.get("username")
    name = username if isinstance(username, str) else ""
    return SignedIn(StoredToken(text, expiry(parameters.get("expires_in"))), name)


async def choose_on_page(
    backend: BackendClient,
    identity: str,
    show: Show,
    *,
    timeout: float,  # noqa: ASYNC109  it says what was waited for
) -> BindingResponse:
    """Let a person choose on the provider's page, and return the BindingResponse.

    Args:
        backend: the server; the person signs in on the page.
        identity: the identity of the consumer's cluster.
        show: opens the browser.
        timeout: longest wait for the person, in seconds.

    Raises:
        FrontDoorError: the person or the server refused, or no answer came in time.
    """
    # A browser shows that no server is there, and the person would be waited for.
    with contextlib.suppress(StrangeAnswer, Refused):
        await backend.provider()
    proof = Proof()
    cluster = backend.address.cluster
    # The page sends session_id back, kube-bind's, too; kube-bind's sign-in does not.
    async with Callback(strict=True) as callback:
        query = {
            "session_id": callback.session_id,
            "redirect_url": callback.url,
            "consumer_id": identity,
            **({"cluster_id": cluster} if cluster else {}),
            **proof.parameters,
        }
        show(with_query(backend.address.url + "/", query))
        parameters = await callback.answer(timeout)
    if "code" in parameters:
        return await backend.redeem_response(parameters["code"], proof.verifier)
    if not parameters.get("binding_response"):
        reason = parameters.get("message") or "it gave no reason"
        raise StrangeAnswer(f"the page of {backend.address.url} bound nothing: {reason[:300]}")
    return decode_page_response(parameters["binding_response"])


def decode_page_response(text: str) -> BindingResponse:
    """Decode a BindingResponse in base64, of either alphabet, with or without padding.

    Raises:
        StrangeAnswer: the text is not a BindingResponse.
    """
    # btoa of a browser writes +, which a query decodes to a blank.
    plain = text.strip("\r\n").replace(" ", "+").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        return decode_binding_response(data)
    except binascii.Error:
        raise StrangeAnswer("the page's binding_response is not base64") from None
    except ValueError as error:
        raise StrangeAnswer(f"the page's binding_response is unusable: {error}") from None


def authorize_url(provider: JSON, address: Address) -> str:
    """Return the sign-in address of a BindingProvider.

    Raises:
        StrangeAnswer: the provider names no usable address.
    """
    url = ""
    for method in provider.get("authenticationMethods") or ():
        grant = method.get("oauth2CodeGrant") if isinstance(method, dict) else None
        if isinstance(grant, dict) and method.get("method") == _METHOD:
            url = str(grant.get("authenticatedURL") or "")
            break
    if not url:
        raise StrangeAnswer(f"{address.url} does not offer the sign-in method {_METHOD}")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or any(not char.isprintable() or char == " " for char in url):
        raise StrangeAnswer(f"{address.url} names no usable address for signing in")
    ours = urlsplit(address.url)
    # kube-bind's server writes http even behind https.
    if ours.scheme == "https" and parts.scheme == "http":
        if parts.netloc.lower() != ours.netloc:
            raise FrontDoorError(
                f"{address.url} wants people to sign in without https, at "
                f"{parts.scheme}://{parts.netloc}: its --external-url has to be set"
            )
        parts = parts._replace(scheme="https")
    return urlunsplit(parts._replace(fragment=""))


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """Set query parameters of an address, in place of those with the same names."""
    parts = urlsplit(url)
    others = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in parameters and not (name == "cluster_id" and not value)
    ]
    return urlunsplit(parts._replace(query=urlencode([*others, *parameters.items()])))
