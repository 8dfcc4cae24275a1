"""Steps of computing that the validation of one object may take.

Kubernetes limits CEL rules by cost, and runs the rest of a validation on other threads. This
server answers all clients from one thread. Work that may grow faster than the object is
therefore counted, and the validation stops after about half a second: patterns that RE2 has to
simulate, alternatives that are tried on long lists, values that rules copy or compare.

Of the guards against heavy input this one stops ``alternatives`` of ``tests/support/bombs.py``:
keywords of JSON Schema have no price in CEL, and both the CRD and the object are too small for a
worker.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import thread_time

from fairlead_sandbox.schema.errors import FieldError


STEPS_PER_SECOND = 10_000_000
"""Steps in a second of processor time; a step is about 0.1 microseconds."""
LIMIT = 5_000_000
"""Steps for the validation of one object."""
CRD_LIMIT = 10_000_000
"""Steps for the validation of one CRD: compiling patterns, checking defaults."""
_TOLD = 50
"""Steps of reporting one error."""
_STOPPED = (
    "the check of this object was stopped because it takes too long; shorten its texts and "
    "lists, or simplify the patterns, alternatives and rules of its schema"
)


class ExhaustedError(Exception):
    """The validation of an object has used up its steps; ``path`` is its place, if known."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path

    def error(self) -> FieldError:
        """Return the field error for the client."""
        return FieldError("FieldValueForbidden", f"Forbidden: {_STOPPED}", self.path or "<nil>")


class Effort:
    """The remaining steps for the validation of one object."""

    __slots__ = ("left",)

    def __init__(self, limit: int = LIMIT) -> None:
        self.left = limit

    def spend(self, steps: int) -> None:
        """Take steps off the rest.

        Raises:
            ExhaustedError: no steps are left.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Take the processor time of the block off the rest.

        Raises:
            ExhaustedError: no steps are left.
        """
        with without_collections():
            # The time of this thread alone: on a busy machine the same objects must be accepted.
            started = thread_time()
            yield
            self.spend_seconds(thread_time() - started)

    def spend_seconds(self, seconds: float) -> None:
        """Take seconds of processor time off the rest.

        Raises:
            ExhaustedError: no steps are left.
        """
        self.spend(int(seconds * STEPS_PER_SECOND))


@contextmanager
def without_collections() -> Iterator[None]:
    """Put off the collection of garbage until the block ends.

    A collection takes the longer the more objects the whole process has; it would be charged to
    whose object happens to be checked.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Report(list[FieldError]):
    """The errors found in an object, and the effort that all of its checks share."""

    __slots__ = ("effort",)

    def __init__(self, effort: Effort | None = None) -> None:
        super().__init__()
        self.effort = effort or Effort()

    def append(self, error: FieldError) -> None:
        """Add an error, and spend the steps of reporting it."""
        self.effort.spend(_TOLD)
        super().append(error)

    def extend(self, errors: Iterable[FieldError]) -> None:
        """Add several errors."""
        for error in errors:
            self.append(error)

    def branch(self) -> Report:
        """Return an empty report with the same effort, for an alternative that is only tried."""
        return Report(self.effort)
