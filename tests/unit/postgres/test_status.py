"""What passes come to as statuses and events: plans, approvals, ends, suspensions, GitOps."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import pytest
import structlog
from msgspec import convert, to_builtins
from msgspec.structs import replace
from psycopg import sql

from fairlead.api.conditions import Event, get_condition
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import (
    POSTGRESACCESSES,
    Deletion,
    Plan,
    PostgresAccessStatus,
    ServerInfo,
)
from fairlead.api.resource import Resource
from fairlead.postgres import bounds
from fairlead.postgres.app import GroupsWarning
from fairlead.postgres.controllers.access.passes import PassFailure, approval_of, observed_of
from fairlead.postgres.controllers.access.status import (
    Outcome,
    approver_of,
    change_events,
    expired,
    failed,
    generated,
    new_status,
    outcome_of,
    plan_of,
    previewed,
    problems,
    removing,
    renamed,
    success,
    suspended,
    unreachable_host,
    uses_approval,
    with_end,
)
from fairlead.postgres.controllers.rules.desired import (
    Desired,
    ServerPlace,
    check_spec,
    desired_of,
    end_of,
)
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.approvals import part_of
from fairlead.postgres.database.plans.plan import ShownPlan
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.errors import AccessError, Retry, UnfinishedError, invalid, refusal
from fairlead.postgres.options import PostgresOptions


DOWN = AccessError("ConnectionFailed", "nothing listens at db:5432; check host and port")
LOCKED = AccessError("Locked", "wait for it")
APPROVE = "access.k8s.delta10.nl/approve"
UNFINISHED = AccessError("Unfinished", "3 are left", retry=Retry.GOES_ON)


def report(outcome: Outcome, old: PostgresAccessStatus | None = None) -> PostgresAccessStatus:
    return new_status(
        old or PostgresAccessStatus(),
        outcome,
        generation=3,
        now="2026-01-01T00:00:00Z",
        refused=False,
    )


def statement(text: str) -> AccessStatement:
    return AccessStatement(
        database="d", statement=sql.SQL(text), why="because", usernames=("app",)
    )


def plan(*texts: str, after: str = "", **refused: tuple[AccessError, ...]) -> ShownPlan:
    return ShownPlan(statements=tuple(map(statement, texts)), refused=refused, after=after)


@pytest.mark.parametrize(
    ("outcome", "conditions"),
    [
        pytest.param(success(), "", id="in-sync"),
        pytest.param(generated(), "Reconciling", id="new-password"),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", DOWN)), "Reconciling", id="tried-again"
        ),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", LOCKED)), "Reconciling", id="waiting"
        ),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", refusal("UsernameConflict", "taken"))),
            "Stalled",
            id="refused",
        ),
        pytest.param(
            failed(PassFailure("SecretSyncFailed", invalid("SecretConflict", "taken"))),
            "Stalled",
            id="to-be-changed",
        ),
        pytest.param(expired("2026-01-01T00:00:00Z"), "Stalled", id="over"),
        pytest.param(previewed(plan("GRANT"), "Observe"), "Reconciling", id="observed"),
        pytest.param(previewed(plan(), "Observe"), "", id="observed-in-sync"),
        pytest.param(previewed(plan("GRANT"), "Manual"), "Reconciling", id="to-be-approved"),
        pytest.param(
            previewed(plan(app=(refusal("UsernameConflict", "taken"),)), "Observe"),
            "Stalled",
            id="observed-and-refused",
        ),
        pytest.param(
            failed(problems([invalid("UnsupportedPrivilege", "a"), DOWN])),
            "Reconciling",
            id="one-of-several-may-heal",
        ),
    ],
)
def test_reconciling_and_stalled_are_there_while_they_hold(
    outcome: Outcome, conditions: str
) -> None:
    status = report(outcome, report(failed(PassFailure("DatabaseSyncFailed", DOWN))))
    found = [one for one in status.conditions if one.type in {"Reconciling", "Stalled"}]
    assert [one.type for one in found] == conditions.split()
    assert all(one.status == "True" for one in found)
    assert report(outcome, status) == status


@pytest.mark.parametrize(
    ("found", "state"),
    [
        pytest.param([UNFINISHED], "InProgress", id="alone"),
        pytest.param([UNFINISHED, DOWN], "InProgress", id="beside-an-error"),
        pytest.param([DOWN, UNFINISHED], "Error", id="after-an-error"),
    ],
)
def test_the_rest_of_what_was_done_in_part_follows_at_once(
    found: list[AccessError], state: str
) -> None:
    outcome = failed(problems(found))
    assert (outcome.again, outcome.state) == ("at-once", state)
    assert "3 are left" in outcome.message


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(success(), id="in-sync"),
        pytest.param(failed(PassFailure("DatabaseSyncFailed", DOWN)), id="failed"),
        pytest.param(generated(), id="in-progress"),
    ],
)
def test_a_suspended_access_says_what_it_said_last(before: Outcome) -> None:
    old = report(before)
    again = suspended(old, 3, unchanged=False)
    assert again.again == "waiting"
    kept = {"Ready", "Success", "InProgress"}
    assert [one for one in report(again, old).conditions if one.type in kept] == [
        one for one in old.conditions if one.type in kept
    ]


def test_an_access_suspended_from_the_beginning_says_so() -> None:
    old = report(suspended(PostgresAccessStatus(), 1, unchanged=False))
    again = report(suspended(old, 3, unchanged=False), old)
    assert again == old
    ready = get_condition(again.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.observed_generation) == ("False", "Suspended", 3)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(success(), id="in-sync"),
        pytest.param(failed(PassFailure("DatabaseSyncFailed", DOWN)), id="failed"),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", AccessError("ConnectionFailed", "x" * 2000))),
            id="with-much-to-say",
        ),
    ],
)
def test_of_a_spec_that_was_changed_too_a_suspended_access_says_nothing(before: Outcome) -> None:
    told = report(before)
    for generation in (4, 5):
        again = suspended(told, generation, unchanged=False)
        assert again.generation == 3
        assert again.message.endswith("nothing after generation 3 is applied")
        assert again.message.count("spec.suspend") == 1
        told = report(again, told)
        assert told.observed_generation == 3
        assert {one.observed_generation for one in told.conditions} == {3}
    # Whoever takes the change back has what was applied.
    back = suspended(told, 6, unchanged=True)
    assert (back.generation, "suspend" in back.message) == (6, False)


def test_a_plan_is_told_as_far_as_it_fits_and_its_digest_names_all() -> None:
    many = plan(*(f"GRANT {number} " + "x" * 2000 for number in range(100)))
    told = plan_of(many, None)
    assert told is not None
    assert (len(told.statements), told.total) == (64, 100)
    assert all(len(one) == 1024 for one in told.statements)
    shorter = plan(*(one.text for one in many.statements[:64]))
    assert told.digest == many.digest() != shorter.digest()


def test_a_digest_is_good_for_one_time() -> None:
    first = plan("GRANT")
    again = plan("GRANT", after=first.digest())
    third = plan("GRANT", after=again.digest())
    assert len({first.digest(), again.digest(), third.digest()}) == 3


@pytest.mark.parametrize(
    ("before", "after", "within"),
    [
        pytest.param(("G", "R"), ("R",), True, id="what-is-left-there"),
        pytest.param(("G",), ("R",), False, id="another-statement"),
    ],
)
def test_a_plan_is_within_an_approval_for_its_own_server(
    before: tuple[str, ...], after: tuple[str, ...], within: bool
) -> None:
    approved, now = replace(plan(*before), place="here"), replace(plan(*after), place="here")
    assert now.is_within(approved.approval) is within
    elsewhere = replace(now, place="there")
    assert not elsewhere.is_within(approved.approval)
    assert elsewhere.digest() != now.digest()
    # Where nothing is missing, nothing needs an approval.
    assert replace(plan(), place="there").is_within(approved.approval)


@dataclass(frozen=True)
class Rest:
    """A plan that was approved, and what a new process reads and finds in the status."""

    left: tuple[str, ...]
    approved: bool
    approved_plan: tuple[str, ...] = ("A", "B", "C")
    done: tuple[str, ...] = ()
    place: str = "here"
    after: str = ""
    forged: tuple[str, ...] = ()
    refused: bool = False


RESTS = {
    "all": Rest(("A", "B", "C"), True),
    "a-part": Rest(("C",), True),
    "nothing": Rest((), True),
    "nothing-where-some-is-refused": Rest((), True, refused=True),
    "a-part-after-a-part": Rest(("C",), True, done=("A",)),
    "one-more": Rest(("C", "D"), False),
    "what-is-done-comes-again": Rest(("A", "C"), False, done=("A",)),
    "elsewhere": Rest(("C",), False, place="there"),
    "an-approval-that-was-carried-out": Rest(("C",), False, after="d1"),
    "hashes-that-are-forged": Rest(("D",), False, forged=("D",)),
}


@pytest.mark.parametrize("rest", [pytest.param(rest, id=name) for name, rest in RESTS.items()])
def test_the_rest_of_an_approved_plan_needs_no_other_approval(rest: Rest) -> None:
    approved = replace(plan(*rest.approved_plan), place="here")
    hashes = {text: part_of("d", text) for text in (*rest.approved_plan, *rest.forged)}
    known = Plan(
        digest=approved.digest(),
        parts=[part for text, part in hashes.items() if text not in rest.done],
        done=[hashes[text] for text in rest.done],
        approved_digest=rest.after,
    )
    body: JSON = {
        "metadata": {"name": "app", "annotations": {APPROVE: approved.digest()}},
        "spec": {
            "username": "app",
            "generatedSecret": "app",
            "connection": {"serverRef": {"name": "main"}},
            "approval": "Manual",
        },
        "status": {"plan": to_builtins(known)},
    }
    desired = desired_of(object_from_dict(body), PostgresOptions(), datetime.now(UTC))
    refused = {"app": (DOWN,)} if rest.refused else {}
    left = replace(plan(*rest.left, after=rest.after), place=rest.place, refused=refused)
    approval = approval_of(desired, left)
    assert (approval is not None) is rest.approved
    if approval is not None:
        assert approval.parts == frozenset(known.parts)
    observed = observed_of(desired).previewed(desired, left)
    # An operator that died before it said so has carried out all.
    assert uses_approval(desired, observed) is (not rest.left)


def test_an_approval_that_does_not_count_is_told() -> None:
    told = previewed(plan("G"), "Manual", "x" * 40).message
    assert f"approve={plan('G').digest()}; the approval {'x' * 32} is void" in told
    assert "void" not in previewed(plan("G"), "Manual").message


APPROVED = Plan(approved_digest="d1", approved_by="kubectl at noon")


@pytest.mark.parametrize(
    ("found", "old", "by", "told"),
    [
        pytest.param(None, None, "", None, id="nothing"),
        pytest.param(None, Plan(digest="x", total=1), "", None, id="enforced-again"),
        pytest.param(None, replace(APPROVED, digest="x", total=1), "", APPROVED, id="remembered"),
        pytest.param(plan(), None, "", Plan(), id="in-sync"),
        pytest.param(plan(), APPROVED, "", APPROVED, id="in-sync-and-approved-before"),
        pytest.param(
            plan("G"),
            None,
            "",
            Plan(
                digest=plan("G").digest(), statements=["d: G"], total=1, parts=[part_of("d", "G")]
            ),
            id="pending",
        ),
        pytest.param(
            plan("G", after="d1"),
            APPROVED,
            "",
            replace(
                APPROVED,
                digest=plan("G", after="d1").digest(),
                statements=["d: G"],
                total=1,
                parts=[part_of("d", "G")],
            ),
            id="pending-and-approved-before",
        ),
        pytest.param(
            plan("G", after="d1"),
            APPROVED,
            "me",
            Plan(
                digest=plan("G", after="d1").digest(),
                statements=["d: G"],
                total=1,
                approved_digest=plan("G", after="d1").digest(),
                approved_by="me",
            ),
            id="carried-out",
        ),
        pytest.param(
            plan(*map(str, range(bounds.STATUS_PARTS + 1))),
            None,
            "",
            Plan(
                digest=plan(*map(str, range(bounds.STATUS_PARTS + 1))).digest(),
                statements=[f"d: {number}" for number in range(64)],
                total=bounds.STATUS_PARTS + 1,
            ),
            id="more-than-a-status-takes",
        ),
    ],
)
def test_what_the_status_says_of_plans(
    found: ShownPlan | None, old: Plan | None, by: str, told: Plan | None
) -> None:
    assert plan_of(found, old, by, proves=True) == told


WAITING = plan_of(plan("A", "B", after="d1"), APPROVED, proves=True)
APPROVAL = plan("A", "B").approval


@pytest.mark.parametrize(
    ("found", "by", "told"),
    [
        pytest.param(
            plan("B", after="d1"),
            "",
            {"statements": ["d: B"], "total": 1, "parts": ["B"], "done": ["A"]},
            id="a-part-is-left",
        ),
        pytest.param(
            replace(plan("B", after="d1"), whole=False),
            "",
            {"statements": ["d: B"], "total": 1, "parts": ["A", "B"]},
            id="a-part-where-not-all-could-be-read",
        ),
        pytest.param(
            plan(after="d1"),
            "me",
            {"approved_digest": plan("A", "B", after="d1").digest(), "approved_by": "me"},
            id="nothing-is-left",
        ),
    ],
)
def test_the_status_knows_what_is_left_of_an_approved_plan(
    found: ShownPlan, by: str, told: dict[str, Any]
) -> None:
    hashed = {key: sorted(part_of("d", text) for text in told.get(key, ())) for key in PARTS}
    digest = plan("A", "B", after="d1").digest()
    expected = replace(APPROVED, digest=digest, **{**told, **hashed})
    assert plan_of(found, WAITING, by, APPROVAL, proves=True) == expected


PARTS = ("parts", "done")


def managed(manager: str, time: str, *annotations: str) -> JSON:
    fields: JSON = {f"f:{name}": {} for name in annotations}
    entry = {"fieldsV1": {"f:metadata": {"f:annotations": fields}}, "operation": "Update"}
    return {
        **entry,
        **({"manager": manager} if manager else {}),
        **({"time": time} if time else {}),
    }


@pytest.mark.parametrize(
    ("entries", "approver"),
    [
        pytest.param(None, "", id="no-managers"),
        pytest.param([], "", id="nobody"),
        pytest.param([{"manager": "m", "fieldsV1": None}], "", id="nothing-of-theirs"),
        pytest.param([managed("m", "2026", "other/approve")], "", id="another-annotation"),
        pytest.param([managed("m", "2026", APPROVE)], "m at 2026", id="one"),
        pytest.param([managed("", "", APPROVE)], "unknown", id="nameless"),
        pytest.param(
            [managed("b", "2026", APPROVE), managed("a", "2027", APPROVE)],
            "a at 2027",
            id="the-last-of-two",
        ),
    ],
)
def test_who_has_approved(entries: list[JSON] | None, approver: str) -> None:
    assert approver_of({"managedFields": entries}) == approver


SERVER = ServerInfo(host="old", version="18", system_identifier="1")


def test_another_server_is_an_event_and_the_same_by_another_name_is_none() -> None:
    old = PostgresAccessStatus(server=SERVER, username="app")
    assert change_events(old, replace(old, server=replace(SERVER, host="new"))) == []
    assert change_events(PostgresAccessStatus(), old) == []
    (told,) = change_events(
        old, replace(old, server=replace(SERVER, host="new", system_identifier="2"))
    )
    assert (told.type, told.reason) == ("Warning", "ServerChanged")
    assert "role app stays on the former server" in told.message


def test_a_renamed_role_is_an_event_once() -> None:
    warning = renamed("x")
    old = PostgresAccessStatus(warnings=["PUBLIC has CONNECT"])
    new = replace(old, warnings=["PUBLIC has TEMPORARY", warning])
    assert change_events(old, new) == [Event("Warning", "RoleRenamed", warning)]
    assert change_events(new, new) == []


NOON = "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        pytest.param("8h", 28_800, id="hours"),
        pytest.param("1h30m10.5s", 5_410.5, id="several"),
        pytest.param("0s", 0, id="at-once"),
        pytest.param("80000000h", None, id="after-the-last-year"),
        pytest.param("99999999999999999999h", None, id="more-than-can-be"),
        pytest.param("-1h", None, id="before"),
        pytest.param("1d", None, id="no-unit"),
    ],
)
def test_when_an_access_ends(after: str, seconds: float | None) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    ends = end_of(NOON, after)
    assert ends == (None if seconds is None else noon + timedelta(seconds=seconds))


def test_what_was_never_created_never_ends() -> None:
    assert end_of("", "8h") is None


def test_a_removal_in_pieces_says_how_far_it_is() -> None:
    first = report(removing(UnfinishedError("app", 20_000, 30_000), None))
    assert first.last_log.startswith(
        "the operator has removed 10,000 of 30,000 objects and privileges of the role"
    )
    # Another process goes on, and is kept for a while.
    locked = report(failed(PassFailure("DatabaseSyncFailed", LOCKED)), first)
    last = report(removing(UnfinishedError("app", 5, 9_000), locked.deletion), locked)
    found = [one.deletion for one in (first, locked, last)]
    assert found == [
        Deletion(removed=removed, total=30_000) for removed in (10_000, 10_000, 29_995)
    ]


COPIED = {"kube-bind.io/cluster-namespace": "kube-bind-1"}
BY_REFERENCE: JSON = {"serverRef": {"name": "main"}}


@pytest.mark.parametrize(
    ("host", "public", "annotations", "template", "hosts"),
    [
        pytest.param("pg.databases.svc", "", COPIED, {}, "pg.databases.svc", id="a Service"),
        pytest.param("pg.db.svc.cluster.local.", "", COPIED, {}, "pg.db", id="in full"),
        pytest.param("PG", "", COPIED, {}, "PG", id="a short name"),
        pytest.param("127.0.0.1", "", COPIED, {}, "127.0.0.1", id="a proxy beside the operator"),
        pytest.param("pg.db.svc,db.example.org", "", COPIED, {}, "pg.db.svc", id="of several"),
        pytest.param("pg.db.svc", "db.example.org", COPIED, {}, "", id="externalHost"),
        pytest.param("pg.db.svc", "", COPIED, {"host": "db"}, "", id="the template's host"),
        pytest.param("pg.db.svc", "", {}, {}, "", id="an object of this cluster"),
        pytest.param("db.example.org", "", COPIED, {}, "", id="a name of the DNS"),
        pytest.param(
            "pg.db.svc.clusterset.local", "", COPIED, {}, "", id="multi-cluster Services"
        ),
        pytest.param("10.0.0.7", "", COPIED, {}, "", id="an address"),
        pytest.param("2001:db8::1", "", COPIED, {}, "", id="an IPv6 address"),
    ],
)
def test_a_copy_warns_of_a_host_that_its_consumer_does_not_find(
    host: str, public: str, annotations: JSON, template: JSON, hosts: str
) -> None:
    (warning,) = host_warnings(host, public, annotations, template, BY_REFERENCE) or [""]
    assert (f"the Secret names host {hosts}" in warning) is bool(hosts)
    assert ("set spec.externalHost of PostgresServer main" in warning) is bool(hosts)


def test_a_copy_with_a_connection_of_its_own_is_led_to_a_server_with_an_external_host() -> None:
    written: JSON = {"host": "pg.db.svc", "username": "admin", "password": "unused"}
    (warning,) = host_warnings("pg.db.svc", "", COPIED, {}, written)
    assert "use a PostgresServer with spec.externalHost" in warning
    # By kbind v2 the same.
    copied = {"core.kbind.io/consumer-object-uid": "u"}
    assert host_warnings("pg.db.svc", "", copied, {}, written) == [warning]


def host_warnings(
    host: str, public: str, annotations: JSON, template: JSON, connection: JSON
) -> list[str]:
    body = {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresAccess",
        "metadata": {"name": "app", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": {
            "connection": connection,
            "username": "app",
            "generatedSecret": "app",
            "grants": [],
            "secretTemplate": {"data": template},
        },
    }
    desired = desired_of(object_from_dict(body), PostgresOptions(), datetime.now(UTC))
    endpoint = Endpoint(
        host=host, port=5432, username="a", password="p", ssl_mode="require", public_host=public
    )
    return unreachable_host(dataclass_replace(desired, place=ServerPlace("main", endpoint)))


class Ends(NamedTuple):
    """A spec of an access that was created on New Year, and what the status says on day 100."""

    spec: JSON
    reason: str
    field: str = ""
    seconds: float | None = None
    """Until the next word about it."""


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86400.0
ENDS = {
    "never": Ends({}, ""),
    "in-weeks": Ends({"expiresAfter": "2880h"}, "", seconds=13 * DAY),
    "in-days": Ends({"expiresAfter": "2520h"}, "EndsSoon", "spec.expiresAfter", 5 * DAY),
    "over": Ends({"expiresAfter": "2376h"}, "Ended", "spec.expiresAfter"),
    "a-date-in-weeks": Ends(
        {"attributes": {"validUntil": "2026-05-01T00:00:00Z"}}, "", "", 13 * DAY
    ),
    "a-date-in-days": Ends(
        {"attributes": {"validUntil": "2026-04-13T02:00:00+02:00"}},
        "EndsSoon",
        "spec.attributes.validUntil",
        2 * DAY,
    ),
    "a-date-that-is-over": Ends(
        {"attributes": {"validUntil": "2026-04-01T00:00:00Z"}},
        "Ended",
        "spec.attributes.validUntil",
    ),
    "two-of-a-former-version": Ends(
        {"expiresAfter": "2520h", "attributes": {"validUntil": "2026-04-13T00:00:00Z"}},
        "EndsSoon",
        "spec.attributes.validUntil",
        2 * DAY,
    ),
}


def ending(spec: JSON, **metadata: object) -> Desired:
    body: JSON = {
        "metadata": {"name": "app", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
        "spec": {
            "username": "app",
            "generatedSecret": "app",
            "connection": {"serverRef": {"name": "main"}},
            **spec,
        },
        "status": {"username": "app"},
    }
    return desired_of(object_from_dict(body), PostgresOptions(), NEW_YEAR + timedelta(days=100))


def test_an_end_that_comes_during_a_pass_is_followed_by_another_pass() -> None:
    desired, planned_at = ending({"expiresAfter": "2400h1s"}), NEW_YEAR + timedelta(days=100)
    end = planned_at + timedelta(seconds=1)
    assert not desired.expired
    assert desired.seconds_to_end(end + timedelta(seconds=2)) == 0
    again = desired_of(desired.obj, PostgresOptions(), end)
    assert again.expired
    # The pass that ends the access is the last one.
    assert again.seconds_to_end(end) is None


@pytest.mark.parametrize("ends", [pytest.param(ends, id=name) for name, ends in ENDS.items()])
def test_the_status_says_in_time_that_a_login_ends(ends: Ends) -> None:
    desired, now = ending(ends.spec), NEW_YEAR + timedelta(days=100)
    status = with_end(PostgresAccessStatus(), desired, "2026-04-11T00:00:00Z")
    found = get_condition(status.conditions, "Expiring")
    assert (found.reason if found else "") == ends.reason
    assert found is None or ends.field in found.message
    assert desired.seconds_to_end(now) == ends.seconds
    # It is written once, not in each pass.
    assert with_end(status, desired, "2026-04-11T12:00:00Z") == status
    told = change_events(PostgresAccessStatus(), status)
    assert [one.reason for one in told] == (["EndsSoon"] if ends.reason == "EndsSoon" else [])
    assert change_events(status, status) == []
    assert with_end(status, ending({}), "2026-04-11T00:00:00Z").conditions == []
    leaving = ending(ends.spec, deletionTimestamp="2026-04-11T00:00:00Z")
    assert with_end(status, leaving, "2026-04-11T00:00:00Z").conditions == []


def test_a_short_life_is_remarked_on_in_its_last_quarter() -> None:
    end = ending({"expiresAfter": "8h"}).end
    assert end is not None
    assert end.remark == NEW_YEAR + timedelta(hours=6)
    assert end.is_short


def test_two_ends_are_refused_before_a_role_is_made() -> None:
    spec = ENDS["two-of-a-former-version"].spec
    access = ending(spec).access
    check_spec(access)
    with pytest.raises(
        AccessError, match=r"spec\.expiresAfter and spec\.attributes\.validUntil both end"
    ):
        check_spec(replace(access, status=PostgresAccessStatus()))


SHARED: dict[str, tuple[str | None, JSON, bool]] = {
    "not-asked-for": (None, {}, True),
    "none-asked-for": ("None", {"username": "app", "appliedGrants": ["d: CONNECT"]}, True),
    "new": ("Shared", {}, False),
    "never-applied": ("Shared", {"conditions": []}, False),
    "a-group-has-them": ("Shared", {"group": "fairlead_group_1"}, True),
    "switched-on": ("Shared", {"username": "app", "appliedGrants": ["d: CONNECT"]}, False),
    "had-nothing-to-share": ("Shared", {"username": "app"}, True),
}
"""spec.groups, the status, and whether the access is served."""


@pytest.mark.parametrize(
    ("groups", "status", "is_served"),
    [pytest.param(*row, id=name) for name, row in SHARED.items()],
)
def test_shared_groups_are_served_where_they_are_in_use(
    groups: str | None, status: JSON, is_served: bool
) -> None:
    access = replace(
        ending({"groups": groups} if groups else {}).access,
        status=convert(status, PostgresAccessStatus),
    )
    if is_served:
        check_spec(access)
        return
    message = (
        r"PostgresAccess app: spec\.groups Shared is deprecated.*remove the field, and give"
        r" the PostgresAccesses a common group role with spec\.memberOf"
    )
    with pytest.raises(AccessError, match=message):
        check_spec(access)


class Caches:
    """Stands in for a cluster whose caches have these objects."""

    def __init__(self, *objects: JSON) -> None:
        self._objects = [object_from_dict(body) for body in objects]

    def informer(self, resource: Resource, **_: object) -> Caches:
        return Caches(*(one.to_dict() for one in self._objects if one.kind == resource.kind))

    def list(self) -> list[Object]:
        return self._objects

    async def synced(self) -> None:
        pass


@pytest.mark.parametrize(("group", "count"), [("fairlead_group_1", 1), ("", 0)])
async def test_accesses_in_groups_are_logged_at_start(group: str, count: int) -> None:
    spec = {"username": "app", "generatedSecret": "app", "connection": {}}
    access: JSON = {
        "apiVersion": POSTGRESACCESSES.api_version,
        "kind": POSTGRESACCESSES.kind,
        "metadata": {"name": "app", "namespace": "team"},
        "spec": spec,
        "status": {"group": group},
    }
    with structlog.testing.capture_logs() as logs:
        await GroupsWarning(cast("Any", Caches(access))).run()
    assert [(one["log_level"], one["accesses"]) for one in logs] == [
        ("warning", ["team/app"])
    ] * count


def test_an_access_in_sync_says_that_its_login_is_over() -> None:
    desired = ending(ENDS["a-date-that-is-over"].spec)
    outcome = outcome_of(desired, observed_of(desired))
    assert (outcome.reason, outcome.again) == ("LoginEnded", "synced")
    status = report(outcome)
    assert [one.type for one in status.conditions if one.status == "True"] == ["Stalled"]
