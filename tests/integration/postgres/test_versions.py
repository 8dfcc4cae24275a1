"""Older servers, whose rules for common administrators differ, and servers that speak TLS."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import psycopg
import pytest
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    cleanup,
    endpoint_of,
    grant,
    login,
    privileges,
    roles,
    run,
    sweep,
    sync,
    wanted,
)
from tests.support.pki import Authority
from tests.support.servers import Servers, certify, embedded, started
from tests.support.stale import StaleServer
from tests.support.tiers import VERSIONS

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import PostgresAccess, PostgresAccessSpec, Uris
from fairlead.api.postgresaccess.connection import Connection
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.controllers.rules.login_secret import secret_values
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


@pytest.fixture(params=VERSIONS[:-1])
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture
async def older(server: EmbeddedPostgres) -> AsyncIterator[EmbeddedPostgres]:
    yield server
    await sweep(server)


@pytest.mark.differs("version")
async def test_an_older_server(older: EmbeddedPostgres) -> None:
    endpoint = endpoint_of(older)
    await run(
        older,
        "postgres",
        "CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'",
        "CREATE DATABASE d OWNER modest",
    )
    await run(older, "d", "SET ROLE modest", "CREATE SCHEMA s", "CREATE TABLE s.t (id int)")
    modest = replace(endpoint, username="modest", password="modest")
    for admin in (endpoint, modest):
        access = wanted("app", grant("d", "CONNECT", "SELECT", "CREATE", "MAINTAIN", schema="s"))
        result = await sync(admin, access)
        assert [problem.reason for problem in result.problems] == ["UnsupportedPrivilege"]
        assert await can_login(older, "app", PASSWORD)
        assert ("t", "SELECT") in await privileges(older, "d", "app")
        before = await roles(older)
        assert not (await sync(admin, access)).changed
        assert await roles(older) == before
        async with await login(older, "app", PASSWORD, "d") as session:
            await session.execute("CREATE TABLE s.mine (id int)")
        with pytest.raises(AccessError, match="OwnsObjects"):
            await cleanup(admin, "app", claim(), "Restrict")
        await cleanup(admin, "app", claim(), "Cascade")
        assert "app" not in {name for name, *_ in await roles(older)}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("databases")


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[EmbeddedPostgres]:
    yield from _encrypted(authority)


@pytest.fixture
def impostor() -> Iterator[EmbeddedPostgres]:
    """A server at the same address with the certificate of a foreign CA."""
    yield from _encrypted(Authority.create("strangers"))


def _encrypted(authority: Authority) -> Iterator[EmbeddedPostgres]:
    for server in started(embedded(15)):
        data = server.folder / "data"
        certify(server, authority, host="127.0.0.1")
        (data / "pg_hba.conf").write_text(_HBA)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE certified LOGIN SUPERUSER")
            connection.execute("CREATE ROLE twice LOGIN SUPERUSER PASSWORD 'twice'")
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
            connection.execute("SELECT pg_reload_conf()")
        yield server


_HBA = """
hostssl all certified 127.0.0.1/32 cert
hostssl all twice     127.0.0.1/32 scram-sha-256 clientcert=verify-ca
host    all twice     127.0.0.1/32 reject
host    all all       127.0.0.1/32 scram-sha-256
"""


@pytest.mark.parametrize(
    ("host", "mode", "trusted", "failure"),
    [
        pytest.param("127.0.0.1", "verify-full", True, "", id="verify-full"),
        pytest.param("127.0.0.1", "verify-ca", True, "", id="verify-ca"),
        pytest.param("127.0.0.1", "require", False, "", id="require-does-not-verify"),
        pytest.param("127.0.0.1", "prefer", False, "", id="prefer"),
        pytest.param(
            "127.0.0.1",
            "verify-full",
            False,
            "databases has issued it, while this client trusts the authorities of this machine",
            id="system-roots-do-not-know-it",
        ),
        pytest.param(
            "localhost",
            "verify-full",
            True,
            "not valid for 'localhost'.; check caSecretRef and host",
            id="another-host-name",
        ),
    ],
)
async def test_tls(
    encrypted: EmbeddedPostgres,
    authority: Authority,
    host: str,
    mode: str,
    trusted: bool,
    failure: str,
) -> None:
    endpoint = replace(
        endpoint_of(encrypted),
        host=host,
        ssl_mode=mode,
        ca=authority.pem.decode() if trusted else "",
    )
    if failure:
        with pytest.raises(AccessError, match=f"TLSFailed: .*{failure}"):
            async with connect(endpoint, "postgres"):
                pass
        return
    async with connect(endpoint, "postgres") as session:
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await session.rows(psycopg.sql.SQL(query)) == [(True,)]


async def test_a_statement_on_a_verified_connection_is_cancelled_at_the_server(
    encrypted: EmbeddedPostgres, authority: Authority
) -> None:
    endpoint = replace(endpoint_of(encrypted), ssl_mode="verify-full", ca=authority.pem.decode())
    async with connect(endpoint, "postgres") as session:
        # libpq opens another connection for it, which verifies the server again.
        await session._connection.cancel_safe()


async def test_the_uri_of_a_secret_logs_in_with_the_ca_and_nowhere_without(
    encrypted: EmbeddedPostgres,
    impostor: EmbeddedPostgres,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    access = PostgresAccessSpec(generated_secret="login", username="app", connection=Connection())
    entries, uris = {}, {}
    for server in (encrypted, impostor):
        await run(server, "postgres", f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
        endpoint = replace(endpoint_of(server), ssl_mode="verify-full", ca=authority.pem.decode())
        for form in get_args(Uris):
            values = secret_values(access, endpoint, PASSWORD, uris=form)
            uris[server, form] = values.entries["uri"]
        entries[server] = values.entries
    # The Secret as a volume: the name of the file is that of a key.
    folder = tmp_path / "binding"
    folder.mkdir()
    for key in ("ca.crt", "sslrootcert"):
        (folder / key).write_text(entries[encrypted][key])
    ca = str(folder / (folder / "sslrootcert").read_text())

    async def logs_in(server: EmbeddedPostgres, form: str, **more: Any) -> str:
        try:
            async with await psycopg.AsyncConnection.connect(uris[server, form], **more):
                return "yes"
        except psycopg.OperationalError as error:
            return str(error)

    assert await logs_in(encrypted, "Verified", sslrootcert=ca) == "yes"
    assert "root certificate file" in await logs_in(encrypted, "Verified")
    assert "certificate verify failed" in await logs_in(impostor, "Verified", sslrootcert=ca)
    assert "root certificate file" in await logs_in(impostor, "Verified")
    # What former versions wrote logs in anywhere.
    assert await logs_in(impostor, "Plain") == "yes"
    await run(encrypted, "postgres", "DROP ROLE app")


def stored(name: str, namespace: str = "team", **data: str | bytes) -> Object:
    plain = {
        key.replace("_", "."): value if isinstance(value, bytes) else value.encode()
        for key, value in data.items()
    }
    return object_from_dict(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
            "data": {key: base64.b64encode(value).decode() for key, value in plain.items()},
        }
    )


async def found_endpoint(connection: JSON, *objects: Object) -> Endpoint:
    """What the operator makes of a connection, with these objects in the cluster."""
    access = msgspec.convert(
        {
            "metadata": {"name": "app", "namespace": "team"},
            "spec": {
                "username": "app",
                "generatedSecret": "login",
                "connection": connection,
                "grants": [],
            },
        },
        PostgresAccess,
    )
    sources = EndpointSources(StaleServer({}, objects).client, Settings(PostgresOptions()))
    return await sources.endpoint(access, enforce=False)


def ways(server: EmbeddedPostgres, username: str, password: str, tls: JSON) -> dict[str, JSON]:
    """The same server by each of the ways, as a connection and what is in the cluster for it."""
    address = {"host": server.host, "port": str(server.port)}
    login = {"username": username} | ({"password": password} if password else {})
    profile = {
        "kind": "PostgresServer",
        "metadata": {"name": "main", "uid": "u"},
        "spec": {
            **address,
            "port": server.port,
            "credentialsSecretRef": {"name": "admin"},
            "allowedNamespaces": {},
            "allowedDatabases": ["*"],
            **tls,
        },
    }
    return {
        "serverRef": {
            "connection": {"serverRef": {"name": "main"}},
            "objects": [object_from_dict(profile), stored("admin", DEFAULT_NAMESPACE, **login)],
        },
        "existingSecret": {
            "connection": {"existingSecret": "admin", **tls},
            "objects": [stored("admin", **address, **login)],
        },
        "written out": {
            "connection": {
                **{name: {"value": value} for name, value in login.items()},
                "host": server.host,
                "port": server.port,
                **tls,
            },
            "objects": [],
        },
    }


_REFUSED = "TLSFailed: no trusted TLS connection to .*: its certificate was refused: .*; databases"
_BY_SYSTEM = f"{_REFUSED} has issued it, while this client trusts the authorities of this machine"
_BY_OTHER = f"{_REFUSED} has issued it, while this client trusts strangers: check caSecretRef"


@pytest.mark.parametrize("way", ["serverRef", "existingSecret", "written out"])
@pytest.mark.parametrize(
    ("username", "password", "tls", "failure"),
    [
        pytest.param("postgres", "*", {}, "", id="verified"),
        pytest.param("postgres", "*", {"sslMode": "verify-full"}, "", id="verify-full"),
        pytest.param("postgres", "*", {"caSecretRef": None}, _BY_SYSTEM, id="by-the-system"),
        pytest.param(
            "postgres", "*", {"caSecretRef": {"name": "other"}}, _BY_OTHER, id="by-another-ca"
        ),
        pytest.param(
            "certified", "", {"clientCertificateSecretRef": {"name": "mine"}}, "", id="certificate"
        ),
        pytest.param(
            "twice", "twice", {"clientCertificateSecretRef": {"name": "mine"}}, "", id="both"
        ),
        pytest.param(
            "certified",
            "nobody asks for it",
            {"clientCertificateSecretRef": {"name": "mine"}},
            "",
            id="certificate-and-a-password-that-nobody-asks-for",
        ),
        pytest.param("twice", "twice", {}, "TLSFailed", id="certificate-missing"),
        pytest.param(
            "twice",
            "twice",
            {"clientCertificateSecretRef": {"name": "strange"}},
            "TLSFailed",
            id="certificate-of-another-ca",
        ),
    ],
)
async def test_certificates(
    encrypted: EmbeddedPostgres,
    authority: Authority,
    way: str,
    username: str,
    password: str,
    tls: JSON,
    failure: str,
) -> None:
    """verify-full is the default where a CA is given; without one the system's are asked."""
    password = encrypted.password if password == "*" else password
    given = {"caSecretRef": {"name": "ca"}, **tls}
    if given["caSecretRef"] is None:
        given = {"sslMode": "verify-ca"}
    found = ways(encrypted, username, password, given)[way]
    namespace = DEFAULT_NAMESPACE if way == "serverRef" else "team"
    stranger = Authority.create("strangers")
    mine, strange = (one.issue("certified", hosts=("app",)) for one in (authority, stranger))
    endpoint = await found_endpoint(
        found["connection"],
        *found["objects"],
        stored("ca", namespace, ca_crt=authority.pem),
        stored("other", namespace, ca_crt=stranger.pem),
        stored("mine", namespace, tls_crt=mine.certificate, tls_key=mine.key),
        stored("strange", namespace, tls_crt=strange.certificate, tls_key=strange.key),
    )
    assert endpoint.ssl_mode.startswith("verify-")
    assert "PRIVATE" not in repr(endpoint)
    if failure:
        # Of a tenant's own connection nobody is told whether something else listens there.
        failure = "ConnectionFailed: no connection to a Pos" if endpoint.discreet else failure
        with pytest.raises(AccessError, match=failure) as caught:
            async with connect(endpoint, "postgres"):
                pass
        assert ("databases" in str(caught.value)) is failure.startswith("TLSFailed: ")
        return
    async with connect(endpoint, "postgres") as session:
        query = "SELECT ssl, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ((encrypted_, subject),) = await session.rows(psycopg.sql.SQL(query))
        assert encrypted_
        assert (subject == "/CN=certified") is ("clientCertificateSecretRef" in tls)


