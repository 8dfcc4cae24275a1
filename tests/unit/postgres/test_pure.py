from __future__ import annotations

import contextlib

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.support.pgserver import PASSWORD, claim, grant, wanted

from fairlead.postgres.database.connections.failures import (
    AnswerTooLargeError,
    explain_connect,
    explain_statement,
)
from fairlead.postgres.database.plans import names, password
from fairlead.postgres.database.plans.grants import desired_grants
from fairlead.postgres.database.plans.plan import plan_databases, plan_role
from fairlead.postgres.database.plans.snapshot import (
    GIVEN_UP,
    DatabaseFacts,
    GroupFacts,
    RoleClaim,
    RoleFacts,
    ServerFacts,
    ServerSnapshot,
    check_adoption,
    check_role,
    parse_claim,
    parse_note,
    takes_over,
)
from fairlead.postgres.database.plans.statements import comment_role
from fairlead.postgres.errors import AccessError, PasswordForm


SERVER = ServerFacts(
    version=180004,
    version_text="18.4",
    system_identifier="1",
    admin="postgres",
    admin_oid=10,
    superuser=True,
    reads_verifiers=True,
)


def snapshot(role: RoleFacts | None = None, *held: str, owner: int = 10) -> ServerSnapshot:
    """Of a server with a database, and the privileges that the role has on it."""
    return ServerSnapshot(
        server=SERVER,
        roles={role.name: role} if role else {},
        databases={"app": DatabaseFacts(name="app", connectable=True, owner=owner)},
        privileges={role.oid: {"app": dict.fromkeys(held, False)}} if role and held else {},
    )


def role(*, login: bool = True, claimed: RoleClaim | None = None) -> RoleFacts:
    return RoleFacts(oid=1, name="app", login=login, claim=claimed or claim())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("app", "", id="plain"),
        pytest.param('a"b', "", id="quote"),
        pytest.param("user name", "", id="space"),
        pytest.param("u" * 63, "", id="63-bytes"),
        pytest.param("u" * 64, "NameInvalid", id="64-bytes"),
        pytest.param("é" * 32, "NameInvalid", id="64-bytes-of-two"),
        pytest.param("é" * 31, "", id="62-bytes-of-two"),
        pytest.param("a\0b", "NameInvalid", id="nul"),
        pytest.param("a\nb", "NameInvalid", id="newline"),
        pytest.param("", "NameInvalid", id="empty"),
        pytest.param("pg_monitor", "UserReserved", id="pg"),
        pytest.param("Pg_foo", "UserReserved", id="pg-upper"),
        pytest.param("PUBLIC", "UserReserved", id="public"),
        pytest.param("none", "UserReserved", id="none"),
        pytest.param("current_user", "UserReserved", id="keyword"),
        pytest.param("rds_iam", "UserReserved", id="provider"),
        pytest.param("cloudsqliamuser", "UserReserved", id="provider-by-prefix"),
        pytest.param("AvnAdmin", "UserReserved", id="provider-in-any-case"),
        pytest.param("rdsproxyadmin", "UserReserved", id="amazon-s-proxy"),
        pytest.param("pscale_superuser", "UserReserved", id="planetscale-s"),
        pytest.param("mdb_replication", "UserReserved", id="yandex-s"),
        pytest.param("records", "", id="no-provider"),
        pytest.param("rds", "", id="no-provider-either"),
        pytest.param(" app", "NameInvalid", id="blank-before"),
        pytest.param("app\u3000", "NameInvalid", id="blank-behind"),
        pytest.param("app user", "", id="blank-inside"),
        pytest.param("a\u200bpp", "NameInvalid", id="invisible"),
        pytest.param("a\u3164", "NameInvalid", id="letter-that-nobody-sees"),
        pytest.param("a\u034fpp", "NameInvalid", id="mark-that-nobody-sees"),
        pytest.param("a\ufe0fpp", "NameInvalid", id="variation-selector"),
        pytest.param("a\u2800pp", "NameInvalid", id="pattern-without-a-dot"),
        pytest.param("a\u00a0pp", "NameInvalid", id="blank-that-looks-like-another"),
        pytest.param("a\u3000pp", "NameInvalid", id="wide-blank"),
        pytest.param("a pp", "", id="blank"),
        pytest.param("ap\u0301p", "", id="mark-that-is-seen"),
        pytest.param("한글", "", id="letters-that-are-seen"),
        pytest.param("neondb_owner", "UserReserved", id="owner-at-neon"),
        pytest.param("pgbouncer", "UserReserved", id="pooler"),
        pytest.param("pgbouncer_app", "", id="like-a-pooler"),
        pytest.param("a\u202epp", "NameInvalid", id="bidirectional"),
    ],
)
def test_usernames(name: str, reason: str) -> None:
    if not reason:
        names.check_username(name)
        return
    with pytest.raises(AccessError) as refused:
        names.check_username(name)
    assert refused.value.reason == reason
    assert "spec.username" in refused.value.message


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        pytest.param("*", "anything", True, id="star"),
        pytest.param("{namespace}_*", "team_app", True, id="namespace"),
        pytest.param("{namespace}_*", "other_app", False, id="other-namespace"),
        pytest.param("{namespace}_*", "team", False, id="prefix-alone"),
        pytest.param("a.c", "abc", False, id="dot-is-a-dot"),
        pytest.param("app", "app2", False, id="whole-name"),
        pytest.param("", "app", False, id="empty"),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert names.matches(pattern, name, "team") is expected


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        pytest.param(["app"], True, id="listed"),
        pytest.param([" app "], True, id="trimmed"),
        pytest.param(["App"], False, id="case-counts"),
        pytest.param([""], False, id="empty"),
    ],
)
def test_excluded_users(users: list[str], expected: bool) -> None:
    assert names.excluded("app", users) is expected


