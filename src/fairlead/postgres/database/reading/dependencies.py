"""Reads the objects that depend on a role in all databases, and decides about its removal.

pg_shdepend is shared: it lists owned objects and privileges of all databases. Default privileges
are not data, though their role owns them. A subscription is a shared object there, though it
belongs to a database (https://www.postgresql.org/docs/current/catalog-pg-subscription.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.snapshot import RoleClaim, parse_claim, parse_group
from fairlead.postgres.database.reading.catalog_query import POWERFUL
from fairlead.postgres.database.reading.strangers import Left
from fairlead.postgres.errors import AccessError


class Dependent(msgspec.Struct, frozen=True, kw_only=True):
    """One database with objects or privileges of the role.

    ``owned`` counts its objects, ``subscriptions`` those that neither REASSIGN OWNED nor DROP
    OWNED may change, ``references`` at least those that ``references`` reads.
    """

    database: str
    connectable: bool
    owned: int
    subscriptions: int = 0
    references: int = 0


class RoleDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Databases, and owned shared objects in words; ``cut`` says that there may be more."""

    databases: tuple[Dependent, ...] = ()
    shared: tuple[str, ...] = ()
    cut: bool = False


# Default privileges are recorded as if their role owned them. DROP OWNED removes them, so they
# are not counted.
_DATABASES = sql.SQL("""
WITH dependent AS MATERIALIZED (
  SELECT s.dbid, pg_catalog.count(*) AS seen,
         pg_catalog.count(*) FILTER (
           WHERE s.deptype = 'o'
             AND s.classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass) AS owned,
         pg_catalog.count(*) FILTER (
           WHERE s.deptype = 'r' OR s.objsubid <> 0
              OR s.classid IN ('pg_catalog.pg_default_acl'::pg_catalog.regclass,
                               'pg_catalog.pg_user_mapping'::pg_catalog.regclass)) AS named
    FROM (SELECT s.dbid, s.deptype, s.classid, s.objsubid
            FROM pg_catalog.pg_shdepend s
           WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
             AND s.refobjid = %(role)s::oid
           LIMIT %(most)s::int8) s
   GROUP BY 1
), subscribed AS MATERIALIZED (
  SELECT u.subdbid, pg_catalog.count(*) AS owned
    FROM pg_catalog.pg_subscription u
   WHERE u.subowner = %(role)s::oid
   GROUP BY 1
)
SELECT d.datname::text, d.datallowconn, COALESCE(t.owned, 0) + COALESCE(u.owned, 0),
       COALESCE(u.owned, 0), COALESCE(t.named, 0),
       (SELECT pg_catalog.sum(x.seen) FROM dependent x)::int8
  FROM pg_catalog.pg_database d
  LEFT JOIN dependent t ON t.dbid = d.oid
  LEFT JOIN subscribed u ON u.subdbid = d.oid
 WHERE t.dbid IS NOT NULL OR u.subdbid IS NOT NULL
 ORDER BY 1
""")

# DROP OWNED drops neither databases nor tablespaces, and REASSIGN OWNED would give them to the
# heir (https://www.postgresql.org/docs/current/role-removal.html).
_SHARED = sql.SQL("""
SELECT 'database ' || d.datname::text FROM pg_catalog.pg_database d WHERE d.datdba = %(role)s::oid
UNION ALL
SELECT 'tablespace ' || t.spcname::text
  FROM pg_catalog.pg_tablespace t WHERE t.spcowner = %(role)s::oid
ORDER BY 1
""")

# The last limit is one more than a message names, so that it can say that there are more. A login
# may own millions of large objects, and each identity takes a look at its own row.
_OWNED = sql.SQL("""
SELECT pg_catalog.left(i.type || ' ' || i.identity, 300)
  FROM ((SELECT s.classid, s.objid, s.objsubid
           FROM pg_catalog.pg_shdepend s
          WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d
                           WHERE d.datname = pg_catalog.current_database())
            AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
            AND s.refobjid = %(role)s::oid
            AND s.deptype = 'o'
            AND s.classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass
          LIMIT 200)
         UNION ALL
        (SELECT 'pg_catalog.pg_subscription'::pg_catalog.regclass, u.oid, 0
           FROM pg_catalog.pg_subscription u
           JOIN pg_catalog.pg_database d ON d.oid = u.subdbid
          WHERE d.datname = pg_catalog.current_database() AND u.subowner = %(role)s::oid
          LIMIT 200)) s
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(s.classid, s.objid, s.objsubid) i
 ORDER BY 1
 LIMIT 4
""")

