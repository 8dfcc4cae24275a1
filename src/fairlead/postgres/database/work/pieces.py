"""Clears databases of what roles own, in pieces that are committed one after the other.

DROP OWNED and REASSIGN OWNED lock all objects of a role at once. With more locks than the server
has room for they fail, and while they try no other session gets one either
(https://www.postgresql.org/docs/current/runtime-config-locks.html). So a role that owns much loses
some objects in each transaction. Nothing is dropped with CASCADE: an object of another role that
depends on one of these makes the statement fail, however late it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.session import (
    Patience,
    Session,
    StatementFailedError,
)
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.pieces import (
    CatalogObject,
    Group,
    OwnedObject,
    RoleEstate,
    cut,
    plan_pieces,
)
from fairlead.postgres.database.plans.snapshot import RoleFacts
from fairlead.postgres.database.reading.dependencies import (
    entangled,
    read_heir,
    runs_as_owner,
    too_many_references,
    used_by_others,
)
from fairlead.postgres.database.reading.estates import (
    count_left,
    read_bound,
    read_constraints,
    read_estate,
    read_identities,
)
from fairlead.postgres.database.reading.inheriting import read_running, transaction_id
from fairlead.postgres.database.reading.references import (
    Dismissal,
    RoleReference,
    list_references,
    name_references,
    read_dismissals,
)
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError, UnfinishedError


_FIRST = {"USER MAPPING": 0, "SCHEMA": 1}
"""Places of the kinds of objects that are given before others.

