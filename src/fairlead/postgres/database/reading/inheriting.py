"""Finds the objects of a removed role that would run with the rights of their heir.

These are routines with SECURITY DEFINER, and views. Objects that belong to a plain table run so
too: rules; triggers, checks and expressions, because the actions of foreign keys run as the
table's owner; expressions of indexes and statistics, which autovacuum computes as the owner.
A role with TRIGGER or REFERENCES on a table may add such objects later.
"""

from __future__ import annotations

from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION


# Defaults run as the role that writes, and so are harmless, unless a foreign key sets them.
# Functions of a superuser are trusted. PostgreSQL's own functions have no rows in pg_depend; those
# that run a statement are volatile, and of all expressions only a check may be volatile.
_RUNNING = sql.SQL("""
WITH given AS MATERIALIZED (
  SELECT c.oid, c.relkind, c.relacl, c.reloptions
    FROM pg_catalog.pg_class c
   WHERE c.relowner = %(heir)s::oid AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
     AND pg_catalog.age(c.xmin) <= pg_catalog.age(%(begun)s::text::xid)
), found AS (
  SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::oid AS classid, p.oid
    FROM pg_catalog.pg_proc p
   WHERE p.proowner = %(heir)s::oid AND p.prosecdef
     AND pg_catalog.age(p.xmin) <= pg_catalog.age(%(begun)s::text::xid)
  UNION ALL
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, g.oid
    FROM given g
   WHERE g.relkind = 'm'
      OR (g.relkind = 'v' AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_options_to_table(g.reloptions) o
             WHERE o.option_name = 'security_invoker' AND o.option_value::bool))
      OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r
                  WHERE r.ev_class = g.oid AND r.ev_type <> '1')
      OR EXISTS (SELECT FROM pg_catalog.pg_trigger t
                  WHERE t.tgrelid = g.oid AND NOT t.tgisinternal)
      OR EXISTS (SELECT FROM pg_catalog.aclexplode(g.relacl) a
                  WHERE a.privilege_type IN ('TRIGGER', 'REFERENCES')
                    AND a.grantee <> %(heir)s::oid)
      OR EXISTS (SELECT FROM pg_catalog.pg_attribute b
                  CROSS JOIN LATERAL pg_catalog.aclexplode(b.attacl) a
                  WHERE b.attrelid = g.oid AND a.privilege_type = 'REFERENCES'
                    AND a.grantee <> %(heir)s::oid)
      OR EXISTS (SELECT FROM pg_catalog.pg_constraint k
                  WHERE k.conrelid = g.oid AND 'd' IN (k.confupdtype, k.confdeltype))
      -- A key of another type than what it refers to is cast, maybe by a function.
      OR EXISTS (SELECT FROM pg_catalog.pg_constraint k
                  CROSS JOIN LATERAL ROWS FROM (
                    pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey)) AS n(own, other)
                   JOIN pg_catalog.pg_attribute b
                     ON b.attrelid = k.conrelid AND b.attnum = n.own
                   JOIN pg_catalog.pg_attribute f
                     ON f.attrelid = k.confrelid AND f.attnum = n.other
                   JOIN pg_catalog.pg_type t ON t.oid = b.atttypid
                  WHERE k.contype = 'f' AND g.oid IN (k.conrelid, k.confrelid)
                    AND b.atttypid <> f.atttypid AND t.oid >= 16384 AND t.typtype <> 'd')
      OR EXISTS (SELECT FROM pg_catalog.pg_constraint k
                  CROSS JOIN LATERAL pg_catalog.regexp_matches(
                    k.conbin::text, ':funcid ([0-9]+)', 'g') AS m(found)
                   JOIN pg_catalog.pg_proc p ON p.oid = m.found[1]::oid
                  WHERE k.conrelid = g.oid AND k.contype = 'c' AND p.provolatile = 'v')
      OR EXISTS (
           SELECT FROM (
             SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, g.oid
             UNION ALL
             SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, x.indexrelid
               FROM pg_catalog.pg_index x WHERE x.indrelid = g.oid
             UNION ALL
             SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, k.oid
               FROM pg_catalog.pg_constraint k WHERE k.conrelid = g.oid
             UNION ALL
             SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::oid, s.oid
               FROM pg_catalog.pg_statistic_ext s WHERE s.stxrelid = g.oid
             UNION ALL
             SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass::oid, d.oid
               FROM pg_catalog.pg_attrdef d
               JOIN pg_catalog.pg_attribute b ON b.attrelid = d.adrelid AND b.attnum = d.adnum
              WHERE d.adrelid = g.oid AND b.attgenerated <> ''
           ) AS part(classid, objid)
             JOIN pg_catalog.pg_depend d
               ON d.classid = part.classid AND d.objid = part.objid
             LEFT JOIN pg_catalog.pg_operator o
               ON d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass
              AND o.oid = d.refobjid
             LEFT JOIN pg_catalog.pg_proc p
               ON p.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
                               THEN d.refobjid ELSE o.oprcode END
             -- A domain has checks. Of a table itself it is only the type of a column.
             LEFT JOIN pg_catalog.pg_type t
               ON d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
              AND t.oid = d.refobjid AND d.objid <> g.oid
             LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
             JOIN pg_catalog.pg_roles w
               ON w.oid = COALESCE(p.proowner, t.typowner) AND NOT w.rolsuper
            WHERE p.oid IS NOT NULL OR COALESCE(e.typtype, t.typtype) IN ('c', 'd'))
)
SELECT i.type || ' ' || i.identity
  FROM (SELECT f.classid, f.oid FROM found f LIMIT 4) f
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(f.classid, f.oid, 0) i
 ORDER BY 1
""")
# Rows that REASSIGN OWNED has written have the transaction's number in xmin, or a later one of its
# savepoints; the heir's own objects are older.
_BEGUN = sql.SQL("SELECT pg_catalog.pg_current_xact_id()::xid::text")
_ACTS = "SELECT pg_catalog.pg_has_role(%(role)s::oid, r.oid, '{}'), r.oid::int8"
_ACTS_AS = " FROM pg_catalog.pg_roles r WHERE r.rolname = %(heir)s::text::pg_catalog.name"
_ACTS_15 = sql.SQL(_ACTS.format("MEMBER") + _ACTS_AS)
_ACTS_16 = sql.SQL(_ACTS.format("SET") + _ACTS_AS)


async def transaction_id(session: Session) -> str:
    """Read the number of the session's transaction."""
    ((number,),) = await session.rows(_BEGUN)
    return str(number)


async def read_running(session: Session, role: int, heir: str, begun: str) -> list[str]:
    """Read a few of the objects, in words, that an heir got and that would run with its rights.

    The list is empty if the former owner may act as the heir anyway. The query runs after the
    objects were reassigned, so that the former owner can no longer add a trigger, and before the
    commit.

    Args:
        session: a session in the transaction that reassigned the objects.
        role: the oid of the former owner.
        heir: the name of the new owner.
        begun: the number of that transaction.
    """
    acts = _ACTS_16 if session.server_version >= GRANT_OPTIONS_VERSION else _ACTS_15
    for may, oid in await session.rows(acts, {"role": role, "heir": heir}):
        if not may:
            rows = await session.rows(_RUNNING, {"heir": oid, "begun": begun})
            return [text for (text,) in rows]
    return []
