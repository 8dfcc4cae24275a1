"""The variables of PostgreSQL's clients: what they are, and how they get into containers."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    edited,
    message,
    pod,
    secret,
    spec_binding,
)
from tests.unit.binding.test_ownership import world
from tests.unit.binding.test_required import mapping

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.servicebinding.wishes import DatabaseClient, read_wishes
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.reads import Snapshot
from fairlead.binding.services.clients import UnsuitableEntriesError, client_variables
from fairlead.demo.pods.runner import expand


CLIENT = "servicebinding.io/client"
MODE = "servicebinding.io/default-mode"
CA = "-----BEGIN CERTIFICATE-----"
PASSWORD = "p$(PGHOST)w"
LOGIN: dict[str, Any] = {
    "type": "postgresql",
    "host": "db.example",
    "port": "5432",
    "database": "shop",
    "username": "app",
    "password": PASSWORD,
    "sslmode": "verify-full",
    "uri": "postgresql://app:pw@db.example:5432/shop?sslmode=verify-full",
    "jdbc-uri": "jdbc:postgresql://db.example:5432/shop?user=app&password=pw&sslmode=verify-full",
    "ca.crt": CA,
}
BOUND = ("True", "ApplicationsBound")
ROOT = {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in LOGIN.items() if key not in keys}


def variables(
    client: str,
    entries: dict[str, str],
    env: list[tuple[str, str]] | None = None,
    directory: str = "/bindings/db",
    mode: int | None = None,
) -> dict[str, str]:
    """By name what the variable is: an entry in <>, or a text."""
    wished = read_wishes({CLIENT: client}).client
    assert wished
    content: dict[str, Any] = {key: value.encode() for key, value in entries.items()}
    made = client_variables(
        wished, content, env or [], binding="my-db", directory=directory, mode=mode
    )
    assert len({one.name for one in made}) == len(made)
    return {one.name: f"<{one.key}>" if one.key else one.text for one in made}


URI = {"SERVICE_BINDING_MY_DB_URI": "<uri>"}
WITH_CA = "$(SERVICE_BINDING_MY_DB_URI)&sslrootcert=/bindings/db/ca.crt"
LIBPQ = {
    "PGHOST": "<host>",
    "PGPORT": "<port>",
    "PGDATABASE": "<database>",
    "PGUSER": "<username>",
    "PGPASSWORD": "<password>",
    "PGSSLMODE": "<sslmode>",
    "PGSSLROOTCERT": "/bindings/db/ca.crt",
}


@pytest.mark.parametrize(
    ("client", "entries", "expected"),
    [
        pytest.param("libpq", LOGIN, LIBPQ, id="libpq"),
        pytest.param(
            "libpq",
            without("port", "password", "sslmode", "ca.crt"),
            {name: LIBPQ[name] for name in ("PGHOST", "PGDATABASE", "PGUSER")},
            id="libpq: of what is there alone",
        ),
        pytest.param(
            "libpq",
            {"host": "h", "dbname": "d", "user": "u"},
            {"PGHOST": "<host>", "PGDATABASE": "<dbname>", "PGUSER": "<user>"},
            id="libpq: keys of CloudNativePG and Crunchy",
        ),
        pytest.param("url", LOGIN, URI | {"DATABASE_URL": WITH_CA}, id="url"),
        pytest.param("url=SHOP_URL", LOGIN, URI | {"SHOP_URL": WITH_CA}, id="url with a name"),
        pytest.param(
            "url",
            without("ca.crt") | {"uri": "mysql://db"},
            {"DATABASE_URL": "<uri>"},
            id="url without a CA: the entry itself, of any scheme",
        ),
        pytest.param(
            "url",
            LOGIN | {"uri": "postgres://db?"},
            URI | {"DATABASE_URL": WITH_CA},
            id="url: the other scheme, and an empty query",
        ),
        pytest.param(
            "url",
            LOGIN | {"uri": "postgres://db?application_name=sslrootcert=x"},
            URI | {"DATABASE_URL": WITH_CA},
            id="url: sslrootcert in the value of another parameter",
        ),
        pytest.param(
            "jdbc",
            LOGIN,
            {
                "SERVICE_BINDING_MY_DB_JDBC_URI": "<jdbc-uri>",
                "SPRING_DATASOURCE_URL": (
                    "$(SERVICE_BINDING_MY_DB_JDBC_URI)&sslrootcert=/bindings/db/ca.crt"
                ),
            },
            id="jdbc",
        ),
        pytest.param(
            "jdbc=QUARKUS_DATASOURCE_JDBC_URL",
            {"jdbc-url": "jdbc:postgresql://db/shop"},
            {"QUARKUS_DATASOURCE_JDBC_URL": "<jdbc-url>"},
            id="jdbc: another key of it",
        ),
        pytest.param(
            "npgsql=ConnectionStrings__Shop",
            LOGIN,
            {
                "SERVICE_BINDING_MY_DB_HOST": "<host>",
                "SERVICE_BINDING_MY_DB_PORT": "<port>",
                "SERVICE_BINDING_MY_DB_DATABASE": "<database>",
                "SERVICE_BINDING_MY_DB_USERNAME": "<username>",
                "SERVICE_BINDING_MY_DB_PASSWORD": "<password>",
                "ConnectionStrings__Shop": (
                    'Host="$(SERVICE_BINDING_MY_DB_HOST)";Port="$(SERVICE_BINDING_MY_DB_PORT)";'
                    'Database="$(SERVICE_BINDING_MY_DB_DATABASE)";'
                    'Username="$(SERVICE_BINDING_MY_DB_USERNAME)";'
                    'Password="$(SERVICE_BINDING_MY_DB_PASSWORD)";'
                    'SSL Mode=VerifyFull;Root Certificate="/bindings/db/ca.crt"'
                ),
            },
            id="npgsql",
        ),
        pytest.param(
            "npgsql",
            {"host": "h", "password": 'a";b'},
            {
                "SERVICE_BINDING_MY_DB_HOST": "<host>",
                "SERVICE_BINDING_MY_DB_PASSWORD": "<password>",
                "ConnectionStrings__DefaultConnection": (
                    'Host="$(SERVICE_BINDING_MY_DB_HOST)";'
                    "Password='$(SERVICE_BINDING_MY_DB_PASSWORD)'"
                ),
            },
            id="npgsql: a double quote within single ones, and no CA",
        ),
    ],
)
def test_variables_of_a_client(
    client: str, entries: dict[str, str], expected: dict[str, str]
) -> None:
    assert variables(client, entries) == expected


PEM: dict[str, Any] = {
    "tls.crt": "-----BEGIN CERTIFICATE-----",
    "tls.key": "-----BEGIN PRIVATE KEY-----",
}
PKCS8, PKCS1 = "\x30\x2e\x02\x01\x00\x30\x05", "\x30\x2e\x02\x01\x00\x02\x08"


@pytest.mark.parametrize(
    ("client", "entries", "mode", "end"),
    [
        pytest.param("libpq", PEM, 0o440, "/bindings/db/tls.key", id="libpq"),
        pytest.param("libpq", PEM, 0o640, "/bindings/db/tls.key", id="libpq: 0640"),
        *(
            pytest.param("libpq", PEM, mode, "/bindings/db/ca.crt", id=f"libpq: mode {mode}")
            for mode in (None, 0o444, 0o660, 0o650)
        ),
        pytest.param(
            "libpq", {"tls.key": "x"}, 0o400, "/bindings/db/ca.crt", id="libpq: no certificate"
        ),
        pytest.param("libpq", {"tls.crt": "x"}, 0o400, "/bindings/db/ca.crt", id="libpq: no key"),
        pytest.param(
            "url",
            PEM,
            0o440,
            "ca.crt&sslcert=/bindings/db/tls.crt&sslkey=/bindings/db/tls.key",
            id="url",
        ),
        pytest.param("url", PEM, None, "=/bindings/db/ca.crt", id="url: no mode"),
        pytest.param(
            "npgsql",
            PEM,
            0o440,
            ';SSL Certificate="/bindings/db/tls.crt";SSL Key="/bindings/db/tls.key"',
            id="npgsql",
        ),
        pytest.param("jdbc", PEM, 0o440, "=/bindings/db/ca.crt", id="jdbc: it reads no PEM"),
        pytest.param(
            "jdbc",
            PEM | {"key.der": PKCS8},
            0o440,
            "&sslcert=/bindings/db/tls.crt&sslkey=/bindings/db/key.der",
            id="jdbc: DER",
        ),
        pytest.param(
            "jdbc", PEM | {"key.der": PKCS1}, 0o440, "=/bindings/db/ca.crt", id="jdbc: PKCS-1"
        ),
        pytest.param(
            "jdbc",
            PEM | {"key.der": PKCS1, "tls.pk8": PKCS8},
            0o440,
            "&sslkey=/bindings/db/tls.pk8",
            id="jdbc: another key of it",
        ),
    ],
)
def test_a_certificate_has_variables_where_nobody_else_reads_its_key(
    client: str, entries: dict[str, str], mode: int | None, end: str
) -> None:
    *_, text = variables(client, LOGIN | entries, mode=mode).values()
    assert text.endswith(end)


def test_a_certificate_without_a_ca() -> None:
    entries = without("ca.crt") | PEM
    found = variables("libpq", entries, mode=0o400)
    assert "PGSSLROOTCERT" not in found
    assert found["PGSSLCERT"] == "/bindings/db/tls.crt"
    url = variables("url", entries, mode=0o400)["DATABASE_URL"]
    assert url.startswith("$(SERVICE_BINDING_MY_DB_URI)&sslcert=/bindings/db/tls.crt&sslkey=")
    with pytest.raises(UnsuitableEntriesError, match="no query to which sslcert could be added"):
        variables("url", entries | {"uri": "postgresql://db"}, mode=0o400)
    with pytest.raises(UnsuitableEntriesError, match="already has an sslkey"):
        variables("url", entries | {"uri": "postgresql://db?sslkey=/k"}, mode=0o400)


@pytest.mark.parametrize(
    ("client", "env", "expected"),
    [
        pytest.param(
            "url",
            [("SHOP_URL", "uri"), ("COPY", "uri"), ("HOST", "host")],
            URI | {"SHOP_URL": WITH_CA, "COPY": WITH_CA},
            id="names of the URI's variables, in the place of the default",
        ),
        pytest.param(
            "url=B",
            [("A", "uri")],
            URI | {"B": WITH_CA},
            id="a name of the annotation counts alone",
        ),
        pytest.param("url=A", [("A", "uri")], URI | {"A": WITH_CA}, id="the same name"),
        pytest.param("libpq", [("PGHOST", "host")], LIBPQ, id="what the client does anyway"),
    ],
)
def test_variables_of_the_spec_beside_a_client(
    client: str, env: list[tuple[str, str]], expected: dict[str, str]
) -> None:
    assert variables(client, LOGIN, env) == expected


@pytest.mark.parametrize(
    ("client", "entries", "env", "lacking", "text"),
    [
        pytest.param("libpq", without("host"), [], True, "needs entry 'host'", id="no host"),
        pytest.param("npgsql", without("host"), [], True, "needs entry 'host'", id="npgsql"),
        pytest.param("url", without("uri"), [], True, "needs entry 'uri'", id="no uri"),
        pytest.param("jdbc", without("jdbc-uri"), [], True, "entry 'jdbc-uri'", id="no jdbc-uri"),
        pytest.param(
            "url",
            LOGIN | {"uri": "postgresql://app:secret@db/shop"},
            [],
            False,
            r"'uri' of the binding has no query.*\?sslmode=verify-full, or use libpq",
            id="a URI without a query",
        ),
        pytest.param(
            "jdbc",
            LOGIN | {"jdbc-uri": "jdbc:postgresql://db/secret"},
            [],
            False,
            "'jdbc-uri' of the binding has no query",
            id="a jdbc-uri without a query",
        ),
        pytest.param(
            "url",
            LOGIN | {"uri": "mysql://db/secret?x=y"},
            [],
            False,
            "does not begin with postgresql:// or postgres://",
            id="another system's URI",
        ),
        pytest.param(
            "url",
            LOGIN | {"uri": "postgresql://secret?sslmode=verify-ca&sslrootcert=system"},
            [],
            False,
            "already has an sslrootcert",
            id="a URI with a CA",
        ),
        pytest.param(
            "npgsql",
            LOGIN | {"password": "secret\"'"},
            [],
            False,
            "entry 'password' contains both kinds of quotes",
            id="both quotes in a value",
        ),
        pytest.param(
            "npgsql",
            LOGIN | {"sslmode": "secret"},
            [],
            False,
            "entry 'sslmode' of the binding is not one of disable, allow",
            id="an unknown mode",
        ),
        pytest.param(
            "libpq",
            LOGIN,
            [("PGHOST", "port")],
            False,
            "spec.env has PGHOST, which is a variable of libpq",
            id="spec.env has another meaning",
        ),
        pytest.param(
            "url",
            LOGIN,
            [("DATABASE_URL", "jdbc-uri")],
            False,
            "spec.env has DATABASE_URL",
            id="spec.env has another entry there",
        ),
        pytest.param(
            "url=SERVICE_BINDING_MY_DB_URI",
            LOGIN,
            [],
            False,
            "SERVICE_BINDING_MY_DB_URI is a variable that reads an entry",
            id="a name that refers to itself",
        ),
        pytest.param(
            "libpq",
            LOGIN,
            [("PGSSLROOTCERT", "ca.crt")],
            False,
            "spec.env has PGSSLROOTCERT",
            id="spec.env has the CA itself",
        ),
    ],
)
def test_entries_that_do_not_suit_a_client(
    client: str, entries: dict[str, str], env: list[tuple[str, str]], lacking: bool, text: str
) -> None:
    with pytest.raises(UnsuitableEntriesError, match=text) as error:
        variables(client, entries, env)
    assert error.value.lacking is lacking
    assert "secret" not in str(error.value)
    assert str(error.value).startswith(f"{CLIENT}: ")


@pytest.mark.parametrize(
    ("client", "directory", "expected"),
    [
        pytest.param("url", "/a b&c?#%/db", "=/a%20b%26c%3F%23%25/db/ca.crt", id="url: encoded"),
        pytest.param("libpq", "/a b/db", "/a b/db/ca.crt", id="libpq: as it is"),
        pytest.param("npgsql", '/a";b/db', "='/a\";b/db/ca.crt'", id="npgsql: in other quotes"),
    ],
)
def test_paths_with_signs_that_mean_something_in_a_text(
    client: str, directory: str, expected: str
) -> None:
    *_, text = variables(client, LOGIN, directory=directory).values()
    assert text.endswith(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("libpq", DatabaseClient("libpq"), id="libpq"),
        pytest.param("jdbc=JDBC_URL", DatabaseClient("jdbc", "JDBC_URL"), id="with a name"),
        pytest.param(
            "url=a.b-c", DatabaseClient("url", "a.b-c"), id="signs that Kubernetes allows"
        ),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_value_of_the_annotation(value: str, expected: DatabaseClient | None) -> None:
    assert read_wishes({CLIENT: value}).client == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(
            pytest.param(value, "it can be libpq, url, jdbc, npgsql", id=f"unknown: {value}")
            for value in ("pgx", "LIBPQ", " url", "url,jdbc", "=X")
        ),
        pytest.param("libpq=X", "reads only variables with its own names", id="libpq with a name"),
        *(
            pytest.param(f"url={name}", "give the name of a variable after =", id=f"name {name!r}")
            for name in ("", "1A", "A B", "A=B", "$(A)", "SERVICE_BINDING_ROOT", "A\n")
        ),
    ],
)
def test_a_value_of_the_annotation_that_is_none(value: str, text: str) -> None:
    body = spec_binding(annotations={CLIENT: value})
    with pytest.raises(InvalidBinding, match=f"{CLIENT} is .*{text}"):
        SpecContext(object_from_dict(body), Snapshot(FakeCluster()))


def bound(
    client: str,
    *objects: JSON,
    binding: JSON | None = None,
    login: Any = LOGIN,
    mode: str = "",
) -> tuple[FakeCluster, JSON]:
    made = binding or spec_binding(service=SECRET_SERVICE)
    made["metadata"]["annotations"] = {CLIENT: client} | ({MODE: mode} if mode else {})
    cluster = FakeCluster(objects=[secret(**login), *(objects or [deployment()])])
    cluster.reconcile(made)
    return cluster, made


def container(cluster: FakeCluster, position: int = 0) -> JSON:
    found: JSON = pod(cluster.get("deployments", "web"))["containers"][position]
    return found


def environment(cluster: FakeCluster, position: int = 0) -> dict[str, str]:
    """The variables as a kubelet resolves them."""
    resolved: dict[str, str] = {}
    for item in container(cluster, position)["env"]:
        if "valueFrom" in item:
            assert "value" not in item
            reference = item["valueFrom"]["secretKeyRef"]
            data = cluster.get("secrets", reference["name"])["data"]
            resolved[item["name"]] = base64.b64decode(data[reference["key"]]).decode()
        else:
            resolved[item["name"]] = expand(item["value"], resolved)
    return resolved


def settled(cluster: FakeCluster, binding: JSON) -> None:
    assert conditions(binding)["Ready"] == BOUND
    assert cluster.reconcile(binding).changed_workloads() == []


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_a_container_has_the_variables_as_long_as_they_are_asked_for(coreos: bool) -> None:
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(services=[service]) if coreos else None
    cluster, binding = bound("libpq", binding=binding)
    settled(cluster, binding)
    assert environment(cluster) == {
        "SERVICE_BINDING_ROOT": "/bindings",
        "PGHOST": "db.example",
        "PGPORT": "5432",
        "PGDATABASE": "shop",
        "PGUSER": "app",
        "PGPASSWORD": PASSWORD,
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": "/bindings/sb/ca.crt",
    }
    assert PASSWORD not in str(cluster.get("deployments", "web"))
    binding["metadata"]["annotations"] = {CLIENT: "npgsql=Shop"}
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert environment(cluster)["Shop"] == (
        f'Host="db.example";Port="5432";Database="shop";Username="app";Password="{PASSWORD}";'
        'SSL Mode=VerifyFull;Root Certificate="/bindings/sb/ca.crt"'
    )
    binding["metadata"]["annotations"] = {}
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert container(cluster)["env"] == [ROOT]


@pytest.mark.parametrize("client", ["libpq", "url", "jdbc", "npgsql"])
def test_unbinding_takes_the_variables_away(client: str) -> None:
    own = {"name": "OWN", "value": "1"}
    cluster, binding = bound(client, deployment(containers=[{"name": "app", "env": [own]}]))
    settled(cluster, binding)
    deleted(binding)
    cluster.reconcile(binding)
    assert container(cluster)["env"] == [own]
    assert "annotations" not in cluster.get("deployments", "web")["metadata"]
    assert message(binding, "InjectionReady") == ""


@pytest.mark.parametrize("passes", [0, 1], ids=["deleted at once", "after a pass"])
@pytest.mark.parametrize("client", ["libpq", "url=X", "jdbc", "npgsql"])
def test_without_its_record_unbinding_takes_the_variables_away_too(
    client: str, passes: int
) -> None:
    own: list[JSON] = [
        {"name": "OWN", "value": "$(X)"},
        {"name": "MY_CA", "value": "/bindings/sb/ca.crt"},
        {"name": "MY_HOST", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "host"}}},
    ]
    web = deployment(containers=[{"name": "app", "env": [*own]}])
    cluster, binding = bound(client, web, login=LOGIN | PEM, mode="0400")
    cluster.get("deployments", "web")["metadata"]["annotations"] = {}
    for _ in range(passes):
        cluster.reconcile(binding)
        settled(cluster, binding)
    deleted(binding)
    cluster.reconcile(binding)
    assert container(cluster)["env"] == [*own, ROOT]


def test_each_container_has_the_path_below_its_own_root() -> None:
    containers: list[JSON] = [
        {"name": "a"},
        {"name": "b", "env": [{"name": "SERVICE_BINDING_ROOT", "value": "/srv/"}]},
        {"name": "c"},
    ]
    binding = spec_binding(
        service=SECRET_SERVICE, name="db", workload={"name": "web", "containers": ["a", "b"]}
    )
    cluster, binding = bound("url", deployment(containers=containers), binding=binding)
    settled(cluster, binding)
    for position, root in enumerate(("/bindings", "/srv")):
        url = environment(cluster, position)["DATABASE_URL"]
        assert url == f"{LOGIN['uri']}&sslrootcert={root}/db/ca.crt"
        assert container(cluster, position)["volumeMounts"][0]["mountPath"] == f"{root}/db"
    assert container(cluster, 2) == {"name": "c"}


def test_a_root_with_both_quotes_suits_no_connection_string() -> None:
    env = [{"name": "SERVICE_BINDING_ROOT", "value": "/a'\""}]
    cluster, binding = bound("npgsql", deployment(containers=[{"name": "app", "env": env}]))
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert "container app: " in message(binding, "Ready")
    assert "SERVICE_BINDING_ROOT contains both kinds of quotes" in message(binding, "Ready")
    assert container(cluster) == {"name": "app", "env": env}


@pytest.mark.parametrize(
    ("client", "name"),
    [("libpq", "PGSSLMODE"), ("libpq", "PGSSLROOTCERT"), ("url", "DATABASE_URL")],
)
def test_variables_of_the_workload_itself_win(client: str, name: str) -> None:
    web = deployment(containers=[{"name": "app", "env": [{"name": name, "value": "mine"}]}])
    cluster, binding = bound(client, web)
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert f"has a variable {name} that does not belong to this binding" in message(
        binding, "Ready"
    )
    assert f"{CLIENT}: url=NAME" in message(binding, "Ready")
    assert cluster.get("deployments", "web") == web


def test_a_value_that_somebody_sets_meanwhile_is_theirs() -> None:
    cluster, binding = bound("libpq")
    (path,) = (one for one in container(cluster)["env"] if one["name"] == "PGSSLROOTCERT")
    path["value"] = "/etc/ca.pem"
    cluster.reconcile(binding)
    assert "has a variable PGSSLROOTCERT that does not belong to this binding" in message(
        binding, "Ready"
    )
    deleted(binding)
    cluster.reconcile(binding)
    assert container(cluster)["env"] == [{"name": "PGSSLROOTCERT", "value": "/etc/ca.pem"}]
    assert "keeps variable PGSSLROOTCERT of container app" in message(binding, "InjectionReady")


@pytest.mark.parametrize(
    ("clients", "refused"),
    [
        pytest.param(("libpq", "libpq"), "PGHOST", id="libpq"),
        pytest.param(("url", "url"), "DATABASE_URL", id="url"),
        pytest.param(("url", "url=SHOP_URL"), "", id="url with another name"),
        pytest.param(("libpq", "url"), "", id="of several clients"),
    ],
)
def test_two_bindings_of_one_container(clients: tuple[str, str], refused: str) -> None:
    first, second = (
        spec_binding(service=SECRET_SERVICE, annotations={CLIENT: client}) for client in clients
    )
    first["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    second["metadata"] |= {
        "name": "two",
        "uid": "two",
        "creationTimestamp": "2026-02-02T00:00:00Z",
    }
    cluster = world(secret(**LOGIN), deployment(), first)
    cluster.reconcile(first)
    before = copy.deepcopy(cluster.get("deployments", "web"))
    cluster.reconcile(second)
    if not refused:
        settled(cluster, second)
        settled(cluster, first)
        return
    assert conditions(second)["InjectionReady"] == ("False", "Error")
    text = f"has a variable {refused} that belongs to ServiceBinding ns/sb of servicebinding.io"
    assert text in message(second, "Ready")
    assert cluster.get("deployments", "web") == before
    deleted(first)
    cluster.reconcile(first)
    cluster.reconcile(second)
    settled(cluster, second)
    assert refused in environment(cluster)


def test_a_variable_of_the_spec_gets_the_path_where_it_is_and_loses_it_again() -> None:
    own = {"name": "OWN", "value": "$(SHOP_URL)"}
    env = [{"name": "SHOP_URL", "key": "uri"}, {"name": "HOST", "key": "host"}]
    binding = spec_binding(service=SECRET_SERVICE, env=env)
    cluster = FakeCluster(objects=[secret(**LOGIN), deployment()])
    cluster.reconcile(binding)
    container(cluster)["env"].append(own)
    plain = copy.deepcopy(container(cluster)["env"])
    binding["metadata"]["annotations"] = {CLIENT: "url"}
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert environment(cluster)["SHOP_URL"] == f"{LOGIN['uri']}&sslrootcert=/bindings/sb/ca.crt"
    assert environment(cluster)["HOST"] == "db.example"
    binding["metadata"]["annotations"] = {}
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert sorted(map(str, container(cluster)["env"])) == sorted(map(str, plain))


def test_a_text_comes_after_the_variables_that_it_refers_to_whoever_moves_them() -> None:
    cluster, binding = bound("url")
    env = container(cluster)["env"]
    env.reverse()
    assert environment(cluster)["DATABASE_URL"].startswith("$(")
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert environment(cluster)["DATABASE_URL"].startswith(LOGIN["uri"])


def test_variables_follow_the_secret() -> None:
    cluster, binding = bound("libpq")
    del cluster.get("secrets", "s1")["data"]["ca.crt"]
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert "PGSSLROOTCERT" not in environment(cluster)


def test_variables_are_where_the_mapping_says() -> None:
    entry = {"path": ".spec.template.spec.containers[*]", "env": ".settings.env"}
    notes = mapping({"version": "*", "containers": [entry]})
    cluster, binding = bound("libpq", deployment(), notes)
    settled(cluster, binding)
    names = {one["name"] for one in container(cluster)["settings"]["env"]}
    assert "PGSSLROOTCERT" in names
    cluster.delete(notes)
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert [one["name"] for one in container(cluster)["settings"]["env"]] == [
        "SERVICE_BINDING_ROOT"
    ]
    assert "PGSSLROOTCERT" in environment(cluster)


@pytest.mark.parametrize(
    ("login", "reason", "text"),
    [
        pytest.param(without("uri"), "RequiredBindingNotFound", "needs entry 'uri'", id="lacking"),
        pytest.param(LOGIN | {"uri": "postgres://db"}, "Error", "has no query", id="no query"),
    ],
)
def test_entries_that_do_not_suit_leave_the_workload_and_are_waited_for(
    login: dict[str, str], reason: str, text: str
) -> None:
    cluster, binding = bound("url", login=login)
    assert conditions(binding)["InjectionReady"] == ("False", reason)
    assert conditions(binding)["Ready"] == ("False", "ProcessingError")
    assert text in message(binding, "InjectionReady")
    assert cluster.get("deployments", "web") == deployment()
    cluster.set(secret(**LOGIN))
    cluster.reconcile(binding)
    settled(cluster, binding)


def test_without_files_the_ca_has_no_path() -> None:
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(services=[service], bindAsFiles=False, namingStrategy="none")
    cluster, binding = bound("libpq", binding=binding)
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert "without files the CA has no path: set spec.bindAsFiles" in message(binding, "Ready")
    cluster.set(secret(**without("ca.crt")))
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert [one["name"] for one in container(cluster)["env"]][:2] == ["PGHOST", "PGPORT"]
    edited(binding, bindAsFiles=True)
    cluster.set(secret(**LOGIN))
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert environment(cluster)["PGSSLROOTCERT"] == "/bindings/sb/ca.crt"


def test_without_the_annotation_nothing_changes() -> None:
    cluster = FakeCluster(objects=[secret(**LOGIN), deployment()])
    binding = spec_binding(service=SECRET_SERVICE)
    cluster.reconcile(binding)
    assert container(cluster)["env"] == [ROOT]


def test_a_key_that_others_may_read_changes_nothing_and_the_binding_says_so() -> None:
    cluster, binding = bound("libpq")
    before = copy.deepcopy(cluster.get("deployments", "web"))
    cluster.set(secret(**LOGIN, **PEM))
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert cluster.get("deployments", "web") == before
    text = "clients get no tls.crt and tls.key while others may read the key: set annotation "
    assert f'{text}{MODE} to "0440", and' in message(binding, "InjectionReady")
    binding["metadata"]["annotations"] |= {MODE: "0440"}
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert environment(cluster)["PGSSLKEY"] == "/bindings/sb/tls.key"
    assert message(binding, "InjectionReady") == ""
    del binding["metadata"]["annotations"][MODE]
    cluster.reconcile(binding)
    settled(cluster, binding)
    assert {"PGSSLCERT", "PGSSLKEY"}.isdisjoint(environment(cluster))


@pytest.mark.parametrize("mode", ["", "0440"])
def test_without_files_a_key_has_no_path(mode: str) -> None:
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(services=[service], bindAsFiles=False, namingStrategy="none")
    login = without("ca.crt") | PEM
    cluster, binding = bound("libpq", binding=binding, login=login, mode=mode)
    settled(cluster, binding)
    assert "PGSSLKEY" not in environment(cluster)
    assert message(binding, "InjectionReady") == ""


def test_a_login_and_its_certificate_from_two_secrets() -> None:
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": name} for name in ("s1", "s2")
    ]
    certificate = secret("s2", **PEM)
    key = PKCS8.encode() + b"\xff\xfe"
    certificate["data"]["key.der"] = base64.b64encode(key).decode()
    cluster, binding = bound(
        "jdbc", certificate, deployment(), binding=coreos_binding(services=services), mode="0440"
    )
    settled(cluster, binding)
    url = environment(cluster)["SPRING_DATASOURCE_URL"]
    assert url.endswith("&sslcert=/bindings/sb/tls.crt&sslkey=/bindings/sb/key.der")
