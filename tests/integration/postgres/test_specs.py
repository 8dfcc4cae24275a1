"""Whole specs on a real server: nothing is sent but what is meant, and nothing of it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.pgserver import fetch, run
from tests.support.specs import specs
from tests.support.statements import watched, wrong

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.api.timestamps import moment
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.controllers.rules.desired import decode_access, desired_of_access
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans import logins
from fairlead.postgres.database.plans.plan import Synced
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.sync import sync
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions


@pytest.fixture
async def _app(postgres: EmbeddedPostgres) -> AsyncIterator[None]:
    await run(postgres, "postgres", "CREATE DATABASE app")
    yield
    await run(postgres, "postgres", "DROP DATABASE app WITH (FORCE)")


@pytest.mark.extended
@pytest.mark.usefixtures("_app")
@given(specs(), st.lists(st.text(min_size=1), min_size=4, max_size=4), st.text(min_size=1))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_whole_specs(
    postgres: EmbeddedPostgres, endpoint: Endpoint, spec: JSON, words: list[str], password: str
) -> None:
    """On a real server: nothing is sent but what is meant, and nothing of it stays."""
    meta = {"name": "app", "namespace": "team", "uid": "u1"}
    body = {"apiVersion": "access.k8s.delta10.nl/v1", "kind": "PostgresAccess"}
    policy: CleanupPolicy = spec["cleanupPolicy"]
    try:
        access = decode_access(object_from_dict({**body, "metadata": meta, "spec": spec}))
        desired = desired_of_access(access, PostgresOptions(), moment())
        if desired.unsound is not None:
            return
    except AccessError:
        return
    installation, uid, namespace, name = words
    mine = RoleClaim(installation=installation, uid=uid, namespace=namespace, name=name)
    turning = spec["passwordPolicy"]["rotation"] == "TwoLogins"
    login = logins.login_names(access.spec.username)[0] if turning else access.spec.username
    wanted = desired.wanted_state(mine, "", login=login, password=password)
    group, table = spec["memberOf"][0]["role"], spec["grants"][0]["names"][0]
    schema = spec["grants"][0]["schema"]
    before = await fetch(postgres, "postgres", "SELECT rolname::text FROM pg_roles ORDER BY 1")
    names = {"g": group, "s": schema, "t": table}
    await run(postgres, "postgres", "CREATE ROLE {g}", **names)
    await run(postgres, "app", "CREATE SCHEMA {s}", "CREATE TABLE {s}.{t} (id int)", **names)
    sessions, verifiers = Sessions(endpoint), Verifiers()
    try:
        with watched() as faults:
            plan = await plan_accesses(sessions, [wanted], verifiers)
            (outcome,) = (await sync(sessions, [wanted], verifiers)).values()
            gone = await cleanup(
                sessions, wanted.username, mine, policy, orphan_to=spec["orphanTo"]
            )
        assert faults == []
        assert all(not wrong(one.text, parameters=False) for one in plan.statements)
        assert isinstance(outcome, (Synced, AccessError))
        if isinstance(outcome, Synced) and policy != "Retain":
            assert gone
    finally:
        await sessions.close()
        await run(postgres, "app", "DROP SCHEMA {s} CASCADE", "DROP OWNED BY {g}", **names)
        await run(postgres, "postgres", "DROP ROLE {g}", **names)
        if policy == "Retain":
            statements_ = ("DROP OWNED BY {r}", "DROP ROLE {r}")
            await run(postgres, "app", *statements_, r=wanted.username)
    after = await fetch(postgres, "postgres", "SELECT rolname::text FROM pg_roles ORDER BY 1")
    assert after == before
