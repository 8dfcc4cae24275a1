"""Missing statements for two logins in turn (``logins``): their ends, and acting as the owner.

Pure. The login of the Secret is planned like any role; these statements come in addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, LoginInfo, MemberOf
from fairlead.api.timestamps import parse_time
from fairlead.postgres.database.plans.attributes import (
    NOTHING_AROUND,
    Around,
    membership_statements,
    reset_settings,
    setting_statements,
)
from fairlead.postgres.database.plans.logins import (
    LoginTurns,
    Turn,
    act_as_owner,
    act_as_owner_in,
    end_login,
    family,
    turn,
)
from fairlead.postgres.database.plans.snapshot import GroupFacts, RoleFacts
from fairlead.postgres.database.plans.statements import AccessStatement


_OWNERS = "the owner owns what its logins create"
_MEMBER = "as a member of the owner, a login has all its privileges, but no power over it"


class AskedLogins(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a spec about logins; ``until`` is the end of the access, "" for none.

    ``groups`` says whether the access has a memberOf, so that other memberships are revoked.
    """

    username: str
    turns: LoginTurns
    attributes: Attributes | None = None
    until: str = ""
    groups: bool = False


def acting_statements(
    logins: AskedLogins,
    login: str,
    role: RoleFacts | None,
    version: int,
    around: Around = NOTHING_AROUND,
) -> Iterator[AccessStatement]:
    """Yield the missing statements by which the sessions of a login act as its owner.

    Args:
        logins: the part of the spec about logins.
        login: the name of the login.
        role: the login as it is, None if it is about to be created.
        version: ``server_version_num``.
        around: facts about parameters.
    """
    owner = logins.username
    if role is not None:
        memberships = {
            name: group for name, group in role.groups.items() if logins.groups or name == owner
        }
        role = msgspec.structs.replace(role, groups=memberships)
    steps, _ = membership_statements(
        login, [MemberOf(role=owner)], role, {owner: GroupFacts()}, version
    )
    for step in steps:
        yield msgspec.structs.replace(step, why=_MEMBER)
    # Here and not by ``setting_statements``: RESET ALL takes the parameter role away too, so it
    # has to come before that one is set.
    if role is not None and role.overfull:
        yield reset_settings(login)
        role = msgspec.structs.replace(role, overfull=False)
    for database in role.overfull_in if role is not None else ():
        yield reset_settings(login, database)
    config = dict(role.config) if role is not None else {}
    if config.pop("role", None) != owner:
        what = f"have the sessions of role {login} act as {owner}"
        yield AccessStatement(statement=act_as_owner(login, owner), what=what, why=_OWNERS)
    # A setting of a role in one database overrides its setting in all.
    for database in role.turned_in if role is not None else ():
        what = f"have the sessions of role {login} in database {database} act as {owner}"
        yield AccessStatement(statement=act_as_owner_in(login, database), what=what, why=_OWNERS)
    # Without its parameter role, which would be reset as spec.attributes.config does not name it.
    if role is not None:
        role = msgspec.structs.replace(role, config=config)
    for step in setting_statements(login, logins.attributes, role, around.reserved):
        yield msgspec.structs.replace(step, alone=True)


def ending_statements(
    logins: AskedLogins, roles: Mapping[str, RoleFacts], version: int, now: datetime
) -> Iterator[AccessStatement]:
    """Yield the missing statements by which the logins that are not current end in time."""
    turns = logins.turns
    if turns.staged:
        return
    whose = _turn(logins, roles, now)
    for name, last in whose.ending.items():
        role = roles[name]
        end = min(last, parse_time(logins.until)) if logins.until else last
        if _end(role) != end:
            yield AccessStatement(
                statement=end_login(name, end),
                what=f"end the login of role {name} after its grace period",
                why=f"{turns.current} is the current login now",
                shown=_why(name, f"VALID UNTIL '{turns.grace.total_seconds():g} s from then'"),
            )
        if name != logins.username:
            yield from acting_statements(logins, name, role, version)
    for name in sorted(whose.ended):
        yield from _ended_statements(logins, roles[name], now)


def _turn(logins: AskedLogins, roles: Mapping[str, RoleFacts], now: datetime) -> Turn:
    return turn(
        logins.username,
        logins.turns.current,
        able=[name for name, role in roles.items() if role.login],
        ends_known=_ends(logins.turns, roles),
        grace=logins.turns.grace,
        now=now,
    )


def _ended_statements(
    logins: AskedLogins, role: RoleFacts, now: datetime
) -> Iterator[AccessStatement]:
    end = _end(role)
    over = end is not None and end <= now
    is_owner = role.name == logins.username
    will_turn = logins.turns.rotation == "TwoLogins" and not is_owner
    if logins.turns.leaves_ended and over and will_turn:
        return
    why = (
        "it owns what the logins create, and does not log in any more"
        if is_owner
        else ("its grace period is over")
    )
    until = None if is_owner else end if over else now.replace(microsecond=0)
    yield AccessStatement(
        statement=end_login(role.name, until, fence=True),
        what=f"end the login of role {role.name}",
        why=why,
        shown=_why(role.name, "NOLOGIN"),
    )


def retired(
    turns_asked: AskedLogins, roles: Mapping[str, RoleFacts], now: datetime | None = None
) -> tuple[str, ...]:
    """Return the logins that have ended for good, because the rotation is InPlace again.

    Args:
        turns_asked: the part of the spec about logins.
        roles: the roles of the access as they are.
        now: this moment, to include logins that are about to lose their LOGIN.
    """
    if turns_asked.turns.rotation != "InPlace" or turns_asked.turns.staged:
        return ()
    over = _turn(turns_asked, roles, now).ended if now is not None else frozenset()
    _, *logins = family(turns_asked.username)
    return tuple(
        name for name in logins if name in roles and (name in over or not roles[name].login)
    )


def login_infos(logins: AskedLogins, roles: Mapping[str, RoleFacts]) -> tuple[LoginInfo, ...]:
    """Return the status of the current login and of the former ones.

    It is empty if the rotation is InPlace and no other login is left.
    """
    current = logins.turns.current
    others = [
        LoginInfo(name=name, ends_at=roles[name].valid_until)
        for name in family(logins.username)
        if name in roles and name != current and (roles[name].login or name != logins.username)
    ]
    if not others and logins.turns.rotation == "InPlace":
        return ()
    return LoginInfo(name=current, current=True), *others


def _ends(turns: LoginTurns, roles: Mapping[str, RoleFacts]) -> dict[str, datetime]:
    """Return the end of each login, the earlier one of the server's and the status'."""
    ends = dict(turns.ends)
    for name, role in roles.items():
        end = _end(role)
        if end is not None:
            ends[name] = min(end, ends.get(name, end))
    return ends


def _end(role: RoleFacts) -> datetime | None:
    return datetime.fromisoformat(role.valid_until).astimezone(UTC) if role.valid_until else None


def _why(login: str, rest: str) -> str:
    return f"ALTER ROLE {sql.Identifier(login).as_string()} {rest}"
