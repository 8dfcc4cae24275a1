from __future__ import annotations

import msgspec
import pytest
from tests.support.schemafacts import printed

from fairlead.api import postgresaccess as access
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.postgresaccess.connection import SecretKeyRef
from fairlead.api.postgresaccess.server import PostgresServer


UPSTREAM = {
    "apiVersion": "access.k8s.delta10.nl/v1",
    "kind": "PostgresAccess",
    "metadata": {"name": "reporting", "namespace": "team"},
    "spec": {
        "generatedSecret": "reporting-login",
        "username": "reporting",
        "connection": {
            "host": "db.example.org",
            "port": 5432,
            "database": "app",
            "username": {"value": "admin"},
            "password": {"secretRef": {"name": "admin", "key": "password"}},
            "sslMode": "require",
        },
        "grants": [{"database": "app", "schema": "public", "privileges": ["SELECT", "CONNECT"]}],
        "cleanupPolicy": "Orphan",
    },
}
SPEC: JSON = UPSTREAM["spec"]  # type: ignore[assignment]


def _schema(crd: JSON) -> JSON:
    schema: JSON = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("PostgresAccess", ["Status", "Reason", "User", "Server", "Age", "(LastLog)"]),
        ("PostgresServer", ["Ready", "Host", "Version", "Age", "(Message)"]),
        ("Controller", ["Ready", "Reason", "In sync", "Failing", "Age", "(Message)"]),
    ],
)
def test_columns_come_in_order(kind: str, columns: list[str]) -> None:
    """Those in parentheses are shown by ``-o wide`` alone."""
    (crd,) = (one for one in access.crds() if one["spec"]["names"]["kind"] == kind)
    assert printed(crd) == columns


def test_a_manifest_of_upstream_decodes() -> None:
    decoded = msgspec.convert(UPSTREAM, PostgresAccess)
    password = decoded.spec.connection.password
    assert password is not None
    assert password.secret_ref == SecretKeyRef(name="admin", key="password")
    assert decoded.spec.cleanup_policy == "Orphan"
    assert msgspec.to_builtins(decoded)["spec"] == SPEC | {
        "grants": [{"database": "app", "privileges": ["SELECT", "CONNECT"]}]
    }


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"username": ""}, r"\$.spec.username", id="empty-username"),
        pytest.param({"username": "u" * 64}, r"\$.spec.username", id="long-username"),
        pytest.param({"cleanupPolicy": "Drop"}, r"\$.spec.cleanupPolicy", id="unknown-policy"),
        pytest.param(
            {"grants": [{"database": "app", "privileges": ["FLY"]}]},
            r"\$.spec.grants\[0\].privileges",
            id="unknown-privilege",
        ),
        pytest.param({"grants": [{"privileges": ["SELECT"]}]}, "database", id="no-database"),
        pytest.param({"connection": {"port": 0}}, r"\$.spec.connection.port", id="port-zero"),
        pytest.param({"connection": {"sslMode": "yes"}}, "sslMode", id="unknown-sslmode"),
    ],
)
def test_what_does_not_fit_is_named(change: JSON, path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path):
        msgspec.convert(UPSTREAM | {"spec": SPEC | change}, PostgresAccess)


def test_many_grants_and_none_are_allowed() -> None:
    grant = {"database": "app", "privileges": ["SELECT"]}
    many = msgspec.convert(UPSTREAM | {"spec": SPEC | {"grants": [grant] * 64}}, PostgresAccess)
    assert len(many.spec.grants) == 64
    none = msgspec.convert(UPSTREAM | {"spec": SPEC | {"grants": []}}, PostgresAccess)
    assert none.spec.grants == []


def test_the_crds_carry_what_the_wire_promises() -> None:
    accesses, servers, _ = access.crds()
    assert accesses["metadata"]["name"] == "postgresaccesses.access.k8s.delta10.nl"
    assert accesses["metadata"]["labels"] == {"servicebinding.io/provisioned-service": "true"}
    assert servers["spec"]["scope"] == "Cluster"
    spec = _schema(accesses)["properties"]["spec"]
    assert spec["required"] == ["generatedSecret", "username", "connection"]
    assert spec["properties"]["cleanupPolicy"]["default"] == "Restrict"
    assert spec["properties"]["username"]["x-kubernetes-validations"][0]["rule"] == (
        "self == oldSelf"
    )
    assert set(_schema(servers)["properties"]["spec"]["required"]) == {
        "host",
        "credentialsSecretRef",
        "allowedNamespaces",
        "allowedDatabases",
    }
    conditions = _schema(accesses)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_exporting_adds_kube_binds_label() -> None:
    accesses, servers, controllers = access.crds(exported=True)
    assert accesses["metadata"]["labels"]["kube-bind.io/exported"] == "true"
    assert "labels" not in servers["metadata"]
    assert "labels" not in controllers["metadata"]


def test_a_server_verifies_tls_unless_told_otherwise() -> None:
    server = msgspec.convert(
        {
            "spec": {
                "host": "db",
                "credentialsSecretRef": {"name": "admin"},
                "allowedNamespaces": {},
                "allowedDatabases": ["*"],
            }
        },
        PostgresServer,
    )
    assert (server.spec.ssl_mode, server.spec.port) == ("verify-full", 5432)
