"""The installation's own key, under which passwords and claims are shown only as keyed hashes."""

from __future__ import annotations

from fairlead.api.keys import UnusableKeyError
from fairlead.client import Client
from fairlead.postgres.errors import invalid
from fairlead.runtime.keys import kept_key


KEY_SECRET = "fairlead-postgres-key"  # noqa: S105 - the Secret's name
_LABELS = {"app.kubernetes.io/managed-by": "fairlead-postgres"}


class InstallationKey:
    """The key, asked for once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.known = b""
        """The key, once it was asked for."""

    async def __call__(self) -> bytes:
        """Return the key of this installation, see :func:`installation_key`."""
        if not self.known:
            self.known = await installation_key(self._client, self._namespace)
        return self.known


async def installation_key(client: Client, namespace: str) -> bytes:
    """The key of this installation, made once and kept in the operator's own namespace.

    Raises:
        AccessError: KeyInvalid, when the Secret holds something else.
        ApiError: the server refused.
    """
    try:
        return await kept_key(client, namespace, KEY_SECRET, labels=_LABELS)
    except UnusableKeyError as error:
        raise invalid("KeyInvalid", str(error)) from None
