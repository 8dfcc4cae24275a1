"""Binding items: the entries that a binding's Secret consists of."""

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
"""That the values of a Secret may have together (``MaxSecretSize`` of Kubernetes)."""


class Source(msgspec.Struct, frozen=True):
    """The service an item came from, as naming strategies see it."""

    kind: str
    name: str


class Item(msgspec.Struct):
    """One entry; without a source it is never renamed. Values are JSON values or bytes."""

    name: str
    value: Any
    source: Source | None = None


class SecretSource(msgspec.Struct):
    """The items that are the entries of one existing Secret."""

    namespace: str
    name: str
    items: list[Item]
    original: tuple[str, ...]

    @property
    def renamed(self) -> bool:
        """Whether any entry has another name than in the Secret."""
        return tuple(item.name for item in self.items) != self.original


def secret_source(secret: JSON, source: Source) -> SecretSource | None:
    """The entries of a Secret as items; None when it has no data at all.

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
    """The decoded entries of a Secret, by their names in order.

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
    """What is written into the Secret for a value."""
    return value if isinstance(value, bytes) else go_text(value).encode()


def merge(items: Iterable[Item]) -> dict[str, bytes]:
    """The content of the binding; of items with one name the last one counts.

    Raises:
        ValueError: the values have more bytes together than a Secret may have, or one of them is
            nested too deeply.
    """
    values = {item.name: item.value for item in items}
    content: dict[str, bytes] = {}
    size = 0
    for name in sorted(values, key=str.encode):
        # Each may be the text of a whole object: as many as there are would fill the memory.
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
    """The name of the intermediate Secret: changed content is a new name, hence a rollout."""
    return f"{binding}-{digest(content)}"


def digest(content: Mapping[str, bytes]) -> str:
    """Eight hexadecimal digits that change with the content."""
    found = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        found.update(name.encode())
        found.update(content[name])
    return found.hexdigest()[:8]


def other_name(binding: str, content: Mapping[str, bytes]) -> str:
    """Another name for a content, for when :func:`secret_name` has that of another one.

    The digest has no bounds between names and values, as that of the original operator, whose
    Secrets keep their names: ``ab: c`` and ``a: bc`` are the same to it.
    """
    found = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        for part in (name.encode(), content[name]):
            found.update(len(part).to_bytes(8) + part)
    return f"{binding}-{found.hexdigest()[:8]}"


def is_mistaken(there: JSON, content: Mapping[str, bytes]) -> bool:
    """Whether a Secret has another content that has the same name.

    One whose content somebody has edited would have another name by it.
    """
    try:
        data = decode_data(there)
    except ValueError:
        return False
    return data != content and digest(data) == digest(content)


def encode_data(content: Mapping[str, bytes]) -> dict[str, str]:
    """The ``data`` of a Secret with this content."""
    return {name: base64.b64encode(value).decode() for name, value in content.items()}
