"""The statement that returns the differences between roles' direct and desired privileges.

Its parameters are shapes and atoms: roles with the same grants have the same shape, and an atom is
a privilege of a shape on a target, from its grants or its ledger. The parts of WITH are steps: the
objects that targets name or that have an ACL; ``alike``, groups of them with the same ACL; the
desired and the actual privileges on these; the differences, and whether the administrator may
settle them. The rows are the differences, then one row of the roles that are gone, one of the last
object of a full window, and one of the absent targets.
"""

from __future__ import annotations

from psycopg import sql


def _privilege(*, who: str = "", option: str = "") -> str:
    """Return the SQL expression of whether a role has a difference's privilege on its object."""
    privilege = f"d.privilege || '{option}'" if option else "d.privilege"
    return f"""CASE g.level
                WHEN 'schema' THEN pg_catalog.has_schema_privilege({who}g.sample, {privilege})
                WHEN 'table' THEN pg_catalog.has_table_privilege({who}g.sample, {privilege})
                WHEN 'column' THEN pg_catalog.has_column_privilege(
                  {who}g.sample, g.column::int2, {privilege})
                WHEN 'sequence' THEN pg_catalog.has_sequence_privilege({who}g.sample, {privilege})
                WHEN 'routine' THEN pg_catalog.has_function_privilege({who}g.sample, {privilege})
                WHEN 'type' THEN pg_catalog.has_type_privilege({who}g.sample, {privilege})
                ELSE false END"""


