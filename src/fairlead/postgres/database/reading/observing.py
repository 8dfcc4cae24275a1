"""Looks at a server for the sake of accesses: at its catalogs, passwords, and other roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import Around
from fairlead.postgres.database.plans.claiming import takes_over
from fairlead.postgres.database.plans.groups import share
from fairlead.postgres.database.plans.plan import Wanted
from fairlead.postgres.database.plans.snapshot import Snapshot
from fairlead.postgres.database.plans.together import Observed, observed
from fairlead.postgres.database.reading.catalog import read_around, read_snapshot
from fairlead.postgres.database.reading.verifiers import Verifiers


async def observe(
    sessions: Sessions,
    session: Session,
    wanted: Sequence[Wanted],
    verifiers: Verifiers,
    *,
    most: int | None = None,
) -> Observed:
    """Look at a server.

    Args:
        sessions: of the server.
        session: in its maintenance database.
        wanted: accesses with different usernames.
        verifiers: what is known of the server's passwords.
        most: objects and privileges of one role that are looked at; who has more is refused.
    """
    sharing = share(wanted, session.server_version)
    snapshot = await read_snapshot(
        session,
        [name for one in wanted for name in one.names],
        "",
        databases={grant.database for one in wanted for grant in one.grants},
        groups=sharing.groups,
        most=most,
    )
    # What may not be done at all is told before passwords are compared: that takes thousands of
    # rounds, or a login where nobody may read verifiers.
    seen = observed(wanted, sharing, snapshot)
    given = [
        one
        for one in seen.admits(wanted)
        if not one.keeps and (one.password or one.login not in snapshot.roles)
    ]
    seen = seen.with_verifiers(*await verifiers.missing(sessions, given, snapshot))
    left = seen.admits(wanted)
    return seen.with_around(await look_around(session, left, snapshot), left)


async def look_around(session: Session, wanted: Iterable[Wanted], snapshot: Snapshot) -> Around:
    """Read what has to be known beside the roles themselves."""
    groups: set[str] = set()
    parameters: set[str] = set()
    for one in wanted:
        groups |= {group.role for group in one.member_of or ()}
        role = snapshot.roles.get(one.username)
        # A role that was made by hand may have powers through others, which the same query finds.
        if takes_over(role, adopt=one.adopt):
            groups.add(one.username)
        if one.attributes is not None:
            known = (snapshot.roles[name] for name in one.names if name in snapshot.roles)
            stored = [name for role in known for name in role.config]
            parameters |= {name.lower() for name in (*one.attributes.config, *stored)}
    return await read_around(session, groups, parameters)
