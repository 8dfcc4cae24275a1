"""``servicebinding.io/requester``: the user whose rights a binding uses for its reads and writes.

Source: Service Binding Operator 1.4, whose mutating webhook writes the annotation for all users
but itself. A change of neither spec, labels nor annotations, such as by garbage collection, is no
edit and keeps the requester. For a binding with services of other namespaces a proof is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS, CoreosSpec
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION, foreign_services, proof


_MEMBERS = ("username", "uid", "groups", "extra")
_ANNOTATIONS = "/metadata/annotations"
NO_USER = '{"username":""}'
"""The annotation of a binding whose spec the controllers changed: a user without rights."""

Prove = Callable[[str], str]
"""Function that returns the proof of a requester, "" for none."""


def operations(
    user: JSON, own_user: str, new: JSON, old: JSON | None, prove: Prove = lambda _: ""
) -> Sequence[JSON]:
    """Return the JSON patch that records the editor of a binding; () without an edit.

    Args:
        user: the ``userInfo`` of the request.
        own_user: the user of this program.
        new: the binding after the request.
        old: the binding before it, None for a new one.
        prove: returns the proof; called only for an edit.
    """
    if user.get("username") == own_user:
        # The controllers never write a spec, so another user made them do it. Neither that user
        # nor the last editor is known to have requested the new spec.
        if old is not None and old.get("spec") != new.get("spec"):
            return _noted(new, {REQUESTER_ANNOTATION: NO_USER, PROOF_ANNOTATION: ""})
        return ()
    if old is not None and _edited(old) == _edited(new):
        return ()
    text = requester(user)
    return _noted(new, {REQUESTER_ANNOTATION: text, PROOF_ANNOTATION: prove(text)})


def _noted(new: JSON, marks: dict[str, str]) -> Sequence[JSON]:
    """Return the JSON patch that sets annotations, or removes those with ""."""
    annotations = (new.get("metadata") or {}).get("annotations")
    # A JSON patch cannot add a member to an object that is not there.
    if not annotations:
        added = {name: value for name, value in marks.items() if value}
        return ({"op": "add", "path": _ANNOTATIONS, "value": added},)
    return [one for name, value in marks.items() for one in _operation(annotations, name, value)]


def _operation(annotations: JSON, name: str, value: str) -> Sequence[JSON]:
    # JSON Pointer (RFC 6901) writes / as ~1; the names have no ~.
    path = f"{_ANNOTATIONS}/{name.replace('/', '~1')}"
    if value and annotations.get(name) != value:
        return ({"op": "add", "path": path, "value": value},)
    if not value and name in annotations:
        return ({"op": "remove", "path": path},)
    return ()


def requester(user: JSON) -> str:
    """Return the annotation's value: the UserInfo without empty fields."""
    user_info = {name: user[name] for name in _MEMBERS if user.get(name)}
    return msgspec.json.encode(user_info).decode()


def foreign_spec(binding: JSON, namespace: str) -> CoreosSpec | None:
    """Return the spec of a binding with services of other namespaces; None for others."""
    if binding.get("apiVersion") != COREOS_SERVICEBINDINGS.api_version:
        return None
    try:
        spec = msgspec.convert(binding.get("spec"), CoreosSpec)
    except msgspec.ValidationError:
        # The CRD's schema refuses it.
        return None
    return spec if foreign_services(spec, namespace) else None


def prover(
    key: bytes, namespace: str, name: str, spec: CoreosSpec, warn: Callable[[str], Any]
) -> Prove:
    """Return the function that proves requesters of one binding; ``warn`` gets its problems."""

    def prove(text: str) -> str:
        if not name:
            warn(_UNPROVEN.format("a name that servers generate is not known yet"))
            return ""
        if not key:
            warn(_UNPROVEN.format("the controllers have no key for it yet"))
            return ""
        return proof(key, namespace, name, text, spec)

    return prove


_UNPROVEN = (
    "services of other namespaces may stay refused: their requester cannot be recorded, because"
    " {}; change a label or an annotation of the binding later"
)


def _edited(binding: JSON) -> tuple[object, ...]:
    meta = binding.get("metadata") or {}
    return (binding.get("spec"), meta.get("labels") or {}, meta.get("annotations") or {})
