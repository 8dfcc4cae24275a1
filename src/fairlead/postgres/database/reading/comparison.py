"""Compares what many roles shall have in one database with what they have, in one statement.

Only the differences come back, so what is in order costs nothing but the reading. Objects with the
same owner and ACL are looked at once, which is what keeps this cheap: tables of a schema that were
granted together have one ACL, however many they and the roles are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import GrantsPolicy
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.differences import (
    PRIVILEGES,
    Difference,
    Item,
    Level,
    Objects,
)
from fairlead.postgres.database.plans.targets import DatabaseGrants, Target, parse


MAX_DIFFERENCES = 100_000
"""That one reading gives back: each is a privilege of one role on objects with the same ACL.

Roles take turns, so that one with very many keeps nobody from theirs."""
MAX_OBJECTS = 10_000
"""Of the same owner and ACL that one reading names."""


class RoleGrants(msgspec.Struct, frozen=True, kw_only=True):
    """One role, and what it shall have in the database.

    A role that has another oid or another name by now is left alone. With ``policy`` Additive only
    what ``ledger`` names is ever revoked: lines of
    :meth:`~fairlead.postgres.database.plans.grants.Desired.describe`, of this database or of any.
    One that is ``unborn`` is yet to be made: its oid is nobody's, see :func:`unborn_oid`.
    """

    oid: int
    username: str
    unborn: bool = False
    grants: DatabaseGrants = DatabaseGrants()
    policy: GrantsPolicy = "Authoritative"
    ledger: frozenset[str] = frozenset()


def unborn_oid(number: int) -> int:
    """An oid for a role that is yet to be made; servers count from the other end."""
    return 2**32 - 1 - number


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """What the grants of a role name and the database has not; ``schema``: not even its schema."""

    target: Target
    schema: bool


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read; the maps are from usernames, and those without anything are not in them.

    ``gone`` are roles that are not there any more, ``cut`` those that may have more differences
    than one reading gives back.
    """

    differences: Mapping[str, Sequence[Difference]] = {}
    absent: Mapping[str, Sequence[Absence]] = {}
    gone: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()

    def possible(self) -> int:
        """How many differences the administrator has the right to settle."""
        return sum(one.possible for found in self.differences.values() for one in found)


