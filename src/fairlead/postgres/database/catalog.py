"""Reads the catalogs, in a number of statements that does not grow with that of the objects.

https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from fairlead.postgres.database.session import Session
from fairlead.postgres.database.snapshot import (
    CLAIM_PATTERN,
    DatabaseFacts,
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
