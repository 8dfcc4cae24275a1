"""Random keys that the replicas of a program share, each kept in a Secret of its own."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.keys import key_in, key_secret
from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, Client
from fairlead.client.lookups import find


async def kept_key(
    client: Client, namespace: str, name: str, *, labels: Mapping[str, str]
) -> bytes:
    """Return the key in a Secret, which is created if it does not exist.

    Replicas that start together use one key: that of the Secret which was created first.

    Raises:
        UnusableKeyError: the Secret holds something else.
        ApiError: the server refused.
    """
    secret = await find(client, SECRETS, name, namespace)
    if secret is None:
        try:
            body = key_secret(namespace, name, labels)
            secret = await client.create(SECRETS, body, namespace)
        except AlreadyExists:
            secret = await client.get(SECRETS, name, namespace)
    return key_in(secret)
