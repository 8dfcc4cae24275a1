"""Whose consumer identities are, by the namespaces that were made for them (S1)."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.portal.identity.people import Person, Prefixes
from fairlead.provider.identity import GROUP_AUTHOR
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster


_OURS = (GROUP_AUTHOR, "https://", "http://")
_BY_IDENTITY = "consumer-identity"
_BY_AUTHOR = "consumer-author"


class Owned(NamedTuple):
    """An identity that a person may bind with: its author as stored, and its namespace if any."""

    author: str
    namespace: str = ""


class Ownership:
    """Finds cluster namespaces in the cache, by identity and by author.

    With ``original_authors`` a namespace of kube-bind's own backend belongs to the bare ``sub``
    that it noted.
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

    def of(self, person: Person, identity: str) -> Owned | None:
        """The identity as this person may bind with it; None where it is another's."""
        found = list(self._namespaces.by_index(_BY_IDENTITY, identity))
        if not found:
            return None if self._is_anothers(person, identity) else Owned(person.author)
        names = self.authors(person)
        for one in found:
            author = one.meta.annotations.get(ANNOTATION_AUTHOR, "")
            if author and author in names and len(found) == 1:
                return Owned(author, one.meta.name)
        return None

    def _is_anothers(self, person: Person, identity: str) -> bool:
        """Whether a new identity would pass for another person's, or for a cluster namespace.

        A person without a cluster of their own binds as themselves, and administrators name
        consumers by identity or by namespace.
        """
        if identity.startswith(_OURS) and identity != person.author:
            return True
        prefixed = bool(self._prefix) and identity.startswith(self._prefix)
        return prefixed or self._namespaces.get("", identity) is not None

    def authors(self, person: Person) -> frozenset[str]:
        """The author names whose identities are a person's."""
        names = {person.author}
        names.update(GROUP_AUTHOR + group for group in self._prefixes.groups_of(person))
        # A subject that looks like one of our own author names would be taken for another.
        if self._original and not person.subject.startswith(_OURS):
            names.add(person.subject)
        return frozenset(names)

    def namespaces(self, person: Person) -> list[Object]:
        """The cluster namespaces that are a person's, or their groups'."""
        return [
            found
            for author in sorted(self.authors(person))
            for found in self._namespaces.by_index(_BY_AUTHOR, author)
        ]

    def count(self, person: Person) -> int:
        """How many identities are a person's own, those of their groups left out."""
        return self._number(person.author) + self.count_original(person)

    def count_original(self, person: Person) -> int:
        """How many of these kube-bind's own backend has made."""
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
