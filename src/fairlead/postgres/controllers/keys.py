"""The installation's own key, for the keyed hashes of passwords and claims."""

from __future__ import annotations

from fairlead.api.keys import UnusableKeyError
from fairlead.client import Client
from fairlead.postgres.errors import invalid
from fairlead.runtime.keys import kept_key


KEY_SECRET = "fairlead-postgres-key"  # noqa: S105 - the Secret's name
_LABELS = {"app.kubernetes.io/managed-by": "fairlead-postgres"}


class InstallationKey:
    """The installation's key, read once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.known = b""
        """The key in bytes, empty before the first call."""

    async def __call__(self) -> bytes:
        """Return the key of this installation, see :func:`installation_key`."""
        if not self.known:
            self.known = await installation_key(self._client, self._namespace)
        return self.known


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
