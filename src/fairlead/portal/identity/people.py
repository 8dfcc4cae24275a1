"""People, and their names in Kubernetes RBAC."""

from __future__ import annotations

import msgspec

from fairlead.portal.http.errors import forbidden


class Person(msgspec.Struct, frozen=True, rename="camel"):
    """Someone whom an issuer vouches for: ``subject`` is the issuer's name for them, for ever.

    ``name`` is for people to read and proves nothing.
    """

    issuer: str
    subject: str
    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def author(self) -> str:
        """The name under which consumer identities belong to them."""
        return f"{self.issuer}/{self.subject}"


class Prefixes(msgspec.Struct, frozen=True):
    """What stands before the names of an issuer's users and groups in reviews.

    Without prefixes an issuer's names are Kubernetes' own, as kube-bind takes them.
    """

    username: str = "oidc:"
    groups: str = "oidc:"

    def user(self, person: Person) -> str:
        """Their user name in reviews.

        Raises:
            Refusal: the name would be one of Kubernetes' own.
        """
        name = self.username + person.subject
        if name.startswith(_RESERVED):
            raise forbidden(
                "this name cannot sign in here", reason=f"user {name!r} is Kubernetes' own"
            )
        return name

    def groups_of(self, person: Person) -> tuple[str, ...]:
        """Their groups in reviews, without those that would be Kubernetes' own."""
        named = (self.groups + group for group in person.groups)
        return tuple(name for name in named if not name.startswith(_RESERVED))


_RESERVED = "system:"
