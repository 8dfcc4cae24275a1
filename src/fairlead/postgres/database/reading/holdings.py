"""Reads all privileges on the objects of a database, and their owners, in one statement.

Objects with the same owner and ACL share a row, for any number of them; all objects of a schema
are the same as in ``comparison``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.differences import Level


PUBLIC = 0
"""Oid that stands for PUBLIC in an ACL."""


class Grantee(NamedTuple):
    """The privileges of one role on each of some objects; ``option`` is the grant option."""

    role: int
    privileges: frozenset[str]
    option: bool


def holders(
    roles: Iterable[int], privileges: Iterable[str], options: Iterable[bool]
) -> tuple[Grantee, ...]:
    """Return the grantees in the columns of a row; privileges are separated by commas."""
    return tuple(
        Grantee(role, frozenset(privilege.split(",")), option)
        for role, privilege, option in zip(roles, privileges, options, strict=True)
    )


class HeldObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind in one schema that have the same owner and the same ACL.

    ``names`` are the first of ``total``. For a column they are names in ``table``, for default
    privileges the creating role; their ``schema`` "" stands for all schemas. ``system`` objects
    are PostgreSQL's own.
    """

    level: Level
    schema: str
    names: tuple[str, ...]
    total: int
    owner: int
    table: str = ""
    system: bool = False
    grantees: tuple[Grantee, ...] = ()


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of privileges in a database; ``cut`` says that there are more."""

    rows: tuple[HeldObjects, ...]
    cut: bool = False


# A routine or type without an ACL lets PUBLIC execute or use it. Oids below 16384, and so PUBLIC,
# are of initdb: its grants on PostgreSQL's own objects are in every database, and no finding.
_HOLDINGS = sql.SQL("""
WITH space AS MATERIALIZED (
  SELECT n.oid, n.nspname, n.nspowner, n.nspacl,
         n.nspname LIKE 'pg\\_%%' OR n.nspname = 'information_schema' AS system
    FROM pg_catalog.pg_namespace n
), object AS MATERIALIZED (
  SELECT 'schema' AS level, s.nspname AS schema, s.system, s.nspowner AS owner, s.nspacl AS acl,
         s.nspname::text AS name, ''::text AS table
    FROM space s
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, s.nspname, s.system,
         c.relowner, c.relacl, c.relname, ''
    FROM pg_catalog.pg_class c
    JOIN space s ON s.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
  UNION ALL
  SELECT 'column', s.nspname, s.system, c.relowner, a.attacl, a.attname, c.relname
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN space s ON s.oid = c.relnamespace
   WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND c.relpersistence <> 't'
  UNION ALL
  SELECT 'routine', s.nspname, s.system, p.proowner,
         COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner)),
         p.proname || '(' || COALESCE((
           SELECT pg_catalog.string_agg(pg_catalog.format_type(x.type, NULL), ', '
                                        ORDER BY x.position)
             FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY AS x(type, position)), '')
           || ')', ''
    FROM pg_catalog.pg_proc p
    JOIN space s ON s.oid = p.pronamespace
   WHERE (p.proacl IS NOT NULL OR NOT s.system)
     AND NOT (p.proowner = 10 AND EXISTS (
           SELECT FROM pg_catalog.pg_depend e
            WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid
              AND e.deptype = 'i'))
  UNION ALL
  SELECT 'type', s.nspname, s.system, t.typowner,
         COALESCE(t.typacl, pg_catalog.acldefault('T', t.typowner)), t.typname, ''
    FROM pg_catalog.pg_type t
    JOIN space s ON s.oid = t.typnamespace
   WHERE t.typacl IS NOT NULL
      OR (NOT s.system AND t.typisdefined AND t.typtype <> 'm'
          AND t.typsubscript <> 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
          AND (t.typrelid = 0 OR EXISTS (SELECT FROM pg_catalog.pg_class c
                                          WHERE c.oid = t.typrelid AND c.relkind = 'c')))
  UNION ALL
  SELECT CASE f.defaclobjtype WHEN 'r' THEN 'future table' WHEN 'S' THEN 'future sequence'
                              WHEN 'f' THEN 'future routine' WHEN 'T' THEN 'future type'
                              WHEN 'n' THEN 'future schema' ELSE 'future large object' END,
         COALESCE(s.nspname, ''), false, f.defaclrole, f.defaclacl, r.rolname, ''
    FROM pg_catalog.pg_default_acl f
    JOIN pg_catalog.pg_roles r ON r.oid = f.defaclrole
    LEFT JOIN space s ON s.oid = f.defaclnamespace
), alike AS MATERIALIZED (
  SELECT pg_catalog.row_number() OVER () AS id, g.*
    FROM (SELECT o.level, o.schema, o.system, o.owner, o.acl, o.table,
                 pg_catalog.count(*) AS total, pg_catalog.array_agg(o.name) AS names
            FROM object o
           GROUP BY 1, 2, 3, 4, 5, 6) g
), entry AS (
  SELECT g.id, e.grantee, e.privilege_type, pg_catalog.bool_or(e.is_grantable) AS option
    FROM alike g
   -- It unpacks an ACL that is stored compressed anew for each entry; that of || is not.
   CROSS JOIN LATERAL pg_catalog.aclexplode(
              CASE WHEN g.acl IS NOT NULL THEN g.acl || '{}'::pg_catalog.aclitem[] END) e
   WHERE e.grantee <> g.owner
     AND (%(roles)s::oid[] IS NULL OR e.grantee = ANY (%(roles)s::oid[]))
     AND NOT (g.system AND e.grantee < 16384)
   GROUP BY 1, 2, 3
), held AS (
  SELECT e.id, e.grantee, e.option,
         pg_catalog.string_agg(e.privilege_type, ',' ORDER BY e.privilege_type) AS privileges
    FROM entry e
   GROUP BY 1, 2, 3
), listed AS (
  SELECT h.id, pg_catalog.array_agg(h.grantee::int8) AS grantees,
         pg_catalog.array_agg(h.privileges) AS privileges,
         pg_catalog.array_agg(h.option) AS options
    FROM held h
   GROUP BY 1
)
SELECT g.level, g.schema::text, g.system, g.owner::int8, g.table, g.total,
       (SELECT pg_catalog.array_agg(n.name ORDER BY n.name)
          FROM (SELECT n.name FROM pg_catalog.unnest(g.names) AS n(name)
                 ORDER BY n.name LIMIT %(names)s) n),
       COALESCE(l.grantees, ARRAY[]::int8[]), COALESCE(l.privileges, ARRAY[]::text[]),
       COALESCE(l.options, ARRAY[]::bool[])
  FROM alike g
  LEFT JOIN listed l ON l.id = g.id
 WHERE l.id IS NOT NULL OR NOT g.system
 ORDER BY 2, 1, 5, 7
 LIMIT %(limit)s
""")


async def read_holdings(
    session: Session, *, roles: Collection[int] | None = None, names: int
) -> Holdings:
    """Read the privileges of roles in this database, and the owners of objects.

    Args:
        session: a session in that database.
        roles: oids of the roles, None for all roles and PUBLIC.
        names: largest number of objects that a row names; its ``total`` counts all.

    Raises:
        psycopg.Error: the query failed.
    """
    parameters = {
        "roles": None if roles is None else list(roles),
        "names": names,
        "limit": bounds.HOLDING_ROWS + 1,
    }
    rows = await session.rows(_HOLDINGS, parameters)
    return Holdings(
        rows=tuple(map(_objects, rows[: bounds.HOLDING_ROWS])), cut=len(rows) > bounds.HOLDING_ROWS
    )


def _objects(row: tuple[Any, ...]) -> HeldObjects:
    level, schema, system, owner, table, total, names, grantees, privileges, options = row
    return HeldObjects(
        level=level,
        schema=schema,
        names=tuple(names),
        total=total,
        owner=owner,
        table=table,
        system=system,
        grantees=holders(grantees, privileges, options),
    )
