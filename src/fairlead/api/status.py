"""``metav1.Status``: the body of an API server's answer to a failed request."""

from __future__ import annotations

import msgspec


class StatusCause(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """One field that is wrong, and why."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Object of the failed request, its wrong fields, and the seconds to wait, 0 for none."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class Status(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Body of every answer that is no success, and object of ERROR events in a watch."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


REASON_CODES = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Gone": 410,
    "Expired": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    # ServerTimeout is a 500 in Kubernetes too, and Timeout alone a 504 (errors.go of
    # apimachinery).
    "ServerTimeout": 500,
    "Timeout": 504,
}
"""HTTP code of each ``metav1.StatusReason``."""
