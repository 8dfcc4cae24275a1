"""A person's clusters, and those of their groups."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.portal.console.sources.consumers import Consumers, KnownCluster
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.identity.sessions import Person


class BoundTemplate(NamedTuple):
    """A binding and its cluster."""

    cluster: KnownCluster
    name: str


class Clusters:
    """Finds the clusters of people, and of their groups."""

    def __init__(self, consumers: Consumers, ownership: Ownership) -> None:
        self._consumers = consumers
        self._ownership = ownership

    def of(self, person: Person) -> list[KnownCluster]:
        """Return a person's clusters, ordered by name."""
        names = [namespace.meta.name for namespace in self._ownership.namespaces(person)]
        clusters = [cluster for name in names if (cluster := self._consumers.cluster(name))]
        return sorted(clusters, key=lambda cluster: (cluster.name, cluster.identity))

    def get(self, person: Person, namespace: str) -> KnownCluster | None:
        """Return a person's cluster by its namespace, None if it is not theirs."""
        owned = (cluster for cluster in self.of(person) if cluster.namespace == namespace)
        return next(owned, None)

    def bindings(self, person: Person) -> list[tuple[BoundTemplate, frozenset[str]]]:
        """Return the bindings in a person's clusters, each with its kinds."""
        read = self._consumers.read
        return [
            (BoundTemplate(cluster, export.meta.name), frozenset(read(export).kinds))
            for cluster in self.of(person)
            for export in self._consumers.exports(cluster.namespace)
        ]
