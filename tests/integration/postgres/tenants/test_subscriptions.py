"""Roles that own subscriptions, which are objects of a database and of the server at once."""

from __future__ import annotations

import pytest
from tests.integration.postgres.test_roles import Admin, role
from tests.support.pgserver import fetch, grant, run

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.errors import AccessError


# Nobody listens there: a publisher that is away keeps no role.
PUBLISHER = "CONNECTION 'host=127.0.0.1 port=1 password=p dbname=d' PUBLICATION p"
LEFT = (
    "SELECT subname::text, pg_get_userbyid(subowner), subenabled FROM pg_subscription ORDER BY 1"
)


async def subscribe(admin: Admin, name: str, database: str) -> None:
    """The role of this name gets a subscription that is at work, and one that is not."""
    statements = [
        f"CREATE SUBSCRIPTION {name}{number} {PUBLISHER} WITH (connect = false)"
        for number in (1, 2)
    ]
    own = [f"ALTER SUBSCRIPTION {name}{number} OWNER TO {name}" for number in (1, 2)]
    # Before PostgreSQL 16 its owner has to be a superuser in that moment.
    await run(
        admin.server,
        database,
        *statements,
        f"ALTER SUBSCRIPTION {name}1 ENABLE",
        f"GRANT CREATE ON DATABASE {database} TO {name}",
        f"ALTER ROLE {name} SUPERUSER",
        *own,
        f"ALTER ROLE {name} NOSUPERUSER",
    )


async def prepare(admin: Admin) -> None:
    """A leaver and a neighbour with subscriptions in two databases of two owners."""
    for database, heir in (("d", "heir"), ("e", "another")):
        await admin.execute(f"CREATE ROLE {heir}", f"CREATE DATABASE {database}")
        await admin.execute(f"ALTER DATABASE {database} OWNER TO {heir}")
        if not admin.superuser:
            await admin.execute(f"GRANT {heir} TO operator")
    await admin.one(role("leaver", grants=(grant("d", "CONNECT"),)))
    await admin.one(role("neighbour", uid="u2", grants=(grant("d", "CONNECT"),)))
    await subscribe(admin, "leaver", "d")
    await run(
        admin.server,
        "e",
        f"CREATE SUBSCRIPTION leaver3 {PUBLISHER} WITH (connect = false)",
        "GRANT CREATE ON DATABASE e TO leaver",
        "ALTER ROLE leaver SUPERUSER",
        "ALTER SUBSCRIPTION leaver3 OWNER TO leaver",
        "ALTER ROLE leaver NOSUPERUSER",
    )
    await subscribe(admin, "neighbour", "d")


async def remove(admin: Admin, policy: CleanupPolicy) -> None:
    await cleanup(admin.sessions, "leaver", role("leaver").claim, policy)


async def left(admin: Admin) -> list[tuple[object, ...]]:
    return await fetch(admin.server, "postgres", LEFT)


async def exists(admin: Admin) -> bool:
    found = await fetch(admin.server, "postgres", "SELECT FROM pg_roles WHERE rolname = 'leaver'")
    return bool(found)


NEIGHBOURS = [("neighbour1", "neighbour", True), ("neighbour2", "neighbour", False)]
LEAVERS = [
    ("leaver1", "leaver", True),
    ("leaver2", "leaver", False),
    ("leaver3", "leaver", False),
]


@pytest.mark.differs("version", "administrator")
async def test_restrict_lists_subscriptions(admin: Admin) -> None:
    await prepare(admin)
    with pytest.raises(AccessError, match="owns subscription leaver1, sub") as refused:
        await remove(admin, "Restrict")
    assert refused.value.reason == "OwnsObjects"
    assert [(name, list(owned)) for name, owned in refused.value.blockers] == [
        ("d", ["subscription leaver1", "subscription leaver2"]),
        ("e", ["subscription leaver3"]),
    ]
    assert await left(admin) == LEAVERS + NEIGHBOURS


@pytest.mark.differs("version", "administrator")
async def test_cascade_drops_subscriptions_whose_publisher_is_away(admin: Admin) -> None:
    await prepare(admin)
    await remove(admin, "Cascade")
    assert not await exists(admin)
    assert await left(admin) == NEIGHBOURS


@pytest.mark.differs("version", "administrator")
async def test_orphan_gives_each_to_the_owner_of_its_database_disabled(admin: Admin) -> None:
    await prepare(admin)
    ((version,),) = await fetch(admin.server, "postgres", "SHOW server_version_num")
    if int(version) < 160000:
        with pytest.raises(AccessError, match="before PostgreSQL 16") as refused:
            await remove(admin, "Orphan")
        assert refused.value.reason == "OwnsObjects"
        assert await left(admin) == LEAVERS + NEIGHBOURS
        return
    await remove(admin, "Orphan")
    assert not await exists(admin)
    assert await left(admin) == [
        ("leaver1", "heir", False),
        ("leaver2", "heir", False),
        ("leaver3", "another", False),
        *NEIGHBOURS,
    ]
