"""Rules of passwords, and times of new ones: by the clock, an annotation, or where none exists.

A new password is stored in the Secret first, then in the database, then in the status. A crash in
between leaves a Secret whose password the status does not know: the next pass brings this password
to the database, and the clock asks for no other before that. The annotation's value is written
together with its password, so that each value counts once, even after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

import msgspec

from fairlead.api.durations import parse_duration
from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess import (
    ROTATE_ANNOTATION,
    LoginInfo,
    PasswordInfo,
    PostgresAccess,
    PostgresAccessSpec,
    PostgresAccessStatus,
)
from fairlead.api.postgresaccess.connection import LoginPolicy, PasswordPolicy, Rotation
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres import bounds
from fairlead.postgres.database.plans import password
from fairlead.postgres.database.plans.logins import LoginTurns, family, login_names
from fairlead.postgres.errors import AccessError, invalid


_MIN_EVERY, _MAX_EVERY = timedelta(minutes=1), timedelta(hours=87_600)
GRACE = timedelta(hours=1)
"""Default time for which a login works after the other one has taken its turn."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PasswordRules(msgspec.Struct, frozen=True, kw_only=True):
    """A password policy with every default filled in; ``alphabet`` has all its characters."""

    length: int = password.LENGTH
    alphabet: str = password.ALPHABETS["urlsafe"]
    rotate_every: timedelta | None = None
    iterations: int = password.ITERATIONS
    rotation: Rotation = "InPlace"

    def generate(self) -> str:
        """Return a new password."""
        return password.generate(self.length, self.alphabet)


def password_rules(spec: PostgresAccessSpec, defaults: PasswordPolicy) -> PasswordRules:
    """Return the rules of an access: its own policy over that of the settings, and our defaults.

    Raises:
        AccessError: PasswordPolicyInvalid; the message names the field.
    """
    own = spec.password_policy or LoginPolicy()
    length = own.length or defaults.length or password.LENGTH
    alphabet = _characters(own.alphabet or defaults.alphabet or "urlsafe")
    # The comparison is between integers, so that no rounding decides.
    if len(alphabet) ** length < 2**bounds.PASSWORD_BITS:
        raise _wrong(
            "alphabet",
            f"{length} characters out of {len(alphabet)} give less than {bounds.PASSWORD_BITS}"
            " bits; raise length, or add characters",
        )
    iterations = own.iterations or defaults.iterations or password.ITERATIONS
    if iterations > bounds.ITERATIONS_MOST:
        raise _wrong(
            "iterations", f"{iterations} is too many; the limit is {bounds.ITERATIONS_MOST}"
        )
    return PasswordRules(
        length=length,
        alphabet=alphabet,
        rotate_every=_period(spec, own, defaults),
        iterations=iterations,
        rotation=rotation_of(spec),
    )


def _period(
    spec: PostgresAccessSpec, own: LoginPolicy, defaults: PasswordPolicy
) -> timedelta | None:
    every = own.rotate_every
    if own.on_adoption == "Keep" and (every or own.rotation != "InPlace"):
        raise _wrong(
            "onAdoption",
            "Keep cannot be combined with rotateEvery or TwoLogins; remove one of them",
        )
    if spec.password_secret_ref is not None:
        if every:
            raise _wrong(
                "rotateEvery",
                "it cannot be combined with spec.passwordSecretRef; remove one of them",
            )
        if own.rotation != "InPlace":
            raise _wrong(
                "rotation",
                "TwoLogins cannot be combined with spec.passwordSecretRef; remove one of them",
            )
        return None
    if not every:
        # The options have refused invalid durations.
        return parse_duration(defaults.rotate_every or "") or None
    period = parse_duration(every)
    if period is None or not _MIN_EVERY <= period <= _MAX_EVERY:
        raise _wrong(
            "rotateEvery", f"{every} is not a duration from 1m to 87600h; write one like 720h"
        )
    return period


def _characters(alphabet: str) -> str:
    if alphabet in password.ALPHABETS:
        return password.ALPHABETS[alphabet]
    if not all("!" <= character <= "~" for character in alphabet):
        raise _wrong(
            "alphabet",
            "use urlsafe, alphanumeric, hex, or printable ASCII characters without blanks;"
            " remove the others",
        )
    return "".join(sorted(set(alphabet)))


def _wrong(field: str, why: str) -> AccessError:
    return invalid(
        "PasswordPolicyInvalid",
        f"spec.passwordPolicy.{field}, or the Controller's passwordDefaults.{field}: {why}",
    )


def mark_of(meta: ObjectMeta, annotation: str = ROTATE_ANNOTATION) -> str:
    """Return the value of an annotation that asks for something once; a digest of a long one."""
    value = meta.annotations.get(annotation, "")
    if len(value) <= bounds.MARK_CHARACTERS:
        return value
    return f"sha256:{sha256(value.encode()).hexdigest()}"


def asked_for(access: ObjectMeta, secret: ObjectMeta) -> bool:
    """Whether the access's rotation annotation asks for a password that the Secret lacks."""
    mark = mark_of(access)
    return bool(mark) and mark != mark_of(secret)


