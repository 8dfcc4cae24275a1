"""Leftover roles: those of ours whose PostgresAccess went without being finalized (step 33).

Only roles that carry this installation's own claim are looked at, and each object is asked for
once more before its role is removed, so that a late cache drops nothing. A role that was given up
while nobody could take the claim off is recorded in a ConfigMap of the operator's namespace until
somebody can; it is never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

import structlog

from fairlead.api.meta import JSON, Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess
from fairlead.api.resource import CONFIGMAPS
from fairlead.client import AlreadyExists, Client, ClientError
from fairlead.client.lookups import find
from fairlead.postgres.controllers.jobs import Place
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.sources import decode_access
from fairlead.postgres.controllers.watches import Watches
from fairlead.postgres.database.cleanup import cleanup, give_up
from fairlead.postgres.database.names import excluded
from fairlead.postgres.database.sessions import Sessions
from fairlead.postgres.database.snapshot import Claim
from fairlead.postgres.errors import AccessError


_MOST = 200
"""Roles of one server that are asked about in one look; whoever answers may claim anything."""

_log = structlog.get_logger(logger_name="fairlead.postgres")


class Leftovers:
    """Removes leftover roles as Restrict does: one that owns anything stays, without its login."""

    def __init__(self, client: Client, watches: Watches, settings: Settings) -> None:
        self._client = client
        self._accesses = watches.accesses
        self._settings = settings

    async def sweep(self, place: Place, sessions: Sessions, claimed: Mapping[str, Claim]) -> None:
        """Look at every claim on a server; what fails is logged alone, for no object caused it."""
        unknown = [
            (role, claim)
            for role, claim in claimed.items()
            if not _holds(self._accesses.get(claim.namespace, claim.name), role, claim)
        ]
        for role, claim in unknown[:_MOST]:
            try:
                current = await self._current(claim)
            except ClientError as error:
                _log.warning("a role's PostgresAccess is unknown", role=role, error=str(error))
                continue
            if not _holds(current, role, claim):
                await self._remove(place, sessions, role, claim)

    async def record(
        self, access: Object, owner: str, policy: Literal["Retain", "Abandon"]
    ) -> None:
        """Record that the role of an object is nobody's any more, whoever finds its claim.

        Args:
            access: the object.
            owner: of the place where the role is, see :class:`Place`.
            policy: by which it was given up.

        Raises:
            ApiError: the server refused; without the record the role would be dropped.
        """
        body: JSON = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _record(access.key), "namespace": self._settings.namespace},
            "data": {"policy": policy, "access": str(access.key), "owner": owner},
        }
        try:
            await self._client.create(CONFIGMAPS, body, self._settings.namespace)
        except AlreadyExists:
            return

    async def _released(self, place: Place, sessions: Sessions, role: str, claim: Claim) -> bool:
        """Whether the role was given up; then it loses its claim, and the record goes."""
        name, namespace = _record(Key(claim.namespace, claim.name)), self._settings.namespace
        record = await find(self._client, CONFIGMAPS, name, namespace)
        if record is None:
            return False
        data = record.to_dict().get("data") or {}
        if not place.is_trusted and data.get("owner") != place.owner:
            # Of the claim there is only the word of a server that some tenant names.
            return True
        await give_up(sessions, role, claim, fence=data.get("policy") == "Retain")
        await self._client.delete(CONFIGMAPS, name, namespace)
        _log.info("a role that was given up has lost its claim", role=role)
        return True

    async def _current(self, claim: Claim) -> Object | None:
        return await find(self._client, POSTGRESACCESSES, claim.name, claim.namespace)

    async def _remove(self, place: Place, sessions: Sessions, role: str, claim: Claim) -> None:
        try:
            settings = self._settings.current
        except AccessError as error:
            _log.warning("a role that may be excluded stays", role=role, error=str(error))
            return
        if excluded(role, settings.excluded_users, settings.excluded_user_patterns):
            return
        try:
            if await self._released(place, sessions, role, claim):
                return
        except (AccessError, ClientError) as error:
            _log.warning("a role that may be given up stays", role=role, error=str(error))
            return
        if settings.unmanaged_users == "Report":
            _log.warning("a role's PostgresAccess is gone", role=role, server=str(place.endpoint))
            return
        try:
            await cleanup(sessions, role, claim, "Restrict")
        except AccessError as error:
            _log.warning("a leftover role cannot be removed", role=role, error=str(error))
        else:
            _log.info("a leftover role was removed", role=role, server=str(place.endpoint))


def _record(key: Key) -> str:
    """The name of the record about a PostgresAccess; a claim may have the uid of an older one."""
    return f"given-up-{blake2b(str(key).encode(), digest_size=16).hexdigest()}"


def _holds(access: Object | None, role: str, claim: Claim) -> bool:
    """Whether the claim is that of a PostgresAccess which is still there."""
    if access is None:
        return False
    if access.meta.uid == claim.uid:
        return True
    try:
        decoded: PostgresAccess = decode_access(access)
    except AccessError:
        return True
    return decoded.spec.username == role
