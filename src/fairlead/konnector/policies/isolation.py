"""Where the copy of an object lives on the other side: the isolation strategies of kube-bind.

A strategy maps keys, and says what owns a new copy. Sources: kube-bind v1alpha2,
`APIServiceExport.spec.isolation`. Wherever the provider's resource is namespaced, what it has
assigned to the consumer's namespaces is the strategy, which has no name on the wire.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from fairlead.api.meta import Key, OwnerReference


MAX_NAME = 253
"""Maximum length of the name of most objects (DNS subdomain), in characters."""


class CopyPlace(NamedTuple):
    """The provider key for a consumer key; None as long as the provider has assigned no namespace.

    ``requested`` says whether there is an APIServiceNamespace then, ``refusal`` why the provider
    assigns none ("" if it does not refuse).
    """

    target: Key | None
    requested: bool = True
    refusal: str = ""


class IsolationStrategy(Protocol):
    """Mapping of keys between both sides, and the owner of a new copy."""

    @property
    def needs_namespace(self) -> bool:
        """Whether a consumer namespace must first get its APIServiceNamespace."""

    @property
    def owner(self) -> OwnerReference | None:
        """Owner of a new provider copy; None if the copy goes with its namespace."""

    def place(self, key: Key) -> CopyPlace:
        """Return the place of the provider's end of a consumer key."""

    def to_consumer(self, key: Key) -> Key | None:
        """Return the consumer key for a provider key; None if it is not this consumer's."""


class Prefixed(msgspec.Struct, frozen=True):
    """Strategy for cluster-scoped objects whose copies have a prefix before the object's name.

    With isolation ``None`` the prefix is "". Copies are deleted with their owner, the consumer's
    cluster namespace.
    """

    owner: OwnerReference
    prefix: str = ""
    needs_namespace: bool = False

    def place(self, key: Key) -> CopyPlace:
        """Return the prefixed name."""
        return CopyPlace(Key("", self.prefix + key.name))

    def to_consumer(self, key: Key) -> Key | None:
        """Return the name without the prefix, which is removed once."""
        name = key.name.removeprefix(self.prefix)
        return Key("", name) if name and self.prefix + name == key.name else None


class Namespaced(msgspec.Struct, frozen=True):
    """Strategy for cluster-scoped objects whose copies are all in the cluster namespace."""

    cluster_namespace: str
    owner: OwnerReference | None = None
    needs_namespace: bool = False

    def place(self, key: Key) -> CopyPlace:
        """Return the same name in the cluster namespace."""
        return CopyPlace(Key(self.cluster_namespace, key.name))

    def to_consumer(self, key: Key) -> Key | None:
        """Return the key without its namespace; None for objects of other namespaces."""
        return Key("", key.name) if key.namespace == self.cluster_namespace else None


def choose(
    *, scope: str, isolation: str, cluster_namespace: OwnerReference, namespaces: IsolationStrategy
) -> IsolationStrategy:
    """Return the strategy for a BoundSchema's scope and an export's isolation.

    ``namespaces`` is the strategy for namespaced objects.

    Raises:
        ValueError: the isolation is none that kube-bind knows; the copies' place is unknown.
    """
    if scope == "Namespaced":
        return namespaces
    if isolation == "Prefixed":
        return Prefixed(cluster_namespace, f"{cluster_namespace.name}-")
    if isolation == "Namespaced":
        return Namespaced(cluster_namespace.name)
    if isolation == "None":
        return Prefixed(cluster_namespace)
    raise ValueError(f"isolation {isolation!r} is not one of Prefixed, Namespaced, None")
