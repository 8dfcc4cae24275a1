"""Kinds of other operators: what an app gets of the Secrets that these operators make."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.unit.binding.objects import coreos_binding, deployment, meta, secret, spec_binding
from tests.unit.binding.test_rendering import rendering

from fairlead.api.meta import JSON


SERVERS = "of the server alone"
"""A value that no app may get."""


def holding(name: str, entries: dict[str, str], *servers: str) -> JSON:
    """Return a Secret with entries, and with some that no app may get."""
    texts = {**entries, **dict.fromkeys(servers, SERVERS)}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {**secret(name), "data": data}


CLOUDNATIVE_APP = {
    "username": "shop",
    "user": "shop",
    "password": "pw",
    "dbname": "shop",
    "host": "main-rw",
    "port": "5432",
    "pgpass": "main-rw:5432:shop:shop:pw\n",
    "uri": "postgresql://shop:pw@main-rw.ns:5432/shop",
    "jdbc-uri": "jdbc:postgresql://main-rw.ns:5432/shop?password=pw&user=shop",
    "fqdn-uri": "postgresql://shop:pw@main-rw.ns.svc.cluster.local:5432/shop",
    "fqdn-jdbc-uri": "jdbc:postgresql://main-rw.ns.svc.cluster.local:5432/shop?user=shop",
}
"""Secret of the application user (``CreateSecret`` of CloudNativePG's ``pkg/specs``)."""
CLOUDNATIVE = [
    holding("main-app", CLOUDNATIVE_APP),
    holding("main-superuser", {}, *CLOUDNATIVE_APP),
    holding("main-ca", {"ca.crt": "CA"}, "ca.key"),
    holding("main-server", {"tls.crt": "CRT"}, "tls.key"),
    holding("main-replication", {}, "tls.crt", "tls.key"),
]
CLOUDNATIVE_BODY: JSON = {
    # Without a Secret of the user's own it is called -app, whoever owns the database.
    "spec": {"bootstrap": {"initdb": {"database": "shop", "owner": "shop"}}},
    "status": {"writeService": "main-rw", "certificates": {"serverCASecret": "main-ca"}},
}
CLOUDNATIVE_ENTRIES = {*CLOUDNATIVE_APP, "type", "provider", "database", "ca.crt"}

CRUNCHY_USER = {
    "host": "main-primary.ns.svc",
    "port": "5432",
    "dbname": "main",
    "user": "main",
    "password": "pw",
    "uri": "postgresql://main:pw@main-primary.ns.svc:5432/main",
    "jdbc-uri": "jdbc:postgresql://main-primary.ns.svc:5432/main?password=pw&user=main",
}
"""Secret of a user without PgBouncer (``generatePostgresUserSecret`` of PGO 5)."""
CRUNCHY = [
    holding("main-pguser-main", CRUNCHY_USER, "verifier"),
    holding("main-cluster-cert", {"ca.crt": "CA", "tls.crt": "CRT"}, "tls.key"),
    holding("main-replication-cert", {"ca.crt": "CA", "tls.crt": "CRT"}, "tls.key"),
]
CRUNCHY_ENTRIES = {*CRUNCHY_USER, "type", "provider", "database", "username", "ca.crt"}
POOLED = {
    "pgbouncer-host": "main-pgbouncer.ns.svc",
    "pgbouncer-port": "5432",
    "pgbouncer-uri": "postgresql://main:pw@main-pgbouncer.ns.svc:5432/main",
    "pgbouncer-jdbc-uri": "jdbc:postgresql://main-pgbouncer.ns.svc:5432/main?prepareThreshold=0",
}

PERCONA_MYSQL = holding(
    "users",
    {"root": "pw"},
    *("xtrabackup", "monitor", "proxyadmin", "operator", "replication", "pmmserver"),
)
PERCONA_MONGODB = holding(
    "users",
    {"MONGODB_USER_ADMIN_USER": "userAdmin", "MONGODB_USER_ADMIN_PASSWORD": "pw"},
    "MONGODB_BACKUP_PASSWORD",
    "MONGODB_CLUSTER_ADMIN_PASSWORD",
    "MONGODB_CLUSTER_MONITOR_PASSWORD",
    "PMM_SERVER_PASSWORD",
)


def definition(group: str, version: str, kind: str) -> JSON:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": True}],
        },
    }


