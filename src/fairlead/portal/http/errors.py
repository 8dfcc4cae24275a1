"""Refusals: the errors that a request is answered with."""

from __future__ import annotations

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import Error, ErrorCode


class Refusal(Exception):  # noqa: N818  # the answer of HTTP, not a fault
    """A refused request, with the status and the text of its answer.

    ``message`` and ``details`` are sent to the client, so they may hold nothing confidential.
    ``reason`` is written only to the log and the audit line. ``retry_after`` is in seconds.
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
    """Return the refusal of a malformed request; the message names the field and the remedy."""
    return Refusal(400, ErrorCode.BAD_REQUEST, message, details=details)


def unauthenticated(details: str, *, reason: str = "") -> Refusal:
    """Return the refusal of a request without a valid session; the message is kube-bind's."""
    return Refusal(
        401,
        ErrorCode.AUTHENTICATION_FAILED,
        "Authentication required",
        details=details,
        reason=reason,
    )


def forbidden(message: str, *, details: str = "", reason: str = "") -> Refusal:
    """Return the refusal of a request that the sender has no right to make."""
    return Refusal(403, ErrorCode.AUTHORIZATION_FAILED, message, details=details, reason=reason)


def answer(refusal: Refusal, *, request_id: str) -> web.Response:
    """Return the answer in kube-bind's form, a JSON object of kind Error."""
    headers = dict(refusal.headers)
    if refusal.retry_after is not None:
        # Whole seconds (RFC 9110, 10.2.3); 0 would invite the client to retry at once.
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    details = "; ".join(filter(None, (refusal.details, f"request {request_id}")))
    body = Error(message=refusal.message, code=refusal.code, details=details)
    return web.Response(
        status=refusal.status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers=headers,
    )
