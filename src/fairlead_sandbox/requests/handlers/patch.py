"""PATCH with JSON, merge and strategic merge patches; ``apply`` has server-side apply."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.patch import apply_merge_patch
from fairlead_sandbox import errors
from fairlead_sandbox.objects import writes
from fairlead_sandbox.patches import PatchError, json_patch, strategic_merge_patch
from fairlead_sandbox.requests.bodies import decode_json, go_kind
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers.apply import APPLY_PATCH
from fairlead_sandbox.requests.handlers.apply import apply as server_side_apply
from fairlead_sandbox.requests.handlers.read import existing
from fairlead_sandbox.requests.handlers.write import answer, check_request, with_warnings
from fairlead_sandbox.schema.errors import forbidden


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_REASONS = {400: "BadRequest", 413: "RequestEntityTooLarge", 422: "Invalid"}
"""Reasons of the Status by the HTTP code of a refused patch."""


async def patch(call: Call) -> Answer:
    """Change an object or its status by a patch."""
    media_type = call.content_type.partition(";")[0].strip().lower()
    if media_type == APPLY_PATCH:
        return await server_side_apply(call)
    _check_type(call, media_type)
    old = existing(call)
    body = apply(call, media_type, call.type.to_dict(old))
    warnings = check_request(call, "PatchOptions", body)
    record = writes.update(
        call.core,
        call.type,
        old,
        body,
        call.writing._replace(patched=True),
    )
    return with_warnings(await answer(call, record), warnings)


def apply(call: Call, media_type: str, current: JSON) -> JSON:
    """Return the current body with the request's patch applied.

    Raises:
        StatusError: the patch cannot be read or does not fit the body.
    """
    if "force" in call.query:
        wrong = forbidden("force", "may not be specified for non-apply patch")
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", [wrong])
    change = _decode(call.body)
    try:
        if media_type == JSON_PATCH:
            result = json_patch(current, change)
        elif not isinstance(change, dict):
            text = f"json: cannot unmarshal {go_kind(change)} into Go value of type "
            raise errors.bad_request(text + "map[string]interface {}")
        elif media_type == STRATEGIC_PATCH:
            result = strategic_merge_patch(call.type.resource.kind, current, change)
        else:
            result = apply_merge_patch(current, change)
    except PatchError as error:
        raise _refused(error) from None
    if not isinstance(result, dict):
        raise errors.bad_request("the patched document is not a JSON object")
    return result


def _refused(error: PatchError) -> errors.StatusError:
    cause = {"message": error.detail, "field": "patch"}
    if error.reason:
        cause = {"reason": error.reason, **cause}
    details: JSON = {"causes": [cause]} if error.detail else {}
    reason = _REASONS.get(error.code, "")
    return errors.StatusError(error.code, reason, error.message, details=details)


def _check_type(call: Call, media_type: str) -> None:
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not call.type.custom:
        accepted.append(STRATEGIC_PATCH)
    if media_type not in accepted and not call.type.custom:
        # For built-in kinds kube-apiserver answers 415 without the list of media types that the
        # answer for a custom resource has.
        text = "415: Unsupported Media Type"
        raise errors.StatusError(415, "UnsupportedMediaType", text, details={})
    if media_type not in accepted:
        raise errors.unsupported_media_type(accepted)


def _decode(body: bytes) -> Any:
    try:
        return decode_json(body)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None
