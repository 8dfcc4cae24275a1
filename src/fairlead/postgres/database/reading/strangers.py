"""Reads the privileges of a removed role that other roles have granted on their objects.

PostgreSQL drops no role that an ACL names. A privilege is revoked in the name of its grantor, and
the grants of an object's owner as the owner.
"""

from __future__ import annotations

from typing import NamedTuple

from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.snapshot import GIVEN_UP


class Granting(NamedTuple):
    """A role that has granted privileges, or owns the objects of such privileges."""

    oid: int
    name: str


class Left(NamedTuple):
    """An object of this database, or a shared one, in words, and the name of its owner."""

    text: str
    owner: str


# By deptype: an entry in an ACL (a), or in the initial privileges of an extension's object (i,
# since PostgreSQL 17). Rows of shared objects have dbid 0.
_GRANTED = """
  SELECT s.dbid, s.classid, s.objid, s.objsubid
    FROM pg_catalog.pg_shdepend s
   WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
     AND s.refobjid = %(role)s::oid
     AND s.dbid IN (0, (SELECT d.oid FROM pg_catalog.pg_database d
                         WHERE d.datname = pg_catalog.current_database()))
     AND s.deptype IN ('a', 'i')
     AND s.classid <> 'pg_catalog.pg_auth_members'::pg_catalog.regclass
     AND s.classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass
"""

# In another role the administrator may have a membership by hand, which would be revoked with the
# operator's own.
OURS = """
   AND r.rolname <> current_user
   AND NOT (r.rolsuper OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls)
   AND EXISTS (SELECT FROM pg_catalog.pg_shdescription d
                WHERE d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                  AND pg_catalog.starts_with(d.description, %(ours)s::text))
   AND {may}
"""
"""Condition on a role ``r``: it is one that the operator made for tenants."""
# Before PostgreSQL 16 a role with CREATEROLE may act as any role without superuser.
MAY_ACT = {
    True: "pg_catalog.pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION')",
    False: "true",
}
"""Whether the administrator may act as role ``r``, by whether memberships have options."""

_OWNERS = """
WITH granted AS MATERIALIZED ({granted})
SELECT DISTINCT r.oid::int8, r.rolname::text
  FROM granted g
  JOIN pg_catalog.pg_shdepend o
    ON o.dbid = g.dbid AND o.classid = g.classid AND o.objid = g.objid AND o.objsubid = 0
   AND o.deptype = 'o'
   AND o.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
  JOIN pg_catalog.pg_roles r ON r.oid = o.refobjid
 WHERE NOT pg_catalog.pg_has_role(r.oid, 'USAGE')
   AND r.oid <> %(role)s::oid {ours}
 ORDER BY 2
"""

_GRANTORS = """
WITH granted AS MATERIALIZED ({granted} LIMIT 1000), acl AS (
  SELECT c.relacl AS items FROM granted g JOIN pg_catalog.pg_class c ON c.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  UNION ALL
  SELECT a.attacl FROM granted g
    JOIN pg_catalog.pg_attribute a ON a.attrelid = g.objid AND a.attnum = g.objsubid
   WHERE g.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  UNION ALL
  SELECT p.proacl FROM granted g JOIN pg_catalog.pg_proc p ON p.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
  UNION ALL
  SELECT n.nspacl FROM granted g JOIN pg_catalog.pg_namespace n ON n.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
  UNION ALL
  SELECT t.typacl FROM granted g JOIN pg_catalog.pg_type t ON t.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
  UNION ALL
  SELECT l.lomacl FROM granted g JOIN pg_catalog.pg_largeobject_metadata l ON l.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_largeobject'::pg_catalog.regclass
  UNION ALL
  SELECT f.srvacl FROM granted g JOIN pg_catalog.pg_foreign_server f ON f.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_foreign_server'::pg_catalog.regclass
  UNION ALL
  SELECT w.fdwacl FROM granted g JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_foreign_data_wrapper'::pg_catalog.regclass
  UNION ALL
  SELECT l.lanacl FROM granted g JOIN pg_catalog.pg_language l ON l.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_language'::pg_catalog.regclass
  UNION ALL
  SELECT d.datacl FROM granted g JOIN pg_catalog.pg_database d ON d.oid = g.objid
   WHERE g.classid = 'pg_catalog.pg_database'::pg_catalog.regclass
)
SELECT DISTINCT r.oid::int8, r.rolname::text
  FROM acl a
 CROSS JOIN LATERAL pg_catalog.aclexplode(
            CASE WHEN a.items IS NOT NULL THEN a.items || '{{}}'::pg_catalog.aclitem[] END) e
  JOIN pg_catalog.pg_roles r ON r.oid = e.grantor
 WHERE e.grantee = %(role)s::oid
   AND r.oid <> %(role)s::oid {ours}
 ORDER BY 2
 LIMIT 20
"""

_LEFT = """
WITH granted AS MATERIALIZED ({granted} LIMIT 4)
SELECT pg_catalog.left(i.type || ' ' || i.identity, 300), COALESCE(r.rolname, '')::text
  FROM granted g
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(g.classid, g.objid, g.objsubid) i
  LEFT JOIN pg_catalog.pg_shdepend o
    ON o.dbid = g.dbid AND o.classid = g.classid AND o.objid = g.objid AND o.objsubid = 0
   AND o.deptype = 'o'
   AND o.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = o.refobjid
 ORDER BY 1
"""
_LEFT_QUERY = sql.SQL(_LEFT.format(granted=_GRANTED))
_QUERIES = {
    (query, options): sql.SQL(query.format(granted=_GRANTED, ours=OURS.format(may=may)))
    for query in (_OWNERS, _GRANTORS)
    for options, may in MAY_ACT.items()
}


async def read_owners(session: Session, role: int) -> list[Granting]:
    """Read the operator's roles that own objects on which the role has privileges.

    Owners whose privileges the administrator has already are left out.
    """
    return await _read(session, _OWNERS, role)


async def read_grantors(session: Session, role: int) -> list[Granting]:
    """Read some of the operator's roles that have granted the role privileges."""
    return await _read(session, _GRANTORS, role)


async def read_left(session: Session, role: int) -> list[Left]:
    """Read a few of the objects on which the role has privileges."""
    return [Left(*row) for row in await session.rows(_LEFT_QUERY, {"role": role})]


async def _read(session: Session, query: str, role: int) -> list[Granting]:
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    parameters = {"role": role, "ours": GIVEN_UP.partition(" once")[0]}
    return [Granting(*row) for row in await session.rows(_QUERIES[query, newer], parameters)]
