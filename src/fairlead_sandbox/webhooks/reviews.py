"""AdmissionReviews: the request for a webhook, and the meaning of its answer.

The messages are those of kube-apiserver 1.31.
"""

from __future__ import annotations

import hashlib
import uuid
from http import HTTPStatus
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.webhooks.hooks import Hook
from fairlead_sandbox.webhooks.matching import ReviewedWrite


_GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")


class Question(msgspec.Struct, array_like=True):
    """One AdmissionReview that waits for its answer."""

    id: str
    """Hash of the request, equal in each attempt to write the same object."""
    uid: str
    hook: str
    """Name of the webhook."""
    mutating: bool
    version: str
    client: JSON
    """The webhook's ``clientConfig``."""
    seconds: int
    """Seconds in which the webhook must answer."""
    body: bytes


class WebhookAnswer(msgspec.Struct, array_like=True):
    """The answer of a webhook, or the failure to get one."""

    failure: str = ""
    """Why the webhook could not be called, or the fault of its answer; "" for a valid answer."""
    allowed: bool = False
    status: JSON = {}
    patch: bytes = b""
    warnings: list[str] = []


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: JSON | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: _Status | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


def question(
    hook: Hook,
    resource_type: ResourceType,
    write: ReviewedWrite,
    user: JSON,
    *,
    dry_run: bool,
    options: JSON,
) -> Question:
    """Return the AdmissionReview of a write for a webhook, in a version that the webhook accepts.

    Raises:
        StatusError: the webhook accepts no version of AdmissionReview that the server knows.
    """
    accepted = hook.spec.get("admissionReviewVersions") or []
    # The first version in the webhook's list that the server knows, as the API documents.
    version = next((name for name in accepted if name in _VERSIONS), "")
    resource, requested = resource_type.resource, write.type.resource
    request: JSON = {
        "uid": "",
        "kind": _named(resource.group, resource.version, kind=resource.kind),
        "resource": _named(resource.group, resource.version, resource=resource.plural),
        "requestKind": _named(requested.group, requested.version, kind=requested.kind),
        "requestResource": _named(requested.group, requested.version, resource=requested.plural),
        "name": write.key.name,
        "namespace": write.namespace,
        "operation": write.verb,
        "userInfo": user,
        "object": _converted(write.body, write.type, resource_type),
        "oldObject": _converted(write.old, write.type, resource_type),
        "dryRun": dry_run,
        "options": options,
    }
    if write.subresource:
        request["subResource"] = request["requestSubResource"] = write.subresource
    # With the webhook's id, because several webhooks may get the same request.
    identity = hashlib.sha256(f"{hook.id}\0".encode() + msgspec.json.encode(_timeless(request)))
    # After the hash, because the uid of the review is new in each attempt.
    request["uid"] = str(uuid.uuid4())
    review = {
        "kind": "AdmissionReview",
        "apiVersion": f"{_GROUP}/{version}",
        # Go omits a name or namespace that is empty.
        "request": {name: value for name, value in request.items() if value != ""},
    }
    return Question(
        identity.hexdigest(),
        request["uid"],
        hook.name,
        hook.phase == "mutating",
        version,
        hook.spec["clientConfig"],
        hook.spec.get("timeoutSeconds") or 10,
        msgspec.json.encode(review),
    )


def _named(group: str, version: str, **names: str) -> JSON:
    return {"group": group, "version": version, **names}


def _converted(body: JSON | None, given: ResourceType, target: ResourceType) -> JSON | None:
    return body if body is None else converted(body, given, target)


def converted(body: JSON, given: ResourceType, target: ResourceType) -> JSON:
    """Return the body in another version of its resource."""
    if given is target:
        return body
    stored = given.stored(body)
    if target.encode is not None:
        return target.encode(stored)
    return {**stored, "apiVersion": target.resource.api_version}


def _timeless(request: JSON) -> JSON:
    """Return the request without managed fields, whose times differ in each attempt."""
    body = request["object"]
    if body is None or "managedFields" not in body["metadata"]:
        return request
    remaining = {
        name: value for name, value in body["metadata"].items() if name != "managedFields"
    }
    return {**request, "object": {**body, "metadata": remaining}}


