"""Equal strings of cached metadata, kept once.

Namespaces, labels and finalizers are the same in thousands of objects, and decoding makes new
strings of them for each.
"""

from __future__ import annotations

from fairlead.api.meta import ObjectMeta


MOST = 1024
"""About so many strings are remembered; a forgotten one is at worst kept twice."""

LONGEST = 64
"""Longer strings, in characters, are hardly ever equal."""


class SharedStrings:
    """Remembers the strings that were seen last."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def share(self, meta: ObjectMeta) -> None:
        """Have the metadata hold known strings in place of its own equal ones."""
        known = self._known
        if len(known) >= MOST:
            # Strings of one object alone, such as uids, fill it too; whatever repeats comes back.
            known.clear()
        meta.namespace = known.setdefault(meta.namespace, meta.namespace)
        if meta.finalizers:
            meta.finalizers = [known.setdefault(one, one) for one in meta.finalizers]
        for values in (meta.labels, meta.annotations):
            for name, value in values.items():
                if len(value) <= LONGEST:
                    values[name] = known.setdefault(value, value)
