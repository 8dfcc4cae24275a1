"""Logins that nobody has asked for: what ``unmanagedUsers: Drop`` may drop, and what it never may.

That is step 33 of access-operator's diagram as it is drawn, and so it is opt-in: on a server that
others use too it takes their logins away.
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
"""How every comment of ours begins, also those of other installations."""

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
    """A role, as far as it decides about dropping it.

    ``ours`` is the role of this session, ``claimed`` one that any installation of Fairlead has
    made, ``members`` says that others are members of it, ``owns`` that it owns anything anywhere.
    ``groups`` are the roles that it is a member of.
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
    """Every login of the server, in one statement."""
    fields = LoginFacts.__struct_fields__
    rows = await session.rows(_LOGINS, {"claim": _CLAIM})
    return [LoginFacts(**dict(zip(fields, row, strict=True))) for row in rows]


def unmanaged(
    roles: Iterable[LoginFacts], wanted: Collection[str], settings: PostgresOptions
) -> list[str]:
    """The roles to drop, as Restrict does; none unless the settings say Drop.

    Args:
        roles: of one server.
        wanted: usernames of all accesses of all namespaces, also those that may be at another
            server, and the roles that were given up. A list that is not whole drops too much.
        settings: in force.
    """
    if settings.unmanaged_users != "Drop":
        return []
    return sorted(role.name for role in roles if not why_kept(role, wanted, settings))


def why_kept(role: LoginFacts, wanted: Collection[str], settings: PostgresOptions) -> str:
    """Why a role is not one to drop; "" where nothing speaks for it."""

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
        "is asked for": role.name in wanted,
        "is claimed": role.claimed,
        "has members": role.members,
        "owns something": role.owns,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