_DIFFERENCES = sql.SQL("""
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
), object AS MATERIALIZED (
  SELECT 'schema' AS level, n.oid AS namespace, n.oid, 0::int2 AS column, n.nspowner AS owner,
         n.nspacl AS acl, ''::name AS name, ''::name AS part
    FROM pg_catalog.pg_namespace n
   WHERE n.nspacl IS NOT NULL OR n.oid IN (SELECT a.namespace FROM asked a)
  UNION ALL
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relnamespace, c.oid, 0,
         c.relowner, c.relacl, c.relname, ''
    FROM pg_catalog.pg_class c
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
     AND (c.relacl IS NOT NULL OR c.relnamespace IN (SELECT a.namespace FROM asked a))
  UNION ALL
  SELECT 'column', c.relnamespace, c.oid, a.attnum, c.relowner, a.attacl, c.relname, a.attname
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
   WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND c.relpersistence <> 't'
  UNION ALL
  SELECT DISTINCT 'column', c.relnamespace, c.oid, a.attnum, c.relowner, NULL::aclitem[],
         c.relname, a.attname
    FROM asked t
    JOIN pg_catalog.pg_class c ON c.relnamespace = t.namespace AND c.relname = t.name
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = t.part
   WHERE t.level = 'column' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
     AND a.attacl IS NULL AND NOT a.attisdropped
  UNION ALL
  SELECT 'routine', p.pronamespace, p.oid, 0, p.proowner, p.proacl, p.proname, ''
    FROM pg_catalog.pg_proc p
   WHERE (p.proacl IS NOT NULL
          OR p.pronamespace IN (SELECT a.namespace FROM asked a WHERE a.level = 'routine'))
     -- What makes values of a range type is always the first superuser's, whoever made the type.
     AND NOT (p.proowner = 10 AND EXISTS (
           SELECT FROM pg_catalog.pg_depend e
            WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid
              AND e.deptype = 'i'))
  UNION ALL
  SELECT 'type', t.typnamespace, t.oid, 0, t.typowner, t.typacl, t.typname, ''
    FROM pg_catalog.pg_type t
   WHERE t.typacl IS NOT NULL
      OR (t.typnamespace IN (SELECT a.namespace FROM asked a WHERE a.level = 'type')
          AND t.typisdefined AND t.typtype <> 'm'
          AND t.typsubscript <> 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
          AND (t.typrelid = 0 OR EXISTS (SELECT FROM pg_catalog.pg_class c
                                          WHERE c.oid = t.typrelid AND c.relkind = 'c')))
  UNION ALL
  SELECT CASE f.defaclobjtype WHEN 'r' THEN 'future table' WHEN 'S' THEN 'future sequence'
                              WHEN 'f' THEN 'future routine' WHEN 'T' THEN 'future type'
                              WHEN 'n' THEN 'future schema' WHEN 'L' THEN 'future large object'
         END,
         f.defaclnamespace, f.defaclrole, 0, f.defaclrole, f.defaclacl, r.rolname, ''
    FROM pg_catalog.pg_default_acl f
    JOIN pg_catalog.pg_roles r ON r.oid = f.defaclrole
  UNION ALL
  SELECT DISTINCT a.level, a.namespace, a.creator, 0, a.creator, NULL::aclitem[], r.rolname, ''
    FROM asked a
    JOIN pg_catalog.pg_roles r ON r.oid = a.creator
   WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_default_acl f
                      WHERE f.defaclrole = a.creator AND f.defaclnamespace = a.namespace
                        AND f.defaclobjtype = CASE a.level WHEN 'future table' THEN 'r'
                                                           WHEN 'future sequence' THEN 'S'
                                                           WHEN 'future routine' THEN 'f'
                                                           ELSE 'T' END)
), named AS MATERIALIZED (
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
), alike AS MATERIALIZED (
  -- Objects that have the same ACL differ in the same way: each ACL is looked at once.
  SELECT pg_catalog.row_number() OVER () AS id, g.*
    FROM (SELECT o.level, o.namespace, o.owner, o.acl, n.oid IS NOT NULL AS single,
                 pg_catalog.min(o.oid) AS sample, pg_catalog.min(o.column) AS column,
                 pg_catalog.array_agg(o.oid::int8) AS oids,
                 pg_catalog.array_agg(o.name::text) AS names,
                 pg_catalog.min(o.part::text) AS part
            FROM object o
            LEFT JOIN (SELECT DISTINCT n.level, n.namespace, n.oid, n.column FROM named n) n
              ON n.level = o.level AND n.namespace = o.namespace AND n.oid = o.oid
             AND n.column = o.column
           GROUP BY o.level, o.namespace, o.owner, o.acl, n.oid, n.column,
                    CASE o.level WHEN 'column' THEN o.oid END,
                    CASE o.level WHEN 'column' THEN o.column END) g
), reached AS MATERIALIZED (
  SELECT g.id, g.owner, a.id AS target
    FROM alike g
    JOIN asked a ON a.level = g.level AND a.namespace = g.namespace
   WHERE a.name = '' AND a.creator IS NULL
  UNION ALL
  SELECT g.id, g.owner, n.id
    FROM alike g
    JOIN named n ON n.level = g.level AND n.namespace = g.namespace AND n.oid = g.sample
                AND n.column = g.column
   WHERE g.single
), want AS MATERIALIZED (
  SELECT r.id, m.role, a.privilege, pg_catalog.bool_or(a.passed_on) AS passed_on
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
              CASE WHEN g.acl IS NOT NULL THEN g.acl || '{}'::pg_catalog.aclitem[] END) e
   WHERE e.grantee <> g.owner
), have AS MATERIALIZED (
  SELECT e.id, m.role, m.strict, e.privilege, e.passed_on, e.grantor
    FROM entry e
    JOIN member m ON m.role = e.grantee
), found AS (
  SELECT 'grant' AS action, w.id, w.role, w.privilege, w.passed_on AS option, 0::oid AS grantor
    FROM want w
   WHERE NOT EXISTS (SELECT FROM have h
                      WHERE h.id = w.id AND h.role = w.role AND h.privilege = w.privilege
                        AND h.passed_on >= w.passed_on)
  UNION ALL
  SELECT CASE WHEN w.id IS NULL THEN 'revoke' ELSE 'revoke option' END, h.id, h.role, h.privilege,
         h.passed_on, h.grantor
    FROM have h
    LEFT JOIN want w ON w.id = h.id AND w.role = h.role AND w.privilege = h.privilege
   WHERE (w.id IS NULL OR h.passed_on > w.passed_on)
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
              ELSE CASE g.level
                WHEN 'schema' THEN pg_catalog.has_schema_privilege(
                  g.sample, d.privilege || ' WITH GRANT OPTION')
                WHEN 'table' THEN pg_catalog.has_table_privilege(
                  g.sample, d.privilege || ' WITH GRANT OPTION')
                WHEN 'column' THEN pg_catalog.has_column_privilege(
                  g.sample, g.column::int2, d.privilege || ' WITH GRANT OPTION')
                WHEN 'sequence' THEN pg_catalog.has_sequence_privilege(
                  g.sample, d.privilege || ' WITH GRANT OPTION')
                WHEN 'routine' THEN pg_catalog.has_function_privilege(
                  g.sample, d.privilege || ' WITH GRANT OPTION')
                WHEN 'type' THEN pg_catalog.has_type_privilege(
                  g.sample, d.privilege || ' WITH GRANT OPTION')
                ELSE false END
         END AS possible
    FROM difference d
    JOIN (SELECT g.id, g.level, g.owner, g.sample, g.column,
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
       d.roles, d.actions, d.privileges, d.options, d.grantors, d.possible
  FROM (SELECT p.id, pg_catalog.array_agg(p.action) AS actions,
               pg_catalog.array_agg(p.role::int8) AS roles,
               pg_catalog.array_agg(p.privilege) AS privileges,
               pg_catalog.array_agg(p.option) AS options,
               pg_catalog.array_agg(COALESCE(o.rolname, '')::text) AS grantors,
               pg_catalog.array_agg(COALESCE(p.possible, false)) AS possible
          FROM possible p
          LEFT JOIN pg_catalog.pg_roles o ON o.oid = p.grantor
         GROUP BY 1) d
  JOIN alike g ON g.id = d.id
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = g.namespace
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.owner
UNION ALL
SELECT 'gone', '', '', NULL, NULL, 0, '', NULL, NULL, pg_catalog.array_agg(m.username::text),
       NULL, NULL, NULL
  FROM ROWS FROM (pg_catalog.unnest(%(roles)s::oid[]), pg_catalog.unnest(%(usernames)s::name[]))
       AS m(role, username)
 WHERE NOT EXISTS (SELECT FROM member k WHERE k.role = m.role)
HAVING pg_catalog.count(*) > 0
UNION ALL
SELECT 'absent', '', '', NULL, NULL, 0, '', pg_catalog.array_agg(a.id::int8), NULL, NULL,
       pg_catalog.array_agg(a.namespace IS NULL), NULL, NULL
  FROM asked a
 WHERE a.namespace IS NULL
    OR (a.level LIKE 'future %%' AND a.creator IS NULL)
    OR (a.name <> '' AND a.creator IS NULL AND NOT EXISTS (SELECT FROM named n WHERE n.id = a.id))
HAVING pg_catalog.count(*) > 0
""")


