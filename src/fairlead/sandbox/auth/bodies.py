"""The bodies of reviews and token requests, checked for their types as a typed server does."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox import errors
from fairlead.sandbox.core import Call
from fairlead.sandbox.negotiation import decode_body
from fairlead.sandbox.shapes import Shape, misfit


class _Resource(Shape):
    namespace: str | None = None
    verb: str | None = None
    group: str | None = None
    version: str | None = None
    resource: str | None = None
    subresource: str | None = None
    name: str | None = None


class _Path(Shape):
    path: str | None = None
    verb: str | None = None


class _Reference(Shape):
    kind: str | None = None
    api_version: str | None = None
    name: str | None = None
    uid: str | None = None


class _Spec(Shape):
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str | None = None
    groups: list[str] | None = None
    uid: str | None = None
    extra: dict[str, list[str]] | None = None
    namespace: str | None = None
    token: str | None = None
    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


class _Body(Shape):
    spec: _Spec | None = None


def read_spec(call: Call, kind: str) -> JSON:
    """The spec of a request's body, {} when there is none.

    Raises:
        StatusError: 400 when the body cannot be read or a member has a wrong type.
    """
    body = decode_body(call.content_type, call.body, kind)
    wrong = misfit(_Body, body)
    if wrong:
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {wrong}'
        raise errors.bad_request(text)
    spec: Any = body.get("spec")
    return spec if isinstance(spec, dict) else {}
