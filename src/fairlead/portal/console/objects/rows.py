"""Rows of lists: what the query of a page asks for, what fits it, and which part is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal.console.states import RANKS, STATES
from fairlead.portal.console.viewing import Asked


ROWS_OF_A_PAGE = 200
"""Rows that a page shows of a list."""
_FILTERS: Final = ("state", "kind", "cluster", "q", "sort")
_LONGEST_NAME = 253


class Counts(msgspec.Struct, frozen=True):
    """How many objects there are, by how they stand."""

    ok: int = 0
    waiting: int = 0
    failed: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, states: Iterable[State] | Mapping[State, int]) -> Counts:
        """The counts of these states; a mapping has each as often as it says."""
        found = Counter(states)
        return cls(found["ok"], found["waiting"], found["failed"], found["unknown"])

    @property
    def total(self) -> int:
        """All of them."""
        return self.ok + self.waiting + self.failed + self.unknown

    def by_state(self) -> list[tuple[State, int]]:
        """States that some are in, the worst first."""
        return [(state, count) for state in STATES if (count := getattr(self, state))]


class ObjectRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One object of an exported kind.

    ``where`` is its namespace as the consumer calls it, ``namespace`` as the provider does.
    """

    kind: str
    resource: str
    namespace: str
    name: str
    where: str = ""
    state: State
    about: str = ""
    helps: str = ""
    since: str = ""

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        return f"{self.kind} {self.where} {self.namespace} {self.name} {self.about}".lower()


class BindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A binding of a consumer, or a consumer without one: then ``binding`` is ""."""

    cluster: str
    namespace: str
    binding: str = ""
    state: State = "unknown"
    about: str = ""
    helps: str = ""
    since: str = ""
    heartbeat: str = ""
    version: str = ""
    kinds: tuple[str, ...] = ()
    objects: Counts = Counts()
    unseen: bool = False
    """Whether objects are there, or may be, that are not counted."""

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        parts = (self.cluster, self.namespace, self.binding, self.about, self.version, *self.kinds)
        return " ".join(parts).lower()


class Row(Protocol):
    """What every row has."""

    @property
    def state(self) -> State:
        """How it stands."""
        ...

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        ...


R = TypeVar("R", bound=Row)


class Wanted(msgspec.Struct, frozen=True):
    """What of a list is asked for: filters, order, and the number of the page, from 1."""

    state: str = ""
    kind: str = ""
    cluster: str = ""
    q: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, asked: Asked) -> Wanted:
        """The filters of a query; what is no number of a page is the first one."""
        told = asked.get("page", 6)
        number = int(told) if told.isascii() and told.isdecimal() else 1
        filters = {name: asked.get(name, _LONGEST_NAME) for name in _FILTERS}
        return cls(**filters, page=max(number, 1))

    @property
    def narrowed(self) -> bool:
        """Whether something is left out on purpose."""
        return any((self.state, self.kind, self.cluster, self.q))

    def fits(self, row: Row) -> bool:
        """Whether a row's state and text are asked for."""
        if self.state and row.state != self.state:
            return False
        return not self.q or all(word in row.words for word in self.q.lower().split())


class Page(msgspec.Struct, Generic[R], frozen=True):
    """The part of a list that one page shows; ``found`` rows fit, of ``total``.

    ``previous`` and ``following`` are the queries of the pages beside it, None for none.
    """

    rows: tuple[R, ...]
    found: int
    total: int
    first: int
    previous: Mapping[str, str] | None = None
    following: Mapping[str, str] | None = None

    @property
    def last(self) -> int:
        """The number of its last row."""
        return self.first + len(self.rows) - 1


def page_of(
    rows: Sequence[R], total: int, asked: Asked, wanted: Wanted, *, size: int = ROWS_OF_A_PAGE
) -> Page[R]:
    """The page that is asked for of rows that fit; the last one where there are not so many."""
    pages = max((len(rows) + size - 1) // size, 1)
    number = min(wanted.page, pages)
    start = (number - 1) * size

    def query(page: int) -> dict[str, str]:
        return dict(asked.query) | {"page": str(page) if page > 1 else ""}

    return Page(
        tuple(rows[start : start + size]),
        found=len(rows),
        total=total,
        first=start + 1,
        previous=query(number - 1) if number > 1 else None,
        following=query(number + 1) if number < pages else None,
    )


def order(
    rows: Iterable[R], sort: str, keys: Mapping[str, Callable[[R], tuple[Any, ...]]], default: str
) -> list[R]:
    """Rows by a key that the query names; one that is not known is the default."""
    return sorted(rows, key=keys.get(sort, keys[default]))


def badness(state: State) -> int:
    """A state's place, the worst first."""
    return RANKS[state]
