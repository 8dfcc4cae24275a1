"""The plan for the accesses of one server: the missing statements with their reasons.

Its input are the wanted states of accesses, and the server as it was read. The operator runs it
and reads the server again; ``plan``, ``explain``, Observe and the digests of approvals show it.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from fairlead.api.postgresaccess import END_SESSIONS_ANNOTATION
from fairlead.postgres.database.plans.attributes import (
    GRANT_OPTIONS_VERSION,
    NOTHING_AROUND,
    Around,
    foreign_memberships,
    unheeded_options,
)
from fairlead.postgres.database.plans.grants import DesiredGrants
from fairlead.postgres.database.plans.groups import (
    Sharing,
    group_warnings,
    plan_groups,
    share,
)
from fairlead.postgres.database.plans.plan import (
    DatabaseChange,
    WantedState,
    plan_databases,
    plan_public,
    plan_role,
)
from fairlead.postgres.database.plans.snapshot import (
    ServerSnapshot,
    check_adoption,
    check_password,
    check_roles,
)
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.errors import AccessError, Retry


class ObservedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it was read for a batch, with the decisions about accesses so far.

    ``verifiers`` are the verifiers to store, by the name of the login. ``refused`` has by username
    the error of each access for which no statement may run.
    """

    snapshot: ServerSnapshot
    around: Around
    verifiers: Mapping[str, str]
    refused: Mapping[str, AccessError]
    sharing: Sharing
    """Owners of grants, by the server's version alone; roles before PostgreSQL 16 may differ."""

    def admits(self, states: Iterable[WantedState]) -> list[WantedState]:
        """Return the accesses that are not refused."""
        return [one for one in states if one.username not in self.refused]


def refusals(
    states: Iterable[WantedState], sharing: Sharing, snapshot: ServerSnapshot
) -> dict[str, AccessError]:
    """Return by username the error of each access that may not have its roles."""
    refused: dict[str, AccessError] = {}
    for state in states:
        try:
            if crowds(state, sharing, snapshot):
                raise CrowdedError(state.username)
            check_roles(state.needed, snapshot, state.claim, adopt=state.adopt)
            role = snapshot.roles.get(state.username)
            check_password(role, state.username, keeps_password=state.keeps_password)
        except AccessError as error:
            refused[state.username] = error
    return refused


def observed_server(
    states: Iterable[WantedState],
    sharing: Sharing,
    snapshot: ServerSnapshot,
    verifiers: Mapping[str, str],
    refused: Mapping[str, AccessError],
    around: Around = NOTHING_AROUND,
) -> ObservedServer:
    """Return a server as it was read, and refuse adoptions that facts about groups forbid.

    Args:
        states: the accesses that are not refused yet.
        sharing: the owners of grants.
        snapshot: the snapshot of the catalogs.
        verifiers: the verifiers to store, by the name of the login.
        refused: by username the error of each refused access so far.
        around: facts about groups and parameters.
    """
    refused_states = dict(refused)
    for state in states:
        try:
            role = snapshot.roles.get(state.username)
            check_adoption(role, around.groups, adopt=state.adopt)
        except AccessError as error:
            refused_states.setdefault(state.username, error)
    return ObservedServer(
        snapshot=snapshot,
        around=around,
        verifiers=verifiers,
        refused=refused_states,
        sharing=sharing,
    )


def crowds(state: WantedState, sharing: Sharing, snapshot: ServerSnapshot) -> bool:
    """Whether a role or the group of the access has more objects than were counted."""
    if not snapshot.crowded:
        return False
    names = {*state.names, *filter(None, [sharing.group_of.get(state.username)])}
    return not names.isdisjoint(snapshot.crowded)


class CrowdedError(AccessError):
    """The error of an access whose role has more than a batch takes: it is worked on alone."""

    def __init__(self, username: str) -> None:
        super().__init__(
            "TimedOut",
            f"role {username} has very many objects and privileges; the operator checks such"
            " roles one at a time; waiting",
            retry=Retry.GOES_ON,
        )


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Missing changes in the shared catalogs, and the desired grants of each role by database.

    ``desired`` has the grants of each login and group itself, ``roles`` the desired logins and
    groups. ``hindered`` has by username the errors of single parts, ``taken`` by group's name the
    error of a name that another role has.
    """

    on_roles: Sequence[AccessStatement] = ()
    on_groups: Sequence[AccessStatement] = ()
    on_databases: Sequence[DatabaseChange] = ()
    on_public: Sequence[AccessStatement] = ()
    changes: Sequence[AccessStatement] = ()
    """All changes, in the order in which they are made."""
    sharing: Sharing = Sharing()
    desired: Mapping[str, DesiredGrants] = {}
    roles: Mapping[str, WantedState] = {}
    hindered: Mapping[str, Sequence[AccessError]] = {}
    taken: Mapping[str, AccessError] = {}

    def __str__(self) -> str:
        return "\n".join(change.text for change in self.changes)

    def who(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the usernames; the name of a group is replaced by its members'."""
        groups = self.sharing.groups
        members = (groups[name].members if name in groups else [name] for name in names)
        return tuple(dict.fromkeys(name for some in members for name in some))


