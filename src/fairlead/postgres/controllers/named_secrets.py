"""The Secrets of tenants that accesses name, and the accesses that a change of one concerns.

A connection or a password may be in a Secret of the tenant. One watch of the metadata for each
namespace tells when such a Secret changes; the pass that follows reads that object alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from fairlead.api.meta import Key
from fairlead.api.resource import SECRETS
from fairlead.postgres.controllers.large import secret_metadata
from fairlead.runtime import Cluster, Delta, Informer, Request


MOST_NAMESPACES = 1000
"""Number of namespaces watched at once; accesses beyond get a pass at each ``syncedInterval``."""


class NamedSecrets:
    """Watches the Secrets that accesses name, as long as one names them.

    ``opened`` is called with each new lease on the Secrets of a namespace.
    """

    def __init__(self, cluster: Cluster, accesses: Informer, namespaces: Informer) -> None:
        self._cluster = cluster.name
        self._lease = cluster.informer
        self._accesses = accesses
        self._namespaces = namespaces
        self._leases: dict[str, Informer] = {}
        self._readers: dict[str, dict[str, set[Key]]] = {}
        """Accesses that name a Secret, by its namespace and its name."""
        self._versions: dict[Key, dict[Key, str | None]] = {}
        """Version in which an access has read each of its Secrets, "" for none; None unread."""
        self.opened: Callable[[Informer], object] = lambda _: None

    async def follow(self, access: Key, secrets: Collection[Key]) -> None:
        """Watch the Secrets that an access names now, and no longer those that it named before.

        To be called before they are read, so that no change in between goes unseen.
        """
        before = self._versions.get(access, {})
        for secret in secrets:
            if secret not in before:
                named = self._readers.setdefault(secret.namespace, {})
                named.setdefault(secret.name, set()).add(access)
            # A namespace may have been beyond the limit, or missing, until now.
            self._open(secret.namespace, exists=secret.namespace == access.namespace)
        if secrets:
            self._versions[access] = {secret: before.get(secret) for secret in secrets}
        else:
            self._versions.pop(access, None)
        for secret in before.keys() - set(secrets):
            await self._leave(access, secret)

    def _open(self, namespace: str, *, exists: bool) -> None:
        # A tenant may name any number of namespaces, but creates none.
        exists = exists or self._namespaces.get("", namespace) is not None
        if namespace in self._leases or not exists or len(self._leases) >= MOST_NAMESPACES:
            return
        lease = self._lease(
            SECRETS, namespace=namespace, metadata_only=True, transform=secret_metadata
        )
        self._leases[namespace] = lease
        self.opened(lease)

    async def _leave(self, access: Key, secret: Key) -> None:
        named = self._readers[secret.namespace]
        named[secret.name].discard(access)
        if not named[secret.name]:
            del named[secret.name]
        if named:
            return
        del self._readers[secret.namespace]
        lease = self._leases.pop(secret.namespace, None)
        if lease is not None:
            await lease.close()

    def has_read(self, access: Key, secret: Key, version: str) -> None:
        """Note the version in which an access has read a Secret, "" where there is none."""
        versions = self._versions.get(access, {})
        if secret in versions:
            versions[secret] = version

    def are_watched(self, access: Key) -> bool:
        """Whether each change of the Secrets that an access names is going to be heard."""
        leases = [self._leases.get(one.namespace) for one in self._versions.get(access, ())]
        return all(one is not None and one.has_synced and not one.error for one in leases)

    def accesses_of(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of the accesses that have not read this version of the Secret."""
        meta = delta.object.meta
        version = meta.resource_version if delta.new is not None else ""
        owner = meta.controller()
        for key in tuple(self._readers.get(meta.namespace, {}).get(meta.name, ())):
            access = self._accesses.get(*key)
            # A Secret that the access itself generates has a watch of its own, without echoes.
            its_own = owner is not None and access is not None and owner.uid == access.meta.uid
            if not its_own and self._versions[key][delta.object.key] != version:
                yield Request(self._cluster, *key)

    async def close(self) -> None:
        """End all watches; the next pass of each access begins them again."""
        leases = [*self._leases.values()]
        for known in (self._leases, self._readers, self._versions):
            known.clear()
        for lease in leases:
            await lease.close()
