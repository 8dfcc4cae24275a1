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

    def share(self, meta: ObjectMeta, old: ObjectMeta | None = None) -> None:
        """Have the metadata hold known strings in place of its own equal ones.

        Args:
            meta: of the object that is kept from now on.
            old: of the version of it that was kept until now, if there was one.
        """
        if old is not None and _inherited(meta, old):
            return
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


def _inherited(meta: ObjectMeta, old: ObjectMeta) -> bool:
    """Whether all that is shared is as it was: most changes leave it alone."""
    if (
        meta.labels != old.labels
        or meta.annotations != old.annotations
        or meta.finalizers != old.finalizers
        or meta.namespace != old.namespace
    ):
        return False
    meta.labels, meta.annotations, meta.finalizers = old.labels, old.annotations, old.finalizers
    meta.namespace, meta.name = old.namespace, old.name
    if meta.uid == old.uid:
        meta.uid = old.uid
    return True
