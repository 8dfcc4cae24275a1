"""Refusals for requests that failed because a call to the API server failed."""

from __future__ import annotations

from fairlead.api.kubebind.wire import ErrorCode
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
from fairlead.portal.http.errors import Refusal


_PATIENCE = 5.0
"""Default of Retry-After, in seconds, if the API server sent none."""


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
    """Return the refusal of a request that may succeed later."""
    return Refusal(
        503,
        ErrorCode.CLUSTER_CONNECTION_FAILED,
        f"{message}; try again",
        reason=reason,
        retry_after=retry_after or _PATIENCE,
    )


def _refused(status: int, message: str, reason: str) -> Refusal:
    return Refusal(status, ErrorCode.INTERNAL_ERROR, message, reason=reason)
