"""From the objects that describe a server to an endpoint, and whether it may be used."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import PostgresAccessSpec
from fairlead.api.postgresconnection import Connection
from fairlead.api.postgresserver import PostgresServer
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.database.names import matches
from fairlead.postgres.errors import AccessError, invalid, refusal


_DEFAULT_PORT = 5432
_DEFAULT_DATABASE = "postgres"
_NO_DATABASE = {"", "*", "%", "(none)", "null"}
_SSL_MODES = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}


class _SecretBody(msgspec.Struct):
    data: dict[str, bytes] | None = None


def secret_data(secret: Object) -> dict[str, bytes]:
    """The decoded values of a Secret.

    Raises:
        AccessError: ConnectionInvalid, when a value is not base64.
    """
    try:
        return secret.decode(_SecretBody).data or {}
    except msgspec.ValidationError:
        raise invalid("ConnectionInvalid", f"Secret {secret.key} cannot be decoded") from None


def text_of(data: Mapping[str, bytes], key: str, secret: str) -> str:
    """One value of a Secret as text, "" when it is missing.

    Raises:
        AccessError: ConnectionInvalid, when it is not UTF-8 or contains a NUL byte.
    """
    try:
        text = data.get(key, b"").decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise invalid("ConnectionInvalid", f"key {key} of Secret {secret} is no UTF-8 text")
    return text


def login_value(data: Mapping[str, bytes], key: str, secret: str) -> str:
    """One value of a Secret that a login is made of, "" when it is missing.

    Raises:
        AccessError: ConnectionInvalid, when it is no text, or ends in a line break: nobody wants
            that, and whoever reads it from elsewhere sees no difference.
    """
    text = text_of(data, key, secret)
    if text.endswith(("\n", "\r")):
        raise invalid(
            "ConnectionInvalid",
            f"key {key} of Secret {secret} ends in a line break, as echo writes it without -n;"
            " write it again without",
        )
    return text


def check_connection(connection: Connection) -> None:
    """One way to the server must be given, and one only.

    Raises:
        AccessError: ConnectionInvalid.
    """
    direct = {
        "host": connection.host,
        "username": connection.username,
        "password": connection.password,
    }
    ways = [
        name
        for name, given in (
            ("serverRef", connection.server_ref),
            ("existingSecret", connection.existing_secret),
            (", ".join(name for name, given in direct.items() if given), any(direct.values())),
        )
        if given
    ]
    if len(ways) != 1:
        found = "none" if not ways else " and ".join(ways)
        raise invalid(
            "ConnectionInvalid",
            "spec.connection needs one of serverRef, existingSecret, or host with username and"
            f" password; it has {found}",
        )


def server_endpoint(server: PostgresServer, credentials: Mapping[str, bytes], ca: str) -> Endpoint:
    """The endpoint of a PostgresServer.

    Raises:
        AccessError: ConnectionInvalid, when its Secret lacks a key.
    """
    spec = server.spec
    secret = f"{spec.credentials_secret_ref.name} of PostgresServer {server.metadata.name}"
    username = login_value(credentials, "username", secret)
    password = login_value(credentials, "password", secret)
    for key, value in (("username", username), ("password", password)):
        if not value:
            raise invalid("ConnectionInvalid", f"Secret {secret} has no key {key}; add it")
    return Endpoint(
        host=spec.host,
        port=spec.port,
        username=username,
        password=password,
        ssl_mode=spec.ssl_mode,
        ca=ca,
        maintenance=spec.database,
        public_host=spec.external_host or spec.host,
        public_port=spec.external_port or spec.port,
    )


def secret_endpoint(
    connection: Connection, data: Mapping[str, bytes], name: str, namespace: str
) -> Endpoint:
    """The endpoint that an existing Secret describes, in any of the shapes operators write.

    Raises:
        AccessError: ConnectionInvalid, naming what is missing.
    """

    def value(*keys: str) -> str:
        return next((found for key in keys if (found := login_value(data, key, name))), "")

    host, port = value("host"), value("port")
    if not host:
        host, port = _from_uri(value("fqdn-uri", "uri", "jdbc-uri"), port, name)
    mode = value("sslmode") or connection.ssl_mode or "require"
    username, password = value("username", "user"), value("password")
    for key, found in (("host", host), ("username", username), ("password", password)):
        if not found:
            raise invalid("ConnectionInvalid", f"Secret {name} has no key {key}; add it")
    if mode not in _SSL_MODES:
        raise invalid("ConnectionInvalid", f"key sslmode of Secret {name} is no TLS mode")
    return _endpoint(
        host=_qualified(host, namespace),
        port=_port(port, name),
        username=username,
        password=password,
        ssl_mode=mode,
        database=connection.database or value("dbname", "database"),
    )


def direct_endpoint(connection: Connection, username: str, password: str) -> Endpoint:
    """The endpoint of a connection that is written out.

    Raises:
        AccessError: ConnectionInvalid, naming what is missing.
    """
    for field, found in (
        ("host", connection.host),
        ("username", username),
        ("password", password),
    ):
        if not found:
            raise invalid("ConnectionInvalid", f"spec.connection.{field} is missing; set it")
    return _endpoint(
        host=connection.host or "",
        port=connection.port or _DEFAULT_PORT,
        username=username,
        password=password,
        ssl_mode=connection.ssl_mode or "require",
        database=connection.database or "",
    )


def check_policy(
    server: PostgresServer, spec: PostgresAccessSpec, namespace: str, labels: Mapping[str, str]
) -> None:
    """Whether a server's profile allows this access.

    Raises:
        AccessError: PolicyDenied, naming the field of the profile.
    """
    name = server.metadata.name
    try:
        selector = LabelSelector.from_dict(msgspec.to_builtins(server.spec.allowed_namespaces))
    except SelectorError as error:
        raise invalid(
            "ConnectionInvalid", f"PostgresServer {name}: spec.allowedNamespaces: {error}"
        ) from None
    if not selector.matches(labels):
        _deny(name, "allowedNamespaces", f"does not select namespace {namespace}")
    if not matches(server.spec.username_pattern, spec.username, namespace):
        pattern = server.spec.username_pattern.replace("{namespace}", namespace)
        _deny(name, "usernamePattern", f"wants usernames like {pattern}")
    for grant in spec.grants:
        allowed = server.spec.allowed_databases
        if not any(matches(pattern, grant.database, namespace) for pattern in allowed):
            _deny(name, "allowedDatabases", f"does not allow database {grant.database}")


def _deny(server: str, field: str, why: str) -> NoReturn:
    raise refusal(
        "PolicyDenied", f"PostgresServer {server}: spec.{field} {why}; ask who runs the server"
    )


def missing_secret(name: str, namespace: str, what: str) -> AccessError:
    """The Secret that a connection needs is not there."""
    return AccessError(
        "ConnectionSecretMissing", f"Secret {namespace}/{name} of {what} does not exist; create it"
    )


def _endpoint(
    *, host: str, port: int, username: str, password: str, ssl_mode: str, database: str
) -> Endpoint:
    """The endpoint that a tenant wrote, who must not reach sockets of the operator's machine."""
    if any(part.strip().startswith(("/", "@")) for part in host.split(",")):
        raise invalid(
            "ConnectionInvalid", "the host of spec.connection is a local socket; name a host"
        )
    return Endpoint(
        host=host,
        port=port,
        username=username,
        password=password,
        ssl_mode=ssl_mode,
        maintenance=_DEFAULT_DATABASE,
        fallback="" if database in _NO_DATABASE else database,
        public_host=host,
        public_port=port,
    )


def _from_uri(uri: str, port: str, secret: str) -> tuple[str, str]:
    try:
        parts = urlsplit(uri.removeprefix("jdbc:"))
        return parts.hostname or "", port or str(parts.port or "")
    except ValueError:
        raise invalid("ConnectionInvalid", f"the uri in Secret {secret} is no URI") from None


def _port(text: str, secret: str) -> int:
    if not text:
        return _DEFAULT_PORT
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise invalid("ConnectionInvalid", f"key port of Secret {secret} is no port")
    return int(text)


def _qualified(host: str, namespace: str) -> str:
    """The host, with the Secret's namespace where it is the short name of a Service."""
    if "." in host or host == "localhost":
        return host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"{host}.{namespace}.svc"
    return host
