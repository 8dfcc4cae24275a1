"""Each row of docs/how-to/tls-from-the-app.md, against a server and beside an impostor.

What the page has of an app's code stands in this module and in hack/clients, word for word.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import django
import django.db.utils
import msgspec
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from django.conf import settings
from sqlalchemy import Engine, create_engine, exc, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from tests.integration.clients.conftest import (
    BINDING,
    App,
    Databases,
    bound,
    login_values,
    program,
)
from tests.support.image import ROOT
from tests.support.pages import fences_of, objects
from tests.support.servers import debian
from tests.support.waiting import SECONDS

from fairlead.api.postgresaccess import SecretTemplate
from fairlead.postgres.controllers.rules.login_secret import check_template, content


PAGE = ROOT / "docs" / "how-to" / "tls-from-the-app.md"
CLIENTS = ROOT / "hack" / "clients"
SOURCES = (
    Path(__file__),
    *(CLIENTS / name for name in ("java/Login.java", "node/login.js", "pgx/main.go")),
)
WHO = "SELECT current_user::text"
REFUSALS = (
    psycopg.OperationalError,
    exc.OperationalError,
    django.db.utils.OperationalError,
    asyncpg.PostgresError,
    # Errors of TLS, of which asyncpg has no own.
    OSError,
    TypeError,
)


class Result(NamedTuple):
    """The role of a session, or the error of a client that has none."""

    role: str = ""
    error: str = ""


Login = Callable[[], str]
"""Logs in by the environment, and returns the role."""


def by_psycopg(connect: Callable[[], psycopg.Connection[Any]]) -> Login:
    def login() -> str:
        with connect() as connection:
            return first(connection.execute(WHO).fetchone())

    return login


def by_asyncpg(connect: Callable[[], Awaitable[Any]]) -> Login:
    async def login() -> str:
        connection = await connect()
        try:
            return str(await connection.fetchval(WHO))
        finally:
            await connection.close()

    return lambda: asyncio.run(login())


def by_sqlalchemy(create: Callable[[], Engine]) -> Login:
    def login() -> str:
        engine = create()
        try:
            with engine.connect() as connection:
                return str(connection.scalar(text(WHO)))
        finally:
            engine.dispose()

    return login


def by_async_sqlalchemy(create: Callable[[], AsyncEngine]) -> Login:
    async def login() -> str:
        engine = create()
        try:
            async with engine.connect() as connection:
                return str(await connection.scalar(text(WHO)))
        finally:
            await engine.dispose()

    return lambda: asyncio.run(login())


def by_django(database: Callable[[], dict[str, Any]]) -> Login:
    def login() -> str:
        if not settings.configured:
            # Django would close the handlers of all loggers.
            settings.configure(LOGGING_CONFIG=None)
            django.setup()
        connection = django.db.utils.ConnectionHandler({"default": database()})["default"]
        try:
            with connection.cursor() as cursor:
                cursor.execute(WHO)
                return first(cursor.fetchone())
        finally:
            connection.close()

    return login


def first(row: Any) -> str:
    return str(row[0])


LOGINS: dict[tuple[str, str], Login | tuple[str, str]] = {
    ("psycopg, psql, and all of libpq", "libpq"): by_psycopg(lambda: psycopg.connect()),  # noqa: PLW0108  as on the page
    ("psycopg", "url"): by_psycopg(lambda: psycopg.connect(os.environ["DATABASE_URL"])),
    ("asyncpg", "libpq"): by_asyncpg(lambda: asyncpg.connect()),  # noqa: PLW0108  as on the page
    ("asyncpg", "url"): by_asyncpg(lambda: asyncpg.connect(os.environ["DATABASE_URL"])),
    ("SQLAlchemy with psycopg", "libpq"): by_sqlalchemy(
        lambda: create_engine("postgresql+psycopg://")
    ),
    ("SQLAlchemy with psycopg", "url"): by_sqlalchemy(
        lambda: create_engine(
            make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
        )
    ),
    ("SQLAlchemy with asyncpg", "libpq"): by_async_sqlalchemy(
        lambda: create_async_engine("postgresql+asyncpg://")
    ),
    ("SQLAlchemy with asyncpg", "url"): by_async_sqlalchemy(
        lambda: create_async_engine(
            make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+asyncpg")
        )
    ),
    ("Django, in `DATABASES`", "libpq"): by_django(
        lambda: {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}
    ),
    ("pgx", "libpq"): ("pgx", "libpq"),
    ("pgx", "url"): ("pgx", "url"),
    ("node-postgres", "libpq"): ("node", "libpq"),
    ("node-postgres", "url"): ("node", "url"),
    ("pgjdbc; Spring Boot reads the variable by itself", "jdbc"): ("java", "jdbc"),
    ("Spring Boot with Spring Cloud Bindings", ""): ("java", "spring"),
    (
        "Quarkus, with or without its `kubernetes-service-binding`",
        "jdbc=QUARKUS_DATASOURCE_JDBC_URL",
    ): (
        "java",
        "quarkus",
    ),
    ("Quarkus with `kubernetes-service-binding`", ""): ("java", "quarkus"),
}
"""How each row logs in, by its client and annotation; programs by their name and their form."""


def table(heading: str) -> list[list[str]]:
    """The rows of the page's first table below a line, as cells without a code's quotes."""
    below = PAGE.read_text().partition(f"\n{heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert lines, heading
    rows = [line.strip("|\n").split(" | ") for line in lines[0].splitlines()]
    return [[_plain(cell.strip()) for cell in row] for row in rows[2:]]


def _plain(cell: str) -> str:
    return cell[1:-1] if re.fullmatch("`[^`]*`", cell) else cell


def each(rows: list[list[str]]) -> list[Any]:
    """The rows as parameters; those with programs of other languages are for few changes."""
    return [
        pytest.param(
            *row,
            marks=[pytest.mark.extended] if _is_program(row) else [],
            id="-".join(re.findall(r"[\w.]+", f"{row[0]} {row[1]}")),
        )
        for row in rows
    ]


def _key(client: str, annotation: str) -> tuple[str, str]:
    return (client, "" if annotation in {"none", "the files alone"} else annotation)


def _is_program(row: list[str]) -> bool:
    return isinstance(LOGINS.get(_key(row[0], row[1])), tuple)


ROWS = table("## Each client")
NOT_WORKING = table("These do not work:")
CERTIFIED = table("## Client certificates")


def attempt(login: Login | tuple[str, str], app: App, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Log in as the app does."""
    if isinstance(login, tuple):
        return run(program(*login), app)
    with monkeypatch.context() as patch:
        for name, value in app.environment.items():
            patch.setenv(name, value)
        try:
            return Result(role=login())
        except REFUSALS as error:
            return Result(error=str(error))


