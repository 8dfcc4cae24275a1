"""Changes the password of a login, and its Secret inside of the same transaction.

The transaction sets the new password, writes the Secret, and commits only if that succeeded. So
the password in the Secret logs in, and the old one stays as long as the server is held up. If the
process is killed after the write, the server rolls back, and the next pass sets the Secret's
password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleFacts, check_roles
from fairlead.postgres.database.plans.statements import alter_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.blockers import watching
from fairlead.postgres.database.work.holding import hold
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError, PasswordForm


async def rotate(
    sessions: Sessions,
    state: WantedState,
    verifiers: Verifiers,
    publish: Callable[[], Awaitable[None]],
    *,
    brief: bool = False,
) -> None:
    """Set the new password of a login, and write its Secret before the commit.

    A role that does not exist yet, or is yet to be adopted, is left to ``sync``.

    Args:
        sessions: the sessions of the server.
        state: the access with its new password.
        verifiers: the known verifiers of the server.
        publish: writes the Secret.
        brief: whether to give up at the first lock of another session.

    Raises:
        AccessError: the server refused the password; the Secret is unchanged.
        Exception: ``publish`` raised it; the server keeps the old password.
    """
    what = f"change the password of role {state.login}"
    verifier = await verifiers.make(state)
    rotation = _Rotation(sessions, state, verifier, publish)

    async def change() -> None:
        async with sessions.working(what) as session:
            await rotation.run(session, brief=brief)

    sets: PasswordForm = "plain" if state.plain else "verifier"
    if brief:
        await retried(change, what, sets)
    else:
        async with watching(sessions) as blockers:
            try:
                await retried(change, what, sets)
            except AccessError as error:
                raise blockers.named(error) from None
    if rotation.changed:
        verifiers.stored([state.login])


class _Rotation:
    def __init__(
        self,
        sessions: Sessions,
        state: WantedState,
        verifier: str,
        publish: Callable[[], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._state = state
        self._verifier = verifier
        self._publish = publish
        self.changed = False

    async def run(self, session: Session, *, brief: bool) -> None:
        self.changed = False
        async with session.transaction(BRIEF if brief else PATIENT):
            role = await self._role(session)
            if role is not None:
                await self._hold(session, role)
                # The verifier is in the statement, and log_statement would keep it.
                session.hush()
                secret = self._state.secret(self._verifier)
                statement = alter_role(role.name, login=False, secret=secret)
                await session.run(statement)
                self.changed = True
            try:
                # Also without a role: ``sync`` then creates it with the Secret's password.
                async with asyncio.timeout(bounds.PUBLISH_SECONDS):
                    await self._publish()
            except TimeoutError:
                raise AccessError(
                    "TimedOut",
                    "the operator did not write the Secret of role"
                    f" {role.name if role else self._state.login} within"
                    f" {bounds.PUBLISH_SECONDS:g} s; trying again",
                ) from None

    async def _role(self, session: Session) -> RoleFacts | None:
        """Read the login, None if it does not exist or does not belong to the access yet."""
        state = self._state
        snapshot = await read_snapshot(session, state.names, "", whole=False)
        check_roles(state.needed, snapshot, state.claim, adopt=state.adopt)
        role = snapshot.roles.get(state.login)
        if role is None or role.claim is None or role.claim.is_imported:
            return None
        return role

    async def _hold(self, session: Session, role: RoleFacts) -> None:
        try:
            async with session.savepoint():
                await hold(self._sessions, session, [role])
        except psycopg.errors.InsufficientPrivilege:
            # Without the right to hold the role, the next statement tells the missing rights.
            return
