"""OpenID Connect client: discovery, keys and code exchange with one issuer.

Requests are bounded in bytes and time, and follow no redirects.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import msgspec
import structlog
from joserfc.jwk import Key

from fairlead.api.addresses import is_loopback
from fairlead.api.kubebind.wire import ErrorCode
from fairlead.client.authorities import (
    explain_refusal,
    is_of_another_issuer,
    issuer_at,
    refused_certificate,
    trust_only,
)
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.oidc import idtokens
from fairlead.portal.identity.oidc.idtokens import Expected, UnknownKeyError, UntrustedError
from fairlead.portal.identity.sessions import Person, unavailable
from fairlead.portal.options import DEFAULT_PERSON_CLAIMS, DEFAULT_SCOPES, PersonClaims
from fairlead.runtime import delays


_printable = re.compile(r"[!-~]+").fullmatch
_log = structlog.get_logger(logger_name="fairlead.portal.issuer")


class IssuerAway(Exception):  # noqa: N818  what happened
    """The issuer gave no usable answer; the text says what happened."""


class Answered(NamedTuple):
    """A complete answer of an issuer."""

    status: int
    body: bytes


class OverHTTP:
    """Transport over HTTP; ``authority`` is the issuer's CA in PEM, b"" for the system's.

    Raises:
        AuthorityError: there is no certificate in PEM.
    """

    def __init__(self, authority: bytes = b"", *, seconds: float = bounds.CALL_SECONDS) -> None:
        self._authority = authority
        self._tls = trust_only(authority) if authority else ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self, url: str, form: Mapping[str, str] | None = None, **headers: str
    ) -> Answered:
        """Ask for a document, or send a form.

        Raises:
            IssuerAway: there is no whole answer.
        """
        method = "GET" if form is None else "POST"
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
                    if len(body) > bounds.ISSUER_BYTES:
                        raise IssuerAway(
                            f"{_place(url)} answered more than {bounds.ISSUER_BYTES} bytes"
                        )
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


class IssuerMetadata(msgspec.Struct, frozen=True):
    """The used part of OpenID Provider Metadata."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    scopes_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    # The default of OIDC Discovery, 3.
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct):
    id_token: str
    access_token: str = ""
    token_type: str = ""


class _Fault(msgspec.Struct):
    error: str = ""


