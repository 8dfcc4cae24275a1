"""Reads the catalogs, in a number of statements that does not grow with that of the objects.

https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION, Around, GroupFacts
from fairlead.postgres.database.plans.snapshot import (
    CLAIM_PATTERN,
    GROUP_PATTERN,
    DatabaseFacts,
    Intruder,
    Membership,
    RoleFacts,
    ServerFacts,
    Snapshot,
    parse_claim,
    parse_group,
    parse_note,
)


_SERVER = sql.SQL("""
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

_SETTINGS_BYTES = 160 << 10
"""That a role's settings may have together; spec.attributes.config takes less.

A login may give itself settings of any size, and those of all roles are read together. What is
larger is not even unpacked: the first look is at what it takes on the server's disk.
"""
_VERIFIER_CHARACTERS = 1000
"""Of a verifier, whose salt may be as long as its login likes; ours is much shorter."""

_ROLES = """
SELECT r.oid::int8, r.rolname::text, r.rolcanlogin, r.rolsuper, r.rolcreaterole,
       r.rolreplication, r.rolbypassrls, d.description, {verifier},
       r.rolinherit, r.rolconnlimit,
       CASE WHEN r.rolvaliduntil IS NULL THEN ''
            WHEN r.rolvaliduntil = 'infinity' THEN 'infinity'
            ELSE pg_catalog.to_char(r.rolvaliduntil AT TIME ZONE 'UTC',
                                    'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       CASE WHEN s.size <= %(bytes)s THEN s.settings END, s.setrole IS NOT NULL,
       COALESCE(e.turned, ARRAY[]::text[]), COALESCE(e.overfull, ARRAY[]::text[])
  FROM {roles} r
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
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
_READING = {
    True: (
        """CASE WHEN %(whole)s AND r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
            THEN pg_catalog.left(r.rolpassword, %(characters)s) END""",
        "pg_catalog.pg_authid",
    ),
    False: ("NULL::text", "pg_catalog.pg_roles"),
}
# Since PostgreSQL 16 some members may make others members, and have nothing of it themselves.
_HAVING = {True: "AND (m.inherit_option OR m.set_option)", False: ""}
_ROLES_QUERIES = {
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
# Who makes a role, and is no superuser, may make others its members since PostgreSQL 16.
_BY_MAKING = """AND NOT (m.grantor = 10 AND m.admin_option AND NOT m.inherit_option
                          AND NOT m.set_option)"""
# Until then a membership is one row, whoever granted it, which is told with the member itself.
_BY_OTHERS = "OR (m.admin_option AND NOT COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'), false))"
_GROUPS_15 = sql.SQL(_GROUPS.format(options="true, true", made="", lets_in=""))
_GROUPS_16 = sql.SQL(
    _GROUPS.format(options="m.inherit_option, m.set_option", made=_BY_MAKING, lets_in=_BY_OTHERS)
)

POWERFUL = sql.SQL("""(s.rolsuper OR s.rolcreaterole OR s.rolreplication OR s.rolbypassrls
                       -- Whoever may run programs or write files there, may do anything.
                       OR s.rolname IN ('pg_execute_server_program', 'pg_write_server_files',
                                        'pg_read_server_files'))""")
"""Whether role ``s`` has powers over others, or over the server."""

_GROUP_FACTS = sql.SQL("""
SELECT g.rolname::text,
       EXISTS (SELECT FROM pg_catalog.pg_roles s
                WHERE {} AND pg_catalog.pg_has_role(g.oid, s.oid, 'MEMBER'))
  FROM pg_catalog.pg_roles g
 WHERE g.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
""").format(POWERFUL)

_RESERVED = sql.SQL("""
SELECT pg_catalog.lower(s.name)
  FROM pg_catalog.pg_settings s
 WHERE s.context <> 'user' AND pg_catalog.lower(s.name) = ANY (%(names)s::text[])
""")

_DEPENDENTS = sql.SQL("""
SELECT r.oid::int8, x.database::int8, x.itself, x.seen::int8
  FROM pg_catalog.unnest(%(roles)s::oid[]) AS r(oid)
 CROSS JOIN LATERAL (
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
        GROUP BY 1, 2) x
""")

_DATABASES = sql.SQL("""
SELECT d.oid::int8, d.datname::text, d.datallowconn, d.datdba::int8,
       -- Not aclexplode, for an ACL may have thousands of entries.
       ARRAY(SELECT p.privilege
               FROM pg_catalog.unnest(ARRAY['CREATE', 'TEMPORARY', 'CONNECT']) AS p(privilege)
              WHERE pg_catalog.has_database_privilege('public', d.oid, p.privilege))
  FROM pg_catalog.pg_database d
 WHERE d.datname = ANY (%(names)s::text[]::pg_catalog.name[])
    OR d.oid = ANY (%(databases)s::oid[])
