"""One plan for the accesses of a server: who makes it, and that everybody shows the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.pgserver import claim, grant, wanted
from tests.support.sources import parsed

import fairlead.postgres
from fairlead.api.meta import JSON
from fairlead.postgres.database.plans.groups import share
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.server_plan import (
    ObservedServer,
    observed_server,
    plan_server,
    refusals,
    warnings_of,
)
from fairlead.postgres.database.plans.snapshot import (
    DatabaseFacts,
    RoleFacts,
    ServerFacts,
    ServerSnapshot,
)


PACKAGE = Path(fairlead.postgres.__file__).parent
SERVER = ServerFacts(
    version=180000,
    version_text="18.0",
    system_identifier="1",
    admin="postgres",
    admin_oid=10,
    superuser=True,
    reads_verifiers=True,
)
BEFORE, LATER = "2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z"
VERIFIER = "SCRAM-SHA-256$4096:c2FsdA==$a:b"


def seen(*asked: WantedState, **roles: RoleFacts) -> ObservedServer:
    snapshot = ServerSnapshot(
        server=SERVER,
        roles=roles,
        databases={"shop": DatabaseFacts(name="shop", connectable=True)},
    )
    sharing = share(asked, SERVER.version)
    verifiers = dict.fromkeys((one.login for one in asked), VERIFIER)
    return observed_server(asked, sharing, snapshot, verifiers, refusals(asked, sharing, snapshot))


def test_a_plan_prints_its_statements_in_their_order_and_no_verifier() -> None:
    asked = wanted("app", grant("shop", "CONNECT"))
    plan = plan_server([asked], seen(asked), frozenset({"TEMPORARY"}))
    create, comment, give = str(plan).splitlines()
    assert create == "CREATE ROLE \"app\" LOGIN PASSWORD '***'"
    assert comment.startswith('COMMENT ON ROLE "app" IS ')
    assert give == 'GRANT CONNECT ON DATABASE "shop" TO "app"'


def test_nothing_is_planned_for_who_is_refused() -> None:
    mine, theirs = wanted("app"), wanted("other")
    held = RoleFacts(oid=7, name="other", login=True, claim=claim("another", uid="u2"))
    look = seen(mine, theirs, other=held)
    assert [*look.refused] == ["other"]
    plan = plan_server([mine, theirs], look)
    assert {name for change in plan.changes for name in change.usernames} == {"app"}
    assert [*plan.desired] == ["app"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        pytest.param("controllers/rules/desired.py", "Desired", id="Desired"),
        pytest.param("controllers/access/passes.py", "Observed", id="Observed-of-an-access"),
        pytest.param("database/plans/server_plan.py", "ObservedServer", id="Observed-of-a-server"),
    ],
)
def test_only_its_own_module_makes_a_value_of_what_is_desired_or_observed(
    module: str, name: str
) -> None:
    path = PACKAGE / module
    made = {one for one in PACKAGE.rglob("*.py") if name in _called(one)}
    own = {
        one
        for one in PACKAGE.rglob("*.py")
        if f"class {name}(" in one.read_text() or f"class {name}:" in one.read_text()
    }
    assert path in made
    assert made == own


def _called(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@pytest.mark.parametrize(
    ("facts", "warns"),
    [
        pytest.param({"login": True, "sessions": 2}, False, id="logs-in"),
        pytest.param({"login": True, "sessions": 2, "valid_until": LATER}, False, id="ends-later"),
        pytest.param({"login": True, "sessions": 2, "valid_until": BEFORE}, True, id="has-ended"),
        pytest.param({"login": True, "valid_until": BEFORE}, False, id="ended-without-sessions"),
        pytest.param({"login": False, "sessions": 2}, True, id="without-login"),
    ],
)
def test_sessions_that_outlast_their_login_are_warned_of(facts: JSON, warns: bool) -> None:
    asked = wanted("app")
    server = replace(SERVER, now=datetime(2026, 1, 1, tzinfo=UTC))
    role = RoleFacts(oid=7, name="app", claim=asked.claim, **facts)
    snapshot = ServerSnapshot(server=server, roles={"app": role}, databases={})
    warnings = warnings_of(asked, share([asked], server.version), snapshot)
    assert [one.partition(";")[0] for one in warnings] == (
        ["open sessions of role app, which may not log in any more: 2"] if warns else []
    )
