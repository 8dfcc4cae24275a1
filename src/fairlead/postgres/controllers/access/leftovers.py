"""Leftover roles: claimed roles whose PostgresAccess is gone without finalization.

A sweep reads only roles with this installation's own claim, and lists the PostgresAccesses once
more before it removes a role, so that a late cache drops nothing. Where a role was given up while
its server was out of reach, a ConfigMap of the operator's namespace records that until a sweep
takes the claim off; the role is never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Literal

import structlog

from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import CONFIGMAPS
from fairlead.client import AlreadyExists, Client, ClientError
from fairlead.client.lookups import find
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.large import cached
from fairlead.postgres.controllers.rules.desired import ServerPlace, decode_access, names_of
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import AccessWatches
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import login_names
from fairlead.postgres.database.plans.names import excluded
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.reading.catalog import read_server
from fairlead.postgres.database.work.cleanup import cleanup, drop_login, fence, give_up
from fairlead.postgres.database.work.unmanaged import read_logins, unmanaged
from fairlead.postgres.errors import AccessError


_log = structlog.get_logger(logger_name="fairlead.postgres")


class LeftoverRoles:
    """Removes leftover roles by Restrict: an owner of objects stays, but may not log in."""

    def __init__(
        self,
        client: Client,
        watches: AccessWatches,
        settings: Settings,
        claims: Claims,
        renamed: Callable[[Object], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._accesses = watches.accesses
        self._settings = settings
        self._claims = claims
        self._tell = renamed
        self.renamed: dict[str, frozenset[str]] = {}
        """Renamed roles by the uid of the access in their claim."""

    async def sweep(
        self, place: ServerPlace, sessions: Sessions, claimed: Mapping[str, RoleClaim]
    ) -> None:
        """Check every claim on a server; failures are logged alone, for no object caused them."""
        # An import claims roles for objects that may not exist yet.
        claimed = {role: claim for role, claim in claimed.items() if not claim.is_imported}
        holders = await self._holders(sessions, self._accesses.list(), claimed)
        await self._fence_renamed(sessions, holders)
        await self._drop_unmanaged(place, sessions)
        unknown = {role: claim for role, claim in claimed.items() if role not in holders}
        if not unknown:
            return
        try:
            # The cache may be late: the API server is asked before a role is dropped.
            listed = await self._client.list(POSTGRESACCESSES, transform=cached)
        except ClientError as error:
            _log.warning("cannot list the objects of roles, so the roles stay", error=str(error))
            return
        holders = await self._holders(sessions, listed.items, unknown)
        left: dict[str, dict[str, RoleClaim]] = {}
        for role, claim in islice(unknown.items(), bounds.DROPPED):
            if role not in holders:
                left.setdefault(await self._claims.object_of(claim), {})[role] = claim
        for roles in left.values():
            await self._remove(place, sessions, roles)

    async def _holders(
        self, sessions: Sessions, accesses: Sequence[Object], claimed: Mapping[str, RoleClaim]
    ) -> dict[str, tuple[RoleClaim, Object]]:
        """Return claim and object by role, for the claims whose object exists."""
        holders: dict[str, tuple[RoleClaim, Object]] = {}
        by_uid = {access.meta.uid: access for access in accesses}
        by_hash: dict[str, Object] = {}
        for role, claim in claimed.items():
            holder = by_uid.get(claim.uid)
            if holder is None:
                # Most claims match by uid, so that names are hashed only where one does not.
                if not by_hash:
                    for access in accesses:
                        meta = access.meta
                        by_hash[await self._claims.hash(meta.namespace, meta.name)] = access
                # A new object of the same name holds only the role of its own username.
                holder = by_hash.get(await self._claims.object_of(claim))
                if holder is not None and role not in (_names(holder) or {role}):
                    holder = None
            elif _is_former(role, holder):
                holder = None
            if holder is not None:
                holders[role] = (claim, holder)
        elsewhere = await self._elsewhere(sessions, holders)
        return {role: one for role, one in holders.items() if role not in elsewhere}

    async def _elsewhere(
        self, sessions: Sessions, holders: Mapping[str, tuple[RoleClaim, Object]]
    ) -> set[str]:
        """Return the roles whose object was created anew and has its role on another server.

        Raises:
            AccessError: the server's identity cannot be read.
        """
        places = {
            role: _server_of(access)
            for role, (claim, access) in holders.items()
            if access.meta.uid != claim.uid
        }
        if not any(places.values()):
            return set()
        async with sessions.working("read which server it is") as session:
            own = (await read_server(session)).system_identifier
        return {role for role, place in places.items() if own and place not in {"", own}}

    async def _fence_renamed(
        self, sessions: Sessions, holders: Mapping[str, tuple[RoleClaim, Object]]
    ) -> None:
        """Take LOGIN from roles that carry the claim of an access with another username.

        Such a role was renamed by hand, and still has the password of the access.
        """
        renamed: dict[str, set[str]] = {}
        objects: dict[str, Object] = {}
        for role, (claim, access) in holders.items():
            uid = access.meta.uid
            objects[uid] = access
            if role in (_names(access) or {role}):
                continue
            renamed.setdefault(uid, set()).add(role)
            try:
                if await fence(sessions, role, claim):
                    _log.warning("removed the login of a renamed role", role=role)
            except AccessError as error:
                _log.warning(
                    "could not remove the login of a renamed role", role=role, error=str(error)
                )
        for uid, access in objects.items():
            before = self.renamed.pop(uid, frozenset())
            after = frozenset(renamed.get(uid, ()))
            if after:
                self.renamed[uid] = after
            if before != after:
                self._tell(access)

    async def _drop_unmanaged(self, place: ServerPlace, sessions: Sessions) -> None:
        """Drop roles that unmanagedUsers covers, on servers that the platform team declares."""
        try:
            settings = self._settings.current
        except AccessError:
            return
        if settings.unmanaged_users != "Drop" or not place.is_trusted:
            return
        try:
            listed = await self._client.list(POSTGRESACCESSES, transform=cached)
            names = [_names(access) for access in listed.items]
            if not all(names):
                _log.warning(
                    "dropped no unmanaged role, because a PostgresAccess cannot be decoded"
                )
                return
            async with sessions.working("read the catalogs") as session:
                logins = await read_logins(session)
            for role in unmanaged(logins, frozenset().union(*names), settings)[: bounds.DROPPED]:
                await drop_login(sessions, role)
                _log.info("an unmanaged role was dropped", role=role, server=str(place.endpoint))
        except (AccessError, ClientError) as error:
            _log.warning("could not drop unmanaged roles", error=str(error))

    async def record(
        self, access: Object, owner: str, policy: Literal["Retain", "Abandon"]
    ) -> None:
        """Record that the role of an object is given up, for each later sweep of its server.

        Args:
            access: the object.
            owner: the owner of the role's place, see :class:`ServerPlace`.
            policy: the policy by which the role was given up.

        Raises:
            ApiError: the API server refused; without the record a sweep would drop the role.
        """
        name = _record(await self._claims.hash(access.meta.namespace, access.meta.name))
        body: JSON = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self._settings.namespace},
            "data": {"policy": policy, "access": str(access.key), "owner": owner},
        }
        try:
            await self._client.create(CONFIGMAPS, body, self._settings.namespace)
        except AlreadyExists:
            return

    async def _released(
        self, place: ServerPlace, sessions: Sessions, roles: Mapping[str, RoleClaim]
    ) -> bool:
        """Whether the roles of an object were given up.

        If so, their claims are removed, and after the last one the record.
        """
        some = next(iter(roles.values()))
        name, namespace = _record(await self._claims.object_of(some)), self._settings.namespace
        record = await find(self._client, CONFIGMAPS, name, namespace)
        if record is None:
            return False
        data = record.to_dict().get("data") or {}
        if not place.is_trusted and data.get("owner") != place.owner:
            # A server that a tenant names may report any claim: it removes no record of others.
            return True
        for role, claim in _owners_first(roles):
            await give_up(sessions, role, claim, fence=data.get("policy") == "Retain")
            _log.info("removed the claim of a role that was given up", role=role)
        # The record is last to go, so that after a crash the other claims are still known as given
        # up.
        await self._client.delete(CONFIGMAPS, name, namespace)
        return True

    async def _remove(
        self, place: ServerPlace, sessions: Sessions, roles: Mapping[str, RoleClaim]
    ) -> None:
        """Remove the roles of a deleted object."""
        try:
            settings = self._settings.current
            users, patterns = settings.excluded_users, settings.excluded_user_patterns
            if any(excluded(role, users, patterns) for role in roles):
                return
            if await self._released(place, sessions, roles):
                return
        except (AccessError, ClientError) as error:
            _log.warning(
                "cannot tell whether roles were given up, so they stay",
                roles=[*roles],
                error=str(error),
            )
            return
        for role, claim in _owners_first(roles):
            await self._drop(place, sessions, role, claim)

    async def _drop(
        self, place: ServerPlace, sessions: Sessions, role: str, claim: RoleClaim
    ) -> None:
        settings = self._settings.latest
        if settings.unmanaged_users == "Report":
            _log.warning("a role's PostgresAccess is gone", role=role, server=str(place.endpoint))
            return
        try:
            removed = await cleanup(sessions, role, claim, "Restrict")
        except AccessError as error:
            _log.warning("could not remove a leftover role", role=role, error=str(error))
        else:
            # A login goes with its owner.
            if removed:
                _log.info("a leftover role was removed", role=role, server=str(place.endpoint))


def _record(object_: str) -> str:
    """Return the name of an object's record, by its names: a claim may have an older uid."""
    return f"given-up-{object_}"


def _names(access: Object) -> frozenset[str]:
    """Return the role names of a PostgresAccess, none where it cannot be decoded."""
    try:
        return frozenset(names_of(decode_access(access)))
    except AccessError:
        return frozenset()


def _server_of(access: Object) -> str:
    """Return the system identifier of an object's server, "" where the spec has changed since."""
    try:
        decoded = decode_access(access)
    except AccessError:
        return ""
    status = decoded.status
    current = status.observed_generation == access.meta.generation
    return status.server.system_identifier if current and status.server is not None else ""


def _owners_first(roles: Mapping[str, RoleClaim]) -> list[tuple[str, RoleClaim]]:
    """Return the roles of one object, its owner first: the work on it includes its logins."""
    logins = {login for role in roles for login in login_names(role)}
    return sorted(roles.items(), key=lambda item: (item[0] in logins, item[0]))


def _is_former(role: str, access: Object) -> bool:
    """Whether the role is a second login of an access that has only one login now."""
    try:
        username = decode_access(access).spec.username
    except AccessError:
        return False
    return role in login_names(username) and role not in _names(access)
