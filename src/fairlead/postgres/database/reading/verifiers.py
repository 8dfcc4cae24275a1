"""Memory of the passwords on one server, so that each verifier is computed once.

Comparing a password with a stored verifier takes a millisecond of CPU time; without the right to
read verifiers it takes a login. The result holds while the server keeps that verifier.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import TypeVar

from fairlead.api.timestamps import moment
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.login import logs_in
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans import password
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleFacts, ServerSnapshot
from fairlead.postgres.errors import AccessError


_NEVER = float("-inf")
_KEY = secrets.token_bytes(32)
"""Key of the passwords' digests, made anew at each start; both are in memory only."""
_DIGEST_BYTES = 16


T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Known:
    """The verifier of a password, with the password's digest.

    ``proven`` is the monotonic time of the last login with it. Once the server has the verifier,
    only its digest is kept.
    """

    verifier: str
    digest: bytes
    proven: float = _NEVER
    verifier_digest: bytes = b""

    def hold(self) -> None:
        """Note that the server has the verifier, and keep only its digest."""
        if self.verifier:
            self.verifier, self.verifier_digest = "", _digest(self.verifier)

    def is_of(self, verifier: str | None) -> bool:
        """Whether the known verifier equals this one."""
        if verifier is None:
            return False
        return (
            self.verifier_digest == _digest(verifier)
            if self.verifier_digest
            else self.verifier == verifier
        )


class Verifiers:
    """The known verifiers of passwords, by the role that logs in."""

    def __init__(self) -> None:
        self._entries: dict[str, _Known] = {}

    async def missing(
        self, sessions: Sessions, states: Iterable[WantedState], snapshot: ServerSnapshot
    ) -> tuple[dict[str, str], dict[str, AccessError]]:
        """Return the verifiers to store, for passwords that the server does not have.

        They are by the role that logs in. The second map has by username the error of each access
        whose password could not be tried; it does not delay the others.
        """
        without: list[WantedState] = []
        doubtful: list[tuple[WantedState, RoleFacts]] = []
        reads = snapshot.server.reads_verifiers
        for state in states:
            role = snapshot.roles.get(state.login)
            if role is None or not _may_match(state, role, reads=reads):
                without.append(state)
            elif not self._is_known(state, role, reads=reads):
                doubtful.append((state, role))
        failed: dict[str, AccessError] = {}
        if reads:
            without += await self._compared(doubtful)
        else:
            # After VALID UNTIL the server refuses the right password as well, so a login would
            # tell nothing.
            left = [one for one, role in doubtful if not self._has_ended(one, role)]
            without += await self._tried(sessions, left, failed)
        await self._make(without)
        return {one.login: self._entries[one.login].verifier for one in without}, failed

    def _has_ended(self, state: WantedState, role: RoleFacts) -> bool:
        """Whether the login has ended, so that its password cannot be tried any more."""
        if state.turns is not None and state.valid_until != role.valid_until:
            # Its turn comes again, with another password.
            return False
        entry = self._of(state)
        # Without any memory of the login, as after a start, the password counts as proven. One
        # that differs from the remembered one is new.
        is_proven = (
            entry.proven > _NEVER if entry is not None else state.login not in self._entries
        )
        if not is_proven or not has_ended(role):
            return False
        (entry or self._remember(state, "")).proven = monotonic()
        return True

    def _is_known(self, state: WantedState, role: RoleFacts, *, reads: bool) -> bool:
        entry = self._of(state)
        if entry is None:
            return False
        if reads:
            return entry.is_of(role.verifier)
        return monotonic() - entry.proven < bounds.PROBE_SECONDS

    async def _compared(
        self, doubtful: Sequence[tuple[WantedState, RoleFacts]]
    ) -> list[WantedState]:
        """Return the accesses whose password does not match the stored verifier."""
        answers = await _in_threads(
            lambda pair: password.verifies(pair[0].password, pair[1].verifier), doubtful
        )
        without = []
        for (state, role), matches in zip(doubtful, answers, strict=True):
            if matches:
                self._remember(state, role.verifier or "").hold()
            else:
                without.append(state)
        return without

    async def _tried(
        self, sessions: Sessions, doubtful: Sequence[WantedState], failed: dict[str, AccessError]
    ) -> list[WantedState]:
        """Return the accesses whose password the server refuses; add errors to ``failed``."""
        without = []
        for first in range(0, len(doubtful), bounds.VERIFIERS_AT_ONCE):
            some = doubtful[first : first + bounds.VERIFIERS_AT_ONCE]
            answers = await asyncio.gather(
                *(_logs_in(sessions, one) for one in some), return_exceptions=True
            )
            for state, answer in zip(some, answers, strict=True):
                if isinstance(answer, AccessError):
                    failed[state.username] = answer
                elif isinstance(answer, BaseException):
                    raise answer
                elif answer:
                    self._remember(state, "").proven = monotonic()
                elif answer is None and (entry := self._of(state)) and entry.proven > _NEVER:
                    # The hba file lets this role in from other addresses only, and the server has
                    # got this password: to store it again would tell no more.
                    entry.proven = monotonic()
                else:
                    without.append(state)
        return without

    async def make(self, state: WantedState) -> str:
        """Return the verifier to store for a new password."""
        await self._make([state])
        return self._entries[state.login].verifier

    async def _make(self, without: Iterable[WantedState]) -> None:
        """Compute missing verifiers; each stays until it is stored, so that the plan is stable."""
        lacking = [
            state for state in without if (entry := self._of(state)) is None or not entry.verifier
        ]
        verifiers = await _in_threads(
            lambda state: password.verifier(state.password, iterations=state.iterations), lacking
        )
        for state, verifier in zip(lacking, verifiers, strict=True):
            self._remember(state, verifier)

    def _of(self, state: WantedState) -> _Known | None:
        entry = self._entries.get(state.login)
        return entry if entry is not None and entry.digest == _digest(state.password) else None

    def _remember(self, state: WantedState, verifier: str) -> _Known:
        entry = self._entries[state.login] = _Known(verifier, _digest(state.password))
        return entry

    def stored(self, logins: Iterable[str]) -> None:
        """Note that the server has taken the verifiers that were missing."""
        now = monotonic()
        for login in logins:
            if (entry := self._entries.get(login)) is not None:
                entry.proven = now
                entry.hold()

    def is_due(self, login: str) -> bool:
        """Whether a login must prove the password again, without the right to read verifiers."""
        entry = self._entries.get(login)
        return entry is None or monotonic() - entry.proven >= bounds.PROBE_SECONDS

    def holds(self, login: str, verifier: str | None) -> bool:
        """Whether the server still has the verifier that was compared with the password."""
        entry = self._entries.get(login)
        return entry is not None and entry.is_of(verifier)

    def keep(self, logins: Collection[str]) -> None:
        """Forget the other logins if there are many of them."""
        if len(self._entries) > 2 * len(logins) + bounds.VERIFIERS_SPARE:
            for login in self._entries.keys() - logins:
                del self._entries[login]