# holding: the columns whose ACL names a member, by the index of what depends on roles, so that one
# role's column privileges, of which there may be a million, are no work for the others; roles of
# initdb's are not in it. asked: since PostgreSQL 15 schema public is owned by pg_database_owner,
# which creates nothing: its member is the database's owner. object: an array type has no
# privileges of its own, GRANT on it is an error (0LP01); tables of pg_temp are of one session.
# extended: what default privileges in an extension's schema are about counts as the extension's.
# possible: who has an owner's rights revokes in the owner's name, which leaves the grants of
# others without an error. dispensable: what an access is complete without, if it is not possible.
_DIFFERENCES = """
WITH member AS MATERIALIZED (
  SELECT m.shape, m.role, m.strict
    FROM ROWS FROM (pg_catalog.unnest(%(shapes)s::int4[]), pg_catalog.unnest(%(roles)s::oid[]),
                    pg_catalog.unnest(%(usernames)s::name[]),
                    pg_catalog.unnest(%(strict)s::bool[]))
         AS m(shape, role, username, strict)
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = m.role AND r.rolname = m.username
   WHERE r.oid IS NOT NULL OR m.role = ANY (%(unborn)s::oid[])
), atom AS MATERIALIZED (
  SELECT a.shape, a.target, a.privilege, a.passed_on, a.known
    FROM ROWS FROM (pg_catalog.unnest(%(atom_shapes)s::int4[]),
                    pg_catalog.unnest(%(atom_targets)s::int4[]),
                    pg_catalog.unnest(%(privileges)s::text[]),
                    pg_catalog.unnest(%(passed_on)s::bool[]),
                    pg_catalog.unnest(%(known)s::bool[]))
         AS a(shape, target, privilege, passed_on, known)
), asked AS MATERIALIZED (
  SELECT t.id::int4, t.level, t.schema, t.name, t.part, t.arguments, n.oid AS namespace,
         CASE WHEN t.level LIKE 'future %%' THEN
           CASE WHEN t.name <> '' THEN c.oid
                WHEN n.nspowner = 'pg_database_owner'::pg_catalog.regrole THEN d.datdba
                ELSE n.nspowner END
         END AS creator
    FROM ROWS FROM (pg_catalog.unnest(%(levels)s::text[]), pg_catalog.unnest(%(schemas)s::name[]),
                    pg_catalog.unnest(%(names)s::name[]), pg_catalog.unnest(%(columns)s::name[]),
                    pg_catalog.unnest(%(arguments)s::text[]))
         WITH ORDINALITY AS t(level, schema, name, part, arguments, id)
    JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
    LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema
    LEFT JOIN pg_catalog.pg_roles c ON c.rolname = t.name AND t.level LIKE 'future %%'
), holding AS MATERIALIZED (
{holding}), object AS MATERIALIZED (
  SELECT 'schema' AS level, n.oid AS namespace, n.oid, 0::int2 AS column, n.nspowner AS owner,
         n.nspacl AS acl, ''::name AS name, ''::name AS part
    FROM pg_catalog.pg_namespace n
   WHERE {schema}
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relnamespace, c.oid, 0,
         c.relowner, c.relacl, c.relname, ''
    FROM pg_catalog.pg_class c
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
     AND {relation}
  UNION ALL
  SELECT 'column', c.relnamespace, c.oid, a.attnum, c.relowner, a.attacl, c.relname, a.attname
    FROM (SELECT DISTINCT {columns}) h
    JOIN pg_catalog.pg_class c ON c.oid = h.relation
    -- OFFSET 0, so that each is looked up: all columns of the database may be many more.
   CROSS JOIN LATERAL (SELECT a.attnum, a.attacl, a.attname
                         FROM pg_catalog.pg_attribute a
                        WHERE a.attrelid = h.relation AND a.attnum = h.column
                          AND a.attacl IS NOT NULL AND NOT a.attisdropped
                       OFFSET 0) a
   WHERE c.relpersistence <> 't'
{asked_columns}  UNION ALL
  SELECT 'routine', p.pronamespace, p.oid, 0, p.proowner, p.proacl, p.proname, ''
    FROM pg_catalog.pg_proc p
   WHERE {routine}
     -- The constructors of a range type belong to the first superuser, not to the type's owner.
     AND NOT (p.proowner = 10 AND EXISTS (
           SELECT FROM pg_catalog.pg_depend e
            WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid
              AND e.deptype = 'i'))
  UNION ALL
  SELECT 'type', t.typnamespace, t.oid, 0, t.typowner, t.typacl, t.typname, ''
    FROM pg_catalog.pg_type t
   WHERE {type}
  UNION ALL
  SELECT CASE f.defaclobjtype WHEN 'r' THEN 'future table' WHEN 'S' THEN 'future sequence'
                              WHEN 'f' THEN 'future routine' WHEN 'T' THEN 'future type'
                              WHEN 'n' THEN 'future schema' WHEN 'L' THEN 'future large object'
         END,
         f.defaclnamespace, f.defaclrole, 0, f.defaclrole, f.defaclacl, r.rolname, ''
    FROM pg_catalog.pg_default_acl f
    JOIN pg_catalog.pg_roles r ON r.oid = f.defaclrole
   WHERE {future}
{asked_future}), named AS MATERIALIZED (
  SELECT a.id, o.level, o.namespace, o.oid, o.column
    FROM asked a
    JOIN object o ON o.level = a.level AND o.namespace = a.namespace AND o.name = a.name
                 AND o.part = a.part
   WHERE a.name <> '' AND a.creator IS NULL
     AND (a.arguments IS NULL OR EXISTS (
           SELECT FROM pg_catalog.pg_proc p,
                  LATERAL (
                    SELECT pg_catalog.string_agg(w.type, ', ' ORDER BY w.position) AS full,
                           pg_catalog.string_agg(
                             CASE WHEN w.namespace = p.pronamespace
                                  THEN pg_catalog.substr(w.type, 2
                                         + pg_catalog.length(pg_catalog.quote_ident(a.schema)))
                                  ELSE w.type END, ', ' ORDER BY w.position) AS short
                      FROM (SELECT pg_catalog.format_type(x.type, NULL) AS type, x.position,
                                   t.typnamespace AS namespace
                              FROM pg_catalog.unnest(p.proargtypes)
                                   WITH ORDINALITY AS x(type, position)
                              JOIN pg_catalog.pg_type t ON t.oid = x.type) w
                  ) s
            WHERE p.oid = o.oid
              AND a.arguments IN (COALESCE(s.full, ''), COALESCE(s.short, ''))))
  UNION ALL
  -- Default privileges have the creator's oid, in each schema for which it has any.
  SELECT a.id, o.level, o.namespace, o.oid, o.column
    FROM asked a
    JOIN object o ON o.level = a.level AND o.namespace = a.namespace AND o.oid = a.creator
), extended AS MATERIALIZED (
  SELECT e.classid, e.objid
    FROM pg_catalog.pg_depend e
   WHERE e.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.deptype = 'e'
), alike AS MATERIALIZED (
  -- Objects that have the same ACL differ in the same way: each ACL is looked at once.
  SELECT pg_catalog.row_number() OVER () AS id, g.*
    FROM (SELECT o.level, o.namespace, o.owner, o.acl, n.oid IS NOT NULL AS single,
                 e.objid IS NOT NULL AS extension,
                 pg_catalog.min(o.oid) AS sample, pg_catalog.min(o.column) AS column,
                 pg_catalog.array_agg(o.oid::int8) AS oids,
                 pg_catalog.array_agg(o.name::text) AS names,
                 pg_catalog.min(o.part::text) AS part
            FROM object o
            LEFT JOIN (SELECT DISTINCT n.level, n.namespace, n.oid, n.column FROM named n) n
              ON n.level = o.level AND n.namespace = o.namespace AND n.oid = o.oid
             AND n.column = o.column
            LEFT JOIN extended e
              ON e.classid = CASE WHEN o.level IN ('table', 'column', 'sequence')
                                  THEN 'pg_catalog.pg_class'::pg_catalog.regclass
                                  WHEN o.level = 'routine'
                                  THEN 'pg_catalog.pg_proc'::pg_catalog.regclass
                                  WHEN o.level = 'type'
                                  THEN 'pg_catalog.pg_type'::pg_catalog.regclass
                                  ELSE 'pg_catalog.pg_namespace'::pg_catalog.regclass END
             AND e.objid = CASE WHEN o.level LIKE 'future %%' THEN o.namespace ELSE o.oid END
           GROUP BY o.level, o.namespace, o.owner, o.acl, n.oid, n.column, e.objid IS NOT NULL,
                    CASE o.level WHEN 'column' THEN o.oid END,
                    CASE o.level WHEN 'column' THEN o.column END) g
), reached AS MATERIALIZED (
  SELECT g.id, g.owner, a.id AS target, a.level = 'schema' AS named
    FROM alike g
    JOIN asked a ON a.level = g.level AND a.namespace = g.namespace
   WHERE a.name = '' AND a.creator IS NULL
  UNION ALL
  SELECT g.id, g.owner, n.id, a.name <> ''
    FROM alike g
    JOIN named n ON n.level = g.level AND n.namespace = g.namespace AND n.oid = g.sample
                AND n.column = g.column
    JOIN asked a ON a.id = n.id
   WHERE g.single
), want AS MATERIALIZED (
  SELECT r.id, m.role, a.privilege, pg_catalog.bool_or(a.passed_on) AS passed_on,
         pg_catalog.bool_or(r.named) AS named
    FROM reached r
    JOIN atom a ON a.target = r.target AND NOT a.known
    JOIN member m ON m.shape = a.shape
   WHERE m.role <> r.owner
   GROUP BY 1, 2, 3
), known AS MATERIALIZED (
  SELECT r.id, m.role, a.privilege, a.passed_on
    FROM reached r
    JOIN atom a ON a.target = r.target AND a.known
    JOIN member m ON m.shape = a.shape
), entry AS MATERIALIZED (
  SELECT g.id, e.grantee, e.privilege_type AS privilege, e.is_grantable AS passed_on, e.grantor
    FROM alike g
   -- It unpacks an ACL that is stored compressed anew for each entry; that of || is not.
   CROSS JOIN LATERAL pg_catalog.aclexplode(
              CASE WHEN g.acl IS NOT NULL THEN g.acl || '{{}}'::pg_catalog.aclitem[] END) e
   WHERE e.grantee <> g.owner
), have AS MATERIALIZED (
  SELECT e.id, m.role, m.strict, e.privilege, e.passed_on, e.grantor
    FROM entry e
    JOIN member m ON m.role = e.grantee
), found AS (
  SELECT 'grant' AS action, w.id, w.role, w.privilege, w.passed_on AS option, 0::oid AS grantor,
         w.named
    FROM want w
   WHERE NOT EXISTS (SELECT FROM have h
                      WHERE h.id = w.id AND h.role = w.role{other})
  UNION ALL
  SELECT CASE WHEN w.id IS NULL THEN 'revoke' ELSE 'revoke option' END, h.id, h.role, h.privilege,
         h.passed_on, h.grantor, true
    FROM have h
    LEFT JOIN want w ON w.id = h.id AND w.role = h.role AND w.privilege = h.privilege
   WHERE {revoked}(w.id IS NULL OR h.passed_on > w.passed_on)
     AND (h.strict OR EXISTS (SELECT FROM known k
                               WHERE k.id = h.id AND k.role = h.role AND k.privilege = h.privilege
                                 AND (w.id IS NULL OR k.passed_on)))
), difference AS MATERIALIZED (
  SELECT f.*
    FROM (SELECT f.*, pg_catalog.row_number() OVER (PARTITION BY f.role) AS turn FROM found f) f
   ORDER BY f.turn
   LIMIT %(limit)s
), possible AS (
  SELECT d.*,
         CASE WHEN d.action <> 'grant' AND g.own THEN d.grantor = g.owner
              WHEN d.action <> 'grant' THEN pg_catalog.pg_has_role(d.grantor, 'USAGE')
              WHEN g.own THEN true
              ELSE {grantable}
         END AS possible,
         d.action = 'grant'
           AND ((g.extension AND NOT d.named) OR (NOT d.option AND {public})) AS dispensable
    FROM difference d
    JOIN (SELECT g.id, g.level, g.owner, g.sample, g.column, g.extension,
                 pg_catalog.pg_has_role(g.owner, CASE WHEN g.level LIKE 'future %%'
                                                      THEN %(membership)s ELSE 'USAGE' END) AS own
            FROM alike g
           WHERE g.id IN (SELECT d.id FROM difference d)) g ON g.id = d.id
)
SELECT g.level, COALESCE(n.nspname, '')::text, g.part, g.names[1:%(objects)s],
       CASE g.level WHEN 'routine' THEN ARRAY(
         SELECT COALESCE((SELECT pg_catalog.json_agg(
                            pg_catalog.json_build_array(s.nspname, t.typname) ORDER BY a.position)
                            FROM pg_catalog.unnest(p.proargtypes)
                                 WITH ORDINALITY AS a(type, position)
                            JOIN pg_catalog.pg_type t ON t.oid = a.type
                            JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace),
                         '[]'::json)
           FROM pg_catalog.unnest(g.oids[1:%(objects)s]) WITH ORDINALITY AS o(oid, position)
           LEFT JOIN pg_catalog.pg_proc p ON p.oid = o.oid::oid
          ORDER BY o.position) END,
       pg_catalog.cardinality(g.names), COALESCE(r.rolname, '')::text,
       d.roles, d.actions, d.privileges, d.options, d.grantors, d.possible,
       d.dispensable
  FROM (SELECT p.id, pg_catalog.array_agg(p.action) AS actions,
               pg_catalog.array_agg(p.role::int8) AS roles,
               pg_catalog.array_agg(p.privilege) AS privileges,
               pg_catalog.array_agg(p.option) AS options,
               pg_catalog.array_agg(COALESCE(o.rolname, '')::text) AS grantors,
               pg_catalog.array_agg(COALESCE(p.possible, false)) AS possible,
               pg_catalog.array_agg(COALESCE(p.dispensable, false)) AS dispensable
          FROM possible p
          LEFT JOIN pg_catalog.pg_roles o ON o.oid = p.grantor
         GROUP BY 1) d
  JOIN alike g ON g.id = d.id
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = g.namespace
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.owner
UNION ALL
SELECT 'gone', '', '', NULL, NULL, 0, '', NULL, NULL, pg_catalog.array_agg(m.username::text),
       NULL, NULL, NULL, NULL
  FROM ROWS FROM (pg_catalog.unnest(%(roles)s::oid[]), pg_catalog.unnest(%(usernames)s::name[]))
       AS m(role, username)
 WHERE NOT EXISTS (SELECT FROM member k WHERE k.role = m.role)
HAVING pg_catalog.count(*) > 0
{window}{absent}"""
# Parts of the statement that differ by what it looks at.
_ASKED_COLUMNS = """  UNION ALL
  SELECT DISTINCT 'column', c.relnamespace, c.oid, a.attnum, c.relowner, a.attacl,
         c.relname, a.attname
    FROM asked t
    JOIN pg_catalog.pg_class c ON c.relnamespace = t.namespace AND c.relname = t.name
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = t.part
   WHERE t.level = 'column' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT a.attisdropped
     AND c.relpersistence <> 't'
     AND NOT EXISTS (SELECT FROM holding h WHERE h.relation = c.oid AND h.column = a.attnum)
"""
_ASKED_TYPES = """(
       t.typnamespace IN (SELECT a.namespace FROM asked a WHERE a.level = 'type')
       AND t.typisdefined AND t.typtype <> 'm'
       AND t.typsubscript <> 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
       AND (t.typrelid = 0 OR EXISTS (SELECT FROM pg_catalog.pg_class c
                                       WHERE c.oid = t.typrelid AND c.relkind = 'c')))"""
