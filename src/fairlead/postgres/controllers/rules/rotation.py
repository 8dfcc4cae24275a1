"""How passwords are made, and when anew: by the clock, by an annotation, or where there is none.

A new password is stored in the Secret first, then in the database, then in the status. Whoever
dies in between leaves a Secret whose password the status does not know: that one is brought on,
and none is made by the clock before it has arrived. The annotation's value is written together
with the password made for it, so that each value counts once however the writer ends.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from fairlead.postgres.database.plans import logins, password
from fairlead.postgres.database.plans.logins import LoginTurns, family
from fairlead.postgres.errors import AccessError, invalid


MIN_BITS = 96
"""Of a password, were its characters to be guessed."""
_MIN_EVERY, _MAX_EVERY = timedelta(minutes=1), timedelta(hours=87_600)
GRACE = timedelta(hours=1)
"""How long a login works after another one has taken its turn, unless the policy says so."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_MAX_MARK = 128
"""Characters of an annotation's value that are copied; of longer ones a digest is."""


class PasswordDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for accesses that do not say; ``rotate_every`` is in seconds, 0 is never."""

    length: int = password.LENGTH
    alphabet: str = "urlsafe"
    rotate_every: float = 0.0
    iterations: int = password.ITERATIONS


def password_defaults(policy: PasswordPolicy) -> PasswordDefaults:
    """What a Controller says for all, where it says something that has been checked."""
    every = parse_duration(policy.rotate_every or "")
    return PasswordDefaults(
        length=policy.length or password.LENGTH,
        alphabet=policy.alphabet or "urlsafe",
        rotate_every=every.total_seconds() if every else 0.0,
        iterations=policy.iterations or password.ITERATIONS,
    )


class PasswordRules(msgspec.Struct, frozen=True, kw_only=True):
    """A password policy with every default filled in; ``alphabet`` has all its characters."""

    length: int = password.LENGTH
    alphabet: str = password.ALPHABETS["urlsafe"]
    rotate_every: timedelta | None = None
    iterations: int = password.ITERATIONS
    rotation: Rotation = "InPlace"

    def generate(self) -> str:
        """A new password."""
        return password.generate(self.length, self.alphabet)


def password_rules(spec: PostgresAccessSpec, defaults: PasswordDefaults) -> PasswordRules:
    """The rules of an access: its own policy over the options, which a Controller sets.

    Raises:
        AccessError: PasswordPolicyInvalid, naming the field.
    """
    own = spec.password_policy or LoginPolicy()
    length = own.length or defaults.length
    alphabet = _characters(own.alphabet or defaults.alphabet)
    # 2 to the 96th is an integer, so that no rounding decides.
    if len(alphabet) ** length < 2**MIN_BITS:
        raise _wrong(
            "alphabet",
            f"{length} of {len(alphabet)} characters are less than {MIN_BITS} bits; raise length,"
            " or add characters",
        )
    iterations = own.iterations or defaults.iterations
    if iterations > password.MAX_ITERATIONS:
        raise _wrong("iterations", f"{iterations} are too many; {password.MAX_ITERATIONS} will do")
    return PasswordRules(
        length=length,
        alphabet=alphabet,
        rotate_every=_period(spec, own, defaults),
        iterations=iterations,
        rotation=rotation_of(spec),
    )


def _period(
    spec: PostgresAccessSpec, own: LoginPolicy, defaults: PasswordDefaults
) -> timedelta | None:
    every = own.rotate_every
    if own.on_adoption == "Keep" and (every or own.rotation != "InPlace"):
        raise _wrong("onAdoption", "Keep excludes rotateEvery and TwoLogins; remove one of them")
    if spec.password_secret_ref is not None:
        if every:
            raise _wrong("rotateEvery", "spec.passwordSecretRef excludes it; remove one of them")
        if own.rotation != "InPlace":
            raise _wrong(
                "rotation", "spec.passwordSecretRef excludes TwoLogins; remove one of them"
            )
        return None
    if not every:
        return timedelta(seconds=defaults.rotate_every) if defaults.rotate_every else None
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
            "it is urlsafe, alphanumeric, hex or characters that are printable ASCII and no blank;"
            " remove the others",
        )
    return "".join(sorted(set(alphabet)))


def _wrong(field: str, why: str) -> AccessError:
    return invalid(
        "PasswordPolicyInvalid",
        f"spec.passwordPolicy.{field}, or the Controller's passwordDefaults.{field}: {why}",
    )


def mark_of(meta: ObjectMeta) -> str:
    """The value of the annotation that asks for a new password, or that one was made for."""
    value = meta.annotations.get(ROTATE_ANNOTATION, "")
    if len(value) <= _MAX_MARK:
        return value
    return f"sha256:{sha256(value.encode()).hexdigest()}"


def asked_for(access: ObjectMeta, secret: ObjectMeta) -> bool:
    """Whether the access carries a value that no password was made for yet."""
    wanted = mark_of(access)
    return bool(wanted) and wanted != mark_of(secret)


def keeps_password(access: PostgresAccess, *, published: bool) -> bool:
    """Whether the role has the password that it was taken over with, which nobody can read.

    Args:
        access: the object.
        published: whether it has a Secret, which tells the password.
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
    """How the password changes."""
    return spec.password_policy.rotation if spec.password_policy is not None else "InPlace"


