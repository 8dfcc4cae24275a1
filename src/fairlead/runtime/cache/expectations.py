"""Our own writes, until the cache has seen them; controllers of Kubernetes call them expectations.

A cache lags behind what was just written. Acting on it would write the same again, and be refused
for the older resourceVersion. So the server's answer to a write is laid over the cache until the
cache tells of that version or of a later one. Versions are compared as numbers, as every server
has them; where they are none, the cache is believed. A cache that was filled anew may never tell
of an object that came and went in between: so after ``LAG_SECONDS`` the cache is believed in any
case.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fairlead.api.meta import Key, Object
from fairlead.client import limits


class Expectations:
    """Writes to one collection that its cache has not seen yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.written: dict[Key, tuple[Object, float]] = {}
        """Answers to our writes that the cache has not shown, and when they expire."""
        self._clock = clock
        self._created: set[Key] = set()

    def wrote(self, obj: Object, *, created: bool = False) -> None:
        """Remember the server's answer to a write."""
        key = obj.key
        self.written[key] = (obj, self._clock() + limits.LAG_SECONDS)
        if created:
            self._created.add(key)

    def note_seen(self, key: Key) -> None:
        """Record that the cache has shown the object; if it is missing later, it was deleted."""
        self._created.discard(key)

    def echoes(self, obj: Object) -> bool:
        """Whether the cached object is no newer than our last write.

        A write carries the version that it is based on: no other writer's change lies in between.
        """
        key = obj.key
        written, _ = self.written.get(key, (None, 0.0))
        # Another uid means that the object was deleted and created again, which is a change.
        if written is None or written.meta.uid != obj.meta.uid:
            return False
        if obj.meta.resource_version == written.meta.resource_version:
            self.forget(key)
            return True
        # A version older than ours is from before the write, and the pass has seen it already. A
        # later one is another writer's change.
        return not _as_new(obj, written)

    def forget(self, key: Key) -> None:
        """Drop the expectation for this key: from now on the cache is believed."""
        self.written.pop(key, None)
        self._created.discard(key)
        if not self.written:
            # An emptied dict keeps its largest table until it is cleared.
            self.clear()

    def clear(self) -> None:
        """Drop all expectations."""
        self.written.clear()
        self._created.clear()

    def overdue(self) -> list[Key]:
        """Return the created objects that the cache has not shown within ``LAG_SECONDS``.

        They may have been deleted before the cache was filled again: the cache is believed from
        now on.
        """
        now = self._clock()
        keys = sorted(key for key in self._created if self.written[key][1] <= now)
        for key in keys:
            self.forget(key)
        return keys

    def newest(self, key: Key, cached: Object | None) -> Object | None:
        """Return the object as it was last seen or written, whichever is later."""
        if key not in self.written:
            return cached
        written, expires = self.written[key]
        if self._clock() >= expires or self._superseded(key, cached, written):
            self.forget(key)
            return cached
        return written

    def _superseded(self, key: Key, cached: Object | None, written: Object) -> bool:
        # For an object that existed already, an empty cache means that it was deleted after our
        # write. One just created is merely not in the cache yet, until :meth:`note_seen` says
        # otherwise.
        if cached is None:
            return key not in self._created
        return cached.meta.uid != written.meta.uid or _as_new(cached, written)


def _as_new(cached: Object, written: Object) -> bool:
    try:
        return int(cached.meta.resource_version) >= int(written.meta.resource_version)
    # Where versions are no numbers, an older cache costs one conflict; a write of ours that is
    # believed too long would hide changes of others.
    except ValueError:
        return True