def test_a_claim_survives_its_comment() -> None:
    assert parse_claim(claim().text()) == claim()


@pytest.mark.parametrize("ours", ["", GIVEN_UP, claim().text()])
@pytest.mark.parametrize("note", ["", "of sales", "ask Kim\n\nmanaged by Fairlead: {}", "\n"])
def test_what_people_write_in_a_comment_stays(ours: str, note: str) -> None:
    statement = comment_role("app", ours, note).as_string()
    written = ours + ("\n" if ours and note else "") + note
    assert sql.Literal(written or None).as_string() in statement
    assert parse_note(written) == note
    assert parse_claim(written) == (claim() if "{" in ours else None)


def test_an_imported_role_is_claimed_anew_once_it_is_changed() -> None:
    imported = msgspec.structs.replace(claim(), uid="")
    found = msgspec.structs.replace(role(claimed=imported), note="of sales")
    known = ServerSnapshot(server=SERVER, roles={"app": found}, databases={})
    assert plan_role(wanted("app"), known, None) == ([], [])
    changes, _ = plan_role(wanted("app"), known, "SCRAM-SHA-256$x")
    assert [one.statement.as_string().split(" IS ")[0] for one in changes] == [
        "ALTER ROLE \"app\" PASSWORD 'SCRAM-SHA-256$x'",
        'COMMENT ON ROLE "app"',
    ]
    assert claim().text() in changes[1].text
    assert changes[1].text.endswith("\nof sales'")


def test_imports_for_two_objects_are_not_one() -> None:
    one = RoleClaim(installation="i", object="a", uid="")
    assert not one.same_object(msgspec.structs.replace(one, object="b"))
    assert one.same_object(msgspec.structs.replace(one, uid="u"))


@pytest.mark.parametrize(
    ("held", "adopt", "taken"),
    [
        pytest.param(None, False, False, id="not-allowed"),
        pytest.param(None, True, True, id="allowed"),
        pytest.param(claim(), True, False, id="claimed"),
        pytest.param(msgspec.structs.replace(claim(), uid=""), False, True, id="imported"),
    ],
)
def test_whoever_takes_a_role_over_gets_no_powers(
    held: RoleClaim | None, adopt: bool, taken: bool
) -> None:
    found = msgspec.structs.replace(role(), claim=held)
    assert takes_over(found, adopt=adopt) is taken
    powerful = {"app": GroupFacts(powerful=True)}
    with pytest.raises(AccessError) if taken else contextlib.nullcontext():
        check_adoption(found, powerful, adopt=adopt)


@pytest.mark.parametrize(
    "comment",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("the reporting user", id="prose"),
        pytest.param("managed by Fairlead: {", id="broken"),
        pytest.param('managed by Fairlead: {"installation": 1}', id="wrong-type"),
    ],
)
def test_other_comments_are_no_claims(comment: str | None) -> None:
    assert parse_claim(comment) is None


