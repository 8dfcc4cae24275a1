"""``servicebinding.io/requester-proof``: a signature over the requester and spec of a binding.

While no webhook is registered, a writer of a binding can name another user as its requester. So
the webhook signs the requester, with a key that the controllers alone have.
"""

from __future__ import annotations

import hmac

import msgspec

from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS, CoreosSpec


PROOF_ANNOTATION = "servicebinding.io/requester-proof"
"""Hex HMAC-SHA256 over names, requester and spec of a binding with foreign services."""

# Part of the signed text, so that a proof of another format is never taken for one of this.
_FORMAT = "fairlead requester 1"


def foreign_services(spec: CoreosSpec, namespace: str) -> list[int]:
    """Return the positions of the services outside of the binding's own namespace."""
    return [
        position
        for position, service in enumerate(spec.services)
        if service.namespace is not None and service.namespace != namespace
    ]


def proof(key: bytes, namespace: str, name: str, requester: str, spec: CoreosSpec) -> str:
    """Return the annotation's value.

    The spec counts as controllers read it, so that neither defaults that a server adds nor the
    order of members change the value.
    """
    # The group and both names keep a proof from being copied to another binding.
    parts = [_FORMAT, COREOS_SERVICEBINDINGS.group, namespace, name, requester, spec]
    return hmac.digest(key, msgspec.json.encode(parts, order="sorted"), "sha256").hex()


def is_proven(
    given: str, key: bytes, namespace: str, name: str, requester: str, spec: CoreosSpec
) -> bool:
    """Whether a proof is the right one, compared in constant time."""
    expected = proof(key, namespace, name, requester, spec)
    # As bytes: compare_digest takes only ASCII strings, and the annotation may hold any text.
    return hmac.compare_digest(given.encode(), expected.encode())
