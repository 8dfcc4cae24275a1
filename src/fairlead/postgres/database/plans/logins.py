"""Two logins in turn for one owner: a rotation in which no login fails (``rotation: TwoLogins``).

The role that spec.username names is the owner: it holds privileges and objects and has no login.
Of two logins one is current, and its name is the Secret's ``username``; both are members of the
owner and act as it, so that what either makes belongs to the owner. A rotation makes the other one
current, with a password of its own. The one before keeps its password until its grace is over, and
then loses its login. The server knows that end too (VALID UNTIL), so that it comes without us.

Whoever could log in before and is not current ends so: the owner too when an access is changed to
two logins, and both logins when it is changed back. Pure: nothing is remembered but what the
catalogs and the status say, and an end that nobody remembers comes later, never earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess.connection import Rotation
from fairlead.postgres.database.plans.names import MAX_IDENTIFIER_BYTES


_SUFFIXES = ("_a", "_b")
_DIGEST_CHARACTERS = 8
_ALMOST_A_SECOND = timedelta(microseconds=999_999)


class LoginTurns(msgspec.Struct, frozen=True, kw_only=True):
    """What an access asks for that has logins beside its owner, or had them.

    ``current`` is the login of the Secret, the owner itself where the rotation is in place.
    ``known`` are ends that the status remembers. While it is ``staged`` the others are left as
    they are, for the Secret still has one of them. A ``patient`` access leaves the logins that the
    server has ended (VALID UNTIL) as they are until their next turn.
    """

    rotation: Rotation
    current: str
    grace: timedelta
    known: Mapping[str, datetime] = {}
    staged: bool = False
    patient: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn it is.

    ``current`` logs in for good, each of ``ending`` until its time, none of ``ended`` any more.
    """

    current: str
    ending: Mapping[str, datetime]
    ended: frozenset[str]


def login_names(username: str) -> tuple[str, str]:
    """The names of the two logins of an owner, of 63 bytes at most.

    Of an owner whose name is too long for a suffix they carry the beginning and a digest, so that
    two owners that begin alike have logins of their own.
    """
    stem = username
    if len(username.encode()) + len(_SUFFIXES[0]) > MAX_IDENTIFIER_BYTES:
        digest = f"_{sha256(username.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"
        room = MAX_IDENTIFIER_BYTES - len(_SUFFIXES[0]) - len(digest)
        # A character that is cut in half is left out.
        stem = username.encode()[:room].decode(errors="ignore") + digest
    first, second = _SUFFIXES
    return stem + first, stem + second


def family(username: str) -> tuple[str, str, str]:
    """Every role that an access may have: the owner and both logins."""
    return username, *login_names(username)


def current_login(
    rotation: Rotation,
    username: str,
    *,
    found: str,
    known: str = "",
    rotating: bool = False,
    ending: Iterable[str] = (),
) -> str:
    """The login whose name and password the Secret shall have.

    Args:
        rotation: of the access.
        username: the owner's name.
        found: the username in the Secret, "" where there is none; somebody may have edited it.
        known: the current login by the status, "" where it says nothing.
        rotating: whether a new password is made.
        ending: those in their grace, which nobody should lose without need.
    """
    if rotation == "InPlace":
        return username
    first, second = login_names(username)
    before = next((name for name in (found, known) if name in {first, second}), "")
    if not before:
        return second if first in ending and second not in ending else first
    if not rotating:
        return before
    return second if before == first else first


def must_rotate(rotation: Rotation, username: str, *, found: str) -> bool:
    """Whether the kind of rotation has changed, so that the login becomes another.

    A login's password is its own: with another login goes another password.
    """
    logins = login_names(username)
    return found in (logins if rotation == "InPlace" else (username,))


def may_rotate(rotation: Rotation, ending: Mapping[str, datetime], now: datetime) -> bool:
    """Whether the clock may make a new password now.

    It waits while the login whose turn is next is still in its grace. Who asks for a new password,
    or deletes the one there is, is served at once, and that grace ends.
    """
    return rotation == "InPlace" or all(end <= now for end in ending.values())


def turn(
    username: str,
    current: str,
    *,
    able: Iterable[str],
    known: Mapping[str, datetime],
    grace: timedelta,
    now: datetime,
) -> Turn:
    """Who may log in until when.

    Args:
        username: the owner's name.
        current: the login of the Secret.
        able: those of the family that the server lets log in.
        known: the ends that the server remembers (VALID UNTIL), or the status.
        grace: how long a login lasts that is no longer current.
        now: this moment.
    """
    others = {name for name in family(username) if name != current} & set(able)
    # The server is told of whole seconds, and nothing ends before its time.
    latest = (now + grace + _ALMOST_A_SECOND).replace(microsecond=0)
    # An end further away than the grace is another policy's: the shorter one counts.
    ends = {name: min(known.get(name, latest), latest) for name in others}
    return Turn(
        current=current,
        ending={name: end for name, end in sorted(ends.items()) if end > now},
        ended=frozenset(name for name, end in ends.items() if end <= now),
    )


def create_owner(username: str, parts: Iterable[sql.Composable] = ()) -> sql.Composed:
    """A role that owns and may not log in, with ``parts`` for its other attributes."""
    head = sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(username))
    return sql.SQL(" ").join([head, *parts])


def act_as_owner(login: str, username: str) -> sql.Composed:
    """Have each session of a login begin as the owner, and come back to it on RESET ROLE."""
    return sql.SQL("ALTER ROLE {} SET role TO {}").format(
        sql.Identifier(login), sql.Literal(username)
    )


def act_as_owner_in(login: str, database: str) -> sql.Composed:
    """Have them begin so in one database too, where something else was set."""
    return sql.SQL("ALTER ROLE {} IN DATABASE {} RESET role").format(
        sql.Identifier(login), sql.Identifier(database)
    )


def end_login(login: str, until: datetime | None, *, fence: bool = False) -> sql.Composed:
    """Have the server refuse a login's password from that moment on; None takes the end back.

    With ``fence`` it refuses the login now, whatever that has to show.
    """
    end = until.isoformat() if until is not None else "infinity"
    words = "ALTER ROLE {} NOLOGIN VALID UNTIL {}" if fence else "ALTER ROLE {} VALID UNTIL {}"
    return sql.SQL(words).format(sql.Identifier(login), sql.Literal(end))
