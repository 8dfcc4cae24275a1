"""Reads what names a role in a database and makes a single DROP OWNED too large.

A privilege on an object costs DROP OWNED no lock. It takes locks for default privileges, for
policies for this role alone and for user mappings; and it looks at all columns of a table once for
each column on which the role has privileges.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.pieces import CatalogObject
from fairlead.postgres.database.plans.snapshot import GIVEN_UP
from fairlead.postgres.database.reading.strangers import MAY_ACT, OURS, Granting


class RoleReference(NamedTuple):
    """An entry that names a role: its oids, the locks that it costs, and a table's columns.

    ``columns`` is the number of columns of a table on which the role has privileges.
    """

    thing: CatalogObject
    locks: int
    columns: int


class Dismissal(NamedTuple):
    """The statement that ends a reference, and the role in whose name it runs.

    ``able`` says whether the administrator has that role's rights by now.
    """

    thing: CatalogObject
    statement: str
    owner: Granting
    able: bool


# Of default privileges those for a schema count, which a schema's owner may have as many of as
# there are schemas. Entries that name others too stay, and cost no lock.
_LISTED = sql.SQL("""
WITH named AS MATERIALIZED (
  SELECT s.classid, s.objid, pg_catalog.count(*) FILTER (WHERE s.objsubid <> 0) AS columns
    FROM pg_catalog.pg_shdepend s
   WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d
                    WHERE d.datname = pg_catalog.current_database())
     AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
     AND s.refobjid = ANY (%(roles)s::oid[])
     AND (s.classid IN ('pg_catalog.pg_default_acl'::pg_catalog.regclass,
                        'pg_catalog.pg_user_mapping'::pg_catalog.regclass)
          OR s.deptype = 'r' OR (s.deptype = 'a' AND s.objsubid <> 0))
   GROUP BY 1, 2
), listed AS MATERIALIZED (
  SELECT n.classid, n.objid, n.columns FROM named n
   WHERE (n.classid, n.objid) > (%(catalog)s::oid, %(oid)s::oid)
   ORDER BY 1, 2
   LIMIT %(most)s::int8
)
SELECT l.classid::int8, l.objid::int8, l.columns,
       CASE l.classid
         WHEN 'pg_catalog.pg_default_acl'::pg_catalog.regclass THEN (
           SELECT CASE WHEN f.defaclrole = ANY (%(roles)s::oid[])
                         OR NOT EXISTS (SELECT FROM pg_catalog.aclexplode(f.defaclacl) a
                                         WHERE a.grantee <> ALL (%(roles)s::oid[]))
                       THEN 1 ELSE 0 END
             FROM pg_catalog.pg_default_acl f
            WHERE f.oid = l.objid AND f.defaclnamespace <> 0)
         WHEN 'pg_catalog.pg_policy'::pg_catalog.regclass THEN (
           SELECT CASE WHEN p.polroles <@ %(roles)s::oid[] THEN 3 ELSE 0 END
             FROM pg_catalog.pg_policy p WHERE p.oid = l.objid)
         WHEN 'pg_catalog.pg_user_mapping'::pg_catalog.regclass THEN 2
         ELSE 0 END
  FROM listed l
 ORDER BY 1, 2
