"""Reads the objects that roles own in a database, and which of them depend on which.

An object of PostgreSQL has parts, such as indexes, constraints, row types and owned sequences:
they go with it, and each takes a lock of its own while it goes
(https://www.postgresql.org/docs/current/catalog-pg-depend.html). A partition is no part here: it
may have another owner, and goes without its parent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.pieces import (
    CatalogObject,
    Dependence,
    OwnedObject,
    RoleEstate,
)


_BOUND = sql.SQL("""
SELECT pg_catalog.current_setting('max_locks_per_transaction')::int8
     * (pg_catalog.current_setting('max_connections')::int8
        + pg_catalog.current_setting('max_prepared_transactions')::int8)
""")

# A partition depends on its parent automatically (a), as an index does on its table.
_PARTITION = sql.SQL("""
d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype = 'a'
 AND EXISTS (SELECT FROM pg_catalog.pg_class c
              WHERE c.oid = d.objid AND c.relkind IN ('r', 'p', 'f'))
""")
# Casts have no owner; who owns one of their types made them, or lets them be. Statistics keep
# their owner when their table gets another. User mappings of others' servers are references.
_ESTATE = sql.SQL("""
WITH RECURSIVE listed AS MATERIALIZED (
  SELECT s.classid, s.objid
    FROM pg_catalog.pg_shdepend s
   WHERE s.dbid = (SELECT b.oid FROM pg_catalog.pg_database b
                    WHERE b.datname = pg_catalog.current_database())
     AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
     AND s.refobjid = ANY (%(roles)s::oid[])
     AND s.deptype = 'o' AND s.objsubid = 0
     AND s.classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass
     AND (s.classid <> 'pg_catalog.pg_user_mapping'::pg_catalog.regclass
          OR EXISTS (SELECT FROM pg_catalog.pg_user_mappings u
                       JOIN pg_catalog.pg_foreign_server f ON f.oid = u.srvid
                      WHERE u.umid = s.objid AND f.srvowner = ANY (%(roles)s::oid[])))
     AND (%(below)s::oid IS NULL OR s.objid < %(below)s::oid)
   ORDER BY s.objid DESC
   LIMIT %(most)s::int8
), own AS MATERIALIZED (
  SELECT l.classid, l.objid
    FROM listed l
   WHERE NOT EXISTS (
           SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = l.classid AND d.objid = l.objid AND d.objsubid = 0
              AND d.deptype IN ('a', 'i', 'e', 'S')
              AND NOT ({partition})
              AND NOT (l.classid = 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass
                       AND EXISTS (SELECT FROM pg_catalog.pg_class c
                                    WHERE c.oid = d.refobjid
                                      AND c.relowner <> ALL (%(roles)s::oid[]))))
  UNION
  SELECT 'pg_catalog.pg_cast'::pg_catalog.regclass::oid, k.oid
    FROM listed l
    JOIN pg_catalog.pg_cast k ON l.objid IN (k.castsource, k.casttarget)
   WHERE l.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
     AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = 'pg_catalog.pg_cast'::pg_catalog.regclass AND d.objid = k.oid
              AND d.deptype IN ('i', 'e'))
), part AS (
  SELECT o.classid, o.objid, o.classid AS top, o.objid AS topid FROM own o
  UNION
  SELECT d.classid, d.objid, p.top, p.topid
    FROM part p
    JOIN pg_catalog.pg_depend d ON d.refclassid = p.classid AND d.refobjid = p.objid
   WHERE d.deptype IN ('a', 'i', 'e', 'S') AND d.objsubid = 0
     AND NOT ({partition})
), size AS (
  SELECT p.top, p.topid, pg_catalog.count(*) AS parts FROM part p GROUP BY 1, 2
), edge AS MATERIALIZED (
  SELECT DISTINCT p.top, p.topid, d.classid, d.objid, q.top AS later, q.topid AS laterid
    FROM part p
    JOIN pg_catalog.pg_depend d ON d.refclassid = p.classid AND d.refobjid = p.objid
    LEFT JOIN part q ON q.classid = d.classid AND q.objid = d.objid
   WHERE (d.deptype = 'n' OR ({partition}))
     AND (q.topid IS NULL OR (q.top, q.topid) <> (p.top, p.topid))
), up AS (
  SELECT e.classid, e.objid, e.classid AS top, e.objid AS topid
    FROM edge e WHERE e.later IS NULL
  UNION
  SELECT u.classid, u.objid, d.refclassid, d.refobjid
    FROM up u
    JOIN pg_catalog.pg_depend d ON d.classid = u.top AND d.objid = u.topid
   WHERE d.deptype IN ('a', 'i', 'e', 'S') AND d.objsubid = 0
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c
                      WHERE u.top = 'pg_catalog.pg_class'::pg_catalog.regclass
                        AND c.oid = u.topid AND c.relkind IN ('r', 'p', 'f', 'v', 'm'))
), mine AS MATERIALIZED (
  SELECT DISTINCT u.classid, u.objid
    FROM up u
    JOIN pg_catalog.pg_shdepend s
      ON s.classid = u.top AND s.objid = u.topid AND s.objsubid = 0 AND s.deptype = 'o'
     AND s.dbid = (SELECT b.oid FROM pg_catalog.pg_database b
                    WHERE b.datname = pg_catalog.current_database())
     AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
     AND s.refobjid = ANY (%(roles)s::oid[])
), stranger AS MATERIALIZED (
  -- A view depends by its rule.
  SELECT DISTINCT
         CASE WHEN r.oid IS NULL THEN e.classid
              ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::oid END AS classid,
         COALESCE(r.ev_class, e.objid) AS objid
    FROM edge e
    LEFT JOIN pg_catalog.pg_rewrite r
      ON e.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = e.objid
   WHERE e.later IS NULL
     AND NOT EXISTS (SELECT FROM mine m WHERE m.classid = e.classid AND m.objid = e.objid)
   LIMIT %(shown)s::int8
)
SELECT 'object', o.classid::int8, o.objid::int8, z.parts,
       0::int8, 0::int8, 0::int8,
       CASE o.classid
         WHEN 'pg_catalog.pg_class'::pg_catalog.regclass THEN (
           SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                 WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'S' THEN 'SEQUENCE'
                                 ELSE 'TABLE' END
             FROM pg_catalog.pg_class c WHERE c.oid = o.objid)
         WHEN 'pg_catalog.pg_type'::pg_catalog.regclass THEN 'TYPE'
         WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN 'ROUTINE'
         WHEN 'pg_catalog.pg_namespace'::pg_catalog.regclass THEN 'SCHEMA'
         WHEN 'pg_catalog.pg_largeobject'::pg_catalog.regclass THEN 'LARGE OBJECT'
         WHEN 'pg_catalog.pg_collation'::pg_catalog.regclass THEN 'COLLATION'
         WHEN 'pg_catalog.pg_conversion'::pg_catalog.regclass THEN 'CONVERSION'
         WHEN 'pg_catalog.pg_operator'::pg_catalog.regclass THEN 'OPERATOR'
         WHEN 'pg_catalog.pg_ts_config'::pg_catalog.regclass THEN 'TEXT SEARCH CONFIGURATION'
         WHEN 'pg_catalog.pg_ts_dict'::pg_catalog.regclass THEN 'TEXT SEARCH DICTIONARY'
         WHEN 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN 'STATISTICS'
         WHEN 'pg_catalog.pg_publication'::pg_catalog.regclass THEN 'PUBLICATION'
         WHEN 'pg_catalog.pg_foreign_server'::pg_catalog.regclass THEN 'SERVER'
         WHEN 'pg_catalog.pg_user_mapping'::pg_catalog.regclass THEN 'USER MAPPING'
         WHEN 'pg_catalog.pg_cast'::pg_catalog.regclass THEN 'CAST'
         ELSE '' END
  FROM own o
  JOIN size z ON z.top = o.classid AND z.topid = o.objid
