"""The seed's flowchart, edge by edge; ids name its boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import pytest

from fairlead.api.conditions import Event, get_condition
from fairlead.api.meta import object_from_dict
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    FINALIZER,
    Binding,
    PostgresAccessStatus,
    ServerInfo,
)
from fairlead.api.timestamps import moment
from fairlead.postgres.controllers.access import passes
from fairlead.postgres.controllers.access.passes import (
    Action,
    Credentials,
    Observed,
    PassFailure,
    Reason,
    observed_of,
    plan_on,
    plan_pass,
)
from fairlead.postgres.controllers.access.status import (
    Outcome,
    failed,
    generated,
    new_status,
    outcome_of,
    problems,
    ready_event,
    success,
)
from fairlead.postgres.controllers.rules.desired import Desired, desired_of
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.plan import ShownPlan, Synced
from fairlead.postgres.database.plans.snapshot import ServerFacts
from fairlead.postgres.errors import AccessError, invalid, refusal
from fairlead.postgres.options import PostgresOptions


DOWN = AccessError("ConnectionFailed", "nothing listens at db:5432; check host and port")
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:05:00Z"


ENDPOINT = Endpoint(host="db", port=5432, username="admin", password="secret", ssl_mode="disable")
SERVER = ServerFacts(
    version=180000,
    version_text="18.0",
    system_identifier="1",
    admin="admin",
    admin_oid=10,
    superuser=True,
    reads_verifiers=True,
)
DONE = Synced(server=SERVER, applied=[], warnings=[])
ENDED = {
    "type": "Ready",
    "status": "False",
    "reason": "Expired",
    "message": "",
    "lastTransitionTime": NOW,
}


SECRETS = {
    "unknown": Credentials(),
    "due": Credentials(left=Action.STAGE_LOGIN),
    "staged": Credentials(is_staged=True),
    "changing": Credentials(left=Action.CHANGE_PASSWORD),
    "moving": Credentials(left=Action.SYNC_DATABASE),
    "reused": Credentials(left=None),
    "generated": Credentials(left=None, is_new=True),
    "none": Credentials(left=None),
}


class Case(NamedTuple):
    """An access, and what is known of it."""

    desired: Desired
    observed: Observed


def case(
    *,
    deleting: bool = False,
    finalizer: bool = False,
    excluded: bool = False,
    abandoned: bool = False,
    suspended: bool = False,
    expired: bool = False,
    ended: bool = False,
    resolved: bool = False,
    planning: str = "",
    planned: bool = False,
    approved: bool = False,
    published: bool = False,
    keeps_password: bool = False,
    rotating: bool = False,
    checked: bool = False,
    secret: str = "unknown",
    synced: bool = False,
    released: bool = False,
    failure: Action | None = None,
    username: str = "",
) -> Case:
    """Return an access of which this is so."""
    metadata: dict[str, Any] = {"name": "app", "creationTimestamp": "2020-01-01T00:00:00Z"}
    metadata["finalizers"] = [FINALIZER] if finalizer else []
    metadata["annotations"] = {
        **({ABANDON_ANNOTATION: "true"} if abandoned else {}),
        **({APPROVE_ANNOTATION: ""} if approved else {}),
    }
    if deleting:
        metadata["deletionTimestamp"] = NOW
    spec: dict[str, Any] = {
        "username": "app",
        "generatedSecret": "app",
        "connection": {"serverRef": {"name": "main"}},
        "suspend": suspended,
        "mode": "Observe" if planning == "Observe" else "Enforce",
        "approval": "Manual" if planning == "Manual" else "Automatic",
    }
    if expired:
        spec["expiresAfter"] = "1h"
    status: dict[str, Any] = {"conditions": [ENDED]} if ended else {}
    if username:
        status["username"] = username
    found = object_from_dict({"metadata": metadata, "spec": spec, "status": status})
    options = PostgresOptions(excluded_users=("app",) if excluded else ())
    desired = desired_of(found, options, moment())
    if resolved:
        desired = desired.at(ENDPOINT)
    observed = observed_of(
        desired, published=published, keeps_password=keeps_password, rotating=rotating
    )
    if planned:
        refused = {} if approved else {"app": (DOWN,)}
        observed = observed.previewed(desired, ShownPlan(statements=(), refused=refused))
    if checked:
        observed = observed.checked(answered=True)
    observed = observed.with_login(SECRETS[secret])
    if synced:
        observed = observed.brought(DONE, None)
    if released:
        observed = observed.without_role()
    if failure is not None:
        observed = observed.failed(failure, DOWN)
    return Case(desired, observed)


def live(**facts: Any) -> Case:
    return case(finalizer=True, **facts)


def dying(**facts: Any) -> Case:
    return case(deleting=True, finalizer=True, **facts)


def resolved(**facts: Any) -> Case:
    return live(resolved=True, **facts)


def published(**facts: Any) -> Case:
    return resolved(published=True, **facts)


def secured(secret: str, **facts: Any) -> Case:
    return resolved(checked=True, secret=secret, **facts)


def observed(**facts: Any) -> Case:
    return resolved(planning="Observe", **facts)


def manual(**facts: Any) -> Case:
    return resolved(planning="Manual", **facts)


def approved(**facts: Any) -> Case:
    return manual(planned=True, approved=True, **facts)


def over(**facts: Any) -> Case:
    return live(expired=True, **facts)


@pytest.mark.parametrize(
    ("found", "action"),
    [
        pytest.param(case(), Action.ADD_FINALIZER, id="D-no,E-no->F"),
        pytest.param(case(excluded=True), Action.ADD_FINALIZER, id="D-no,E-no->F-excluded"),
        pytest.param(case(failure=Action.ADD_FINALIZER), Action.REPORT, id="F->ERRF"),
        pytest.param(live(), Action.RESOLVE, id="F->S-server-first"),
        pytest.param(live(excluded=True), Action.REPORT, id="E-yes,R10-excluded"),
        pytest.param(live(failure=Action.RESOLVE), Action.REPORT, id="no-server->ERRD"),
        pytest.param(resolved(), Action.CHECK_ROLE, id="E-yes->S-decide-first"),
        pytest.param(resolved(checked=True), Action.WRITE_SECRET, id="E-yes->S,T"),
        pytest.param(published(), Action.WRITE_SECRET, id="S->T-yes"),
        pytest.param(
            resolved(keeps_password=True), Action.WRITE_SECRET, id="adopted->S-no-password"
        ),
        pytest.param(
            resolved(keeps_password=True, secret="none"),
            Action.SYNC_DATABASE,
            id="adopted->R1-no-Secret",
        ),
        pytest.param(
            resolved(keeps_password=True, secret="none", synced=True),
            Action.REPORT,
            id="adopted->X",
        ),
        pytest.param(resolved(failure=Action.CHECK_ROLE), Action.REPORT, id="refused->ERRD"),
        pytest.param(resolved(failure=Action.WRITE_SECRET), Action.REPORT, id="W->ERRS"),
        pytest.param(secured("reused"), Action.SYNC_DATABASE, id="T-yes->U,W->R1"),
        pytest.param(secured("generated"), Action.SYNC_DATABASE, id="T-no->V,W->R1"),
        pytest.param(
            secured("reused", failure=Action.SYNC_DATABASE),
            Action.REPORT,
            id="R4,R5,R6,R7->ERRD",
        ),
        pytest.param(secured("reused", synced=True), Action.REPORT, id="R18->X"),
        pytest.param(case(deleting=True), Action.IGNORE, id="G-no"),
        pytest.param(
            case(deleting=True, failure=Action.DROP_ROLE), Action.IGNORE, id="G-no-broken"
        ),
        pytest.param(dying(excluded=True), Action.REMOVE_FINALIZER, id="G-yes,H,I-yes->J"),
        pytest.param(dying(abandoned=True), Action.GIVE_UP, id="G-yes-abandoned"),
        pytest.param(
            dying(abandoned=True, released=True), Action.REMOVE_FINALIZER, id="G-yes-abandoned->J"
        ),
        pytest.param(
            dying(abandoned=True, failure=Action.GIVE_UP), Action.REPORT, id="no-record->ERRF"
        ),
        pytest.param(
            dying(excluded=True, abandoned=True),
            Action.REMOVE_FINALIZER,
            id="abandoned-and-excluded",
        ),
        pytest.param(dying(), Action.DROP_ROLE, id="I-no->L,M,N,O"),
        pytest.param(dying(failure=Action.DROP_ROLE), Action.REPORT, id="L,M,O->ERRF"),
        pytest.param(dying(released=True), Action.REMOVE_FINALIZER, id="O->P"),
        pytest.param(
            dying(released=True, failure=Action.REMOVE_FINALIZER),
            Action.REPORT,
            id="J,P->ERRF",
        ),
        pytest.param(case(deleting=True, released=True), Action.IGNORE, id="P-done"),
        pytest.param(case(suspended=True), Action.ADD_FINALIZER, id="suspended-F-first"),
        pytest.param(live(suspended=True), Action.REPORT, id="suspended"),
        pytest.param(live(suspended=True, expired=True), Action.REPORT, id="suspended-and-over"),
        pytest.param(dying(suspended=True), Action.DROP_ROLE, id="suspended-goes-anyway"),
        pytest.param(case(expired=True), Action.ADD_FINALIZER, id="over-F-first"),
        pytest.param(over(), Action.DROP_ROLE, id="over->L,M,N,O"),
        pytest.param(over(released=True), Action.REPORT, id="over-O-done"),
        pytest.param(over(ended=True), Action.REPORT, id="over-since-long"),
        pytest.param(over(failure=Action.DROP_ROLE), Action.REPORT, id="over-O->ERRF"),
        pytest.param(over(excluded=True), Action.REPORT, id="over-and-excluded"),
        pytest.param(over(planning="Observe"), Action.REPORT, id="over-and-only-observed"),
        pytest.param(over(planning="Manual"), Action.DROP_ROLE, id="over-needs-no-approval"),
        pytest.param(dying(expired=True), Action.DROP_ROLE, id="over-and-deleted"),
        pytest.param(live(planning="Observe"), Action.RESOLVE, id="observed-server-first"),
        pytest.param(observed(), Action.PREVIEW, id="observed"),
        pytest.param(observed(planned=True), Action.REPORT, id="observed-done"),
        pytest.param(observed(failure=Action.PREVIEW), Action.REPORT, id="observed->ERRD"),
        pytest.param(dying(planning="Observe"), Action.DROP_ROLE, id="observed-and-deleted"),
        pytest.param(manual(), Action.PREVIEW, id="manual"),
        pytest.param(manual(planned=True), Action.REPORT, id="manual-waits"),
        pytest.param(approved(), Action.CHECK_ROLE, id="manual-approved->S"),
        pytest.param(approved(published=True), Action.WRITE_SECRET, id="manual-approved->T"),
        pytest.param(published(rotating=True), Action.CHECK_ROLE, id="T-due->server-first"),
        pytest.param(
            published(rotating=True, checked=True), Action.WRITE_SECRET, id="T-due->U-or-V"
        ),
        pytest.param(published(secret="due"), Action.STAGE_LOGIN, id="next-login->server-first"),
        pytest.param(published(secret="staged"), Action.WRITE_SECRET, id="next-login-works->W"),
        pytest.param(
            published(secret="staged", synced=True), Action.WRITE_SECRET, id="only-login-works->W"
        ),
        pytest.param(
            published(secret="generated", synced=True), Action.REPORT, id="only-login-is-published"
        ),
        pytest.param(
            published(secret="changing"), Action.CHANGE_PASSWORD, id="other-password->server-first"
        ),
        pytest.param(
            published(secret="changing", failure=Action.CHANGE_PASSWORD),
            Action.REPORT,
            id="other-password->ERRD",
        ),
        pytest.param(
            published(secret="moving"), Action.SYNC_DATABASE, id="other-server->R1-before-W"
        ),
        pytest.param(
            published(secret="moving", failure=Action.SYNC_DATABASE),
            Action.REPORT,
            id="other-server->ERRD",
        ),
        pytest.param(
            published(secret="moving", synced=True), Action.WRITE_SECRET, id="other-server->W"
        ),
        pytest.param(
            resolved(secret="due", failure=Action.STAGE_LOGIN),
            Action.REPORT,
            id="next-login->ERRD",
        ),
    ],
)
def test_the_first_action_of_a_plan(found: Case, action: Action) -> None:
    assert plan_pass(*found)[0] is action


def test_a_plan_has_all_that_is_left_in_its_order() -> None:
    assert plan_pass(*case()) == (
        Action.ADD_FINALIZER,
        Action.RESOLVE,
        Action.CHECK_ROLE,
        Action.WRITE_SECRET,
        Action.SYNC_DATABASE,
        Action.REPORT,
    )
    assert plan_pass(*manual()) == (Action.PREVIEW, Action.REPORT)
    assert plan_pass(*over()) == (Action.DROP_ROLE, Action.REPORT)
    assert plan_pass(*dying()) == (Action.DROP_ROLE, Action.REMOVE_FINALIZER)


def results_of(action: Action, before: Case) -> Iterator[Case]:
    """Yield what an action may leave of a pass."""
    desired, observed = before
    yield Case(desired, observed.failed(action, DOWN))
    match action:
        case Action.ADD_FINALIZER:
            yield Case(replace(desired, finalized=True), observed)
        case Action.RESOLVE:
            yield Case(desired.at(ENDPOINT), observed)
            yield Case(desired.at(ENDPOINT), observed.with_secret())
        case Action.CHECK_ROLE:
            yield Case(desired, observed.checked(answered=True))
            yield Case(desired, observed.as_published().checked(answered=False))
        case Action.PREVIEW:
            for refused in ({}, {"app": (DOWN,)}):
                plan = ShownPlan(statements=(), refused=refused)
                yield Case(desired, observed.previewed(desired, plan))
        case Action.WRITE_SECRET | Action.CHANGE_PASSWORD:
            for credentials in (*SECRETS.values(), replace(SECRETS["staged"], elsewhere=True)):
                yield Case(desired, observed.with_login(credentials))
        case Action.STAGE_LOGIN:
            yield Case(desired, observed.staged(DONE))
        case Action.SYNC_DATABASE:
            yield Case(desired, observed.brought(DONE, None))
            yield Case(desired, observed.previewed(desired, ShownPlan(statements=())))
        case Action.GIVE_UP | Action.DROP_ROLE:
            yield Case(desired, observed.without_role())


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param({}, id="Enforce"),
        pytest.param({"planning": "Manual"}, id="Manual"),
        pytest.param({"planning": "Observe"}, id="Observe"),
        pytest.param({"username": "before"}, id="other-username"),
        pytest.param({"expired": True}, id="expired"),
        pytest.param({"deleting": True, "finalizer": True}, id="deleting"),
        pytest.param({"deleting": True, "finalizer": True, "abandoned": True}, id="abandoned"),
    ],
)
def test_the_rest_of_a_plan_is_what_would_be_planned_again(begun: dict[str, Any]) -> None:
    left = [
        case(**begun, published=published, keeps_password=keeps, rotating=rotating)
        for published, keeps, rotating in product((False, True), repeat=3)
    ]
    reached: set[str] = set()
    while left:
        before = left.pop()
        plan = plan_pass(*before)
        for after in results_of(plan[0], before):
            assert plan_on(plan, before.observed, *after) == plan_pass(*after)
            if repr(after) not in reached:
                reached.add(repr(after))
                left.append(after)


@pytest.mark.parametrize(
    ("begun", "secret"),
    [
        pytest.param(case(), "generated", id="a-new-access"),
        pytest.param(live(published=True), "reused", id="a-changed-grant"),
        pytest.param(over(), "reused", id="an-end"),
        pytest.param(dying(), "reused", id="a-deletion"),
    ],
)
def test_what_goes_as_foreseen_is_planned_once(
    begun: Case, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, before = plan_pass(*begun), begun
    monkeypatch.delattr(passes, "plan_pass")
    while plan[0] not in {Action.REPORT, Action.REMOVE_FINALIZER}:
        after = foreseen(plan[0], before, secret)
        rest = plan_on(plan, before.observed, *after)
        assert rest == plan[1:]
        plan, before = rest, after


def foreseen(action: Action, before: Case, secret: str) -> Case:
    """Return what an action leaves of a pass in the usual case."""
    if action is Action.WRITE_SECRET:
        return before._replace(observed=before.observed.with_login(SECRETS[secret]))
    return next(one for one in results_of(action, before) if one.observed.failure is None)


def test_the_secret_is_never_touched_while_deleting() -> None:
    for found in (dying(), dying(resolved=True), dying(excluded=True), dying(released=True)):
        kept = {Action.WRITE_SECRET, Action.RESOLVE, Action.SYNC_DATABASE}
        assert kept.isdisjoint(plan_pass(*found))


def test_what_nobody_can_decode_is_told_of_and_can_be_let_go_of() -> None:
    def first(**more: Any) -> Action:
        metadata = {"name": "app", "finalizers": [FINALIZER], **more}
        found = object_from_dict({"spec": {"username": 7}, "metadata": metadata})
        desired = desired_of(found, PostgresOptions(), moment())
        return plan_pass(desired, observed_of(desired))[0]

    given_up = {ABANDON_ANNOTATION: "true"}
    assert first() is Action.REPORT
    assert first(annotations=given_up) is Action.REPORT
    assert first(deletionTimestamp=NOW) is Action.REPORT
    assert first(deletionTimestamp=NOW, annotations=given_up) is Action.GIVE_UP


@pytest.mark.parametrize(
    ("outcome", "state", "conditions", "message", "again"),
    [
        pytest.param(
            success(), "Success", ("True", "True", "False"), "PostgresAccess is in sync",
            "synced", id="X-yes->Y,Y4",
        ),
        pytest.param(
            generated(), "InProgress", ("False", "False", "True"),
            "PostgresAccess is not yet in sync", "at-once", id="V:X-no->Y2,Y5",
        ),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", AccessError("Locked", "wait for it"))),
            "InProgress", ("False", "False", "True"),
            "PostgresAccess is not yet in sync: wait for it", "pending", id="RERR:X-no->Y2,Y5",
        ),
        pytest.param(
            failed(PassFailure("FinalizeFailed", DOWN)), "Error", ("False", "False", "False"),
            str(DOWN), "backoff", id="ERRF->E1",
        ),
        pytest.param(
            failed(PassFailure("SecretSyncFailed", invalid("SecretConflict", "taken"))), "Error",
            ("False", "False", "False"), "SecretConflict: taken", "pending", id="ERRS->E1",
        ),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", DOWN)), "Error", ("False", "False", "False"),
            str(DOWN), "backoff", id="ERRD->E1",
        ),
        pytest.param(
            failed(PassFailure("DatabaseSyncFailed", refusal("UserExcluded", "not this one"))),
            "Error", ("False", "False", "False"), "not this one", "pending", id="R10-excluded",
        ),
    ],
)  # fmt: skip
def test_outcomes(
    outcome: Outcome,
    state: str,
    conditions: tuple[str, str, str],
    message: str,
    again: str,
) -> None:
    status = report(PostgresAccessStatus(), outcome)
    found = [get_condition(status.conditions, name) for name in ("Ready", "Success", "InProgress")]
    assert tuple(one.status for one in found if one) == conditions
    assert (status.last_reconcile_state, status.last_log) == (state, message)
    assert outcome.again == again
    assert status.observed_generation == 3


@pytest.mark.parametrize(
    ("stage", "error", "reason"),
    [
        pytest.param("FinalizeFailed", DOWN, "FinalizeFailed", id="ERRF"),
        pytest.param("SecretSyncFailed", DOWN, "SecretSyncFailed", id="ERRS"),
        pytest.param("DatabaseSyncFailed", DOWN, "DatabaseSyncFailed", id="ERRD"),
        pytest.param(
            "DatabaseSyncFailed", refusal("UsernameConflict", "x"), "UsernameConflict", id="A11"
        ),
    ],
)
def test_reasons(stage: Reason, error: AccessError, reason: str) -> None:
    status = report(PostgresAccessStatus(), failed(PassFailure(stage, error)))
    ready = get_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == reason


LOGIN = PostgresAccessStatus(
    username="app",
    binding=Binding(name="app-login"),
    server=ServerInfo(host="db", version="18.4"),
)


def report(
    old: PostgresAccessStatus,
    outcome: Outcome,
    *,
    now: str = NOW,
    refused: bool = False,
) -> PostgresAccessStatus:
    return new_status(old, outcome, generation=3, now=now, refused=refused)


def test_the_same_verdict_changes_nothing() -> None:
    first = report(LOGIN, success())
    assert report(first, success(), now=LATER) == first


def test_a_turn_changes_the_transition_time_of_what_turned() -> None:
    first = report(LOGIN, success())
    second = report(first, failed(PassFailure("DatabaseSyncFailed", DOWN)), now=LATER)
    times = {one.type: one.last_transition_time for one in second.conditions}
    assert times == {"Ready": LATER, "Success": LATER, "InProgress": NOW, "Reconciling": LATER}


def test_the_binding_outlives_a_failure_and_not_a_refusal() -> None:
    first = report(LOGIN, success())
    down = report(first, failed(PassFailure("DatabaseSyncFailed", DOWN)))
    assert down.binding == first.binding
    refused = failed(PassFailure("DatabaseSyncFailed", refusal("UsernameConflict", "taken")))
    assert report(first, refused, refused=True).binding is None


def test_events_are_told_on_transitions_only() -> None:
    outcomes = [
        generated(),
        success(),
        success(),
        failed(PassFailure("DatabaseSyncFailed", DOWN)),
        failed(PassFailure("DatabaseSyncFailed", DOWN)),
        success(),
    ]
    states = [PostgresAccessStatus()]
    for outcome in outcomes:
        states.append(report(states[-1], outcome))
    told = [ready_event(old, new) for old, new in pairwise(states)]
    done = Event("Normal", "ReconcileSuccess", "PostgresAccess is in sync and ready")
    assert told == [
        None,
        done,
        None,
        Event("Warning", "DatabaseSyncFailed", str(DOWN)),
        None,
        done,
    ]


def test_several_problems_are_one_message_that_fits() -> None:
    found = [AccessError("SchemaNotFound", f"schema {number} " + "x" * 300) for number in range(9)]
    status = report(PostgresAccessStatus(), failed(problems(found)))
    assert status.last_log.startswith("SchemaNotFound: schema 0")
    assert "SchemaNotFound: schema 1" in status.last_log
    assert len(status.last_log) == 1024


@pytest.mark.parametrize(
    ("found", "again"),
    [
        pytest.param([invalid("UnsupportedPrivilege", "a")], "pending", id="one-to-change"),
        pytest.param([invalid("UnsupportedPrivilege", "a")] * 2, "pending", id="all-to-change"),
        pytest.param([invalid("UnsupportedPrivilege", "a"), DOWN], "backoff", id="one-may-heal"),
    ],
)
def test_problems_are_retried_while_one_may_heal(found: list[AccessError], again: str) -> None:
    assert failed(problems(found)).again == again


REFUSED = AccessError("AuthenticationFailed", "correct the credentials in Secret team/admin")


def in_sync(
    *,
    generation: int = 1,
    host: str = "db",
    secret: str = "reused",
    deleting: bool = False,
    **facts: Any,
) -> Case:
    """Return an access that was in sync at generation 1."""
    ready = {**ENDED, "status": "True", "reason": "Ready", "observedGeneration": 1}
    server = {"host": host, "version": "18.0", "systemIdentifier": "1"}
    metadata: dict[str, Any] = {"name": "app", "generation": generation}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    spec = {
        "username": "app",
        "generatedSecret": "app",
        "connection": {"serverRef": {"name": "main"}},
    }
    status = {"conditions": [ready], "server": server}
    found = object_from_dict({"metadata": metadata, "spec": spec, "status": status})
    desired = desired_of(found, PostgresOptions(), moment()).at(ENDPOINT)
    observed = observed_of(desired, **{"published": True, **facts}).with_login(SECRETS[secret])
    return Case(desired, observed)


@pytest.mark.parametrize(
    ("found", "error", "state"),
    [
        pytest.param(in_sync(), REFUSED, "Success", id="in-sync"),
        pytest.param(in_sync(), DOWN, "Error", id="server-away"),
        pytest.param(in_sync(generation=2), REFUSED, "Error", id="spec-has-changed"),
        pytest.param(in_sync(host="other"), REFUSED, "Error", id="server-has-changed"),
        pytest.param(in_sync(published=False), REFUSED, "Error", id="secret-is-gone"),
        pytest.param(in_sync(rotating=True), REFUSED, "Error", id="password-is-due"),
        pytest.param(in_sync(secret="changing"), REFUSED, "Error", id="password-changes"),
        pytest.param(in_sync(secret="moving"), REFUSED, "Error", id="port-has-changed"),
        pytest.param(in_sync(deleting=True), REFUSED, "Error", id="deleted"),
        pytest.param(resolved(published=True), REFUSED, "Error", id="never-ready"),
    ],
)
def test_what_is_in_sync_stays_so_while_the_administrator_is_refused(
    found: Case, error: AccessError, state: str
) -> None:
    observed = found.observed.failed(Action.SYNC_DATABASE, error)
    outcome = outcome_of(found.desired, observed)
    assert (outcome.state, outcome.again) == (state, "backoff")
    assert error.message in outcome.message
    before = PostgresAccessStatus()
    after = new_status(before, outcome, generation=1, now=NOW, refused=False)
    event = ready_event(before, after)
    assert event is not None
    assert event.type == "Warning"
