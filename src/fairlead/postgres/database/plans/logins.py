"""Two logins in turn for one owner: a rotation in which no login fails (``rotation: TwoLogins``).

The role of spec.username is the owner: it holds privileges and objects and has no login. One of
two logins is current, and its name is the Secret's ``username``. Both are members of the owner and
act as it, so that the owner owns all objects that they create. A rotation makes the other login
current, with a password of its own. The former one keeps its password until its grace is over, and
then loses LOGIN. The server knows that end too (VALID UNTIL), and keeps it without the operator.

Every other role of the access ends in the same way: the owner if an access is changed to two
logins, and both logins if it is changed back. Pure: the catalogs and the status are the only
memory, and an end that is lost comes later, never earlier.
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
    """Desired logins of an access that has, or had, logins beside its owner.

    ``current`` is the login of the Secret, which is the owner if the rotation is InPlace.
    ``ends`` are ends from the status. While ``staged``, the other logins are left as they are,
    because the Secret still has one of them. With ``leaves_ended``, logins that the server has
    ended (VALID UNTIL) stay as they are until their next turn, which asks for an approval anyway.
    """

    rotation: Rotation
    current: str
    grace: timedelta
    ends: Mapping[str, datetime] = {}
    staged: bool = False
    leaves_ended: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Logins of an access at a moment, and their ends.

    ``current`` logs in without an end, ``ending`` has the other logins with their ends, ``ended``
    those that may not log in any more.
    """

    current: str
    ending: Mapping[str, datetime]
    ended: frozenset[str]


def login_names(username: str) -> tuple[str, str]:
    """Return the names of the two logins of an owner, of 63 bytes at most.

    An owner's name that is too long for a suffix is cut and gets a digest, so that two owners with
    the same beginning have different logins.
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
    """Return the names of the owner and both logins, all roles that an access may have."""
    return username, *login_names(username)


def turn(
    username: str,
    current: str,
    *,
    able: Iterable[str],
    ends_known: Mapping[str, datetime],
    grace: timedelta,
    now: datetime,
) -> Turn:
    """Return the logins of an access with their ends.

    Args:
        username: the owner's name.
        current: the login of the Secret.
        able: the roles of the access with LOGIN at the server.
        ends_known: the ends at the server (VALID UNTIL) or in the status.
        grace: the time that a login lasts after it was current.
        now: this moment.
    """
    others = {name for name in family(username) if name != current} & set(able)
    # VALID UNTIL is set in whole seconds, rounded up so that no login ends early.
    latest = (now + grace + _ALMOST_A_SECOND).replace(microsecond=0)
    # An end beyond the grace is from an earlier, longer policy: the shorter grace counts.
    ends = {name: min(ends_known.get(name, latest), latest) for name in others}
    return Turn(
        current=current,
        ending={name: end for name, end in sorted(ends.items()) if end > now},
        ended=frozenset(name for name, end in ends.items() if end <= now),
    )


def create_owner(username: str, parts: Iterable[sql.Composable] = ()) -> sql.Composed:
    """Return CREATE ROLE for an owner without login, with ``parts`` for other attributes."""
    head = sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(username))
    return sql.SQL(" ").join([head, *parts])


def act_as_owner(login: str, username: str) -> sql.Composed:
    """Return ALTER ROLE by which sessions of a login act as the owner, after RESET ROLE too."""
    return sql.SQL("ALTER ROLE {} SET role TO {}").format(
        sql.Identifier(login), sql.Literal(username)
    )


def act_as_owner_in(login: str, database: str) -> sql.Composed:
    """Return the reset of a setting in one database that overrides ``act_as_owner`` there."""
    return sql.SQL("ALTER ROLE {} IN DATABASE {} RESET role").format(
        sql.Identifier(login), sql.Identifier(database)
    )


def end_login(login: str, until: datetime | None, *, fence: bool = False) -> sql.Composed:
    """Return ALTER ROLE by which a login's password ends at that moment; None removes the end.

    With ``fence`` the role loses LOGIN at once, which ends logins by certificate too.
    """
    end = until.isoformat() if until is not None else "infinity"
    words = "ALTER ROLE {} NOLOGIN VALID UNTIL {}" if fence else "ALTER ROLE {} VALID UNTIL {}"
    return sql.SQL(words).format(sql.Identifier(login), sql.Literal(end))
