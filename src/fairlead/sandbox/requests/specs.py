"""The bodies of reviews and token requests, checked for their types as a typed server does."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox import errors
from fairlead.sandbox.kinds import load, misfit
from fairlead.sandbox.objects.core import Call
from fairlead.sandbox.requests.negotiation import decode_body


def read_spec(call: Call, kind: str) -> JSON:
    """The spec of a request's body, {} when there is none.

    Raises:
        StatusError: 400 when the body cannot be read or a member has a wrong type.
    """
    body = decode_body(call.content_type, call.body, kind)
    wrong = misfit(load().messages[kind], body)
    if wrong:
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {wrong}'
        raise errors.bad_request(text)
    spec: Any = body.get("spec")
    return spec if isinstance(spec, dict) else {}
