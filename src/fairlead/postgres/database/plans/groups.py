"""Groups that hold privileges for all logins with the same grants: ``groups: Shared``.

Privileges without grant option go to the group, so that an object's ACL has one entry for any
number of logins. Privileges with grant option stay with the login: a member of a group with the
option would grant in the name of all. A login inherits the privileges of its group, without SET
ROLE if PostgreSQL can withhold that, and never may add members.

A group is created in one transaction with its first member. Its name is a digest of a scope, which
only this installation knows, and of its grants. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from psycopg import sql

from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.grants import DesiredGrants, desired_grants
from fairlead.postgres.database.plans.names import GROUP_PREFIX
from fairlead.postgres.database.plans.plan import (
    WantedState,
    database_change,
    database_differences,
)
from fairlead.postgres.database.plans.snapshot import (
    GroupClaim,
    Membership,
    RoleClaim,
    RoleFacts,
    ServerSnapshot,
)
from fairlead.postgres.database.plans.statements import (
    AccessStatement,
    DatabaseAction,
    SharedChange,
)
from fairlead.postgres.database.plans.targets import DatabaseGrants
from fairlead.postgres.errors import AccessError, refusal


_COMMA = sql.SQL(", ")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its desired grants, and the usernames of its members in this batch."""

    name: str
    claim: GroupClaim
    grants: DesiredGrants
    members: list[str]

    @property
    def state(self) -> WantedState:
        """The group as a role with desired privileges, without a PostgresAccess."""
        claim = RoleClaim(installation=self.claim.installation, uid="")
        return WantedState(username=self.name, password="", claim=claim)


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """Owners of grants: ``grants`` has all grants by username, ``own`` those of the login itself.

    ``groups`` has the groups by name, ``group_of`` the name of the group by username.
    """

    grants: Mapping[str, DesiredGrants] = {}
    own: Mapping[str, DesiredGrants] = {}
    groups: Mapping[str, Group] = {}
    group_of: Mapping[str, str] = {}
    unknown: frozenset[str] = frozenset()
    """Usernames of accesses whose scope of groups is unknown."""

    @property
    def desired(self) -> dict[str, DesiredGrants]:
        """The desired grants of each login and each group itself, by name."""
        return {**self.own, **{name: group.grants for name, group in self.groups.items()}}

    def names_of(self, username: str) -> list[str]:
        """Return the names of a role and of its group, if it has one."""
        return [username, *filter(None, [self.group_of.get(username)])]

    def keeps_own_privileges(self, username: str) -> bool:
        """Whether a login keeps its own privileges because no group grants them instead."""
        group = self.group_of.get(username)
        return username in self.unknown or (group is not None and group not in self.groups)

    def roles(self, states: Iterable[WantedState]) -> dict[str, WantedState]:
        """Return the logins and the groups as roles, by name."""
        groups = {name: group.state for name, group in self.groups.items()}
        return {**{one.username: one for one in states}, **groups}

    def roles_now(self, states: Iterable[WantedState]) -> dict[str, WantedState]:
        """Return the logins and the groups as roles, while the groups may lack privileges.

        Every member of a group is Additive, and keeps its own privileges for as long.
        """
        careful_ = self.group_of.keys() | self.unknown
        return self.roles([careful(one) if one.username in careful_ else one for one in states])

    def roles_after(self, states: Iterable[WantedState]) -> dict[str, WantedState]:
        """Return the logins and the groups as roles, once the groups have their privileges.

        A login that keeps its own privileges is Additive.
        """
        return self.roles(
            [careful(one) if self.keeps_own_privileges(one.username) else one for one in states]
        )

    def without(self, names: Collection[str]) -> Sharing:
        """Return the same without some groups; their members' shared grants are then left out."""
        if not names:
            return self
        left = {name: one for name, one in self.groups.items() if name not in names}
        return msgspec.structs.replace(self, groups=left)