async def read_differences(
    session: Session, database: str, wanted: Sequence[RoleGrants]
) -> Reading:
    """What separates the roles' direct privileges in this database from those wanted.

    One statement, whatever the number of roles. Objects that a role owns are left alone: an
    owner's privileges are inherent. All tables of a schema are in order when none lacks anything,
    so an empty schema is. What PUBLIC has is nobody's.

    Args:
        session: in that database.
        database: its name, for the ledgers.
        wanted: the roles, each once.

    Raises:
        psycopg.Error: a DataError where a name cannot be written in the database's encoding.
    """
    if not wanted:
        return Reading()
    asked = _Asked(database, wanted)
    # https://www.postgresql.org/docs/release/16.0/: until then, members without INHERIT could.
    future = "MEMBER" if session.server_version < 160000 else "USAGE"
    rows = await session.rows(_DIFFERENCES, asked.parameters() | {"membership": future})
    return _reading(rows, asked)


_Flat = frozenset[tuple[Target, str, bool]]


class _Asked:
    """What is sent: roles that ask for the same have one shape, which is sent once."""

    def __init__(self, database: str, wanted: Sequence[RoleGrants]) -> None:
        self.wanted = wanted
        self._targets: dict[Target, int] = {}
        self._shapes: dict[tuple[_Flat, _Flat], int] = {}
        self._of_role: list[int] = []
        self._atoms: list[tuple[int, int, str, bool, bool]] = []
        for role in wanted:
            additive = role.policy == "Additive"
            known = _parsed(database, role.ledger) if additive else DatabaseGrants()
            self._of_role.append(self._shape((_flat(role.grants), _flat(known))))

    def _shape(self, flat: tuple[_Flat, _Flat]) -> int:
        shape = self._shapes.get(flat)
        if shape is None:
            shape = self._shapes[flat] = len(self._shapes)
            for known, privileges in zip((False, True), flat, strict=True):
                for target, name, passed_on in privileges:
                    number = self._targets.setdefault(target, len(self._targets) + 1)
                    self._atoms.append((shape, number, name, passed_on, known))
        return shape

    def parameters(self) -> dict[str, object]:
        shapes, numbers, privileges, passed_on, known = _columns(self._atoms, 5)
        levels, schemas, names, columns, arguments = _columns(self._targets, 5)
        return {
            "shapes": self._of_role,
            "roles": [role.oid for role in self.wanted],
            "usernames": [role.username for role in self.wanted],
            "unborn": [role.oid for role in self.wanted if role.unborn],
            "strict": [role.policy == "Authoritative" for role in self.wanted],
            "atom_shapes": shapes,
            "atom_targets": numbers,
            "privileges": privileges,
            "passed_on": passed_on,
            "known": known,
            "levels": levels,
            "schemas": schemas,
            "names": names,
            "columns": columns,
            "arguments": arguments,
            "limit": MAX_DIFFERENCES,
            "objects": MAX_OBJECTS,
        }

    def absences(self, schemas: Mapping[int, bool]) -> dict[str, list[Absence]]:
        """Who asks for what is absent; the map is from targets to whether the schema is."""
        of_shape: dict[int, set[int]] = {}
        for shape, number, _, _, known in self._atoms:
            if number in schemas and not known:
                of_shape.setdefault(shape, set()).add(number)
        targets = list(self._targets)
        return {
            role.username: [
                Absence(target=targets[number - 1], schema=schemas[number])
                for number in sorted(of_shape[shape])
            ]
            for role, shape in zip(self.wanted, self._of_role, strict=True)
            if shape in of_shape
        }


