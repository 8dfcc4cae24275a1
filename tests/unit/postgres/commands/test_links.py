"""The role's link in the cluster of the operator, and in that of a consumer."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.postgres.commands.links import provided_role_link, role_by_status


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
            "set spec.cleanupPolicy to Orphan or Cascade, or ask the provider's team to give what"
            " the role owns to another role",
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