UNION ALL
SELECT 'edge', e.top::int8, e.topid::int8, e.classid::int8, e.objid::int8,
       e.later::int8, e.laterid::int8, ''
  FROM edge e WHERE e.later IS NOT NULL
UNION ALL
SELECT DISTINCT 'held', e.top::int8, e.topid::int8, 0::int8, 0::int8, 0::int8, 0::int8, ''
  FROM edge e WHERE e.later IS NULL
UNION ALL
SELECT 'stranger', 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
       pg_catalog.left(i.type || ' ' || i.identity, 300)
         || COALESCE(' of role ' || w.rolname::text, '')
  FROM stranger t
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(t.classid, t.objid, 0) i
  LEFT JOIN pg_catalog.pg_shdepend s
    ON s.classid = t.classid AND s.objid = t.objid AND s.objsubid = 0 AND s.deptype = 'o'
   AND s.dbid = (SELECT b.oid FROM pg_catalog.pg_database b
                  WHERE b.datname = pg_catalog.current_database())
   AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
  LEFT JOIN pg_catalog.pg_roles w ON w.oid = s.refobjid
UNION ALL
SELECT 'window', pg_catalog.count(*), COALESCE(pg_catalog.min(l.objid::int8), 0),
       0::int8, 0::int8, 0::int8, 0::int8, ''
  FROM listed l
