"""Reads what a batch needs of a server: the catalogs, in a fixed number of round trips.

https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Query, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import (
    GRANT_OPTIONS_VERSION,
    NOTHING_AROUND,
    Around,
)
from fairlead.postgres.database.plans.groups import share
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.server_plan import ObservedServer, observed_server, refusals
from fairlead.postgres.database.plans.snapshot import (
    CLAIM_PATTERN,
    GROUP_PATTERN,
    DatabaseFacts,
    GroupFacts,
    Intruder,
    Membership,
    RoleFacts,
    ServerFacts,
    ServerSnapshot,
    parse_comment,
    takes_over,
)
from fairlead.postgres.database.reading.catalog_query import (
    DATABASES,
    DEPENDENTS,
    GROUP_FACTS,
    GROUPS_15,
    GROUPS_16,
    HELD,
    LOGINS,
    RESERVED,
    ROLES_QUERIES,
    SERVER,
)
from fairlead.postgres.database.reading.verifiers import Verifiers


_BOOTSTRAP_SUPERUSER = 10
"""Oid of the role that initdb makes, which is the grantor of every superuser's memberships."""
_POWERS = ("SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS")


async def read_server(session: Session) -> ServerFacts:
    """Read the server's version and identity, and the administrator's rights."""
    (row,) = await session.rows(SERVER)
    return _server(row)


def _server(row: Sequence[Any]) -> ServerFacts:
    version, text, identifier, admin, oid, superuser, reads, seconds = row
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


def _database_queries(depending: _Depending, databases: Collection[str]) -> list[Query]:
    oids = sorted(depending.on.union(*depending.inside.values()))
    return [
        (DATABASES, {"databases": oids, "names": sorted(databases)}),
        (HELD, {"roles": depending.roles, "databases": sorted(depending.on)}),
    ]


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
) -> ServerSnapshot:
    """Read roles and databases in two round trips, for any number of them.

    Args:
        session: a session in any database.
        usernames: the names of the roles; roles that do not exist are missing in the snapshot.
        installation: the installation whose claims are returned.
        databases: names of databases, beside those in which the roles have objects or privileges.
        groups: names of shared groups to read too.
        claims: whether to read the claims of all roles.
        whole: whether to read also data whose size tenants choose: settings, verifiers, and the
            databases in which roles have objects or privileges.
        most: objects and privileges of one role that are counted; a role with more is ``crowded``.
    """
    wished = frozenset((*usernames, *groups))
    names = sorted(wished)
    # The other statements need the rights of the administrator and the oids of the roles.
    # With LIMIT 0 they are read without the databases; one more than ``most`` tells of a crowd.
    limit = (None if most is None else most + 1) if whole else 0
    (facts,), counted = await session.exchange(
        (SERVER, None), (DEPENDENTS, {"names": names, "most": limit})
    )
    server, depending = _server(facts), _depending(counted, most)
    rows, members, *more = await session.exchange(
        _roles_query(server, names, claims=claims, whole=whole),
        _groups_query(server, depending, groups),
        *(_database_queries(depending, databases) if whole else ()),
    )
    memberships, intruders = _groups(members, server)
    roles = [_role(row, memberships.get(row[0], {})) for row in rows]
    shared = {role.name: role.group for role in roles if role.group is not None}
    joined = {name for some in memberships.values() for name in some}
    present = _databases(more[0]) if more else {}
    return ServerSnapshot(
        server=server,
        roles={role.name: role for role in roles if role.name in wished},
        databases={one.name: one for one in present.values()},
        dependents={
            role: frozenset(present[oid].name for oid in oids if oid in present)
            for role, oids in depending.inside.items()
        },
        privileges=_privileges(more[1]) if more else {},
        crowded=frozenset(role.name for role in roles if role.oid in depending.crowds),
        claimed={
            role.name: role.claim
            for role in roles
            if role.claim is not None and role.claim.installation == installation
        },
        groups=shared,
        # The query returns groups that are asked for, groups of the roles, and with ``claims``
        # groups without members, which are left here.
        deserted=frozenset(
            name
            for name, group in shared.items()
            if name not in wished and name not in joined and group.installation == installation
        ),
        intruders=intruders,
    )


