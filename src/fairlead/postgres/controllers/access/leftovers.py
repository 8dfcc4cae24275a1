"""Leftover roles: those of ours whose PostgresAccess went without being finalized (step 33).

Only roles that carry this installation's own claim are looked at, and each object is asked for
once more before its role is removed, so that a late cache drops nothing. A role that was given up
while nobody could take the claim off is recorded in a ConfigMap of the operator's namespace until
somebody can; it is never dropped.
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
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.rules.desired import Place, decode_access, names_of
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import AccessWatches
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import login_names
from fairlead.postgres.database.plans.names import excluded
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.database.reading.catalog import read_server
from fairlead.postgres.database.work.cleanup import cleanup, drop_login, fence, give_up
from fairlead.postgres.database.work.unmanaged import read_logins, unmanaged
from fairlead.postgres.errors import AccessError


_MOST = 200
"""Roles of one server that are asked about in one look; whoever answers may claim anything."""

_log = structlog.get_logger(logger_name="fairlead.postgres")


class Leftovers:
    """Removes leftover roles as Restrict does: one that owns anything stays, without its login."""

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
        """By the uids of accesses: roles that carry their claim under another name."""

    async def sweep(self, place: Place, sessions: Sessions, claimed: Mapping[str, Claim]) -> None:
        """Look at every claim on a server; what fails is logged alone, for no object caused it."""
        # An import claims roles for objects that nobody may have created yet.
        claimed = {role: claim for role, claim in claimed.items() if not claim.is_imported}
        known = await self._holders(sessions, self._accesses.list(), claimed)
        await self._fence_renamed(sessions, known)
        await self._drop_unmanaged(place, sessions)
        unknown = {role: claim for role, claim in claimed.items() if role not in known}
        if not unknown:
            return
        try:
            # Asked once more, so that a late cache drops nothing.
            listed = await self._client.list(POSTGRESACCESSES)
        except ClientError as error:
            _log.warning("roles are left, for their objects are unknown", error=str(error))
            return
        known = await self._holders(sessions, listed.items, unknown)
        left: dict[str, dict[str, Claim]] = {}
        for role, claim in islice(unknown.items(), _MOST):
            if role not in known:
                left.setdefault(await self._claims.object_of(claim), {})[role] = claim
        for roles in left.values():
            await self._remove(place, sessions, roles)

    async def _holders(
        self, sessions: Sessions, accesses: Sequence[Object], claimed: Mapping[str, Claim]
    ) -> dict[str, tuple[Claim, Object]]:
        """The claims that objects hold, by role."""
        found: dict[str, tuple[Claim, Object]] = {}
        by_uid = {access.meta.uid: access for access in accesses}
        by_hash: dict[str, Object] = {}
        for role, claim in claimed.items():
            holder = by_uid.get(claim.uid)
            if holder is None:
                # Nearly every claim is found by its uid, and then no name has to be hashed.
                if not by_hash:
                    for access in accesses:
                        meta = access.meta
                        by_hash[await self._claims.hash(meta.namespace, meta.name)] = access
                # Made anew under the same name: then it holds the role of its username alone.
                holder = by_hash.get(await self._claims.object_of(claim))
                if holder is not None and role not in (_names(holder) or {role}):
                    holder = None
            elif _is_former(role, holder):
                holder = None
            if holder is not None:
                found[role] = (claim, holder)
        elsewhere = await self._elsewhere(sessions, found)
        return {role: one for role, one in found.items() if role not in elsewhere}

    async def _elsewhere(
        self, sessions: Sessions, known: Mapping[str, tuple[Claim, Object]]
    ) -> set[str]:
        """Roles of objects that were made anew, and say that theirs is at another server.

        Raises:
            AccessError: the server does not say which one it is.
        """
        places = {
            role: _server_of(access)
            for role, (claim, access) in known.items()
            if access.meta.uid != claim.uid
        }
        if not any(places.values()):
            return set()
        async with sessions.working("read which server it is") as session:
            own = (await read_server(session)).system_identifier
        return {role for role, place in places.items() if own and place not in {"", own}}

    async def _fence_renamed(
        self, sessions: Sessions, known: Mapping[str, tuple[Claim, Object]]
    ) -> None:
        """Take the login of roles that carry the claim of an access with another username.

        Somebody has renamed them by hand; the password is still that of the access.
        """
        renamed: dict[str, set[str]] = {}
        objects: dict[str, Object] = {}
        for role, (claim, access) in known.items():
            uid = access.meta.uid
            objects[uid] = access
            if role in (_names(access) or {role}):
                continue
            renamed.setdefault(uid, set()).add(role)
            try:
                if await fence(sessions, role, claim):
                    _log.warning("a renamed role has lost its login", role=role)
            except AccessError as error:
                _log.warning("a renamed role cannot be fenced", role=role, error=str(error))
        for uid, access in objects.items():
            before = self.renamed.pop(uid, frozenset())
            after = frozenset(renamed.get(uid, ()))
            if after:
                self.renamed[uid] = after
            if before != after:
                self._tell(access)

    async def _drop_unmanaged(self, place: Place, sessions: Sessions) -> None:
        """What unmanagedUsers Drop asks for, on servers that the platform's team names."""
        try:
            settings = self._settings.current
        except AccessError:
            return
        if settings.unmanaged_users != "Drop" or not place.is_trusted:
            return
        try:
            listed = await self._client.list(POSTGRESACCESSES)
            names = [_names(access) for access in listed.items]
            if not all(names):
                _log.warning("no role is dropped, for not every PostgresAccess can be read")
                return
            async with sessions.working("read the catalogs") as session:
                logins = await read_logins(session)
            for role in unmanaged(logins, frozenset().union(*names), settings)[:_MOST]:
                await drop_login(sessions, role)
                _log.info("an unmanaged role was dropped", role=role, server=str(place.endpoint))
        except (AccessError, ClientError) as error:
            _log.warning("unmanaged roles are left", error=str(error))

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
        self, place: Place, sessions: Sessions, roles: Mapping[str, Claim]
    ) -> bool:
        """Whether the roles of an object were given up.

        Then they lose their claims, and when all have the record goes.
        """
        some = next(iter(roles.values()))
        name, namespace = _record(await self._claims.object_of(some)), self._settings.namespace
        record = await find(self._client, CONFIGMAPS, name, namespace)
        if record is None:
            return False
        data = record.to_dict().get("data") or {}
        if not place.is_trusted and data.get("owner") != place.owner:
            # Of the claim there is only the word of a server that some tenant names.
            return True
        for role, claim in _owners_first(roles):
            await give_up(sessions, role, claim, fence=data.get("policy") == "Retain")
            _log.info("a role that was given up has lost its claim", role=role)
        # The record is last to go, so that after a crash the other claims are still known as given
        # up.
        await self._client.delete(CONFIGMAPS, name, namespace)
        return True

    async def _remove(self, place: Place, sessions: Sessions, roles: Mapping[str, Claim]) -> None:
        """Remove the roles of an object that is gone."""
        try:
            settings = self._settings.current
            users, patterns = settings.excluded_users, settings.excluded_user_patterns
            if any(excluded(role, users, patterns) for role in roles):
                return
            if await self._released(place, sessions, roles):
                return
        except (AccessError, ClientError) as error:
            _log.warning("roles that may be given up stay", roles=[*roles], error=str(error))
            return
        for role, claim in _owners_first(roles):
            await self._drop(place, sessions, role, claim)

    async def _drop(self, place: Place, sessions: Sessions, role: str, claim: Claim) -> None:
        settings = self._settings.latest
        if settings.unmanaged_users == "Report":
            _log.warning("a role's PostgresAccess is gone", role=role, server=str(place.endpoint))
            return
        try:
            removed = await cleanup(sessions, role, claim, "Restrict")
        except AccessError as error:
            _log.warning("a leftover role cannot be removed", role=role, error=str(error))
        else:
            # A login goes with its owner.
            if removed:
                _log.info("a leftover role was removed", role=role, server=str(place.endpoint))


def _record(object_: str) -> str:
    """The name of the record about an object; a claim may have the uid of an older one."""
    return f"given-up-{object_}"


def _names(access: Object) -> frozenset[str]:
    """The roles of a PostgresAccess; none when they cannot be read."""
    try:
        return frozenset(names_of(decode_access(access)))
    except AccessError:
        return frozenset()


def _server_of(access: Object) -> str:
    """The identity of the server where an object's role is; "" where it may be another by now."""
    try:
        decoded = decode_access(access)
    except AccessError:
        return ""
    status = decoded.status
    current = status.observed_generation == access.meta.generation
    return status.server.system_identifier if current and status.server is not None else ""


def _owners_first(roles: Mapping[str, Claim]) -> list[tuple[str, Claim]]:
    """Roles of one object; what becomes of an owner becomes of its logins too."""
    logins = {login for role in roles for login in login_names(role)}
    return sorted(roles.items(), key=lambda one: (one[0] in logins, one[0]))


def _is_former(role: str, access: Object) -> bool:
    """Whether the role was a login of an access that has one login now, and knows of no other."""
    try:
        username = decode_access(access).spec.username
    except AccessError:
        return False
    return role in login_names(username) and role not in _names(access)
