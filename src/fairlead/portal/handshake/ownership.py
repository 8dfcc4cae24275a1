"""Owners of consumer identities, as the cluster namespaces record them (S1)."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.portal.identity.sessions import Person, Prefixes
from fairlead.provider.identity import GROUP_AUTHOR
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster


_OURS = (GROUP_AUTHOR, "https://", "http://")
"""Beginnings of author names: a group's, and ISSUER/SUB of a person."""
_BY_IDENTITY = "consumer-identity"
_BY_AUTHOR = "consumer-author"


class OwnedNamespace(NamedTuple):
    """A person's identity of a consumer: its author, and its cluster namespace, "" if new."""

    author: str
    namespace: str = ""


class Ownership:
    """Finds cluster namespaces in the cache by identity and by author.

    With ``original_authors`` a namespace that kube-bind's own backend made belongs to the ``sub``
    in its annotation.
    """

    def __init__(
        self,
        cluster: Cluster,
        prefixes: Prefixes,
        *,
        namespace_prefix: str = "",
        original_authors: bool = False,
    ) -> None:
        self._prefixes = prefixes
        self._prefix = namespace_prefix
        self._original = original_authors
        self._namespaces = cluster.informer(NAMESPACES, metadata_only=True)
        self._namespaces.add_index(_BY_IDENTITY, _identity)
        self._namespaces.add_index(_BY_AUTHOR, _author)

    def of(self, person: Person, identity: str) -> OwnedNamespace | None:
        """Return the identity with its owner and namespace; None if it is another person's."""
        namespaces = list(self._namespaces.by_index(_BY_IDENTITY, identity))
        if not namespaces:
            return None if self._is_anothers(person, identity) else OwnedNamespace(person.author)
        names = self.authors(person)
        for namespace in namespaces:
            author = namespace.meta.annotations.get(ANNOTATION_AUTHOR, "")
            # Two namespaces with one identity: it is not known which of the authors owns it, so
            # neither gets credentials.
            if author and author in names and len(namespaces) == 1:
                return OwnedNamespace(author, namespace.meta.name)
        return None

    def _is_anothers(self, person: Person, identity: str) -> bool:
        """Whether a new identity looks like another person's, or like a cluster namespace.

        An author name is the identity of a person who binds without a cluster, and administrators
        name consumers by identity or by namespace, so neither may be claimed.
        """
        if identity.startswith(_OURS) and identity != person.author:
            return True
        prefixed = bool(self._prefix) and identity.startswith(self._prefix)
        return prefixed or self._namespaces.get("", identity) is not None

    def authors(self, person: Person) -> frozenset[str]:
        """Return the author names of a person: their own, their groups', kube-bind's."""
        names = {person.author}
        names.update(GROUP_AUTHOR + group for group in self._prefixes.groups_of(person))
        # A ``sub`` in the form of our author names could impersonate another person.
        if self._original and not person.subject.startswith(_OURS):
            names.add(person.subject)
        return frozenset(names)

    def namespaces(self, person: Person) -> list[Object]:
        """Return the cluster namespaces of a person and of their groups."""
        return [
            namespace
            for author in sorted(self.authors(person))
            for namespace in self._namespaces.by_index(_BY_AUTHOR, author)
        ]

    def count(self, person: Person) -> int:
        """Return the number of a person's own identities, without their groups'."""
        return self._number(person.author) + self.count_original(person)

    def count_original(self, person: Person) -> int:
        """Return the number of a person's identities that kube-bind's own backend made."""
        return sum(
            self._number(name)
            for name in self.authors(person) - {person.author}
            if not name.startswith(GROUP_AUTHOR)
        )

    def _number(self, author: str) -> int:
        return len(self._namespaces.by_index(_BY_AUTHOR, author))


def _identity(namespace: Object) -> list[str]:
    identity = identity_of(namespace)
    return [identity] if identity else []


def _author(namespace: Object) -> list[str]:
    author = namespace.meta.annotations.get(ANNOTATION_AUTHOR, "")
    return [author] if author and identity_of(namespace) else []
