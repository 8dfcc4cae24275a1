"""Refusals and failures of requests: ``metav1.Status`` as an exception.

The messages are kube-apiserver's, because clients match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.errors import FieldError, summarize


MOST_FIELD_ERRORS = 100
"""Maximum number of field errors in an answer, which could be 100 times its request otherwise."""


class QualifiedResource(NamedTuple):
    """A plural and its group; as a string it is ``plural.group``, as error messages name it."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class StatusError(Exception):
    """An answer other than success; ``body()`` is its ``metav1.Status`` as JSON."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: JSON | None = None,
        headers: Mapping[str, str] | None = None,
        metadata: JSON | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.metadata = metadata or {}

    def status(self) -> JSON:
        """Return the Status object."""
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    def body(self) -> bytes:
        """Return the Status object as JSON."""
        return msgspec.json.encode(self.status())


def _details(resource: QualifiedResource, name: str = "") -> JSON:
    details: JSON = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.resource
    return details


def bad_request(message: str) -> StatusError:
    """Return a 400 BadRequest: the request is malformed or contradicts itself."""
    return StatusError(400, "BadRequest", message)


def not_found(resource: QualifiedResource, name: str) -> StatusError:
    """Return a 404 NotFound: no object has this name."""
    text = f'{resource} "{name}" not found'
    return StatusError(404, "NotFound", text, details=_details(resource, name))


def no_such_resource() -> StatusError:
    """Return a 404 NotFound: the API version has no such resource."""
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, details={})


def method_not_allowed() -> StatusError:
    """Return a 405 MethodNotAllowed: the resource does not serve this verb."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, details={})


def not_acceptable() -> StatusError:
    """Return a 406 NotAcceptable: the server writes none of the media types in ``Accept``."""
    # kube-apiserver writes the code into this message too.
    return StatusError(406, "NotAcceptable", "406: Not Acceptable", details={})


def already_exists(resource: QualifiedResource, name: str) -> StatusError:
    """Return a 409 AlreadyExists: an object has this name already."""
    text = f'{resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, details=_details(resource, name))


def conflict(resource: QualifiedResource, name: str, text: str = "") -> StatusError:
    """Return a 409 Conflict: the object has changed since the client read it."""
    text = text or (
        "the object has been modified; please apply your changes to the latest version and "
        "try again"
    )
    message = f'Operation cannot be fulfilled on {resource} "{name}": {text}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


def expired(message: str, *, token: str = "") -> StatusError:
    """Return a 410 Expired: the history since that resourceVersion is deleted.

    ``token`` is a continue token; a list that goes on with it reads the newest objects, and so may
    miss changes between its pages.
    """
    metadata = {"continue": token} if token else None
    return StatusError(410, "Expired", message, metadata=metadata)


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """Return a 415 UnsupportedMediaType: the request does not take a body of this format."""
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return StatusError(415, "UnsupportedMediaType", text)


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """Return a 422 Invalid with the field errors as its causes."""
    causes = list(errors)
    # The last cause says how many were left out, so that no client takes the list for complete.
    if len(causes) > MOST_FIELD_ERRORS:
        text = f"and {len(causes) - MOST_FIELD_ERRORS} more fields are wrong"
        causes = [*causes[:MOST_FIELD_ERRORS], FieldError("FieldValueInvalid", text, "<nil>")]
    details = _details(QualifiedResource(group, kind), name)
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field}
        for error in causes
    ]
    qualified = f"{kind}.{group}" if group else kind
    text = f'{qualified} "{name}" is invalid: {summarize(causes)}'
    return StatusError(422, "Invalid", text, details=details)


def forbidden(resource: QualifiedResource, name: str, text: str) -> StatusError:
    """Return a 403 Forbidden with the reason."""
    subject = f'{resource} "{name}"' if name else str(resource)
    message = f"{subject} is forbidden: {text}"
    return StatusError(403, "Forbidden", message, details=_details(resource, name))


def unauthorized() -> StatusError:
    """Return a 401 Unauthorized: the request's credentials are not valid."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def internal(message: str) -> StatusError:
    """Return a 500 InternalError: the server itself has failed."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")


def too_deep() -> StatusError:
    """Return a 400 BadRequest: objects and lists are nested too deeply for the server."""
    return bad_request("the request is nested too deeply for this server")


def too_large(text: str) -> StatusError:
    """Return a 413 RequestEntityTooLarge: the request exceeds a limit of the server."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")


def too_slow(seconds: float) -> StatusError:
    """Return a 504 Timeout: the request took longer than ``seconds``."""
    text = f"Timeout: request did not complete within requested timeout {seconds:g}s"
    return StatusError(504, "Timeout", text, details={})


def too_busy() -> StatusError:
    """Return a 429 TooManyRequests: too many heavy requests are waiting already."""
    text = "too many large requests are waiting, please try again later"
    details: JSON = {"retryAfterSeconds": 1}
    return StatusError(429, "TooManyRequests", text, details=details, headers={"Retry-After": "1"})


def disk_full(text: str) -> StatusError:
    """Return a 507 InsufficientStorage: the disk refused the change, which was not made."""
    return StatusError(507, "InsufficientStorage", f"the change was not made: {text}")


def version_too_large(version: int, current: int) -> StatusError:
    """Return a 504 Timeout: the resourceVersion asked for is above the newest one."""
    details: JSON = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    return StatusError(504, "Timeout", text, details=details, headers={"Retry-After": "1"})
