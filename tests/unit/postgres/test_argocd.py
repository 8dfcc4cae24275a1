"""The health script for Argo CD, by an interpreter of the Lua that Argo CD speaks (5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from lupa import lua51  # type: ignore[import-untyped]
from psycopg import sql

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import PostgresAccessStatus
from fairlead.postgres.controllers.access.passes import PassFailure
from fairlead.postgres.controllers.access.status import (
    Outcome,
    expired,
    failed,
    generated,
    new_status,
    previewed,
    success,
)
from fairlead.postgres.database.plans.plan import ShownPlan
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.errors import AccessError, refusal


SCRIPT = Path(__file__).parents[3] / "examples" / "07-argo-cd" / "health.lua"
DOWN = AccessError("ConnectionFailed", "nothing listens at db:5432; check host and port")
PENDING = ShownPlan(
    statements=(
        AccessStatement(database="d", statement=sql.SQL("GRANT"), why="r", usernames=("app",)),
    )
)


def health(body: JSON) -> tuple[str, str]:
    runtime: Any = lua51.LuaRuntime(unpack_returned_tuples=True)
    runtime.globals().obj = runtime.table_from(body, recursive=True)
    found = runtime.execute(SCRIPT.read_text())
    return found["status"], found["message"]


def body(outcome: Outcome | None, **fields: Any) -> JSON:
    status: JSON = {"observedGeneration": -1}
    if outcome is not None:
        status = msgspec.to_builtins(
            new_status(
                PostgresAccessStatus(),
                outcome,
                generation=2,
                now="2026-01-01T00:00:00Z",
                refused=False,
            )
        )
    metadata = {"name": "app", "generation": 2}
    return {"metadata": metadata, "spec": {"username": "app"}, "status": status} | fields


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        pytest.param(body(None), "Progressing", id="fresh"),
        pytest.param(body(None, status=None), "Progressing", id="no-status"),
        pytest.param(body(generated()), "Progressing", id="new-password"),
        pytest.param(body(success()), "Healthy", id="in-sync"),
        pytest.param(
            body(success(), metadata={"name": "app", "generation": 3}),
            "Progressing",
            id="wanted-otherwise",
        ),
        pytest.param(
            body(success(), metadata={"name": "app", "generation": 2, "deletionTimestamp": "now"}),
            "Progressing",
            id="being-deleted",
        ),
        pytest.param(
            body(failed(PassFailure("DatabaseSyncFailed", DOWN))), "Degraded", id="server-away"
        ),
        pytest.param(
            body(failed(PassFailure("DatabaseSyncFailed", AccessError("Locked", "wait")))),
            "Progressing",
            id="somebody-in-the-way",
        ),
        pytest.param(
            body(failed(PassFailure("DatabaseSyncFailed", refusal("UsernameConflict", "taken")))),
            "Degraded",
            id="refused",
        ),
        pytest.param(body(expired("2026-01-01T00:00:00Z")), "Degraded", id="over"),
        pytest.param(body(previewed(PENDING, "Observe")), "Suspended", id="observed"),
        pytest.param(body(previewed(PENDING, "Manual")), "Suspended", id="to-be-approved"),
        pytest.param(
            body(success(), spec={"username": "app", "suspend": True}), "Suspended", id="suspended"
        ),
    ],
)
def test_health(found: JSON, verdict: str) -> None:
    status, message = health(found)
    assert status == verdict
    assert message
