"""Counted statements against those of a real server's log."""

from __future__ import annotations

from psycopg import sql

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.metrics import PostgresMetrics


SELECT = sql.SQL("SELECT 1")


async def test_statements_are_counted_as_the_servers_log_has_them(
    postgres: EmbeddedPostgres, endpoint: Endpoint
) -> None:
    tally = PostgresMetrics().of("PostgresServer main").tally
    sessions = Sessions(endpoint, tally)
    before = logged(postgres)
    async with sessions.use("postgres") as session:
        await session.run(SELECT)
        async with session.transaction(), session.savepoint():
            await session.run_all([SELECT, SELECT])
    async with sessions.use("postgres") as session:
        await session.rows(SELECT)
    await sessions.close()
    assert (tally.logins, tally.statements) == (1, logged(postgres) - before)


def logged(postgres: EmbeddedPostgres) -> int:
    text = postgres.log()
    return sum(text.count(f"LOG:  {what}") for what in ("execute ", "statement: "))
