"""Sessions of people: opaque tokens, of which only hashes are stored."""

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
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal, forbidden


FEWER_GROUPS = (
    "let it send only the groups that are assigned to this application, or app roles in the claim "
    "of `--oidc-groups-claim`"
)
"""The remedy for a person with too many groups; "it" is the issuer."""


class Person(msgspec.Struct, frozen=True, rename="camel"):
    """A person of an issuer; ``subject`` is the issuer's permanent id of them, usually ``sub``.

    ``name`` is for display only: it may change, and two people may share it. With
    ``groups_left_out`` the issuer said that there are groups, and named none.
    """

    issuer: str
    subject: str
    name: str = ""
    groups: tuple[str, ...] = ()
    groups_left_out: bool = False

    @property
    def author(self) -> str:
        """The name that owns consumer identities: issuer and subject."""
        return f"{self.issuer}/{self.subject}"

    @property
    def remark(self) -> str:
        """The reason why rights that the person has by a group do not count, "" if they do."""
        if not self.groups_left_out:
            return ""
        return (
            "at your sign-in the issuer named no groups, since you have too many for it to list, "
            "so rights by group do not count. Remedy for who runs the issuer: "
            f"{FEWER_GROUPS}; then sign in again"
        )

    @property
    def warnings(self) -> dict[str, str]:
        """The header that tells the person's program the remark, as API servers tell theirs."""
        return {"Warning": f'299 - "{self.remark}"'} if self.remark else {}


class Prefixes(msgspec.Struct, frozen=True):
    """Prefixes of an issuer's user and group names in SubjectAccessReviews.

    With empty prefixes the names are used as they are, as kube-bind does.
    """

    username: str = "oidc:"
    groups: str = "oidc:"

    def user(self, person: Person) -> str:
        """Return the person's user name in reviews.

        Raises:
            Refusal: the name would begin with ``system:``.
        """
        name = self.username + person.subject
        # RBAC grants rights to such names on every cluster, for example to system:masters.
        if name.startswith(_RESERVED):
            raise forbidden(
                "this name cannot sign in here", reason=f"user {name!r} is Kubernetes' own"
            )
        return name

    def groups_of(self, person: Person) -> tuple[str, ...]:
        """Return the person's groups in reviews, without any that begin with ``system:``."""
        # Left out, while the rest of the groups counts: an issuer may have such a group.
        named = (self.groups + group for group in person.groups)
        return tuple(name for name in named if not name.startswith(_RESERVED))


_RESERVED = "system:"


_token = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch
_log = structlog.get_logger(logger_name="fairlead.portal.sessions")


Kind = Literal["browser", "cli"]
"""Holder of a session's token: a browser in a cookie, or a command in its config file."""


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One sign-in. ``key`` is the SHA-256 of its token in hex; times are seconds since 1970."""

    key: str
    person: Person
    kind: Kind
    created: float
    expires: float


class HeldSession(NamedTuple):
    """A stored session as listed: its name, and its expiry in seconds since 1970."""

    name: str
    expires: float


Gone = Callable[[str | None], None]
"""Listener, called with the name of a removed session; None if any session may be gone."""


class SessionStore(Protocol):
    """Base of storage that replicas share, of sessions and of values for one use, as bytes.

    Names are hashes in hex, so a reader of the store gains no access. ``owner`` is the author
    name of a person, "" for none. An unavailable store raises a Refusal with status 503.
    """

    _listeners: list[Gone]

    def __init__(self) -> None:
        self._listeners = []

    def listen(self, gone: Gone) -> None:
        """Call ``gone`` for every removed session, also one that another replica removed."""
        self._listeners.append(gone)

    def tell(self, name: str | None) -> None:
        """Tell the listeners of a removed session; None if any may be gone."""
        for gone in self._listeners:
            gone(name)

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store a value; return False if the name is taken."""

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Return the value, None if it is missing or expired."""

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Remove the value and return it, so that only one caller gets it."""

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete the value if it exists."""

    async def held(self, owner: str) -> Sequence[HeldSession]:
        """Return the sessions of a person's author name, ordered by expiry."""

    async def count(self) -> int:
        """Return the approximate number of sessions."""


class MemoryStore(SessionStore):
    """A SessionStore in the memory of one process, lost when it ends."""

    def __init__(self, most: int = bounds.VALUES_IN_MEMORY) -> None:
        super().__init__()
        self.there: dict[tuple[str, str], tuple[bytes, str, float]] = {}
        """Value, owner and expiry in seconds since 1970, by kind and name."""
        self._most = most

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store a value; return False if the name is taken."""
        if self._found(kind, name) is not None:
            return False
        self.there[kind, name] = value, owner, expires
        if len(self.there) > self._most:
            self._make_room()
        return True

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Return the value, None if it is missing or expired."""
        return self._found(kind, name)

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Remove the value and return it, so that only one caller gets it."""
        value = self._found(kind, name)
        self.there.pop((kind, name), None)
        return value

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete the value if it exists."""
        self.there.pop((kind, name), None)
        self.tell(name)

    async def held(self, owner: str) -> Sequence[HeldSession]:
        """Return the sessions of an owner, ordered by expiry."""
        entries = [
            HeldSession(name, expires)
            for (kind, name), (_, of, expires) in self.there.items()
            if kind == "session" and of == owner
        ]
        return sorted(entries, key=lambda entry: entry.expires)

    async def count(self) -> int:
        """Return the number of sessions."""
        return sum(kind == "session" for kind, _ in self.there)

    def _found(self, kind: str, name: str) -> bytes | None:
        entry = self.there.get((kind, name))
        if entry is None:
            return None
        if entry[2] > time.time():
            return entry[0]
        del self.there[kind, name]
        return None

    def _make_room(self) -> None:
        """Delete expired values, and then those that expire first."""
        ordered = sorted(self.there, key=lambda key: self.there[key][2])
        now = time.time()
        for key in ordered:
            if len(self.there) <= self._most and self.there[key][2] > now:
                break
            del self.there[key]
            self.tell(key[1])


