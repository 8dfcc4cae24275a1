"""Attempts to log in, of which a server sees few while it refuses the credentials.

Servers lock accounts, and tools block addresses, after some failed logins. So of all that need the
same login one tries, the others get its result, and after a refusal the next attempt comes ever
later. Other credentials are another login, and are tried at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic as time_of

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import LoginRefusedError, refused


_ACCEPTED = {"DatabaseNotFound", "InsufficientPrivilege", "RoleIsFull"}
"""Reasons of refusals after the server has accepted the credentials."""


class AttemptPace:
    """The delay of the next attempt at what a server has refused, twice as long each time."""

    def __init__(self) -> None:
        self.refusals = 0
        """Number of refusals since the last success."""
        self._again_at = 0.0
        """Time of the clock before which no attempt follows a refusal."""

    @property
    def is_early(self) -> bool:
        """Whether the next attempt has to wait."""
        return self.refusals > 0 and time_of() < self._again_at

    def refuse(self) -> None:
        """Note a refusal; attempts that began together count once."""
        if not self.is_early:
            delay = bounds.REFUSED_SECONDS * 2.0 ** min(self.refusals, 16)
            self._again_at = time_of() + min(delay, bounds.REFUSED_MOST_SECONDS)
            self.refusals += 1

    def accept(self) -> None:
        """Note a success."""
        self.refusals = 0


class _Login:
    """The results of one login so far."""

    def __init__(self) -> None:
        self.attempt = asyncio.Lock()
        self.works = False
        self.pace = AttemptPace()


class Attempts:
    """Lets one of several attempts at a login go on, and tells the others its result."""

    def __init__(self) -> None:
        self._logins: OrderedDict[bytes, _Login] = OrderedDict()
        # No password of another owner stays in memory for its login.
        self._key = os.urandom(32)

    def is_refused(self, endpoint: Endpoint) -> bool:
        """Whether the last attempt with these credentials was refused."""
        login = self._logins.get(self._hash(endpoint))
        return login is not None and login.pace.refusals > 0

    @asynccontextmanager
    async def attempt(self, endpoint: Endpoint) -> AsyncIterator[None]:
        """Run the block, which logs in, at its turn.

        Raises:
            LoginRefusedError: the credentials were refused, in this attempt or a moment ago.
        """
        login = self._of(endpoint)
        is_held = False
        if not login.works:
            try:
                async with asyncio.timeout(bounds.ATTEMPT_SECONDS):
                    await login.attempt.acquire()
                is_held = True
            except TimeoutError:
                if login.pace.refusals:
                    raise refused(endpoint) from None
        try:
            if is_held and login.works:
                login.attempt.release()
                is_held = False
            if login.pace.is_early:
                raise refused(endpoint)
            try:
                yield
            except LoginRefusedError:
                self._refuse(login)
                raise
            except Exception as error:
                if getattr(error, "reason", "") in _ACCEPTED:
                    self._accept(login)
                raise
            self._accept(login)
        finally:
            if is_held:
                login.attempt.release()

    def _refuse(self, login: _Login) -> None:
        login.pace.refuse()
        login.works = False

    def _accept(self, login: _Login) -> None:
        login.works = True
        login.pace.accept()

    def _of(self, endpoint: Endpoint) -> _Login:
        key = self._hash(endpoint)
        login = self._logins.setdefault(key, _Login())
        self._logins.move_to_end(key)
        if len(self._logins) > bounds.LOGINS:
            self._logins.popitem(last=False)
        return login

    def _hash(self, endpoint: Endpoint) -> bytes:
        login = (
            endpoint.host,
            endpoint.port,
            endpoint.username,
            endpoint.password,
            endpoint.certificate,
            endpoint.key,
        )
        return hashlib.blake2b(repr(login).encode(), key=self._key, digest_size=32).digest()
