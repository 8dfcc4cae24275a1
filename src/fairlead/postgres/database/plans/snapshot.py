"""What the catalogs said, as values: the input of every plan; and whose a role is by them.

A role's comment makes a claim: it says for which PostgresAccess of which installation the role was
made. Comments on roles are shared by all databases, readable by everyone and not the role's own to
change, so a claim settles conflicts between namespaces and between clusters on one server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from fairlead.api.timestamps import moment
from fairlead.postgres.errors import AccessError, refusal


Privileges = Mapping[str, bool]
"""Privileges, and whether each comes with its grant option."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server and the session's own role on it.

    ``version`` is ``server_version_num``; ``system_identifier`` is the same under every host
    name of one server. ``now`` is the time by the server's clock, which ends logins there.
    """

    version: int
    version_text: str
    system_identifier: str
    admin: str
    admin_oid: int
    superuser: bool
    reads_verifiers: bool
    now: datetime | None = None

    @property
    def moment(self) -> datetime:
        """This moment, by our clock where the server was not asked for its own."""
        return self.now or moment()


_PREFIX = "managed by Fairlead: "

GIVEN_UP = "managed by Fairlead once, and given up"
"""The comment of a role that keeps its login and is nobody's any more."""

CLAIM_PATTERN = _PREFIX + "{%"
"""What every claim is LIKE."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose role it is; ``installation`` is one cluster's operator.

    Everybody who logs in reads comments on roles, so that ``object`` is a keyed hash of the
    object's namespace and name. Older claims have those themselves. A claim without a ``uid`` was
    made by an import, for an object that need not be there yet.
    """

    installation: str
    object: str = ""
    uid: str
    namespace: str = ""
    name: str = ""

    def text(self) -> str:
        """The comment, without the names where there is a hash of them."""
        shown = self if not self.object else msgspec.structs.replace(self, namespace="", name="")
        return _PREFIX + msgspec.json.encode(shown).decode()

    @property
    def is_imported(self) -> bool:
        """Whether its object has changed nothing of the role itself so far."""
        return not self.uid

    def same_object(self, other: Claim) -> bool:
        """Whether both name one object, a recreated one included."""
        if self.installation != other.installation:
            return False
        if (self.uid and self.uid == other.uid) or (self.object and self.object == other.object):
            return True
        names = (self.namespace, self.name)
        return names == (other.namespace, other.name) and names != ("", "")


def parse_claim(comment: str | None) -> Claim | None:
    """The claim that a role's comment makes, if it makes one."""
    if comment is None or not comment.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(_line(comment).removeprefix(_PREFIX), type=Claim)
    except msgspec.DecodeError:
        return None


def parse_comment(comment: str | None) -> tuple[Claim | None, str, GroupClaim | None]:
    """Return what a role's comment says: a claim, what people have written, a group's claim."""
    return parse_claim(comment), parse_note(comment), parse_group(comment)


def _line(comment: str) -> str:
    """What is ours in a comment; what people have written follows in lines of its own."""
    return comment.partition("\n")[0]


def parse_note(comment: str | None) -> str:
    """What people have written in a role's comment."""
    if comment is None or not comment.startswith((_PREFIX, GIVEN_UP, _GROUP_PREFIX)):
        return comment or ""
    return comment.partition("\n")[2]


_GROUP_PREFIX = "managed by Fairlead as a group of logins: "

GROUP_PATTERN = _GROUP_PREFIX + "{%"
"""What the comment of every group of ours is LIKE."""


class GroupClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose group it is; ``set`` is the digest of its grants that its name ends with."""

    installation: str
    set: str

    def text(self) -> str:
        """The comment."""
        return _GROUP_PREFIX + msgspec.json.encode(self).decode()


def parse_group(comment: str | None) -> GroupClaim | None:
    """What a role's comment says of it as a group of ours, if it does."""
    if comment is None or not comment.startswith(_GROUP_PREFIX):
        return None
    try:
        return msgspec.json.decode(_line(comment).removeprefix(_GROUP_PREFIX), type=GroupClaim)
    except msgspec.DecodeError:
        return None


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A role's membership in a group; ``by_admin`` says that the administrator granted it.

    It may have done so in the name of another role, the ``grantor``, whose privileges it has.
    """

    inherit: bool = True
    set: bool = True
    admin: bool = False
    by_admin: bool = True
    grantor: str = ""


class RoleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One row of pg_roles; ``powers`` are the attributes that no access may have.

    ``comment`` is its comment as it is, ``note`` what people have written there, which outlives
    claims.
    ``connection_limit`` is -1 for none, ``valid_until`` a timestamp in ISO 8601 and UTC, "" for
    none. ``config`` are the settings that hold in every database, ``turned_in`` the databases in
    which its sessions begin as another role instead, ``groups`` the memberships. ``overfull`` says
    that the settings are larger than anybody asks for, and were not read; ``overfull_in`` names
    the databases whose own settings for the role are.
    """

    oid: int
    name: str
    login: bool
    powers: frozenset[str] = frozenset()
    comment: str | None = None
    claim: Claim | None = None
    note: str = ""
    verifier: str | None = None
    inherit: bool = True
    connection_limit: int = -1
    valid_until: str = ""
    config: Mapping[str, str] = {}
    turned_in: tuple[str, ...] = ()
    overfull: bool = False
    overfull_in: tuple[str, ...] = ()
    groups: Mapping[str, Membership] = {}
    group: GroupClaim | None = None


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group that somebody wants to be a member of; ``powerful`` ones would give powers."""

    powerful: bool = False


class Intruder(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group of ours that nobody of us has made one; see :class:`Membership`."""

    name: str
    grantor: str
    by_admin: bool


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One database; ``owner`` is an oid, ``public`` what everybody may do."""

    name: str
    connectable: bool
    owner: int = 0
    public: frozenset[str] = frozenset()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The maintenance database's view of the roles and databases that were asked for.

    ``databases`` are also those in which the roles have something: ``dependents`` names them by
    the roles' oids, and ``held`` gives by oid and database the privileges on databases.
    """

    server: ServerFacts
    roles: Mapping[str, RoleFacts]
    databases: Mapping[str, DatabaseFacts]
    dependents: Mapping[int, frozenset[str]] = {}
    held: Mapping[int, Mapping[str, Privileges]] = {}
    claimed: Mapping[str, Claim] = {}
    """Roles that carry a claim of this installation, when they were asked for."""
    groups: Mapping[str, GroupClaim] = {}
    """Groups of ours: those asked for, and those that the roles are members of."""
    crowded: frozenset[str] = frozenset()
    """Roles with more objects and privileges than were looked at."""
    deserted: frozenset[str] = frozenset()
    """Those of this installation without members, when claims were asked for."""
    intruders: Mapping[str, tuple[Intruder, ...]] = {}
    """By the names of groups that were asked for."""

    def shared(self, role: RoleFacts | None, installation: str) -> list[str]:
        """The groups of an installation that the role is a member of."""
        if role is None or not self.groups:
            return []
        claims = ((name, self.groups.get(name)) for name in role.groups)
        return [name for name, one in claims if one and one.installation == installation]

    def without_shared(self, role: RoleFacts | None, installation: str) -> RoleFacts | None:
        """The role as it would be without those."""
        shared = self.shared(role, installation)
        if role is None or not shared:
            return role
        left = {name: one for name, one in role.groups.items() if name not in shared}
        return msgspec.structs.replace(role, groups=left)


NOT_OURS = frozenset({"AdoptionRefused", "UserReserved", "UsernameConflict"})
"""Reasons of roles that are not an access's to change."""


def check_role(role: RoleFacts | None, claim: Claim, admin: str, *, adopt: bool = False) -> None:
    """Refuse roles that are not this access's to change.

    The first claim wins, so that neither namespaces nor clusters take a role from one another. A
    role that nobody claims may be taken over with ``adopt``.

    Raises:
        AccessError: UserReserved, AdoptionRefused or UsernameConflict.
    """
    if role is None:
        return
    if role.name == admin:
        raise refusal(
            "UserReserved",
            f"role {role.name} is the administrator's own; choose another spec.username",
        )
    if role.claim is None and not adopt:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} exists and was not made by Fairlead;"
            " choose another spec.username, or drop the role",
        )
    if role.claim is not None and not role.claim.same_object(claim):
        raise refusal("UsernameConflict", _conflict(role.name, role.claim, claim))
    if role.powers:
        raise refusal(
            "UserReserved",
            f"role {role.name} has been given {', '.join(sorted(role.powers))};"
            " take that away, or choose another spec.username",
        )


def check_roles(
    names: Iterable[str], snapshot: Snapshot, claim: Claim, *, adopt: bool = False
) -> None:
    """The same for an owner and its logins, of which only the owner is ever taken over.

    Raises:
        AccessError: see :func:`check_role`.
    """
    for number, name in enumerate(names):
        owner = number == 0
        check_role(snapshot.roles.get(name), claim, snapshot.server.admin, adopt=adopt and owner)


def takes_over(role: RoleFacts | None, *, adopt: bool) -> bool:
    """Whether whoever may have the role takes it over from whom made it by hand."""
    if role is None:
        return False
    return adopt if role.claim is None else role.claim.is_imported


def check_password(role: RoleFacts | None, username: str, *, keeps: bool) -> None:
    """Refuse to make a role that shall keep the password which it was made with.

    Raises:
        AccessError: RoleNotFound.
    """
    if role is None and keeps:
        raise AccessError(
            "RoleNotFound",
            f"role {username} does not exist, and spec.passwordPolicy.onAdoption Keep makes none;"
            " create it, or remove that field to have it made with a new password",
        )


def check_adoption(
    role: RoleFacts | None, groups: Mapping[str, GroupFacts], *, adopt: bool
) -> None:
    """Refuse to take over a role that others have given powers to, be it by a group.

    Raises:
        AccessError: AdoptionRefused.
    """
    if role is None or not takes_over(role, adopt=adopt):
        return
    if groups.get(role.name, GroupFacts()).powerful:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} has powers over roles or over the server, or is a member of a role"
            " that has; choose another spec.username",
        )


def _conflict(username: str, holder: Claim, claim: Claim) -> str:
    """Say who holds the role, but no names of another cluster or namespace."""
    if holder.installation != claim.installation:
        return (
            f"role {username} belongs to another installation of Fairlead;"
            " choose another spec.username, or take the claim off if that installation is gone:"
            " COMMENT ON ROLE ... IS NULL, and spec.adoptionPolicy"
        )
    return f"role {username} is taken by another PostgresAccess; choose another spec.username"
