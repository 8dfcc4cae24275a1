"""Who asks, and whether they may: the seam between the server and whatever decides that."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from aiohttp import web

from fairlead.sandbox.objects.core import User
from fairlead.sandbox.requests.info import RequestInfo


class Decision(NamedTuple):
    """Whether a request is allowed; the reason is added to a refusal's message."""

    allowed: bool
    reason: str = ""


class Security(Protocol):
    """Authentication, authorization and transport of one control plane."""

    ca_pem: bytes

    def server_context(self) -> ssl.SSLContext | None:
        """What the listener speaks TLS with, None for plain HTTP."""

    def credentials(self) -> Mapping[str, str]:
        """The ``user`` entry of the administrator's kubeconfig."""

    async def authenticate(self, request: web.BaseRequest) -> User:
        """Who asks.

        Raises:
            StatusError: 401, credentials that are not valid.
        """

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Whether this user may do this."""


class Open:
    """Everyone is an administrator, over plain HTTP: for tests of what stands above."""

    ca_pem = b""
    _admin = User("kubernetes-admin", ("system:masters", "system:authenticated"))

    def server_context(self) -> ssl.SSLContext | None:
        """Plain HTTP."""
        return None

    def credentials(self) -> Mapping[str, str]:
        """None are needed."""
        return {}

    async def authenticate(self, request: web.BaseRequest) -> User:
        """The administrator."""
        return self._admin

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Yes."""
        return Decision(True)
