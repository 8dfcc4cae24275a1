"""What an owner and its two logins lack, by what the catalogs say; and that it ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.support.pgserver import claim, wanted
from tests.unit.postgres.test_pure import SERVER

from fairlead.api.postgresaccess import Attributes, MemberOf
from fairlead.api.postgresaccess.connection import Rotation
from fairlead.postgres.database.plans.groups import Sharing
from fairlead.postgres.database.plans.logins import LoginTurns
from fairlead.postgres.database.plans.plan import WantedState, plan_role
from fairlead.postgres.database.plans.server_plan import observed_server, refusals
from fairlead.postgres.database.plans.snapshot import Membership, RoleFacts, ServerSnapshot
from fairlead.postgres.errors import AccessError


NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAST, SOON, LATER = "2025-12-31T23:00:00Z", "2026-01-01T00:30:00Z", "2026-01-01T01:00:00Z"


def asks(
    current: str = "app_a",
    rotation: Rotation = "TwoLogins",
    *,
    known: Mapping[str, str] | None = None,
    staged: bool = False,
    leaves_ended: bool = False,
    **fields: object,
) -> WantedState:
    ends = {name: datetime.fromisoformat(end) for name, end in (known or {}).items()}
    turns = LoginTurns(
        rotation=rotation,
        current=current,
        grace=HOUR,
        ends=ends,
        staged=staged,
        leaves_ended=leaves_ended,
    )
    return msgspec.structs.replace(wanted("app"), turns=turns, **fields)


def owner(**facts: object) -> RoleFacts:
    return _role("app", login=False, **facts)


def login(name: str, **facts: object) -> RoleFacts:
    member = Membership(inherit=True, set=True)
    return _role(name, **{"config": {"role": "app"}, "groups": {"app": member}, **facts})


def _role(name: str, **facts: object) -> RoleFacts:
    made = {"oid": sum(name.encode()), "name": name, "login": True, "claim": claim(), **facts}
    return RoleFacts(**made)  # type: ignore[arg-type]


def planned(asked: WantedState, *roles: RoleFacts, verifier: str | None = None) -> list[str]:
    snapshot = ServerSnapshot(server=SERVER, roles={one.name: one for one in roles}, databases={})
    seen = observed_server(
        [asked], Sharing(), snapshot, {}, refusals([asked], Sharing(), snapshot)
    )
    if seen.refused:
        raise seen.refused[asked.username]
    changes, problems = plan_role(asked, snapshot, verifier, now=NOW)
    assert problems == []
    assert all(one.usernames == ("app",) for one in changes)
    found = [one.text for one in changes]
    return [one for one in found if not one.startswith("COMMENT")]


TWO = (owner(), login("app_a"), login("app_b", valid_until=SOON))
JOIN = 'GRANT "app" TO "app_a" WITH ADMIN FALSE, INHERIT TRUE, SET TRUE'
ACT = "ALTER ROLE \"app_a\" SET role TO 'app'"


def test_a_new_access_is_an_owner_and_one_login() -> None:
    assert planned(asks(), verifier="SCRAM-SHA-256$x") == [
        'CREATE ROLE "app" NOLOGIN',
        "CREATE ROLE \"app_a\" LOGIN PASSWORD '***'",
        JOIN,
        ACT,
    ]


def test_every_role_is_claimed() -> None:
    snapshot = ServerSnapshot(server=SERVER, roles={}, databases={})
    changes, _ = plan_role(asks(), snapshot, "", now=NOW)
    claims = [one.text for one in changes if "COMMENT" in one.text]
    assert [one.split(" IS ")[0] for one in claims] == [
        'COMMENT ON ROLE "app"',
        'COMMENT ON ROLE "app_a"',
    ]
    assert len({one.split(" IS ")[1] for one in claims}) == 1


@pytest.mark.parametrize(
    ("asked", "roles", "expected"),
    [
        pytest.param(asks(), TWO, [], id="nothing-is-missing"),
        pytest.param(
            asks("app_b", staged=True),
            (owner(), login("app_a"), login("app_b", valid_until=PAST)),
            ["ALTER ROLE \"app_b\" VALID UNTIL 'infinity'"],
            id="staged-nobody-ends",
        ),
        pytest.param(
            asks("app_b"), (owner(), login("app_a"), login("app_b")),
            ["ALTER ROLE \"app_a\" VALID UNTIL '3600 s from then'"],
            id="turned",
        ),
        pytest.param(
            asks(known={"app_b": SOON}), (owner(), login("app_a"), login("app_b")),
            ["ALTER ROLE \"app_b\" VALID UNTIL '3600 s from then'"],
            id="an-end-that-was-taken-away",
        ),
        pytest.param(
            asks(), (owner(), login("app_a"), login("app_b", valid_until=PAST)),
            ['ALTER ROLE "app_b" NOLOGIN'],
            id="its-grace-is-over",
        ),
        pytest.param(
            asks(leaves_ended=True),
            (owner(), login("app_a"), login("app_b", valid_until=PAST)),
            [],
            id="over-and-left",
        ),
        pytest.param(
            asks(), (owner(), login("app_a"), login("app_b", login=False, valid_until=PAST)), [],
            id="ended",
        ),
        pytest.param(
            asks(known={"app_b": PAST}),
            (owner(), login("app_a"), login("app_b", valid_until=PAST)),
            ['ALTER ROLE "app_b" NOLOGIN'],
            id="an-ended-login-that-got-its-login",
        ),
        pytest.param(
            asks(known={"app": PAST}),
            (_role("app"), login("app_a"), login("app_b", login=False, valid_until=PAST)),
            ['ALTER ROLE "app" NOLOGIN'],
            id="an-owner-that-got-a-login",
        ),
        pytest.param(
            asks(), (_role("app"), login("app_a")),
            ["ALTER ROLE \"app\" VALID UNTIL '3600 s from then'"],
            id="one-becomes-two",
        ),
        pytest.param(
            asks(), (owner(), login("app_a", config={})), [ACT], id="no-role-setting"
        ),
        pytest.param(
            asks(), (owner(), login("app_a", config={"role": "none"})), [ACT], id="another-role"
        ),
        pytest.param(
            asks(), (owner(), login("app_a", turned_in=("db",))),
            ['ALTER ROLE "app_a" IN DATABASE "db" RESET role'], id="another-role-in-a-database",
        ),
        pytest.param(asks(), (owner(), login("app_a", groups={})), [JOIN], id="no-member"),
        pytest.param(
            asks(), (owner(), login("app_a", groups={"app": Membership(admin=True)})),
            ['REVOKE ADMIN OPTION FOR "app" FROM "app_a" CASCADE'], id="an-admin-of-its-owner",
        ),
        pytest.param(
            asks(), (owner(), login("app_a", login=False)), ['ALTER ROLE "app_a" LOGIN'],
            id="fenced-by-hand",
        ),
        pytest.param(
            asks(), (owner(), login("app_a", inherit=False)), ['ALTER ROLE "app_a" INHERIT'],
            id="noinherit",
        ),
        pytest.param(
            asks(attributes=Attributes(connection_limit=3, config={"work_mem": "8MB"})), TWO,
            [
                'ALTER ROLE "app" CONNECTION LIMIT 3',
                "ALTER ROLE \"app\" SET \"work_mem\" = '8MB'",
                'ALTER ROLE "app_a" CONNECTION LIMIT 3',
                "ALTER ROLE \"app_a\" SET \"work_mem\" = '8MB'",
                "ALTER ROLE \"app_b\" SET \"work_mem\" = '8MB'",
            ],
            id="attributes",
        ),
        pytest.param(
            asks(valid_until="2026-01-01T00:10:00Z"), TWO,
            [
                "ALTER ROLE \"app_a\" VALID UNTIL '2026-01-01T00:10:00Z'",
                "ALTER ROLE \"app_b\" VALID UNTIL '3600 s from then'",
            ],
            id="the-access-ends-first",
        ),
        pytest.param(
            asks(member_of=()),
            (owner(), login("app_a", groups={**TWO[1].groups, "others": Membership()})),
            ['REVOKE "others" FROM "app_a" CASCADE'],
            id="a-group-of-a-login",
        ),
        pytest.param(
            asks(),
            (owner(), login("app_a", groups={**TWO[1].groups, "others": Membership()})),
            [],
            id="groups-are-nobodys-concern",
        ),
        pytest.param(
            asks("app", "InPlace"),
            (_role("app"), login("app_a"), login("app_b", valid_until=PAST)),
            [
                "ALTER ROLE \"app_a\" VALID UNTIL '3600 s from then'",
                'ALTER ROLE "app_b" NOLOGIN',
            ],
            id="two-become-one",
        ),
        pytest.param(
            asks("app", "InPlace", staged=True), (owner(valid_until=PAST), login("app_a")),
            ["ALTER ROLE \"app\" LOGIN VALID UNTIL 'infinity'"],
            id="two-become-one-staged",
        ),
        pytest.param(
            asks("app", "InPlace"), (_role("app"), login("app_a", claim=claim("other", uid="u2"))),
            [], id="a-former-login-is-somebody-elses",
        ),
        pytest.param(
            asks("app", "InPlace", leaves_ended=True),
            (_role("app"), login("app_a", valid_until=PAST)),
            ['ALTER ROLE "app_a" NOLOGIN'], id="who-turns-no-more-has-no-patience",
        ),
    ],
)  # fmt: skip
def test_what_is_missing(
    asked: WantedState, roles: tuple[RoleFacts, ...], expected: list[str]
) -> None:
    assert planned(asked, *roles) == expected


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        pytest.param(login("app_b", claim=None), "AdoptionRefused", id="a-strangers"),
        pytest.param(
            login("app_b", claim=claim("other", uid="u2")), "UsernameConflict", id="anothers"
        ),
        pytest.param(
            login("app_b", powers=frozenset({"CREATEROLE"})), "UserReserved", id="mighty"
        ),
        pytest.param(_role("stranger", claim=None), "", id="no-login-of-ours"),
    ],
)
def test_logins_of_others_are_refused(role: RoleFacts, reason: str) -> None:
    # Not even by who may adopt the owner.
    asked = asks(adopt=True)
    if not reason:
        assert planned(asked, *TWO, role) == []
        return
    with pytest.raises(AccessError) as failed:
        planned(asked, *TWO[:2], role)
    assert failed.value.reason == reason


def test_ends_are_by_the_servers_clock() -> None:
    """An operator whose clock is behind ends nothing before its time."""
    behind = msgspec.structs.replace(SERVER, now=NOW + 9 * HOUR)
    roles = {one.name: one for one in (owner(), login("app_a"), login("app_b"))}
    changes, _ = plan_role(asks(), ServerSnapshot(server=behind, roles=roles, databases={}), None)
    assert [one.statement.as_string() for one in changes] == [
        "ALTER ROLE \"app_b\" VALID UNTIL '2026-01-01T10:00:00+00:00'"
    ]


def test_groups_are_the_owners() -> None:
    snapshot = ServerSnapshot(server=SERVER, roles={one.name: one for one in TWO}, databases={})
    asked = asks(member_of=(MemberOf(role="readers"),))
    _, problems = plan_role(asked, snapshot, None, now=NOW)
    assert ["role readers" in one.message for one in problems] == [True]