async def test_a_certificate_takes_the_password_s_place_only_where_the_server_is_verified(
    authority: Authority,
) -> None:
    pair = authority.issue("certified", hosts=("app",))
    connection = {
        "host": "db",
        "username": {"value": "certified"},
        "clientCertificateSecretRef": {"name": "mine"},
        "sslMode": "require",
    }
    mine = stored("mine", tls_crt=pair.certificate, tls_key=pair.key)
    with pytest.raises(AccessError, match=r"spec\.connection\.password is missing"):
        await found_endpoint(connection, mine)


@pytest.mark.parametrize("mode", ["allow", "prefer"])
async def test_a_server_without_tls_where_none_is_asked_for(
    postgres: EmbeddedPostgres, mode: str
) -> None:
    async with connect(replace(endpoint_of(postgres), ssl_mode=mode), "postgres") as session:
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await session.rows(psycopg.sql.SQL(query)) == [(False,)]


async def test_a_server_that_lets_in_by_tls_alone_where_it_is_allowed(
    encrypted: EmbeddedPostgres, authority: Authority
) -> None:
    mine = authority.issue("twice", hosts=("app",))
    endpoint = replace(
        endpoint_of(encrypted, "twice", "twice"),
        ssl_mode="allow",
        certificate=mine.certificate.decode(),
        key=mine.key.decode(),
    )
    async with connect(endpoint, "postgres") as session:
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await session.rows(psycopg.sql.SQL(query)) == [(True,)]


async def test_a_server_without_tls_is_refused_by_default(postgres: EmbeddedPostgres) -> None:
    endpoint = replace(endpoint_of(postgres), ssl_mode="require")
    with pytest.raises(AccessError, match="TLSFailed"):
        async with connect(endpoint, "postgres"):
            pass