@given(st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text))
@settings(max_examples=25, deadline=None)
def test_a_verifier_verifies_its_password_alone(text: str) -> None:
    stored = password.verifier(text)
    assert password.verifies(text, stored)
    assert not password.verifies(text + "x", stored)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("md5" + "0" * 32, id="md5"),
        pytest.param("SCRAM-SHA-256$0:c2FsdA==$a:b", id="no-iterations"),
        pytest.param("SCRAM-SHA-256$999999999:c2FsdA==$a:b", id="endless-iterations"),
        pytest.param("SCRAM-SHA-256$4096:c2Fs=dA==$YQ==:YQ==", id="bad-salt"),
    ],
)
def test_no_password_verifies_against_what_is_no_verifier(stored: str | None) -> None:
    assert not password.verifies(PASSWORD, stored)


def test_generated_passwords_are_long_and_new() -> None:
    first, second = password.generate(), password.generate()
    assert first != second
    assert len(first) == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a\0b", "NUL byte", id="nul"),
        pytest.param("x" * 1025, "1025 bytes", id="long"),
    ],
)
def test_passwords_nobody_could_use(text: str, message: str) -> None:
    with pytest.raises(AccessError, match=message) as refused:
        password.check(text, "team/login")
    assert text not in str(refused.value)


@pytest.mark.parametrize(
    ("existing", "matches", "expected"),
    [
        pytest.param(None, False, ["create role app", "claim role app"], id="R13-create"),
        pytest.param(role(), True, [], id="R14-same-password"),
        pytest.param(role(), False, ["give role app its login"], id="R14-other-password"),
        pytest.param(role(login=False), True, ["give role app its login"], id="login-lost"),
        pytest.param(role(claimed=claim(uid="u0")), True, ["claim role app"], id="recreated"),
    ],
)
def test_what_the_role_needs(
    existing: RoleFacts | None, matches: bool, expected: list[str]
) -> None:
    verifier = None if matches else password.verifier(PASSWORD)
    steps, problems = plan_role(wanted("app"), snapshot(existing), verifier)
    assert not problems
    assert [step.what for step in steps] == expected
    assert all(PASSWORD not in step.statement.as_string() for step in steps)


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        pytest.param((), ("CONNECT",), ["grant CONNECT on database app"], id="R16-missing"),
        pytest.param(("CONNECT",), (), ["revoke CONNECT on database app"], id="R17-stale"),
        pytest.param(("CONNECT",), ("CONNECT",), [], id="R15-equal"),
        pytest.param(
            ("TEMPORARY",),
            ("CONNECT",),
            ["grant CONNECT on database app", "revoke TEMPORARY on database app"],
            id="both",
        ),
    ],
)
def test_what_a_database_needs(
    held: tuple[str, ...], asked: tuple[str, ...], expected: list[str]
) -> None:
    grants = [grant("app", *asked)] if asked else []
    access = wanted("app", *grants)
    desired = {"app": desired_grants(grants, 180000)}
    steps = plan_databases([access], desired, snapshot(role(), *held))
    assert [step.what for step in steps] == expected


def test_a_database_that_the_role_owns_is_left_alone() -> None:
    desired = desired_grants([grant("app", "CONNECT")], 180000)
    found = snapshot(role(), owner=role().oid)
    assert not plan_databases([wanted("app")], {"app": desired}, found)


def test_roles_that_lack_the_same_on_a_database_share_a_statement() -> None:
    desired = desired_grants([grant("app", "CONNECT")], 180000)
    accesses = [wanted("a"), wanted("b")]
    (change,) = plan_databases(accesses, {"a": desired, "b": desired}, snapshot())
    assert change.statement.as_string() == 'GRANT CONNECT ON DATABASE "app" TO "a", "b"'
    assert change.only(["b"]).usernames == ("b",)


