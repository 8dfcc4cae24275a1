"""Reads all roles with LOGIN, their groups and the databases for an audit, bounded in rows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.snapshot import RoleFacts, ServerFacts
from fairlead.postgres.database.reading.catalog import read_logins, read_snapshot
from fairlead.postgres.database.reading.holdings import Grantee, holders


_NAMES = sql.SQL("""
SELECT r.oid::int8, r.rolname::text FROM pg_catalog.pg_roles r ORDER BY 1 LIMIT %(limit)s
""")

# A role has a group's privileges at once if each membership on the way inherits; otherwise it
# needs SET ROLE.
_GROUPS = """
WITH RECURSIVE path AS (
  SELECT m.member AS role, m.roleid AS grp, {inherits} AS inherited
    FROM pg_catalog.pg_auth_members m
    JOIN pg_catalog.pg_roles r ON r.oid = m.member
   WHERE r.rolname = ANY (%(roles)s::text[]::pg_catalog.name[])
  UNION
  SELECT p.role, m.roleid, p.inherited AND {inherits}
    FROM path p
    JOIN pg_catalog.pg_auth_members m ON m.member = p.grp
    JOIN pg_catalog.pg_roles r ON r.oid = m.member
)
SELECT r.rolname::text, g.rolname::text, pg_catalog.bool_or(p.inherited)
  FROM path p
  JOIN pg_catalog.pg_roles r ON r.oid = p.role
  JOIN pg_catalog.pg_roles g ON g.oid = p.grp
 GROUP BY 1, 2
 ORDER BY 1, 2
 LIMIT %(limit)s
"""
_GROUPS_15 = sql.SQL(_GROUPS.format(inherits="r.rolinherit"))
_GROUPS_16 = sql.SQL(_GROUPS.format(inherits="m.inherit_option"))

# A database without an ACL has the default one: PUBLIC may connect and make temporary tables.
_DATABASES = sql.SQL("""
SELECT d.datname::text, d.datallowconn, d.datdba::int8,
       COALESCE(a.grantees, ARRAY[]::int8[]), COALESCE(a.privileges, ARRAY[]::text[]),
       COALESCE(a.options, ARRAY[]::bool[])
  FROM pg_catalog.pg_database d
  LEFT JOIN LATERAL (
    SELECT pg_catalog.array_agg(h.grantee::int8) AS grantees,
           pg_catalog.array_agg(h.privileges) AS privileges,
           pg_catalog.array_agg(h.option) AS options
      FROM (SELECT p.grantee, p.option,
                   pg_catalog.string_agg(p.privilege_type, ',') AS privileges
              FROM (SELECT e.grantee, e.privilege_type,
                           pg_catalog.bool_or(e.is_grantable) AS option
                      -- It unpacks an ACL that is stored compressed anew for each entry; that
                      -- of || is not.
                      FROM pg_catalog.aclexplode(
                           COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))
                           || '{}'::pg_catalog.aclitem[]) e
                     WHERE e.grantee <> d.datdba
                     GROUP BY 1, 2) p
             GROUP BY 1, 2) h) a ON true
 WHERE NOT d.datistemplate
 ORDER BY 1
 LIMIT %(limit)s
""")


class Everybody(msgspec.Struct, frozen=True, kw_only=True):
    """Roles that may log in or carry a claim; ``cut`` says that there are more.

    ``names`` has the names of all roles by oid. ``groups`` has by role the groups that it is a
    member of, directly or not, and whether it has their privileges without SET ROLE.
    """

    server: ServerFacts
    roles: Mapping[str, RoleFacts] = {}
    names: Mapping[int, str] = {}
    groups: Mapping[str, Mapping[str, bool]] = {}
    cut: bool = False


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """A database, and the privileges on the database itself."""

    name: str
    connectable: bool
    owner: int
    grantees: tuple[Grantee, ...]


async def read_everybody(session: Session, installation: str) -> Everybody:
    """Read the roles with a login or a claim.

    Raises:
        psycopg.Error: a query failed.
    """
    logins, cut = await read_logins(session)
    snapshot = await read_snapshot(session, logins, installation)
    limit = {"limit": bounds.AUDITED_ROLES}
    query = _GROUPS_16 if snapshot.server.version >= GRANT_OPTIONS_VERSION else _GROUPS_15
    groups: dict[str, dict[str, bool]] = {}
    for role, group, inherited in await session.rows(query, {"roles": logins, **limit}):
        groups.setdefault(role, {})[group] = inherited
    return Everybody(
        server=snapshot.server,
        roles=snapshot.roles,
        names=dict(await session.rows(_NAMES, limit)),
        groups=groups,
        cut=cut,
    )


async def read_databases(session: Session) -> list[Database]:
    """Read the databases, without templates.

    Raises:
        psycopg.Error: the query failed.
    """
    return [
        Database(
            name=name,
            connectable=connectable,
            owner=owner,
            grantees=holders(grantees, privileges, options),
        )
        for name, connectable, owner, grantees, privileges, options in await session.rows(
            _DATABASES, {"limit": bounds.AUDITED_DATABASES}
        )
    ]
