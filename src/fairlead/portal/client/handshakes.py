"""The two handshakes with a browser: sign-in, and the choice on a provider's page."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from fairlead.api.kubebind import BindingResponse, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.callback import Callback
from fairlead.portal.client.configfile import StoredToken, expiry
from fairlead.portal.client.errors import FrontDoorError, StrangeAnswer


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
        asked = {
            "redirect_url": callback.url,
            "session_id": callback.session_id,
            "client_type": "cli",
            **({"cluster_id": backend.address.cluster} if backend.address.cluster else {}),
            **proof.parameters,
        }
        show(with_query(where, asked))
        found: Mapping[str, Any] = await callback.answer(timeout)
    if "code" in found:
        found = await backend.redeem(found["code"], proof.verifier)
    return _signed_in(found, backend.address)


def _signed_in(found: Mapping[str, Any], address: Address) -> SignedIn:
    text, type_ = found.get("access_token"), found.get("token_type") or "Bearer"
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise StrangeAnswer(f"{address.url} sent no usable token")
    if str(type_).lower() != "bearer":
        raise StrangeAnswer(f"{address.url} sent a token of an unknown type")
    cluster = str(found.get("cluster_id") or "")
    if address.cluster and cluster not in {"", address.cluster}:
        raise StrangeAnswer(f"{address.url} signed in to another cluster than requested")
    username = found.get("username")
    name = username if isinstance(username, str) else ""
    return SignedIn(StoredToken(text, expiry(found.get("expires_in"))), name)


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
    proof = Proof()
    cluster = backend.address.cluster
    # The page sends session_id back, kube-bind's, too; kube-bind's sign-in does not.
    async with Callback(strict=True) as callback:
        asked = {
            "session_id": callback.session_id,
            "redirect_url": callback.url,
            "consumer_id": identity,
            **({"cluster_id": cluster} if cluster else {}),
            **proof.parameters,
        }
        show(with_query(backend.address.url + "/", asked))
        found = await callback.answer(timeout)
    if "code" in found:
        return await backend.redeem_response(found["code"], proof.verifier)
    if not found.get("binding_response"):
        told = found.get("message") or "it gave no reason"
        raise StrangeAnswer(f"the page of {backend.address.url} bound nothing: {told[:300]}")
    return decode_page_response(found["binding_response"])


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
    kept = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in parameters and not (name == "cluster_id" and not value)
    ]
    return urlunsplit(parts._replace(query=urlencode([*kept, *parameters.items()])))