def hashed(token: str) -> str:
    """Return the name under which a token, a state or a code is stored."""
    # Neither salt nor stretching is needed: 256 random bits cannot be guessed from a hash. Headers
    # may hold bytes that are no UTF-8, which arrive as surrogates.
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def random_token() -> str:
    """Return 256 random bits as URL-safe text."""
    return secrets.token_urlsafe(32)


def unavailable(reason: str, *, code: ErrorCode = ErrorCode.CLUSTER_CONNECTION_FAILED) -> Refusal:
    """Return the refusal of a request whose storage or issuer is unavailable."""
    return Refusal(
        503,
        code,
        "this cannot be answered at the moment; try again",
        reason=reason,
        retry_after=bounds.RETRY_SECONDS,
    )


class BrowserSessions:
    """The sessions of all replicas, with a short cache.

    Args:
        store: the shared storage.
        lifetime: lifetime of a session, in seconds.
        of_a_person: largest number of sessions per person.
        in_all: largest number of sessions.
        believed: how long a session is cached after it was read, in seconds.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        lifetime: float,
        of_a_person: int = bounds.SESSIONS_OF_A_PERSON,
        in_all: int = bounds.SESSIONS_IN_ALL,
        believed: float = bounds.SESSION_BELIEVED_SECONDS,
    ) -> None:
        self.lifetime = lifetime
        self._store = store
        self._of_a_person = of_a_person
        self._in_all = in_all
        self._believed = believed
        self._known: OrderedDict[str, tuple[BrowserSession, float]] = OrderedDict()
        self._evictions = 0
        store.listen(self._gone)

    async def create(self, person: Person, kind: Kind) -> tuple[str, BrowserSession]:
        """Create a session; return its token, which is stored nowhere, and the session.

        Raises:
            Refusal: there are too many sessions, or the store is unavailable.
        """
        await self._make_room(person.author)
        token = random_token()
        now = time.time()
        session = BrowserSession(
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

    async def find(self, token: str) -> BrowserSession | None:
        """Return the session of a token; None if it does not exist or has ended.

        Raises:
            Refusal: the store is unavailable.
        """
        if not _token(token):
            return None
        key = hashed(token)
        cached = self._known.get(key)
        if cached is not None and cached[1] > time.monotonic():
            return _current(cached[0])
        self._known.pop(key, None)
        # From before the read: the answer may be older than its arrival.
        begun, evictions = time.monotonic(), self._evictions
        value = await self._store.get(key, kind="session")
        if value is None:
            return None
        try:
            session = msgspec.json.decode(value, type=BrowserSession)
        except ValueError as error:
            _log.warning("a stored session cannot be read", error=str(error))
            return None
        # A value that was copied to another name would give its session a second token.
        if session.key != key:
            return None
        # If a session ended during the read, this one may have; it is not cached then.
        if evictions == self._evictions:
            self._known[key] = session, begun + self._believed
            if len(self._known) > bounds.SESSIONS_CACHED:
                self._known.popitem(last=False)
        return _current(session)

    async def signed_in(self, author: str) -> float | None:
        """Return when the person with an author name last signed in, in seconds since 1970.

        Return None if the person has no session.

        Raises:
            Refusal: the store is unavailable.
        """
        entries = await self._store.held(author)
        return entries[-1].expires - self.lifetime if entries else None

    async def end(self, session: BrowserSession) -> None:
        """End a session: every replica refuses its token, and drops it from its cache.

        Raises:
            Refusal: the store is unavailable.
        """
        try:
            await self._store.remove(session.key, kind="session")
        finally:
            self._gone(session.key)

    async def _make_room(self, author: str) -> None:
        """End a person's oldest sessions; refuse a new one if there are too many in all."""
        entries = await self._store.held(author)
        # By expiry, which is the order of sign-in as long as the lifetime is the same.
        for oldest in entries[: max(0, len(entries) - self._of_a_person + 1)]:
            await self._store.remove(oldest.name, kind="session")
            self._gone(oldest.name)
        if await self._store.count() >= self._in_all:
            raise unavailable(
                f"there are {self._in_all} sessions already", code=ErrorCode.INTERNAL_ERROR
            )

    def _gone(self, name: str | None) -> None:
        """Remove one session, or all with None, from the cache."""
        self._evictions += 1
        if name is None:
            self._known.clear()
        else:
            self._known.pop(name, None)


def _current(session: BrowserSession) -> BrowserSession | None:
    return session if time.time() < session.expires else None
