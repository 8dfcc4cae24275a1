"""What bindings say of objects that are in conflict, or that servers refuse."""

from __future__ import annotations

import pytest

from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import Key
from fairlead.client.errors import ApiError, ConnectionFailed, refusal
from fairlead.konnector.policies.steps import FOREIGN_OBJECT, NAME_TOO_LONG, OWNER_UNKNOWN
from fairlead.konnector.reports import LASTING_SECONDS, Reports, SyncFault, SyncReport


POLICY = refusal(
    "Invalid", "things.x \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no"
)
INVALID, FORBIDDEN = (
    refusal("Invalid", 'Thing.x "a" is invalid: colour: no'),
    refusal("Forbidden", 'User "k" cannot list x'),
)


class Desk:
    """Reports of the binding db, whose clock a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reports = Reports(clock=lambda: self.now)
        self._known: dict[str, SyncReport] = {}

    def of(self, source: str = "things") -> SyncReport:
        if source not in self._known:
            self._known[source] = self.reports.of("db", source, "Thing")
        return self._known[source]

    def fail(self, *names: str, error: ApiError = INVALID, source: str = "things") -> None:
        for name in names:
            self.of(source).failed(Key("a", name), error, 1)

    def last(self) -> None:
        self.now += LASTING_SECONDS

    def failing(self) -> KubeBindCondition | None:
        return self.reports.failing("db")


def test_an_object_that_its_schema_refuses_for_a_while_is_told_to_unbinding() -> None:
    desk = Desk()
    desk.fail("a", error=FORBIDDEN)
    desk.fail("c", error=POLICY)
    desk.last()
    assert not desk.reports.invalid("db")
    desk.fail("b")
    assert not desk.reports.invalid("db")
    desk.last()
    assert desk.reports.invalid("db")
    assert not desk.reports.invalid("other")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        pytest.param(
            [("s", "b", FOREIGN_OBJECT)],
            FOREIGN_OBJECT,
            "1 object is not synchronised: Thing a/b (ForeignObjectExists)",
            id="one",
        ),
        pytest.param(
            [(s, n, OWNER_UNKNOWN) for s, n in zip("sstt", "badc", strict=True)],
            OWNER_UNKNOWN,
            "4 objects are not synchronised: Thing a/a (OwnerUnknown), Thing a/b (OwnerUnknown), "
            "Thing a/c (OwnerUnknown), and 1 more",
            id="many-of-two-sources",
        ),
        pytest.param(
            [("s", "a", FOREIGN_OBJECT), ("s", "b", NAME_TOO_LONG), ("s", "c", NAME_TOO_LONG)],
            NAME_TOO_LONG,
            "3 objects are not synchronised: Thing a/a (ForeignObjectExists), Thing a/b",
            id="the-most-frequent-reason",
        ),
    ],
)
def test_conflicts_are_counted_and_named(
    desk: Desk, found: list[tuple[str, str, str]], reason: str, message: str
) -> None:
    for source, name, why in found:
        desk.of(source).left_alone(Key("a", name), why)
    told = desk.reports.conflicts("db")
    assert told is not None
    assert (told.type, told.status, told.reason) == ("Conflicts", "True", reason)
    assert told.message.startswith(message)


def test_without_conflicts_there_is_no_condition(desk: Desk) -> None:
    key = Key("a", "b")
    desk.of().left_alone(key, "ClusterToken")
    assert desk.reports.conflicts("db") is None
    desk.of().left_alone(key, FOREIGN_OBJECT)
    desk.of().well(key)
    assert desk.reports.conflicts("db") is None
    assert desk.reports.conflicts("other") is None


def test_what_one_source_takes_back_another_still_says(desk: Desk) -> None:
    for source in "st":
        desk.of(source).left_alone(Key("a", "b"), FOREIGN_OBJECT)
    desk.of("s").clear()
    told = desk.reports.conflicts("db")
    assert told is not None
    assert told.message.startswith("1 object is")


def test_a_refusal_is_told_when_it_lasts(desk: Desk) -> None:
    desk.fail("x")
    assert desk.failing() is None
    desk.last()
    told = desk.failing()
    assert told is not None
    assert (told.type, told.status, told.reason) == ("ObjectsFailing", "True", "Invalid")
    assert (
        told.message
        == "1 object cannot be written: Thing a/x; the first because the provider refuses it: "
        'Thing.x "a" is invalid: colour: no'
    )
    desk.of().well(Key("a", "x"))
    assert desk.failing() is None


def test_of_many_the_first_few_are_named(desk: Desk) -> None:
    desk.fail("d", "c", "b", "a", source="s")
    desk.fail("e", source="t")
    desk.last()
    told = desk.failing()
    assert told is not None
    assert told.message.startswith(
        "5 objects cannot be written: Thing a/a, Thing a/b, Thing a/c, and 2 more; the first"
    )


def test_those_that_are_named_stay_named(desk: Desk) -> None:
    """What comes to be before them by name, or fails again, changes nothing but the count."""
    desk.fail("m", "n", "o")
    desk.last()
    first = desk.failing()
    desk.fail("a", error=FORBIDDEN)
    desk.fail("o", "n", "m")
    desk.last()
    second = desk.failing()
    assert first is not None
    assert second is not None
    assert second.reason == "Invalid"
    assert second.message == first.message.replace("3 objects", "4 objects").replace(
        "Thing a/o;", "Thing a/o, and 1 more;"
    )
    desk.of().well(Key("a", "m"))
    third = desk.failing()
    assert third is not None
    assert third.message.startswith("3 objects cannot be written: Thing a/n, Thing a/o, Thing a/a")


def test_the_same_refusal_again_is_no_news(desk: Desk) -> None:
    report, key = desk.of(), Key("a", "x")
    assert report.failed(key, INVALID, 1)
    assert not report.failed(key, INVALID, 1)
    assert not report.failed(key, refusal("Invalid", "other words"), 1)
    assert report.failed(key, INVALID, 2)
    assert report.failed(key, FORBIDDEN, 2)
    report.well(key)
    assert report.failed(key, FORBIDDEN, 2)


def test_the_same_conflict_again_is_no_news(desk: Desk) -> None:
    report, key = desk.of(), Key("a", "x")
    assert report.left_alone(key, FOREIGN_OBJECT)
    assert not report.left_alone(key, FOREIGN_OBJECT)
    assert report.left_alone(key, NAME_TOO_LONG)


@pytest.mark.parametrize(
    ("names", "error", "in_sync", "wrote", "blocked"),
    [
        pytest.param("ab", INVALID, 0, False, True, id="nothing-crosses"),
        pytest.param("a", INVALID, 0, False, False, id="a-single-object"),
        pytest.param("a", FORBIDDEN, 0, False, False, id="a-single-right"),
        pytest.param("ab", INVALID, 5, False, False, id="bad-objects-beside-good-ones"),
        pytest.param("ab", FORBIDDEN, 5, False, True, id="rights-were-lost"),
        pytest.param("ab", FORBIDDEN, 5, True, False, id="others-are-written"),
    ],
)
def test_nothing_at_all_can_be_written(
    desk: Desk, names: str, error: ApiError, in_sync: int, wrote: bool, blocked: bool
) -> None:
    desk.of().in_sync = in_sync
    desk.now += 1
    desk.fail(*names, error=error)
    assert not desk.reports.blocked("db")
    desk.last()
    if wrote:
        desk.of().wrote()
    assert bool(desk.reports.blocked("db")) is blocked


def test_after_a_write_something_can_be_written(desk: Desk) -> None:
    desk.now += 1
    desk.fail("a", "b", error=FORBIDDEN)
    desk.last()
    assert desk.reports.blocked("db").startswith("every write for things fails (2 objects)")
    desk.of().wrote()
    assert not desk.reports.blocked("db")


GONE = ConnectionFailed("cannot reach https://p: it closed the connection", "https://p")
LATE = ConnectionFailed("cannot reach https://p: it did not answer in time", "https://p")
AWAY = ConnectionFailed("cannot reach https://q: connection refused", "https://q")
CUT = ConnectionFailed("a watch ended in the middle of an event")


def watch(what: str, cause: ApiError | ConnectionFailed = GONE) -> SyncFault:
    return SyncFault(f"cannot watch {what}: {cause}", cause)


@pytest.mark.parametrize(
    ("told", "said", "message"),
    [
        pytest.param({}, None, "", id="nothing"),
        pytest.param({"s": [watch("a")]}, None, f"cannot watch a: {GONE}", id="one"),
        pytest.param(
            {"s": [watch("a"), watch("b")], "t": [watch("c"), watch("a", LATE)]},
            None,
            f"cannot watch a; cannot watch b; cannot watch c: {GONE}",
            id="one-reason-of-many",
        ),
        pytest.param(
            {"s": [watch(name) for name in "abcde"]},
            None,
            f"cannot watch a; cannot watch b; cannot watch c; and 2 more: {GONE}",
            id="more-than-are-shown",
        ),
        pytest.param(
            {"s": [watch("a")], "t": [watch("b", LATE)]},
            None,
            f"cannot watch a; cannot watch b: {GONE}",
            id="one-server-in-two-ways",
        ),
        pytest.param(
            {"s": [watch("a")], "t": [watch("b", AWAY), watch("c", CUT)]},
            None,
            f"cannot watch c: {CUT}; cannot watch a: {GONE}; cannot watch b: {AWAY}",
            id="two-servers",
        ),
        pytest.param(
            {"s": [watch("a", FORBIDDEN)], "t": [watch("b", FORBIDDEN)]},
            None,
            f"cannot watch a: {FORBIDDEN}; cannot watch b: {FORBIDDEN}",
            id="an-answer-is-of-one-resource",
        ),
        pytest.param(
            {"s": [SyncFault("no right", GONE)]}, None, "no right", id="with-other-words"
        ),
        pytest.param(
            {"s": [watch("a"), SyncFault("no right")]}, LATE, "no right", id="said-already"
        ),
        pytest.param({"s": [watch("a", CUT)]}, CUT, "", id="said-in-the-same-words"),
    ],
)
def test_problems_tell_a_reason_once(
    desk: Desk, told: dict[str, list[SyncFault]], said: Exception | None, message: str
) -> None:
    for source, faults in told.items():
        desk.of(source).problem(faults)
    problems = desk.reports.problems
    assert problems.message("db", said=said) == message
    for source in told:
        desk.of(source).problem([])
    assert problems.message("db") == ""
