"""Whose a role is: which ones an access may make or change, and why not others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.postgres.database.plans.attributes import GroupFacts
from fairlead.postgres.database.plans.snapshot import Claim, RoleFacts, Snapshot
from fairlead.postgres.errors import AccessError, refusal


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
