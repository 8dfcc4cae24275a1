"""The installation's own key, under which passwords and claims are shown only as keyed hashes."""

from __future__ import annotations

import base64
import secrets

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, Client
from fairlead.client.lookups import find
from fairlead.postgres.controllers.rules.resolution import secret_data
from fairlead.postgres.errors import invalid


KEY_SECRET = "fairlead-postgres-key"  # noqa: S105 - the Secret's name
_KEY = "key"
KEY_BYTES = 32
"""Random bytes of the key: as many as SHA-256 gives."""


class InstallationKey:
    """The key, asked for once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._key = b""

    async def __call__(self) -> bytes:
        """The key of this installation, see :func:`installation_key`."""
        if not self._key:
            self._key = await installation_key(self._client, self._namespace)
        return self._key


async def installation_key(client: Client, namespace: str) -> bytes:
    """The key of this installation, made once and kept in the operator's own namespace.

    Two operators that start together agree: whose Secret was created first has made the key.

    Raises:
        AccessError: KeyInvalid, when the Secret holds something else.
        ApiError: the server refused.
    """
    found = await find(client, SECRETS, KEY_SECRET, namespace)
    if found is None:
        try:
            found = await client.create(SECRETS, _body(namespace), namespace)
        except AlreadyExists:
            found = await client.get(SECRETS, KEY_SECRET, namespace)
    return _key_of(found)


def _key_of(found: Object) -> bytes:
    key = secret_data(found).get(_KEY, b"")
    if len(key) != KEY_BYTES:
        # Never made anew in silence: claims and fingerprints of the old key would all be unknown.
        raise invalid(
            "KeyInvalid",
            f"key {_KEY} of Secret {found.key} has {len(key)} bytes instead of {KEY_BYTES};"
            " restore it from a backup, or delete the Secret to have a new one made",
        )
    return key


def _body(namespace: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": KEY_SECRET,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "fairlead-postgres"},
        },
        "immutable": True,
        "data": {_KEY: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()},
    }
