# ruff: noqa: N818  named after what happened and after Kubernetes' reasons
"""Errors of requests to an API server, by kind of fault and by HTTP status.

::

    ClientError
    ├── ConfigError            a kubeconfig, a credential or a certificate is unusable
    ├── Fenced                 this process may not write any more
    ├── ConnectionFailed       the server was not reached, or the connection broke
    │   ├── CertificateRefused  its certificate is not trusted
    │   └── UnexpectedAnswer   what answered does not speak Kubernetes
    │       └── AnswerTooLarge     the answer exceeds a bound of the client
    └── ApiError               the server answered with a metav1.Status
        ├── BadRequest             400
        ├── Unauthorized           401
        ├── Forbidden              403
        ├── NotFound               404
        │   └── NotServed              no such resource: a CRD is missing
        ├── MethodNotAllowed       405, and 403 of a CRD that is being deleted
        ├── NotAcceptable          406
        ├── AlreadyExists          409, reason AlreadyExists
        ├── Conflict               409, any other reason
        ├── Gone                   410, reasons Gone and Expired
        ├── RequestTooLarge        413
        ├── UnsupportedMediaType   415
        ├── Invalid                422
        ├── TooManyRequests        429
        └── ServerError            500 and above

Messages are one line, name the object or server, and never contain a credential.
"""

from __future__ import annotations

import re
from http.client import responses
from typing import Literal

import msgspec

from fairlead.api.status import REASON_CODES, Status
from fairlead.client.outages import Outages


class ClientError(Exception):
    """Base of all expected errors of this package.

    ``outages`` records the outages of the server, if the error is part of one; else None.
    """

    outages: Outages | None = None


class ConfigError(ClientError):
    """A kubeconfig, credential or certificate cannot be used; says where and what to do."""


class Fenced(ClientError):
    """The request was not sent, for another process may have taken this one's place."""


class ConnectionFailed(ClientError):
    """The server could not be reached, or the connection broke before the answer was complete.

    ``server`` is its URL, "" if only the connection was known.
    """

    def __init__(self, message: str, server: str = "") -> None:
        super().__init__(message)
        self.server = server


class CertificateRefused(ConnectionFailed):
    """The server's certificate is not one that the kubeconfig trusts."""


class UnexpectedAnswer(ConnectionFailed):
    """The answer is not that of a Kubernetes API: a proxy's page, or a truncated body."""


Bound = Literal["answer", "event", "objects", "all"]
"""Name of a bound on what a server may answer; "all" is for all its answers together."""

_EXCESSES: dict[Bound, str] = {
    "answer": "an answer is larger than {}, the limit for one answer",
    "event": "an event of a watch is larger than {}, the limit for one event",
    "objects": "its objects together are larger than {}, the limit for all of them",
    "all": "its answers together are larger than {}, the limit for this server",
}


class AnswerTooLarge(UnexpectedAnswer):
    """The server answers with more than the client takes of it; the rest was not read.

    ``limit`` is the exceeded ``bound`` in bytes.
    """

    def __init__(self, server: str, bound: Bound, limit: int) -> None:
        size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
        super().__init__(f"stopped reading from {server}: {_EXCESSES[bound].format(size)}", server)
        self.bound = bound
        self.limit = limit


