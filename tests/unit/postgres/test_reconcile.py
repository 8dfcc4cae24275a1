"""The seed's flowchart, edge by edge; ids name its boxes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fairlead.api.conditions import Event, get_condition
from fairlead.api.postgresaccess import PostgresAccessStatus, ServerInfo
from fairlead.postgres.controllers.access.reconcile import (
    STAGES,
    Facts,
    Failure,
    Stage,
    next_step,
)
from fairlead.postgres.controllers.access.reconcile import (
    AccessStep as Step,
)
from fairlead.postgres.controllers.access.status import (
    Login,
    Outcome,
    event,
    failed,
    generated,
    new_status,
    problems,
    success,
)
from fairlead.postgres.errors import AccessError, invalid, refusal


DOWN = AccessError("ConnectionFailed", "nothing listens at db:5432; check host and port")
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:05:00Z"


def live(**facts: object) -> Facts:
    return Facts(finalizer=True, **facts)  # type: ignore[arg-type]


def dying(**facts: object) -> Facts:
    return Facts(deleting=True, finalizer=True, **facts)  # type: ignore[arg-type]


def resolved(**facts: object) -> Facts:
    return live(resolved=True, **facts)


def published(**facts: object) -> Facts:
    return resolved(published=True, **facts)


def secured(secret: str, **facts: object) -> Facts:
    return resolved(checked=True, secret=secret, **facts)


def observed(**facts: object) -> Facts:
    return resolved(planning="Observe", **facts)


def manual(**facts: object) -> Facts:
    return resolved(planning="Manual", **facts)


def approved(**facts: object) -> Facts:
    return manual(planned=True, approved=True, **facts)


def over(**facts: object) -> Facts:
    return live(expired=True, **facts)


def failure(step: Step) -> Failure:
    return Failure(STAGES[step], DOWN)


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        pytest.param(Facts(found=False), Step.IGNORE, id="B-not-found"),
        pytest.param(Facts(), Step.ADD_FINALIZER, id="D-no,E-no->F"),
        pytest.param(Facts(excluded=True), Step.ADD_FINALIZER, id="D-no,E-no->F-excluded"),
        pytest.param(Facts(failure=failure(Step.ADD_FINALIZER)), Step.REPORT, id="F->ERRF"),
        pytest.param(live(), Step.RESOLVE, id="F->S-server-first"),
        pytest.param(live(excluded=True), Step.REPORT, id="E-yes,R10-excluded"),
        pytest.param(live(failure=failure(Step.RESOLVE)), Step.REPORT, id="no-server->ERRD"),
        pytest.param(resolved(), Step.CHECK_ROLE, id="E-yes->S-decide-first"),
        pytest.param(resolved(checked=True), Step.WRITE_SECRET, id="E-yes->S,T"),
        pytest.param(published(), Step.WRITE_SECRET, id="S->T-yes"),
        pytest.param(resolved(keeping=True), Step.WRITE_SECRET, id="adopted->S-no-password"),
        pytest.param(
            resolved(keeping=True, secret="none"), Step.SYNC_DATABASE, id="adopted->R1-no-Secret"
        ),
        pytest.param(
            resolved(keeping=True, secret="none", synced=True), Step.REPORT, id="adopted->X"
        ),
        pytest.param(resolved(failure=failure(Step.CHECK_ROLE)), Step.REPORT, id="refused->ERRD"),
        pytest.param(resolved(failure=failure(Step.WRITE_SECRET)), Step.REPORT, id="W->ERRS"),
        pytest.param(secured("reused"), Step.SYNC_DATABASE, id="T-yes->U,W->R1"),
        pytest.param(secured("generated"), Step.SYNC_DATABASE, id="T-no->V,W->R1"),
        pytest.param(
            secured("reused", failure=failure(Step.SYNC_DATABASE)),
            Step.REPORT,
            id="R4,R5,R6,R7->ERRD",
        ),
        pytest.param(secured("reused", synced=True), Step.REPORT, id="R18->X"),
        pytest.param(Facts(deleting=True), Step.IGNORE, id="G-no"),
        pytest.param(
            Facts(deleting=True, failure=failure(Step.DROP_ROLE)), Step.IGNORE, id="G-no-broken"
        ),
        pytest.param(dying(excluded=True), Step.REMOVE_FINALIZER, id="G-yes,H,I-yes->J"),
        pytest.param(dying(abandoned=True), Step.GIVE_UP, id="G-yes-abandoned"),
        pytest.param(
            dying(abandoned=True, given_up=True), Step.REMOVE_FINALIZER, id="G-yes-abandoned->J"
        ),
        pytest.param(
            dying(abandoned=True, failure=failure(Step.GIVE_UP)), Step.REPORT, id="no-record->ERRF"
        ),
        pytest.param(
            dying(excluded=True, abandoned=True),
            Step.REMOVE_FINALIZER,
            id="abandoned-and-excluded",
        ),
        pytest.param(dying(), Step.DROP_ROLE, id="I-no->L,M,N,O"),
        pytest.param(dying(failure=failure(Step.DROP_ROLE)), Step.REPORT, id="L,M,O->ERRF"),
        pytest.param(dying(dropped=True), Step.REMOVE_FINALIZER, id="O->P"),
        pytest.param(
            dying(dropped=True, failure=failure(Step.REMOVE_FINALIZER)),
            Step.REPORT,
            id="J,P->ERRF",
        ),
        pytest.param(Facts(deleting=True, dropped=True), Step.IGNORE, id="P-done"),
        pytest.param(Facts(suspended=True), Step.ADD_FINALIZER, id="suspended-F-first"),
        pytest.param(live(suspended=True), Step.REPORT, id="suspended"),
        pytest.param(live(suspended=True, expired=True), Step.REPORT, id="suspended-and-over"),
        pytest.param(dying(suspended=True), Step.DROP_ROLE, id="suspended-goes-anyway"),
        pytest.param(Facts(expired=True), Step.ADD_FINALIZER, id="over-F-first"),
        pytest.param(over(), Step.DROP_ROLE, id="over->L,M,N,O"),
        pytest.param(over(dropped=True), Step.REPORT, id="over-O-done"),
        pytest.param(over(ended=True), Step.REPORT, id="over-since-long"),
        pytest.param(over(failure=failure(Step.DROP_ROLE)), Step.REPORT, id="over-O->ERRF"),
        pytest.param(over(excluded=True), Step.REPORT, id="over-and-excluded"),
        pytest.param(over(planning="Observe"), Step.REPORT, id="over-and-only-observed"),
        pytest.param(over(planning="Manual"), Step.DROP_ROLE, id="over-needs-no-approval"),
        pytest.param(dying(expired=True), Step.DROP_ROLE, id="over-and-deleted"),
        pytest.param(live(planning="Observe"), Step.RESOLVE, id="observed-server-first"),
        pytest.param(observed(), Step.PLAN, id="observed"),
        pytest.param(observed(planned=True), Step.REPORT, id="observed-done"),
        pytest.param(observed(failure=failure(Step.PLAN)), Step.REPORT, id="observed->ERRD"),
        pytest.param(dying(planning="Observe"), Step.DROP_ROLE, id="observed-and-deleted"),
        pytest.param(manual(), Step.PLAN, id="manual"),
        pytest.param(manual(planned=True), Step.REPORT, id="manual-waits"),
        pytest.param(approved(), Step.CHECK_ROLE, id="manual-approved->S"),
        pytest.param(approved(published=True), Step.WRITE_SECRET, id="manual-approved->T"),
        pytest.param(published(rotating=True), Step.CHECK_ROLE, id="T-due->server-first"),
        pytest.param(
            published(rotating=True, checked=True), Step.WRITE_SECRET, id="T-due->U-or-V"
        ),
        pytest.param(published(secret="due"), Step.STAGE_LOGIN, id="next-login->server-first"),
        pytest.param(published(secret="staged"), Step.WRITE_SECRET, id="next-login-works->W"),
        pytest.param(
            published(secret="staged", synced=True), Step.WRITE_SECRET, id="only-login-works->W"
        ),
        pytest.param(
            published(secret="generated", synced=True), Step.REPORT, id="only-login-is-published"
        ),
        pytest.param(
            published(secret="changing"), Step.CHANGE_PASSWORD, id="other-password->server-first"
        ),
        pytest.param(
            published(secret="changing", failure=failure(Step.CHANGE_PASSWORD)),
            Step.REPORT,
            id="other-password->ERRD",
        ),
        pytest.param(
            resolved(secret="due", failure=failure(Step.STAGE_LOGIN)),
            Step.REPORT,
            id="next-login->ERRD",
        ),
    ],
)
def test_next_step(facts: Facts, step: Step) -> None:
    assert next_step(facts) is step


def test_the_secret_is_never_touched_while_deleting() -> None:
    for facts in (dying(), dying(resolved=True), dying(excluded=True), dying(dropped=True)):
        assert next_step(facts) not in {
            Step.WRITE_SECRET,
            Step.RESOLVE,
            Step.SYNC_DATABASE,
        }


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
            failed(Failure("DatabaseSyncFailed", AccessError("Locked", "wait for it"))),
            "InProgress", ("False", "False", "True"),
            "PostgresAccess is not yet in sync: wait for it", "pending", id="RERR:X-no->Y2,Y5",
        ),
        pytest.param(
            failed(Failure("FinalizeFailed", DOWN)), "Error", ("False", "False", "False"),
            str(DOWN), "backoff", id="ERRF->E1",
        ),
        pytest.param(
            failed(Failure("SecretSyncFailed", invalid("SecretConflict", "taken"))), "Error",
            ("False", "False", "False"), "SecretConflict: taken", "pending", id="ERRS->E1",
        ),
        pytest.param(
            failed(Failure("DatabaseSyncFailed", DOWN)), "Error", ("False", "False", "False"),
            str(DOWN), "backoff", id="ERRD->E1",
        ),
        pytest.param(
            failed(Failure("DatabaseSyncFailed", refusal("UserExcluded", "not this one"))),
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
def test_reasons(stage: Stage, error: AccessError, reason: str) -> None:
    status = report(PostgresAccessStatus(), failed(Failure(stage, error)))
    ready = get_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == reason


LOGIN = Login(username="app", secret="app-login", server=ServerInfo(host="db", version="18.4"))


def report(
    old: PostgresAccessStatus,
    outcome: Outcome,
    *,
    now: str = NOW,
    login: Login | None = None,
    refused: bool = False,
) -> PostgresAccessStatus:
    return new_status(old, outcome, generation=3, now=now, login=login, refused=refused)


def test_the_same_verdict_changes_nothing() -> None:
    first = report(PostgresAccessStatus(), success(), login=LOGIN)
    assert report(first, success(), now=LATER, login=LOGIN) == first


def test_a_turn_changes_the_transition_time_of_what_turned() -> None:
    first = report(PostgresAccessStatus(), success(), login=LOGIN)
    second = report(first, failed(Failure("DatabaseSyncFailed", DOWN)), now=LATER)
    times = {one.type: one.last_transition_time for one in second.conditions}
    assert times == {"Ready": LATER, "Success": LATER, "InProgress": NOW, "Reconciling": LATER}


def test_the_binding_outlives_a_failure_and_not_a_refusal() -> None:
    first = report(PostgresAccessStatus(), success(), login=LOGIN)
    down = report(first, failed(Failure("DatabaseSyncFailed", DOWN)))
    assert down.binding == first.binding
    refused = failed(Failure("DatabaseSyncFailed", refusal("UsernameConflict", "taken")))
    assert report(first, refused, refused=True).binding is None


def test_events_are_told_on_transitions_only() -> None:
    outcomes = [
        generated(),
        success(),
        success(),
        failed(Failure("DatabaseSyncFailed", DOWN)),
        failed(Failure("DatabaseSyncFailed", DOWN)),
        success(),
    ]
    states = [PostgresAccessStatus()]
    for outcome in outcomes:
        states.append(report(states[-1], outcome))
    told = [event(old, new) for old, new in pairwise(states)]
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