def _flat(grants: DatabaseGrants) -> _Flat:
    return frozenset(
        (target, name, passed_on)
        for target, privileges in grants.objects.items()
        for name, passed_on in privileges.items()
    )


@lru_cache(maxsize=4096)
def _parsed(database: str, ledger: frozenset[str]) -> DatabaseGrants:
    return parse(database, ledger)


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _reading(rows: Iterable[Sequence[Any]], asked: _Asked) -> Reading:
    usernames = {role.oid: role.username for role in asked.wanted}
    differences: dict[str, list[Difference]] = {}
    absent: dict[str, list[Absence]] = {}
    gone: frozenset[str] = frozenset()
    cut: set[str] = set()
    total = 0
    for *about, roles, actions, privileges, options, grantors, possible in rows:
        if about[0] == "gone":
            gone = frozenset(privileges)
        elif about[0] == "absent":
            absent = asked.absences(dict(zip(roles, options, strict=True)))
        else:
            objects = _objects(*about)
            if objects.total > len(objects.items):
                cut.update(usernames[role] for role in roles)
            total += len(roles)
            values = zip(actions, privileges, options, grantors, possible, strict=True)
            for role, one in zip(roles, _shared(objects, values), strict=True):
                if one is not None:
                    differences.setdefault(usernames[role], []).append(one)
    if total >= MAX_DIFFERENCES:
        # They come in turns, so that those cut off are those that have the most.
        most = max(map(len, differences.values()), default=0)
        cut.update(name for name, some in differences.items() if len(some) >= most - 1)
    return Reading(differences=differences, absent=absent, gone=gone, cut=frozenset(cut))


def _objects(
    level: Level,
    schema: str,
    part: str,
    names: Sequence[str],
    arguments: Sequence[Sequence[Sequence[str]]] | None,
    total: int,
    owner: str,
) -> Objects:
    if level == "schema":
        return Objects(level=level, items=(Item(schema),), owner=owner, total=total)
    if level == "column":
        items = [Item(schema, part)]
    elif arguments is None:
        items = [Item(schema, name) for name in names]
    else:
        items = [
            Item(schema, name, tuple((namespace, type_) for namespace, type_ in types))
            for name, types in zip(names, arguments, strict=True)
        ]
    return Objects(
        level=level,
        items=tuple(sorted(items)),
        owner=owner,
        table=names[0] if level == "column" else "",
        total=total,
    )


def _shared(objects: Objects, values: Iterable[tuple[Any, ...]]) -> Iterator[Difference | None]:
    """One difference for all roles that have it; none for a privilege that is newer than we."""
    made: dict[tuple[Any, ...], Difference] = {}
    for value in values:
        action, privilege, option, grantor, possible = value
        if privilege not in PRIVILEGES:
            yield None
            continue
        if value not in made:
            made[value] = Difference(
                action=action,
                objects=objects,
                privilege=privilege,
                option=option,
                grantor=grantor,
                possible=possible,
            )
        yield made[value]
