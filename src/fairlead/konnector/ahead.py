"""Our own writes, until the cache has seen them.

A cache lags behind what was just written. Acting on it would write the same again, and be
refused. Versions are compared as numbers, as every server has them; where they are none, the
cache is believed.
"""

from __future__ import annotations

from fairlead.api.meta import Key, Object


class Ahead:
    """What was written to one collection and not seen in its cache yet."""

    def __init__(self) -> None:
        self._written: dict[Key, Object] = {}
        self._created: set[Key] = set()

    def wrote(self, obj: Object, *, created: bool = False) -> None:
        """Remember what the server answered to a write."""
        self._written[obj.key] = obj
        if created:
            self._created.add(obj.key)

    def seen(self, key: Key) -> None:
        """The cache has told of the object: if it holds none, there is none."""
        self._created.discard(key)

    def forget(self, key: Key) -> None:
        """Believe the cache."""
        self._written.pop(key, None)
        self._created.discard(key)

    def clear(self) -> None:
        """Believe the cache in everything."""
        self._written.clear()
        self._created.clear()

    def newest(self, key: Key, cached: Object | None) -> Object | None:
        """The object as it was last seen or written, whichever is later."""
        written = self._written.get(key)
        if written is None:
            return cached
        if cached is None and key in self._created:
            return written
        if cached is None or cached.meta.uid != written.meta.uid or _as_new(cached, written):
            self.forget(key)
            return cached
        return written


def _as_new(cached: Object, written: Object) -> bool:
    try:
        return int(cached.meta.resource_version) >= int(written.meta.resource_version)
    except ValueError:
        return True
