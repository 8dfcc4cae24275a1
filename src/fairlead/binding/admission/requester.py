"""``servicebinding.io/requester``: on whose behalf a binding reads services and changes workloads.

Source: Service Binding Operator 1.4, whose mutating webhook writes the annotation for everybody
but itself. What changes neither spec nor labels nor annotations, as garbage collection and
finalizers do, is no edit and leaves the requester.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION


_MEMBERS = ("username", "uid", "groups", "extra")
_POINTER = f"/metadata/annotations/{REQUESTER_ANNOTATION.replace('/', '~1')}"


def operations(user: JSON, own_user: str, new: JSON, old: JSON | None) -> Sequence[JSON]:
    """The JSON patch that notes who edits a binding; () where nothing is to be noted.

    Args:
        user: the ``userInfo`` of the request.
        own_user: the user as whom this program itself writes.
        new: the binding as it is going to be.
        old: as it was, None for a new one.
    """
    if user.get("username") == own_user:
        return ()
    if old is not None and _edited(old) == _edited(new):
        return ()
    text = requester(user)
    annotations = (new.get("metadata") or {}).get("annotations")
    if not annotations:
        added = {REQUESTER_ANNOTATION: text}
        return ({"op": "add", "path": "/metadata/annotations", "value": added},)
    if annotations.get(REQUESTER_ANNOTATION) == text:
        return ()
    return ({"op": "add", "path": _POINTER, "value": text},)


def requester(user: JSON) -> str:
    """The annotation's value: the UserInfo, without what is empty."""
    found = {name: user[name] for name in _MEMBERS if user.get(name)}
    return msgspec.json.encode(found).decode()


def _edited(binding: JSON) -> tuple[object, ...]:
    meta = binding.get("metadata") or {}
    return (binding.get("spec"), meta.get("labels") or {}, meta.get("annotations") or {})
