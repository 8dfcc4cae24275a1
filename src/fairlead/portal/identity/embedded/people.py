"""Sign-in with names and passwords from a file, with limits on concurrent and failed checks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from fairlead.api.yamltext import YAMLError, load, refusal
from fairlead.portal.identity.embedded.passwords import PasswordError, PasswordHash


TRIES = 10
"""Largest number of failed passwords of one name in a window."""
TRIES_OF_ALL = 100
"""Largest number of failed passwords of all names together in a window."""
WINDOW_SECONDS = 300.0
"""Length of the window of failed passwords, in seconds."""
AT_ONCE = 2
"""Largest number of concurrent password checks: each takes one CPU and 32 MiB."""

_MOST_NAMES = 1000
"""Largest number of names whose failed passwords are counted."""
_MOST_WAITING = 20
"""Largest number of password checks that run or wait."""


class EmbeddedPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person of the file. ``subject`` is their permanent id, the name by default."""

    name: str
    password: str
    subject: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    people: list[EmbeddedPerson]


class PeopleError(ValueError):
    """An unusable file of people; the text contains no password and no hash."""


class TooManyTriesError(Exception):
    """Too many passwords have failed; the next check is possible in ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many passwords have failed; try again in {seconds:.0f} s")
        self.seconds = seconds


def read_people(text: str | bytes) -> list[EmbeddedPerson]:
    """Read a YAML or JSON file: ``people:`` with name, password, groups and email.

    Raises:
        PeopleError: the file is malformed.
    """
    try:
        body = load(text, aliases=False, max_depth=8)
        found = msgspec.convert(body, _File).people
    except msgspec.ValidationError as error:
        raise PeopleError(f"the file of people is wrong: {error}") from None
    except (YAMLError, ValueError) as error:
        raise PeopleError(f"the file of people {refusal(error)}") from None
    if not found:
        raise PeopleError("the file of people is empty: no one could sign in")
    for what in ("name", "subject"):
        seen: set[str] = set()
        for person in found:
            value = person.name if what == "name" else person.subject or person.name
            if not value or value in seen:
                raise PeopleError(f"the {what} {value!r} is empty, or given to two people")
            seen.add(value)
    for person in found:
        try:
            PasswordHash.parse(person.password)
        except PasswordError as error:
            raise PeopleError(f"password of {person.name!r}: {error}") from None
    return found


class People:
    """Checks names and passwords of sign-ins, at a limited rate."""

    def __init__(self, people: Sequence[EmbeddedPerson]) -> None:
        self._people = {one.name: one for one in people}
        self._hashes = {one.name: PasswordHash.parse(one.password) for one in people}
        # An unknown name is checked against this, so that it takes as long as a known one and
        # the answer's time does not tell which names exist.
        model = next(iter(self._hashes.values()))
        self._unknown = msgspec.structs.replace(model, digest=b"\0" * len(model.digest))
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._failed_at_all: deque[float] = deque()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def find(self, name: str, password: str) -> EmbeddedPerson | None:
        """Return the person with this name and password, None if they do not match.

        Raises:
            TooManyTriesError: too many passwords have failed.
        """
        self._check_tries(name)
        # Counted before the check: otherwise concurrent tries would pass the limit together.
        self._note(name)
        self._waiting += 1
        try:
            async with self._turn:
                hashed = self._hashes.get(name, self._unknown)
                # In a thread, where hashing holds up no other request.
                good = await asyncio.to_thread(hashed.matches, password)
        finally:
            self._waiting -= 1
        if not good or name not in self._people:
            return None
        self._failed.pop(name, None)
        # The try was counted above, and has not failed.
        if self._failed_at_all:
            self._failed_at_all.pop()
        return self._people[name]

    def _check_tries(self, name: str) -> None:
        """Refuse a check while too many passwords have failed or are waiting."""
        if self._waiting >= _MOST_WAITING:
            raise TooManyTriesError(1.0)
        for failed, most in (
            (self._failed.get(name, deque()), TRIES),
            (self._failed_at_all, TRIES_OF_ALL),
        ):
            now = _ticks()
            while failed and failed[0] <= now - WINDOW_SECONDS:
                failed.popleft()
            if len(failed) >= most:
                raise TooManyTriesError(failed[0] + WINDOW_SECONDS - now)

    def _note(self, name: str) -> None:
        """Count a password check as failed before it runs; a success takes it back."""
        now = _ticks()
        self._failed.setdefault(name, deque()).append(now)
        self._failed.move_to_end(name)
        if len(self._failed) > _MOST_NAMES:
            # The name whose last try is the oldest: invented names must not fill the memory.
            self._failed.popitem(last=False)
        self._failed_at_all.append(now)


def _ticks() -> float:
    """Return the loop's clock in seconds, which does not jump when the system's is set."""
    return asyncio.get_running_loop().time()