""")

_HELD = sql.SQL("""
SELECT d.datname::text, a.grantee::int8, a.privilege_type, pg_catalog.bool_or(a.is_grantable)
  FROM pg_catalog.pg_database d
 -- It unpacks an ACL that is stored compressed anew for each entry; that of || is not.
 CROSS JOIN LATERAL pg_catalog.aclexplode(
            CASE WHEN d.datacl IS NOT NULL THEN d.datacl || '{}'::pg_catalog.aclitem[] END) a
  JOIN pg_catalog.unnest(%(roles)s::oid[]) AS r(oid) ON r.oid = a.grantee
 WHERE a.grantee <> d.datdba
   -- Whoever is in an ACL is among the dependents too, but for roles that initdb made.
   AND (d.oid = ANY (%(databases)s::oid[])
        OR EXISTS (SELECT FROM pg_catalog.unnest(%(roles)s::oid[]) AS i(oid)
                    WHERE i.oid < 16384))
 GROUP BY 1, 2, 3
""")

_LOGINS = sql.SQL("""
SELECT r.rolname::text FROM pg_catalog.pg_roles r
 WHERE r.rolcanlogin OR EXISTS (
       SELECT FROM pg_catalog.pg_shdescription d
        WHERE d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
          AND (d.description LIKE %(pattern)s OR d.description LIKE %(groups)s))
 ORDER BY 1
 LIMIT %(limit)s
""")
CROWD = 50_000
"""Objects and privileges of a role that are looked at in work for many: a login may have millions.

