"""Random keys that replicas of a program share, as the Secrets that hold them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping

import msgspec

from fairlead.api.meta import JSON, Object


KEY_BYTES = 32
"""Random bytes of a key, the length of a SHA-256 digest."""

_KEY = "key"


class UnusableKeyError(ValueError):
    """A Secret without a usable key; the text names it and the remedy, and quotes no content."""


class _Body(msgspec.Struct):
    data: dict[str, bytes] | None = None


def key_in(secret: Object) -> bytes:
    """Return the key that a Secret holds.

    Raises:
        UnusableKeyError: the Secret holds no key of the right length.
    """
    try:
        key = (secret.decode(_Body).data or {}).get(_KEY, b"")
    except msgspec.ValidationError:
        key = b""
    if len(key) != KEY_BYTES:
        # A new key is never made silently: replicas could no longer verify or open what the old
        # key made.
        raise UnusableKeyError(
            f"key {_KEY} of Secret {secret.key} has {len(key)} bytes instead of {KEY_BYTES};"
            " restore it from a backup, or delete the Secret to get a new one"
        )
    return key


def key_secret(namespace: str, name: str, labels: Mapping[str, str]) -> JSON:
    """Return an immutable Secret with a new random key."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        # A key that is edited would break every proof and session made with it.
        "immutable": True,
        "data": {_KEY: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()},
    }
