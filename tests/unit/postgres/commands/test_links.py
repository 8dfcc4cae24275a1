"""The role's link where the operator is and at a consumer, and the steps by the status alone."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.conditions import Condition
from fairlead.api.meta import JSON, Object, ObjectMeta, object_from_dict
from fairlead.api.postgresaccess import (
    POSTGRESACCESSES,
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
    provided_role_link,
    readiness,
    role_by_status,
)
from fairlead.postgres.commands.surroundings import same_server


def access(generation: int, reason: str = "", *, observed: int = 1, **metadata: Any) -> Object:
    status: JSON = {"observedGeneration": observed}
    said = "True" if reason == "ReconcileSuccess" else "False"
    condition = {"type": "Ready", "status": said, "reason": reason, "message": f"says {reason}"}
    status["conditions"] = [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    named = {"name": "db", "namespace": "shop", "uid": "u", "generation": generation}
    return object_from_dict(
        {
            "apiVersion": POSTGRESACCESSES.api_version,
            "kind": POSTGRESACCESSES.kind,
            "metadata": {**named, **metadata},
            "spec": {
                "username": "shop",
                "generatedSecret": "login",
                "connection": {"serverRef": {"name": "main"}},
            },
            **({"status": status} if reason else {}),
        }
    )


ASK = "wait; if it lasts, ask the provider whether its PostgresAccess operator runs"


@pytest.mark.parametrize(
    ("here", "copy", "reason", "remedy"),
    [
        pytest.param(
            access(5, "ReconcileSuccess"),
            access(1, "ReconcileSuccess"),
            "",
            "",
            id="changed-more-often-here",
        ),
        pytest.param(access(5, "ReconcileSuccess"), None, "", "", id="copy-unseen"),
        pytest.param(access(1), access(1), "Unseen", ASK, id="operator-has-not-looked"),
        pytest.param(
            access(3, "OwnsObjects"),
            access(2, "OwnsObjects"),
            "Unseen",
            ASK,
            id="operator-has-not-looked-since-a-change",
        ),
        pytest.param(access(1), None, "", "", id="no-copy"),
        pytest.param(
            access(3, "OwnsObjects", deletionTimestamp="2026-01-01T00:00:00Z"),
            access(1, "OwnsObjects", deletionTimestamp="2026-01-01T00:00:00Z"),
            "OwnsObjects",
            "set spec.cleanupPolicy to Orphan or Cascade, or ask the provider's team to give the"
            " objects of the role to another role",
            id="remedy-in-the-spec",
        ),
        pytest.param(
            access(1, "AuthenticationFailed"),
            access(1, "AuthenticationFailed"),
            "AuthenticationFailed",
            "ask the provider's team: write the administrator's present password into the Secret"
            " of the PostgresServer or of spec.connection",
            id="remedy-at-the-server",
        ),
        pytest.param(
            access(1, "KeyInvalid"),
            access(1, "KeyInvalid"),
            "KeyInvalid",
            "ask the provider's team: restore the Secret, or delete it",
            id="remedy-in-the-operators-namespace",
        ),
    ],
)
def test_the_role_behind_a_provided_access(
    here: Object, copy: Object | None, reason: str, remedy: str
) -> None:
    link = provided_role_link(here, copy)
    assert (link.name, link.reason, link.remedy) == ("role", reason, remedy)


def test_the_operators_own_cluster_has_the_operator() -> None:
    link = role_by_status(access(2, "ReconcileSuccess"))
    assert link.reason == "Unseen"
    assert "fairlead postgres run" in link.remedy


def status(
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
    found = from_status(status(reason=reason, message=message))
    at = STEPS.index(step)
    assert [found[name].state for name in STEPS] == [
        *["ok"] * at,
        "failed",
        *["unknown"] * (len(STEPS) - at - 1),
    ]


def test_all_is_well() -> None:
    found = from_status(status(reason="Ready", ready=True))
    assert {one.state for one in found.values()} == {"ok"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(status(observed=-1), id="nobody-looked"),
        pytest.param(status(reason="Ready", ready=True, observed=0), id="changed-since"),
    ],
)
def test_what_nobody_has_seen_is_unknown(given: PostgresAccess) -> None:
    assert readiness(given)[:2] == (False, "Unseen")
    assert {one.state for one in from_status(given).values()} == {"unknown"}


def test_a_lock_is_waited_for() -> None:
    found = from_status(status(reason="Reconciling", message="not yet"))
    assert found["grants"].state == "waiting"


@pytest.mark.parametrize("reason", ["Locked", "Reconciling", "Unfinished", "OwnsObjects"])
def test_a_step_stands_as_the_table_says_of_its_reason(reason: str) -> None:
    found = from_status(status(reason=reason, message="why"))
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
        pytest.param(status(), status(), True, id="name"),
        pytest.param(status(), status(server="b"), False, id="other-name"),
        pytest.param(status(identity="1"), status(server="b", identity="1"), True, id="identity"),
        pytest.param(status(identity="1"), status(identity="2"), False, id="other-identity"),
        pytest.param(status(identity="1"), status(), True, id="name-where-one-is-unknown"),
    ],
)
def test_servers_are_the_same_by_identity_or_else_by_name(
    one: PostgresAccess, other: PostgresAccess, same: bool
) -> None:
    assert same_server(one, other) is same
