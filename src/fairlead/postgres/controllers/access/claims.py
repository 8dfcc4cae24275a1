"""The claims that this installation makes on roles, one for each PostgresAccess."""

from __future__ import annotations

import hmac

from fairlead.api.meta import Key, ObjectMeta
from fairlead.postgres.controllers.keys import InstallationKey
from fairlead.postgres.controllers.servers.sources import Sources
from fairlead.postgres.database.plans.snapshot import Claim


class Claims:
    """Makes claims, in which an object's names are a keyed hash."""

    def __init__(self, sources: Sources, key: InstallationKey) -> None:
        self._sources = sources
        self._key = key

    async def of(self, meta: ObjectMeta) -> Claim:
        """The claim of an object.

        Raises:
            AccessError: the installation's key cannot be used.
        """
        return Claim(
            installation=self._sources.known or await self._sources.installation(),
            object=await self.hash(meta.namespace, meta.name),
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
        )

    async def hash(self, namespace: str, name: str) -> str:
        """Return what a claim has in place of an object's names."""
        text = str(Key(namespace, name))
        key = self._key.known or await self._key()
        return hmac.digest(key, text.encode(), "sha256").hex()[:32]

    async def scope(self, owner: str) -> str:
        """Return what the groups have in common of those whose connections have one owner."""
        return scope_of(owner, await self._key())

    async def object_of(self, claim: Claim) -> str:
        """The hash of a claim, of an older one too."""
        return claim.object or await self.hash(claim.namespace, claim.name)


def scope_of(owner: str, key: bytes) -> str:
    """The scope of groups, by the owner of connections and the installation's key."""
    return hmac.digest(key, f"groups of {owner}".encode(), "sha256").hex()[:32]
