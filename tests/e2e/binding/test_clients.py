"""Clients of PostgreSQL with the variables of a binding, and with the CA that it leads them to."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import psycopg
import pytest
from tests.support.binding import Team, bind, encoded, pod, running
from tests.support.pki import Authority
from tests.support.servers import certify, embedded, started

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client
from fairlead.demo.pods.runner import RunResult, run_workload
from fairlead.demo.postgres.server import EmbeddedPostgres


CLIENT = "servicebinding.io/client"
PASSWORD = "$(PGHOST);p&=/w"
CONNECT = """
import os, psycopg
text = os.environ.get("DATABASE_URL", "")
with psycopg.connect(text) as connection:
    query = "SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    print(*connection.execute(query).fetchone())
"""


@pytest.fixture
async def working(team: Team, admin: Client) -> AsyncIterator[Team]:
    async with running(admin):
        yield team


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("databases")


def encrypting(authority: Authority) -> Iterator[EmbeddedPostgres]:
    """A server whose certificate this authority has issued, with the app's role."""
    for server in started(embedded(15)):
        certify(server, authority)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[EmbeddedPostgres]:
    yield from encrypting(authority)


@pytest.fixture(scope="module")
def impostor() -> Iterator[EmbeddedPostgres]:
    """It lets the app in with the same password, but another authority vouches for it."""
    yield from encrypting(Authority.create("another"))


def login(server: EmbeddedPostgres, authority: Authority) -> dict[str, str]:
    """The entries of a Secret, as PostgresAccess generates them."""
    place = f"{server.host}:{server.port}/postgres"
    return encoded(
        **{
            "type": "postgresql",
            "host": server.host,
            "port": str(server.port),
            "database": "postgres",
            "username": "app",
            "password": PASSWORD,
            "sslmode": "verify-full",
            "uri": f"postgresql://app:{quote(PASSWORD, safe='')}@{place}?sslmode=verify-full",
            "ca.crt": authority.pem.decode(),
        }
    )


async def connect(team: Team) -> RunResult:
    """Let the app connect, with the environment and the files that a kubelet gives it."""
    command = [sys.executable, "-c", CONNECT]
    return await run_workload(
        team.admin, DEPLOYMENTS, team.namespace, "web", command=command, capture=True
    )


@pytest.mark.parametrize("client", ["libpq", "url"])
async def test_psycopg_verifies_the_server_and_refuses_an_impostor(
    client: str,
    working: Team,
    server: EmbeddedPostgres,
    impostor: EmbeddedPostgres,
    authority: Authority,
) -> None:
    await working.deployment("web")
    await working.patch(SECRETS, "login", {"data": login(server, authority)})
    await working.create(SERVICEBINDINGS, "db", spec=bind())
    await working.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": {CLIENT: client}}})
    await working.when(DEPLOYMENTS, "web", lambda body: "/bindings/db/ca.crt" in str(body))
    result = await connect(working)
    assert result == RunResult(0, "app True\n")

    await working.patch(SECRETS, "login", {"data": login(impostor, authority)})
    result = await connect(working)
    assert result.exit_code == 1
    assert "certificate verify failed" in result.output


def variables(body: JSON) -> list[JSON]:
    found: list[JSON] = pod(body)["containers"][0].get("env") or []
    return found


def names(body: JSON) -> list[str]:
    return [variable["name"] for variable in variables(body)]


def in_order(body: JSON) -> bool:
    """Whether the URI of the Secret is there before it is referred to."""
    there = names(body)
    return there.index("SERVICE_BINDING_DB_URI") < there.index("DATABASE_URL")


async def test_variables_stay_beside_those_of_others_and_go_with_the_annotation(
    working: Team,
) -> None:
    uri = "postgresql://db/shop?sslmode=verify-full"
    await working.patch(SECRETS, "login", {"data": encoded(**{"uri": uri, "ca.crt": "CA"})})
    own = {"name": "OWN", "value": "$(DATABASE_URL)"}
    body: JSON = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": working.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app", "env": [own]}]},
            },
        },
    }
    await working.admin.apply(DEPLOYMENTS, body, field_manager="team")
    await working.create(SERVICEBINDINGS, "db", spec=bind())
    annotate = {"metadata": {"annotations": {CLIENT: "url"}}}
    await working.patch(SERVICEBINDINGS, "db", annotate)
    bound = await working.when(DEPLOYMENTS, "web", lambda body: "DATABASE_URL" in names(body))
    assert in_order(bound)

    # The team applies more of its own, without what the binding has added.
    container = pod(body)["containers"][0]
    container["env"] = [{"name": "MORE", "value": "1"}, own]
    await working.admin.apply(DEPLOYMENTS, body, field_manager="team")
    await working.says("db", "Ready", "True", "ApplicationsBound")
    more = await working.when(DEPLOYMENTS, "web", lambda body: "MORE" in names(body))
    assert in_order(more)
    mine = {"SERVICE_BINDING_ROOT", "SERVICE_BINDING_DB_URI", "DATABASE_URL"}
    assert {*names(more)} == {"OWN", "MORE", *mine}

    wrong = {"metadata": {"annotations": {CLIENT: "pgx"}}}
    await working.patch(SERVICEBINDINGS, "db", wrong)
    text = "it can be libpq, url, jdbc, npgsql"
    await working.says("db", "Ready", "False", "ProcessingError", text=text)
    await working.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": {CLIENT: None}}})
    plain = await working.when(DEPLOYMENTS, "web", lambda body: "DATABASE_URL" not in names(body))
    assert sorted(names(plain)) == ["MORE", "OWN", "SERVICE_BINDING_ROOT"]


async def test_the_operators_own_api_has_the_annotation_too(working: Team) -> None:
    await working.deployment("web")
    await working.patch(SECRETS, "login", {"data": encoded(**{"ca.crt": "CA"})})
    application = {"group": "apps", "version": "v1", "resource": "deployments", "name": "web"}
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "login"}
    asked: JSON = {"services": [service], "application": application}
    await working.create(COREOS_SERVICEBINDINGS, "db", spec=asked)
    annotate = {"metadata": {"annotations": {CLIENT: "libpq"}}}
    await working.patch(COREOS_SERVICEBINDINGS, "db", annotate)
    bound = await working.when(DEPLOYMENTS, "web", lambda body: "PGSSLROOTCERT" in str(body))
    assert {"name": "PGSSLROOTCERT", "value": "/bindings/db/ca.crt"} in variables(bound)
    await working.delete(COREOS_SERVICEBINDINGS, "db")
    await working.when(COREOS_SERVICEBINDINGS, "db", lambda found: not found)
    left = (await working.admin.get(DEPLOYMENTS, "web", working.namespace)).to_dict()
    # The root goes with the binding, which has added it for the path of the CA.
    assert names(left) == []