def run(command: list[str], app: App, **options: Any) -> Result:
    """Run a program as the app."""
    done = subprocess.run(
        command,
        env={"PATH": os.defpath, **app.environment},
        capture_output=True,
        text=True,
        # libpq 15 ends its message on an unreadable key with bytes that are no text.
        errors="replace",
        check=False,
        timeout=SECONDS,
        **options,
    )
    return Result(done.stdout.strip(), done.stderr)


def test_each_row_is_run_and_has_the_code_that_is_run() -> None:
    keys = [_key(row[0], row[1]) for row in (*ROWS, *NOT_WORKING)]
    assert sorted(keys) == sorted(LOGINS)
    sources = "".join("".join(path.read_text().split()) for path in SOURCES)
    for _, _, code, _ in ROWS:
        assert code.startswith("nothing: ") or "".join(code.split()) in sources, code


def test_the_page_names_the_versions_that_are_run() -> None:
    (sentence,) = re.findall(r"^The tests have (.*)$", PAGE.read_text(), re.MULTILINE)
    pins = {
        name.strip('"@/').rpartition("/")[2].lower().replace("_", "-"): version
        for path, pattern in (
            (ROOT / "requirements" / "dev.txt", r"^([\w-]+)==([\d.]+)"),
            (CLIENTS / "pgx" / "go.mod", r"^require \S+/(\w+)/v\d+ v([\d.]+)"),
            (CLIENTS / "node" / "package.json", r'"(pg)": "([\d.]+)"'),
            (
                CLIENTS / "java" / "pom.xml",
                r"<artifactId>(.*)</artifactId>\s*<version>(.*)</version>",
            ),
        )
        for name, version in re.findall(pattern, path.read_text(), re.MULTILINE)
    }
    names = {
        "psycopg": "psycopg",
        "asyncpg": "asyncpg",
        "SQLAlchemy": "sqlalchemy",
        "Django": "django",
        "pgx": "pgx",
        "node-postgres": "pg",
        "pgjdbc": "postgresql",
        "Spring Cloud Bindings": "spring-cloud-bindings",
        "the converter of Quarkus": "quarkus-jdbc-postgresql",
    }
    said = {name: re.findall(rf"{name} ([\d.]*\d)", sentence) for name in names}
    assert said == {
        name: [part for part in said[name] if f"{pins[package]}.".startswith(f"{part}.")]
        for name, package in names.items()
    }
    assert all(said.values())