_SUBSCRIPTIONS = sql.SQL("""
SELECT u.subname::text
  FROM pg_catalog.pg_subscription u
  JOIN pg_catalog.pg_database d ON d.oid = u.subdbid
 WHERE d.datname = pg_catalog.current_database() AND u.subowner = %(role)s::oid
 ORDER BY 1
""")

_HEIR = sql.SQL("""
SELECT o.rolname::text,
       EXISTS (SELECT FROM pg_catalog.pg_roles s
                WHERE {} AND pg_catalog.pg_has_role(o.oid, s.oid, 'MEMBER')),
       pg_catalog.shobj_description(o.oid, 'pg_authid')
  FROM pg_catalog.pg_database d
  JOIN pg_catalog.pg_roles o
    ON CASE WHEN %(name)s::text = '' THEN o.oid = d.datdba
            ELSE o.rolname = %(name)s::text::pg_catalog.name END
 WHERE d.datname = pg_catalog.current_database()
""").format(POWERFUL)

_OWNER = sql.SQL("""
SELECT o.rolname::text,
       EXISTS (SELECT FROM pg_catalog.pg_roles s
                WHERE {} AND pg_catalog.pg_has_role(o.oid, s.oid, 'MEMBER'))
  FROM pg_catalog.pg_database d
  JOIN pg_catalog.pg_roles o ON o.oid = d.datdba
 WHERE d.datname = %(database)s::text::pg_catalog.name
""").format(POWERFUL)

_POWERS = "is a superuser, has powers over roles or the server, or is a member of such a role"
_TAKEN = "belongs to another PostgresAccess, or is a group"


async def read_dependencies(
    session: Session, role: int, *, most: int | None = None
) -> RoleDependencies:
    """Read the databases and shared objects that depend on the role, in two statements.

    ``most`` limits the objects and privileges that are counted.
    """
    databases = await session.rows(_DATABASES, {"role": role, "most": most})
    shared = await session.rows(_SHARED, {"role": role})
    return RoleDependencies(
        databases=tuple(
            Dependent(
                database=name,
                connectable=connectable,
                owned=owned,
                subscriptions=subscriptions,
                references=references,
            )
            for name, connectable, owned, subscriptions, references, _ in databases
        ),
        shared=tuple(text for (text,) in shared),
        cut=most is not None and any((count or 0) >= most for *_, count in databases),
    )


async def read_owned(session: Session, role: int) -> list[str]:
    """Read a few of the objects that the role owns in this database, in words."""
    return [text for (text,) in await session.rows(_OWNED, {"role": role})]


async def read_subscriptions(session: Session, role: int) -> list[str]:
    """Read the names of the subscriptions that the role owns in this database."""
    return [name for (name,) in await session.rows(_SUBSCRIPTIONS, {"role": role})]


async def read_heir(session: Session, name: str, database: str, claim: RoleClaim | None) -> str:
    """Return the heir of a role's objects in this database: this role, or the database's owner.

    A SECURITY DEFINER function or a view would run with the heir's rights. So the heir must not
    have powers over other roles, nor a claim of another object than ``claim``'s.

    Raises:
        AccessError: OwnsObjects.
    """
    rows = await session.rows(_HEIR, {"name": name})
    if not rows:
        raise AccessError(
            "OwnsObjects",
            f"role {name} of spec.orphanTo does not exist; create it, or name another",
        )
    ((heir, unsafe, comment),) = rows
    parsed = parse_claim(comment)
    # An heir of the same object is the role itself, which gets the objects of its logins.
    others = parsed is not None and not (claim is not None and parsed.same_object(claim))
    taken = others or parse_group(comment) is not None
    if not name:
        if unsafe:
            raise unsafe_owner(database, heir, _POWERS)
        if taken:
            raise unsafe_owner(database, heir, _TAKEN)
        return str(heir)
    if unsafe or taken:
        why = _POWERS if unsafe else _TAKEN
        raise AccessError(
            "OwnsObjects",
            f"role {name} of spec.orphanTo {why}, and must not inherit objects; name another",
        )
    return str(heir)


def check_shared(username: str, dependencies: RoleDependencies, policy: CleanupPolicy) -> None:
    """Refuse to go on while the role owns databases, tablespaces, or objects out of reach.

    Raises:
        AccessError: OwnsObjects.
    """
    if dependencies.shared:
        raise AccessError(
            "OwnsObjects",
            f"role {username} owns {_some(dependencies.shared)}, which no cleanupPolicy removes;"
            " give it another owner",
        )
    closed = [one.database for one in dependencies.databases if not one.connectable and one.owned]
    if closed:
        raise AccessError(
            "OwnsObjects",
            f"role {username} has objects in {_some(closed)}, which takes no connections; allow"
            f" them, so that the operator can carry out {policy}",
        )