def keeps_password(access: PostgresAccess, *, published: bool) -> bool:
    """Whether the role keeps the unreadable password that it had at its adoption.

    Args:
        access: the object.
        published: whether the access has a Secret with a password.
    """
    spec, status = access.spec, access.status
    return (
        spec.password_policy is not None
        and spec.password_policy.on_adoption == "Keep"
        and spec.password_secret_ref is None
        and status.password is None
        and not (published or mark_of(access.metadata))
    )


def rotation_of(spec: PostgresAccessSpec) -> Rotation:
    """Return the way in which the password changes: in its place, or by two logins."""
    return spec.password_policy.rotation if spec.password_policy is not None else "InPlace"


def grace_of(spec: PostgresAccessSpec) -> timedelta:
    """Return the time for which a login works after the other one has taken its turn.

    Raises:
        AccessError: PasswordPolicyInvalid, where gracePeriod is no valid duration.
    """
    own = spec.password_policy or LoginPolicy()
    every = parse_duration(own.rotate_every or "")
    if not own.grace_period:
        return min(GRACE, every) if every is not None else GRACE
    grace = parse_duration(own.grace_period)
    if grace is None or not timedelta() <= grace <= _MAX_EVERY:
        raise _wrong(
            "gracePeriod",
            f"{own.grace_period} is not a duration from 0s to 87600h; write one like 1h",
        )
    if every is not None and grace > every:
        raise _wrong(
            "gracePeriod",
            f"{own.grace_period} is longer than rotateEvery {own.rotate_every}, after which the"
            " turn of the same login comes again; shorten it",
        )
    return grace


def is_old(rules: PasswordRules, info: PasswordInfo | None, now: datetime) -> bool:
    """Whether the password is older than the policy allows."""
    due = _next_rotation(rules, info)
    return due is not None and due <= now


def is_due(
    rules: PasswordRules,
    access: ObjectMeta,
    secret: ObjectMeta,
    info: PasswordInfo | None,
    fingerprint: str,
    now: datetime,
) -> bool:
    """Whether a new password of the Secret is due.

    Args:
        rules: the rules of the access.
        access: the metadata of the access.
        secret: the metadata of the generated Secret.
        info: the status.password, which is about the password in the server.
        fingerprint: the fingerprint of the password in the Secret.
        now: the present time.
    """
    if asked_for(access, secret):
        return True
    # A password that the status does not know has yet to reach the server; then its period begins.
    is_same = info is not None and info.fingerprint == fingerprint
    return is_same and is_old(rules, info, now)


class Choice(NamedTuple):
    """The next login of a Secret, and the password that it keeps, "" for a new one.

    ``mark`` is the rotation annotation of the password. ``turns`` tells that the other login takes
    its turn, ``postponed`` that a due new password waits for an answer of the server.
    """

    login: str
    password: str
    mark: str = ""
    turns: bool = False
    postponed: bool = False


def choose(
    access: PostgresAccess,
    rules: PasswordRules,
    source: ObjectMeta | None,
    present: tuple[str, str],
    *,
    given: str,
    now: datetime,
    fingerprint: str | None = None,
    answers: bool = True,
) -> Choice:
    """Choose the login and the password of an access's Secret.

    Args:
        access: the object.
        rules: the rules of its password.
        source: the metadata of the present Secret.
        present: the login and the password in the present Secret.
        given: the password that spec.passwordSecretRef names.
        now: the present time.
        fingerprint: the fingerprint of the password in the Secret, None to take it for the one in
            the status.
        answers: whether the server has answered.
    """
    status, meta = access.status, access.metadata
    if fingerprint is None:
        fingerprint = status.password.fingerprint if status.password is not None else ""
    login, there = present
    # The mark goes into the Secret together with its password: a crash between two writes would
    # lose the request, or serve it twice.
    password, mark, postponed = given or there, mark_of(meta), False
    changes = is_of_other_rotation(rules.rotation, access.spec.username, login=login)
    if password and source is not None and not given:
        due = not changes and (
            asked_for(meta, source)
            or (
                is_due(rules, meta, source, status.password, fingerprint, now)
                and is_late(rules, status, now)
            )
        )
        # While the server does not answer, only the old password works.
        postponed = due and not answers
        if changes or (due and answers):
            password = ""
        else:
            mark = mark_of(source)
    return Choice(
        login=next_login(access, login, now, rotating=not password),
        password=password,
        mark=mark,
        turns=changes or (rules.rotation == "TwoLogins" and not password),
        postponed=postponed,
    )


def next_login(access: PostgresAccess, login: str, now: datetime, *, rotating: bool) -> str:
    """Return the next login of the Secret; ``login`` is the present one, "" for an unknown one."""
    infos = access.status.logins
    return login_in_turn(
        rotation_of(access.spec),
        access.spec.username,
        login=login,
        proposed=current_of(infos),
        rotating=rotating,
        ending=[name for name, end in ends_of(infos).items() if end > now],
    )


