"""The statements that read the catalogs; ``catalog`` sends them."""

from __future__ import annotations

from psycopg import sql


# clock_timestamp(), for now() stands still within a transaction, and ends of logins are compared
# with it.
SERVER = sql.SQL("""
SELECT pg_catalog.current_setting('server_version_num')::int,
       pg_catalog.current_setting('server_version'),
       (SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s),
       current_user::text,
       r.oid::int8,
       r.rolsuper,
       pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT'),
       EXTRACT(EPOCH FROM pg_catalog.clock_timestamp())::float8
  FROM pg_catalog.pg_roles r
 WHERE r.rolname = current_user
""")


_ROLES = """
SELECT r.oid::int8, r.rolname::text, r.rolcanlogin, r.rolsuper, r.rolcreaterole,
       r.rolreplication, r.rolbypassrls, d.description, {verifier},
       r.rolinherit, r.rolconnlimit,
       CASE WHEN r.rolvaliduntil IS NULL THEN ''
            WHEN r.rolvaliduntil = 'infinity' THEN 'infinity'
            ELSE pg_catalog.to_char(r.rolvaliduntil AT TIME ZONE 'UTC',
                                    'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       COALESCE(p.sessions, 0),
       CASE WHEN s.size <= %(bytes)s THEN s.settings END, s.setrole IS NOT NULL,
       COALESCE(e.turned, ARRAY[]::text[]), COALESCE(e.overfull, ARRAY[]::text[])
  FROM {roles} r
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
  -- PostgreSQL shows everybody whose sessions there are, and no more of those of others.
  LEFT JOIN (SELECT a.usesysid, pg_catalog.count(*) AS sessions
               FROM pg_catalog.pg_stat_activity a
              -- They come and go. Without pg_read_all_stats they look like sessions.
              WHERE a.backend_type IS DISTINCT FROM 'parallel worker'
              GROUP BY 1) p ON p.usesysid = r.oid
  LEFT JOIN (SELECT x.setrole, c.settings, c.size
               FROM ({settings}) x
              CROSS JOIN LATERAL (
                    SELECT pg_catalog.array_agg(c.text) AS settings,
                           pg_catalog.sum(pg_catalog.octet_length(c.text)) AS size
                      FROM pg_catalog.unnest(x.small) c(text)) c
              WHERE x.setdatabase = 0) s ON s.setrole = r.oid
  LEFT JOIN (SELECT x.setrole,
                    pg_catalog.array_agg(b.datname::text ORDER BY b.datname)
                      FILTER (WHERE x.small IS NOT NULL) AS turned,
                    pg_catalog.array_agg(b.datname::text ORDER BY b.datname)
                      FILTER (WHERE x.small IS NULL) AS overfull
               FROM ({settings}) x
               JOIN pg_catalog.pg_database b ON b.oid = x.setdatabase
              WHERE x.small IS NULL
                 OR EXISTS (SELECT FROM pg_catalog.unnest(x.small) c
                             WHERE pg_catalog.starts_with(c, 'role='))
              GROUP BY 1) e ON e.setrole = r.oid
 WHERE r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
    OR (%(claims)s AND d.description LIKE %(pattern)s)
    OR (d.description LIKE %(groups)s
        AND r.oid IN (SELECT m.roleid
                        FROM pg_catalog.pg_auth_members m
                        JOIN pg_catalog.pg_roles x ON x.oid = m.member
                       WHERE x.rolname = ANY (%(names)s::text[]::pg_catalog.name[])))
    OR (%(claims)s AND d.description LIKE %(groups)s
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                         WHERE m.roleid = r.oid AND m.member <> %(admin)s::oid {has}))
"""
_SETTINGS = """
       SELECT a.setrole, a.setdatabase,
              CASE WHEN pg_catalog.pg_column_size(a.setconfig) <= %(bytes)s
                   THEN a.setconfig END AS small
         FROM pg_catalog.pg_db_role_setting a
         JOIN pg_catalog.pg_roles n ON n.oid = a.setrole
        WHERE %(whole)s AND n.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
"""
# pg_roles has asterisks in place of every verifier, and by default only superusers may read
# pg_authid.
_READING = {
    True: (
        """CASE WHEN %(whole)s AND r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
            THEN pg_catalog.left(r.rolpassword, %(characters)s) END""",
        "pg_catalog.pg_authid",
    ),
    False: ("NULL::text", "pg_catalog.pg_roles"),
}
# Since PostgreSQL 16 a member may have the admin option alone, without the group's privileges.
_HAVING = {True: "AND (m.inherit_option OR m.set_option)", False: ""}
ROLES_QUERIES = {
    (reads, options): sql.SQL(
        _ROLES.format(verifier=verifier, roles=roles, has=has, settings=_SETTINGS)
    )
    for reads, (verifier, roles) in _READING.items()
    for options, has in _HAVING.items()
}