def entries(bodies: list[JSON]) -> dict[str, str]:
    """Return what the only rendered Secret has."""
    (data,) = [body["data"] for body in bodies if body["kind"] == "Secret"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


BUILT_IN = [
    pytest.param(
        "postgresql.cnpg.io/v1 Cluster",
        CLOUDNATIVE_BODY,
        CLOUDNATIVE,
        CLOUDNATIVE_ENTRIES,
        id="CloudNativePG",
    ),
    pytest.param(
        "postgresql.cnpg.io/v1 Cluster",
        {"status": {"writeService": "main-rw"}},
        CLOUDNATIVE,
        CLOUDNATIVE_ENTRIES - {"ca.crt"},
        id="CloudNativePG: no authority so far",
    ),
    pytest.param(
        "postgresql.k8s.enterprisedb.io/v1 Cluster",
        CLOUDNATIVE_BODY,
        CLOUDNATIVE,
        CLOUDNATIVE_ENTRIES,
        id="EDB",
    ),
    pytest.param(
        "postgres-operator.crunchydata.com/v1beta1 PostgresCluster",
        {},
        CRUNCHY,
        CRUNCHY_ENTRIES,
        id="Crunchy",
    ),
    pytest.param(
        "postgres-operator.crunchydata.com/v1beta1 PostgresCluster",
        {},
        [holding("main-pguser-main", CRUNCHY_USER | POOLED, "verifier"), *CRUNCHY[1:]],
        CRUNCHY_ENTRIES | {*POOLED},
        id="Crunchy: PgBouncer",
    ),
    *(
        pytest.param(
            f"pxc.percona.com/{version} PerconaXtraDBCluster",
            {"spec": {"secretsName": "users"}, "status": {"host": "main-haproxy.ns"}},
            [PERCONA_MYSQL],
            {"type", "provider", "host", "port", "database", "username", "password"},
            id=f"Percona: MySQL, {version}",
        )
        for version in ("v1-10-0", "v1")
    ),
    pytest.param(
        "psmdb.percona.com/v1 PerconaServerMongoDB",
        {"spec": {"secrets": {"users": "users"}}, "status": {"host": "main.ns"}},
        [PERCONA_MONGODB],
        {"type", "provider", "host", "username", "password"},
        id="Percona: MongoDB",
    ),
    pytest.param(
        "redis.redis.opstreelabs.in/v1beta1 Redis",
        {"spec": {"kubernetesConfig": {"redisSecret": {"name": "users", "key": "password"}}}},
        [holding("users", {"password": "pw"}, "other")],
        {"type", "host", "password"},
        id="Redis",
    ),
]


@pytest.mark.parametrize(("of", "body", "secrets", "expected"), BUILT_IN)
@pytest.mark.parametrize("api", ["servicebinding.io", "binding.operators.coreos.com"])
def test_a_client_gets_its_login_and_nothing_of_the_server(
    of: str, body: JSON, secrets: list[JSON], expected: set[str], api: str
) -> None:
    api_version, kind = of.split()
    group, version = api_version.split("/")
    reference = {"kind": kind, "name": "main"}
    binding = (
        spec_binding(service={"apiVersion": api_version, **reference})
        if api == "servicebinding.io"
        else coreos_binding(services=[{"group": group, "version": version, **reference}])
    )
    service = {"apiVersion": api_version, "kind": kind, "metadata": meta("main"), **body}
    result = rendering(definition(group, version, kind), service, *secrets, deployment(), binding)
    assert result.problems == []
    found = entries(result.objects)
    assert {*found} == expected
    assert SERVERS not in found.values()
    assert found["password"] == "pw"
    assert found.get("ca.crt", "CA") == "CA"
    assert all(found.values())


@pytest.mark.parametrize(
    ("name", "kept", "spec"),
    [
        pytest.param("main-app", CLOUDNATIVE_APP, {}, id="CloudNativePG"),
        pytest.param("main-pguser-main", CRUNCHY_USER, {"provider": "crunchydata"}, id="Crunchy"),
    ],
)
def test_a_secret_of_an_operator_is_bound_by_its_name(
    name: str, kept: dict[str, str], spec: dict[str, Any]
) -> None:
    # Both lack the type that the specification demands: the binding says it.
    binding = spec_binding(
        service={"apiVersion": "v1", "kind": "Secret", "name": name}, type="postgresql", **spec
    )
    result = rendering(*CLOUDNATIVE, *CRUNCHY, deployment(), binding)
    assert result.problems == []
    found = entries(result.objects)
    assert found.items() >= {**kept, "type": "postgresql", **spec}.items()