def login_in_turn(
    rotation: Rotation,
    username: str,
    *,
    login: str,
    proposed: str = "",
    rotating: bool = False,
    ending: Iterable[str] = (),
) -> str:
    """Return the login whose name and password belong in the Secret, of one or of two in turn.

    Args:
        rotation: the rotation of the access.
        username: the owner's name.
        login: the username in the Secret, "" for none; a user may have edited it.
        proposed: the current login by the status, "" for none.
        rotating: whether a new password is made.
        ending: logins in their grace, which should not become current before its end.
    """
    if rotation == "InPlace":
        return username
    first, second = login_names(username)
    before = next((name for name in (login, proposed) if name in {first, second}), "")
    if not before:
        return second if first in ending and second not in ending else first
    if not rotating:
        return before
    return second if before == first else first


def is_of_other_rotation(rotation: Rotation, username: str, *, login: str) -> bool:
    """Whether the login ``login`` in the Secret belongs to the other kind of rotation.

    Each login has a password of its own, so a change of the login needs a new password.
    """
    logins = login_names(username)
    return login in (logins if rotation == "InPlace" else (username,))


def is_late(rules: PasswordRules, status: PostgresAccessStatus, now: datetime) -> bool:
    """Whether the password is too old, and no login would lose its grace period by a new one."""
    if not is_old(rules, status.password, now):
        return False
    return may_rotate(rules.rotation, ends_of(status.logins), now)


def may_rotate(rotation: Rotation, ending: Mapping[str, datetime], now: datetime) -> bool:
    """Whether a scheduled rotation may make a new password now.

    It waits while the login whose turn is next is in its grace. A rotation that a user requests,
    or causes by deleting the password, does not wait and ends that grace.
    """
    return rotation == "InPlace" or all(end <= now for end in ending.values())


def password_info(
    rules: PasswordRules, old: PasswordInfo | None, fingerprint: str, now: datetime
) -> PasswordInfo:
    """Return the status.password for a password in the server, unchanged while it stays."""
    same = old if old is not None and old.fingerprint == fingerprint else PasswordInfo()
    info = PasswordInfo(
        fingerprint=fingerprint,
        changed_at=same.changed_at or format_time(now),
        open_sessions=same.open_sessions,
    )
    due = _next_rotation(rules, info)
    return msgspec.structs.replace(info, next_rotation=format_time(due) if due else "")


def seconds_left(
    info: PasswordInfo | None,
    now: datetime,
    infos: Iterable[LoginInfo] = (),
    *,
    planned_at: datetime | None = None,
) -> float | None:
    """Return the seconds until the next rotation or the next end of a login, None for never.

    A late rotation returns 0, and so does an end that came after the plan of this pass, which
    ``planned_at`` is. A rotation by the clock waits for the ends.
    """
    planned_at = planned_at or now
    ends = [
        end for login in infos if (end := _moment(login.ends_at)) is not None and end > planned_at
    ]
    due = _moment(info.next_rotation) if info is not None else None
    if due is not None and ends:
        due = max(due, *ends)
    moments = [one for one in (due, *ends) if one is not None]
    return max(0.0, (min(moments) - now).total_seconds()) if moments else None


def ends_of(infos: Iterable[LoginInfo]) -> dict[str, datetime]:
    """Return the ends of the logins in the status by their names."""
    return {one.name: end for one in infos if (end := _moment(one.ends_at)) is not None}


def current_of(infos: Iterable[LoginInfo]) -> str:
    """Return the login of the Secret by the status, "" where it names none."""
    return next((one.name for one in infos if one.current), "")


def turns_of(access: PostgresAccess, login: str, *, staged: bool = False) -> LoginTurns | None:
    """Return the turns of two logins, None where the access never had a second one.

    Args:
        access: the object.
        login: the login of the present Secret, or of the next one if ``staged``.
        staged: whether the Secret has yet to be written.

    Raises:
        AccessError: PasswordPolicyInvalid; the message names the field.
    """
    spec, infos = access.spec, access.status.logins
    rotation = rotation_of(spec)
    grace = grace_of(spec)
    if rotation == "InPlace" and not infos and login == spec.username and not staged:
        return None
    ends = ends_of(infos)
    if infos:
        # No Secret ever had the password of a login that the status does not name.
        names = {one.name for one in infos}
        ends |= {name: _LONG_AGO for name in family(spec.username) if name not in names}
    return LoginTurns(
        rotation=rotation,
        current=login,
        grace=grace,
        ends=ends,
        staged=staged,
        leaves_ended=spec.approval == "Manual" or spec.mode == "Observe",
    )


def _next_rotation(rules: PasswordRules, info: PasswordInfo | None) -> datetime | None:
    since = _moment(info.changed_at) if info is not None else None
    if rules.rotate_every is None or since is None:
        return None
    try:
        return since + rules.rotate_every
    except OverflowError:
        return None


def _moment(text: str) -> datetime | None:
    """Return the time in a text, None for "" and invalid texts."""
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None
