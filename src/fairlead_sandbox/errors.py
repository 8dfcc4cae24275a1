"""Refusals and failures of requests: ``metav1.Status`` as an exception.

The texts are those of kube-apiserver, because clients and people match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.errors import FieldError, summarize


MOST_FIELD_ERRORS = 100
"""Wrong fields that an answer names; more could make it a hundred times its request."""


class QualifiedResource(NamedTuple):
    """A plural and its group, as error messages name it."""

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
        """The Status object."""
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
        """The Status as JSON."""
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
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def not_found(resource: QualifiedResource, name: str) -> StatusError:
    """404: no object of this name."""
    text = f'{resource} "{name}" not found'
    return StatusError(404, "NotFound", text, details=_details(resource, name))


def no_such_resource() -> StatusError:
    """404: no resource of this name in the API version."""
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, details={})


def method_not_allowed() -> StatusError:
    """405: the resource has no such verb."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, details={})


def not_acceptable() -> StatusError:
    """406: none of the media types asked for can be written."""
    return StatusError(406, "NotAcceptable", "406: Not Acceptable", details={})


def already_exists(resource: QualifiedResource, name: str) -> StatusError:
    """409: the name is taken."""
    text = f'{resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, details=_details(resource, name))


def conflict(resource: QualifiedResource, name: str, text: str = "") -> StatusError:
    """409: the object is no longer the one the client saw."""
    text = text or (
        "the object has been modified; please apply your changes to the latest version and "
        "try again"
    )
    message = f'Operation cannot be fulfilled on {resource} "{name}": {text}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


def expired(message: str, *, token: str = "") -> StatusError:
    """410: that history is gone; ``token`` lets a list go on inconsistently."""
    metadata = {"continue": token} if token else None
    return StatusError(410, "Expired", message, metadata=metadata)


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """415: the body is in a format that this request does not take."""
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return StatusError(415, "UnsupportedMediaType", text)


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422: the fields named in the causes are wrong."""
    found = list(errors)
    if len(found) > MOST_FIELD_ERRORS:
        text = f"and {len(found) - MOST_FIELD_ERRORS} more fields are wrong"
        found = [*found[:MOST_FIELD_ERRORS], FieldError("FieldValueInvalid", text, "<nil>")]
    details = _details(QualifiedResource(group, kind), name)
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in found
    ]
    qualified = f"{kind}.{group}" if group else kind
    text = f'{qualified} "{name}" is invalid: {summarize(found)}'
    return StatusError(422, "Invalid", text, details=details)


def forbidden(resource: QualifiedResource, name: str, text: str) -> StatusError:
    """403: not allowed, and why."""
    subject = f'{resource} "{name}"' if name else str(resource)
    message = f"{subject} is forbidden: {text}"
    return StatusError(403, "Forbidden", message, details=_details(resource, name))


def unauthorized() -> StatusError:
    """401: the request has no valid credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def internal(message: str) -> StatusError:
    """500: the server's own fault."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")


def too_deep() -> StatusError:
    """400: objects and lists stand in one another beyond what the server can follow."""
    return bad_request("the request is nested too deeply for this server")


def too_large(text: str) -> StatusError:
    """413: there is more of something than the server takes."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")


def too_slow(seconds: float) -> StatusError:
    """504: the request was not worked out in time."""
    text = f"Timeout: request did not complete within requested timeout {seconds:g}s"
    return StatusError(504, "Timeout", text, details={})


def too_busy() -> StatusError:
    """429: as many large requests wait as the server takes on."""
    text = "too many large requests wait to be worked out, please try again later"
    details: JSON = {"retryAfterSeconds": 1}
    return StatusError(429, "TooManyRequests", text, details=details, headers={"Retry-After": "1"})


def disk_full(text: str) -> StatusError:
    """507: the change could not be written to the disk, and was not made."""
    return StatusError(507, "InsufficientStorage", f"the change was not made: {text}")


def version_too_large(asked: int, current: int) -> StatusError:
    """504: the resourceVersion asked for has not happened yet."""
    details: JSON = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", text, details=details, headers={"Retry-After": "1"})