def _may_match(state: WantedState, role: RoleFacts, *, reads: bool) -> bool:
    """Whether the role may have the access's password."""
    # A role that is adopted gets a new password in any case.
    if role.claim is None:
        return False
    # Without the right to read verifiers only a login tells, and a fenced role cannot log in.
    return reads or (role.login and role.claim.same_object(state.claim))


async def _logs_in(sessions: Sessions, state: WantedState) -> bool | None:
    database = min((grant.database for grant in state.grants), default="")
    database = database or sessions.endpoint.maintenance
    sessions.tally.logins += 1
    async with sessions.entering(database, sessions.haste):
        return await logs_in(sessions.endpoint, database, state.login, state.password)


async def _in_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results for all items, in their order; each thread works on a part of them."""

    def of(part: Sequence[T]) -> list[R]:
        return [work(one) for one in part]

    # hashlib releases the GIL for PBKDF2, so that threads compute at the same time.
    size = -(-len(items) // bounds.VERIFIERS_AT_ONCE)
    parts = [items[first : first + size] for first in range(0, len(items), size or 1)]
    parts_done = await asyncio.gather(*(asyncio.to_thread(of, part) for part in parts))
    return [one for part in parts_done for one in part]


def has_ended(role: RoleFacts) -> bool:
    """Whether the role's VALID UNTIL is over, so that the server refuses its password."""
    if not role.valid_until:
        return False
    return datetime.fromisoformat(role.valid_until) <= moment()


def _digest(text: str) -> bytes:
    # Half of the time of an HMAC; a reading of a server computes one digest for each role.
    whole = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, key=_KEY, digest_size=_DIGEST_BYTES).digest()