_ASKED_FUTURE = """  UNION ALL
  SELECT DISTINCT a.level, a.namespace, a.creator, 0, a.creator, NULL::aclitem[], r.rolname, ''
    FROM asked a
    JOIN pg_catalog.pg_roles r ON r.oid = a.creator
   WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_default_acl f
                      WHERE f.defaclrole = a.creator AND f.defaclnamespace = a.namespace
                        AND f.defaclobjtype = CASE a.level WHEN 'future table' THEN 'r'
                                                           WHEN 'future sequence' THEN 'S'
                                                           WHEN 'future routine' THEN 'f'
                                                           ELSE 'T' END)
"""
_ABSENT = """UNION ALL
SELECT 'absent', '', '', NULL, NULL, 0, '', pg_catalog.array_agg(a.id::int8), NULL, NULL,
       pg_catalog.array_agg(a.namespace IS NULL), NULL, NULL, NULL
  FROM asked a
 WHERE a.namespace IS NULL
    OR (a.level LIKE 'future %%' AND a.creator IS NULL)
    OR (a.name <> '' AND a.creator IS NULL AND NOT EXISTS (SELECT FROM named n WHERE n.id = a.id))
HAVING pg_catalog.count(*) > 0
"""
_ASKED_ROUTINES = "p.pronamespace IN (SELECT a.namespace FROM asked a WHERE a.level = 'routine')"
_LESS = """ AND h.privilege = w.privilege
                        AND h.passed_on >= w.passed_on"""
