"""In which databases roles are looked at and as what, and what has to be known around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.failures import explain_statement
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Session
from fairlead.postgres.database.plans.attributes import Around
from fairlead.postgres.database.plans.claiming import takes_over
from fairlead.postgres.database.plans.grants import Desired
from fairlead.postgres.database.plans.groups import Sharing, group_warnings
from fairlead.postgres.database.plans.plan import (
    Wanted,
    databases_to_visit,
    missing_database,
    warnings_of,
)
from fairlead.postgres.database.plans.snapshot import Snapshot
from fairlead.postgres.database.plans.targets import DatabaseGrants
from fairlead.postgres.database.reading.catalog import read_around
from fairlead.postgres.database.reading.comparison import RoleGrants, unborn_oid
from fairlead.postgres.database.work.retries import not_applied
from fairlead.postgres.errors import AccessError


PUBLIC_CREATES = sql.SQL("""
SELECT 1
  FROM pg_catalog.pg_namespace n
 WHERE n.nspname = 'public' AND pg_catalog.has_schema_privilege('public', n.oid, 'CREATE')
""")
CLOSE_SCHEMA = sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


async def look_around(session: Session, wanted: Iterable[Wanted], snapshot: Snapshot) -> Around:
    """What has to be known beside the roles themselves."""
    groups: set[str] = set()
    parameters: set[str] = set()
    for one in wanted:
        groups |= {group.role for group in one.member_of or ()}
        role = snapshot.roles.get(one.username)
        # A role that was made by hand may have powers through others, which the same query finds.
        if takes_over(role, adopt=one.adopt):
            groups.add(one.username)
        if one.attributes is not None:
            stored = [name for known in one.names for name in _config(snapshot, known)]
            parameters |= {name.lower() for name in (*one.attributes.config, *stored)}
    return await read_around(session, groups, parameters)


def _config(snapshot: Snapshot, name: str) -> Iterable[str]:
    role = snapshot.roles.get(name)
    return role.config if role is not None else ()


async def close_schema(
    session: Session, database: str, admin: str, *, brief: bool = False
) -> None:
    """Take CREATE on schema public from PUBLIC, where it has it; ``brief`` as others wait.

    Raises:
        AccessError: the administrator may not.
    """
    if not await session.rows(PUBLIC_CREATES):
        return
    try:
        async with session.transaction(BRIEF if brief else PATIENT):
            await session.run(CLOSE_SCHEMA)
            # PostgreSQL answers OK to a REVOKE of what somebody else has granted, and takes
            # nothing.
            left = await session.rows(PUBLIC_CREATES)
    except psycopg.Error as error:
        what = f"revoke CREATE on schema public of database {database} from PUBLIC"
        raise explain_statement(error, what, admin) from None
    if left:
        what = f"revoke CREATE on schema public of database {database} from PUBLIC"
        raise not_applied(what, admin)


def crowds(wanted: Wanted, sharing: Sharing, snapshot: Snapshot) -> bool:
    """Whether its roles, or the group, have more than was looked at."""
    names = {*wanted.names, *filter(None, [sharing.group_of.get(wanted.username)])}
    return not names.isdisjoint(snapshot.crowded)


def too_many(username: str) -> AccessError:
    """Why an access is not worked on among others."""
    return AccessError(
        "TimedOut",
        f"role {username} has very many objects and privileges, and is looked at alone; waiting",
    )


def all_warnings(wanted: Wanted, sharing: Sharing, snapshot: Snapshot) -> list[str]:
    """What the role can do that its access does not ask for, also through its group."""
    asked = sharing.asked[wanted.username]
    return [*warnings_of(wanted, asked, snapshot), *group_warnings(wanted, sharing, snapshot)]


def role_grants(
    wanted: Wanted, grants: DatabaseGrants, snapshot: Snapshot, number: int = 0
) -> RoleGrants:
    """What a role shall have in one database; ``number`` tells those that do not exist apart."""
    role = snapshot.roles.get(wanted.username)
    return RoleGrants(
        oid=unborn_oid(number) if role is None else role.oid,
        unborn=role is None,
        username=wanted.username,
        grants=grants,
        policy=wanted.policy,
        ledger=wanted.ledger,
    )


def databases_of(
    desired: Mapping[str, Desired], snapshot: Snapshot, *, unborn: bool = False
) -> tuple[dict[str, list[str]], dict[str, dict[str, list[AccessError]]]]:
    """The usernames to look at in each database; and by username and name what is not there.

    Roles that do not exist are left out, unless ``unborn`` ones are asked for too.
    """
    visits: dict[str, list[str]] = {}
    problems: dict[str, dict[str, list[AccessError]]] = {}
    for username, wanted in desired.items():
        if username not in snapshot.roles and not unborn:
            continue
        for name in databases_to_visit(username, wanted, snapshot):
            missing = missing_database(name, snapshot)
            if missing is not None:
                problems.setdefault(username, {})[name] = [missing]
            else:
                visits.setdefault(name, []).append(username)
    return visits, problems
