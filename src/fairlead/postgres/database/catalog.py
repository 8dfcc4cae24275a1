"""Reads the catalogs, in a number of statements that does not grow with that of the objects.

https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from psycopg import sql

from fairlead.postgres.database.grants import DatabaseGrants
from fairlead.postgres.database.session import Session
from fairlead.postgres.database.snapshot import (
    CLAIM_PATTERN,
    DatabaseFacts,
    Difference,
    RoleFacts,
    ServerFacts,
    Snapshot,
    parse_claim,
)


_SERVER = sql.SQL("""
SELECT pg_catalog.current_setting('server_version_num')::int,
       pg_catalog.current_setting('server_version'),
       (SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s),
       current_user::text,
       r.rolsuper,
       pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT')
  FROM pg_catalog.pg_roles r
 WHERE r.rolname = current_user
""")

_ROLES = """
SELECT r.oid::int8, r.rolname::text, r.rolcanlogin, r.rolsuper, r.rolcreaterole,
       r.rolreplication, r.rolbypassrls, d.description, {verifier}
  FROM {roles} r
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE r.rolname = %(username)s::text OR d.description LIKE %(claims)s
"""
_OPEN_ROLES = sql.SQL(_ROLES.format(verifier="NULL::text", roles="pg_catalog.pg_roles"))
_ALL_ROLES = sql.SQL(
    _ROLES.format(
        verifier="CASE WHEN r.rolname = %(username)s::text THEN r.rolpassword END",
        roles="pg_catalog.pg_authid",
    )
)

_DATABASES = sql.SQL("""
SELECT d.datname::text, d.datallowconn, d.datdba = %(role)s::oid,
       ARRAY(SELECT a.privilege_type
               FROM pg_catalog.aclexplode(d.datacl) a
              WHERE a.grantee = %(role)s::oid AND d.datdba <> %(role)s::oid),
       ARRAY(SELECT a.privilege_type
               FROM pg_catalog.aclexplode(
                    COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))) a
              WHERE a.grantee = 0),
       EXISTS (SELECT FROM pg_catalog.pg_shdepend s
                WHERE s.dbid = d.oid
                  AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                  AND s.refobjid = %(role)s::oid)
  FROM pg_catalog.pg_database d
 ORDER BY 1
""")

_DIFFERENCES = sql.SQL("""
WITH want AS MATERIALIZED (
  SELECT w.level, w.schema, w.privilege
    FROM ROWS FROM (pg_catalog.unnest(%(levels)s::text[]),
                    pg_catalog.unnest(%(schemas)s::text[]),
                    pg_catalog.unnest(%(privileges)s::text[])) AS w(level, schema, privilege)
), objects AS MATERIALIZED (
  SELECT 'schema' AS level, n.nspname::text AS schema, '' AS name, n.oid,
         n.nspowner AS owner, n.nspacl AS acl, ''::pg_catalog.oidvector AS arguments
    FROM pg_catalog.pg_namespace n
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, n.nspname::text,
         c.relname::text, c.oid, c.relowner, c.relacl, ''
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
  UNION ALL
  SELECT 'routine', n.nspname::text, p.proname::text, p.oid, p.proowner, p.proacl, p.proargtypes
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
), have AS (
  SELECT o.level, o.schema, o.oid, a.privilege_type AS privilege
    FROM objects o, pg_catalog.aclexplode(o.acl) a
   WHERE a.grantee = %(role)s::oid AND o.owner <> %(role)s::oid
), differences AS (
  SELECT 'grant' AS action, o.oid, w.level, w.privilege
    FROM want w
    JOIN objects o ON o.level = w.level AND o.schema = w.schema
   WHERE o.owner <> %(role)s::oid
     AND NOT EXISTS (SELECT FROM have h WHERE h.level = w.level AND h.oid = o.oid
                        AND h.privilege = w.privilege)
  UNION
  SELECT 'revoke', h.oid, h.level, h.privilege
    FROM have h
   WHERE NOT EXISTS (SELECT FROM want w WHERE w.level = h.level AND w.schema = h.schema
                        AND w.privilege = h.privilege)
)
SELECT d.action, o.level, o.schema, o.name, d.privilege,
       ARRAY(SELECT n.nspname::text
               FROM pg_catalog.unnest(o.arguments) WITH ORDINALITY AS a(type, position)
               JOIN pg_catalog.pg_type t ON t.oid = a.type
               JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
              ORDER BY a.position),
       ARRAY(SELECT t.typname::text
               FROM pg_catalog.unnest(o.arguments) WITH ORDINALITY AS a(type, position)
               JOIN pg_catalog.pg_type t ON t.oid = a.type
              ORDER BY a.position)
  FROM differences d
  JOIN objects o ON o.level = d.level AND o.oid = d.oid
