"""``servicebinding.io/requester``: on whose behalf a binding reads services and changes workloads.

Source: Service Binding Operator 1.4, whose mutating webhook writes the annotation for everybody
but itself. What changes neither spec, labels nor annotations, as garbage collection and
finalizers do, is no edit and leaves the requester. Where a binding names services of other
namespaces, a proof goes with it.
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
NOBODY = '{"username":""}'
"""The requester annotation of a binding whose spec the controllers changed; it has no right."""

Prove = Callable[[str], str]
"""The proof that goes with a requester, "" for none."""


def operations(
    user: JSON, own_user: str, new: JSON, old: JSON | None, prove: Prove = lambda _: ""
) -> Sequence[JSON]:
    """The JSON patch that notes who edits a binding; () where nothing is to be noted.

    Args:
        user: the ``userInfo`` of the request.
        own_user: the user as whom this program itself writes.
        new: the binding as it is going to be.
        old: as it was, None for a new one.
        prove: asked only where there is something to note.
    """
    if user.get("username") == own_user:
        # The controllers write no spec. Who had them do it has not asked for what it says now, and
        # neither has whoever edited the binding before.
        if old is not None and old.get("spec") != new.get("spec"):
            return _noted(new, {REQUESTER_ANNOTATION: NOBODY, PROOF_ANNOTATION: ""})
        return ()
    if old is not None and _edited(old) == _edited(new):
        return ()
    text = requester(user)
    return _noted(new, {REQUESTER_ANNOTATION: text, PROOF_ANNOTATION: prove(text)})


def _noted(new: JSON, wanted: dict[str, str]) -> Sequence[JSON]:
    """The JSON patch that gives these annotations their values, or removes them for ""."""
    annotations = (new.get("metadata") or {}).get("annotations")
    if not annotations:
        added = {name: value for name, value in wanted.items() if value}
        return ({"op": "add", "path": _ANNOTATIONS, "value": added},)
    return [one for name, value in wanted.items() for one in _operation(annotations, name, value)]


def _operation(annotations: JSON, name: str, value: str) -> Sequence[JSON]:
    path = f"{_ANNOTATIONS}/{name.replace('/', '~1')}"
    if value and annotations.get(name) != value:
        return ({"op": "add", "path": path, "value": value},)
    if not value and name in annotations:
        return ({"op": "remove", "path": path},)
    return ()


def requester(user: JSON) -> str:
    """The annotation's value: the UserInfo, without what is empty."""
    found = {name: user[name] for name in _MEMBERS if user.get(name)}
    return msgspec.json.encode(found).decode()


def foreign_spec(binding: JSON, namespace: str) -> CoreosSpec | None:
    """The spec of a binding with services of other namespaces; None for any other."""
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
    """Proves for one binding; ``warn`` is told why where it cannot."""

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
    "services of other namespaces may stay refused: who asks for them cannot be recorded, for {}; "
    "change a label or an annotation of the binding later"
)


def _edited(binding: JSON) -> tuple[object, ...]:
    meta = binding.get("metadata") or {}
    return (binding.get("spec"), meta.get("labels") or {}, meta.get("annotations") or {})