""").format(partition=_PARTITION)

# The identity is read by oid right before the statement that names it: the name may be another
# object's by then, and the object another role's.
_IDENTITIES = sql.SQL("""
SELECT s.classid::int8, s.objid::int8, COALESCE(m.name, i.identity)
  FROM ROWS FROM (pg_catalog.unnest(%(catalogs)s::oid[]), pg_catalog.unnest(%(oids)s::oid[]))
       AS s(classid, objid)
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(s.classid, s.objid, 0) i
  LEFT JOIN (SELECT u.umid, pg_catalog.format('FOR %%I SERVER %%I', u.usename, u.srvname) AS name
               FROM pg_catalog.pg_user_mappings u) m
    ON s.classid = 'pg_catalog.pg_user_mapping'::pg_catalog.regclass AND m.umid = s.objid
 WHERE i.identity IS NOT NULL
   AND (s.classid = 'pg_catalog.pg_cast'::pg_catalog.regclass
     OR EXISTS (SELECT FROM pg_catalog.pg_shdepend o
                 WHERE o.dbid = (SELECT b.oid FROM pg_catalog.pg_database b
                                  WHERE b.datname = pg_catalog.current_database())
                   AND o.classid = s.classid AND o.objid = s.objid AND o.objsubid = 0
                   AND o.deptype = 'o'
                   AND o.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                   AND o.refobjid = ANY (%(roles)s::oid[])))
""")
_CONSTRAINTS = sql.SQL("""
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname), k.conname::text
  FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE k.oid = ANY (%(oids)s::oid[]) AND k.conparentid = 0
   AND c.relowner = ANY (%(roles)s::oid[])
 ORDER BY 1, 2
""")

_COUNT = sql.SQL("""
SELECT pg_catalog.count(*)
  FROM pg_catalog.pg_shdepend s
 WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
   AND s.refobjid = ANY (%(roles)s::oid[])
   AND (s.deptype IN ('o', 'r') OR s.objsubid <> 0
        OR s.classid = 'pg_catalog.pg_default_acl'::pg_catalog.regclass)
""")


async def count_left(session: Session, roles: Collection[int]) -> int:
    """Count what goes in pieces: objects of these roles and references to them, everywhere.

    A reference is what ``references`` reads.
    """
    ((count,),) = await session.rows(_COUNT, {"roles": list(roles)})
    return int(count)


async def read_bound(session: Session) -> int:
    """Read how many locks one transaction may take, so that others get theirs beside it."""
    ((locks,),) = await session.rows(_BOUND)
    return max(1, min(int(locks) // bounds.LOCKS_SHARE, bounds.LOCKS))


async def read_estate(
    session: Session, roles: Collection[int], *, below: int | None = None
) -> RoleEstate:
    """Read the newest objects of roles in this database, of those with an oid below one.

    Raises:
        psycopg.Error: the query failed.
    """
    parameters = {
        "roles": list(roles),
        "below": below,
        "most": bounds.ESTATE_WINDOW,
        "shown": bounds.NAMED_READ,
    }
    objects: list[OwnedObject] = []
    dependences: list[Dependence] = []
    seen_objects: set[CatalogObject] = set()
    strangers: list[str] = []
    listed = oldest = 0
    for row, first, two, three, four, five, six, text in await session.rows(_ESTATE, parameters):
        match row:
            case "object":
                objects.append(OwnedObject(CatalogObject(first, two), text, three))
            case "edge":
                carrier = CatalogObject(three, four)
                dependences.append(
                    Dependence(CatalogObject(five, six), CatalogObject(first, two), carrier)
                )
            case "held":
                seen_objects.add(CatalogObject(first, two))
            case "stranger":
                strangers.append(text)
            case _:
                listed, oldest = first, two
    return RoleEstate(
        objects=tuple(objects),
        dependences=tuple(dependences),
        held_objects=frozenset(seen_objects),
        strangers=tuple(sorted(strangers)),
        oldest=oldest,
        whole=listed < bounds.ESTATE_WINDOW,
    )


async def read_identities(
    session: Session, roles: Collection[int], things: Sequence[CatalogObject]
) -> dict[CatalogObject, str]:
    """Read the quoted names of objects that these roles still own."""
    parameters = {
        "roles": list(roles),
        "catalogs": [one.catalog for one in things],
        "oids": [one.oid for one in things],
    }
    rows = await session.rows(_IDENTITIES, parameters)
    return {CatalogObject(catalog, oid): identity for catalog, oid, identity in rows}


async def read_constraints(
    session: Session, roles: Collection[int], carriers: Collection[CatalogObject]
) -> list[tuple[str, str]]:
    """Read the quoted tables and the names of constraints on these roles' tables."""
    parameters = {"roles": list(roles), "oids": [one.oid for one in carriers]}
    return [(table, name) for table, name in await session.rows(_CONSTRAINTS, parameters)]
