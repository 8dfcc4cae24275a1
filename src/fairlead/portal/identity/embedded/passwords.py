"""People of a file, and their passwords' hashes (scrypt, RFC 7914); tries are limited."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.yamltext import YAMLError, load, refusal
from fairlead.portal import bounds


COST = 1 << 15
"""scrypt's N of new hashes: a check takes about 0.1 s and 32 MiB."""
LEAST_COST = 1 << 14
"""Least N of an accepted hash."""

_BLOCK, _PARALLEL = 8, 1
"""scrypt's r and p of new hashes."""
_MOST_COST, _MOST_BLOCK, _MOST_PARALLEL = 1 << 17, 16, 4
"""Largest N, r and p of an accepted hash, which bound memory and CPU of a check."""
_SIZE = 32
"""Length of a digest, in bytes."""
_ticks = time.monotonic
_FORM = "scrypt:N:r:p:SALT:HASH"
_REMEDY = "make one with fairlead provider hash-password"


class PasswordError(ValueError):
    """An unusable password, hash or file of people; the text has no password and no hash."""


class PasswordHash(msgspec.Struct, frozen=True):
    """A password's hash with its scrypt parameters."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, line: str) -> PasswordHash:
        """Read a line that :attr:`line` gives.

        Raises:
            PasswordError: the line is malformed, or the hash too weak or too costly.
        """
        parts = line.strip().split(":")
        if len(parts) != 6 or parts[0] != "scrypt":
            raise PasswordError(f"a password's hash has to be {_FORM}: {_REMEDY}")
        try:
            cost, block, parallel = (int(part) for part in parts[1:4])
            salt, digest = (base64.b64decode(part, validate=True) for part in parts[4:])
        except ValueError:
            raise PasswordError(f"a password's hash has to be {_FORM}: {_REMEDY}") from None
        if (
            not LEAST_COST <= cost <= _MOST_COST
            or cost & (cost - 1)
            or not 1 <= block <= _MOST_BLOCK
            or not 1 <= parallel <= _MOST_PARALLEL
            or len(salt) < 16
            or len(digest) < _SIZE
        ):
            raise PasswordError(f"a password's hash is too weak or too costly: {_REMEDY}")
        return cls(cost, block, parallel, salt, digest)

    @classmethod
    def of(cls, password: str, *, cost: int = COST) -> PasswordHash:
        """Hash a password with a new salt.

        Raises:
            PasswordError: the password is empty.
        """
        if not password:
            raise PasswordError("a password may not be empty")
        salt = secrets.token_bytes(16)
        empty = cls(cost, _BLOCK, _PARALLEL, salt, b"\0" * _SIZE)
        return msgspec.structs.replace(empty, digest=empty.digest_of(password))

    @property
    def line(self) -> str:
        """The hash as a line of the file of people."""
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt:{self.cost}:{self.block}:{self.parallel}:{salt}:{digest}"

    def digest_of(self, password: str) -> bytes:
        """Return the digest of a password by this hash's parameters."""
        return hashlib.scrypt(
            password.encode(),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.parallel,
            # scrypt needs 128 * N * r bytes; OpenSSL's default limit of 32 MiB is just too little
            # for N of new hashes.
            maxmem=256 * self.cost * self.block,
            dklen=len(self.digest),
        )

    def matches(self, password: str) -> bool:
        """Whether ``password`` has this hash; the digests are compared in constant time."""
        return hmac.compare_digest(self.digest_of(password), self.digest)


class EmbeddedPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person of the file. ``subject`` is their permanent id, the name by default."""

    name: str
    password: str
    subject: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    people: list[EmbeddedPerson]


class TooManyTriesError(Exception):
    """Too many passwords have failed; the next check is possible in ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many passwords have failed; try again in {seconds:.0f} s")
        self.seconds = seconds


def read_people(text: str | bytes) -> list[EmbeddedPerson]:
    """Read a YAML or JSON file: ``people:`` with name, password, groups and email.

    Raises:
        PasswordError: the file is malformed.
    """
    try:
        body = load(text, aliases=False, max_depth=8)
        people = msgspec.convert(body, _File).people
    except msgspec.ValidationError as error:
        raise PasswordError(f"the file of people is wrong: {field_message(error)}") from None
    except (YAMLError, ValueError) as error:
        raise PasswordError(f"the file of people {refusal(error)}") from None
    if not people:
        raise PasswordError("the file of people is empty: no one could sign in")
    for what in ("name", "subject"):
        names: set[str] = set()
        for person in people:
            value = person.name if what == "name" else person.subject or person.name
            if not value or value in names:
                raise PasswordError(f"the {what} {value!r} is empty, or given to two people")
            names.add(value)
    for person in people:
        try:
            PasswordHash.parse(person.password)
        except PasswordError as error:
            raise PasswordError(f"password of {person.name!r}: {error}") from None
    return people


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
        self._turn = asyncio.Semaphore(bounds.HASHES_AT_ONCE)

    async def find(self, name: str, password: str) -> EmbeddedPerson | None:
        """Return the person with this name and password, None if they do not match.

        Raises:
            TooManyTriesError: too many passwords have failed.
        """
        self._check_tries(name)
        # Counted before the check: otherwise concurrent tries would pass the limit together.
        self._note(name)
        async with self._turn:
            hashed = self._hashes.get(name, self._unknown)
            # In a thread, where hashing holds up no other request.
            good = await asyncio.to_thread(hashed.matches, password)
        if not good or name not in self._people:
            return None
        self._failed.pop(name, None)
        # The try was counted above, and has not failed.
        if self._failed_at_all:
            self._failed_at_all.pop()
        return self._people[name]

    def _check_tries(self, name: str) -> None:
        """Refuse a check while too many passwords have failed, or may fail yet."""
        for failed, most in (
            (self._failed.get(name, deque()), bounds.TRIES),
            (self._failed_at_all, bounds.TRIES_OF_ALL),
        ):
            now = _ticks()
            while failed and failed[0] <= now - bounds.WINDOW_SECONDS:
                failed.popleft()
            if len(failed) >= most:
                raise TooManyTriesError(failed[0] + bounds.WINDOW_SECONDS - now)

    def _note(self, name: str) -> None:
        """Count a password check as failed before it runs; a success takes it back."""
        now = _ticks()
        self._failed.setdefault(name, deque()).append(now)
        self._failed.move_to_end(name)
        if len(self._failed) > bounds.TRIED_NAMES:
            # The name whose last try is the oldest: invented names must not fill the memory.
            self._failed.popitem(last=False)
        self._failed_at_all.append(now)
