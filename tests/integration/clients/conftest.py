"""A PostgreSQL with TLS, two impostors, and the login and the environment that an app gets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from tests.support.pki import Authority
from tests.support.servers import certify, debian, started

from fairlead.api.postgresaccess import Grant, PostgresAccessSpec
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.servicebinding.wishes import CLIENT_ANNOTATION, read_wishes
from fairlead.binding.services.clients import client_variables
from fairlead.demo.pods.runner import expand
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.controllers.rules.login_secret import LoginValues, content, secret_values
from fairlead.postgres.database.connections.endpoint import Endpoint


BINDING = "orders"
PASSWORD = "p&ss=w/rd 100%"
"""The password of the app, which no URI has as it is."""

MODE = 0o400
"""The mode of the files of a binding with a key."""

_HBA = """
hostssl all certified 127.0.0.1/32 cert
hostssl all app       127.0.0.1/32 scram-sha-256
host    all postgres  127.0.0.1/32 scram-sha-256
"""
_IMPOSTOR_HBA = "host all all 127.0.0.1/32 trust\n"
"""An impostor lets everybody in, so that whoever does not verify it has a session."""


class Databases(NamedTuple):
    """Two servers at 127.0.0.1 with a certificate for ``localhost``.

    ``authority``, the private CA, issued that of ``genuine``, and another CA that of ``stranger``.
    """

    genuine: EmbeddedPostgres
    stranger: EmbeddedPostgres
    authority: Authority


@contextmanager
def _encrypted(authority: Authority, hba: str) -> Iterator[EmbeddedPostgres]:
    """Run a server whose certificate is of this authority, and those of its clients as well."""
    install = debian(15)
    if install is None:
        pytest.skip("Debian's PostgreSQL 15 is not installed")
    for server in started(EmbeddedPostgres(version=15, install=install)):
        data = server.folder / "data"
        certify(server, authority, host="localhost")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE certified LOGIN")
            connection.execute(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
            (data / "pg_hba.conf").write_text(hba)
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    authority, another = Authority.create("databases"), Authority.create("another")
    with (
        _encrypted(authority, _HBA) as genuine,
        _encrypted(another, _IMPOSTOR_HBA) as stranger,
    ):
        yield Databases(genuine, stranger, authority)


class App(NamedTuple):
    """An app with a binding: its environment, with an empty home, and the binding's files."""

    environment: dict[str, str]
    files: Path


def login_values(
    server: EmbeddedPostgres, authority: Authority, *, host: str, username: str
) -> LoginValues:
    """The values of a login by ``verify-full`` at a server of a private CA."""
    endpoint = Endpoint(
        host=host,
        port=server.port,
        username="postgres",
        password="",
        ssl_mode="verify-full",
        ca=authority.pem.decode(),
    )
    spec = PostgresAccessSpec(
        connection=Connection(),
        username=username,
        generated_secret="app",
        grants=[Grant(database="postgres")],
    )
    return secret_values(spec, endpoint, PASSWORD)


def bound(
    folder: Path,
    client: str,
    server: EmbeddedPostgres,
    authority: Authority,
    *,
    host: str = "localhost",
    username: str = "app",
    tls: Mapping[str, bytes] | None = None,
) -> App:
    """Give an app a login.

    Args:
        folder: of the app.
        client: the value of the annotation ``servicebinding.io/client``, "" without it.
        server: which answers.
        authority: that the app's ``ca.crt`` has.
        host: of the server, as the app is told.
        username: of the login.
        tls: further entries, with the certificate of the client and its key.
    """
    login = login_values(server, authority, host=host, username=username)
    values = {
        **{key: value.encode() for key, value in content(None, login, "").values.items()},
        **(tls or {}),
    }
    root = folder / "bindings"
    directory = root / BINDING
    directory.mkdir(parents=True)
    for key, value in values.items():
        (directory / key).write_bytes(value)
        (directory / key).chmod(MODE if tls else 0o644)
    home = folder / "home"
    home.mkdir()
    environment = {"HOME": str(home), "SERVICE_BINDING_ROOT": str(root)}
    return App({**environment, **projected(client, values, str(directory))}, directory)


def projected(client: str, entries: Mapping[str, bytes], directory: str) -> dict[str, str]:
    """The variables that a container gets, with the values that a kubelet gives them.

    The binding asks for a mode by which a key is its owner's alone.
    """
    database_client = read_wishes({CLIENT_ANNOTATION: client}).client
    environment: dict[str, str] = {}
    if database_client is not None:
        for variable in client_variables(
            database_client, entries, [], binding=BINDING, directory=directory, mode=MODE
        ):
            key, text = variable.key, variable.text
            value = entries[key].decode() if key else expand(text, environment)
            environment[variable.name] = value
    return environment


def program(name: str, client: str) -> list[str]:
    """The command of a client of another language; without it the test is skipped."""
    folder = os.environ.get("FAIRLEAD_CLIENTS", "")
    place = Path(folder) / name
    if not folder or not place.exists():
        pytest.skip(f'there is no client {name}: FAIRLEAD_CLIENTS="$(hack/clients/build)"')
    match name:
        case "node":
            return [shutil.which("node") or name, str(place / "login.js"), client]
        case "java":
            # The compiler that optimizes takes longer than a login.
            flags = ("-XX:TieredStopAtLevel=1", "-cp", f"{place}/*:{place}")
            return [shutil.which("java") or name, *flags, "Login", client]
        case _:
            return [str(place / "login"), client]