def share(
    states: Sequence[WantedState], version: int, roles: Mapping[str, RoleFacts] | None = None
) -> Sharing:
    """Sort the grants of accesses into those of groups and those of logins.

    Args:
        states: the accesses.
        version: ``server_version_num``.
        roles: the existing roles; a login with NOINHERIT shares nothing before PostgreSQL 16,
            where that is an attribute of the role.
    """
    parts: dict[
        tuple[str | None, str, int], tuple[DesiredGrants, DesiredGrants, Group | None]
    ] = {}
    grants_asked: dict[str, DesiredGrants] = {}
    own: dict[str, DesiredGrants] = {}
    groups: dict[str, Group] = {}
    group_of: dict[str, str] = {}
    for state in states:
        scope = state.scope if inherits(state, version, roles or {}) else ""
        # Accesses that are kept share the value of equal grants.
        key = (scope, state.claim.installation, id(state.grants))
        if key not in parts:
            parts[key] = _parts(state, scope, version)
        grants_asked[state.username], own[state.username], group = parts[key]
        if group is not None:
            group = groups.setdefault(group.name, group)
            group.members.append(state.username)
            group_of[state.username] = group.name
    unknown = frozenset(one.username for one in states if one.scope is None)
    return Sharing(grants=grants_asked, own=own, groups=groups, group_of=group_of, unknown=unknown)


def inherits(state: WantedState, version: int, roles: Mapping[str, RoleFacts]) -> bool:
    """Whether the role has the privileges of its groups without SET ROLE."""
    if version >= GRANT_OPTIONS_VERSION:
        return True
    inherit = state.attributes.inherit if state.attributes is not None else None
    if inherit is not None:
        return inherit
    role = roles.get(state.username)
    return role is None or role.inherit


def _parts(
    state: WantedState, scope: str | None, version: int
) -> tuple[DesiredGrants, DesiredGrants, Group | None]:
    whole = desired_grants(state.grants, version)
    if scope is None:
        return whole, DesiredGrants(databases={}, problems=whole.problems), None
    if not scope:
        return whole, whole, None
    shared, own = _split(whole)
    if not shared.databases:
        return whole, whole, None
    # The scope comes first and has no line break.
    # Every group is named by these lines: another wording of ``describe`` moves all logins to new
    # groups.
    text = "\n".join([scope, *shared.describe()])
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    claim = GroupClaim(installation=state.claim.installation, set=digest)
    group = Group(name=GROUP_PREFIX + digest, claim=claim, grants=shared, members=[])
    return whole, own, group


def _split(whole: DesiredGrants) -> tuple[DesiredGrants, DesiredGrants]:
    """Return the grants without grant option, and those with it."""
    shared: dict[str, DatabaseGrants] = {}
    own: dict[str, DatabaseGrants] = {}
    for name, grants in whole.databases.items():
        plain, passed_on = _with_option(grants, option=False), _with_option(grants, option=True)
        if plain.database or plain.objects:
            shared[name] = plain
        if passed_on.database or passed_on.objects or name not in shared:
            own[name] = passed_on
    return DesiredGrants(databases=shared), DesiredGrants(databases=own, problems=whole.problems)


def _with_option(grants: DatabaseGrants, *, option: bool) -> DatabaseGrants:
    def some(privileges: Mapping[str, bool]) -> dict[str, bool]:
        return {name: has for name, has in privileges.items() if has is option}

    objects = {target: some(privileges) for target, privileges in grants.objects.items()}
    return DatabaseGrants(
        database=some(grants.database),
        objects={target: left for target, left in objects.items() if left},
    )


class Membering(SharedChange, frozen=True, kw_only=True):
    """Make roles members of a group, or take them out of it."""

    group: str
    joins: bool
    version: int
    grantor: str = ""

    def only(self, usernames: Iterable[str]) -> Membering:
        """Return the same change for some of the roles."""
        names = tuple(usernames)
        if self.joins:
            return joining(self.group, names, self.version)
        return leaving(self.group, names, self.version, self.grantor, self.why)


def joining(group: str, usernames: Iterable[str], version: int) -> Membering:
    """Return a change that adds members, who inherit but may not SET ROLE or add members."""
    names = tuple(usernames)
    options = ""
    if version >= GRANT_OPTIONS_VERSION:
        options = " WITH ADMIN FALSE, INHERIT TRUE, SET FALSE"
    return Membering(
        statement=sql.SQL("GRANT {} TO {}" + options).format(
            sql.Identifier(group), _COMMA.join(map(sql.Identifier, names))
        ),
        what=f"make roles members of group {group}",
        why="spec.groups is Shared, and this group has the privileges that spec.grants ask for",
        usernames=names,
        alone=True,
        group=group,
        joins=True,
        version=version,
    )


