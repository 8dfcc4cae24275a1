"""Connections, policies and Secrets, as functions of the objects that describe them."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.conditions import get_condition
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import PostgresAccessSpec
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.postgres.controllers.rules.policy import check_policy
from fairlead.postgres.controllers.rules.resolution import (
    Certificates,
    check_connection,
    direct_endpoint,
    secret_endpoint,
    server_endpoint,
)
from fairlead.postgres.controllers.servers.controller import server_status
from fairlead.postgres.errors import AccessError
from fairlead.postgres.manifests import manifests


CREDENTIALS = {"username": b"admin", "password": b"s3cret"}


def connection(**fields: object) -> Connection:
    return msgspec.convert(fields, Connection)


def server(**spec: object) -> PostgresServer:
    return msgspec.convert(
        {
            "metadata": {"name": "main"},
            "spec": {
                "host": "db.internal",
                "credentialsSecretRef": {"name": "admin"},
                "allowedNamespaces": {},
                "allowedDatabases": ["app"],
                **spec,
            },
        },
        PostgresServer,
    )


def spec(*databases: str, username: str = "app") -> PostgresAccessSpec:
    return msgspec.convert(
        {
            "generatedSecret": "login",
            "username": username,
            "connection": {"serverRef": {"name": "main"}},
            "grants": [{"database": name, "privileges": ["CONNECT"]} for name in databases],
        },
        PostgresAccessSpec,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"serverRef": {"name": "main"}}, "", id="server"),
        pytest.param({"existingSecret": "given"}, "", id="existing"),
        pytest.param({"host": "db", "username": {"value": "x"}}, "", id="direct"),
        pytest.param({}, "it has none", id="none"),
        pytest.param(
            {"serverRef": {"name": "main"}, "existingSecret": "given"},
            "it has serverRef and existingSecret",
            id="two",
        ),
        pytest.param(
            {"serverRef": {"name": "main"}, "host": "db"},
            "it has serverRef and host$",
            id="one and part of another",
        ),
    ],
)
def test_one_way_to_the_server(fields: JSON, message: str) -> None:
    if not message:
        check_connection(connection(**fields))
        return
    with pytest.raises(AccessError, match=message):
        check_connection(connection(**fields))


def test_a_profile_says_where_clients_go() -> None:
    found = server_endpoint(
        server(externalHost="db.example.org", externalPort=6432), CREDENTIALS, Certificates("PEM")
    )
    assert (found.host, found.port, found.ca) == ("db.internal", 5432, "PEM")
    assert (found.public_host, found.public_port) == ("db.example.org", 6432)
    assert (found.ssl_mode, found.maintenance) == ("verify-full", "postgres")
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("mode", ["disable", "prefer", "require", "verify-ca", "verify-full"])
def test_passwords_go_in_plain_text_over_verified_tls_alone(mode: str) -> None:
    plain = server(passwordFormat="Plain", sslMode=mode)
    if mode.startswith("verify-"):
        assert server_endpoint(plain, CREDENTIALS).plain_passwords
        return
    with pytest.raises(AccessError, match="needs sslMode verify-full or verify-ca"):
        server_endpoint(plain, CREDENTIALS)


@pytest.mark.parametrize("key", ["username", "password"])
def test_incomplete_credentials_are_named(key: str) -> None:
    rest = {name: value for name, value in CREDENTIALS.items() if name != key}
    with pytest.raises(AccessError, match=f"has no key {key}"):
        server_endpoint(server(), rest)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"host": b"db.example.org"}, ("db.example.org", 5432, ""), id="host"),
        pytest.param({"host": b"db"}, ("db.team.svc", 5432, ""), id="short-host"),
        pytest.param({"host": b"localhost"}, ("localhost", 5432, ""), id="localhost"),
        pytest.param({"host": b"::1"}, ("::1", 5432, ""), id="address"),
        pytest.param(
            {"host": b"db.a", "port": b"6432", "dbname": b"app"}, ("db.a", 6432, "app"), id="all"
        ),
        pytest.param({"host": b"db.a", "database": b"*"}, ("db.a", 5432, ""), id="any-database"),
        pytest.param({"uri": b"postgresql://u:p@db.a:7000/x"}, ("db.a", 7000, ""), id="uri"),
        pytest.param(
            {"uri": b"postgresql://u:p@db.a:7000/x?sslmode=verify-full"},
            ("db.a", 7000, ""),
            id="uri-with-a-mode",
        ),
        pytest.param(
            {"jdbc-uri": b"jdbc:postgresql://db.a:7000/x?user=u"}, ("db.a", 7000, ""), id="jdbc"
        ),
        pytest.param(
            {"fqdn-uri": b"postgresql://db.a/x", "uri": b"postgresql://other/x", "port": b"1"},
            ("db.a", 1, ""),
            id="fqdn-first",
        ),
    ],
)
def test_existing_secrets(data: dict[str, bytes], expected: tuple[str, int, str]) -> None:
    found = secret_endpoint(connection(), {"user": b"u", "password": b"p"} | data, "given", "team")
    assert (found.host, found.port, found.fallback) == expected
    assert (found.username, found.ssl_mode, found.maintenance) == ("u", "require", "postgres")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({}, "no key host", id="no-host"),
        pytest.param({"host": b"db", "port": b"many"}, "port of Secret given", id="port"),
        pytest.param({"host": b"db", "port": b"70000"}, "port of Secret given", id="port-range"),
        pytest.param({"uri": b"postgresql://[db"}, "uri in Secret given", id="uri"),
        pytest.param({"host": b"\xff"}, "is not UTF-8", id="bytes"),
        pytest.param({"host": b"db", "sslmode": b"maybe"}, "not a TLS mode", id="sslmode"),
        pytest.param({"host": b"db", "password": b""}, "no key password", id="no-password"),
    ],
)
def test_existing_secrets_that_cannot_be_used(data: dict[str, bytes], message: str) -> None:
    with pytest.raises(AccessError, match=message) as refused:
        secret_endpoint(
            connection(), {"username": b"u", "password": b"hunter2"} | data, "given", "team"
        )
    assert "hunter2" not in str(refused.value)


def test_a_connection_written_out() -> None:
    found = direct_endpoint(connection(host="db", database="app", sslMode="disable"), "u", "p")
    assert (found.host, found.port, found.ssl_mode) == ("db", 5432, "disable")
    assert (found.maintenance, found.fallback) == ("postgres", "app")
    with pytest.raises(AccessError, match=r"spec\.connection\.password is missing"):
        direct_endpoint(connection(host="db"), "u", "")


@pytest.mark.parametrize("host", ["/var/run", "@abstract", "db,/var/run"])
def test_tenants_reach_no_local_socket(host: str) -> None:
    with pytest.raises(AccessError, match="local socket"):
        direct_endpoint(connection(host=host), "u", "p")


@pytest.mark.parametrize(
    ("profile", "asked", "message"),
    [
        pytest.param({}, spec("app"), "", id="allowed"),
        pytest.param(
            {"allowedNamespaces": {"matchLabels": {"tier": "gold"}}},
            spec(),
            "allowedNamespaces does not select namespace team",
            id="namespace",
        ),
        pytest.param(
            {"allowedNamespaces": {"matchLabels": {"tier": "lead"}}}, spec(), "", id="label"
        ),
        pytest.param(
            {"usernamePattern": "{namespace}_*"}, spec(), "usernames like team_", id="username"
        ),
        pytest.param(
            {"usernamePattern": "{namespace}_*"}, spec(username="team_a"), "", id="pattern"
        ),
        pytest.param({}, spec("app", "other"), "does not allow database other", id="database"),
        pytest.param(
            {"allowedDatabases": ["{namespace}"]}, spec("team"), "", id="own-database"
        ),
        pytest.param(
            {"allowedNamespaces": {"matchLabels": {"-": "x"}}}, spec(), "allowedNamespaces",
            id="bad-selector",
        ),
    ],
)  # fmt: skip
def test_policies(profile: JSON, asked: PostgresAccessSpec, message: str) -> None:
    if not message:
        check_policy(server(**profile), asked, "team", {"tier": "lead"})
        return
    with pytest.raises(AccessError, match=message) as refused:
        check_policy(server(**profile), asked, "team", {"tier": "lead"})
    assert "PostgresServer main" in str(refused.value)


@pytest.mark.parametrize(
    ("reason", "ready", "reachable"),
    [
        pytest.param("ConnectionFailed", "False", "False", id="down"),
        pytest.param("AuthenticationFailed", "False", "True", id="password"),
        pytest.param("ConnectionSecretMissing", "False", "Unknown", id="no-secret"),
    ],
)
def test_a_servers_status(reason: str, ready: str, reachable: str) -> None:
    status = server_status(server().status, 1, "now", error=AccessError(reason, "why"))
    found = {one.type: one.status for one in status.conditions}
    assert found == {"Ready": ready, "Reachable": reachable}
    condition = get_condition(status.conditions, "Ready")
    assert condition is not None
    assert (condition.reason, condition.message) == (reason, "why")
    assert server_status(status, 1, "later", error=AccessError(reason, "why")) == status


def test_manifests_have_no_wildcard_and_no_escalation() -> None:
    rules = [
        rule
        for body in manifests(image="fairlead:1", exported=True)
        for rule in body.get("rules", [])
    ]
    words = {word for rule in rules for values in rule.values() for word in values}
    assert not words & {"*", "escalate", "bind", "impersonate"}
    secrets = [rule["verbs"] for rule in rules if "secrets" in rule["resources"]]
    assert secrets == [["get", "list", "watch", "create", "patch", "delete"]]


def test_manifests_carry_the_labels_that_others_aggregate_by() -> None:
    roles = {
        body["metadata"]["name"]: body["metadata"]["labels"]
        for body in manifests(image="fairlead:1", exported=True)
        if body["kind"] == "ClusterRole"
    }
    assert roles["fairlead-postgres-export"]["rbac.kube-bind.io/aggregate-to-provider"] == "true"
    assert roles["fairlead-postgres-shown"]["rbac.kube-bind.io/aggregate-to-serve"] == "true"
    assert roles["fairlead-postgres-servicebinding"]["servicebinding.io/controller"] == "true"
    plain = [body["metadata"]["name"] for body in manifests(image="fairlead:1")]
    assert "fairlead-postgres-export" not in plain
