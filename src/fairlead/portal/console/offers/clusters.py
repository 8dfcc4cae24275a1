"""A person's clusters and their titles."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import Object
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.identity.sessions import Person
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster


class KnownCluster(msgspec.Struct, frozen=True):
    """A cluster with a binding; ``title`` is its display name."""

    namespace: str
    identity: str
    title: str


class Clusters:
    """Finds the clusters of people, and of their groups."""

    def __init__(self, cluster: Cluster, hub: Hub, ownership: Ownership) -> None:
        self._ownership = ownership
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)

    def of(self, person: Person) -> list[KnownCluster]:
        """Return a person's clusters, ordered by title."""
        found = map(self._known, self._ownership.namespaces(person))
        return sorted(found, key=lambda one: (one.title, one.identity))

    def get(self, person: Person, namespace: str) -> KnownCluster | None:
        """Return a person's cluster by its namespace, None if it is not theirs."""
        for one in self._ownership.namespaces(person):
            if one.meta.name == namespace:
                return self._known(one)
        return None

    def connection(self, namespace: str) -> Object | None:
        """Return the ClusterBinding of a cluster."""
        return self._connections.get(namespace, CLUSTER_BINDING_NAME)

    def _known(self, namespace: Object) -> KnownCluster:
        name, identity = namespace.meta.name, identity_of(namespace)
        found = self.connection(name)
        annotations = found.meta.annotations if found is not None else {}
        return KnownCluster(
            name, identity, annotations.get(ANNOTATION_CLUSTER_PRETTY_NAME) or identity
        )