@pytest.mark.parametrize(("client", "annotation", "code", "refusal"), each(ROWS))
def test_a_client_logs_in_and_refuses_an_impostor(
    databases: Databases,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    annotation: str,
    code: str,
    refusal: str,
) -> None:
    client, annotation = key = _key(client, annotation)
    genuine, stranger, authority = databases

    def result(name: str, server: Any, host: str = "localhost") -> Result:
        folder = tmp_path / name
        app = bound(folder, annotation, server, authority, host=host)
        return attempt(LOGINS[key], app, monkeypatch)

    assert result("genuine", genuine) == Result("app")
    impostor = result("impostor", stranger)
    assert impostor.role == ""
    assert refusal in impostor.error
    # The right CA's certificate is for localhost alone.
    assert result("another-host", genuine, "127.0.0.1").role == ""


@pytest.mark.parametrize(("client", "annotation", "what"), each(NOT_WORKING))
def test_a_client_that_cannot_have_it_so_connects_to_neither(
    databases: Databases,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    annotation: str,
    what: str,
) -> None:
    key = _key(client, annotation)
    (message,) = re.findall(r": `(.*)`\.", what)
    for name, server in (("genuine", databases.genuine), ("stranger", databases.stranger)):
        app = bound(tmp_path / name, key[1], server, databases.authority)
        result = attempt(LOGINS[key], app, monkeypatch)
        assert result.role == ""
        assert message in result.error


