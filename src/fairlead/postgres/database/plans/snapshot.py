"""Snapshot of the catalogs, the input of every plan, and the claims on roles in it.

A role's comment has a claim: the PostgresAccess and the installation that the role was made for.
Comments on roles are in all databases, each role can read them, and a role cannot change its own.
So a claim settles conflicts between namespaces and between clusters on one server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from fairlead.api.timestamps import moment
from fairlead.postgres.errors import AccessError, refusal


Privileges = Mapping[str, bool]
"""Privileges, and whether each has the grant option."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A server and the administrator's role on it.

    ``version`` is ``server_version_num``. ``system_identifier`` is the same for all host names of
    one server. ``now`` is the time of the server's clock, which ends logins there.
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
        """The server's time, or the operator's if the server was not asked."""
        return self.now or moment()


class ServerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of a running server by which no other one has all; "" for unknown ones.

    A physical copy has the same ``system_identifier``. If it was promoted or restored, it has
    another ``timeline``, and if it runs beside the original, another ``address``, which is the one
    that the server itself sees. A restart at the same address changes none of them.
    """

    system_identifier: str
    timeline: str
    address: str

    def __str__(self) -> str:
        return f"{self.system_identifier}/{self.timeline} at {self.address}"


_PREFIX = "managed by Fairlead: "

# It begins like a claim, so that unmanagedUsers: Drop spares the role, but it is none: an access
# with adoptionPolicy IfUnclaimed may take the role over.
GIVEN_UP = "managed by Fairlead once, and given up"
"""Comment of a role that keeps its login but belongs to no PostgresAccess any more."""

CLAIM_PATTERN = _PREFIX + "{%"
"""LIKE pattern of every claim."""


class RoleClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claim of a PostgresAccess on a role; ``installation`` is one cluster's operator.

    Every role can read comments on roles, therefore ``object`` is a keyed hash of the object's
    namespace and name. Older claims have ``namespace`` and ``name`` instead. A claim without a
    ``uid`` was made by an import, for an object that need not exist yet.
    """

    installation: str
    object: str = ""
    uid: str
    namespace: str = ""
    name: str = ""

    def text(self) -> str:
        """Return the comment, without namespace and name if the claim has their hash."""
        shown = self if not self.object else msgspec.structs.replace(self, namespace="", name="")
        return _PREFIX + msgspec.json.encode(shown).decode()

    @property
    def is_imported(self) -> bool:
        """Whether an import made the claim, and its object has not changed the role so far."""
        return not self.uid

    def same_object(self, other: RoleClaim) -> bool:
        """Whether both claims name the same object, a recreated one included."""
        if self.installation != other.installation:
            return False
        # An object that was made anew has the same hash. After a loss of the hashes' key, its uid
        # still tells.
        if (self.uid and self.uid == other.uid) or (self.object and self.object == other.object):
            return True
        names = (self.namespace, self.name)
        return names == (other.namespace, other.name) and names != ("", "")


def parse_claim(comment: str | None) -> RoleClaim | None:
    """Return the claim in a role's comment, None without one."""
    if comment is None or not comment.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(_line(comment).removeprefix(_PREFIX), type=RoleClaim)
    except msgspec.DecodeError:
        return None


def parse_comment(comment: str | None) -> tuple[RoleClaim | None, str, GroupClaim | None]:
    """Return the claim, the note of users and the group's claim in a role's comment."""
    return parse_claim(comment), parse_note(comment), parse_group(comment)


def _line(comment: str) -> str:
    """Return the operator's line of a comment; the note of users is in the lines below."""
    return comment.partition("\n")[0]


def parse_note(comment: str | None) -> str:
    """Return the note of users in a role's comment, "" without one."""
    # A comment without our line is of users alone, and becomes the note below the claim.
    if comment is None or not comment.startswith((_PREFIX, GIVEN_UP, _GROUP_PREFIX)):
        return comment or ""
    return comment.partition("\n")[2]


_GROUP_PREFIX = "managed by Fairlead as a group of logins: "

GROUP_PATTERN = _GROUP_PREFIX + "{%"
"""LIKE pattern of the comment of every shared group."""


class GroupClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of an installation on a shared group; ``set`` is the digest in its name."""

    installation: str
    set: str

    def text(self) -> str:
        """Return the comment."""
        return _GROUP_PREFIX + msgspec.json.encode(self).decode()


def parse_group(comment: str | None) -> GroupClaim | None:
    """Return the claim of a shared group in a role's comment, None without one."""
    if comment is None or not comment.startswith(_GROUP_PREFIX):
        return None
    try:
        return msgspec.json.decode(_line(comment).removeprefix(_GROUP_PREFIX), type=GroupClaim)
    except msgspec.DecodeError:
        return None


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A role's membership in a group; ``by_admin`` says that the administrator granted it.

    That includes grants in the name of another ``grantor`` whose privileges the administrator has.
    """

    inherit: bool = True
    set: bool = True
    admin: bool = False
    by_admin: bool = True
    grantor: str = ""


class RoleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One row of pg_roles; ``powers`` are the attributes that no access may have.

    ``comment`` is the whole comment, ``note`` the part of users, which outlives claims.
    ``connection_limit`` is -1 for none, ``valid_until`` a timestamp in ISO 8601 and UTC, "" for
    none. ``config`` are the settings for all databases, ``turned_in`` the databases in which
    sessions of the role begin as another role, ``groups`` the memberships. ``overfull`` says that
    the settings for all databases are too large and were not read; ``overfull_in`` names the
    databases for which the same is true. ``sessions`` is the number of open sessions that logged
    in as the role.
    """

    oid: int
    name: str
    login: bool
    powers: frozenset[str] = frozenset()
    comment: str | None = None
    claim: RoleClaim | None = None
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
    sessions: int = 0


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group that an access names in memberOf; a ``powerful`` one would give it powers."""

    powerful: bool = False


class Intruder(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a shared group that no operator has added; see :class:`Membership`."""

    name: str
    grantor: str
    by_admin: bool


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One database; ``owner`` is an oid, ``public`` the privileges of PUBLIC."""

    name: str
    connectable: bool
    oid: int = 0
    owner: int = 0
    public: frozenset[str] = frozenset()


class ServerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The requested roles and databases, as read in the maintenance database.

    ``databases`` includes those in which the roles have objects or privileges; ``dependents``
    names these by the roles' oids. ``privileges`` has the privileges on databases, by oid and
    database.
    """

    server: ServerFacts
    roles: Mapping[str, RoleFacts]
    databases: Mapping[str, DatabaseFacts]
    dependents: Mapping[int, frozenset[str]] = {}
    privileges: Mapping[int, Mapping[str, Privileges]] = {}
    claimed: Mapping[str, RoleClaim] = {}
    """Claims of this installation by role, empty unless claims were requested."""
    groups: Mapping[str, GroupClaim] = {}
    """Claims of shared groups by name: the requested groups, and those of the roles."""
    crowded: frozenset[str] = frozenset()
    """Names of roles with more objects and privileges than were counted."""
    deserted: frozenset[str] = frozenset()
    """Names of this installation's groups without members, empty unless claims were requested."""
    intruders: Mapping[str, tuple[Intruder, ...]] = {}
    """Foreign members of the requested groups, by the group's name."""

    def shared(self, role: RoleFacts | None, installation: str) -> list[str]:
        """Return the names of an installation's groups that the role is a member of."""
        if role is None or not self.groups:
            return []
        claims = ((name, self.groups.get(name)) for name in role.groups)
        return [name for name, one in claims if one and one.installation == installation]

    def without_shared(self, role: RoleFacts | None, installation: str) -> RoleFacts | None:
        """Return the role without its memberships in the installation's groups."""
        shared = self.shared(role, installation)
        if role is None or not shared:
            return role
        left = {name: one for name, one in role.groups.items() if name not in shared}
        return msgspec.structs.replace(role, groups=left)


NOT_OURS = frozenset({"AdoptionRefused", "UserReserved", "UsernameConflict"})
"""Reasons of errors about a role that the access may not change."""


def check_role(
    role: RoleFacts | None, claim: RoleClaim, admin: str, *, adopt: bool = False
) -> None:
    """Refuse roles that the access may not change.

    The first claim wins, so that neither namespaces nor clusters take a role from one another. A
    role without a claim needs ``adopt``.

    Raises:
        AccessError: UserReserved, AdoptionRefused or UsernameConflict.
    """
    if role is None:
        return
    if role.name == admin:
        raise refusal(
            "UserReserved",
            f"role {role.name} is the administrator of the server; choose another spec.username",
        )
    if role.claim is None and not adopt:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} exists, and Fairlead did not create it; choose another"
            " spec.username, or drop the role",
        )
    if role.claim is not None and not role.claim.same_object(claim):
        raise refusal("UsernameConflict", _conflict(role.name, role.claim, claim))
    # Also with our claim on it: the Secret's password would log in with these powers.
    if role.powers:
        raise refusal(
            "UserReserved",
            f"role {role.name} has {', '.join(sorted(role.powers))}; remove that, or choose"
            " another spec.username",
        )


def check_roles(
    names: Iterable[str], snapshot: ServerSnapshot, claim: RoleClaim, *, adopt: bool = False
) -> None:
    """Refuse roles of an owner and its logins that the access may not change.

    Only the owner can be adopted.

    Raises:
        AccessError: see :func:`check_role`.
    """
    for number, name in enumerate(names):
        owner = number == 0
        check_role(snapshot.roles.get(name), claim, snapshot.server.admin, adopt=adopt and owner)


def takes_over(role: RoleFacts | None, *, adopt: bool) -> bool:
    """Whether the access adopts a role that was created by hand."""
    if role is None:
        return False
    return adopt if role.claim is None else role.claim.is_imported


def check_password(role: RoleFacts | None, username: str, *, keeps_password: bool) -> None:
    """Refuse to create a role whose access keeps the password of an existing one.

    Raises:
        AccessError: RoleNotFound.
    """
    if role is None and keeps_password:
        raise AccessError(
            "RoleNotFound",
            f"role {username} does not exist, and with spec.passwordPolicy.onAdoption Keep the"
            " operator creates none; create the role, or remove that field to get it with a new"
            " password",
        )


def check_adoption(
    role: RoleFacts | None, groups: Mapping[str, GroupFacts], *, adopt: bool
) -> None:
    """Refuse to adopt a role that has powers, directly or by a membership.

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


def _conflict(username: str, holder: RoleClaim, claim: RoleClaim) -> str:
    """Return a message about the role's claim, without names of another cluster or namespace."""
    whose, copied = "is taken by another PostgresAccess", "this server is a restored copy"
    if holder.installation != claim.installation:
        whose = "belongs to another installation of Fairlead"
        copied = f"that installation is gone, or {copied}"
    return (
        f"role {username} {whose}; choose another spec.username. If {copied}, the platform team"
        " takes the role over: fairlead postgres take-over"
    )
