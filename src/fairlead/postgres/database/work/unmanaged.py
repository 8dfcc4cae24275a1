"""Logins without a PostgresAccess: those that ``unmanagedUsers: Drop`` drops, and exceptions.

access-operator drops them in each reconcile (R18 of its flowchart). Here it is opt-in, because on
a shared server it removes the logins of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.names import excluded, reserved
from fairlead.postgres.database.plans.snapshot import CLAIM_PATTERN
from fairlead.postgres.options import PostgresOptions


_CLAIM = CLAIM_PATTERN.partition(":")[0]
"""Prefix of the comment on each role of the operator, in any installation."""

# Since PostgreSQL 16 the administrator is a member of each role that it creates, which therefore
# does not count among ``members``.
_LOGINS = sql.SQL("""
SELECT r.rolname::text, r.rolcanlogin, r.rolsuper, r.rolcreaterole, r.rolreplication,
       r.rolname IN (current_user, session_user),
       COALESCE(pg_catalog.starts_with(d.description, %(claim)s::text), false),
       EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                WHERE m.roleid = r.oid AND m.member <> a.oid),
       EXISTS (SELECT FROM pg_catalog.pg_shdepend s
                WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                  AND s.refobjid = r.oid AND s.deptype = 'o'),
       ARRAY(SELECT g.rolname::text
               FROM pg_catalog.pg_auth_members m
               JOIN pg_catalog.pg_roles g ON g.oid = m.roleid
              WHERE m.member = r.oid)
  FROM pg_catalog.pg_roles r
  JOIN pg_catalog.pg_roles a ON a.rolname = current_user
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE r.rolcanlogin
 ORDER BY 1
""")


class LoginFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a role that decide whether it is dropped.

    ``ours`` is true for the session's own role, ``claimed`` for roles of any installation of
    Fairlead. ``members`` says that the role has members, ``owns`` that it owns objects in any
    database. ``groups`` are the roles that it is a member of.
    """

    name: str
    login: bool = True
    superuser: bool = False
    createrole: bool = False
    replication: bool = False
    ours: bool = False
    claimed: bool = False
    members: bool = False
    owns: bool = False
    groups: Collection[str] = ()


async def read_logins(session: Session) -> list[LoginFacts]:
    """Read all logins of the server, in one statement."""
    fields = LoginFacts.__struct_fields__
    rows = await session.rows(_LOGINS, {"claim": _CLAIM})
    return [LoginFacts(**dict(zip(fields, row, strict=True))) for row in rows]


def unmanaged(
    roles: Iterable[LoginFacts], names: Collection[str], settings: PostgresOptions
) -> list[str]:
    """Return the names of the roles to drop; none unless the settings say Drop.

    Args:
        roles: the logins of one server.
        names: usernames of all accesses of all namespaces and servers, and the roles that were
            given up; with an incomplete list too many roles are dropped.
        settings: the settings in force.
    """
    if settings.unmanaged_users != "Drop":
        return []
    return sorted(role.name for role in roles if not why_kept(role, names, settings))


def why_kept(role: LoginFacts, names: Collection[str], settings: PostgresOptions) -> str:
    """Return the reason why a role is kept, "" if it is to be dropped."""

    def is_excluded(name: str) -> bool:
        return excluded(name, settings.excluded_users, settings.excluded_user_patterns)

    reasons = {
        "is no login": not role.login,
        "is the operator's own": role.ours,
        "is a superuser": role.superuser,
        "may replicate": role.replication,
        "may create roles": role.createrole,
        "is reserved by PostgreSQL or its provider": reserved(role.name),
        "is excluded": is_excluded(role.name),
        "belongs to an excluded role": any(map(is_excluded, role.groups)),
        "is asked for": role.name in names,
        "is claimed": role.claimed,
        "has members": role.members,
        "owns something": role.owns,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
