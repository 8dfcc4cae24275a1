"""The endpoint of a server, by the objects that describe it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.errors import AccessError, invalid


_DEFAULT_PORT = 5432
_DEFAULT_DATABASE = "postgres"
_NO_DATABASE = {"", "*", "%", "(none)", "null"}
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""TLS modes, from the least strict to the strictest."""


class Certificates(NamedTuple):
    """The trusted CAs, and the client certificate with its key, as PEM; "" for none."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


NO_CERTIFICATES = Certificates()


class _SecretBody(msgspec.Struct):
    data: dict[str, bytes] | None = None


def secret_data(secret: Object) -> dict[str, bytes]:
    """Return the decoded values of a Secret.

    Raises:
        AccessError: ConnectionInvalid, where a value is not base64.
    """
    try:
        return secret.decode(_SecretBody).data or {}
    except msgspec.ValidationError:
        raise invalid("ConnectionInvalid", f"Secret {secret.key} cannot be decoded") from None


def text_of(data: Mapping[str, bytes], key: str, secret: str) -> str:
    """Return one value of a Secret as text, "" where it is missing.

    Raises:
        AccessError: ConnectionInvalid, where the value is not UTF-8 or contains a NUL byte.
    """
    try:
        text = data.get(key, b"").decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise invalid("ConnectionInvalid", f"key {key} of Secret {secret} is not UTF-8 text")
    return text


def login_value(data: Mapping[str, bytes], key: str, secret: str) -> str:
    """Return one value of a login's Secret, "" where it is missing.

    Raises:
        AccessError: ConnectionInvalid, where the value is no text or ends in a line break. Such a
            break is a mistake, and invisible in most outputs.
    """
    text = text_of(data, key, secret)
    if text.endswith(("\n", "\r")):
        raise invalid(
            "ConnectionInvalid",
            f"key {key} of Secret {secret} ends with a line break, which echo adds without -n;"
            " write the value without it",
        )
    return text


def check_connection(connection: Connection) -> None:
    """Refuse a connection that does not give exactly one way to its server.

    Raises:
        AccessError: ConnectionInvalid; the message names the fields.
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
        text = "none" if not ways else " and ".join(ways)
        raise invalid(
            "ConnectionInvalid",
            "spec.connection needs one of serverRef, existingSecret, or host with username and"
            f" password; it has {text}",
        )
    if connection.server_ref and (
        connection.ca_secret_ref or connection.client_certificate_secret_ref
    ):
        raise invalid(
            "ConnectionInvalid",
            "with serverRef the certificates come from the PostgresServer; remove caSecretRef"
            " and clientCertificateSecretRef from spec.connection",
        )


def server_endpoint(
    server: PostgresServer,
    credentials: Mapping[str, bytes],
    certificates: Certificates = NO_CERTIFICATES,
) -> Endpoint:
    """Return the endpoint of a PostgresServer.

    Raises:
        AccessError: ConnectionInvalid, where its Secret lacks a key.
    """
    spec = server.spec
    what = f"PostgresServer {server.metadata.name}"
    secret = f"{spec.credentials_secret_ref.name} of {what}"
    username = login_value(credentials, "username", secret)
    password = login_value(credentials, "password", secret)
    if not username:
        raise invalid("ConnectionInvalid", f"Secret {secret} has no key username; add it")
    if not password and not _certified(certificates, spec.ssl_mode):
        raise invalid("ConnectionInvalid", f"Secret {secret} has no key password; add it")
    _check_ca_use(certificates, spec.ssl_mode, f"spec.sslMode of {what}")
    plain = spec.password_format == "Plain"  # noqa: S105 - a form of passwords
    if plain and not spec.ssl_mode.startswith("verify-"):
        raise invalid(
            "ConnectionInvalid",
            f"spec.passwordFormat Plain of {what} needs sslMode verify-full or verify-ca",
        )
    return Endpoint(
        host=spec.host,
        port=spec.port,
        username=username,
        password=password,
        ssl_mode=spec.ssl_mode,
        **certificates._asdict(),
        maintenance=spec.database,
        public_host=spec.external_host,
        public_port=spec.external_port or spec.port,
        revoke_public=frozenset(spec.revoke_public),
        shares_groups=spec.groups == "Shared",
        plain_passwords=plain,
        source=f"Secret {secret}",
    )