def leaving(
    group: str, usernames: Iterable[str], version: int, grantor: str, why: str
) -> Membering:
    """Return a change that takes roles out of a group; ``grantor`` made them members."""
    names = tuple(usernames)
    statement = sql.SQL("REVOKE {} FROM {}").format(
        sql.Identifier(group), _COMMA.join(map(sql.Identifier, names))
    )
    # Since PostgreSQL 16 each grantor has a membership of its own, and REVOKE takes that of one
    # grantor alone (https://www.postgresql.org/docs/16/sql-revoke.html).
    if version >= GRANT_OPTIONS_VERSION and grantor:
        statement += sql.SQL(" GRANTED BY {} CASCADE").format(sql.Identifier(grantor))
    return Membering(
        statement=statement,
        what=f"remove members from group {group}",
        why=why,
        usernames=names,
        alone=True,
        group=group,
        joins=False,
        version=version,
        grantor=grantor,
    )


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of groups; ``taken`` has an error for each name that another role has."""

    changes: list[AccessStatement] = []
    taken: Mapping[str, AccessError] = {}


def plan_groups(sharing: Sharing, snapshot: ServerSnapshot) -> GroupPlan:
    """Return the missing changes of groups and memberships, which come before privileges."""
    changes: list[AccessStatement] = []
    taken: dict[str, AccessError] = {}
    for name, group in sharing.groups.items():
        role = snapshot.roles.get(name)
        if role is not None and role.group != group.claim:
            taken[name] = refusal(
                "GroupConflict",
                f"role {name} has the name of the group for these grants, but this installation"
                " of Fairlead did not create it; rename or drop the role, or set spec.groups to"
                " None",
            )
            continue
        changes += _making(group, role)
        changes += _expelling(group, snapshot)
        version = snapshot.server.version
        missing = [
            member
            for member in group.members
            if not joined(snapshot.roles.get(member), name, version)
        ]
        changes += _joining(group, missing, snapshot)
    return GroupPlan(changes=changes, taken=taken)


def _making(group: Group, role: RoleFacts | None) -> Iterator[AccessStatement]:
    name = sql.Identifier(group.name)

    def change(statement: sql.Composed, what: str, why: str) -> AccessStatement:
        members = tuple(group.members)
        return AccessStatement(
            statement=statement, what=what, why=why, usernames=members, alone=True
        )

    if role is None:
        yield change(
            sql.SQL("CREATE ROLE {} NOLOGIN").format(name),
            f"create group {group.name}",
            "spec.groups is Shared, and there is no group for these grants",
        )
        yield change(
            sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(group.claim.text())),
            f"claim group {group.name}",
            "the comment says which installation created the group",
        )
        return
    # Each is named only where it is to be taken: without superuser even NOSUPERUSER of a role that
    # is none is refused.
    words = (["NOLOGIN"] if role.login else []) + [f"NO{one}" for one in sorted(role.powers)]
    if words:
        yield change(
            sql.SQL("ALTER ROLE {} " + " ".join(words)).format(name),
            f"take {', '.join(words)} from group {group.name}".replace("NO", ""),
            "a group of logins must have neither a login nor powers of its own",
        )


def _expelling(group: Group, snapshot: ServerSnapshot) -> Iterator[AccessStatement]:
    """Yield the removal of foreign members from the group, and of the group from others."""
    version = snapshot.server.version
    members = tuple(group.members)
    for intruder in snapshot.intruders.get(group.name, ()):
        if intruder.by_admin:
            why = "no PostgresAccess asks for this member"
            change = leaving(group.name, [intruder.name], version, intruder.grantor, why)
            yield _for(change, members)
    role = snapshot.roles.get(group.name)
    for name, membership in sorted(role.groups.items()) if role is not None else ():
        if _may_revoke(membership, snapshot):
            why = "the group must have only the privileges that spec.grants ask for"
            change = leaving(name, [group.name], version, membership.grantor, why)
            yield _for(change, members)


def _for(change: Membering, usernames: tuple[str, ...]) -> AccessStatement:
    """Return the same statement as a change for these usernames."""
    return AccessStatement(
        statement=change.statement,
        what=change.what,
        why=change.why,
        usernames=usernames,
        alone=True,
    )


def joined(role: RoleFacts | None, group: str, version: int) -> bool:
    """Whether the role is a member of the group with the options of :func:`joining`."""
    membership = role.groups.get(group) if role is not None else None
    if membership is None or membership.admin:
        return False
    return version < GRANT_OPTIONS_VERSION or (membership.inherit and not membership.set)


def _joining(
    group: Group, missing: Sequence[str], snapshot: ServerSnapshot
) -> Iterator[AccessStatement]:
    version = snapshot.server.version
    if missing:
        yield joining(group.name, missing, version)
    if version >= GRANT_OPTIONS_VERSION:
        return
    # Before PostgreSQL 16 a GRANT never revokes the option.
    admins = [one for one in missing if _is_admin(snapshot.roles.get(one), group.name)]
    if admins:
        statement = sql.SQL("REVOKE ADMIN OPTION FOR {} FROM {} CASCADE").format(
            sql.Identifier(group.name), _COMMA.join(map(sql.Identifier, admins))
        )
        yield AccessStatement(
            statement=statement,
            what=f"revoke the right to add members to group {group.name}",
            why="members of a shared group may not add other members",
            usernames=tuple(admins),
            alone=True,
        )


def _is_admin(role: RoleFacts | None, group: str) -> bool:
    return role is not None and group in role.groups and role.groups[group].admin


def _may_revoke(membership: Membership, snapshot: ServerSnapshot) -> bool:
    return membership.by_admin or snapshot.server.superuser


def careful(state: WantedState) -> WantedState:
    """Return the same access, from whose login itself nothing is revoked."""
    return msgspec.structs.replace(state, policy="Additive", ledger=frozenset())


def plan_leaving(
    states: Iterable[WantedState],
    sharing: Sharing,
    snapshot: ServerSnapshot,
    held_up: Collection[str] = (),
    *,
    foreseen: bool = False,
) -> list[AccessStatement]:
    """Return the changes that take superseded memberships and privileges from logins.

    These are memberships in groups of other grants, and a login's own privileges on databases that
    its group has too.

    Args:
        states: the accesses.
        sharing: the owners of the grants.
        snapshot: the snapshot of the catalogs.
        held_up: usernames that lack privileges which they could have, and lose nothing yet.
        foreseen: whether to return also changes that need other changes of a plan first.
    """
    version = snapshot.server.version
    lacking = {
        name
        for name, group in sharing.groups.items()
        if name not in snapshot.roles
        or any(
            difference.verb == "grant"
            for difference in database_differences(group.state, group.grants, snapshot)
        )
    }
    # By grantor too, whom REVOKE has to name.
    left: dict[tuple[str, str], list[str]] = {}
    actions: dict[DatabaseAction, list[str]] = {}
    for state in states:
        name, group = state.username, sharing.group_of.get(state.username)
        role = snapshot.roles.get(name)
        settled = foreseen or group is None
        settled = settled or (group not in lacking and joined(role, group or "", version))
        if role is None or name in held_up or sharing.keeps_own_privileges(name) or not settled:
            continue
        for other in snapshot.shared(role, state.claim.installation):
            if other != group and _may_revoke(role.groups[other], snapshot):
                left.setdefault((other, role.groups[other].grantor), []).append(name)
        if group is not None:
            for action in database_differences(state, sharing.own[name], snapshot):
                if action.verb == "revoke":
                    actions.setdefault(action, []).append(name)
    why = "the role has the privileges of spec.grants without it"
    return [
        *(
            leaving(other, names, version, grantor, why)
            for (other, grantor), names in sorted(left.items())
        ),
        *(database_change(action, names) for action, names in actions.items()),
    ]


def differs(state: WantedState, sharing: Sharing, snapshot: ServerSnapshot) -> bool:
    """Whether a login lacks its membership, or is in another group of the installation."""
    role = snapshot.roles.get(state.username)
    group = sharing.group_of.get(state.username)
    if group is not None and not joined(role, group, snapshot.server.version):
        return True
    others = snapshot.shared(role, state.claim.installation) if role is not None else []
    return any(
        other != group and role is not None and _may_revoke(role.groups[other], snapshot)
        for other in others
    )


def group_warnings(state: WantedState, sharing: Sharing, snapshot: ServerSnapshot) -> list[str]:
    """Return warnings about memberships that only another grantor can revoke."""
    role, name = snapshot.roles.get(state.username), sharing.group_of.get(state.username)
    warnings = [
        _foreign(state.username, other)
        for other in snapshot.shared(role, state.claim.installation)
        if role is not None and other != name and not _may_revoke(role.groups[other], snapshot)
    ]
    if name is None or name not in sharing.groups:
        return warnings
    strangers = [one for one in snapshot.intruders.get(name, ()) if not one.by_admin]
    warnings += [_foreign(one.name, name) for one in strangers]
    group = snapshot.roles.get(name)
    for other, membership in sorted(group.groups.items()) if group is not None else ():
        if not _may_revoke(membership, snapshot):
            warnings.append(_foreign(name, other))
    return warnings


def _foreign(member: str, group: str) -> str:
    return (
        f"another role made {member} a member of {group}; that role has to revoke the membership"
    )
