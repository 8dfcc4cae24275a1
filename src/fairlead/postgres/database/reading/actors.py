"""Reads by the rights of which roles the administrator may settle what its own do not suffice for.

The operator has made a role for an access or a group, and may make itself its member: so it needs
no superuser for the role's objects. A role's name proves nothing. Its comment has the claim, which
the role itself cannot write and which goes with the role; and since PostgreSQL 16 the catalogs say
who has made it. Only roles of the same installation count, and none that was made by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.differences import Actor, Difference
from fairlead.postgres.database.plans.snapshot import parse_claim, parse_group


# A schema of pg_database_owner belongs to the owner of the database. A role that is a member of
# the administrator's cannot get it as a member.
_HOLDERS = """
SELECT {key}::text, pg_catalog.pg_has_role(h.oid, 'USAGE'), r.oid::int8, r.rolname::text,
       d.description
  FROM pg_catalog.pg_roles h
  JOIN pg_catalog.pg_roles a ON a.rolname = current_user
  JOIN pg_catalog.pg_database b ON {database}
  LEFT JOIN pg_catalog.pg_roles r
    ON r.oid = CASE h.rolname WHEN 'pg_database_owner' THEN b.datdba ELSE h.oid END
   AND NOT (r.rolsuper OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls)
   AND NOT pg_catalog.pg_has_role(r.oid, a.oid, 'MEMBER')
   AND {made}
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE {key} = ANY (%(names)s::text[]::pg_catalog.name[])
"""
# With CREATEROLE the administrator may join any role but a superuser; a membership gives it rights
# if it has INHERIT.
_MADE_15 = "a.rolcreaterole AND a.rolinherit"
# The creator of a role has this membership of the first superuser.
_MADE_16 = """EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                WHERE m.roleid = r.oid AND m.member = a.oid AND m.grantor = 10
                  AND m.admin_option AND NOT m.inherit_option AND NOT m.set_option)"""
_QUERIES = {
    (key, newer): sql.SQL(
        _HOLDERS.format(key=key, database=database, made=_MADE_16 if newer else _MADE_15)
    )
    for key, database in (
        ("h.rolname", "b.datname = pg_catalog.current_database()"),
        ("b.datname", "b.datdba = h.oid"),
    )
    for newer in (True, False)
}


class _Holder(NamedTuple):
    """A role that owns objects or has granted privileges.

    ``has`` says that the administrator has its rights; ``actor`` is the role of the operator's own
    whose rights are the holder's, None if there is none.
    """

    has: bool
    actor: Actor | None


async def with_actors(
    session: Session, installation: str, differences: Mapping[str, Iterable[Difference]]
) -> dict[str, list[Difference]]:
    """Return the differences; those that a role of the operator's own makes possible name it.

    Args:
        session: a session in the database of the differences.
        installation: the installation whose roles count.
        differences: by username.
    """
    lacking = {
        difference
        for of_role in differences.values()
        for difference in of_role
        if not difference.possible
    }
    names = {
        name
        for difference in lacking
        for name in (difference.objects.owner, difference.grantor)
        if name
    }
    holders = await _read(session, installation, names) if names and installation else {}
    # Roles share a difference by its identity.
    settled = {
        difference: msgspec.structs.replace(difference, possible=True, actor=actor)
        for difference in lacking
        if (actor := _actor(difference, holders)) is not None
    }
    return {
        name: [settled.get(difference, difference) for difference in of_role]
        for name, of_role in differences.items()
    }


def _actor(difference: Difference, holders: Mapping[str, _Holder]) -> Actor | None:
    owner, holder = (
        holders.get(name)
        for name in (difference.objects.owner, difference.grantor or difference.objects.owner)
    )
    # Who has the owner's rights revokes in the owner's name, whatever other rights it has.
    if owner is None or holder is None or owner.has:
        return None
    return holder.actor


async def read_owning_actors(
    session: Session, installation: str, databases: Collection[str]
) -> dict[str, Actor]:
    """Return the owners of databases that are roles of the operator's own, by database.

    Databases are left out if the administrator has the rights of their owners.
    """
    if not databases:
        return {}
    holders = await _read(session, installation, databases, "b.datname")
    return {
        name: holder.actor
        for name, holder in holders.items()
        if holder.actor is not None and not holder.has
    }


async def _read(
    session: Session, installation: str, names: Iterable[str], key: str = "h.rolname"
) -> dict[str, _Holder]:
    """Return the holders of these names, or the owners of the databases."""
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    rows = await session.rows(_QUERIES[key, newer], {"names": sorted(names)})
    return {
        name: _Holder(has, Actor(oid, role) if _is_ours(comment, installation) else None)
        for name, has, oid, role, comment in rows
    }


def _is_ours(comment: str | None, installation: str) -> bool:
    """Whether a comment claims a role that the installation has made."""
    claim, group = parse_claim(comment), parse_group(comment)
    if claim is not None:
        return claim.installation == installation and not claim.is_imported
    return group is not None and group.installation == installation
