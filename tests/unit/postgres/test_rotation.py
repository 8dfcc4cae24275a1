"""When a password is made anew, and how: one row for each way it may come about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.postgresaccess import (
    ROTATE_ANNOTATION,
    LoginInfo,
    PasswordInfo,
    PostgresAccess,
    PostgresAccessSpec,
    PostgresAccessStatus,
)
from fairlead.api.postgresaccess.connection import PasswordPolicy
from fairlead.postgres.controllers.rules.desired import names_of, needed_names
from fairlead.postgres.controllers.rules.rotation import (
    PasswordRules,
    asked_for,
    ends_of,
    grace_of,
    is_due,
    keeps_password,
    mark_of,
    password_info,
    password_rules,
    seconds_left,
    turns_of,
)
from fairlead.postgres.database.plans.password import fingerprint
from fairlead.postgres.errors import AccessError


NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOURLY = PasswordRules(rotate_every=timedelta(hours=1))
STAYS = PasswordRules()


def spec(policy: JSON | None = None, **fields: object) -> PostgresAccessSpec:
    return msgspec.convert(
        {
            "generatedSecret": "login",
            "username": "app",
            "connection": {},
            **({} if policy is None else {"passwordPolicy": policy}),
            **fields,
        },
        PostgresAccessSpec,
    )


def meta(mark: str | None = None) -> ObjectMeta:
    return ObjectMeta(annotations={} if mark is None else {ROTATE_ANNOTATION: mark})


def known(fingerprint_: str = "a", changed: str = "2026-01-01T00:00:00Z") -> PasswordInfo:
    return PasswordInfo(fingerprint=fingerprint_, changed_at=changed)


@pytest.mark.parametrize(
    ("policy", "defaults", "expected"),
    [
        pytest.param(None, {}, (32, 64, None, 4096), id="ours"),
        pytest.param({"length": 64}, {"length": 48}, (64, 64, None, 4096), id="own-first"),
        pytest.param(
            {},
            {"length": 48, "iterations": 8192},
            (48, 64, None, 8192),
            id="defaults",
        ),
        pytest.param({"alphabet": "alphanumeric"}, {}, (32, 62, None, 4096), id="alphanumeric"),
        pytest.param(None, {"rotate_every": "2h"}, (32, 64, 7200, 4096), id="default-period"),
        pytest.param({"alphabet": "hex"}, {"length": 24}, (24, 16, None, 4096), id="hex"),
        pytest.param({"alphabet": "01234567"}, {}, (32, 8, None, 4096), id="96-bits-exactly"),
        pytest.param(
            {"rotateEvery": "1h30m"}, {"rotate_every": "1h"}, (32, 64, 5400, 4096), id="duration"
        ),
        pytest.param({"rotateEvery": "60s"}, {}, (32, 64, 60, 4096), id="shortest"),
    ],
)
def test_policies(
    policy: JSON | None, defaults: JSON, expected: tuple[int, int, float | None, int]
) -> None:
    rules = password_rules(spec(policy), PasswordPolicy(**defaults))
    every = rules.rotate_every.total_seconds() if rules.rotate_every else None
    assert (rules.length, len(rules.alphabet), every, rules.iterations) == expected
    made = rules.generate()
    assert len(made) == rules.length
    assert set(made) <= set(rules.alphabet)
    assert made != rules.generate()


KEEP: JSON = {"passwordPolicy": {"onAdoption": "Keep"}}


@pytest.mark.parametrize(
    ("fields", "marked", "published", "info", "keeps"),
    [
        pytest.param({}, False, False, None, False, id="nobody-asks-for-it"),
        pytest.param({"passwordPolicy": {}}, False, False, None, False, id="replaced"),
        pytest.param(KEEP, False, False, None, True, id="kept"),
        pytest.param(KEEP, True, False, None, False, id="rotation-is-asked-for"),
        pytest.param(KEEP, False, True, None, False, id="there-is-a-Secret"),
        pytest.param(KEEP, False, False, known(), False, id="the-operator-has-set-one"),
        pytest.param(
            {**KEEP, "passwordSecretRef": {"name": "s"}}, False, False, None, False, id="given"
        ),
    ],
)
def test_whose_password_is_kept(
    fields: JSON, marked: bool, published: bool, info: PasswordInfo | None, keeps: bool
) -> None:
    found = PostgresAccess(
        metadata=ObjectMeta(annotations={ROTATE_ANNOTATION: "1"} if marked else {}),
        spec=spec(None, **fields),
        status=PostgresAccessStatus(password=info),
    )
    assert keeps_password(found, published=published) is keeps


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        pytest.param({"alphabet": "01234567", "length": 31}, "less than 96 bits", id="weak"),
        pytest.param({"alphabet": "abababab"}, "32 characters out of 2", id="the-same-ones"),
        pytest.param({"alphabet": "abc def"}, "without blanks", id="blank"),
        pytest.param({"alphabet": "äöüß"}, "printable ASCII", id="not-ascii"),
        pytest.param({"rotateEvery": "59s"}, "59s is not a duration from 1m", id="short"),
        pytest.param({"rotateEvery": "87601h"}, "87601h is not a duration", id="long"),
        pytest.param({"rotateEvery": "0.1m"}, "0.1m is not a duration", id="fraction"),
        pytest.param(
            {"onAdoption": "Keep", "rotateEvery": "1h"}, "Keep cannot be combined", id="kept"
        ),
        pytest.param({"onAdoption": "Keep", "rotation": "TwoLogins"}, "TwoLogins", id="kept-two"),
    ],
)
def test_policies_that_are_refused(policy: JSON, message: str) -> None:
    with pytest.raises(AccessError, match="PasswordPolicyInvalid: spec") as refused:
        password_rules(spec(policy), PasswordPolicy())
    assert message in refused.value.message
    field = next((one for one in ("onAdoption", "rotateEvery") if one in policy), "alphabet")
    assert f"passwordDefaults.{field}" in refused.value.message


def test_no_default_makes_weak_or_slow_logins() -> None:
    for defaults, message in (
        (PasswordPolicy(alphabet="hex", length=16), "16 characters out of 16"),
        (PasswordPolicy(iterations=1_000_000), "1000000 is too many"),
    ):
        with pytest.raises(AccessError, match=message):
            password_rules(spec(), defaults)


def test_a_password_from_elsewhere_is_rotated_elsewhere() -> None:
    elsewhere = {"passwordSecretRef": {"name": "vault"}}
    with pytest.raises(
        AccessError, match=r"rotateEvery.*cannot be combined with spec\.passwordSecretRef"
    ):
        password_rules(spec({"rotateEvery": "1h"}, **elsewhere), PasswordPolicy())
    # A default is nobody's wish for this access.
    rules = password_rules(spec(**elsewhere), PasswordPolicy(rotate_every="1h"))
    assert rules.rotate_every is None


@pytest.mark.parametrize(
    ("rules", "wanted", "handled", "info", "due"),
    [
        pytest.param(STAYS, None, None, known(), False, id="nothing-asked"),
        pytest.param(HOURLY, None, None, known(), True, id="timed"),
        pytest.param(
            HOURLY, None, None, known(changed="2026-01-01T23:00:00Z"), True, id="to-the-second"
        ),
        pytest.param(
            HOURLY, None, None, known(changed="2026-01-01T23:00:01Z"), False, id="not-yet"
        ),
        pytest.param(HOURLY, None, None, None, False, id="timed-nothing-known"),
        pytest.param(HOURLY, None, None, known("b"), False, id="timed-another-is-on-its-way"),
        pytest.param(HOURLY, None, None, known(changed="soon"), False, id="timed-no-time"),
        pytest.param(HOURLY, None, None, known(changed=""), False, id="timed-empty"),
        pytest.param(
            HOURLY, None, None, known(changed="2027-01-01T00:00:00Z"), False, id="from-the-future"
        ),
        pytest.param(STAYS, "1", None, known(), True, id="annotated"),
        pytest.param(STAYS, "1", "1", known(), False, id="annotated-and-done"),
        pytest.param(STAYS, "2", "1", known(), True, id="annotated-anew"),
        pytest.param(STAYS, "2", "1", known("b"), True, id="annotated-another-is-on-its-way"),
        pytest.param(STAYS, "2", "1", None, True, id="annotated-nothing-known"),
        pytest.param(STAYS, None, "1", known(), False, id="annotation-taken-away"),
        pytest.param(STAYS, "", "1", known(), False, id="annotation-emptied"),
        pytest.param(STAYS, "x" * 5000, None, known(), True, id="a-long-value"),
    ],
)  # fmt: skip
def test_when_a_password_is_due(
    rules: PasswordRules,
    wanted: str | None,
    handled: str | None,
    info: PasswordInfo | None,
    due: bool,
) -> None:
    assert is_due(rules, meta(wanted), meta(handled), info, "a", NOW) is due


def test_a_long_value_counts_once_too() -> None:
    wanted = meta("x" * 5000)
    assert len(mark_of(wanted)) < 128
    assert not asked_for(wanted, meta(mark_of(wanted)))
    assert asked_for(meta("x" * 5001), meta(mark_of(wanted)))


def test_the_status_changes_with_the_password_alone() -> None:
    first = password_info(HOURLY, None, "a", NOW)
    assert first == PasswordInfo(
        fingerprint="a",
        changed_at="2026-01-02T00:00:00Z",
        next_rotation="2026-01-02T01:00:00Z",
    )
    later = NOW + timedelta(minutes=50)
    assert password_info(HOURLY, first, "a", later) == first
    assert seconds_left(first, later) == 600
    assert seconds_left(first, NOW + timedelta(days=1)) == 0
    second = password_info(HOURLY, first, "b", later)
    assert (second.changed_at, second.next_rotation) == (
        "2026-01-02T00:50:00Z",
        "2026-01-02T01:50:00Z",
    )


def test_a_policy_that_changes_moves_the_next_rotation() -> None:
    first = password_info(HOURLY, None, "a", NOW)
    longer = PasswordRules(rotate_every=timedelta(hours=2))
    assert password_info(longer, first, "a", NOW).next_rotation == "2026-01-02T02:00:00Z"
    stays = password_info(STAYS, first, "a", NOW)
    assert (stays.next_rotation, seconds_left(stays, NOW)) == ("", None)
    assert seconds_left(None, NOW) is None


def test_no_period_is_too_long_for_the_calendar() -> None:
    info = known(changed="9999-12-31T00:00:00Z")
    rules = PasswordRules(rotate_every=timedelta(hours=87_600))
    assert not is_due(rules, meta(), meta(), info, "a", NOW)
    assert password_info(rules, info, "a", NOW).next_rotation == ""


def test_fingerprints_tell_neither_passwords_nor_equals() -> None:
    prints = {
        fingerprint(b"k" * 32, "u1", "p"),
        fingerprint(b"k" * 32, "u2", "p"),
        fingerprint(b"K" * 32, "u1", "p"),
        fingerprint(b"k" * 32, "u1", "q"),
    }
    assert len(prints) == 4
    assert all(len(one) == 64 for one in prints)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, 3600, id="an-hour"),
        pytest.param({"rotateEvery": "10m"}, 600, id="no-longer-than-a-turn"),
        pytest.param({"rotateEvery": "10h"}, 3600, id="an-hour-of-ten"),
        pytest.param({"gracePeriod": "90m"}, 5400, id="own"),
        pytest.param({"gracePeriod": "0s"}, 0, id="none"),
        pytest.param({"gracePeriod": "1h", "rotateEvery": "1h"}, 3600, id="a-whole-turn"),
    ],
)
def test_grace(policy: JSON | None, expected: int) -> None:
    assert grace_of(spec(policy)) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        pytest.param(
            {"gracePeriod": "999999999999h"}, "h is not a duration from 0s", id="no-duration"
        ),
        pytest.param({"gracePeriod": "87601h"}, "87601h is not a duration", id="too-long"),
        pytest.param(
            {"gracePeriod": "2h", "rotateEvery": "1h"}, "2h is longer than rotateEvery 1h",
            id="longer-than-a-turn",
        ),
    ],
)  # fmt: skip
def test_grace_of_no_use(policy: JSON, message: str) -> None:
    with pytest.raises(AccessError, match=rf"gracePeriod.*{message}") as failed:
        grace_of(spec(policy))
    assert failed.value.reason == "PasswordPolicyInvalid"


def test_a_password_from_elsewhere_takes_no_turns() -> None:
    with pytest.raises(
        AccessError, match=r"rotation.*TwoLogins cannot be combined with spec\.passwordSecretRef"
    ):
        password_rules(
            spec({"rotation": "TwoLogins"}, passwordSecretRef={"name": "vault"}),
            PasswordPolicy(),
        )


TWO: JSON = {"rotation": "TwoLogins"}
A = LoginInfo(name="app_a", current=True)
ENDED = LoginInfo(name="app_b", ends_at="2026-01-01T00:00:00Z")
ENDING = LoginInfo(name="app_b", ends_at="2026-01-02T01:00:00Z")
OWNER_ENDING = LoginInfo(name="app", ends_at="2026-01-02T01:00:00Z")
PAST = datetime.min.replace(tzinfo=UTC)


def access(policy: JSON | None, *logins: LoginInfo, **fields: object) -> PostgresAccess:
    status = PostgresAccessStatus(logins=list(logins))
    return PostgresAccess(spec=spec(policy, **fields), status=status)


@pytest.mark.parametrize(
    ("policy", "logins", "login", "expected"),
    [
        pytest.param(None, [], "app", None, id="one-login"),
        pytest.param(TWO, [], "app_a", {}, id="first-of-two"),
        pytest.param(TWO, [A], "app_a", {"app": PAST, "app_b": PAST}, id="the-others-never-were"),
        pytest.param(
            TWO, [A, ENDED], "app_b", {"app": PAST, "app_b": datetime(2026, 1, 1, tzinfo=UTC)},
            id="the-one-before-has-its-grace",
        ),
        pytest.param(
            TWO, [A, OWNER_ENDING], "app_a",
            {"app": datetime(2026, 1, 2, 1, tzinfo=UTC), "app_b": PAST}, id="one-becomes-two",
        ),
        pytest.param(
            None, [A, ENDING], "app", {"app": PAST, "app_b": datetime(2026, 1, 2, 1, tzinfo=UTC)},
            id="two-become-one",
        ),
        pytest.param(None, [], "app_a", {}, id="two-become-one-untold"),
    ],
)  # fmt: skip
def test_whose_turn_it_is_by_the_status(
    policy: JSON | None,
    logins: list[LoginInfo],
    login: str,
    expected: dict[str, datetime] | None,
) -> None:
    found = turns_of(access(policy, *logins), login)
    assert (found.ends if found is not None else None) == expected


def test_a_manual_access_leaves_ended_logins() -> None:
    for fields, leaves in (
        ({}, False),
        ({"approval": "Manual"}, True),
        ({"mode": "Observe"}, True),
    ):
        found = turns_of(access(TWO, **fields), "app_a")
        assert found is not None
        assert found.leaves_ended is leaves


@pytest.mark.parametrize(
    ("policy", "logins", "needed", "names"),
    [
        pytest.param(None, [], 1, 1, id="one"),
        pytest.param(TWO, [], 3, 3, id="two"),
        pytest.param(None, [A], 1, 3, id="two-before"),
    ],
)
def test_names(policy: JSON | None, logins: list[LoginInfo], needed: int, names: int) -> None:
    found = access(policy, *logins)
    assert (len(needed_names(found)), len(names_of(found))) == (needed, names)


@pytest.mark.parametrize(
    ("next_rotation", "logins", "expected"),
    [
        pytest.param("", [A, ENDED], None, id="ended"),
        pytest.param("", [A, ENDING], 3600, id="ends"),
        pytest.param("2026-01-02T02:00:00Z", [A, ENDING], 3600, id="ends-first"),
        # By the clock nobody loses a login that is still in its grace.
        pytest.param("2026-01-01T00:00:00Z", [A, ENDING], 3600, id="overdue-waits"),
        pytest.param("2026-01-01T00:00:00Z", [A, ENDED], 0, id="overdue"),
    ],
)
def test_when_to_look_again(
    next_rotation: str, logins: list[LoginInfo], expected: float | None
) -> None:
    assert seconds_left(PasswordInfo(next_rotation=next_rotation), NOW, logins) == expected


def test_a_login_that_ends_during_a_pass_is_followed_by_another_pass() -> None:
    later = NOW + timedelta(hours=2)
    assert seconds_left(None, later, [ENDING]) is None
    assert seconds_left(None, later, [ENDING], planned_at=NOW) == 0


def test_an_end_that_is_no_time_is_none() -> None:
    assert ends_of([A, LoginInfo(name="app_b", ends_at="soon")]) == {}
