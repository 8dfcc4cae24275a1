"""Refusals: what a request is answered with if it is wrong, or a call to the API server failed."""

from __future__ import annotations

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import Error, ErrorCode
from fairlead.client import (
    AlreadyExists,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Fenced,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    RequestTooLarge,
    ServerError,
    TooManyRequests,
)
from fairlead.portal import bounds


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


def refusal_of(error: BaseException) -> Refusal:
    """Return the refusal for an error that no handler caught; the error's text is only logged.

    An API server's messages name users, namespaces and addresses, which a client must not see.
    """
    reason = f"{type(error).__name__}: {error}"
    match error:
        case TimeoutError():
            return _later("the server did not answer in time", reason)
        case TooManyRequests() | ServerError():
            return _later("the provider's cluster is busy or away", reason, error.retry_after)
        case ConnectionFailed() | NotServed() | Fenced() | Gone():
            return _later("the provider's cluster is unavailable at the moment", reason)
        case AlreadyExists() | Conflict():
            return _refused(409, "this was changed by another request at the same time", reason)
        case Invalid() | BadRequest() | RequestTooLarge():
            return _refused(422, "the provider's cluster rejected an object as invalid", reason)
        case NotFound():
            return Refusal(
                404, ErrorCode.RESOURCE_NOT_FOUND, "there is no such object", reason=reason
            )
    return _refused(500, "the server failed; its log says why", reason)


def _later(message: str, reason: str, retry_after: float | None = None) -> Refusal:
    return Refusal(
        503,
        ErrorCode.CLUSTER_CONNECTION_FAILED,
        f"{message}; try again",
        reason=reason,
        retry_after=retry_after or bounds.RETRY_SECONDS,
    )


def _refused(status: int, message: str, reason: str) -> Refusal:
    return Refusal(status, ErrorCode.INTERNAL_ERROR, message, reason=reason)