class Issuer:
    """This server's client of one issuer. Run it as a task.

    Args:
        url: the issuer's URL, exactly as its discovery names it.
        client_id: the server's client_id at the issuer.
        client_secret: "" for a public client.
        callback: the redirect_uri of this server.
        issuing: the transport.
        scopes: requested scopes; any that the issuer does not list are left out.
        claims: the claims of the id_token that describe a person.

    Raises:
        ValueError: the URL is malformed or not https.
    """

    name = "issuer"

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str = "",
        callback: str,
        issuing: OverHTTP,
        scopes: Sequence[str] = DEFAULT_SCOPES,
        claims: PersonClaims = DEFAULT_PERSON_CLAIMS,
    ) -> None:
        check_address(url, "--oidc-issuer-url")
        if urlsplit(url).query:
            raise ValueError(f"--oidc-issuer-url {url!r} may have no query")
        if not client_id:
            raise ValueError("--oidc-issuer-client-id is missing: the issuer knows clients by it")
        self.url = url
        self._client = client_id, client_secret
        self._callback = callback
        self._issuing = issuing
        self._scopes = tuple(dict.fromkeys(("openid", *scopes)))
        self._claims = claims
        self._discovery: IssuerMetadata | None = None
        self._keys: list[Key] = []
        self._keys_read = self._keys_tried = float("-inf")
        self._fault = "its discovery document has not been read yet"
        self._lock = asyncio.Lock()
        self._exchanges = 0

    def fault(self) -> str:
        """Return why sign-in is impossible; "" if it is possible."""
        # No readiness check: existing sessions still work without the issuer.
        return f"issuer {self.url}: {self._fault}" if self._discovery is None else ""

    async def run(self) -> None:
        """Read discovery and keys, at first with retries and then regularly, until canceled."""
        failures = 0
        try:
            while True:
                try:
                    await self.discover()
                except IssuerAway as error:
                    _log.warning("the issuer cannot be used", issuer=self.url, error=str(error))
                    await asyncio.sleep(delays.ISSUER_AWAY.delay(failures))
                    failures += 1
                else:
                    await asyncio.sleep(bounds.ISSUER_SECONDS)
                    failures = 0
        finally:
            await self._issuing.close()

    async def discover(self) -> None:
        """Read discovery and keys again; on failure the earlier ones are kept.

        Raises:
            IssuerAway: a document is unavailable, unusable, or another issuer's.
        """
        try:
            place = self.url.rstrip("/") + "/.well-known/openid-configuration"
            body = await self._document(place)
            try:
                metadata = msgspec.json.decode(body, type=IssuerMetadata)
            except (ValueError, RecursionError) as error:
                raise IssuerAway(f"its discovery cannot be read: {error}") from None
            self._check(metadata)
            await self._read_keys(metadata)
        except (IssuerAway, UntrustedError) as error:
            self._fault = str(error)
            raise IssuerAway(self._fault) from error
        if self._discovery is None:
            _log.info("the issuer is there", issuer=self.url)
        self._discovery = metadata

    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return the address at the issuer where a browser signs in.

        Raises:
            Refusal: the issuer's discovery has not been read yet.
        """
        metadata = self._known()
        supported = metadata.scopes_supported
        # Some issuers refuse a sign-in with a scope that they do not know.
        scopes = [s for s in self._scopes if supported is None or s in supported or s == "openid"]
        query = urlencode(
            {
                "client_id": self._client[0],
                "redirect_uri": self._callback,
                "response_type": "code",
                "scope": " ".join(scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge_of(verifier),
                "code_challenge_method": "S256",
            }
        )
        separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{separator}{query}"

    async def person(
        self, code: str, *, verifier: str, nonce: str, begun: float, iss: str | None = None
    ) -> Person:
        """Redeem a callback's code and return its person; ``iss`` is the callback's parameter.

        Raises:
            Refusal: the issuer is unavailable or refuses the code, or its token is not valid.
        """
        metadata = self._known()
        # RFC 9207: a code of another issuer must not be sent to this one (mix-up attack).
        if (iss is None and metadata.authorization_response_iss_parameter_supported) or (
            iss is not None and iss != self.url
        ):
            raise _untrusted(f"the callback's iss is {iss!r:.100}, not {self.url!r}")
        if self._exchanges >= bounds.EXCHANGES_AT_ONCE:
            # Otherwise calls to a slow issuer would take up all requests of the server.
            raise _away(f"{bounds.EXCHANGES_AT_ONCE} codes are being redeemed already")
        self._exchanges += 1
        try:
            return await self._redeemed(metadata, code, verifier, nonce, begun)
        finally:
            self._exchanges -= 1

    async def _redeemed(
        self, metadata: IssuerMetadata, code: str, verifier: str, nonce: str, begun: float
    ) -> Person:
        tokens = await self._exchange(metadata, code, verifier)
        expected = Expected(
            issuer=self.url,
            client_id=self._client[0],
            nonce=nonce,
            begun=begun,
            access_token=tokens.access_token,
            claims=self._claims,
        )
        try:
            return await self._checked(metadata, tokens.id_token, expected)
        except UntrustedError as error:
            raise _untrusted(str(error), shown=error.told) from error
        except IssuerAway as error:
            raise _away(str(error)) from error

    async def _checked(self, metadata: IssuerMetadata, token: str, expected: Expected) -> Person:
        """Verify a token; read the keys again if none of them signed it."""
        # The hourly refresh is late or has failed, and the issuer may have withdrawn a key.
        if time.monotonic() - self._keys_read > bounds.ISSUER_SECONDS:
            await self._refetch(metadata)
        try:
            return idtokens.check(token, self._keys, expected, now=time.time())
        except UnknownKeyError:
            if not await self._refetch(metadata):
                raise
        return idtokens.check(token, self._keys, expected, now=time.time())

    async def _refetch(self, metadata: IssuerMetadata) -> bool:
        """Read the keys again, but not too often; return True if they are new since the call."""
        now = time.monotonic()
        async with self._lock:
            if self._keys_read >= now:
                return True
            # Tokens with invented key ids would make the server ask the issuer without end.
            if time.monotonic() - self._keys_tried < bounds.KEY_ID_SECONDS:
                return False
            await self._read_keys(metadata)
            return True

    async def _read_keys(self, metadata: IssuerMetadata) -> None:
        self._keys_tried = time.monotonic()
        keys = idtokens.read_keys(await self._document(metadata.jwks_uri))
        if not keys:
            raise UntrustedError("the issuer has no key of an accepted algorithm")
        self._keys, self._keys_read = keys, time.monotonic()

    async def _document(self, url: str) -> bytes:
        answer = await self._issuing.ask(url)
        if answer.status != 200:
            raise IssuerAway(f"{url} answered {answer.status}")
        return answer.body

    async def _exchange(self, metadata: IssuerMetadata, code: str, verifier: str) -> _Tokens:
        """Redeem a code at the token endpoint (OIDC Core, 3.1.3)."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        client, secret = self._client
        methods = metadata.token_endpoint_auth_methods_supported
        if not secret:
            form["client_id"] = client
        elif "client_secret_basic" not in methods and "client_secret_post" in methods:
            form |= {"client_id": client, "client_secret": secret}
        else:
            # Both are form-encoded before base64 (RFC 6749, 2.3.1).
            pair = f"{quote_plus(client)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            answer = await self._issuing.ask(metadata.token_endpoint, form, **headers)
        except IssuerAway as error:
            raise _away(str(error)) from error
        return _read_tokens(answer)

    def _check(self, metadata: IssuerMetadata) -> None:
        """Refuse a discovery document of another issuer, or with unsafe endpoints."""
        # OIDC Discovery, 4.3: otherwise another issuer could be put in place of this one.
        if metadata.issuer != self.url:
            raise IssuerAway(
                f"its discovery names the issuer {metadata.issuer!r:.200}; --oidc-issuer-url has"
                " to be the same, to the last slash"
            )
        for address in (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
        ):
            try:
                check_address(address, "the issuer's endpoint")
            except ValueError as error:
                raise IssuerAway(str(error)) from None
            # check_address allows http to loopback, which an https issuer must not name.
            if self.url.startswith("https:") and not address.startswith("https:"):
                raise IssuerAway(
                    f"the issuer's endpoint {address!r:.200} has to be https, as it is"
                )
        methods = metadata.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise IssuerAway("its discovery says that it has no PKCE by S256")

    def _known(self) -> IssuerMetadata:
        if self._discovery is None:
            raise _away(self._fault)
        return self._discovery


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a PKCE verifier (RFC 7636)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _read_tokens(answer: Answered) -> _Tokens:
    """Return the tokens of an answer, or refuse by the error that it names."""
    if answer.status == 200:
        try:
            tokens = msgspec.json.decode(answer.body, type=_Tokens)
        except (ValueError, RecursionError):
            raise _untrusted("the token endpoint's answer has no id_token") from None
        # Token types are case-insensitive (RFC 6749, 5.1).
        if tokens.token_type.lower() not in {"bearer", ""}:
            raise _untrusted(f"token_type is {tokens.token_type!r:.50}")
        return tokens
    try:
        error = msgspec.json.decode(answer.body, type=_Fault).error
    except (ValueError, RecursionError):
        error = ""
    said = f"the token endpoint answered {answer.status} {error[:50]!r}"
    if answer.status == 400 and error == "invalid_grant":
        message = "the issuer does not take this code: sign in again"
        raise Refusal(400, ErrorCode.BAD_REQUEST, message, reason=said)
    if answer.status >= 500 or answer.status == 429:
        raise _away(said)
    # The client's registration at the issuer is wrong, which the person cannot mend.
    raise Refusal(
        500, ErrorCode.INTERNAL_ERROR, "the issuer refuses this server as a client", reason=said
    )


def _away(reason: str) -> Refusal:
    refusal = unavailable(reason, code=ErrorCode.INTERNAL_ERROR)
    refusal.message = "the issuer of sign-ins cannot be reached at the moment; try again"
    return refusal


def _untrusted(reason: str, *, shown: str = "") -> Refusal:
    message = shown or "the issuer's answer cannot be trusted"
    return Refusal(401, ErrorCode.AUTHENTICATION_FAILED, message, reason=reason)


def check_address(url: str, what: str) -> None:
    """Refuse an address whose answers another server could forge.

    ``what`` names the address in messages. http is allowed to loopback alone.

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
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError(
            f"{what} {url!r} has to be https: others on the network could sign in as anyone"
        )


def _place(url: str) -> str:
    """Return scheme, host and path: user, password and query may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
