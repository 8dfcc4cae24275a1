"""The entries that a pass collects, and their Secret."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fairlead.binding.services.items import MOST_BYTES, Item, SecretSource, merge


MOST_ENTRIES = 20_000
"""Largest number of collected entries, before later ones replace earlier ones."""
MOST_CHARACTERS = 4 * MOST_BYTES
"""Largest size of all names before renaming, in characters."""
MOST_COLLECTED = 8 * MOST_BYTES
"""Largest size of all values, in bytes, before later ones replace earlier ones."""

_ENTRY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")


class TooManyEntries(ValueError):  # noqa: N818 (a finding)
    """More was collected than a Secret can hold."""

    def __init__(self) -> None:
        super().__init__(
            f"the binding collects more than {MOST_ENTRIES:,} entries, names of more than "
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
        self._count += len(items)
        self._characters += sum(len(item.name) for item in items)
        self._bytes += sum(
            len(item.value) for item in items if isinstance(item.value, str | bytes)
        )
        if (
            self._count > MOST_ENTRIES
            or self._characters > MOST_CHARACTERS
            or self._bytes > MOST_COLLECTED
        ):
            raise TooManyEntries

    def items(self) -> list[Item]:
        """Return entries of Secrets, added ones, and overrides; none if only overrides exist."""
        collected = [item for source in self._sources for item in source.items] + self._added
        # Overrides alone would make a Secret with a type and without data.
        return [*collected, *self.overrides] if collected else []

    def direct(self, namespace: str) -> str:
        """Return the only Secret's name, if it can be projected as it is; else ""."""
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
