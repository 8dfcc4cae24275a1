"""What informers tell their subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from fairlead.api.meta import Object


DeltaType = Literal["ADDED", "MODIFIED", "DELETED"]


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of a cache: ``old`` is None when added, ``new`` is None when deleted.

    ``initial`` marks what was there already when the subscriber or the informer began.
    """

    type: DeltaType
    old: Object | None
    new: Object | None
    initial: bool = False

    @property
    def object(self) -> Object:
        """The object as it is now, or as it was last when it is gone."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("a delta without an object")
        return found


Handler = Callable[[Delta], None]
"""A plain callback on the event loop; it must not block."""
