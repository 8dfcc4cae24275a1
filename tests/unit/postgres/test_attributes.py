"""Attributes, settings and memberships: what is asked for against what the catalogs say."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, MemberOf
from fairlead.postgres.database.plans.attributes import (
    attribute_parts,
    check_attributes,
    check_members,
    foreign_memberships,
    membership_statements,
    refused_settings,
    setting_statements,
    valid_until,
)
from fairlead.postgres.database.plans.snapshot import GroupFacts, Membership, RoleFacts
from fairlead.postgres.errors import AccessError


def role(**facts: object) -> RoleFacts:
    return RoleFacts(oid=20000, name="app", login=True, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "ends", "before", "until"),
    [
        pytest.param(None, "", "", None, id="nobodys-concern"),
        pytest.param("2027-01-31T12:00:00Z", "", "", "2027-01-31T12:00:00Z", id="asked"),
        pytest.param("2027-01-31T12:00:00+02:00", "", "", "2027-01-31T10:00:00Z", id="in-utc"),
        pytest.param("2027-01-31T12:00:00.9Z", "", "", "2027-01-31T12:00:00Z", id="whole-seconds"),
        pytest.param("0900-01-01T00:00:00Z", "", "", "0900-01-01T00:00:00Z", id="four-digits"),
        pytest.param(None, "2027-01-31T12:00:00Z", "", "2027-01-31T12:00:00Z", id="the-end"),
        pytest.param(
            "2027-02-01T12:00:00Z",
            "2027-01-31T12:00:00Z",
            "",
            "2027-01-31T12:00:00Z",
            id="the-end-comes-first",
        ),
        pytest.param(
            "2027-01-31T12:00:00+02:00",
            "2027-01-31T11:00:00Z",
            "",
            "2027-01-31T10:00:00Z",
            id="what-is-asked-for-comes-first",
        ),
        pytest.param(None, "", "2027-01-31T12:00:00Z", "", id="the-end-was-taken-back"),
    ],
)
def test_valid_until(asked: str | None, ends: str, before: str, until: str | None) -> None:
    assert valid_until(Attributes(valid_until=asked), ends, before) == until


@pytest.mark.parametrize(
    ("attributes", "until", "found", "parts"),
    [
        pytest.param(None, None, None, "", id="nothing"),
        pytest.param(Attributes(), None, role(), "", id="nothing-named"),
        pytest.param(Attributes(connection_limit=-1, inherit=True), "", None, "", id="defaults"),
        pytest.param(
            Attributes(connection_limit=0), None, None, "CONNECTION LIMIT 0", id="none-at-all"
        ),
        pytest.param(
            Attributes(connection_limit=-1),
            None,
            role(connection_limit=3),
            "CONNECTION LIMIT -1",
            id="no-limit-any-more",
        ),
        pytest.param(
            Attributes(), None, role(connection_limit=3, inherit=False), "", id="left-as-it-is"
        ),
        pytest.param(Attributes(inherit=False), None, role(), "NOINHERIT", id="noinherit"),
        pytest.param(Attributes(inherit=True), None, role(inherit=False), "INHERIT", id="inherit"),
        pytest.param(
            None,
            "2027-01-31T12:00:00Z",
            None,
            "VALID UNTIL '2027-01-31T12:00:00Z'",
            id="end-of-a-new-role",
        ),
        pytest.param(
            None,
            "2027-01-31T12:00:00Z",
            role(valid_until="2027-01-31T12:00:00Z"),
            "",
            id="ends-then-already",
        ),
        pytest.param(
            None,
            "",
            role(valid_until="2027-01-31T12:00:00Z"),
            "VALID UNTIL 'infinity'",
            id="no-end-any-more",
        ),
        pytest.param(
            None, None, role(valid_until="2027-01-31T12:00:00Z"), "", id="an-end-of-others"
        ),
    ],
)
def test_attribute_parts(
    attributes: Attributes | None, until: str | None, found: RoleFacts | None, parts: str
) -> None:
    said = sql.SQL(" ").join(attribute_parts(attributes, until, found)).as_string()
    assert " ".join(said.split()) == parts


@pytest.mark.parametrize(
    ("config", "stored", "statements"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({}, {"work_mem": "4MB"}, ['RESET "work_mem"'], id="reset"),
        pytest.param({"work_mem": "4MB"}, {"work_mem": "4MB"}, [], id="as-it-is"),
        pytest.param(
            {"work_mem": "8MB"}, {"work_mem": "4MB"}, ["SET \"work_mem\" = '8MB'"], id="changed"
        ),
        pytest.param({"timezone": "UTC"}, {"TimeZone": "UTC"}, [], id="case-of-names"),
        pytest.param(
            {"search_path": "a, b"}, {}, ["SET \"search_path\" = 'a', 'b'"], id="list-of-names"
        ),
        pytest.param({"search_path": "a,b"}, {"search_path": "a, b"}, [], id="blanks-of-lists"),
        pytest.param({"search_path": '"a", b'}, {"search_path": "a, b"}, [], id="needless-quotes"),
        pytest.param(
            {"search_path": '"a,b", c'},
            {},
            ["SET \"search_path\" = 'a,b', 'c'"],
            id="quoted-comma",
        ),
        pytest.param({"search_path": '"a,b", c'}, {"search_path": '"a,b", c'}, [], id="row-45"),
        pytest.param(
            {"search_path": '"a""b"'}, {}, ['SET "search_path" = \'a"b\''], id="quoted-quote"
        ),
        pytest.param(
            {"search_path": '"$user", public'}, {"search_path": '"$user", public'}, [], id="user"
        ),
        pytest.param({"search_path": ""}, {}, ["SET \"search_path\" = ''"], id="empty-list"),
        pytest.param({"search_path": '""'}, {"search_path": '""'}, [], id="empty-list-as-stored"),
        pytest.param(
            {"DateStyle": "ISO, DMY"},
            {},
            ["SET \"DateStyle\" = 'ISO, DMY'"],
            id="no-list-of-names",
        ),
        pytest.param(
            {"app.tenant": "it's; DROP"},
            {},
            ["SET \"app\".\"tenant\" = 'it''s; DROP'"],
            id="custom-parameter",
        ),
        pytest.param({"log_statement": "none"}, {}, [], id="reserved-is-not-set"),
        pytest.param({}, {"log_statement": "all"}, [], id="reserved-is-not-reset"),
    ],
)
def test_settings(config: dict[str, str], stored: dict[str, str], statements: list[str]) -> None:
    attributes = Attributes(config=config)
    found = setting_statements("app", attributes, role(config=stored), {"log_statement"})
    assert [one.text for one in found] == [f'ALTER ROLE "app" {s}' for s in statements]


def test_settings_of_a_role_without_attributes_are_nobodys_concern() -> None:
    assert list(setting_statements("app", None, role(config={"work_mem": "4MB"}))) == []


def test_parameters_of_superusers_are_refused_by_name() -> None:
    (refused,) = refused_settings(Attributes(config={"Log_Statement": "none"}), {"log_statement"})
    assert refused.reason == "PolicyDenied"
    assert "spec.attributes.config.Log_Statement" in refused.message


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(Attributes(config={"Role": "postgres"}), id="role"),
        pytest.param(Attributes(config={"session_authorization": "x"}), id="session"),
        pytest.param(Attributes(config={"a b": "x"}), id="no-name"),
        pytest.param(Attributes(config={"x; DROP ROLE y": "x"}), id="injection"),
        pytest.param(Attributes(config={"work_mem": "4\0MB"}), id="nul"),
        pytest.param(Attributes(valid_until="tomorrow"), id="no-time"),
        pytest.param(Attributes(valid_until="2027-01-31"), id="no-hour"),
        pytest.param(Attributes(valid_until="2027-01-31T12:00:00"), id="no-zone"),
        pytest.param(Attributes(valid_until="0001-01-01T00:00:00+12:00"), id="before-all-time"),
    ],
)
def test_attributes_that_cannot_be(attributes: Attributes) -> None:
    with pytest.raises(AccessError, match=r"AttributeInvalid: spec\.attributes\."):
        check_attributes(attributes)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        pytest.param(["x" * 64], "has 64 bytes", id="cut"),
        pytest.param(["a", "b", "a"], r"memberOf\[2\].role names a again", id="twice"),
        pytest.param(["app"], "is spec.username itself", id="itself"),
    ],
)
def test_memberships_that_cannot_be(groups: list[str], message: str) -> None:
    with pytest.raises(AccessError, match=message):
        check_members([MemberOf(role=one) for one in groups], ["app", "app_a", "app_b"])


GROUPS = {"readers": GroupFacts(), "mighty": GroupFacts(powerful=True)}
READER = Membership()
OPTIONS = "ADMIN FALSE, INHERIT TRUE, SET TRUE"


@pytest.mark.parametrize(
    ("version", "wanted", "held", "statements"),
    [
        pytest.param(16, None, {"readers": READER}, [], id="nobodys-concern"),
        pytest.param(15, ["readers"], {}, ["GRANT readers TO app"], id="15-join"),
        pytest.param(15, ["readers"], {"readers": READER}, [], id="15-member"),
        pytest.param(
            15, ["readers!"], {}, ["GRANT readers TO app WITH ADMIN OPTION"], id="15-admin"
        ),
        pytest.param(
            15,
            ["readers"],
            {"readers": Membership(admin=True)},
            ["REVOKE ADMIN OPTION FOR readers FROM app"],
            id="15-no-admin-any-more",
        ),
        pytest.param(15, [], {"readers": READER}, ["REVOKE readers FROM app"], id="15-leave"),
        pytest.param(16, ["readers"], {}, [f"GRANT readers TO app WITH {OPTIONS}"], id="16-join"),
        pytest.param(16, ["readers"], {"readers": READER}, [], id="16-member"),
        pytest.param(
            16,
            ["readers"],
            {"readers": Membership(inherit=False)},
            [f"GRANT readers TO app WITH {OPTIONS}"],
            id="16-other-options",
        ),
        pytest.param(
            16,
            ["readers"],
            {"readers": Membership(by_admin=False)},
            [],
            id="16-member-by-somebody-else",
        ),
        pytest.param(
            16, [], {"readers": READER}, ["REVOKE readers FROM app CASCADE"], id="16-leave"
        ),
        pytest.param(
            16,
            [],
            {"readers": Membership(grantor="operator")},
            ["REVOKE readers FROM app GRANTED BY operator CASCADE"],
            id="16-leave-the-grantor",
        ),
        pytest.param(
            16,
            ["readers"],
            {"readers": Membership(admin=True, grantor="operator")},
            ["REVOKE ADMIN OPTION FOR readers FROM app GRANTED BY operator CASCADE"],
            id="16-no-admin-any-more",
        ),
        pytest.param(
            16,
            ["readers"],
            {"readers": Membership(admin=True, set=False, grantor="operator")},
            [
                "REVOKE ADMIN OPTION FOR readers FROM app GRANTED BY operator CASCADE",
                f"GRANT readers TO app WITH {OPTIONS}",
            ],
            id="16-no-admin-and-other-options",
        ),
        pytest.param(
            16, [], {"readers": Membership(by_admin=False)}, [], id="16-somebody-elses-stays"
        ),
    ],
)
def test_memberships(
    version: int,
    wanted: list[str] | None,
    held: Mapping[str, Membership],
    statements: list[str],
) -> None:
    groups = (
        None
        if wanted is None
        else [MemberOf(role=one.rstrip("!"), admin=one.endswith("!")) for one in wanted]
    )
    found, problems = membership_statements(
        "app", groups, role(groups=held), GROUPS, version * 10000
    )
    assert [one.text.replace('"', "") for one in found] == statements
    assert problems == []


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        pytest.param("mighty", "PolicyDenied", id="powerful"),
        pytest.param("nobody", "RoleNotFound", id="absent"),
    ],
)
def test_groups_that_cannot_be_joined_are_told_and_the_others_joined(
    group: str, reason: str
) -> None:
    asked = [MemberOf(role=group), MemberOf(role="readers")]
    found, problems = membership_statements("app", asked, None, GROUPS, 180000)
    assert [one.reason for one in problems] == [reason]
    assert len(found) == 1


def test_memberships_of_other_grantors_are_warned_of() -> None:
    found = role(groups={"readers": Membership(by_admin=False), "mine": READER})
    assert foreign_memberships(None, found) == []
    assert foreign_memberships([MemberOf(role="readers")], found) == []
    (warning,) = foreign_memberships([], found)
    assert "member of readers" in warning
