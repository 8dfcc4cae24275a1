"""The claims of this installation on roles, one for each PostgresAccess."""

from __future__ import annotations

import hmac

from fairlead.api.meta import Key, ObjectMeta
from fairlead.postgres.controllers.keys import InstallationKey
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.database.plans.snapshot import RoleClaim


class Claims:
    """Composes claims, in which a keyed hash stands for namespace and name of an object."""

    def __init__(self, sources: EndpointSources, key: InstallationKey) -> None:
        self._sources = sources
        self._key = key

    async def of(self, meta: ObjectMeta) -> RoleClaim:
        """Return the claim of an object.

        Raises:
            AccessError: the installation's key is invalid.
        """
        return RoleClaim(
            installation=self._sources.known or await self._sources.installation(),
            object=await self.hash(meta.namespace, meta.name),
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
        )

    async def hash(self, namespace: str, name: str) -> str:
        """Return the keyed hash of namespace and name, as hexadecimal digits."""
        text = str(Key(namespace, name))
        key = self._key.known or await self._key()
        return hmac.digest(key, text.encode(), "sha256").hex()[:32]

    async def scope(self, owner: str) -> str:
        """Return the scope of the groups of one owner of connections."""
        return scope_of(owner, await self._key())

    async def object_of(self, claim: RoleClaim) -> str:
        """Return the hash in a claim; an older claim has the names instead."""
        return claim.object or await self.hash(claim.namespace, claim.name)


def scope_of(owner: str, key: bytes) -> str:
    """Return the scope of groups, by the owner of connections and the installation's key."""
    return hmac.digest(key, f"groups of {owner}".encode(), "sha256").hex()[:32]
