"""Finds accesses that differ from their last sync.

A few statements read all of them, and nothing is written: an access that differs is synced by
itself. A password is compared by its stored verifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec
import psycopg

from fairlead.api.postgresaccess import Grant
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import PATIENT, Patience
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import Around
from fairlead.postgres.database.plans.grants import DesiredGrants
from fairlead.postgres.database.plans.groups import Sharing, differs, plan_groups, share
from fairlead.postgres.database.plans.login_statements import retired
from fairlead.postgres.database.plans.plan import (
    WantedState,
    database_differences,
    plan_public,
    plan_role,
)
from fairlead.postgres.database.plans.server_plan import crowds, visits_of, warnings_of
from fairlead.postgres.database.plans.snapshot import RoleClaim, ServerSnapshot, check_roles
from fairlead.postgres.database.reading.catalog import read_around_accesses, read_snapshot
from fairlead.postgres.database.reading.comparison import (
    left_out,
    read_differences,
    role_grants,
)
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.privileges import PUBLIC_CREATES
from fairlead.postgres.errors import AccessError


_PATIENCE = Patience(PATIENT.lock, 10_000)
"""Timeouts of a statement that reads for all accesses."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An access after its last sync."""

    state: WantedState
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: WantedState, warnings: Iterable[str], left_out: Iterable[str] = ()) -> Kept:
        """Return the access without its password; equal grants share one value in memory."""
        # Only an Additive access reads its ledger. An operator keeps one such value for each
        # access.
        ledger = state.ledger if state.policy == "Additive" else frozenset[str]()
        grants = _shared(msgspec.json.encode(state.grants))
        lean = msgspec.structs.replace(
            state, password="", ledger=ledger, grants=grants, ends_sessions=False
        )
        return cls(state=lean, warnings=tuple(warnings), left_out=tuple(left_out))


@lru_cache(maxsize=4096)
def _shared(grants: bytes) -> tuple[Grant, ...]:
    return msgspec.json.decode(grants, type=tuple[Grant, ...])


class DriftResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a comparison: usernames that differ, and all claims of the installation.

    ``deserted`` are groups of the installation without members.
    """

    differing: frozenset[str]
    claimed: Mapping[str, RoleClaim]
    deserted: frozenset[str] = frozenset()


async def find_drift(
    sessions: Sessions, kept_accesses: Sequence[Kept], verifiers: Verifiers, installation: str
) -> DriftResult:
    """Compare kept accesses with the catalogs; all accesses of an unreadable database differ.

    Raises:
        AccessError: the server could not be read.
    """
    states = [one.state for one in kept_accesses]
    databases = {grant.database for one in states for grant in one.grants}
    async with sessions.working("read the catalogs", _PATIENCE) as session:
        snapshot = await read_snapshot(
            session,
            [name for one in states for name in one.names],
            installation,
            databases=databases,
            groups=share(states, session.server_version).groups,
            claims=True,
            most=bounds.CROWD,
        )
        around = await read_around_accesses(session, states, snapshot)
    sharing = share(states, snapshot.server.version, snapshot.roles)
    by_name, desired = sharing.roles(states), sharing.desired
    differing = {
        kept_access.state.username
        for kept_access in kept_accesses
        if _differs(kept_access, sharing, snapshot, verifiers, around)
    }
    # An access with more objects than are counted here is synced by itself.
    differing |= {one.username for one in states if crowds(one, sharing, snapshot)}
    differing |= _differing_groups(sharing, snapshot)
    for change in plan_public(sessions.endpoint.revoke_public, sharing.grants, snapshot):
        differing.update(change.usernames)
    visits, missing = visits_of(desired, snapshot)
    differing |= missing.keys()
    remarks: dict[str, list[str]] = {}
    # In the order of the databases' names, as a sync tells of them.
    for database, usernames in sorted(visits.items()):
        # An access that differs already is synced as a whole, and needs no more comparison.
        left = [by_name[username] for username in usernames if username not in differing]
        differing |= await _differing_in(sessions, database, left, desired, snapshot, remarks)
    for kept_access in kept_accesses:
        names = sharing.names_of(kept_access.state.username)
        if kept_access.left_out != tuple(
            remark for name in names for remark in remarks.get(name, ())
        ):
            differing.add(kept_access.state.username)
    # A difference of a group is one of each of its members.
    for name, group in sharing.groups.items():
        if name in differing:
            differing.update(group.members)
    return DriftResult(
        differing=frozenset(differing - sharing.groups.keys()),
        claimed=snapshot.claimed,
        deserted=snapshot.deserted,
    )


def _differing_groups(sharing: Sharing, snapshot: ServerSnapshot) -> set[str]:
    """Return the names of groups that differ, and of roles whose memberships differ."""
    planned = plan_groups(sharing, snapshot)
    differing = set(planned.taken)
    for change in planned.changes:
        differing.update(change.usernames)
    differing.update(
        name
        for name, group in sharing.groups.items()
        if any(True for _ in database_differences(group.state, group.grants, snapshot))
    )
    return differing


def _differs(
    kept_access: Kept,
    sharing: Sharing,
    snapshot: ServerSnapshot,
    verifiers: Verifiers,
    around: Around,
) -> bool:
    state = kept_access.state
    role = snapshot.roles.get(state.login)
    if role is None:
        return True
    # The password of a role that was adopted with onAdoption: Keep is in no Secret of ours.
    if state.keeps_password:
        changed = False
    elif snapshot.server.reads_verifiers:
        changed = not verifiers.holds(state.login, role.verifier)
    else:
        changed = verifiers.is_due(state.login)
    if changed or (
        state.asked_logins is not None and retired(state.asked_logins, state.own(snapshot))
    ):
        return True
    try:
        check_roles(state.needed, snapshot, state.claim, adopt=state.adopt)
    except AccessError:
        return True
    # Without a verifier, as if the password were right: it has been compared above.
    planned, problems = plan_role(state, snapshot, None, around)
    # Warnings are part of the status, so a new one needs a pass though it writes nothing.
    return (
        bool(planned or problems)
        or differs(state, sharing, snapshot)
        or any(True for _ in database_differences(state, sharing.own[state.username], snapshot))
        or tuple(warnings_of(state, sharing, snapshot)) != kept_access.warnings
    )


async def _differing_in(
    sessions: Sessions,
    database: str,
    states: Sequence[WantedState],
    desired: Mapping[str, DesiredGrants],
    snapshot: ServerSnapshot,
    remarks: dict[str, list[str]],
) -> set[str]:
    """Return the names of roles that differ in a database; all, if it cannot be read.

    Add the remarks on grants without which a role's others are complete to ``remarks``.
    """
    roles = [role_grants(one, desired[one.username].of(database), snapshot) for one in states]
    try:
        async with sessions.use(database) as session:
            reading = await read_differences(session, database, roles)
            closing = "CREATE" in sessions.endpoint.revoke_public
            if closing and await session.rows(PUBLIC_CREATES):
                return {one.username for one in states}
    except (AccessError, psycopg.Error):
        return {one.username for one in states}
    differing = {*reading.absent, *reading.gone}
    for name, differences in reading.differences.items():
        if not all(difference.is_left_out for difference in differences):
            differing.add(name)
        elif remark := left_out(differences, database, snapshot.server.admin):
            remarks.setdefault(name, []).append(remark)
    return differing
