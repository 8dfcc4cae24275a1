"""Lists: rows, filters by a page's query, order and paging."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from fairlead.api.kbind import CONNECTIONS
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Judgement
from fairlead.api.timestamps import parse_time
from fairlead.portal import bounds
from fairlead.portal.model.thing import STATES, ConditionRow


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
        max(len(silent) - bounds.LISTED, 0),
        tuple(notes),
    )


def latest(failures: Iterable[T], since: Callable[[T], str]) -> list[T]:
    """Return the latest failures by their times, those of an unknown time last."""
    return heapq.nlargest(bounds.LISTED, failures, key=lambda failure: _time(since(failure)))


def _since(failure: Failure) -> str:
    return failure.since


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        return _LONG_AGO


NO_NAMESPACE: Final = "-"
"""Segment of a path in place of the namespace of cluster-scoped objects."""
PROBLEM: Final = "problem"
"""Value of the filter by state for all that needs a look: failed or waiting."""
_FILTERS: Final = ("state", "kind", "namespace", "cluster", "q", "sort")
"""Parameters of a list's query, beside the page's number."""

Get = Callable[[str, int], str]
"""Function that returns a parameter of a query, cut to a number of characters."""


class Counts(msgspec.Struct, frozen=True):
    """Numbers of objects by state."""

    ok: int = 0
    waiting: int = 0
    failed: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, states: Iterable[State] | Mapping[State, int]) -> Counts:
        """Return the numbers of objects by state, from their states or from counts by state."""
        counted = Counter(states)
        return cls(counted["ok"], counted["waiting"], counted["failed"], counted["unknown"])

    @classmethod
    def sum(cls, counts: Iterable[Counts]) -> Counts:
        """Return the sums of numbers of objects."""
        every = list(counts)
        return cls(*(sum(getattr(each, name) for each in every) for name in cls.__struct_fields__))

    @property
    def total(self) -> int:
        """The number of all objects."""
        return self.ok + self.waiting + self.failed + self.unknown

    def by_state(self) -> list[tuple[State, int]]:
        """Return the states with a number above 0, the worst first."""
        return [(state, count) for state in STATES if (count := getattr(self, state))]


class ObjectRow(msgspec.Struct, frozen=True, order=True, gc=False, kw_only=True):
    """An object and its state; ``resource`` is ``plural.group``, ``at`` the path of its page.

    On a provider ``where`` is its namespace in the consumer's cluster. ``sync`` says which of its
    parts have crossed, "" where only one side is seen.
    """

    kind: str
    namespace: str
    name: str
    resource: str
    where: str = ""
    state: State
    about: str = ""
    helps: str = ""
    since: str = ""
    sync: str = ""
    at: str = ""

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        return f"{self.kind} {self.where} {self.namespace} {self.name} {self.about}".lower()

    @property
    def place(self) -> str:
        """Its name with the namespace that its consumer knows."""
        namespace = self.where or self.namespace
        return f"{namespace}/{self.name}" if namespace else self.name

    @property
    def text(self) -> str:
        """Its kind and place."""
        return f"{self.kind} {self.place}"


def row_of(
    obj: Object, verdict: Judgement, *, resource: str, at: str, where: str = "", sync: str = ""
) -> ObjectRow:
    """Return the row of an object with the verdict on it."""
    if verdict.state != "ok":
        text = verdict.text or (f"{verdict.type} is not True" if verdict.type else "")
    else:
        text = next((f"remark: {remark.text}" for remark in verdict.remarks), "")
    return ObjectRow(
        kind=obj.kind,
        namespace=obj.meta.namespace,
        name=obj.meta.name,
        resource=resource,
        where=where,
        state=verdict.state,
        about=text,
        helps=verdict.remedy if verdict.state != "ok" else "",
        since=verdict.since,
        sync=sync,
        at=at,
    )


class BindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A binding of a consumer, or a consumer without one: then ``binding`` is "".

    With kbind v2 it may be a Connection. ``kind`` is set where it is no APIServiceBinding, and
    ``within`` is the namespace of a Binding. ``cluster`` names the cluster at the other end,
    ``at`` is the path of the binding's page.
    ``sync`` is the number of objects in sync with their total, ``lag_since`` the time of the
    oldest change that is not; both are "" where only one side is seen.
    """

    cluster: str
    namespace: str = ""
    binding: str = ""
    kind: str = ""
    within: str = ""
    at: str = ""
    state: State = "unknown"
    about: str = ""
    helps: str = ""
    since: str = ""
    heartbeat: str = ""
    version: str = ""
    kinds: tuple[str, ...] = ()
    objects: Counts = Counts()
    conflicts: int = 0
    """Number of objects without a copy, as another object has its place."""
    sync: str = ""
    lag_since: str = ""
    unseen: bool = False
    """Whether there may be objects that are not counted."""
    silent_since: str | None = None
    """None while a konnector works on it, "" if it is unknown since when none does."""

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        parts = (self.cluster, self.namespace, self.kind, self.place, self.about, self.version)
        return " ".join((*parts, *self.kinds)).lower()

    @property
    def place(self) -> str:
        """Its name with its namespace, if it has one."""
        return f"{self.within}/{self.binding}" if self.within else self.binding

    @property
    def text(self) -> str:
        """Its kind and name, with the cluster at the other end where that is not its own name."""
        name = f"{self.kind or 'Binding'} {self.place}"
        named = self.cluster and self.kind != CONNECTIONS.kind
        return f"{name} of {self.cluster}" if named else name