An owner needs CREATE on the schema, which the heir of a schema has. A user mapping gets no other
user, and is dropped while its server is the role's.
"""


class Clearing:
    """Clears databases of the objects of roles that are removed together.

    Args:
        sessions: the sessions of the server.
        roles: the roles, which have lost their logins.
        superuser: whether the administrator is a superuser.
        patience: timeouts of each transaction.
        heir: the role that gets the objects, "" for the owner of each database.
        references: the number of references to these roles in each database.
        guard: called in each transaction, and may raise to end the removal.
        brief: whether other accesses wait; what takes many pieces is given up with ``TimedOut``
            then, to be done alone.
    """

    def __init__(
        self,
        sessions: Sessions,
        roles: Sequence[RoleFacts],
        *,
        superuser: bool,
        patience: Patience,
        heir: str = "",
        references: Mapping[str, int],
        guard: Callable[[Session], Awaitable[None]] | None = None,
        brief: bool = False,
    ) -> None:
        self._sessions = sessions
        self._roles = roles
        self._oids = [role.oid for role in roles]
        self._superuser = superuser
        self._patience = patience
        self._heir = heir
        self._references = references
        self._guard = guard
        self._brief = brief
        self._username = roles[-1].name
        self._until = asyncio.get_running_loop().time() + bounds.TURN_SECONDS
        self._total = 0

    async def drop(self, databases: Mapping[str, int], *, begun: bool = False) -> None:
        """Drop all objects, which no object of another role may depend on.

        Args:
            databases: the number of objects of these roles in each database.
            begun: whether an earlier turn has dropped some, and looked before.

        Raises:
            AccessError: OwnsObjects, before anything is dropped, with the objects of other roles.
            UnfinishedError: the turn is over.
        """
        self._check_size(databases)
        if not begun:
            await self._check_strangers(databases)
        try:
            for name in databases:
                async with self._sessions.use(name) as session:
                    await self._drop_all(session, name)
        except AccessError as error:
            if error.reason == "OwnsObjects":
                # Something came since the look: another look tells what.
                await self._check_strangers(databases)
            raise

    async def give(self, databases: Mapping[str, int]) -> None:
        """Give objects to the heir, until REASSIGN OWNED can give the rest at once.

        Args:
            databases: the number of objects of these roles in each database.

        Raises:
            AccessError: OwnsObjects, where the heir may not get an object.
            UnfinishedError: the turn is over.
        """
        self._check_size(databases)
        for name in databases:
            async with self._sessions.use(name) as session:
                await self._give_most(session, name)

    async def check(self) -> None:
        """Look for references, before anything is dropped, that nothing here can end.

        Raises:
            AccessError: OwnsObjects, with some references that the administrator may not end, and
                that are too many for DROP OWNED.
        """
        for name in self._crowded():
            async with self._sessions.use(name) as session:
                await self._check_references(session, name)

    async def release(self) -> None:
        """End references to these roles, until DROP OWNED can end the rest at once.

        The references are default privileges, policies, user mappings and privileges on columns.

        Raises:
            AccessError: OwnsObjects, as ``check`` does.
            UnfinishedError: the turn is over.
        """
        for name in self._crowded():
            async with self._sessions.use(name) as session:
                await self._release(session, name)

    def _crowded(self) -> list[str]:
        return [
            name for name, count in self._references.items() if count > bounds.PIECE_REFERENCES
        ]

    def _check_size(self, databases: Mapping[str, int]) -> None:
        if sum(databases.values()) > bounds.BRIEF_OBJECTS:
            self._check_brief()

    async def _check_strangers(self, databases: Iterable[str]) -> None:
        blockers = [
            (name, strangers) for name in databases if (strangers := await self._strangers(name))
        ]
        if blockers:
            raise used_by_others(self._username, blockers)

    async def _strangers(self, database: str) -> list[str]:
        """Return a few objects of other roles that depend on these roles' in a database."""
        async with self._sessions.use(database) as session:
            below: int | None = None
            while True:
                estate = await self._read(session, database, below)
                if estate.strangers or estate.whole:
                    return list(estate.strangers)
                below = estate.oldest

    async def _read(self, session: Session, database: str, below: int | None = None) -> RoleEstate:
        async def read() -> RoleEstate:
            async with session.transaction(self._patience):
                return await read_estate(session, self._oids, below=below)

        return await retried(read, f"read what role {self._username} owns in {database}")

    async def _drop_all(self, session: Session, database: str) -> None:
        bound = await read_bound(session)
        below: int | None = None
        while True:
            estate = await self._read(session, database, below)
            if below is None and estate.whole and estate.locks <= bound:
                # DROP OWNED leaves casts, which have no owner, and fails where one is left.
                casts = [one for one in estate.objects if one.kind == "CAST"]
                for piece in cut(casts, bound):
                    await self._do(session, database, piece)
                await self._release(session, database)
                await self._drop_owned(session, database)
                return
            await self._begin_pieces(session)
            plan = plan_pieces(estate, bound)
            for piece in plan.pieces:
                await self._do(session, database, piece)
                await self._check_turn(session)
            moved = plan.pieces or await self._cut_circles(session, plan.carriers, bound)
            # Parts of older objects, and what only DROP OWNED drops, may fill all of a reading.
            below = None if moved or estate.whole else estate.oldest
            if not moved and below is None:
                raise entangled(self._username, database, estate.locks, bound)

    async def _drop_owned(self, session: Session, database: str) -> None:
        """Drop all objects at once, those that depend on one another in a circle too."""
        names = sql.SQL(", ").join(sql.Identifier(role.name) for role in self._roles)

        async def drop() -> None:
            async with session.transaction(self._patience), AsyncExitStack() as stack:
                await self._act(session, stack)
                await session.run(sql.SQL("DROP OWNED BY {} RESTRICT").format(names))

        await retried(drop, self._what(database))

    async def _do(
        self, session: Session, database: str, piece: Sequence[Group], heir: str = ""
    ) -> None:
        """Drop the objects of a piece, or give them to ``heir``, in one transaction."""

        async def do() -> None:
            async with session.transaction(self._patience), AsyncExitStack() as stack:
                await self._act(session, stack)
                begun = await transaction_id(session) if heir and not self._heir else ""
                things = [thing for _, group in piece for thing in group]
                names = await read_identities(session, self._oids, things)
                for kind, group in piece:
                    places = [names[thing] for thing in group if thing in names]
                    for statement in _gives(kind, places, heir) if heir else _drops(kind, places):
                        await session.run(statement)
                if begun:
                    await self._check_running(session, database, heir, begun)

        await retried(do, self._what(database))

    async def _check_running(self, session: Session, database: str, heir: str, begun: str) -> None:
        for role in self._roles:
            running = await read_running(session, role.oid, heir, begun)
            if running:
                raise runs_as_owner(role.name, database, heir, running)

    async def _cut_circles(
        self, session: Session, carriers: Sequence[CatalogObject], bound: int
    ) -> bool:
        """Drop constraints by which too many tables depend on one another; return whether any."""
        constraints = await read_constraints(session, self._oids, carriers)
        # A foreign key takes the locks of two tables, their triggers and itself.
        step = max(1, bound // 8)
        for first in range(0, len(constraints), step):
            some = constraints[first : first + step]
            cutting = partial(self._cut, session, some)
            await retried(cutting, f"drop constraints of {some[0][0]}")
            await self._check_turn(session)
        return bool(constraints)

    async def _cut(self, session: Session, constraints: Iterable[tuple[str, str]]) -> None:
        async with session.transaction(self._patience), AsyncExitStack() as stack:
            await self._act(session, stack)
            for table, name in constraints:
                statement = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} RESTRICT")
                await session.run(statement.format(_quoted(table), sql.Identifier(name)))

    async def _give_most(self, session: Session, database: str) -> None:
        bound = await read_bound(session)
        heir = await read_heir(session, self._heir, database, self._roles[-1].claim)
        below: int | None = None
        while True:
            estate = await self._read(session, database, below)
            if below is None and estate.whole and estate.locks <= bound:
                return
            await self._begin_pieces(session)
            objects = sorted(estate.objects, key=lambda owned: _FIRST.get(owned.kind, len(_FIRST)))
            pieces = cut([one for one in objects if one.kind not in {"", "CAST"}], bound)
            below = None if pieces or estate.whole else estate.oldest
            if not pieces and below is None:
                raise entangled(self._username, database, estate.locks, bound)
            for piece in pieces:
                await self._do(session, database, piece, heir)
                await self._check_turn(session)

    async def _release(self, session: Session, database: str) -> None:
        if database not in self._crowded():
            return
        bound = await read_bound(session)
        if not await self._is_much(session, database, bound):
            return
        await self._begin_pieces(session)
        await self._check_references(session, database)
        async for listed in self._listed(session, database):
            weighed = [
                OwnedObject(reference.thing, "", _weight(reference, bound)) for reference in listed
            ]
            for piece in cut([weight for weight in weighed if weight.locks], bound):
                await self._dismiss(
                    session, database, [thing for _, group in piece for thing in group]
                )
                await self._check_turn(session)

    async def _check_references(self, session: Session, database: str) -> None:
        bound = await read_bound(session)
        staying: list[RoleReference] = []
        async for listed in self._listed(session, database):
            locking = [reference for reference in listed if reference.locks]
            dismissals = await self._read_dismissals(
                session, [reference.thing for reference in locking]
            )
            able = {dismissal.thing for dismissal in dismissals}
            staying += [reference for reference in locking if reference.thing not in able]
        locks = sum(reference.locks for reference in staying)
        if locks > bound:
            names = await name_references(
                session, [reference.thing for reference in staying[: bounds.NAMED_READ]]
            )
            raise too_many_references(self._username, database, names, locks, bound)

    async def _read_dismissals(
        self, session: Session, things: Sequence[CatalogObject]
    ) -> list[Dismissal]:
        async def read() -> list[Dismissal]:
            async with session.transaction(self._patience), AsyncExitStack() as stack:
                await self._act(session, stack)
                return await read_dismissals(session, self._oids, things)

        return (
            await retried(read, f"read which objects name role {self._username}") if things else []
        )

    async def _is_much(self, session: Session, database: str, bound: int) -> bool:
        """Whether the references take DROP OWNED too many locks, or too long."""
        locks = columns = 0
        async for listed in self._listed(session, database):
            locks += sum(reference.locks for reference in listed)
            columns += sum(reference.columns for reference in listed)
            if locks > bound or columns > bounds.PIECE_COLUMNS:
                return True
        return False

    async def _listed(
        self, session: Session, database: str
    ) -> AsyncIterator[Sequence[RoleReference]]:
        after = CatalogObject(0, 0)
        while True:
            read = partial(list_references, session, self._oids, after)
            listed = await retried(
                read, f"read which objects name role {self._username} in {database}"
            )
            yield listed
            if len(listed) < bounds.ESTATE_WINDOW:
                return
            after = listed[-1].thing

    async def _dismiss(
        self, session: Session, database: str, things: Sequence[CatalogObject]
    ) -> None:
        """End references in one transaction, each in the name of who may."""

        async def dismiss() -> None:
            async with session.transaction(self._patience), AsyncExitStack() as stack:
                await self._act(session, stack)
                dismissals = await read_dismissals(session, self._oids, things)
                owners = {dismissal.owner for dismissal in dismissals if not dismissal.able}
                for owner in sorted(owners):
                    await stack.enter_async_context(
                        acting_as(session, owner.name, superuser=False, oid=owner.oid)
                    )
                try:
                    await session.run_all(
                        [_quoted(dismissal.statement) for dismissal in dismissals]
                    )
                except StatementFailedError as failed:
                    raise failed.error from None

        await retried(dismiss, self._what(database))

    async def _act(self, session: Session, stack: AsyncExitStack) -> None:
        if self._guard is not None:
            await self._guard(session)
        for role in self._roles:
            await stack.enter_async_context(
                acting_as(session, role.name, superuser=self._superuser)
            )

    async def _begin_pieces(self, session: Session) -> None:
        self._check_brief()
        self._total = self._total or await count_left(session, self._oids)

    def _check_brief(self) -> None:
        if self._brief:
            raise AccessError(
                "TimedOut",
                f"role {self._username} owns many objects, and clearing them takes time;"
                " trying again",
            )

    async def _check_turn(self, session: Session) -> None:
        if asyncio.get_running_loop().time() > self._until:
            left = await count_left(session, self._oids)
            raise UnfinishedError(self._username, left, max(self._total, left))

    def _what(self, database: str) -> str:
        return f"clear database {database} of role {self._username}"


