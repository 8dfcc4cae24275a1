"""The endpoints at which accesses were last found, for deletions whose credentials are gone.

A namespace that is deleted loses its Secrets in any order. Its roles must lose their logins all
the same, and its objects must go. So this process keeps the endpoint of each access in memory,
until the object is gone. It counts for that object alone, and only while spec.connection is the
one by which it was found: the credentials of one object never reach another one's server.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.postgresaccess import PostgresAccess
from fairlead.postgres.database.connections.endpoint import Endpoint


class _Last(NamedTuple):
    """An endpoint, with the object and the connection of which it is."""

    uid: str
    connection: bytes
    endpoint: Endpoint


class LastEndpoints:
    """The endpoints of accesses, by namespace and name; equal ones are kept once."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Last] = {}
        self._shared: WeakValueDictionary[int, Endpoint] = WeakValueDictionary()

    def resolved(self, access: PostgresAccess, endpoint: Endpoint) -> None:
        """Keep an endpoint that was read; one at which the access was in sync stays."""
        if self.of(access) is None:
            self.synced(access, endpoint)

    def synced(self, access: PostgresAccess, endpoint: Endpoint) -> None:
        """Keep the endpoint at which the role of an access is."""
        number = hash(endpoint)
        shared = self._shared.get(number)
        if shared != endpoint:
            shared = self._shared[number] = endpoint
        meta = access.metadata
        self._last[meta.namespace, meta.name] = _Last(meta.uid, _digest(access), shared)

    def of(self, access: PostgresAccess) -> Endpoint | None:
        """Return the endpoint of an access, None without one for this object and connection."""
        meta = access.metadata
        last = self._last.get((meta.namespace, meta.name))
        if last is None or (last.uid, last.connection) != (meta.uid, _digest(access)):
            return None
        return last.endpoint

    def forget(self, namespace: str, name: str) -> None:
        """Forget the endpoint of an object that is gone, and its credentials."""
        self._last.pop((namespace, name), None)


def _digest(access: PostgresAccess) -> bytes:
    return hashlib.sha256(msgspec.json.encode(access.spec.connection)).digest()
