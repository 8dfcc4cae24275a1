"""Changes the password of a login whose Secret is written in the middle of it.

The server has the new password before the Secret does, and keeps it only if the Secret does: a
password that somebody can read logs in, and while anything holds the server up the old one stays.
Killed between the two the server takes the old one back, and the next pass brings the Secret's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg

from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Wanted
from fairlead.postgres.database.plans.snapshot import RoleFacts, check_roles
from fairlead.postgres.database.plans.statements import alter_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.blockers import watching
from fairlead.postgres.database.work.holding import hold
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


PUBLISH_SECONDS = 10.0
"""That the Secret may take, while the role's row is locked."""


async def rotate(
    sessions: Sessions,
    wanted: Wanted,
    verifiers: Verifiers,
    publish: Callable[[], Awaitable[None]],
    *,
    brief: bool = False,
) -> None:
    """Give a login the password that is wanted, and have its Secret written before that holds.

    A role that there is not yet, or that is still to be taken over, is left to ``sync``.

    Args:
        sessions: of the server.
        wanted: the access, with its new password.
        verifiers: what is known of the server's passwords.
        publish: writes the Secret.
        brief: whether to give up at once what another session has locked.

    Raises:
        AccessError: the server does not take it, and the Secret is as it was.
        Exception: whatever ``publish`` raises; the server has its old password then.
    """
    what = f"change the password of role {wanted.login}"
    verifier = await verifiers.make(wanted)
    rotation = _Rotation(sessions, wanted, verifier, publish)

    async def change() -> None:
        async with sessions.working(what) as session:
            await rotation.run(session, brief=brief)

    if brief:
        await retried(change, what)
    else:
        async with watching(sessions) as blockers:
            try:
                await retried(change, what)
            except AccessError as error:
                raise blockers.named(error) from None
    if rotation.changed:
        verifiers.stored([wanted.login])


class _Rotation:
    def __init__(
        self,
        sessions: Sessions,
        wanted: Wanted,
        verifier: str,
        publish: Callable[[], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._wanted = wanted
        self._verifier = verifier
        self._publish = publish
        self.changed = False

    async def run(self, session: Session, *, brief: bool) -> None:
        self.changed = False
        async with session.transaction(BRIEF if brief else PATIENT):
            role = await self._role(session)
            if role is not None:
                await self._hold(session, role)
                await session.hush()
                statement = alter_role(role.name, login=False, verifier=self._verifier)
                await session.run(statement)
                self.changed = True
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await self._publish()
            except TimeoutError:
                raise AccessError(
                    "TimedOut",
                    f"the Secret of role {role.name if role else self._wanted.login} was not"
                    f" written in {PUBLISH_SECONDS:g} s; trying again",
                ) from None

    async def _role(self, session: Session) -> RoleFacts | None:
        """The login as this access has it so far."""
        wanted = self._wanted
        snapshot = await read_snapshot(session, wanted.names, "", whole=False)
        check_roles(wanted.needed, snapshot, wanted.claim, adopt=wanted.adopt)
        role = snapshot.roles.get(wanted.login)
        if role is None or role.claim is None or role.claim.is_imported:
            return None
        return role

    async def _hold(self, session: Session, role: RoleFacts) -> None:
        try:
            async with session.savepoint():
                await hold(self._sessions, session, [role])
        except psycopg.errors.InsufficientPrivilege:
            # Whoever may not hold it learns from the next statement what else is refused.
            return