class ApiError(ClientError):
    """The server refused; ``retry_after`` is in seconds where the server gave one.

    ``server`` is its URL, "" where that is not known.
    """

    server = ""

    def __init__(self, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(status.message or status.reason or f"HTTP {status.code}")
        self.status = status
        self.retry_after = retry_after

    @property
    def reason(self) -> str:
        """``metav1.StatusReason``, such as ``AlreadyExists``; "" when the server gave none."""
        return self.status.reason

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.status.code

    @property
    def message(self) -> str:
        """Message of the server, else its reason or the HTTP status."""
        return str(self)


class BadRequest(ApiError):
    """The request itself is malformed."""


class Unauthorized(ApiError):
    """The server does not know the user, even after credentials were refreshed.

    ``clock`` says how the server's clock differs from the one here, with the remedy. It is "" if
    they do not differ much. The message has it, too.
    """

    clock = ""

    @property
    def clock_hint(self) -> str:
        """Text to add to another one about the refusal, "" if the clocks do not differ much."""
        return f"; {self.clock}" if self.clock else ""


class Forbidden(ApiError):
    """The user lacks the right for the request, or admission refuses it with the same code."""

    @property
    def lacks_right(self) -> bool:
        """Whether a role would help: the authorizer refused, and not a webhook, policy or quota.

        Source: ``forbiddenMessage`` in k8s.io/apiserver's responsewriters. It names user and verb.
        """
        return bool(_AUTHORIZER.search(self.message))


_AUTHORIZER = re.compile(r'(?:^|: )User "[^"]*" cannot \S+ ')


class NotFound(ApiError):
    """No such object, namespace or path."""

    def concerns(self, name: str) -> bool:
        """Whether the server says that the object of this name is missing.

        A 404 may also come from a proxy, or from a server that does not serve the kind at the
        moment: neither says anything about the object.
        """
        details = self.status.details
        return details is not None and details.name == name

    @property
    def unserved(self) -> bool:
        """Whether the answer names no missing object: the server does not serve the kind."""
        details = self.status.details
        return details is None or not details.name


class NotServed(NotFound):
    """The server does not serve the resource, or discovery does not list it."""


class MethodNotAllowed(ApiError):
    """The resource does not have this verb, or creates nothing while its CRD is being deleted.

    Kubernetes answers the latter with 405 in 1.20, and with 403 in 1.37, where no right helps.
    """


class NotAcceptable(ApiError):
    """The server has no answer in a media type that the Accept header names."""


class AlreadyExists(ApiError):
    """An object of this name exists."""


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition does not hold."""


class Gone(ApiError):
    """The resourceVersion or continue token is too old: list again."""


class RequestTooLarge(ApiError):
    """The body is larger than the server takes."""


class UnsupportedMediaType(ApiError):
    """The server does not take this kind of patch or body."""


class Invalid(ApiError):
    """Validation failed; ``status.details.causes`` names the fields."""


class TooManyRequests(ApiError):
    """The server wants fewer requests, and said so more often than the client waits."""


class ServerError(ApiError):
    """The server failed, is overloaded or is shutting down."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "MethodNotAllowed": MethodNotAllowed,
    "NotAcceptable": NotAcceptable,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Gone,
    "RequestEntityTooLarge": RequestTooLarge,
    "UnsupportedMediaType": UnsupportedMediaType,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "InternalError": ServerError,
    "ServiceUnavailable": ServerError,
    "ServerTimeout": ServerError,
    "Timeout": ServerError,
}
# 409 stands for two of them: AlreadyExists is known by its reason alone.
_BY_CODE: dict[int, type[ApiError]] = {
    code: _BY_REASON[reason] for reason, code in REASON_CODES.items() if code != 409
} | {409: Conflict}


_TERMINATING = "not allowed while custom resource definition is terminating"
"""The end of the refusal to create an object whose CRD is being deleted."""


def api_error(status: Status, *, retry_after: float | None = None) -> ApiError:
    """Return the exception for a Status: by its reason, else by its code."""
    code = status.code or REASON_CODES.get(status.reason, 0)
    type_ = _BY_REASON.get(status.reason) or _BY_CODE.get(code)
    if type_ is Forbidden and status.message.endswith(_TERMINATING):
        type_ = MethodNotAllowed
    if type_ is None:
        type_ = ServerError if code >= 500 else ApiError
    details = status.details
    if retry_after is None and details is not None and details.retry_after_seconds:
        retry_after = float(details.retry_after_seconds)
    return type_(msgspec.structs.replace(status, code=code), retry_after=retry_after)


def refusal(reason: str, message: str) -> ApiError:
    """Return the server's refusal for a request that is known to be invalid before it is sent."""
    return api_error(Status("Failure", message, reason, REASON_CODES[reason]))


def status_from_answer(code: int, body: bytes, request: str) -> Status:
    """Return the Status in an answer that is no success, or one made from the HTTP code.

    Args:
        code: the HTTP status.
        body: the answer, which may be a proxy's HTML page, plain text or nothing.
        request: method and path, for the message of answers that have none.
    """
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return Status(message=f"{request}: {_describe(code, body)}", code=code)
    # Any JSON object can be read as a Status: one that says neither has not come from an API
    # server.
    if status.status != "Failure" and not status.reason:
        return Status(message=f"{request}: {_describe(code, body)}", code=code)
    return msgspec.structs.replace(status, code=status.code or code)


def _describe(code: int, body: bytes) -> str:
    if code == 404:
        return "the server does not serve this path; is the resource's CRD installed?"
    phrase = responses.get(code, "unknown status")
    text = body[:200].strip().lower()
    form = "an HTML page" if text.startswith(b"<") else "no Kubernetes Status"
    return f"{code} {phrase}, with {form if body else 'an empty body'}"