def plan_server(
    states: Iterable[WantedState],
    observed: ObservedServer,
    revoked_public: frozenset[str] = frozenset(),
) -> BatchPlan:
    """Return the plan for accesses with different usernames.

    Args:
        states: the accesses; the plan leaves out refused ones.
        observed: their server as it was read.
        revoked_public: the privileges that PUBLIC must not have.
    """
    snapshot = observed.snapshot
    left = observed.admits(states)
    on_roles: list[AccessStatement] = []
    hindered: dict[str, Sequence[AccessError]] = {}
    for state in left:
        verifier = observed.verifiers.get(state.login)
        own, problems = plan_role(state, snapshot, verifier, observed.around)
        on_roles += own
        if problems:
            hindered[state.username] = problems
    sharing, version = observed.sharing, snapshot.server.version
    # Refused accesses become no members. Before PostgreSQL 16 it also takes the roles' INHERIT,
    # which is known only now.
    if observed.refused or version < GRANT_OPTIONS_VERSION:
        sharing = share(left, version, snapshot.roles)
    groups = plan_groups(sharing, snapshot)
    sharing = sharing.without(groups.taken)
    # Privileges on databases come before those of the groups on objects, so members keep theirs
    # meanwhile (``now``); the visits to databases begin with the groups (``after``).
    desired, now, after = sharing.desired, sharing.roles_now(left), sharing.roles_after(left)
    on_databases = plan_databases(now.values(), desired, snapshot)
    on_public = plan_public(revoked_public, sharing.grants, snapshot)
    return BatchPlan(
        on_roles=on_roles,
        on_groups=groups.changes,
        on_databases=on_databases,
        on_public=on_public,
        changes=[*on_roles, *groups.changes, *on_databases, *on_public],
        sharing=sharing,
        desired=desired,
        roles=after,
        hindered=hindered,
        taken=groups.taken,
    )


def visits_of(
    desired: Mapping[str, DesiredGrants], snapshot: ServerSnapshot, *, unborn: bool = False
) -> tuple[dict[str, list[str]], dict[str, dict[str, list[AccessError]]]]:
    """Return the roles to visit in each database, and the errors of missing databases by role.

    Roles that do not exist yet are left out, unless ``unborn`` is set.
    """
    visits: dict[str, list[str]] = {}
    problems: dict[str, dict[str, list[AccessError]]] = {}
    for username, grants in desired.items():
        role = snapshot.roles.get(username)
        if role is None and not unborn:
            continue
        # The databases of the grants, and those in which the role has something already.
        inside = snapshot.dependents.get(role.oid, frozenset()) if role else frozenset[str]()
        databases = snapshot.databases
        reachable = {name for name in inside if name in databases and databases[name].connectable}
        for name in sorted(reachable | grants.databases.keys()):
            missing = _missing_database(name, snapshot)
            if missing is not None:
                problems.setdefault(username, {})[name] = [missing]
            else:
                visits.setdefault(name, []).append(username)
    return visits, problems


def _missing_database(name: str, snapshot: ServerSnapshot) -> AccessError | None:
    """Return the error of a database in which nothing can be granted, None without one."""
    facts = snapshot.databases.get(name)
    if facts is None:
        return AccessError(
            "DatabaseNotFound",
            f"database {name} of spec.grants does not exist; create it, or correct the name",
        )
    if not facts.connectable:
        return AccessError(
            "DatabaseNotFound",
            f"database {name} of spec.grants takes no connections; allow them, or name"
            " another database",
        )
    return None


def warnings_of(state: WantedState, sharing: Sharing, snapshot: ServerSnapshot) -> list[str]:
    """Return warnings about privileges beyond the spec, through PUBLIC or other grantors."""
    public = [
        f"PUBLIC has {', '.join(sorted(extra))} on database {name}, so this role has it too"
        for name, grants in sorted(sharing.grants[state.username].databases.items())
        if name in snapshot.databases
        and (extra := snapshot.databases[name].public - grants.database.keys())
    ]
    role = snapshot.roles.get(state.username)
    role = snapshot.without_shared(role, state.claim.installation)
    return [
        *public,
        *unheeded_options(state.member_of, snapshot.server.version),
        *foreign_memberships(state.member_of, role),
        *group_warnings(state, sharing, snapshot),
        *_outlasting(state, snapshot),
    ]


def _outlasting(state: WantedState, snapshot: ServerSnapshot) -> Iterator[str]:
    """Yield warnings about open sessions of roles that log in no more.

    Their number only falls, so that no warning comes and goes.
    """
    for name, role in state.own(snapshot).items():
        until = datetime.fromisoformat(role.valid_until) if role.valid_until else None
        if role.sessions and (
            not role.login or (until is not None and until <= snapshot.server.moment)
        ):
            yield (
                f"open sessions of role {name}, which may not log in any more: {role.sessions};"
                " clients and poolers can use them until they close them, or until annotation"
                f" {END_SESSIONS_ANNOTATION} gets a new value"
            )