Words = tuple[tuple[str, str], ...]
"""A sentence in parts, each with the path that it leads to, "" for none."""


class BindingList(msgspec.Struct, frozen=True, kw_only=True):
    """All bindings that the reader may see; ``notes`` say what could not be read."""

    rows: tuple[BindingRow, ...] = ()
    notes: tuple[str, ...] = ()
    all: bool = False
    """Whether these are the bindings of all consumers."""


class ListedObjects(msgspec.Struct, frozen=True):
    """All objects that the reader may see; ``notes`` say what could not be read."""

    rows: tuple[ObjectRow, ...] = ()
    notes: tuple[str, ...] = ()


class BindingDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page of a binding shows.

    ``sentences`` say what it copies. ``templates`` are those that bind it again, None where
    the reader cannot. ``unbind`` is the path of the form that unbinds, "" where only a command
    does; ``unbinds`` says that it is being unbound.
    """

    row: BindingRow
    objects: tuple[ObjectRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    notes: tuple[str, ...] = ()
    crumbs: Words = ()
    since: str = ""
    sentences: tuple[str, ...] = ()
    templates: tuple[str, ...] | None = None
    unbind: str = ""
    unbinds: bool = False


class APIRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API of a Connection or binding of kbind v2, named ``plural.group``.

    ``bound`` says by which bindings, or which objects are counted. ``conflicts`` is None where
    none are counted.
    """

    name: str
    facts: str = ""
    bound: Words = ()
    objects: Counts = Counts()
    conflicts: int | None = None


class MirrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page of a Connection, ClusterBinding or Binding of kbind v2 shows.

    ``facts`` are pairs of a label and its words, ``rules`` sentences on what is copied beside the
    APIs, ``bindings`` those that name a Connection. ``explain`` is the command that explains it,
    ``command`` deletes it, and ``effect`` says what goes with it.
    """

    row: BindingRow
    facts: tuple[tuple[str, Words], ...] = ()
    apis: tuple[APIRow, ...] = ()
    bindings: tuple[BindingRow, ...] = ()
    rules: tuple[str, ...] = ()
    objects: tuple[ObjectRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    crumbs: Words = ()
    explain: str = ""
    command: str = ""
    effect: str = ""


class ListedRow(Protocol):
    """The interface of all rows."""

    @property
    def state(self) -> State:
        """The row's state."""
        ...

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        ...


R = TypeVar("R", bound=ListedRow)


class ListQuery(msgspec.Struct, frozen=True):
    """The query of a list: filters, order, and the page's number, from 1."""

    state: str = ""
    kind: str = ""
    namespace: str = ""
    cluster: str = ""
    q: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, get: Get) -> ListQuery:
        """Read a query; an invalid page number counts as 1."""
        text = get("page", 6)
        # int would also read digits of other scripts.
        number = int(text) if text.isascii() and text.isdecimal() else 1
        # No name of Kubernetes is longer.
        filters = {name: get(name, 253) for name in _FILTERS}
        return cls(**filters, page=max(number, 1))

    @property
    def narrowed(self) -> bool:
        """Whether a filter is set."""
        return any((self.state, self.kind, self.namespace, self.cluster, self.q))

    def selects(self, row: ListedRow) -> bool:
        """Whether a row has the state and all words of the search."""
        if self.state == PROBLEM:
            if row.state not in {"failed", "waiting"}:
                return False
        elif self.state and row.state != self.state:
            return False
        return not self.q or all(word in row.words for word in self.q.lower().split())

    def parameters(self, *, page: int = 1, sort: str | None = None) -> dict[str, str]:
        """Return the query of another page, or of another order from its first page."""
        filters = {name: getattr(self, name) for name in _FILTERS}
        if sort is not None:
            filters["sort"] = sort
        return filters | {"page": str(page) if page > 1 else ""}


class ListPage(msgspec.Struct, Generic[R], frozen=True):
    """One page of a list; ``matches`` of ``total`` rows match.

    ``previous`` and ``following`` are the queries of the adjacent pages, None without one.
    """

    rows: tuple[R, ...]
    matches: int
    total: int
    first: int
    previous: Mapping[str, str] | None = None
    following: Mapping[str, str] | None = None

    @property
    def last(self) -> int:
        """The number of the page's last row."""
        return self.first + len(self.rows) - 1


def page_of(rows: Sequence[R], total: int, query: ListQuery) -> ListPage[R]:
    """Return the page of matching rows that a query names, or the last page if there are fewer."""
    size = bounds.ROWS_OF_A_PAGE
    pages = max((len(rows) + size - 1) // size, 1)
    number = min(query.page, pages)
    start = (number - 1) * size
    return ListPage(
        tuple(rows[start : start + size]),
        matches=len(rows),
        total=total,
        first=start + 1,
        previous=query.parameters(page=number - 1) if number > 1 else None,
        following=query.parameters(page=number + 1) if number < pages else None,
    )


def order(
    rows: Iterable[R], sort: str, keys: Mapping[str, Callable[[R], Any]], default: str
) -> list[R]:
    """Sort rows by the query's key, or by the default if it is unknown.

    A minus before the key turns the order around.
    """
    name = sort.removeprefix("-")
    if name not in keys:
        name, sort = default, default
    return sorted(rows, key=keys[name], reverse=sort.startswith("-"))
