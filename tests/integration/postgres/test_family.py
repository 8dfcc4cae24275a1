"""What a look at accesses with two logins costs a real server."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from tests.support.pgserver import claim, fetch, grant, wanted

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import LoginTurns
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.drift import Kept, find_drift
from fairlead.postgres.database.work.sync import sync


async def test_a_look_takes_as_many_statements_for_any_number_of_logins(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: object, database: str
) -> None:
    sessions, verifiers = Sessions(endpoint), Verifiers()
    accesses = [
        msgspec.structs.replace(
            wanted(name, grant(database, "CONNECT"), claimed=claim(name, uid=name)),
            turns=LoginTurns(rotation="TwoLogins", current=f"{name}_a", grace=timedelta(hours=1)),
        )
        for name in ("one", "two", "three", "four")
    ]
    found = await sync(sessions, accesses, verifiers)
    costs = []
    for some in (accesses[:1], accesses):
        kept = [Kept.of(one, found[one.username].warnings) for one in some]  # type: ignore[union-attr]
        await find_drift(sessions, kept, verifiers, "here")
        before = sessions.tally.statements
        seen = await find_drift(sessions, kept, verifiers, "here")
        costs.append(sessions.tally.statements - before)
        assert seen.differing == frozenset()
    await sessions.close()
    assert costs[0] == costs[1]
    rows = await fetch(
        postgres, "postgres", "SELECT count(*) FROM pg_roles WHERE NOT rolcanlogin AND oid > 16383"
    )
    assert rows == [(4,)]
