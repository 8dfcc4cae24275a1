"""Authentication and authorization of HTTP requests."""

from __future__ import annotations

import base64
import hmac
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from fairlead.api.certificates import Authority, KeyPair
from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import MASTERS, Authorizer, Decision, attributes
from fairlead_sandbox.auth.impersonation import impersonated
from fairlead_sandbox.auth.pki import client_pair, server_pair, write_secret
from fairlead_sandbox.auth.tokens import TokenError, Tokens
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.info import RequestInfo


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
"""The user of the administrator's kubeconfig."""
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
"""The user of requests without credentials, as kube-apiserver names it."""


class Guard:
    """Authenticates requests by certificate, bearer token or as anonymous; follows impersonation.

    Args:
        authority: signs the certificates, None for plain HTTP.
        tokens: the ServiceAccount tokens.
        admin_token: the administrator's bearer token, for kubeconfigs without TLS.
        authorizer: decides on requests.
        default: the user of requests without credentials.
        host: the address that the listener's certificate must name.
    """

    def __init__(
        self,
        authority: Authority | None,
        tokens: Tokens,
        admin_token: str,
        authorizer: Authorizer,
        *,
        default: User = ANONYMOUS,
        host: str = "127.0.0.1",
    ) -> None:
        self.ca_pem = authority.pem if authority else b""
        self._authority = authority
        self._tokens = tokens
        self._admin_token = admin_token
        self._authorizer = authorizer
        self._default = default
        self._host = host
        self._credentials: dict[str, str] = {}
        self._by_subject: dict[object, User | None] = {}

    def server_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings of the listener, None for plain HTTP."""
        if self._authority is None:
            return None
        return server_context(self._authority, server_pair(self._authority, self._host))

    def credentials(self) -> Mapping[str, str]:
        """Return the ``user`` entry of the administrator's kubeconfig; it is made once."""
        if not self._credentials:
            if self._authority is None:
                self._credentials = {"token": self._admin_token}
            else:
                pair = client_pair(self._authority, ADMIN.name, [MASTERS])
                self._credentials = {
                    "client-certificate-data": base64.b64encode(pair.certificate).decode(),
                    "client-key-data": base64.b64encode(pair.key).decode(),
                }
        return self._credentials

    async def authenticate(self, request: web.BaseRequest, info: RequestInfo) -> User:
        """Return the user of a request, or the user that it impersonates.

        Raises:
            StatusError: 401 for credentials that are not valid, 403 for an impersonation that is
                not allowed.
        """
        # The certificate wins, as in kube-apiserver, which asks its x509 authenticator before
        # those of tokens.
        user = self._certificate(request) or self._bearer(request)
        if any(name[:12].lower() == "impersonate-" for name in request.headers):
            return impersonated(user, request, info, self._authorizer)
        return user

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Return the decision on a user's request."""
        return self._authorizer.decide(user, attributes(info))

    def _certificate(self, request: web.BaseRequest) -> User | None:
        if self._authority is None or request.transport is None:
            return None
        certificate = request.transport.get_extra_info("peercert")
        if not certificate:
            return None
        subject = certificate.get("subject")
        # The TLS layer has verified the certificate against the CA, so clients without a
        # certificate of the CA cannot make this dictionary grow.
        if subject not in self._by_subject:
            self._by_subject[subject] = certificate_user(certificate)
        return self._by_subject[subject]

    def _bearer(self, request: web.BaseRequest) -> User:
        header = request.headers.get("Authorization")
        if not header:
            return self._default
        scheme, _, token = header.partition(" ")
        # Another scheme counts as no credentials, as in kube-apiserver.
        if scheme.lower() != "bearer":
            return self._default
        token = token.strip()
        # In constant time, so that the time of a refusal tells nothing about the token.
        if hmac.compare_digest(token.encode(errors="replace"), self._admin_token.encode()):
            return ADMIN
        try:
            # A token that is not valid is refused with 401; the request is not taken for anonymous
            # (tests/contract/test_rbac.py).
            return self._tokens.check(token).user
        except TokenError:
            raise errors.unauthorized() from None


def server_context(authority: Authority, pair: KeyPair) -> ssl.SSLContext:
    """Return a TLS context that verifies client certificates, if sent, against the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # CERT_REQUIRED would shut out clients with a bearer token or without credentials.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem.decode())
    # aiohttp speaks no HTTP/2; Go clients offer it first.
    context.set_alpn_protocols(["http/1.1"])
    # Python's ssl reads a private key from a file alone.
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        path = Path(folder) / "server.pem"
        write_secret(path, pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


def certificate_user(certificate: Mapping[str, Any]) -> User | None:
    """Return the user of a verified client certificate: its CN, with each O as a group."""
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    user = next((value for key, value in names if key == "commonName"), "")
    groups = [value for key, value in names if key == "organizationName"]
    return User(user, (*groups, "system:authenticated")) if user else None
