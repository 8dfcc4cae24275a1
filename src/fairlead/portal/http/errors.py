"""Refusals: what a request is answered that is not served."""

from __future__ import annotations

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import Error, ErrorCode


class Refusal(Exception):  # noqa: N818  # the answer of HTTP, not a fault
    """A request that is not served, with its status and the text for its sender.

    ``message`` and ``details`` go out: they hold nothing that an outsider may not know.
    ``reason`` goes to the log and the audit line alone. ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        details: str = "",
        reason: str = "",
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.reason = reason
        self.retry_after = retry_after
        self.headers = headers or {}


def bad_request(message: str, *, details: str = "") -> Refusal:
    """A request that is wrong in itself; the message names the field and the remedy."""
    return Refusal(400, ErrorCode.BAD_REQUEST, message, details=details)


def unauthenticated(details: str, *, reason: str = "") -> Refusal:
    """A request of an unknown sender; its message is kube-bind's."""
    return Refusal(
        401,
        ErrorCode.AUTHENTICATION_FAILED,
        "Authentication required",
        details=details,
        reason=reason,
    )


def forbidden(message: str, *, details: str = "", reason: str = "") -> Refusal:
    """A request that its sender may not make."""
    return Refusal(403, ErrorCode.AUTHORIZATION_FAILED, message, details=details, reason=reason)


def answer(refusal: Refusal, *, request_id: str) -> web.Response:
    """The answer in kube-bind's form, a JSON object of kind Error."""
    headers = dict(refusal.headers)
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    details = "; ".join(filter(None, (refusal.details, f"request {request_id}")))
    body = Error(message=refusal.message, code=refusal.code, details=details)
    return web.Response(
        status=refusal.status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers=headers,
    )