_HOLDING = """
  SELECT s.objid AS relation, s.objsubid AS column
    FROM member m
   CROSS JOIN LATERAL (
         -- A range, and an order, so that it goes by the index, as in DEPENDENTS.
         SELECT s.dbid, s.classid, s.objid, s.objsubid
           FROM pg_catalog.pg_shdepend s
          WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
            AND s.refobjid >= m.role AND s.refobjid <= m.role
          ORDER BY s.refobjid) s
    JOIN pg_catalog.pg_database d ON d.oid = s.dbid
   WHERE d.datname = pg_catalog.current_database() AND s.objsubid <> 0
     AND s.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  UNION ALL
  SELECT a.attrelid, a.attnum
    FROM pg_catalog.pg_attribute a
   WHERE a.attacl IS NOT NULL AND EXISTS (SELECT FROM member m WHERE m.role < 16384)
"""
# In the order of an index, so that a window costs as much as it has, wherever it begins.
_HOLDING_IN_WINDOW = """
  SELECT s.classid AS class, s.objid AS relation, s.objsubid AS column
    FROM pg_catalog.pg_shdepend s
   WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d
                    WHERE d.datname = pg_catalog.current_database())
     AND (s.classid, s.objid, s.objsubid)
         > (%(after_class)s::oid, %(after_object)s::oid, %(after_column)s::int4)
     AND (s.classid, s.objid, s.objsubid)
         <= (%(last_class)s::oid, %(last_object)s::oid, %(last_column)s::int4)
     AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
     AND s.refobjid = ANY (%(roles)s::oid[]) AND s.deptype = 'a'
   ORDER BY s.dbid, s.classid, s.objid, s.objsubid
   LIMIT %(window)s::int8
"""
_HOLDING_NOTHING = """
  SELECT 0::oid AS relation, 0 AS column WHERE false
"""
_IN_WINDOW = "{} IN (SELECT h.relation FROM holding h WHERE h.class = 'pg_catalog.{}'::regclass)"
_LAST = """UNION ALL
SELECT 'window', '', '', NULL, NULL, 0, '',
       ARRAY[h.class::int8, h.relation::int8, h.column::int8], NULL, NULL, NULL, NULL, NULL, NULL
  FROM (SELECT h.class, h.relation, h.column, pg_catalog.count(*) OVER () AS number
          FROM holding h
         ORDER BY 1 DESC, 2 DESC, 3 DESC
         LIMIT 1) h
 WHERE h.number >= %(window)s::int8
"""
_ASKED_SCHEMAS = "n.oid IN (SELECT a.namespace FROM asked a)"
_ASKED_RELATIONS = "c.relnamespace IN (SELECT a.namespace FROM asked a)"
_PRIVILEGES = {
    "grantable": _privilege(option=" WITH GRANT OPTION"),
    "public": _privilege(who="'public', "),
}
DIFFERENCES = sql.SQL(
    _DIFFERENCES.format(
        holding=_HOLDING.lstrip("\n"),
        columns="h.relation, h.column FROM holding h",
        schema=f"n.nspacl IS NOT NULL OR {_ASKED_SCHEMAS}",
        relation=f"(c.relacl IS NOT NULL OR {_ASKED_RELATIONS})",
        asked_columns=_ASKED_COLUMNS,
        routine=f"(p.proacl IS NOT NULL OR {_ASKED_ROUTINES})",
        type=f"t.typacl IS NOT NULL OR {_ASKED_TYPES}",
        future="true",
        asked_future=_ASKED_FUTURE,
        other=_LESS,
        **_PRIVILEGES,
        revoked="",
        window="",
        absent=_ABSENT,
    )
)
IN_WINDOW = sql.SQL(
    _DIFFERENCES.format(
        holding=_HOLDING_IN_WINDOW.lstrip("\n"),
        columns="""h.relation, h.column FROM holding h
           WHERE h.class = 'pg_catalog.pg_class'::pg_catalog.regclass AND h.column <> 0""",
        schema=_IN_WINDOW.format("n.oid", "pg_namespace"),
        relation=_IN_WINDOW.format("c.oid", "pg_class")[:-1] + " AND h.column = 0)",
        asked_columns="",
        routine=_IN_WINDOW.format("p.oid", "pg_proc"),
        type=_IN_WINDOW.format("t.oid", "pg_type"),
        future=_IN_WINDOW.format("f.oid", "pg_default_acl"),
        asked_future="",
        other=_LESS,
        **_PRIVILEGES,
        revoked="",
        window=_LAST,
        absent="",
    )
)
"""The same of a window of the objects whose ACL names one role."""
IN_REST = sql.SQL(
    _DIFFERENCES.format(
        holding=_HOLDING_NOTHING.lstrip("\n"),
        columns="h.relation, h.column FROM holding h",
        schema=_ASKED_SCHEMAS,
        relation=_ASKED_RELATIONS,
        asked_columns=_ASKED_COLUMNS,
        routine=_ASKED_ROUTINES,
        type=_ASKED_TYPES,
        future="""EXISTS (SELECT FROM asked a
                  WHERE a.creator = f.defaclrole AND a.namespace = f.defaclnamespace)""",
        asked_future=_ASKED_FUTURE,
        other="",
        **_PRIVILEGES,
        revoked="false AND ",
        window="",
        absent=_ABSENT,
    )
)
"""The same of what is missing on all other objects."""
