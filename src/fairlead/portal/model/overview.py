"""The overview: numbers by state, what failed last, and konnectors that are silent."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from fairlead.api.reasons.model import State
from fairlead.api.timestamps import parse_time
from fairlead.portal.model.lists import BindingRow, Counts, ObjectRow


MOST_FAILURES = 5
"""Largest number of failures, and of silent konnectors, that the overview names."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
T = TypeVar("T")


class CountedList(msgspec.Struct, frozen=True):
    """Numbers of a list's rows by state; ``at`` is the list's path, "" without one.

    ``more`` says that there may be rows that the reader may not see.
    """

    title: str
    counts: Counts
    at: str = ""
    more: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Something that failed: ``text`` names it for people, ``at`` is the path of its page."""

    text: str
    at: str
    state: State = "failed"
    message: str = ""
    remedy: str = ""
    since: str = ""


def failure_of(row: ObjectRow | BindingRow, of: str = "", since: str = "") -> Failure:
    """Return the row of a list as a failure; ``of`` names its consumer's cluster."""
    return Failure(
        text=f"{row.text} of {of}" if of else row.text,
        at=row.at,
        state=row.state,
        message=row.about,
        remedy=row.helps,
        since=since or row.since,
    )


class ConsoleOverview(msgspec.Struct, frozen=True):
    """All that an overview shows; ``more_silent`` konnectors are not named."""

    lists: tuple[CountedList, ...]
    failures: tuple[Failure, ...]
    silent: tuple[Failure, ...]
    more_silent: int = 0
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """The number of all that failed."""
        return sum(counted.counts.failed for counted in self.lists)

    @property
    def title(self) -> str:
        """The page's title, with the number of what failed."""
        return f"({self.failed:,}) Overview" if self.failed else "Overview"

    @property
    def more_failures(self) -> int:
        """The number of failures that are not named."""
        return max(self.failed - len(self.failures), 0)


def overview_of(
    lists: Iterable[CountedList],
    failures: Iterable[Failure],
    silent: Sequence[Failure],
    notes: Iterable[str] = (),
) -> ConsoleOverview:
    """Return the overview; of failures and silent konnectors it names the latest."""
    return ConsoleOverview(
        tuple(lists),
        tuple(latest(failures, _since)),
        tuple(latest(silent, _since)),
        max(len(silent) - MOST_FAILURES, 0),
        tuple(notes),
    )


def latest(failures: Iterable[T], since: Callable[[T], str]) -> list[T]:
    """Return the latest failures by their times, those of an unknown time last."""
    return heapq.nlargest(MOST_FAILURES, failures, key=lambda failure: _time(since(failure)))


def _since(failure: Failure) -> str:
    return failure.since


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        return _LONG_AGO
