"""What is known of passwords on one server, so that each is worked out once.

To compare a password with a stored verifier takes a millisecond of computing; without the right to
read verifiers it takes a login. What came of it holds while the server keeps that verifier.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from fairlead.postgres.database import password
from fairlead.postgres.database.plan import Wanted
from fairlead.postgres.database.session import logs_in
from fairlead.postgres.database.sessions import Sessions
from fairlead.postgres.database.snapshot import RoleFacts, Snapshot
from fairlead.postgres.errors import AccessError


PROBE_SECONDS = 3600.0
"""For which a login that went well proves a password, where verifiers cannot be read."""

_SPARE = 1000
"""Usernames of which something is known although nobody keeps them."""

_NEVER = float("-inf")
_KEY = secrets.token_bytes(32)
"""Of digests, which are in this process's memory alone."""


@dataclass(slots=True)
class _Known:
    """The verifier of the password of this digest; ``proven`` is when a login went well."""

    verifier: str
    digest: bytes
    proven: float = _NEVER


class Verifiers:
    """Knows which verifier is of which password, by username."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    async def missing(
        self, sessions: Sessions, wanted: Iterable[Wanted], snapshot: Snapshot
    ) -> tuple[dict[str, str], dict[str, AccessError]]:
        """The verifiers to be stored, of those whose password the server does not have.

        Also why of some nobody could tell, for one that does not answer keeps no other waiting.
        """
        found: dict[str, str] = {}
        failed: dict[str, AccessError] = {}
        reads = snapshot.server.reads_verifiers
        for one in wanted:
            role = snapshot.roles.get(one.username)
            try:
                if not await self._matches(sessions, one, role, reads=reads):
                    found[one.username] = await self._verifier(one)
            except AccessError as error:
                failed[one.username] = error
        return found, failed

    async def _matches(
        self, sessions: Sessions, one: Wanted, role: RoleFacts | None, *, reads: bool
    ) -> bool:
        if role is None or role.claim is None:
            return False
        known = self._of(one)
        if reads:
            if known is None or known.verifier != role.verifier:
                if not await asyncio.to_thread(password.verifies, one.password, role.verifier):
                    return False
                self._remember(one, role.verifier or "")
            return True
        if not role.login or not role.claim.same_object(one.claim):
            return False
        if known is not None and monotonic() - known.proven < PROBE_SECONDS:
            return True
        told = known.proven > _NEVER if known is not None else one.username not in self._known
        if told and has_ended(role):
            # No password logs in any more, so that nothing can be told of this one.
            self._remember(one, known.verifier if known else "").proven = monotonic()
            return True
        database = min((grant.database for grant in one.grants), default="")
        database = database or sessions.endpoint.maintenance
        if not await logs_in(sessions.endpoint, database, one.username, one.password):
            return False
        self._remember(one, "").proven = monotonic()
        return True

    async def _verifier(self, one: Wanted) -> str:
        """The same again until it is stored, so that looking again does not change the plan."""
        known = self._of(one)
        if known is None or not known.verifier:
            made = await asyncio.to_thread(
                password.verifier, one.password, iterations=one.iterations
            )
            known = self._remember(one, made)
        return known.verifier

    def _of(self, one: Wanted) -> _Known | None:
        known = self._known.get(one.username)
        return known if known is not None and known.digest == _digest(one.password) else None

    def _remember(self, one: Wanted, verifier: str) -> _Known:
        known = self._known[one.username] = _Known(verifier, _digest(one.password))
        return known

    def stored(self, usernames: Iterable[str]) -> None:
        """Note that the server has taken the verifiers that were missing."""
        for username in usernames:
            if (known := self._known.get(username)) is not None:
                known.proven = monotonic()

    def is_due(self, username: str) -> bool:
        """Whether a login must prove the password again, where verifiers cannot be read."""
        known = self._known.get(username)
        return known is None or monotonic() - known.proven >= PROBE_SECONDS

    def holds(self, username: str, verifier: str | None) -> bool:
        """Whether the server still has the verifier that was compared with the password."""
        known = self._known.get(username)
        return known is not None and known.verifier == verifier

    def keep(self, usernames: Collection[str]) -> None:
        """Forget others when there are many of them."""
        if len(self._known) > 2 * len(usernames) + _SPARE:
            for username in self._known.keys() - usernames:
                del self._known[username]


def has_ended(role: RoleFacts) -> bool:
    """Whether the server takes no password for the role any more (VALID UNTIL)."""
    if not role.valid_until:
        return False
    return datetime.fromisoformat(role.valid_until) <= datetime.now(UTC)


def _digest(text: str) -> bytes:
    return hmac.digest(_KEY, text.encode("utf-8", "surrogatepass"), "sha256")
