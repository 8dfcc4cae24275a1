"""Steps of computing that the check of one object may take.

Kubernetes bounds rules by cost and leaves the rest to its many threads. This server answers
all clients from one thread, so whatever may grow faster than the object is counted, and the
check stops after half a second or so: patterns that RE2 has to simulate, alternatives that are
tried on long lists, values that rules copy or compare.

Of the guards against heavy input this one stops ``alternatives`` of ``tests/support/bombs.py``:
keywords of JSON Schema have no price in CEL, and both the CRD and the object are too small for a
worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import thread_time

from fairlead_sandbox.schema.errors import FieldError


STEPS_PER_SECOND = 10_000_000
"""A step is about a tenth of a microsecond of a usual processor."""
LIMIT = 5_000_000
"""Steps for one object."""
CRD_LIMIT = 10_000_000
"""Steps for one CustomResourceDefinition: patterns to compile, defaults to check."""
_TOLD = 20
"""Steps of telling one error."""
_STOPPED = (
    "the check of this object was stopped because it takes too long; shorten its texts and "
    "lists, or simplify the patterns, alternatives and rules of its schema"
)


class ExhaustedError(Exception):
    """The check of an object has computed long enough; ``path`` is where, if that is known."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path

    def found(self) -> FieldError:
        """Return the error that the writer of the object gets."""
        return FieldError("FieldValueForbidden", f"Forbidden: {_STOPPED}", self.path or "<nil>")


class Effort:
    """The steps that the check of one object has left."""

    __slots__ = ("left",)

    def __init__(self, limit: int = LIMIT) -> None:
        self.left = limit

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            ExhaustedError: none are left.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the processor that a block takes.

        Raises:
            ExhaustedError: none is left.
        """
        # The time of this thread alone: what is refused must not depend on who else uses the
        # processor.
        started = thread_time()
        yield
        self.spend_seconds(thread_time() - started)

    def spend_seconds(self, seconds: float) -> None:
        """Count time of the processor.

        Raises:
            ExhaustedError: none is left.
        """
        self.spend(int(seconds * STEPS_PER_SECOND))


class Report(list[FieldError]):
    """The faults of an object as its checks find them, and the effort that the checks share."""

    __slots__ = ("effort",)

    def __init__(self, effort: Effort | None = None) -> None:
        super().__init__()
        self.effort = effort or Effort()

    def append(self, error: FieldError) -> None:
        """Report an error, which takes steps as well."""
        self.effort.spend(_TOLD)
        super().append(error)

    def extend(self, errors: Iterable[FieldError]) -> None:
        """Report several errors."""
        for error in errors:
            self.append(error)

    def branch(self) -> Report:
        """An empty report for an alternative that is only tried."""
        return Report(self.effort)