def secret_endpoint(
    connection: Connection,
    data: Mapping[str, bytes],
    name: str,
    namespace: str,
    certificates: Certificates = NO_CERTIFICATES,
) -> Endpoint:
    """Return the endpoint that an existing Secret describes, in the format of any known operator.

    The stricter one of the Secret's sslmode and the connection's counts: neither can weaken the
    other.

    Raises:
        AccessError: ConnectionInvalid; the message names the missing key.
    """

    def value(*keys: str) -> str:
        return next((text for key in keys if (text := login_value(data, key, name))), "")

    host, port = value("host"), value("port")
    if not host:
        host, port = _from_uri(value("fqdn-uri", "uri", "jdbc-uri"), port, name)
    stored = value("sslmode")
    if stored and stored not in _SSL_MODES:
        raise invalid(
            "ConnectionInvalid",
            f"key sslmode of Secret {name} is not a TLS mode; use for example verify-full",
        )
    modes = [mode for mode in (stored, connection.ssl_mode) if mode]
    mode = max(modes, key=_SSL_MODES.index) if modes else _default_mode(certificates)
    username, password = value("username", "user"), value("password")
    for key, value_found in (("host", host), ("username", username)):
        if not value_found:
            raise invalid("ConnectionInvalid", f"Secret {name} has no key {key}; add it")
    if not password and not _certified(certificates, mode):
        raise invalid("ConnectionInvalid", f"Secret {name} has no key password; add it")
    return _endpoint(
        host=_qualified(host, namespace),
        port=_port(port, name),
        username=username,
        password=password,
        ssl_mode=mode,
        certificates=certificates,
        database=connection.database or value("dbname", "database"),
        source=f"Secret {namespace}/{name}",
    )


def direct_endpoint(
    connection: Connection,
    username: str,
    password: str,
    certificates: Certificates = NO_CERTIFICATES,
    *,
    source: str = "spec.connection",
) -> Endpoint:
    """Return the endpoint of a connection with its host in the spec.

    Raises:
        AccessError: ConnectionInvalid; the message names the missing field.
    """
    mode = connection.ssl_mode or _default_mode(certificates)
    for field, value_found in (
        ("host", connection.host),
        ("username", username),
        ("password", password or _certified(certificates, mode)),
    ):
        if not value_found:
            raise invalid("ConnectionInvalid", f"spec.connection.{field} is missing; set it")
    return _endpoint(
        host=connection.host or "",
        port=connection.port or _DEFAULT_PORT,
        username=username,
        password=password,
        ssl_mode=mode,
        certificates=certificates,
        database=connection.database or "",
        source=source,
    )


def missing_secret(name: str, namespace: str, what: str) -> AccessError:
    """Return the error for a connection's Secret that does not exist."""
    return AccessError(
        "ConnectionSecretMissing", f"Secret {namespace}/{name} of {what} does not exist; create it"
    )


def _default_mode(certificates: Certificates) -> str:
    return "verify-full" if certificates.ca else "require"


def _certified(certificates: Certificates, mode: str) -> bool:
    """Whether a certificate may replace the password: an unverified impostor would accept any."""
    return bool(certificates.certificate) and mode.startswith("verify-")


def _check_ca_use(certificates: Certificates, mode: str, field: str) -> None:
    if certificates.ca and _SSL_MODES.index(mode) < _SSL_MODES.index("require"):
        raise invalid(
            "ConnectionInvalid",
            f"{field} {mode} does not use the certificates of caSecretRef; set verify-full, or"
            " remove caSecretRef",
        )


def _endpoint(
    *,
    host: str,
    port: int,
    username: str,
    password: str,
    ssl_mode: str,
    certificates: Certificates,
    database: str,
    source: str,
) -> Endpoint:
    """Return the endpoint of a tenant's connection, which must not be a local socket."""
    if any(part.strip().startswith(("/", "@")) for part in host.split(",")):
        raise invalid(
            "ConnectionInvalid", "the host of spec.connection is a local socket; name a host"
        )
    _check_ca_use(certificates, ssl_mode, "spec.connection.sslMode")
    return Endpoint(
        host=host,
        port=port,
        username=username,
        password=password,
        ssl_mode=ssl_mode,
        **certificates._asdict(),
        maintenance=_DEFAULT_DATABASE,
        fallback="" if database in _NO_DATABASE else database,
        source=source,
    )


def _from_uri(uri: str, port: str, secret: str) -> tuple[str, str]:
    try:
        parts = urlsplit(uri.removeprefix("jdbc:"))
        return parts.hostname or "", port or str(parts.port or "")
    except ValueError:
        raise invalid(
            "ConnectionInvalid", f"the uri in Secret {secret} is not a valid URI; correct it"
        ) from None


def _port(text: str, secret: str) -> int:
    if not text:
        return _DEFAULT_PORT
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise invalid(
            "ConnectionInvalid",
            f"key port of Secret {secret} is not a port; use a number from 1 to 65535",
        )
    return int(text)


def _qualified(host: str, namespace: str) -> str:
    """Return the host; a Service's short name gets the Secret's namespace."""
    if "." in host or host == "localhost":
        return host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"{host}.{namespace}.svc"
    return host