def _weight(reference: RoleReference, bound: int) -> int:
    """Return the share of a piece that a reference takes, 0 for one that DROP OWNED may end."""
    columns = -(-reference.columns * bound // bounds.PIECE_COLUMNS)
    return max(reference.locks, columns)


def _drops(kind: str, names: Sequence[str]) -> list[sql.Composed]:
    if not names:
        return []
    if kind == "LARGE OBJECT":
        oids = sql.SQL(", ").join(sql.Literal(int(name)) for name in names)
        unlink = "SELECT pg_catalog.lo_unlink(o) FROM pg_catalog.unnest(ARRAY[{}]::oid[]) o"
        return [sql.SQL(unlink).format(oids)]
    if kind == "USER MAPPING":
        return [sql.SQL("DROP USER MAPPING {}").format(_quoted(name)) for name in names]
    if kind == "CAST":
        return [sql.SQL("DROP CAST {} RESTRICT").format(_quoted(name)) for name in names]
    listed = sql.SQL(", ").join(map(_quoted, names))
    return [sql.SQL("DROP {} {} RESTRICT").format(_quoted(kind), listed)]


def _gives(kind: str, names: Sequence[str], heir: str) -> list[sql.Composed]:
    if kind == "USER MAPPING":
        return _drops(kind, names)
    statement = sql.SQL("ALTER {} {} OWNER TO {}")
    return [statement.format(_quoted(kind), _quoted(name), sql.Identifier(heir)) for name in names]


def _quoted(text: str) -> sql.SQL:
    """Return a keyword of ours, or a name that PostgreSQL has quoted."""
    return sql.SQL(text)
