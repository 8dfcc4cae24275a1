"""Binding items: the entries of a binding's Secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fairlead.api.golang.text import go_text
from fairlead.api.meta import JSON


MOST_BYTES = 1024 * 1024
"""Largest size of a Secret's values, in bytes (``MaxSecretSize`` of Kubernetes)."""


class Source(msgspec.Struct, frozen=True):
    """The service an item came from, as naming strategies see it."""

    kind: str
    name: str


class Item(msgspec.Struct):
    """An entry; without a source it is never renamed. Values are JSON values or bytes."""

    name: str
    value: Any
    source: Source | None = None


class SecretSource(msgspec.Struct):
    """The entries of an existing Secret as items."""

    namespace: str
    name: str
    items: list[Item]
    original: tuple[str, ...]

    @property
    def renamed(self) -> bool:
        """Whether an entry has another name than in the Secret."""
        return tuple(item.name for item in self.items) != self.original


def secret_source(secret: JSON, source: Source) -> SecretSource | None:
    """Return the entries of a Secret as items; None without data.

    Raises:
        ValueError: an entry is not base64; the message names it.
    """
    if secret.get("data") is None:
        return None
    meta = secret["metadata"]
    entries = decode_data(secret)
    return SecretSource(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        items=[Item(name, value, source) for name, value in entries.items()],
        original=tuple(entries),
    )


def decode_data(secret: JSON) -> dict[str, bytes]:
    """Decode the entries of a Secret, ordered by name.

    Raises:
        ValueError: an entry is not base64; the message names it, never its value. Null is empty.
    """
    result: dict[str, bytes] = {}
    data: Any = secret.get("data") or {}
    meta = secret["metadata"]
    place = f"Secret {meta.get('namespace', '')}/{meta['name']}"
    if not isinstance(data, dict):
        raise ValueError(f"data of {place} is no object")  # noqa: TRY004 (of what a user wrote)
    for name in sorted(data):
        value = "" if data[name] is None else data[name]
        try:
            if not isinstance(value, str):
                raise binascii.Error
            result[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"entry {name} of {place} is not base64") from None
    return result


def to_bytes(value: Any) -> bytes:
    """Return a value's bytes in the Secret."""
    return value if isinstance(value, bytes) else go_text(value).encode()


def merge(items: Iterable[Item]) -> dict[str, bytes]:
    """Return the content of the binding; of items with one name the last one wins.

    Raises:
        ValueError: the values are larger than a Secret may be, or one of them is nested too
            deeply.
    """
    values = {item.name: item.value for item in items}
    content: dict[str, bytes] = {}
    size = 0
    for name in sorted(values, key=str.encode):
        # Checked inside the loop, since each value may be the text of a large object.
        try:
            content[name] = to_bytes(values[name])
        except RecursionError:
            raise ValueError(f"binding entry {name!r} is nested too deeply") from None
        size += len(content[name])
        if size > MOST_BYTES:
            raise ValueError(
                f"the binding's entries have more than {MOST_BYTES} bytes together, which is "
                "what a Secret holds: bind fewer services at once, or entries with a mapping"
            )
    return content


def secret_name(binding: str, content: Mapping[str, bytes]) -> str:
    """Return the intermediate Secret's name: new content has a new name, hence a rollout."""
    return f"{binding}-{digest(content)}"


def digest(content: Mapping[str, bytes]) -> str:
    """Return eight hexadecimal digits that change with the content."""
    found = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        found.update(name.encode())
        found.update(content[name])
    return found.hexdigest()[:8]


def other_name(binding: str, content: Mapping[str, bytes]) -> str:
    """Return another name of a content, if :func:`secret_name` collides with another content.

    That digest does not separate names from values, so ``ab: c`` and ``a: bc`` collide; it has
    to equal Service Binding Operator's, whose Secrets keep their names.
    """
    found = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        for part in (name.encode(), content[name]):
            found.update(len(part).to_bytes(8) + part)
    return f"{binding}-{found.hexdigest()[:8]}"


def is_mistaken(there: JSON, content: Mapping[str, bytes]) -> bool:
    """Whether the Secret has another content with the same digest.

    A Secret whose content was edited has another digest than its name.
    """
    try:
        data = decode_data(there)
    except ValueError:
        return False
    return data != content and digest(data) == digest(content)


def encode_data(content: Mapping[str, bytes]) -> dict[str, str]:
    """Encode a content as the ``data`` of a Secret."""
    return {name: base64.b64encode(value).decode() for name, value in content.items()}