def _roles_query(server: ServerFacts, names: Sequence[str], *, claims: bool, whole: bool) -> Query:
    query = ROLES_QUERIES[server.reads_verifiers, server.version >= GRANT_OPTIONS_VERSION]
    return query, {
        "names": names,
        "claims": claims,
        "pattern": CLAIM_PATTERN,
        "groups": GROUP_PATTERN,
        "admin": server.admin_oid,
        "whole": whole,
        "bytes": bounds.SETTINGS_BYTES,
        "characters": bounds.VERIFIER_CHARACTERS,
    }


def _groups_query(server: ServerFacts, depending: _Depending, groups: Collection[str]) -> Query:
    return GROUPS_16 if server.version >= GRANT_OPTIONS_VERSION else GROUPS_15, {
        "roles": depending.roles,
        "groups": [depending.oids[name] for name in groups if name in depending.oids],
        "admin": server.admin_oid,
        "ours": CLAIM_PATTERN.partition(":")[0],
    }


def _databases(rows: Iterable[Sequence[Any]]) -> dict[int, DatabaseFacts]:
    return {
        oid: DatabaseFacts(
            name=name, connectable=connectable, oid=oid, owner=owner, public=frozenset(public)
        )
        for oid, name, connectable, owner, public in rows
    }


def _privileges(rows: Iterable[Sequence[Any]]) -> dict[int, dict[str, dict[str, bool]]]:
    privileges: dict[int, dict[str, dict[str, bool]]] = {}
    for name, role, privilege, grantable in rows:
        privileges.setdefault(role, {}).setdefault(name, {})[privilege] = grantable
    return privileges


async def read_logins(session: Session) -> tuple[list[str], bool]:
    """Read the names of logins, claimed roles and groups, and whether there are more."""
    parameters = {
        "pattern": CLAIM_PATTERN,
        "groups": GROUP_PATTERN,
        "limit": bounds.READ_LOGINS + 1,
    }
    logins = [name for (name,) in await session.rows(LOGINS, parameters)]
    return logins[: bounds.READ_LOGINS], len(logins) > bounds.READ_LOGINS


async def read_around(
    session: Session, groups: Collection[str], parameters: Collection[str] = ()
) -> Around:
    """Read facts about groups, and which of the parameters, in lower case, are reserved.

    Groups that do not exist are missing.
    """
    if not groups and not parameters:
        return NOTHING_AROUND
    facts, reserved = await session.exchange(
        (GROUP_FACTS, {"names": sorted(groups)}), (RESERVED, {"names": sorted(parameters)})
    )
    return Around(
        groups={name: GroupFacts(powerful=powerful) for name, powerful in facts},
        reserved=frozenset(name for (name,) in reserved),
    )


def _groups(
    rows: Iterable[Sequence[Any]], server: ServerFacts
) -> tuple[dict[int, dict[str, Membership]], dict[str, tuple[Intruder, ...]]]:
    groups: dict[int, dict[str, Membership]] = {}
    intruders: dict[str, tuple[Intruder, ...]] = {}
    for member, name, admin, inherit, set_, by, grantor, usable, intruder in rows:
        # A superuser has the privileges of all roles, but never grants in the name of others.
        own = server.version < GRANT_OPTIONS_VERSION or (
            by in {server.admin_oid, _BOOTSTRAP_SUPERUSER} if server.superuser else usable
        )
        if intruder:
            entry = Intruder(name=intruder, grantor=grantor, by_admin=own or server.superuser)
            intruders[name] = (*intruders.get(name, ()), entry)
            continue
        memberships = groups.setdefault(member, {})
        # The administrator can change only its own row among those of several grantors.
        if own or name not in memberships:
            memberships[name] = Membership(
                inherit=inherit, set=set_, admin=admin, by_admin=own, grantor=grantor
            )
    return groups, intruders


class _Depending(NamedTuple):
    """Databases of roles' objects and privileges, by oids; ``oids`` are of the roles, by name.

    ``inside`` has by role the databases that contain them, ``on`` the databases that are such
    objects themselves. ``crowds`` are roles with more than the limit.
    """

    oids: Mapping[str, int]
    inside: Mapping[int, frozenset[int]]
    on: frozenset[int]
    crowds: frozenset[int]

    @property
    def roles(self) -> list[int]:
        return list(self.oids.values())