""")

_DISMISSALS = """
WITH thing AS MATERIALIZED (
  SELECT t.classid, t.objid
    FROM ROWS FROM (pg_catalog.unnest(%(catalogs)s::oid[]), pg_catalog.unnest(%(oids)s::oid[]))
         AS t(classid, objid)
), dismissed AS (
  SELECT t.classid, t.objid, f.defaclrole AS owner,
         pg_catalog.format(
           'ALTER DEFAULT PRIVILEGES FOR ROLE %%I IN SCHEMA %%I REVOKE ALL ON %%s FROM %%s',
           w.rolname, n.nspname,
           CASE f.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES'
                                WHEN 'f' THEN 'ROUTINES' ELSE 'TYPES' END,
           g.names) AS statement
    FROM thing t
    JOIN pg_catalog.pg_default_acl f ON f.oid = t.objid
    JOIN pg_catalog.pg_roles w ON w.oid = f.defaclrole
    JOIN pg_catalog.pg_namespace n ON n.oid = f.defaclnamespace
   CROSS JOIN LATERAL (
           SELECT pg_catalog.string_agg(
                    DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC'
                                            ELSE pg_catalog.quote_ident(r.rolname) END,
                    ', ') AS names
             FROM pg_catalog.aclexplode(f.defaclacl) a
             LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
            WHERE a.grantee = 0 OR r.oid IS NOT NULL) g
   WHERE t.classid = 'pg_catalog.pg_default_acl'::pg_catalog.regclass
     AND g.names IS NOT NULL
     AND f.defaclobjtype IN ('r', 'S', 'f', 'T')
     AND (f.defaclrole = ANY (%(roles)s::oid[])
          OR NOT EXISTS (SELECT FROM pg_catalog.aclexplode(f.defaclacl) a
                          WHERE a.grantee <> ALL (%(roles)s::oid[])))
  UNION ALL
  SELECT t.classid, t.objid, c.relowner,
         pg_catalog.format('DROP POLICY %%I ON %%I.%%I', p.polname, n.nspname, c.relname)
    FROM thing t
    JOIN pg_catalog.pg_policy p ON p.oid = t.objid
    JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE t.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass
     AND p.polroles <@ %(roles)s::oid[]
     AND pg_catalog.has_schema_privilege(c.relowner, n.oid, 'USAGE')
  UNION ALL
  SELECT t.classid, t.objid, f.srvowner,
         pg_catalog.format('DROP USER MAPPING FOR %%I SERVER %%I', u.usename, u.srvname)
    FROM thing t
    JOIN pg_catalog.pg_user_mappings u ON u.umid = t.objid
    JOIN pg_catalog.pg_foreign_server f ON f.oid = u.srvid
   WHERE t.classid = 'pg_catalog.pg_user_mapping'::pg_catalog.regclass
     AND u.umuser = ANY (%(roles)s::oid[])
  UNION ALL
  SELECT t.classid, t.objid, c.relowner,
         pg_catalog.format('REVOKE ALL ON TABLE %%I.%%I FROM %%s CASCADE', n.nspname, c.relname,
                           (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(r.rolname), ', ')
                              FROM pg_catalog.pg_roles r WHERE r.oid = ANY (%(roles)s::oid[])))
    FROM thing t
    JOIN pg_catalog.pg_class c ON c.oid = t.objid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE t.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
     AND c.relpersistence <> 't'
     AND c.relowner <> ALL (%(roles)s::oid[])
     AND pg_catalog.has_schema_privilege(c.relowner, n.oid, 'USAGE')
)
SELECT x.classid::int8, x.objid::int8, x.statement, r.oid::int8, r.rolname::text,
       pg_catalog.pg_has_role(r.oid, 'USAGE')
  FROM dismissed x
  JOIN pg_catalog.pg_roles r ON r.oid = x.owner
 WHERE pg_catalog.pg_has_role(r.oid, 'USAGE')
    OR (r.oid <> ALL (%(roles)s::oid[]) {ours})
"""
_DISMISSING = {
    newer: sql.SQL(_DISMISSALS.format(ours=OURS.format(may=may))) for newer, may in MAY_ACT.items()
}

_IN_WORDS = sql.SQL("""
SELECT pg_catalog.left(i.type || ' ' || i.identity, 300)
  FROM ROWS FROM (pg_catalog.unnest(%(catalogs)s::oid[]), pg_catalog.unnest(%(oids)s::oid[]))
       AS t(classid, objid)
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(t.classid, t.objid, 0) i
 WHERE i.identity IS NOT NULL
 ORDER BY 1
""")


async def list_references(
    session: Session, roles: Collection[int], after: CatalogObject
) -> list[RoleReference]:
    """Read the references to roles in this database that follow another one.

    Raises:
        psycopg.Error: the query failed.
    """
    parameters = {
        "roles": list(roles),
        "catalog": after.catalog,
        "oid": after.oid,
        "most": bounds.ESTATE_WINDOW,
    }
    return [
        RoleReference(CatalogObject(catalog, oid), locks or 0, columns)
        for catalog, oid, columns, locks in await session.rows(_LISTED, parameters)
    ]


async def read_dismissals(
    session: Session, roles: Collection[int], things: Sequence[CatalogObject]
) -> list[Dismissal]:
    """Read the statements that end references, without those that no right suffices for."""
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    parameters = {
        **_things(things),
        "roles": list(roles),
        "ours": GIVEN_UP.partition(" once")[0],
    }
    return [
        Dismissal(CatalogObject(catalog, thing), statement, Granting(oid, name), able)
        for catalog, thing, statement, oid, name, able in await session.rows(
            _DISMISSING[newer], parameters
        )
    ]


async def name_references(session: Session, things: Sequence[CatalogObject]) -> list[str]:
    """Read references in words."""
    return [text for (text,) in await session.rows(_IN_WORDS, _things(things))]


def _things(things: Sequence[CatalogObject]) -> dict[str, list[int]]:
    return {
        "catalogs": [thing.catalog for thing in things],
        "oids": [thing.oid for thing in things],
    }
