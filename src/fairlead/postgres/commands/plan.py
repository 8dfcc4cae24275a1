"""``fairlead postgres plan``: the statements that the operator would run in each server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.postgresaccess import Plan
from fairlead.client import ApiError
from fairlead.postgres import bounds
from fairlead.postgres.commands.accesses import Given
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.controllers.rules.desired import (
    Desired,
    ServerPlace,
)
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import ShownPlan, WantedState
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.errors import AccessError, refusal


IN_SYNC, FAILED, CHANGES = 0, 1, 2
"""Exit codes: no statement would run; an access has a problem; statements would run."""


class PlannedStatement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A statement, its reason, and the accesses that need it; passwords are ***."""

    sql: str
    reason: str
    accesses: tuple[str, ...]


class DatabasePlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The statements in one database, in the order of execution."""

    database: str
    statements: tuple[PlannedStatement, ...]


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The statements in one server; ``remedies`` grant the rights that its administrator lacks.

    ``digests`` name the plans of the accesses that wait for an approval.
    """

    server: str
    address: str
    accesses: tuple[str, ...]
    databases: tuple[DatabasePlan, ...] = ()
    remedies: tuple[DatabasePlan, ...] = ()
    digests: Mapping[str, str] = {}


class PlanProblem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The reason for which the operator would do nothing for an access, or only a part."""

    access: str
    reason: str
    message: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An access for which the operator does nothing until its object changes."""

    access: str
    why: str


class PlanReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plans of all servers; ``notes`` name the objects that cannot be read."""

    in_sync: bool
    servers: tuple[ServerPlan, ...] = ()
    problems: tuple[PlanProblem, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def statements(self) -> int:
        """Number of statements in all servers."""
        return sum(len(one.statements) for server in self.servers for one in server.databases)

    @property
    def exit_code(self) -> int:
        """Exit code of the command, see :data:`IN_SYNC`."""
        if self.problems:
            return FAILED
        return CHANGES if self.statements else IN_SYNC


class _Ready(NamedTuple):
    """An access that can be planned."""

    name: str
    place: ServerPlace
    state: WantedState
    manual: bool
    approved: str
    """Digest of the plan that was approved last."""
    parts: tuple[str, ...] = ()
    """Hashes of the parts of the plan in the status."""


async def plan(around: Surroundings, given: Iterable[Given]) -> PlanReport:
    """Return the plans of the accesses, one for each server.

    Raises:
        ClientError: the cluster cannot be reached.
    """
    planning = _Planning(around)
    for access in given:
        await planning.prepare(access)
    await planning.run()
    return planning.report()


class _Planning:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._places: dict[ServerPlace, list[_Ready]] = {}
        self._servers: list[ServerPlan] = []
        self._problems: list[PlanProblem] = []
        self._skipped: list[Skipped] = []

    async def prepare(self, given: Given) -> None:
        """Find the server and the wanted state of an access."""
        try:
            if given.access is None:
                raise given.problem or AccessError("InvalidSpec", "it cannot be decoded")
            desired = self._around.desired(given.access)
            check_desired(desired)
            why = idle(desired)
            if why:
                self._skipped.append(Skipped(access=given.name, why=why))
                return
            ready = await self._ready(given.name, desired)
            self._places.setdefault(ready.place, []).append(ready)
        except AccessError as error:
            self._fail(given.name, error)
        except ApiError as error:
            self._fail(given.name, AccessError(error.reason or "ApiError", error.message))

    async def _ready(self, name: str, desired: Desired) -> _Ready:
        access = desired.access
        if desired.unsound is not None:
            raise desired.unsound
        desired = desired.at(await self._around.sources.endpoint(access, enforce=True))
        # A user without the right to read Secrets gets a plan without passwords, in place of none.
        state = await self._around.wanted_state(desired, blind={"SecretForbidden"})
        before = access.status.plan or Plan()
        manual, place = bool(desired.held_back_by), desired.known_place
        parts = tuple(before.parts)
        return _Ready(name, place, state, manual, before.approved_digest, parts)

    async def run(self) -> None:
        """Plan the accesses of all servers."""
        slots = asyncio.Semaphore(bounds.SERVERS_AT_ONCE)

        async def plan_place(place: ServerPlace, ready: Sequence[_Ready]) -> None:
            async with slots:
                await self._server(place, ready)

        await asyncio.gather(*(plan_place(place, ready) for place, ready in self._places.items()))

    async def _server(self, place: ServerPlace, ready: Sequence[_Ready]) -> None:
        sessions, verifiers = Sessions(place.endpoint), Verifiers()
        plans: list[tuple[Sequence[_Ready], ShownPlan]] = []
        try:
            states = await with_claims(self._around, sessions, [one.state for one in ready])
            pairs = zip(ready, states, strict=True)
            for batch in _batches([one._replace(state=state) for one, state in pairs]):
                states_of_batch = [one.state for one in batch]
                planned = await plan_accesses(
                    sessions, states_of_batch, verifiers, rights=True, parts=batch[0].parts
                )
                plans.append((batch, planned))
        except AccessError as error:
            for entry in ready:
                self._fail(entry.name, error)
            return
        finally:
            await sessions.close()
        self._servers.append(self._planned(place, _without_rivals(plans, self._fail)))

    def _planned(
        self, place: ServerPlace, plans: Iterable[tuple[Sequence[_Ready], ShownPlan]]
    ) -> ServerPlan:
        statements: list[tuple[AccessStatement, tuple[str, ...]]] = []
        remedies: dict[tuple[str, str], tuple[AccessStatement, tuple[str, ...]]] = {}
        digests: dict[str, str] = {}
        names: list[str] = []
        for batch, planned in plans:
            of_role = {one.state.username: one.name for one in batch}
            names += of_role.values()
            for username, name in of_role.items():
                for error in planned.refused.get(username, ()):
                    self._fail(name, error)
            statements += [(one, _names(one, of_role)) for one in planned.statements]
            for remedy in planned.remedies:
                # Accesses of several batches may need the same right, which is told once.
                remedies.setdefault(
                    (remedy.database, remedy.text), (remedy, _names(remedy, of_role))
                )
            # An access with approval: Manual is a batch of its own, so the plan is its own.
            if batch[0].manual and planned.statements:
                plan = msgspec.structs.replace(planned, after=batch[0].approved)
                digests[batch[0].name] = plan.digest()
        return ServerPlan(
            server=place.owner if place.is_trusted else f"a server of {place.owner}",
            address=str(place.endpoint),
            accesses=tuple(sorted(names)),
            databases=by_database(statements),
            remedies=by_database(remedies.values()),
            digests=digests,
        )

    def _fail(self, name: str, error: AccessError) -> None:
        problem = PlanProblem(access=name, reason=error.reason, message=error.message)
        if problem not in self._problems:
            self._problems.append(problem)

    def report(self) -> PlanReport:
        """Return the report, its servers sorted by name and address."""
        servers = tuple(sorted(self._servers, key=lambda server: (server.server, server.address)))
        return PlanReport(
            in_sync=not self._problems and not any(one.databases for one in servers),
            servers=servers,
            problems=tuple(self._problems),
            skipped=tuple(self._skipped),
            notes=tuple(dict.fromkeys(self._around.notes)),
        )


async def with_claims(
    around: Surroundings, sessions: Sessions, states: Sequence[WantedState]
) -> list[WantedState]:
    """Return the wanted accesses with the claims that their roles carry.

    Claims stay as they are where the user may read the installation's key.

    Raises:
        AccessError: the server cannot be queried.
    """
    if around.knows_claims:
        return list(states)
    async with sessions.working("read the catalogs") as session:
        snapshot = await read_snapshot(session, [name for one in states for name in one.names], "")
    with_claim = []
    for state in states:
        role = snapshot.roles.get(state.username)
        claim = role.claim if role is not None else None
        # The uid is in the claim in clear, and tells the object without the key.
        is_ours = claim is not None and claim.uid == state.claim.uid
        with_claim.append(msgspec.structs.replace(state, claim=claim) if is_ours else state)
    return with_claim


def check_desired(desired: Desired) -> None:
    """Refuse what the operator refuses in the first stages of a pass, suspended or not.

    Raises:
        AccessError: InvalidSpec, where spec.expiresAfter is no duration; or UserExcluded.
    """
    if desired.deleting:
        return
    if desired.refused is not None:
        raise desired.refused
    if desired.excluded:
        raise refusal(
            "UserExcluded",
            f"spec.username {desired.access.spec.username} is one of the operator's excluded"
            " users; choose another",
        )


def idle(desired: Desired) -> str:
    """Return why an access is not planned: deletion, suspension or expiry; "" where it is."""
    spec = desired.access.spec
    if desired.deleting:
        return (
            "it is being deleted; what happens to its role depends on spec.cleanupPolicy"
            f" {spec.cleanup_policy}"
        )
    if spec.suspend:
        return "spec.suspend is set"
    if desired.expired:
        return f"it ended at {desired.ends}, as spec.expiresAfter says"
    return ""


def _batches(ready: Sequence[_Ready]) -> list[list[_Ready]]:
    """Return the accesses in batches; one with a digest or a rival is planned by itself."""
    usernames = Counter(name for one in ready for name in one.state.names)
    alone = [one.manual or any(usernames[name] > 1 for name in one.state.names) for one in ready]
    together = [one for one, single in zip(ready, alone, strict=True) if not single]
    singles = [[one] for one, single in zip(ready, alone, strict=True) if single]
    return [*([together] if together else []), *singles]


def _without_rivals(
    plans: Iterable[tuple[Sequence[_Ready], ShownPlan]], fail: Callable[[str, AccessError], None]
) -> list[tuple[Sequence[_Ready], ShownPlan]]:
    """Return the plans without those of accesses whose role an earlier one asks for.

    ``fail`` is called with each access that is left out.
    """
    left: list[tuple[Sequence[_Ready], ShownPlan]] = []
    winners: dict[str, str] = {}
    for batch, planned in plans:
        first = batch[0]
        if len(batch) == 1 and first.state.username not in planned.refused:
            names = first.state.names
            # The first one wins, as on the server; ``in_cluster`` returns the oldest first.
            taken = [name for name in names if winners.setdefault(name, first.name) != first.name]
            if taken:
                message = f"{winners[taken[0]]} asks for role {taken[0]} too, and came first"
                fail(first.name, refusal("UsernameConflict", message))
                continue
        left.append((batch, planned))
    return left


def _names(statement: AccessStatement, of_role: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(of_role.get(one, one) for one in statement.usernames))


def by_database(
    statements: Iterable[tuple[AccessStatement, tuple[str, ...]]],
) -> tuple[DatabasePlan, ...]:
    """Return the statements, with the names of their accesses, grouped by database."""
    databases: dict[str, list[PlannedStatement]] = {}
    for statement, names in statements:
        planned = PlannedStatement(sql=statement.text, reason=statement.why, accesses=names)
        databases.setdefault(statement.database, []).append(planned)
    return tuple(
        DatabasePlan(database=name, statements=tuple(some)) for name, some in databases.items()
    )
