"""Sessions: opaque tokens, known by their hashes."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec
import structlog

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.people import Person


BELIEVED_SECONDS = 10.0
"""Seconds for which a session that was read is not read again."""
SESSIONS_OF_A_PERSON = 20
"""Sessions that a person may have at a time; the oldest goes where there would be more."""
SESSIONS_IN_ALL = 10_000
"""Sessions that there may be at a time, of all people."""
TOKEN_BYTES = 32
"""Random bytes of a token."""
RETRY_SECONDS = 5.0
"""Seconds after which to ask again what could not be answered."""

_REMEMBERED = 10_000
"""Sessions that a process holds in memory, at most."""
_token = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch
_log = structlog.get_logger(logger_name="fairlead.portal.sessions")


Kind = Literal["browser", "cli"]


class Session(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One sign-in. ``key`` is the SHA-256 of its token in hex; times are seconds since 1970."""

    key: str
    person: Person
    kind: Kind
    created: float
    expires: float


class Held(NamedTuple):
    """A stored session as its store lists it: name, and when its time is over."""

    name: str
    expires: float


Gone = Callable[[str | None], None]
"""Told the name of what is stored no more; None where it may be anything."""


class SessionStore(Protocol):
    """Where replicas share sessions and what may be used once. Values are bytes.

    Names are hashes in hex; nothing that is stored lets anyone in. ``owner`` is the author name
    of a person, "" for none. What cannot be asked now is answered by a Refusal with status 503.
    """

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store it unless the name is taken, and tell whether it was free."""

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """The value, None where there is none or its time is over."""

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """The value, for one asker alone: it is gone then."""

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete it, if it is there."""

    async def remove_of(self, owner: str | None) -> int:
        """Delete all sessions of a person's author name, or everybody's; how many there were.

        Codes that would become sessions go with them.
        """

    async def held(self, owner: str) -> Sequence[Held]:
        """The sessions of a person's author name, those that end first before the others."""

    async def count(self) -> int:
        """How many sessions there are, about."""

    def listen(self, gone: Gone) -> None:
        """Tell of every session that is stored no more, as soon as it is known."""


def hashed(token: str) -> str:
    """The name under which a token, a state or a code is stored."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def random_token() -> str:
    """256 random bits, of unreserved characters."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def unavailable(reason: str, *, code: ErrorCode = ErrorCode.CLUSTER_CONNECTION_FAILED) -> Refusal:
    """A request that cannot be served now, for what it needs is away; not its sender's fault."""
    return Refusal(
        503,
        code,
        "this cannot be answered at the moment; try again",
        reason=reason,
        retry_after=RETRY_SECONDS,
    )


class Sessions:
    """The sessions of all replicas, believed for a moment each.

    Args:
        store: where they are.
        lifetime: seconds that each lasts.
        of_a_person: how many one person may have.
        in_all: how many there may be.
        believed: seconds for which one that was read is not read again.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        lifetime: float,
        of_a_person: int = SESSIONS_OF_A_PERSON,
        in_all: int = SESSIONS_IN_ALL,
        believed: float = BELIEVED_SECONDS,
    ) -> None:
        self.lifetime = lifetime
        self._store = store
        self._of_a_person = of_a_person
        self._in_all = in_all
        self._believed = believed
        self._known: OrderedDict[str, tuple[Session, float]] = OrderedDict()
        self._evictions = 0
        store.listen(self._gone)

    async def create(self, person: Person, kind: Kind) -> tuple[str, Session]:
        """Sign someone in: the token, which is nowhere else, and its session.

        Raises:
            Refusal: there are too many sessions, or the store is away.
        """
        await self._make_room(person.author)
        token = random_token()
        now = time.time()
        session = Session(
            key=hashed(token), person=person, kind=kind, created=now, expires=now + self.lifetime
        )
        stored = await self._store.put(
            session.key,
            msgspec.json.encode(session),
            kind="session",
            owner=person.author,
            expires=session.expires,
        )
        if not stored:
            raise unavailable("a new session's name was taken")
        return token, session

    def believed(self, token: str) -> Session | None:
        """The session of a token where it was read a moment ago; None says nothing of it."""
        known = self._known.get(hashed(token))
        if known is not None and known[1] > time.monotonic():
            return _current(known[0])
        return None

    async def find(self, token: str) -> Session | None:
        """The session of a token; None where there is none any more.

        Raises:
            Refusal: the store is away.
        """
        if not _token(token):
            return None
        key = hashed(token)
        known = self._known.get(key)
        if known is not None and known[1] > time.monotonic():
            return _current(known[0])
        self._known.pop(key, None)
        begun, evictions = time.monotonic(), self._evictions
        value = await self._store.get(key, kind="session")
        if value is None:
            return None
        try:
            session = msgspec.json.decode(value, type=Session)
        except ValueError as error:
            _log.warning("a stored session cannot be read", error=str(error))
            return None
        if session.key != key:
            return None
        # One that was ended while it was read is not believed any longer than this once.
        if evictions == self._evictions:
            self._known[key] = session, begun + self._believed
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return _current(session)

    async def signed_in(self, author: str) -> float | None:
        """When an author last signed in, in seconds since 1970; None where no session tells.

        Raises:
            Refusal: the store is away.
        """
        held = await self._store.held(author)
        return held[-1].expires - self.lifetime if held else None

    async def end(self, session: Session) -> None:
        """Sign out: the token is worth nothing from now on, on every replica.

        Raises:
            Refusal: the store is away.
        """
        try:
            await self._store.remove(session.key, kind="session")
        finally:
            self._gone(session.key)

    async def end_all(self, author: str | None) -> int:
        """Sign a person out everywhere, by their author name, or everybody; how many there were.

        Raises:
            Refusal: the store is away.
        """
        try:
            return await self._store.remove_of(author)
        finally:
            self._gone(None)

    async def _make_room(self, author: str) -> None:
        held = await self._store.held(author)
        for oldest in held[: max(0, len(held) - self._of_a_person + 1)]:
            await self._store.remove(oldest.name, kind="session")
            self._gone(oldest.name)
        if await self._store.count() >= self._in_all:
            raise unavailable(
                f"there are {self._in_all} sessions already", code=ErrorCode.INTERNAL_ERROR
            )

    def _gone(self, name: str | None) -> None:
        self._evictions += 1
        if name is None:
            self._known.clear()
        else:
            self._known.pop(name, None)


def _current(session: Session) -> Session | None:
    return session if time.time() < session.expires else None
