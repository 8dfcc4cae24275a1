"""A tenant whose role has a verifier with more rounds than anybody would work out."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.integration.postgres.test_roles import Admin, role
from tests.support.pgserver import PASSWORD, can_login, fetch

from fairlead.postgres.database.plans.plan import Synced
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.sync import sync


ROUNDS = 20_000_000
"""That take libpq many seconds."""
_VERIFIER = f"SCRAM-SHA-256${ROUNDS}:c2FsdA==${'A' * 43}=:{'A' * 43}="
_HELD_SECONDS = 5.0


class Beat:
    """Measures for how long nothing else could run."""

    longest = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            self.longest = max(self.longest, loop.time() - before)


@pytest.mark.differs("administrator")
async def test_rounds_of_a_tenants_verifier_hold_nobody_up(admin: Admin) -> None:
    """The password is stored again, and a neighbour is served meanwhile."""
    await admin.one(role("tenant"))
    # PostgreSQL works them out itself where it is told to store them: whether the password is "".
    async with await psycopg.AsyncConnection.connect(
        admin.server.dsn(), autocommit=True
    ) as superuser:
        await superuser.execute(
            "UPDATE pg_catalog.pg_authid SET rolpassword = %s WHERE rolname = 'tenant'",
            (_VERIFIER,),
        )
    beat = Beat()
    beating = asyncio.create_task(beat.run())
    try:
        accesses = [role("tenant"), role("neighbour", uid="u2")]
        # As the operator that has just started.
        found = await sync(admin.sessions, accesses, Verifiers(), brief=True)
        await asyncio.sleep(0.02)
    finally:
        beating.cancel()
    assert all(isinstance(one, Synced) and not one.problems for one in found.values())
    assert beat.longest < _HELD_SECONDS
    stored = await fetch(
        admin.server, "postgres", "SELECT rolpassword FROM pg_authid WHERE rolname = 'tenant'"
    )
    assert "$4096:" in stored[0][0]
    for name in ("tenant", "neighbour"):
        assert await can_login(admin.server, name, PASSWORD)