To see that there are more takes some milliseconds.
"""
MAX_LOGINS = 10_000
"""Roles that are read at once where all are asked for."""

_BOOTSTRAP_SUPERUSER = 10
"""The oid of the role that initdb made, in whose name every superuser grants memberships."""
_POWERS = ("SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS")


async def read_server(session: Session) -> ServerFacts:
    """Version, identity and what this session may read."""
    ((version, text, identifier, admin, oid, superuser, reads, seconds),) = await session.rows(
        _SERVER
    )
    return ServerFacts(
        version=version,
        version_text=text,
        system_identifier=identifier,
        admin=admin,
        admin_oid=oid,
        superuser=superuser,
        reads_verifiers=reads,
        now=datetime.fromtimestamp(seconds, UTC),
    )


async def read_snapshot(
    session: Session,
    usernames: Collection[str],
    installation: str,
    *,
    databases: Collection[str] = (),
    groups: Collection[str] = (),
    claims: bool = False,
    whole: bool = True,
    most: int | None = None,
) -> Snapshot:
    """What is known of roles and databases, in six statements however many there are.

    Args:
        session: in any database.
        usernames: of the roles; those that do not exist are missing in the answer.
        installation: whose claims are asked for.
        databases: that are asked for, beside those in which the roles have something.
        groups: of ours that are asked for too.
        claims: whether to read the claims of all roles.
        whole: whether to read also what tenants have any amount of: settings, verifiers, and where
            roles have something. Without that the answer has nothing whose size they choose.
        most: objects and privileges of one role that are looked at; who has more is ``crowded``.
    """
    server = await read_server(session)
    query = _ROLES_QUERIES[server.reads_verifiers, server.version >= GRANT_OPTIONS_VERSION]
    asked = frozenset((*usernames, *groups))
    parameters = {
        "names": sorted(asked),
        "claims": claims,
        "pattern": CLAIM_PATTERN,
        "groups": GROUP_PATTERN,
        "admin": server.admin_oid,
        "whole": whole,
        "bytes": _SETTINGS_BYTES,
        "characters": _VERIFIER_CHARACTERS,
    }
    rows = await session.rows(query, parameters)
    oids = [row[0] for row in rows if row[1] in asked]
    of_groups = [row[0] for row in rows if row[1] in groups]
    memberships, intruders = await _read_groups(session, server, oids, of_groups)
    found = [_role(row, memberships.get(row[0], {})) for row in rows]
    shared = {role.name: role.group for role in found if role.group is not None}
    joined = {name for some in memberships.values() for name in some}
    # Of no role there is nothing to be asked.
    depending, known = _NOTHING, dict[int, DatabaseFacts]()
    if whole:
        depending = await _read_depending(session, oids, most)
        known = await _read_databases(session, depending, databases)
    return Snapshot(
        server=server,
        roles={role.name: role for role in found if role.name in asked},
        databases={one.name: one for one in known.values()},
        dependents={
            role: frozenset(known[oid].name for oid in oids_ if oid in known)
            for role, oids_ in depending.inside.items()
        },
        held=await _read_held(session, oids, depending.on) if whole else {},
        crowded=frozenset(role.name for role in found if role.oid in depending.crowds),
        claimed={
            role.name: role.claim
            for role in found
            if role.claim is not None and role.claim.installation == installation
        },
        groups=shared,
        deserted=frozenset(
            name
            for name, group in shared.items()
            if name not in asked and name not in joined and group.installation == installation
        ),
        intruders=intruders,
    )


async def read_logins(session: Session) -> tuple[list[str], bool]:
    """The names of roles that may log in, carry a claim or are groups; and if there are more."""
    parameters = {
        "pattern": CLAIM_PATTERN,
        "groups": GROUP_PATTERN,
        "limit": MAX_LOGINS + 1,
    }
    found = [name for (name,) in await session.rows(_LOGINS, parameters)]
    return found[:MAX_LOGINS], len(found) > MAX_LOGINS


async def read_around(
    session: Session, groups: Collection[str], parameters: Collection[str] = ()
) -> Around:
    """What is known of roles as groups, of which those that do not exist are missing.

    And which of the parameters, in lower case, are reserved.
    """
    known: dict[str, GroupFacts] = {}
    if groups:
        rows = await session.rows(_GROUP_FACTS, {"names": sorted(groups)})
        known = {name: GroupFacts(powerful=powerful) for name, powerful in rows}
    reserved: frozenset[str] = frozenset()
    if parameters:
        rows = await session.rows(_RESERVED, {"names": sorted(parameters)})
        reserved = frozenset(name for (name,) in rows)
    return Around(groups=known, reserved=reserved)


async def _read_groups(
    session: Session, server: ServerFacts, roles: Sequence[int], asked: Sequence[int]
) -> tuple[dict[int, dict[str, Membership]], dict[str, tuple[Intruder, ...]]]:
    groups: dict[int, dict[str, Membership]] = {}
    intruders: dict[str, tuple[Intruder, ...]] = {}
    parameters = {
        "roles": roles,
        "groups": asked,
        "admin": server.admin_oid,
        "ours": CLAIM_PATTERN.partition(":")[0],
    }
    query = _GROUPS_16 if server.version >= GRANT_OPTIONS_VERSION else _GROUPS_15
    rows = await session.rows(query, parameters)
    for member, name, admin, inherit, set_, by, grantor, usable, intruder in rows:
        # A superuser has the privileges of all, but never grants in the name of others.
        own = server.version < GRANT_OPTIONS_VERSION or (
            by in {server.admin_oid, _BOOTSTRAP_SUPERUSER} if server.superuser else usable
        )
        if intruder:
            found = Intruder(name=intruder, grantor=grantor, by_admin=own or server.superuser)
            intruders[name] = (*intruders.get(name, ()), found)
            continue
        known = groups.setdefault(member, {})
        # Of several grantors' rows only that of the administrator can be changed by it.
        if own or name not in known:
            known[name] = Membership(
                inherit=inherit, set=set_, admin=admin, by_admin=own, grantor=grantor
            )
    return groups, intruders


class _Depending(NamedTuple):
    """Databases by oid in which roles have something, and those on which they do themselves.

    ``crowds`` are oids of roles that have more than was asked for.
    """

    inside: Mapping[int, frozenset[int]]
    on: frozenset[int]
    crowds: frozenset[int]


_NOTHING = _Depending({}, frozenset(), frozenset())


async def _read_depending(session: Session, oids: Collection[int], most: int | None) -> _Depending:
    seen: Counter[int] = Counter()
    inside: dict[int, set[int]] = {}
    on: set[int] = set()
    parameters = {"roles": oids, "most": None if most is None else most + 1}
    for role, database, itself, number in await session.rows(_DEPENDENTS, parameters):
        seen[role] += number
        if itself:
            on.add(database)
        else:
            inside.setdefault(role, set()).add(database)
    return _Depending(
        inside={role: frozenset(found) for role, found in inside.items()},
        on=frozenset(on),
        crowds=frozenset(role for role in seen if most is not None and seen[role] > most),
    )


async def _read_databases(
    session: Session, depending: _Depending, databases: Collection[str]
) -> dict[int, DatabaseFacts]:
    oids = depending.on.union(*depending.inside.values())
    parameters = {"databases": sorted(oids), "names": sorted(databases)}
    return {
        oid: DatabaseFacts(
            name=name, connectable=connectable, owner=owner, public=frozenset(public)
        )
        for oid, name, connectable, owner, public in await session.rows(_DATABASES, parameters)
    }


async def _read_held(
    session: Session, oids: Collection[int], databases: Collection[int]
) -> dict[int, dict[str, dict[str, bool]]]:
    held: dict[int, dict[str, dict[str, bool]]] = {}
    parameters = {"roles": oids, "databases": sorted(databases)}
    for name, role, privilege, grantable in await session.rows(_HELD, parameters):
        held.setdefault(role, {}).setdefault(name, {})[privilege] = grantable
    return held


def _role(row: Sequence[Any], groups: Mapping[str, Membership]) -> RoleFacts:
    oid, name, login, *powers, comment, verifier, inherit, limit, until = row[:-4]
    config, has_settings, turned, overfull = row[-4:]
    return RoleFacts(
        oid=oid,
        name=name,
        login=login,
        powers=frozenset(power for power, has in zip(_POWERS, powers, strict=True) if has),
        comment=comment,
        claim=parse_claim(comment),
        note=parse_note(comment),
        verifier=verifier,
        inherit=inherit,
        connection_limit=limit,
        valid_until="" if until == "infinity" else until,
        config=dict(one.split("=", 1) for one in config or ()),
        turned_in=tuple(turned),
        overfull=has_settings and config is None,
        overfull_in=tuple(overfull),
        groups=groups,
        group=parse_group(comment),
    )
