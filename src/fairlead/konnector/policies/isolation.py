"""Where the copy of an object lives on the other side: the isolation strategies of kube-bind.

A strategy is a pure mapping of keys and of the parts of a body that follow from it. Sources:
kube-bind v1alpha2, `APIServiceExport.spec.isolation`; the strategy ``ServiceNamespaced`` has no
name on the wire: it is used whenever the provider's resource is namespaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from fairlead.api.meta import JSON, Key, OwnerReference


NamespaceLookup = Callable[[str], str]
"""The namespace of the other side for one of ours; "" when there is none (yet)."""

MAX_NAME = 253
"""The longest name of most objects (DNS subdomain), in characters."""


class Strategy(Protocol):
    """How keys map, and what a new copy gets beside the source's body."""

    @property
    def needs_namespace(self) -> bool:
        """Whether a consumer namespace must first get its APIServiceNamespace."""

    def to_provider(self, key: Key) -> Key | None:
        """The provider key for a consumer key; None when it cannot be known yet."""

    def to_consumer(self, key: Key) -> Key | None:
        """The consumer key for a provider key; None when the object is not this consumer's."""

    def owner(self) -> OwnerReference | None:
        """The owner that a new provider copy gets."""


class ServiceNamespaced(msgspec.Struct, frozen=True):
    """Consumer namespaces map to provider namespaces by APIServiceNamespaces; names stay."""

    provider_namespace: NamespaceLookup
    consumer_namespace: NamespaceLookup
    needs_namespace: bool = True

    def to_provider(self, key: Key) -> Key | None:
        """None until the provider has assigned a namespace."""
        namespace = self.provider_namespace(key.namespace)
        return Key(namespace, key.name) if namespace else None

    def to_consumer(self, key: Key) -> Key | None:
        """None for a namespace that no APIServiceNamespace of this consumer has."""
        namespace = self.consumer_namespace(key.namespace)
        return Key(namespace, key.name) if namespace else None

    def owner(self) -> OwnerReference | None:
        """None: the namespace goes with everything in it."""
        return None


class Identical(msgspec.Struct, frozen=True):
    """Isolation ``None``: cluster-scoped objects keep their names."""

    cluster_namespace: OwnerReference
    needs_namespace: bool = False

    def to_provider(self, key: Key) -> Key | None:
        """The same key."""
        return key

    def to_consumer(self, key: Key) -> Key | None:
        """The same key."""
        return key

    def owner(self) -> OwnerReference | None:
        """The consumer's cluster namespace, so that the copies go with it."""
        return self.cluster_namespace


class Prefixed(msgspec.Struct, frozen=True):
    """Cluster-scoped objects carry the name of the cluster namespace before their own."""

    cluster_namespace: OwnerReference
    needs_namespace: bool = False

    @property
    def _prefix(self) -> str:
        return f"{self.cluster_namespace.name}-"

    def to_provider(self, key: Key) -> Key | None:
        """The prefixed name."""
        return Key("", self._prefix + key.name)

    def to_consumer(self, key: Key) -> Key | None:
        """The name without the prefix, which is taken off once."""
        name = key.name.removeprefix(self._prefix)
        return Key("", name) if name and name != key.name else None

    def owner(self) -> OwnerReference | None:
        """The consumer's cluster namespace, so that the copies go with it."""
        return self.cluster_namespace


class Namespaced(msgspec.Struct, frozen=True):
    """Cluster-scoped for the consumer, namespaced on the provider: all in one namespace."""

    cluster_namespace: str
    needs_namespace: bool = False

    def to_provider(self, key: Key) -> Key | None:
        """The same name in the cluster namespace."""
        return Key(self.cluster_namespace, key.name)

    def to_consumer(self, key: Key) -> Key | None:
        """None for objects of other namespaces."""
        return Key("", key.name) if key.namespace == self.cluster_namespace else None

    def owner(self) -> OwnerReference | None:
        """None: the namespace goes with everything in it."""
        return None


def choose(
    *,
    scope: str,
    isolation: str,
    cluster_namespace: OwnerReference,
    provider_namespace: NamespaceLookup,
    consumer_namespace: NamespaceLookup,
) -> Strategy:
    """The strategy for a BoundSchema's scope and an export's isolation.

    Raises:
        ValueError: the isolation is none that kube-bind knows; the copies' place is unknown.
    """
    if scope == "Namespaced":
        return ServiceNamespaced(provider_namespace, consumer_namespace)
    if isolation == "Prefixed":
        return Prefixed(cluster_namespace)
    if isolation == "Namespaced":
        return Namespaced(cluster_namespace.name)
    if isolation == "None":
        return Identical(cluster_namespace)
    raise ValueError(f"isolation {isolation!r} is none of Prefixed, Namespaced, None")


def place(body: JSON, key: Key, owner: JSON | None) -> JSON:
    """The body of a copy, put at its provider key; ``owner`` is an owner reference."""
    metadata: JSON = {**body["metadata"], "name": key.name}
    metadata.pop("namespace", None)
    if key.namespace:
        metadata["namespace"] = key.namespace
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {**body, "metadata": metadata}