def grace_of(spec: PostgresAccessSpec) -> timedelta:
    """How long a login works after another one has taken its turn.

    Raises:
        AccessError: PasswordPolicyInvalid, when that is no duration of use.
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
            f"{own.grace_period} is longer than rotateEvery {own.rotate_every}, at the end of"
            " which the turn is the same login's again; shorten it",
        )
    return grace


def is_old(rules: PasswordRules, info: PasswordInfo | None, now: datetime) -> bool:
    """Whether the password's time is up."""
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
    """Whether the password of this Secret shall be made anew.

    Args:
        rules: of the access.
        access: its metadata.
        secret: the generated Secret's metadata.
        info: what the status knows of the password that the server has.
        fingerprint: of the password in the Secret.
        now: this moment.
    """
    if asked_for(access, secret):
        return True
    # A password that the status does not know has yet to reach the server, and its period begins
    # there.
    known = info is not None and info.fingerprint == fingerprint
    return known and is_old(rules, info, now)


class Choice(NamedTuple):
    """The login that a Secret shall have, and the password that it keeps, "" for a new one.

    ``mark`` is the annotation that the password was made for. ``turns`` says that the login is
    another than before, or that the next one takes its turn; ``postponed`` that a new password is
    due which waits for an answer of the server.
    """

    login: str
    kept: str
    mark: str = ""
    turns: bool = False
    postponed: bool = False


def choose(
    access: PostgresAccess,
    rules: PasswordRules,
    source: ObjectMeta | None,
    found: tuple[str, str],
    *,
    given: str,
    fingerprint: str,
    answers: bool,
    now: datetime,
) -> Choice:
    """Choose the login and the password of an access's Secret.

    Args:
        access: the object.
        rules: of its password.
        source: the metadata of the Secret that there is.
        found: the login and the password in that Secret.
        given: the password that spec.passwordSecretRef names.
        fingerprint: of the password in the Secret.
        answers: whether the server has answered.
        now: this moment.
    """
    status, meta = access.status, access.metadata
    login, there = found
    kept, mark, postponed = given or there, mark_of(meta), False
    changes = logins.must_rotate(rules.rotation, access.spec.username, found=login)
    if kept and source is not None and not given:
        due = not changes and (
            asked_for(meta, source)
            or (
                is_due(rules, meta, source, status.password, fingerprint, now)
                and is_late(rules, status, now)
            )
        )
        # While the server does not answer, the old password is the one that logs in.
        postponed = due and not answers
        if changes or (due and answers):
            kept = ""
        else:
            mark = mark_of(source)
    return Choice(
        login=next_login(access, rules, login, now, rotating=not kept),
        kept=kept,
        mark=mark,
        turns=changes or (rules.rotation == "TwoLogins" and not kept),
        postponed=postponed,
    )


def next_login(
    access: PostgresAccess, rules: PasswordRules, found: str, now: datetime, *, rotating: bool
) -> str:
    """Return the login that the Secret shall have; ``found`` is the one that it has."""
    told = access.status.logins
    return logins.current_login(
        rules.rotation,
        access.spec.username,
        found=found,
        known=current_of(told),
        rotating=rotating,
        ending=[name for name, end in ends_of(told).items() if end > now],
    )


def is_late(rules: PasswordRules, status: PostgresAccessStatus, now: datetime) -> bool:
    """Whether the clock asks for a new password, and no login would lose its grace for it."""
    free = logins.may_rotate(rules.rotation, ends_of(status.logins), now)
    return free and is_old(rules, status.password, now)


def password_info(
    rules: PasswordRules, old: PasswordInfo | None, fingerprint: str, now: datetime
) -> PasswordInfo:
    """What the status says once the server has this password; equal while it stays."""
    since = old.changed_at if old is not None and old.fingerprint == fingerprint else ""
    info = PasswordInfo(fingerprint=fingerprint, changed_at=since or format_time(now))
    due = _next_rotation(rules, info)
    return msgspec.structs.replace(info, next_rotation=format_time(due) if due else "")


def seconds_left(
    info: PasswordInfo | None, now: datetime, told: Iterable[LoginInfo] = ()
) -> float | None:
    """Until the next rotation, or the next end of a login; None when there is none.

    0 when it is late. A rotation by the clock waits for the ends.
    """
    ends = [end for one in told if (end := _moment(one.ends_at)) is not None and end > now]
    due = _moment(info.next_rotation) if info is not None else None
    if due is not None and ends:
        due = max(due, *ends)
    moments = [one for one in (due, *ends) if one is not None]
    return max(0.0, (min(moments) - now).total_seconds()) if moments else None


def ends_of(told: Iterable[LoginInfo]) -> dict[str, datetime]:
    """When the logins that the status tells of end, or have ended."""
    return {one.name: end for one in told if (end := _moment(one.ends_at)) is not None}


def current_of(told: Iterable[LoginInfo]) -> str:
    """The login that is in the Secret by the status, "" where it says nothing."""
    return next((one.name for one in told if one.current), "")


def turns_of(access: PostgresAccess, login: str, *, staged: bool = False) -> LoginTurns | None:
    """Whose turn it is; None where there is one login, and never was another.

    Args:
        access: the object.
        login: the one in the Secret, or in the Secret that is about to be written.
        staged: whether it is about to be written.

    Raises:
        AccessError: PasswordPolicyInvalid.
    """
    spec, told = access.spec, access.status.logins
    rotation = rotation_of(spec)
    grace = grace_of(spec)
    if rotation == "InPlace" and not told and login == spec.username and not staged:
        return None
    known = ends_of(told)
    if told:
        # What the status does not tell of has no password that anybody has been given.
        names = {one.name for one in told}
        known |= {name: _LONG_AGO for name in family(spec.username) if name not in names}
    return LoginTurns(
        rotation=rotation,
        current=login,
        grace=grace,
        known=known,
        staged=staged,
        patient=spec.approval == "Manual" or spec.mode == "Observe",
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
    """The moment; None where somebody wrote what is none."""
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None