UNION ALL
SELECT DISTINCT 'absent', 'schema', w.schema, '', '', ARRAY[]::text[], ARRAY[]::text[]
  FROM want w
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = w.schema)
""")

_POWERS = ("SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS")
_NO_ROLE = 2**32 - 1
"""No role has this oid; 0 would be PUBLIC's in every ACL."""


async def read_server(session: Session) -> ServerFacts:
    """Version, identity and what this session may read."""
    ((version, text, identifier, admin, superuser, reads),) = await session.rows(_SERVER)
    return ServerFacts(
        version=version,
        version_text=text,
        system_identifier=identifier,
        admin=admin,
        superuser=superuser,
        reads_verifiers=reads,
    )


async def read_snapshot(session: Session, username: str, installation: str) -> Snapshot:
    """The role of this name, all databases, and the claims of this installation."""
    server = await read_server(session)
    query = _ALL_ROLES if server.reads_verifiers else _OPEN_ROLES
    rows = await session.rows(query, {"username": username, "claims": CLAIM_PATTERN})
    roles = [_role(row) for row in rows]
    role = next((role for role in roles if role.name == username), None)
    return Snapshot(
        server=server,
        role=role,
        databases=await _read_databases(session, role.oid if role else _NO_ROLE),
        claimed={
            role.name: role.claim
            for role in roles
            if role.claim is not None and role.claim.installation == installation
        },
    )


async def _read_databases(session: Session, role: int) -> dict[str, DatabaseFacts]:
    rows = await session.rows(_DATABASES, {"role": role})
    return {
        name: DatabaseFacts(
            name=name,
            connectable=connectable,
            owned=owned,
            held=frozenset(held),
            public=frozenset(public),
            dependent=dependent,
        )
        for name, connectable, owned, held, public, dependent in rows
    }


def _role(row: Sequence[Any]) -> RoleFacts:
    oid, name, login, *powers, comment, verifier = row
    return RoleFacts(
        oid=oid,
        name=name,
        login=login,
        powers=frozenset(power for power, has in zip(_POWERS, powers, strict=True) if has),
        claim=parse_claim(comment),
        verifier=verifier,
    )


async def read_differences(
    session: Session, role: int, wanted: DatabaseGrants
) -> list[Difference]:
    """What separates the role's direct privileges in this database from those wanted.

    Objects that the role owns are left alone: an owner's privileges are inherent. A wildcard is
    satisfied when no object lacks it, so an empty schema is. Sorted, so that the same differences
    are always told alike.
    """
    levels = {"schema": wanted.schemas, "table": wanted.tables, "routine": wanted.routines}
    flat = [
        (level, schema, privilege)
        for level, schemas in levels.items()
        for schema, privileges in schemas.items()
        for privilege in privileges
    ]
    rows = await session.rows(
        _DIFFERENCES,
        {
            "role": role,
            "levels": [level for level, _, _ in flat],
            "schemas": [schema for _, schema, _ in flat],
            "privileges": [privilege for _, _, privilege in flat],
        },
    )
    return [_difference(row) for row in sorted(rows)]


def _difference(row: Sequence[Any]) -> Difference:
    action, level, schema, name, privilege, schemas, types = row
    return Difference(
        action=action,
        level=level,
        schema=schema,
        name=name,
        privilege=privilege,
        arguments=cast("tuple[tuple[str, str], ...]", tuple(zip(schemas, types, strict=True))),
    )