def test_a_client_that_verifies_less_has_a_session_with_either(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows refuse a certificate, and nothing else of these servers."""
    genuine, stranger, authority = databases
    login = LOGINS["psycopg, psql, and all of libpq", "libpq"]
    app = bound(tmp_path / "stranger", "libpq", stranger, authority)
    del app.environment["PGSSLROOTCERT"]
    app.environment["PGSSLMODE"] = "require"
    assert attempt(login, app, monkeypatch) == Result("app")
    app = bound(tmp_path / "another-host", "libpq", genuine, authority, host="127.0.0.1")
    app.environment["PGSSLMODE"] = "verify-ca"
    assert attempt(login, app, monkeypatch) == Result("app")


CERTIFIED_LOGINS: dict[str, tuple[str, str]] = {
    "psycopg, psql, and all of libpq": ("psycopg, psql, and all of libpq", "libpq"),
    "asyncpg": ("asyncpg", "libpq"),
    "pgx": ("pgx", "libpq"),
    "node-postgres": ("node-postgres", "url"),
    "pgjdbc, with a key in DER": ("pgjdbc; Spring Boot reads the variable by itself", "jdbc"),
    "pgjdbc, with a key store": ("pgjdbc; Spring Boot reads the variable by itself", "jdbc"),
}
"""The row of the first table that each row of client certificates adds to."""


@pytest.fixture
def tls(databases: Databases, tmp_path: Path) -> Path:
    """A folder with a client's certificate and its key in each format."""
    folder = tmp_path / "tls"
    folder.mkdir()
    pair = databases.authority.issue("certified")
    key = serialization.load_pem_private_key(pair.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    plain = serialization.NoEncryption()
    der = key.private_bytes(Encoding.DER, serialization.PrivateFormat.PKCS8, plain)
    store = pkcs12.serialize_key_and_certificates(
        b"user",
        key,
        x509.load_pem_x509_certificate(pair.certificate),
        None,
        serialization.BestAvailableEncryption(b"PASSWORD"),
    )
    files = {
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        "key.der": der,
        "keystore.p12": store,
    }
    for name, data in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("client", "setting", "key"),
    [
        pytest.param(
            *row,
            marks=[pytest.mark.extended]
            if isinstance(LOGINS[CERTIFIED_LOGINS[row[0]]], tuple)
            else [],
            id="-".join(re.findall(r"[\w.]+", row[0])),
        )
        for row in CERTIFIED
    ],
)
def test_a_client_logs_in_by_its_certificate(
    databases: Databases,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tls: Path,
    client: str,
    setting: str,
    key: str,
) -> None:
    name, annotation = CERTIFIED_LOGINS[client]
    server, authority = databases.genuine, databases.authority
    app = bound(tmp_path / "app", annotation, server, authority, username="certified")
    for words in re.findall("`([^`]+)`", setting):
        place = words.replace("/tls/", f"{tls}/")
        variable, _, value = place.partition("=")
        if place.startswith("&"):
            (variable,) = set(app.environment) & {"DATABASE_URL", "SPRING_DATASOURCE_URL"}
            value = app.environment[variable] + place
        app.environment[variable] = value
    assert attempt(LOGINS[name, annotation], app, monkeypatch) == Result("certified")


@pytest.mark.parametrize(
    ("client", "annotation"),
    [
        param
        for param in each([row[:2] for row in ROWS])
        # Spring Cloud Bindings hands on no key, and Quarkus does not read files that are no text.
        if param.values[1] != "none" and "QUARKUS" not in str(param.values[1])
    ],
)
def test_a_client_logs_in_by_the_certificate_of_its_binding(
    databases: Databases,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tls: Path,
    client: str,
    annotation: str,
) -> None:
    server, authority = databases.genuine, databases.authority
    entries = {name: (tls / name).read_bytes() for name in ("tls.crt", "tls.key", "key.der")}
    app = bound(tmp_path / "app", annotation, server, authority, username="certified", tls=entries)
    assert attempt(LOGINS[client, annotation], app, monkeypatch) == Result("certified")


@pytest.mark.extended
def test_quarkus_reads_no_binding_with_a_key_in_der(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: Path
) -> None:
    server, authority = databases.genuine, databases.authority
    entries = {name: (tls / name).read_bytes() for name in ("tls.crt", "tls.key", "key.der")}
    annotation = "jdbc=QUARKUS_DATASOURCE_JDBC_URL"
    app = bound(tmp_path / "app", annotation, server, authority, username="certified", tls=entries)
    result = attempt(("java", "quarkus"), app, monkeypatch)
    assert "Unable to read file" in result.error
    assert "key.der" in result.error


@pytest.mark.extended
def test_pgjdbc_reads_no_key_in_pem(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: Path
) -> None:
    server, authority = databases.genuine, databases.authority
    app = bound(tmp_path / "app", "jdbc", server, authority, username="certified")
    app.environment["SPRING_DATASOURCE_URL"] += f"&sslcert={tls}/tls.crt&sslkey={tls}/tls.key"
    assert attempt(("java", "jdbc"), app, monkeypatch).role == ""


USER, GROUP = 65532, 65531
"""A user of a container that is not root, and the group that ``fsGroup`` gives it."""
Secret = tuple[int, int, int]
"""Owner, group and mode of a file."""


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


def by_psql(app: App, file: Path, secret: Secret, user: int, **environment: str) -> Result:
    """Log in as a user by a file, with Debian's psql."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    owner, group, mode = secret
    os.chown(file, owner, group)
    file.chmod(mode)
    app.environment.update(environment)
    psql = (debian(15) or Path()) / "bin" / "psql"
    command = [str(psql), "--no-psqlrc", "--no-password", "-Atc", WHO]
    groups = [GROUP] if user else []
    return run(command, app, user=user, group=user, extra_groups=groups)


@pytest.mark.parametrize(
    ("secret", "user", "message"),
    [
        pytest.param((0, 0, 0o400), 0, "", id="root"),
        pytest.param((0, 0, 0o640), 0, "", id="root-and-a-group"),
        pytest.param((0, GROUP, 0o440), USER, "", id="fsGroup"),
        pytest.param((0, GROUP, 0o640), USER, "", id="fsGroup-and-0640"),
        pytest.param((USER, USER, 0o600), USER, "", id="of-the-user"),
        pytest.param((USER, GROUP, 0o640), USER, "has group or world access", id="user-and-group"),
        pytest.param((0, 0, 0o644), USER, "has group or world access", id="others"),
        pytest.param((0, 0, 0o400), USER, "could not load private key", id="not-readable"),
    ],
)
def test_libpq_takes_a_key_that_nobody_else_may_read(
    databases: Databases, outside: Path, tls: Path, secret: Secret, user: int, message: str
) -> None:
    server, authority = databases.genuine, databases.authority
    app = bound(outside / "app", "libpq", server, authority, username="certified")
    certificate, key = (
        Path(shutil.copy(tls / name, outside / name)) for name in ("tls.crt", "tls.key")
    )
    certificate.chmod(0o644)
    result = by_psql(app, key, secret, user, PGSSLCERT=str(certificate), PGSSLKEY=str(key))
    assert result.role == ("" if message else "certified")
    assert message in result.error


@pytest.mark.parametrize(
    ("secret", "user", "message"),
    [
        pytest.param((0, 0, 0o400), 0, "", id="root"),
        pytest.param((0, GROUP, 0o440), 0, "has group or world access", id="root-with-fsGroup"),
        pytest.param((0, GROUP, 0o440), USER, "has group or world access", id="fsGroup"),
        pytest.param((0, 0, 0o400), USER, "no password supplied", id="not-readable"),
        pytest.param((USER, USER, 0o600), USER, "", id="of-the-user"),
    ],
)
def test_libpq_ignores_a_password_file_that_others_may_read(
    databases: Databases, outside: Path, secret: Secret, user: int, message: str
) -> None:
    app = bound(outside / "app", "libpq", databases.genuine, databases.authority)
    del app.environment["PGPASSWORD"]
    file = app.files / "pgpass"
    result = by_psql(app, file, secret, user, PGPASSFILE=str(file))
    assert result.role == ("" if message else "app")
    assert message in result.error
    assert not message or "no password supplied" in result.error


def test_a_service_file_of_the_template_may_be_read_by_all(
    databases: Databases, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (fence.text for fence in fences_of(PAGE) if fence.title == "orders.yaml")
    (access,) = objects(block)
    template = msgspec.convert(access["spec"]["secretTemplate"], SecretTemplate)
    check_template(template)
    server, authority = databases.genuine, databases.authority
    values = login_values(server, authority, host="localhost", username="app")
    made = content(template, values, "").values["pg_service.conf"]
    app = bound(outside / "app", "", server, authority)
    file = app.files / "pg_service.conf"
    file.write_text(made.replace(f"/bindings/{BINDING}", str(app.files)))
    result = by_psql(app, file, (0, 0, 0o644), USER, PGSERVICEFILE=str(file), PGSERVICE=BINDING)
    assert result == Result("app")
    del app.environment["PGSERVICE"]
    django_options = {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {"service": "orders"}}
    for login in (
        by_psycopg(lambda: psycopg.connect("service=orders")),
        by_django(lambda: django_options),
    ):
        assert attempt(login, app, monkeypatch) == Result("app")
