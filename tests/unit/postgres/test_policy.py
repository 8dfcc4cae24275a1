"""What accesses are allowed, by a server's profile and by the operator's settings."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from fairlead.api.postgresaccess import PostgresAccessSpec
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.postgres.controllers.rules.policy import (
    check_heir,
    check_host,
    check_membership,
    check_own_connections,
    check_policy,
    secret_namespace,
)
from fairlead.postgres.database.plans.names import excluded, matches
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions, split_host


def server(**spec: Any) -> PostgresServer:
    return msgspec.convert(
        {
            "metadata": {"name": "main"},
            "spec": {
                "host": "db",
                "credentialsSecretRef": {"name": "admin"},
                "allowedNamespaces": {},
                "allowedDatabases": ["*"],
                **spec,
            },
        },
        PostgresServer,
    )


@pytest.mark.parametrize(
    ("allowed", "asked", "message"),
    [
        pytest.param(None, {"privileges": ["SELECT", "CREATE"]}, "", id="all"),
        pytest.param(["CONNECT", "SELECT"], {"privileges": ["SELECT"]}, "", id="listed"),
        pytest.param(
            ["SELECT"],
            {"privileges": ["SELECT", "CREATE"]},
            "allowedPrivileges does not allow CREATE",
            id="other",
        ),
        pytest.param([], {"privileges": ["SELECT"]}, "does not allow SELECT", id="none"),
        pytest.param(
            ["SELECT", "UPDATE"],
            {"on": "Sequences", "privileges": ["ALL"]},
            "does not allow USAGE",
            id="all-of-a-level",
        ),
        pytest.param(
            ["SELECT", "UPDATE", "USAGE"],
            {"on": "Sequences", "privileges": ["ALL"]},
            "",
            id="whole",
        ),
        pytest.param(
            ["CONNECT", "USAGE", "SELECT"], {"access": "ReadOnly"}, "", id="what-reading-needs"
        ),
        pytest.param(
            ["CONNECT", "USAGE", "SELECT"],
            {"access": "ReadWrite"},
            "does not allow DELETE, EXECUTE, INSERT, UPDATE",
            id="what-writing-needs",
        ),
    ],
)
def test_privileges(allowed: list[str] | None, asked: dict[str, Any], message: str) -> None:
    profile = server(**({} if allowed is None else {"allowedPrivileges": allowed}))
    spec = msgspec.convert(
        {
            "generatedSecret": "login",
            "username": "app",
            "connection": {"serverRef": {"name": "main"}},
            "grants": [{"database": "d", **asked}],
        },
        PostgresAccessSpec,
    )
    if not message:
        check_policy(profile, spec, "team", {})
        return
    with pytest.raises(AccessError, match=message) as refused:
        check_policy(profile, spec, "team", {})
    assert (refused.value.reason, refused.value.verdict) == ("PolicyDenied", True)


@pytest.mark.parametrize(
    ("role", "profile", "listed", "message"),
    [
        pytest.param("readers", server(), [], "spec.allowedMemberOf", id="nobody-lists-it"),
        pytest.param("readers", server(), ["read*"], "", id="the-controller-does"),
        pytest.param("readers", server(allowedMemberOf=["readers"]), [], "", id="the-server-does"),
        pytest.param(
            "readers",
            server(allowedMemberOf=[]),
            ["readers"],
            "PostgresServer main",
            id="the-server-counts",
        ),
        pytest.param(
            "team_readers", server(allowedMemberOf=["{namespace}_*"]), [], "", id="namespace"
        ),
        pytest.param(
            "pg_write_all_data", server(allowedMemberOf=["*"]), [], "pg_write_all", id="reserved"
        ),
        pytest.param(
            "pg_read_all_data", server(allowedMemberOf=["pg_read_all_data"]), [], "", id="by-name"
        ),
        pytest.param("readers", None, [], "", id="own-connection"),
        pytest.param("pg_monitor", None, [], "Controller", id="own-connection-reserved"),
        pytest.param("readers", None, ["writers"], "Controller", id="own-connection-unlisted"),
    ],
)
def test_memberships(
    role: str, profile: PostgresServer | None, listed: list[str], message: str
) -> None:
    settings = PostgresOptions(allowed_member_of=tuple(listed))
    if not message:
        check_membership(role, "team", profile, settings)
        return
    with pytest.raises(AccessError, match=message) as refused:
        check_membership(role, "team", profile, settings)
    assert refused.value.reason == "PolicyDenied"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "", id="nobody-is-named"),
        pytest.param({"orphan_to": "readers"}, "", id="nothing-is-given"),
        pytest.param({"orphan_to": "heirs", "cleanup_policy": "Orphan"}, "", id="allowed"),
        pytest.param(
            {"orphan_to": "readers", "cleanup_policy": "Orphan"}, "spec.orphanTo", id="another"
        ),
    ],
)
def test_heirs(fields: dict[str, Any], message: str) -> None:
    """Who gets code gets its callers: to give is as much as to be a member."""
    spec = PostgresAccessSpec(
        generated_secret="s", username="app", connection=Connection(), **fields
    )
    profile = server(allowedMemberOf=["heirs"])
    if not message:
        check_heir(spec, "team", profile, PostgresOptions())
        return
    with pytest.raises(AccessError, match=message) as refused:
        check_heir(spec, "team", profile, PostgresOptions())
    assert (refused.value.reason, refused.value.verdict) == ("PolicyDenied", True)


@pytest.mark.parametrize(
    ("named", "settings", "expected"),
    [
        pytest.param(None, {}, "team", id="none"),
        pytest.param("team", {}, "team", id="its-own"),
        pytest.param("other", {}, None, id="not-allowed"),
        pytest.param("other", {"existing_secret_namespace": True}, "other", id="any"),
        pytest.param(
            "operator", {"existing_secret_namespace": True}, None, id="never-the-operators"
        ),
        pytest.param(
            "operator",
            {"existing_secret_namespace": True, "allowed_secret_namespaces": ("operator",)},
            "operator",
            id="but-by-name",
        ),
        pytest.param(
            "team-db",
            {"existing_secret_namespace": True, "allowed_secret_namespaces": ("{namespace}-*",)},
            "team-db",
            id="listed",
        ),
        pytest.param(
            "other-db",
            {"existing_secret_namespace": True, "allowed_secret_namespaces": ("{namespace}-*",)},
            None,
            id="not-listed",
        ),
        pytest.param(
            "other", {"allowed_secret_namespaces": ("other",)}, None, id="a-list-allows-nothing"
        ),
    ],
)
def test_namespaces_of_secrets(named: str | None, settings: Any, expected: str | None) -> None:
    connection = Connection(existing_secret="login", existing_secret_namespace=named)
    options = PostgresOptions(namespace="operator", **settings)
    if expected is not None:
        assert secret_namespace(connection, "team", options) == expected
        return
    with pytest.raises(AccessError, match="existingSecretNamespace"):
        secret_namespace(connection, "team", options)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "listed"),
    [
        pytest.param("db.example.org", "db.example.org", 5432, True, id="name"),
        pytest.param("db.example.org", "DB.Example.org.", 5432, True, id="as-names-are-compared"),
        pytest.param("db.example.org", "xdb.example.org", 5432, False, id="another-name"),
        pytest.param("*.example.org", "db.example.org", 1, True, id="pattern"),
        pytest.param("*.example.org", "example.org", 1, False, id="not-the-domain-itself"),
        pytest.param("*.{namespace}.svc", "db.team.svc", 1, True, id="namespace"),
        pytest.param("*.{namespace}.svc", "db.other.svc", 1, False, id="another-namespace"),
        pytest.param("db:5432", "db", 5432, True, id="port"),
        pytest.param("db:5432", "db", 22, False, id="another-port"),
        pytest.param("db:*", "db", 22, True, id="any-port"),
        pytest.param("10.1.0.0/16", "10.1.2.3", 1, True, id="network"),
        pytest.param("10.1.0.0/16", "10.2.2.3", 1, False, id="another-network"),
        pytest.param("10.1.0.0/16:5432", "10.1.2.3", 1, False, id="network-and-port"),
        pytest.param("10.1.0.0/16", "::ffff:10.1.2.3", 1, True, id="mapped"),
        pytest.param("fd00::/8", "fd00::1", 1, True, id="network-of-six"),
        pytest.param("[fd00::/8]:5432", "fd00::1", 5432, True, id="in-brackets"),
        pytest.param("10.1.0.0/16", "db.example.org", 1, False, id="names-are-not-looked-up"),
        pytest.param("10.0.0.1", "167772161", 1, False, id="a-number-is-no-address"),
        pytest.param("a.org", "a.org,b.org", 1, False, id="one-of-two"),
        pytest.param("*.org", "a.org,b.org", 1, True, id="both"),
        pytest.param("*", "anything", 1, True, id="all"),
    ],
)
def test_hosts(pattern: str, host: str, port: int, listed: bool) -> None:
    settings = PostgresOptions(connections="Listed", connection_hosts=(pattern,))
    if listed:
        assert check_host(host, port, "team", settings)
        return
    with pytest.raises(AccessError, match="does not list the host") as refused:
        check_host(host, port, "team", settings)
    assert (refused.value.reason, refused.value.verdict) == ("PolicyDenied", True)
    assert not check_host(
        host, port, "team", msgspec.structs.replace(settings, connections="Allowed")
    )


def test_own_connections_may_be_forbidden() -> None:
    check_own_connections(PostgresOptions(connections="Listed"))
    with pytest.raises(AccessError, match="use serverRef"):
        check_own_connections(PostgresOptions(connections="Forbidden"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("db", ("db", ""), id="name"),
        pytest.param("db:1", ("db", "1"), id="port"),
        pytest.param("fd00::1", ("fd00::1", ""), id="address-of-six"),
        pytest.param("[fd00::1]", ("fd00::1", ""), id="in-brackets"),
        pytest.param("[fd00::1]:1", ("fd00::1", "1"), id="in-brackets-with-port"),
    ],
)
def test_hosts_are_split(text: str, expected: tuple[str, str]) -> None:
    assert split_host(text) == expected


@pytest.mark.parametrize(
    ("username", "patterns", "expected"),
    [
        pytest.param("backup_a", ["backup_*"], True, id="pattern"),
        pytest.param("Backup_a", ["backup_*"], False, id="case-counts"),
        pytest.param("a", [" a "], True, id="trimmed"),
        pytest.param("team", ["{namespace}"], False, id="no-namespace-here"),
        pytest.param("a", [""], False, id="empty"),
    ],
)
def test_excluded_patterns(username: str, patterns: list[str], expected: bool) -> None:
    assert excluded(username, [], patterns) is expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        pytest.param("a*a", "a", False, id="no-letter-counts-twice"),
        pytest.param("a*b*c", "aXbYc", True, id="in-between"),
        pytest.param("a*b*c", "acb", False, id="in-order"),
        pytest.param("*ab*ab*", "abab", True, id="twice"),
        pytest.param("*ab*ab*", "ab", False, id="once"),
        pytest.param("**", "", True, id="nothing"),
    ],
)
def test_stars(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name, "team") is expected


def test_a_pattern_of_stars_takes_no_time() -> None:
    begun = time.monotonic()
    assert not matches("*a" * 120 + "b", "a" * 100_000, "team")
    assert time.monotonic() - begun < 5
