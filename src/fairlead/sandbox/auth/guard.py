"""Authentication and authorization of requests, as the server's seam wants them."""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Mapping

from aiohttp import web

from fairlead.sandbox import errors
from fairlead.sandbox.auth.authorizer import MASTERS, Authorizer, attributes
from fairlead.sandbox.auth.impersonation import impersonated
from fairlead.sandbox.auth.jwt import TokenError
from fairlead.sandbox.auth.pki import Authority
from fairlead.sandbox.auth.security import Decision
from fairlead.sandbox.auth.tls import certificate_user, server_context
from fairlead.sandbox.auth.tokens import Tokens
from fairlead.sandbox.objects.core import User
from fairlead.sandbox.requests.info import RequestInfo


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Guard:
    """Client certificates, bearer tokens, anonymous users and impersonation.

    Args:
        authority: signs the certificates, None for plain HTTP.
        tokens: the ServiceAccount tokens.
        admin_token: the administrator's bearer token, used where there is no TLS.
        authorizer: decides.
        default: who comes without credentials.
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
        """What the listener speaks TLS with, None for plain HTTP."""
        if self._authority is None:
            return None
        return server_context(self._authority, self._authority.server(self._host))

    def credentials(self) -> Mapping[str, str]:
        """The ``user`` entry of the administrator's kubeconfig; made once."""
        if not self._credentials:
            if self._authority is None:
                self._credentials = {"token": self._admin_token}
            else:
                pair = self._authority.client(ADMIN.name, [MASTERS])
                self._credentials = {
                    "client-certificate-data": base64.b64encode(pair.certificate).decode(),
                    "client-key-data": base64.b64encode(pair.key).decode(),
                }
        return self._credentials

    async def authenticate(self, request: web.BaseRequest) -> User:
        """Who asks, or whom they speak for.

        Raises:
            StatusError: 401 for credentials that are not valid, 403 for an impersonation that is
                not allowed.
        """
        user = self._certificate(request) or self._bearer(request)
        if any(name[:12].lower() == "impersonate-" for name in request.headers):
            return impersonated(user, request, self._authorizer)
        return user

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Whether this user may do this."""
        return self._authorizer.decide(user, attributes(info))

    def _certificate(self, request: web.BaseRequest) -> User | None:
        if self._authority is None or request.transport is None:
            return None
        certificate = request.transport.get_extra_info("peercert")
        if not certificate:
            return None
        subject = certificate.get("subject")
        if subject not in self._by_subject:
            self._by_subject[subject] = certificate_user(certificate)
        return self._by_subject[subject]

    def _bearer(self, request: web.BaseRequest) -> User:
        header = request.headers.get("Authorization")
        if not header:
            return self._default
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return self._default
        token = token.strip()
        if hmac.compare_digest(token.encode(errors="replace"), self._admin_token.encode()):
            return ADMIN
        try:
            return self._tokens.check(token).user
        except TokenError:
            raise errors.unauthorized() from None