async def read_owner(session: Session, database: str) -> tuple[str, bool] | None:
    """Read the owner of a database, and whether that role has powers."""
    for name, unsafe in await session.rows(_OWNER, {"database": database}):
        return str(name), bool(unsafe)
    return None


def closed_database(username: str, database: str, owner: str) -> AccessError:
    """Return the error of privileges in a database that takes no connections."""
    return AccessError(
        "OwnsObjects",
        f"role {username} has privileges in {database}, where owner {owner} allows no"
        " connections; the operator has removed its login and its privileges elsewhere; the"
        f" owner or a superuser lets the operator go on with ALTER DATABASE {database}"
        " ALLOW_CONNECTIONS true",
    )


def _by_database(blockers: Iterable[tuple[str, Sequence[str]]]) -> str:
    return "; ".join(f"{_some(objects)} in database {name}" for name, objects in blockers)


def owns_objects(username: str, blockers: Sequence[tuple[str, Sequence[str]]]) -> AccessError:
    """Return the error of Restrict; ``blockers`` are databases and the owned objects there."""
    parts = _by_database(blockers)
    return AccessError(
        "OwnsObjects",
        f"role {username} owns {parts}; the operator has removed its login, and cleanupPolicy"
        " Restrict keeps these objects",
        blockers=blockers,
    )


def strangers_grants(username: str, left: Mapping[str, Sequence[Left]]) -> AccessError:
    """Return the error of a role that stays because of other roles' grants, by database."""
    blockers = [
        (name, [f"{one.text} of role {one.owner}" if one.owner else one.text for one in some])
        for name, some in left.items()
    ]
    parts = _by_database(blockers)
    return AccessError(
        "OwnsObjects",
        f"role {username} has privileges on {parts}, which the administrator may not revoke; the"
        " operator has removed its login; ask the roles that granted them, or a superuser, to"
        " revoke them",
        blockers=blockers,
    )


def used_by_others(username: str, blockers: Sequence[tuple[str, Sequence[str]]]) -> AccessError:
    """Return the error of Cascade; ``blockers`` are databases and objects of other roles there.

    They depend on objects of the role.
    """
    parts = _by_database(blockers)
    return AccessError(
        "OwnsObjects",
        f"objects of other roles depend on what role {username} owns: {parts}; the operator has"
        " removed its login; Cascade drops no objects of other roles: drop or change them first",
        blockers=blockers,
    )


def entangled(username: str, database: str, locks: int, most: int) -> AccessError:
    """Return the error of objects that depend on one another, and are too many for one piece."""
    return AccessError(
        "OwnsObjects",
        f"objects of role {username} in database {database} depend on one another, so that one"
        f" transaction needs {locks} locks for them, but has only {most}; raise"
        " max_locks_per_transaction, or drop some of them",
    )


def too_many_references(
    username: str, database: str, names: Sequence[str], locks: int, most: int
) -> AccessError:
    """Return the error of references that the administrator may not end one by one.

    ``names`` are some of them in words.
    """
    return AccessError(
        "OwnsObjects",
        f"{_some(names)} in database {database} name role {username}, and the administrator may"
        f" not change them; to drop them all at once takes {locks} locks, but a transaction has"
        f" only {most}; raise max_locks_per_transaction, or ask their owners or a superuser to"
        " drop them",
        blockers=[(database, list(names))],
    )


def keeps_subscription(name: str, database: str) -> AccessError:
    """Return the error of Orphan before PostgreSQL 16: only superusers may own subscriptions."""
    owned = f"subscription {name}"
    return AccessError(
        "OwnsObjects",
        f"only superusers may own {owned} in database {database} before PostgreSQL 16, and"
        " cleanupPolicy Orphan drops nothing",
        blockers=[(database, [owned])],
    )


def unsafe_owner(database: str, owner: str, why: str) -> AccessError:
    """Return the error of Orphan with an owner of the database who may not be the heir."""
    return AccessError(
        "OwnsObjects",
        f"owner {owner} of database {database} {why}, and must not inherit objects; set"
        " spec.orphanTo, or give the database another owner",
    )


def runs_as_owner(username: str, database: str, owner: str, objects: Sequence[str]) -> AccessError:
    """Return the error of an Orphan that would give code of a role to the database's owner.

    Without orphanTo that owner inherits, and ``objects`` such as functions would run with its
    rights.
    """
    return AccessError(
        "OwnsObjects",
        f"role {username} owns {_some(objects)} in database {database}, which would run with the"
        f" rights of the database's owner {owner}, and spec.orphanTo names no other role",
        blockers=[(database, objects)],
    )


def _some(names: Iterable[str]) -> str:
    everything = list(names)
    text = ", ".join(everything[: bounds.NAMED])
    return f"{text} and more" if len(everything) > bounds.NAMED else text
