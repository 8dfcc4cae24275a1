"""People, and their names in Kubernetes RBAC."""

from __future__ import annotations

import msgspec

from fairlead.portal.http.errors import forbidden


FEWER_GROUPS = (
    "let it send only the groups that are assigned to this application, or app roles in the claim "
    "of `--oidc-groups-claim`"
)
"""The remedy for a person with too many groups; "it" is the issuer."""


class Person(msgspec.Struct, frozen=True, rename="camel"):
    """A person of an issuer; ``subject`` is the issuer's permanent id of them, usually ``sub``.

    ``name`` is for display only: it may change, and two people may share it. With
    ``groups_left_out`` the issuer said that there are groups, and named none.
    """

    issuer: str
    subject: str
    name: str = ""
    groups: tuple[str, ...] = ()
    groups_left_out: bool = False

    @property
    def author(self) -> str:
        """The name that owns consumer identities: issuer and subject."""
        return f"{self.issuer}/{self.subject}"

    @property
    def remark(self) -> str:
        """The reason why rights that the person has by a group do not count, "" if they do."""
        if not self.groups_left_out:
            return ""
        return (
            "at your sign-in the issuer named no groups, since you have too many for it to list, "
            "so rights by group do not count. Remedy for who runs the issuer: "
            f"{FEWER_GROUPS}; then sign in again"
        )

    @property
    def warnings(self) -> dict[str, str]:
        """The header that tells the person's program the remark, as API servers tell theirs."""
        return {"Warning": f'299 - "{self.remark}"'} if self.remark else {}


class Prefixes(msgspec.Struct, frozen=True):
    """Prefixes of an issuer's user and group names in SubjectAccessReviews.

    With empty prefixes the names are used as they are, as kube-bind does.
    """

    username: str = "oidc:"
    groups: str = "oidc:"

    def user(self, person: Person) -> str:
        """Return the person's user name in reviews.

        Raises:
            Refusal: the name would begin with ``system:``.
        """
        name = self.username + person.subject
        # RBAC grants rights to such names on every cluster, for example to system:masters.
        if name.startswith(_RESERVED):
            raise forbidden(
                "this name cannot sign in here", reason=f"user {name!r} is Kubernetes' own"
            )
        return name

    def groups_of(self, person: Person) -> tuple[str, ...]:
        """Return the person's groups in reviews, without any that begin with ``system:``."""
        # Left out, while the rest of the groups counts: an issuer may have such a group.
        named = (self.groups + group for group in person.groups)
        return tuple(name for name in named if not name.startswith(_RESERVED))


_RESERVED = "system:"
