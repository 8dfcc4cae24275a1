"""The installation's key, and the claims of this installation on roles, which it keys."""

from __future__ import annotations

import hmac

from fairlead.api.keys import UnusableKeyError
from fairlead.api.meta import Key, ObjectMeta
from fairlead.client import Client
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.errors import invalid
from fairlead.runtime.keys import kept_key


KEY_SECRET = "fairlead-postgres-key"  # noqa: S105 - the Secret's name
_LABELS = {"app.kubernetes.io/managed-by": "fairlead-postgres"}


class InstallationKey:
    """The installation's key, read once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.value = b""
        """The key in bytes, empty before the first call."""

    async def __call__(self) -> bytes:
        """Return the key of this installation, see :func:`installation_key`."""
        if not self.value:
            self.value = await installation_key(self._client, self._namespace)
        return self.value


async def installation_key(client: Client, namespace: str) -> bytes:
    """Return the key of this installation; create its Secret in the operator's namespace once.

    Raises:
        AccessError: KeyInvalid, where the Secret holds no valid key.
        ApiError: the API server refused.
    """
    try:
        return await kept_key(client, namespace, KEY_SECRET, labels=_LABELS)
    except UnusableKeyError as error:
        raise invalid("KeyInvalid", str(error)) from None


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
            installation=self._sources.installation_id or await self._sources.installation(),
            object=await self.hash(meta.namespace, meta.name),
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
        )

    async def hash(self, namespace: str, name: str) -> str:
        """Return the keyed hash of namespace and name, as hexadecimal digits."""
        return object_hash(self._key.value or await self._key(), namespace, name)

    async def scope(self, owner: str) -> str:
        """Return the scope of the groups of one owner of connections."""
        return scope_of(owner, await self._key())

    async def object_of(self, claim: RoleClaim) -> str:
        """Return the hash in a claim; an older claim has the names instead."""
        return claim.object or await self.hash(claim.namespace, claim.name)


def object_hash(key: bytes, namespace: str, name: str) -> str:
    """Return the keyed hash of namespace and name, as hexadecimal digits."""
    return hmac.digest(key, str(Key(namespace, name)).encode(), "sha256").hex()[:32]


def scope_of(owner: str, key: bytes) -> str:
    """Return the scope of groups, by the owner of connections and the installation's key."""
    return hmac.digest(key, f"groups of {owner}".encode(), "sha256").hex()[:32]