def _depending(rows: Iterable[Sequence[Any]], most: int | None) -> _Depending:
    oids: dict[str, int] = {}
    counts: Counter[int] = Counter()
    inside: dict[int, set[int]] = {}
    on: set[int] = set()
    for role, name, database, itself, number in rows:
        oids[name] = role
        if number is None:
            continue
        counts[role] += number
        if itself:
            on.add(database)
        else:
            inside.setdefault(role, set()).add(database)
    return _Depending(
        oids=oids,
        inside={role: frozenset(found) for role, found in inside.items()},
        on=frozenset(on),
        crowds=frozenset(role for role in counts if most is not None and counts[role] > most),
    )


def _role(row: Sequence[Any], groups: Mapping[str, Membership]) -> RoleFacts:
    oid, name, login, *powers, comment, verifier, inherit, limit, until, sessions = row[:-4]
    config, has_settings, turned, overfull = row[-4:]
    claim, note, group = parse_comment(comment)
    return RoleFacts(
        oid=oid,
        name=name,
        login=login,
        powers=frozenset(power for power, has in zip(_POWERS, powers, strict=True) if has),
        comment=comment,
        claim=claim,
        note=note,
        verifier=verifier,
        inherit=inherit,
        connection_limit=limit,
        # No statement makes VALID UNTIL NULL again: an end was removed by infinity.
        valid_until="" if until == "infinity" else until,
        config=dict(one.split("=", 1) for one in config or ()),
        turned_in=tuple(turned),
        # The query returns NULL for settings above its limit, and for a role without any.
        overfull=has_settings and config is None,
        overfull_in=tuple(overfull),
        groups=groups,
        group=group,
        sessions=sessions,
    )


async def observe(
    sessions: Sessions,
    session: Session,
    states: Sequence[WantedState],
    verifiers: Verifiers,
    *,
    most: int | None = None,
) -> ObservedServer:
    """Read a server for a batch, and decide which accesses it admits.

    Args:
        sessions: the sessions of the server.
        session: a session in its maintenance database.
        states: accesses with different usernames.
        verifiers: the known verifiers of the server.
        most: objects and privileges of one role that are counted; a role with more is refused.
    """
    sharing = share(states, session.server_version)
    snapshot = await read_snapshot(
        session,
        [name for one in states for name in one.names],
        "",
        databases={grant.database for one in states for grant in one.grants},
        groups=sharing.groups,
        most=most,
    )
    # Accesses are refused before passwords are compared: a comparison takes thousands of rounds,
    # or a login if the administrator may not read verifiers.
    refused = refusals(states, sharing, snapshot)
    # Without a password, as in a plan, an existing role keeps its own; a new role needs some.
    given = [
        state
        for state in states
        if state.username not in refused
        and not state.keeps_password
        and (state.password or state.login not in snapshot.roles)
    ]
    missing, unknown = await verifiers.missing(sessions, given, snapshot)
    refused |= unknown
    left = [one for one in states if one.username not in refused]
    around = await read_around_accesses(session, left, snapshot)
    return observed_server(left, sharing, snapshot, missing, refused, around)


async def read_around_accesses(
    session: Session, states: Iterable[WantedState], snapshot: ServerSnapshot
) -> Around:
    """Read the facts about groups and parameters that the plans of accesses need."""
    groups: set[str] = set()
    parameters: set[str] = set()
    for state in states:
        groups |= {group.role for group in state.member_of or ()}
        role = snapshot.roles.get(state.username)
        # A role that was made by hand may have powers by memberships; the same query finds them.
        if takes_over(role, adopt=state.adopt):
            groups.add(state.username)
        if state.attributes is not None:
            facts = (snapshot.roles[name] for name in state.names if name in snapshot.roles)
            stored = [name for role in facts for name in role.config]
            parameters |= {name.lower() for name in (*state.attributes.config, *stored)}
    return await read_around(session, groups, parameters)
