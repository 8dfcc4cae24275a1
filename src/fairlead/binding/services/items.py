"""Binding items: the entries that a pass collects, and the Secret that they become."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api.golang.text import go_text
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.generated import generated_name
from fairlead.binding import bounds


MOST_CHARACTERS = 4 * bounds.SECRET_BYTES
"""Largest size of all names before renaming, in characters."""
MOST_COLLECTED = 8 * bounds.SECRET_BYTES
"""Largest size of all values, in bytes, before later ones replace earlier ones."""

_ENTRY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")


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
        raise ValueError(f"data of {place} is not an object")  # noqa: TRY004 (of what a user wrote)
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
        if size > bounds.SECRET_BYTES:
            raise ValueError(
                f"the binding's entries have more than {bounds.SECRET_BYTES} bytes together, the"
                " limit of a Secret: bind fewer services at once, or entries with a mapping"
            )
    return content


def secret_name(binding: str, content: Mapping[str, bytes]) -> str:
    """Return the intermediate Secret's name: new content has a new name, hence a rollout."""
    return generated_name(binding, digest(content))


def digest(content: Mapping[str, bytes]) -> str:
    """Return eight hexadecimal digits that change with the content."""
    hasher = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        # Without separators, since the digest has to equal Service Binding Operator's: see
        # other_name.
        hasher.update(name.encode())
        hasher.update(content[name])
    return hasher.hexdigest()[:8]


def other_name(binding: str, content: Mapping[str, bytes]) -> str:
    """Return another name of a content, if :func:`secret_name` collides with another content.

    That digest does not separate names from values, so ``ab: c`` and ``a: bc`` collide; it has
    to equal Service Binding Operator's, whose Secrets keep their names.
    """
    hasher = hashlib.sha256()
    for name in sorted(content, key=str.encode):
        for part in (name.encode(), content[name]):
            hasher.update(len(part).to_bytes(8) + part)
    return generated_name(binding, hasher.hexdigest()[:8])


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


class TooManyEntries(ValueError):  # noqa: N818 (a finding)
    """More was collected than a Secret can hold."""

    def __init__(self) -> None:
        super().__init__(
            f"the binding collects more than {bounds.ENTRIES:,} entries, names of more than "
            f"{MOST_CHARACTERS:,} characters or values of more than {MOST_COLLECTED:,} bytes: "
            "bind fewer services at once, or lists and objects with fewer members"
        )


class Entries:
    """The entries collected so far; ``overrides`` replace those of services."""

    def __init__(self) -> None:
        self.overrides: Sequence[Item] = ()
        self._sources: list[SecretSource] = []
        self._added: list[Item] = []
        self._count = 0
        self._characters = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._sources or self._added)

    def add_source(self, source: SecretSource) -> None:
        """Add the entries of an existing Secret.

        Raises:
            TooManyEntries: a limit is exceeded.
        """
        self._bound(source.items)
        self._sources.append(source)

    def add_item(self, item: Item) -> None:
        """Add an entry.

        Raises:
            TooManyEntries: a limit is exceeded.
        """
        self._bound([item])
        self._added.append(item)

    def _bound(self, items: Sequence[Item]) -> None:
        # Counted before entries replace one another: all of them are in memory at once.
        self._count += len(items)
        self._characters += sum(len(item.name) for item in items)
        self._bytes += sum(
            len(item.value) for item in items if isinstance(item.value, str | bytes)
        )
        if (
            self._count > bounds.ENTRIES
            or self._characters > MOST_CHARACTERS
            or self._bytes > MOST_COLLECTED
        ):
            raise TooManyEntries

    def items(self) -> list[Item]:
        """Return entries of Secrets, added ones, and overrides; none if only overrides exist."""
        collected = [item for source in self._sources for item in source.items] + self._added
        # Overrides alone would make a Secret with a type and without data.
        # Last, since the later entry wins: spec.type has to override the service's (specification
        # 1.1).
        return [*collected, *self.overrides] if collected else []

    def direct(self, namespace: str) -> str:
        """Return the only Secret's name, if it can be projected as it is; else ""."""
        # An entry beside the Secret's own needs a generated Secret, with a copy of them all.
        if len(self._sources) != 1 or self._added or self.overrides:
            return ""
        source = self._sources[0]
        # Pods can only mount Secrets of their own namespace, with the keys in it.
        same = source.namespace == namespace and not source.renamed
        return source.name if same else ""

    def content(self) -> dict[str, bytes]:
        """Return the values by name, ordered by name.

        Raises:
            ValueError: an entry's name is not a valid key, or the content is too large.
        """
        content = merge(self.items())
        for name in content:
            if not _ENTRY.fullmatch(name):
                raise ValueError(
                    f"binding entry {name!r} is not a valid key of a Secret: keys consist of "
                    "letters, digits, '-', '_' and '.', not beginning with '..'; rename it with "
                    "a mapping or a naming strategy"
                )
        return content