def read(question: Question, code: int, content: bytes) -> WebhookAnswer:
    """Parse a webhook's HTTP response; return its answer, or the failure to get one."""
    # client-go, by which kube-apiserver calls webhooks, takes 200 to 206 for success.
    if not HTTPStatus.OK <= code <= HTTPStatus.PARTIAL_CONTENT:
        return WebhookAnswer(f"failed to call webhook: {_refusal(code, content)}")
    try:
        review = msgspec.json.decode(content, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return WebhookAnswer(
            f"failed to call webhook: couldn't get version/kind; json parse error: {error}"
        )
    wrong = _wrong(question, review)
    if wrong:
        return WebhookAnswer(f"received invalid webhook response: {wrong}")
    response = review.response or _Response()
    status = response.status or _Status()
    return WebhookAnswer(
        allowed=response.allowed,
        status=msgspec.to_builtins(status),
        patch=response.patch or b"",
        warnings=response.warnings or [],
    )


def _refusal(code: int, content: bytes) -> str:
    shown = content[:1024].decode(errors="replace").strip() or "unknown"
    if code in _REFUSALS:
        return _REFUSALS[code]
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        quoted = msgspec.json.encode(shown).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}
"""Messages of client-go for HTTP codes whose body is no Status."""


def _wrong(question: Question, review: _Review) -> str:
    """Return the fault of a review in an answer, "" for a valid one."""
    response = review.response
    if response is None:
        return "webhook response was absent"
    # v1beta1 requires neither the uid nor apiVersion and kind in the answer.
    if question.version == "v1":
        if response.uid != question.uid:
            return f'expected response.uid="{question.uid}", got "{response.uid}"'
        if (review.api_version, review.kind) != (f"{_GROUP}/v1", "AdmissionReview"):
            actual = f"{review.api_version}, Kind={review.kind}"
            return f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {actual}"
    return _wrong_patch(question, response)


def _wrong_patch(question: Question, response: _Response) -> str:
    if not question.mutating:
        if response.patch:
            return "validating webhook may not return response.patch"
        if response.patch_type is not None:
            return "validating webhook may not return response.patchType"
        return ""
    if response.patch and response.patch_type is None and question.version == "v1":
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    if response.patch_type not in {None, "JSONPatch"}:
        return f'webhook returned invalid response.patchType of "{response.patch_type}"'
    return ""


def denial(name: str, status: JSON) -> StatusError:
    """Return the error of a write that a webhook denies, with the webhook's code and message."""
    text = f'admission webhook "{name}" denied the request'
    message, reason = status.get("message") or "", status.get("reason") or ""
    reason_text = message or reason
    return StatusError(
        # A denial stays an error even if the webhook sends a code such as 200 (ToStatusErr of
        # k8s.io/apiserver).
        max(int(status.get("code") or 0), HTTPStatus.BAD_REQUEST),
        reason,
        f"{text}: {reason_text}" if reason_text else f"{text} without explanation",
        details=status.get("details"),
    )


def failed(name: str, reason: str) -> StatusError:
    """Return the error of a write whose webhook could not be called, with failurePolicy Fail."""
    return internal(f'failed calling webhook "{name}": {reason}')


def internal(text: str) -> StatusError:
    """Return a 500 with the message also as its cause."""
    error = errors.internal(text)
    error.details = {"causes": [{"message": text}]}
    return error


def no_dry_run(name: str) -> StatusError:
    """Return the error of a dry run for which a webhook with side effects would be called."""
    return errors.bad_request(f'admission webhook "{name}" does not support dry run')


def options(kind: str, *, dry_run: bool, manager: str) -> JSON:
    """Return the options of a request as its review shows them."""
    body: JSON = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if dry_run:
        body["dryRun"] = ["All"]
    if manager:
        body["fieldManager"] = manager
    return body


def patch_of(answer: WebhookAnswer) -> Any:
    """Return the operations of an answer's patch, [] if it has none.

    Raises:
        ValueError: the patch is no JSON.
    """
    return msgspec.json.decode(answer.patch) if answer.patch else []