_GROUPS = """
SELECT m.member::int8, g.rolname::text, m.admin_option, {options}, m.grantor::int8,
       COALESCE(o.rolname, '')::text, COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'), false),
       '' AS intruder
  FROM pg_catalog.pg_auth_members m
  JOIN pg_catalog.pg_roles g ON g.oid = m.roleid
  LEFT JOIN pg_catalog.pg_roles o ON o.oid = m.grantor
 WHERE m.member = ANY (%(roles)s::oid[])
 UNION ALL
SELECT m.member::int8, g.rolname::text, m.admin_option, {options}, m.grantor::int8,
       COALESCE(o.rolname, '')::text, COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'), false),
       x.rolname::text
  FROM pg_catalog.pg_auth_members m
  JOIN pg_catalog.pg_roles g ON g.oid = m.roleid
  JOIN pg_catalog.pg_roles x ON x.oid = m.member
  LEFT JOIN pg_catalog.pg_roles o ON o.oid = m.grantor
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = m.member AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE m.roleid = ANY (%(groups)s::oid[]) AND m.member <> %(admin)s::oid {made}
   AND (NOT pg_catalog.starts_with(COALESCE(d.description, ''), %(ours)s::text) {lets_in})
 ORDER BY 1, 2, 6
"""
# Since PostgreSQL 16 the creator of a role, unless superuser, has the admin option on it.
_BY_MAKING = """AND NOT (m.grantor = 10 AND m.admin_option AND NOT m.inherit_option
                          AND NOT m.set_option)"""
# Before PostgreSQL 16 a membership is one row for all grantors, which is read with the member.
_BY_OTHERS = "OR (m.admin_option AND NOT COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'), false))"
GROUPS_15 = sql.SQL(_GROUPS.format(options="true, true", made="", lets_in=""))
GROUPS_16 = sql.SQL(
    _GROUPS.format(options="m.inherit_option, m.set_option", made=_BY_MAKING, lets_in=_BY_OTHERS)
)

POWERFUL = sql.SQL("""(s.rolsuper OR s.rolcreaterole OR s.rolreplication OR s.rolbypassrls
                       -- A role that may run programs or write files there may do anything.
                       OR s.rolname IN ('pg_execute_server_program', 'pg_write_server_files',
                                        'pg_read_server_files'))""")
"""Whether role ``s`` has powers over others, or over the server."""

GROUP_FACTS = sql.SQL("""
SELECT g.rolname::text,
       EXISTS (SELECT FROM pg_catalog.pg_roles s
                WHERE {} AND pg_catalog.pg_has_role(g.oid, s.oid, 'MEMBER'))
  FROM pg_catalog.pg_roles g
 WHERE g.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
""").format(POWERFUL)

# A login may set parameters of context user for itself. The right to set any other is checked when
# ALTER ROLE runs, and so it would be the operator's right.
RESERVED = sql.SQL("""
SELECT pg_catalog.lower(s.name)
  FROM pg_catalog.pg_settings s
 WHERE s.context <> 'user' AND pg_catalog.lower(s.name) = ANY (%(names)s::text[])
""")

DEPENDENTS = sql.SQL("""
SELECT r.oid::int8, r.rolname::text, x.database::int8, x.itself, x.seen::int8
  FROM pg_catalog.pg_roles r
  LEFT JOIN LATERAL (
       SELECT CASE WHEN s.dbid <> 0 THEN s.dbid
                   WHEN s.classid = 'pg_catalog.pg_database'::pg_catalog.regclass THEN s.objid
                   ELSE 0::oid END AS database,
              s.dbid = 0 AS itself, pg_catalog.count(*) AS seen
         -- A range, and an order, so that it goes by the index whatever statistics say: where one
         -- role has most of all rows, those of any other would be looked for among them.
         FROM (SELECT s.dbid, s.classid, s.objid
                 FROM pg_catalog.pg_shdepend s
                WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                  AND s.refobjid >= r.oid AND s.refobjid <= r.oid
                ORDER BY s.refobjid
                LIMIT %(most)s::int8) s
        GROUP BY 1, 2) x ON true
 WHERE r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
""")
"""Query of roles with their databases; a role without any has one row, with NULL."""

DATABASES = sql.SQL("""
SELECT d.oid::int8, d.datname::text, d.datallowconn, d.datdba::int8,
       -- Not aclexplode, for an ACL may have thousands of entries.
       ARRAY(SELECT p.privilege
               FROM pg_catalog.unnest(ARRAY['CREATE', 'TEMPORARY', 'CONNECT']) AS p(privilege)
              WHERE pg_catalog.has_database_privilege('public', d.oid, p.privilege))
  FROM pg_catalog.pg_database d
 WHERE d.datname = ANY (%(names)s::text[]::pg_catalog.name[])
    OR d.oid = ANY (%(databases)s::oid[])
""")

HELD = sql.SQL("""
SELECT d.datname::text, a.grantee::int8, a.privilege_type, pg_catalog.bool_or(a.is_grantable)
  FROM pg_catalog.pg_database d
 -- It unpacks an ACL that is stored compressed anew for each entry; that of || is not.
 CROSS JOIN LATERAL pg_catalog.aclexplode(
            CASE WHEN d.datacl IS NOT NULL THEN d.datacl || '{}'::pg_catalog.aclitem[] END) a
  JOIN pg_catalog.unnest(%(roles)s::oid[]) AS r(oid) ON r.oid = a.grantee
 WHERE a.grantee <> d.datdba
   -- Roles in an ACL are among the dependents too, except those that initdb made.
   AND (d.oid = ANY (%(databases)s::oid[])
        OR EXISTS (SELECT FROM pg_catalog.unnest(%(roles)s::oid[]) AS i(oid)
                    WHERE i.oid < 16384))
 GROUP BY 1, 2, 3
""")

LOGINS = sql.SQL("""
SELECT r.rolname::text FROM pg_catalog.pg_roles r
 WHERE r.rolcanlogin OR EXISTS (
       SELECT FROM pg_catalog.pg_shdescription d
        WHERE d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
          AND (d.description LIKE %(pattern)s OR d.description LIKE %(groups)s))
 ORDER BY 1
 LIMIT %(limit)s
""")