def test_a_claim_of_this_object_is_no_conflict() -> None:
    check_role(role(), claim(), "postgres")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            'password authentication failed for user "x"', "AuthenticationFailed", id="28P01"
        ),
        pytest.param("no pg_hba.conf entry for host", "AuthenticationFailed", id="28000"),
        pytest.param('database "x" does not exist', "DatabaseNotFound", id="3D000"),
        pytest.param(
            "server does not support SSL, but SSL was required", "TLSFailed", id="no-tls"
        ),
        pytest.param("SSL error: certificate verify failed", "TLSFailed", id="certificate"),
        pytest.param("the database system is starting up", "ConnectionFailed", id="57P03"),
        pytest.param("sorry, too many clients already", "ConnectionFailed", id="53300"),
        pytest.param("session is read-only", "ConnectionFailed", id="standby"),
        pytest.param("Connection refused", "ConnectionFailed", id="refused"),
        pytest.param("failed to resolve host 'x'", "ConnectionFailed", id="unresolved"),
        pytest.param("something new: s3cret", "ConnectionFailed", id="unknown"),
    ],
)
def test_connections_that_fail(text: str, reason: str) -> None:
    error = explain_connect(OSError(text), "db:5432", "app", "admin")
    assert error.reason == reason
    assert "s3cret" not in str(error)
    assert "db:5432" in str(error)


def test_of_a_discreet_connection_nothing_tells_what_else_listens_there() -> None:
    told = {
        str(explain_connect(error, "db:5432", "app", "admin", discreet=True))
        for error in (
            OSError("Connection refused"),
            OSError("connection timeout expired"),
            TimeoutError(),
            OSError("failed to resolve host 'x'"),
            OSError("received invalid response to SSL negotiation: H"),
            OSError("server does not support SSL, but SSL was required"),
            OSError("SSL error: certificate verify failed"),
            OSError("expected authentication request from server, but received H"),
            OSError("server closed the connection unexpectedly"),
            AnswerTooLargeError(),
        )
    }
    assert len(told) == 1
    login = OSError('password authentication failed for user "x"')
    assert explain_connect(login, "db", "app", "x", discreet=True).reason == "AuthenticationFailed"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(psycopg.errors.InsufficientPrivilege, "InsufficientPrivilege", id="42501"),
        pytest.param(psycopg.errors.DependentObjectsStillExist, "OwnsObjects", id="2BP01"),
        pytest.param(psycopg.errors.LockNotAvailable, "Locked", id="55P03"),
        pytest.param(psycopg.errors.DeadlockDetected, "Conflict", id="40P01"),
        pytest.param(psycopg.errors.AdminShutdown, "ConnectionFailed", id="57P01"),
        pytest.param(psycopg.errors.SyntaxError, "StatementFailed", id="any other"),
    ],
)
def test_statements_that_fail(error: type[psycopg.Error], reason: str) -> None:
    explained = explain_statement(error("s3cret"), "drop role app", "admin")
    assert explained.reason == reason
    assert "drop role app" in explained.message
    assert "s3cret" not in str(explained)


@pytest.mark.parametrize(
    ("error", "sets", "reason"),
    [
        pytest.param(
            psycopg.errors.InvalidAuthorizationSpecification("not plain"),
            "verifier",
            "PasswordRefused",
            id="credcheck",
        ),
        pytest.param(
            psycopg.errors.InternalError_("HTTP code 400"),
            "verifier",
            "PasswordRefused",
            id="neon",
        ),
        pytest.param(
            psycopg.errors.InternalError_("tuple concurrently updated"),
            "verifier",
            "Conflict",
            id="another-writer",
        ),
        pytest.param(
            psycopg.errors.InternalError_("HTTP code 400"), "", "Conflict", id="no-password"
        ),
        pytest.param(
            psycopg.errors.InvalidParameterValue("too short"),
            "plain",
            "PasswordRefused",
            id="policy",
        ),
        pytest.param(
            psycopg.errors.InsufficientPrivilege("rds_password"),
            "verifier",
            "InsufficientPrivilege",
            id="no-right",
        ),
    ],
)
def test_passwords_that_a_server_refuses(
    error: psycopg.Error, sets: PasswordForm, reason: str
) -> None:
    explained = explain_statement(error, "create role app", "admin", sets=sets)
    assert explained.reason == reason
    assert ("passwordFormat: Plain" in explained.message) is (
        (reason, sets) == ("PasswordRefused", "verifier")
    )


def test_a_plan_shows_no_password_in_plain_text() -> None:
    plain = msgspec.structs.replace(wanted("app", password="s3cret"), plain=True)
    changes, _ = plan_role(plain, snapshot(), "SCRAM-SHA-256$4096:x$y:z")
    assert "s3cret" in changes[0].statement.as_string()
    assert changes[0].text == """CREATE ROLE "app" LOGIN PASSWORD '***'"""
    assert "s3cret" not in repr(changes) + repr(plain)
