"""Writes the generated Secret before the database, and removes it with the PostgresAccess."""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.resource import SECRETS
from fairlead.client import Client, Conflict, NotFound
from fairlead.postgres.controllers.login_secret import (
    check_name,
    check_ours,
    current_password,
    is_leftover,
    secret_body,
    secret_values,
)
from fairlead.postgres.controllers.passes import Pass
from fairlead.postgres.controllers.watches import Watches
from fairlead.postgres.database import password
from fairlead.runtime import commit


class Publication:
    """Writes and removes generated Secrets; those of others are never touched."""

    def __init__(self, client: Client, watches: Watches) -> None:
        self._client = client
        self._watches = watches

    async def write(self, current: Pass) -> None:
        """Boxes S to W: reuse the password that is there, or make one.

        Raises:
            AccessError: the Secret is not ours, or holds what nobody could log in with.
        """
        name = current.decoded.spec.generated_secret
        check_name(name)
        namespace = current.found.meta.namespace
        existing = await self._get(name, namespace)
        if existing is not None and is_leftover(existing, current.found):
            await self._client.delete(SECRETS, name, namespace, uid=existing.meta.uid)
            existing = await self._get(name, namespace)
        if existing is not None:
            check_ours(existing, current.found)
        kept = current_password(existing)
        # Stored before it is used: a password that only the database knew would be lost in a
        # crash.
        current.password = kept or password.generate()
        values = secret_values(current.decoded.spec, current.reached.endpoint, current.password)
        body = secret_body(current.found, name, values, existing)
        if existing is None:
            await self._client.create(SECRETS, body, namespace)
        else:
            await commit(self._client, SECRETS, existing, body)
        current.learn(secret="reused" if kept else "generated")

    def exists(self, current: Pass) -> bool:
        """Whether there is a Secret already, by the cache's word."""
        meta, spec = current.found.meta, current.decoded.spec
        secret = self._watches.secrets.get(meta.namespace, spec.generated_secret)
        return secret is not None and secret.meta.owned_by(meta.uid)

    async def _get(self, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(SECRETS, name, namespace)
        except NotFound:
            return None

    async def remove_renamed(self, current: Pass) -> None:
        """Delete Secrets of former names of spec.generatedSecret; the new one works by now."""
        meta = current.found.meta
        for secret in self._watches.secrets.list(meta.namespace):
            owner = secret.meta.controller()
            ours = owner is not None and owner.uid == meta.uid
            if ours and secret.meta.name != current.decoded.spec.generated_secret:
                await self._delete(secret)

    async def _delete(self, secret: Object) -> None:
        try:
            await self._client.delete(
                SECRETS, secret.meta.name, secret.meta.namespace, uid=secret.meta.uid
            )
        except (NotFound, Conflict):
            return

    async def remove(self, current: Pass) -> None:
        """Delete the Secret, without waiting for a garbage collector that may not be there."""
        meta = current.found.meta
        existing = await self._get(current.decoded.spec.generated_secret, meta.namespace)
        if existing is not None and existing.meta.owned_by(meta.uid):
            await self._delete(existing)
