"""The plan of an import is empty whatever the roles have, and the operator then writes nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.e2e.postgres.rows.test_commands_import import (
    by_hand,
    dropped,
    imported,
    manifest_of,
    shared,
)
from tests.e2e.postgres.rows.test_commands_plan import plan_files, ran, statements
from tests.support.team import Team

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.postgres.commands.plan import IN_SYNC


ROLES = 6
OBJECTS = (
    "CREATE SCHEMA s",
    "CREATE SCHEMA open",
    "GRANT USAGE ON SCHEMA open TO PUBLIC",
    *(
        statement
        for schema in ("s", "open", "public")
        for statement in (
            f"CREATE TABLE {schema}.a (id int, n text)",
            f'CREATE TABLE {schema}."B b" (id int)',
            f"CREATE VIEW {schema}.v AS SELECT 1 AS one",
            f"CREATE SEQUENCE {schema}.q",
            f"CREATE TYPE {schema}.mood AS ENUM ('good')",
            f"CREATE FUNCTION {schema}.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            f"CREATE FUNCTION {schema}.f(text, int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        )
    ),
)
GRANTS = (
    "CONNECT ON DATABASE {d}",
    "CREATE, TEMPORARY ON DATABASE {d}",
    "USAGE ON SCHEMA {s}",
    "CREATE ON SCHEMA {s}",
    "ALL ON SCHEMA {s}",
    "SELECT ON ALL TABLES IN SCHEMA {s}",
    "INSERT, UPDATE ON {s}.a",
    'ALL ON {s}."B b"',
    "SELECT (n), UPDATE (id) ON {s}.a",
    "TRIGGER, REFERENCES ON {s}.v",
    "USAGE ON ALL SEQUENCES IN SCHEMA {s}",
    "SELECT ON SEQUENCE {s}.q",
    "EXECUTE ON FUNCTION {s}.f(int)",
    "EXECUTE ON ALL ROUTINES IN SCHEMA {s}",
    "USAGE ON TYPE {s}.mood",
)
OTHERS = (
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {s} GRANT SELECT ON TABLES TO {r}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {s} GRANT EXECUTE ON ROUTINES TO {r} WITH GRANT OPTION",
    "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO {r}",
    "ALTER ROLE {r} SET statement_timeout = '5s'",
    "ALTER ROLE {r} IN DATABASE {d} SET search_path = {s}",
    "ALTER ROLE {r} NOINHERIT",
    "ALTER ROLE {r} CONNECTION LIMIT 0",
    "ALTER ROLE {r} VALID UNTIL 'infinity'",
    "ALTER ROLE {r} VALID UNTIL '2001-01-01 00:00:00.5+03'",
    "COMMENT ON ROLE {r} IS 'of {s}'",
    "GRANT CREATE ON SCHEMA {s} TO {r}; ALTER TABLE {s}.a OWNER TO CURRENT_USER",
)


def some(chance: random.Random, database: str, role: str) -> Iterator[str]:
    """Statements that give a role something."""
    for _ in range(chance.randrange(7)):
        schema = chance.choice(("s", "open", "public"))
        what = chance.choice(GRANTS).format(d=f'"{database}"', s=schema)
        option = chance.choice(("", "", " WITH GRANT OPTION"))
        yield f'GRANT {what} TO "{role}"{option}'
    for _ in range(chance.randrange(2)):
        schema = chance.choice(("s", "open", "public"))
        yield chance.choice(OTHERS).format(d=f'"{database}"', s=schema, r=f'"{role}"')


@pytest.mark.parametrize("seed", range(2))
async def test_the_plan_of_an_import_is_empty(team: Team, seed: int) -> None:
    chance = random.Random(seed)
    await team.build(*OBJECTS)
    roles = [team.name(f"Hand {number}") for number in range(ROLES)]
    for role in roles:
        await by_hand(team, role, *some(chance, team.database, role))
    async with dropped(team, *roles):
        before = [(await team.privileges(role), await shared(team, role)) for role in roles]
        report = await imported(team, *roles)
        assert report.skipped == ()
        assert [
            line for one in report.accesses for line in one.comments if "Adoption" in line
        ] == []
        bodies = [manifest_of(one, team) for one in report.accesses]
        planned = await plan_files(team, *bodies)
        assert (statements(planned), planned.problems) == ([], ())
        assert planned.exit_code == IN_SYNC
        for body in bodies:
            await team.client.create(POSTGRESACCESSES, body)
        for body in bodies:
            await team.ready(body["metadata"]["name"])
        assert [line for role in roles for line in ran(team, role)] == []
        after = [(await team.privileges(role), await shared(team, role)) for role in roles]
        assert after == before
        for body in bodies:
            await team.abandon(body["metadata"]["name"])
            await team.delete(body["metadata"]["name"])
            await team.gone(body["metadata"]["name"])
