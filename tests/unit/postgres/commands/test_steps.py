from __future__ import annotations

import pytest

from fairlead.api.conditions import Condition
from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess import (
    PostgresAccess,
    PostgresAccessSpec,
    PostgresAccessStatus,
    ServerInfo,
)
from fairlead.api.postgresaccess.connection import Connection, ServerRef
from fairlead.api.reasons.postgres import POSTGRES, StepName, finer, step_of
from fairlead.postgres.commands.links import (
    STEPS,
    from_status,
    readiness,
)
from fairlead.postgres.commands.surroundings import same_server


def access(
    *,
    reason: str = "",
    message: str = "",
    ready: bool = False,
    observed: int = 1,
    server: str = "main",
    identity: str = "",
) -> PostgresAccess:
    conditions = []
    if reason:
        conditions = [Condition("Ready", "True" if ready else "False", reason, message, "", 1)]
    status = PostgresAccessStatus(conditions=conditions, observed_generation=observed)
    if identity:
        status.server = ServerInfo(system_identifier=identity)
    return PostgresAccess(
        metadata=ObjectMeta(name="a", namespace="team", generation=1),
        spec=PostgresAccessSpec(
            generated_secret="a",
            username="a",
            connection=Connection(server_ref=ServerRef(name=server)),
        ),
        status=status,
    )


@pytest.mark.parametrize(
    ("reason", "message", "step"),
    [
        pytest.param("DatabaseSyncFailed", "ConnectionFailed: away", "server", id="server"),
        pytest.param("PolicyDenied", "no", "policy", id="verdict"),
        pytest.param("UsernameConflict", "taken", "role", id="role"),
        pytest.param("SecretSyncFailed", "SecretConflict: x", "Secret", id="secret"),
        pytest.param("DatabaseSyncFailed", "SchemaNotFound: x", "grants", id="grants"),
        pytest.param("DatabaseSyncFailed", "InvalidSpec: x", "object", id="object"),
    ],
)
def test_a_status_says_how_far_it_came(reason: str, message: str, step: StepName) -> None:
    found = from_status(access(reason=reason, message=message))
    at = STEPS.index(step)
    assert [found[name].state for name in STEPS] == [
        *["ok"] * at,
        "failed",
        *["unknown"] * (len(STEPS) - at - 1),
    ]


def test_all_is_well() -> None:
    found = from_status(access(reason="Ready", ready=True))
    assert {one.state for one in found.values()} == {"ok"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(access(observed=-1), id="nobody-looked"),
        pytest.param(access(reason="Ready", ready=True, observed=0), id="changed-since"),
    ],
)
def test_what_nobody_has_seen_is_unknown(given: PostgresAccess) -> None:
    assert readiness(given)[:2] == (False, "Unseen")
    assert {one.state for one in from_status(given).values()} == {"unknown"}


def test_a_lock_is_waited_for() -> None:
    found = from_status(access(reason="Reconciling", message="not yet"))
    assert found["grants"].state == "waiting"


@pytest.mark.parametrize("reason", ["Locked", "Reconciling", "Unfinished", "OwnsObjects"])
def test_a_step_stands_as_the_table_says_of_its_reason(reason: str) -> None:
    found = from_status(access(reason=reason, message="why"))
    assert found[step_of(reason)].state == POSTGRES.state(reason)


def test_finer_reasons() -> None:
    assert finer("DatabaseSyncFailed", "Locked: by x: y") == ("Locked", "by x: y")
    assert finer("UsernameConflict", "A: b") == ("UsernameConflict", "A: b")
    assert finer("SecretSyncFailed", "no reason") == ("SecretSyncFailed", "no reason")


def test_every_reason_of_a_next_step_has_a_step() -> None:
    assert {step_of(reason.name) for reason in POSTGRES} == set(STEPS)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(access(), access(), True, id="name"),
        pytest.param(access(), access(server="b"), False, id="other-name"),
        pytest.param(access(identity="1"), access(server="b", identity="1"), True, id="identity"),
        pytest.param(access(identity="1"), access(identity="2"), False, id="other-identity"),
        pytest.param(access(identity="1"), access(), True, id="name-where-one-is-unknown"),
    ],
)
def test_servers_are_the_same_by_identity_or_else_by_name(
    one: PostgresAccess, other: PostgresAccess, same: bool
) -> None:
    assert same_server(one, other) is same
