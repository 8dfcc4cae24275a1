"""``fairlead postgres take-over``: roles of a restored copy, or of an installation that is gone.

The comments of its roles have the claims of objects that are elsewhere. The user of the command
reads the administrator's credentials, which no tenant can: what an access asks for proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.postgresaccess import PostgresAccess
from fairlead.client import ApiError
from fairlead.postgres.commands.accesses import in_cluster
from fairlead.postgres.commands.plan import check_desired
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.controllers.rules.desired import names_of
from fairlead.postgres.database.connections.identity import identity_of, start_of
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import (
    GroupClaim,
    RoleClaim,
    RoleFacts,
    ServerIdentity,
    ServerSnapshot,
)
from fairlead.postgres.database.reading.catalog import read_logins, read_snapshot
from fairlead.postgres.database.work.reserving import reserve
from fairlead.postgres.errors import AccessError


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A role that an access asks for and that carries the claim of another object.

    ``claim`` is the access's, ``former`` the one on the role, and ``holder`` the former in words.
    """

    role: str
    access: str
    holder: str
    claim: RoleClaim
    former: RoleClaim


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A role that is left as it is, and why."""

    role: str
    why: str


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """The roles of a server that can be taken over, and the groups that they are members of.

    ``unasked`` counts the roles of other installations that no access asks for here.
    """

    server: str
    address: str
    candidates: tuple[Candidate, ...] = ()
    groups: Mapping[str, GroupClaim] = {}
    passed: tuple[Passed, ...] = ()
    unasked: int = 0
    notes: tuple[str, ...] = ()


async def find_candidates(
    around: Surroundings, server_name: str, names: Collection[str] = ()
) -> TakeOver:
    """Return the roles of a server that its accesses ask for and whose claims are of others.

    Args:
        around: the cluster, read with the user's rights.
        server_name: the name of the PostgresServer.
        names: the usernames of accesses, none for all.

    Raises:
        AccessError: the server cannot be queried, or the claims cannot be written.
        ClientError: the cluster cannot be reached, or refuses.
    """
    server = await around.server(server_name)
    endpoint = await around.sources.server_endpoint(server)
    await around.make_key()
    given = await in_cluster(around, "")
    every = [each.access for each in given if each.access is not None]
    sessions = Sessions(endpoint)
    try:
        async with sessions.working("read the catalogs") as session:
            logins, _ = await read_logins(session)
            usernames = {name for access in every for name in names_of(access)}
            snapshot = await read_snapshot(session, {*logins, *usernames}, "", whole=False)
            marks = await _Marks.of(session)
        finding = _Finding(around, server_name, every, snapshot, marks)
        await finding.run(names)
    finally:
        await sessions.close()
    return finding.report(str(endpoint))


async def take_over(
    around: Surroundings, takeover: TakeOver
) -> tuple[tuple[Candidate, ...], tuple[Passed, ...]]:
    """Write the claims of the accesses into the comments of the roles.

    A role whose claim has changed since it was looked at is left alone.

    Returns:
        The roles that were taken over, and the others.

    Raises:
        AccessError: the server cannot be worked on.
        ClientError: the cluster cannot be reached, or refuses.
    """
    endpoint = await around.sources.server_endpoint(await around.server(takeover.server))
    claims = {candidate.role: candidate.claim for candidate in takeover.candidates}
    former = {candidate.role: candidate.former for candidate in takeover.candidates}
    sessions = Sessions(endpoint)
    try:
        failed = await reserve(sessions, claims, former, takeover.groups)
    finally:
        await sessions.close()
    return (
        tuple(candidate for candidate in takeover.candidates if candidate.role not in failed),
        tuple(Passed(role=name, why=error.message) for name, error in failed.items()),
    )


class _Marks(NamedTuple):
    """The marks of a running server; ``start`` is the time of its start."""

    identity: ServerIdentity
    start: str

    @classmethod
    async def of(cls, session: Session) -> _Marks:
        return cls(await identity_of(session), await start_of(session))

    def are_of_one_server(self, other: _Marks) -> bool:
        """Whether both are of one server, which may have several addresses, or was restarted."""
        systems = {self.identity.system_identifier, other.identity.system_identifier}
        by_start = len(systems) == 1 and self.start == other.start
        return by_start or self.identity == other.identity


class _Finding:
    """The search for candidates among the accesses of one PostgresServer."""

    def __init__(
        self,
        around: Surroundings,
        server: str,
        every: Iterable[PostgresAccess],
        snapshot: ServerSnapshot,
        marks: _Marks,
    ) -> None:
        self._around = around
        self._server = server
        self._snapshot = snapshot
        self._marks = marks
        self._claims = {around.claim(access.metadata).object: access for access in every}
        self._uids = {access.metadata.uid: access for access in every}
        self._here = [access for access in every if self._is_here(access)]
        self._elsewhere: dict[str, bool] = {}
        self._candidates: list[Candidate] = []
        self._passed: list[Passed] = []

    def _is_here(self, access: PostgresAccess) -> bool:
        reference = access.spec.connection.server_ref
        return reference is not None and reference.name == self._server

    async def run(self, names: Collection[str]) -> None:
        """Look at the accesses of the server, all or those with these usernames."""
        askers: dict[str, list[PostgresAccess]] = {}
        for access in self._here:
            username = access.spec.username
            if not names or username in names:
                askers.setdefault(username, []).append(access)
        for name in sorted({*names} - askers.keys()):
            self._pass(name, f"no PostgresAccess of PostgresServer {self._server} asks for it")
        for username, rivals in sorted(askers.items()):
            role = self._snapshot.roles.get(username)
            if role is None or role.claim is None:
                continue
            claims = [self._around.claim(access.metadata) for access in rivals]
            if any(map(role.claim.same_object, claims)):
                continue
            try:
                await self._add(role, role.claim, rivals)
            except (AccessError, ApiError) as error:
                self._pass(username, error.message)

    def _pass(self, role: str, why: str) -> None:
        self._passed.append(Passed(role=role, why=why))

    async def _add(self, role: RoleFacts, former: RoleClaim, rivals: list[PostgresAccess]) -> None:
        """Add the role and its logins to the candidates, for one of the accesses that ask for it.

        Raises:
            AccessError: the operator would refuse the access.
            ApiError: the API server refused.
        """
        # With the key of the former installation its claim tells which object it was.
        same = [access for access in rivals if self._is_of(former, access)]
        if len(same or rivals) > 1:
            askers = ", ".join(str(access.metadata.key) for access in rivals)
            self._pass(role.name, f"several PostgresAccesses ask for it: {askers}")
            return
        (access,) = same or rivals
        check_desired(self._around.desired(access))
        await self._around.sources.endpoint(access, enforce=True)
        if role.name == self._snapshot.server.admin or role.powers:
            why = ", ".join(sorted(role.powers)) or "the administrator's own rights"
            self._pass(role.name, f"it has {why}")
            return
        holder, refused = await self._holder(former, access)
        if refused:
            self._pass(role.name, refused)
            return
        claim = msgspec.structs.replace(
            self._around.claim(access.metadata), uid="", namespace="", name=""
        )
        for name in names_of(access):
            login = self._snapshot.roles.get(name)
            # A login beside the role is taken over with it, and from no other object.
            if login is None or login.claim is None or not login.claim.same_object(former):
                continue
            self._candidates.append(
                Candidate(
                    role=name,
                    access=str(access.metadata.key),
                    holder=holder,
                    claim=claim,
                    former=login.claim,
                )
            )

    def _is_of(self, claim: RoleClaim, access: PostgresAccess) -> bool:
        """Whether the claim is of an object of this name, of whatever cluster."""
        meta = access.metadata
        if claim.object:
            return claim.object == self._around.claim(meta).object
        return (claim.namespace, claim.name) == (meta.namespace, meta.name)

    async def _holder(self, former: RoleClaim, access: PostgresAccess) -> tuple[str, str]:
        """Return the former claim's object in words, and why its role is left to it, or ""."""
        if former.installation != self._around.installation:
            # The user sees where another namespace asks for the role than the former one.
            whose = ""
            if former.name:
                whose = f"PostgresAccess {former.namespace}/{former.name} of "
            elif self._is_of(former, access):
                whose = "the PostgresAccess of the same namespace and name of "
            return f"{whose}installation {former.installation}", ""
        if former.is_imported:
            return "", "an import has claimed it for an object that is yet to be applied"
        holder = self._uids.get(former.uid) or self._claims.get(former.object)
        if holder is None:
            return "a PostgresAccess that is gone", ""
        key = holder.metadata.key
        if self._is_here(holder):
            return "", f"it belongs to PostgresAccess {key}, which uses this PostgresServer"
        if not await self._is_elsewhere(holder):
            return "", f"it belongs to PostgresAccess {key}, which uses this server too"
        return f"PostgresAccess {key} on another server", ""

    async def _is_elsewhere(self, holder: PostgresAccess) -> bool:
        """Whether an access uses another server than this one; a copy is another one.

        Raises:
            AccessError: its server does not tell.
            ApiError: the API server refused.
        """
        endpoint = await self._around.sources.endpoint(holder, enforce=False)
        place = str(endpoint)
        if place not in self._elsewhere:
            sessions = Sessions(endpoint)
            try:
                async with sessions.working("read which server it is") as session:
                    marks = await _Marks.of(session)
                    self._elsewhere[place] = not marks.are_of_one_server(self._marks)
            finally:
                await sessions.close()
        return self._elsewhere[place]

    def report(self, address: str) -> TakeOver:
        """Return the candidates, and the roles that are left."""
        installation = self._around.installation
        taken = {candidate.role for candidate in self._candidates}
        usernames = {name for access in self._here for name in names_of(access)}
        roles = self._snapshot.roles
        groups = {group for name in taken for group in roles[name].groups}
        return TakeOver(
            server=self._server,
            address=address,
            candidates=tuple(self._candidates),
            groups={
                name: claim
                for name, claim in self._snapshot.groups.items()
                if name in groups and claim.installation != installation
            },
            passed=tuple(self._passed),
            unasked=sum(
                role.claim is not None and role.claim.installation != installation
                for name, role in roles.items()
                if name not in usernames
            ),
            notes=tuple(dict.fromkeys(self._around.notes)),
        )
