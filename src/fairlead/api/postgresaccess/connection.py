"""Connections to PostgreSQL servers, and types that all kinds of this API group share.

A connection names a PostgresServer, or a Secret that describes the server, or has host and
credentials written out: exactly one of the three.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.meta import JSON


GROUP = "access.k8s.delta10.nl"

SSLMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
"""https://www.postgresql.org/docs/current/libpq-ssl.html"""

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Port = Annotated[int, Meta(ge=1, le=65535)]
# PostgreSQL cuts a name to 63 bytes; the operator checks the bytes, which a schema cannot count.
Identifier = Annotated[str, Meta(min_length=1, max_length=63)]
Pattern = Annotated[str, Meta(min_length=1, max_length=253)]


def rules(*given: tuple[str, str]) -> JSON:
    """Return CEL rules with their messages, as keys for ``extra_json_schema``."""
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in given]
    }


UNSEEN = Meta(extra_json_schema={"x-default": {"observedGeneration": -1}})
"""Default that marks an unwritten status, so that kstatus takes no new object for ready.

https://pkg.go.dev/sigs.k8s.io/cli-utils/pkg/kstatus
"""

CONDITIONS = Meta(
    extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
)


class SecretKeyRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """One key of a Secret."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]
    key: Annotated[Name, Meta(description="Key in the Secret.")]


class ValueOrSecret(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A value written out, or the Secret key that holds it."""

    value: Annotated[str | None, Meta(description="The value itself.")] = None
    secret_ref: Annotated[
        SecretKeyRef | None, Meta(description="The Secret key that holds the value.")
    ] = None


class ServerRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The PostgresServer by its name."""

    name: Annotated[Name, Meta(description="Name of the PostgresServer.")]


class SecretRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A Secret by its name."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]


class CASecretRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A Secret, and the key that holds CA certificates."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]
    key: Annotated[Name, Meta(description="Key with the certificates in PEM; default ca.crt.")] = (
        "ca.crt"
    )


_ONE_VALUE = Meta(
    extra_json_schema=rules(
        ("has(self.value) != has(self.secretRef)", "set one of value and secretRef"),
    )
)

CA_DESCRIPTION = (
    "A Secret with CA certificates that the server's certificate is verified by; without it those"
    " of the system are, whose verify-ca is verify-full."
)
CLIENT_CERTIFICATE_DESCRIPTION = (
    "A Secret with the keys tls.crt and tls.key, to log in with; it may take the password's place"
    " where the server is verified."
)

_ONE_WAY = (
    "(has(self.serverRef) ? 1 : 0) + (has(self.existingSecret) ? 1 : 0)"
    " + (has(self.host) || has(self.username) || has(self.password) ? 1 : 0) == 1"
)
_WHOLE = (
    "has(self.serverRef) || has(self.existingSecret) || has(self.host) && has(self.username)"
    " && (has(self.password) || has(self.clientCertificateSecretRef))"
)
_SERVERS_CERTIFICATES = (
    "!has(self.serverRef) || !(has(self.caSecretRef) || has(self.clientCertificateSecretRef))"
)
# With a root certificate libpq's require verifies as verify-ca does. allow and prefer go on
# without TLS, so that a root certificate protects nothing there.
_CA_OF_USE = (
    "!has(self.caSecretRef) || !has(self.sslMode)"
    " || self.sslMode in ['require', 'verify-ca', 'verify-full']"
)
CONNECTION_RULES = Meta(
    extra_json_schema=rules(
        (_ONE_WAY, "set one of serverRef, existingSecret, and host with username and password"),
        (_WHOLE, "host needs username, and password or clientCertificateSecretRef"),
        (
            _SERVERS_CERTIFICATES,
            "certificates are the PostgresServer's: leave them out beside serverRef",
        ),
        (
            _CA_OF_USE,
            "caSecretRef needs an sslMode that uses it: verify-full, verify-ca or require",
        ),
    )
)


class Connection(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Connection of an access: serverRef, or existingSecret, or host and credentials."""

    server_ref: Annotated[
        ServerRef | None,
        Meta(description="A PostgresServer, whose credentials stay out of this namespace."),
    ] = None
    existing_secret: Annotated[
        Name | None,
        Meta(
            description=(
                "A Secret with username or user, password, host or uri, and optionally port,"
                " dbname or database, and sslmode."
            ),
        ),
    ] = None
    existing_secret_namespace: Annotated[
        Name | None,
        Meta(
            description=(
                "Where the Secrets named here are, if not in this namespace; refused unless the"
                " operator's Controller or options allow it."
            )
        ),
    ] = None
    host: Annotated[
        Annotated[str, Meta(max_length=1024)] | None,
        Meta(description="Host name or address of the server."),
    ] = None
    port: Annotated[Port | None, Meta(description="Port of the server; default 5432.")] = None
    database: Annotated[
        str | None,
        Meta(description="The database that the operator connects to first; default postgres."),
    ] = None
    username: Annotated[
        ValueOrSecret | None, _ONE_VALUE, Meta(description="The administrator's name.")
    ] = None
    password: Annotated[
        ValueOrSecret | None, _ONE_VALUE, Meta(description="The administrator's password.")
    ] = None
    ssl_mode: Annotated[
        SSLMode | None,
        Meta(
            description=(
                "Default: verify-full with caSecretRef, else require. Where the existing Secret"
                " has an sslmode too, the stricter one counts."
            )
        ),
    ] = None
    ca_secret_ref: Annotated[CASecretRef | None, Meta(description=CA_DESCRIPTION)] = None
    client_certificate_secret_ref: Annotated[
        SecretRef | None, Meta(description=CLIENT_CERTIFICATE_DESCRIPTION)
    ] = None


GO_DURATION = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"
# Bounded, as other texts and lists are here: without a bound servers estimate a CEL rule as too
# costly.
Duration = Annotated[str, Meta(pattern=GO_DURATION, max_length=32)]


class PasswordPolicy(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Generation and rotation of passwords; unset fields come from the Controller."""

    length: Annotated[
        Annotated[int, Meta(ge=16, le=128)] | None,
        Meta(description="Characters of a password; default 32."),
    ] = None
    alphabet: Annotated[
        Annotated[str, Meta(min_length=2, max_length=94)] | None,
        Meta(
            description=(
                "urlsafe (the default: letters, digits, - and _), alphanumeric, hex, or the"
                " characters themselves, printable ASCII without the blank. A password has 96 bits"
                " at least."
            ),
        ),
    ] = None
    rotate_every: Annotated[
        Duration | None,
        Meta(
            description=(
                "A new password each time that so much has passed since it changed: a duration"
                " such as 720h, of 1m at least."
            ),
            extra_json_schema=rules(
                (
                    "duration(self) >= duration('1m') && duration(self) <= duration('87600h')",
                    "rotateEvery must be between 1m and 87600h",
                ),
            ),
        ),
    ] = None
    iterations: Annotated[
        # RFC 7677 wants 4096 at least, which is PostgreSQL's default too.
        Annotated[int, Meta(ge=4096, le=100_000)] | None,
        Meta(
            description=(
                "Rounds of SCRAM-SHA-256 for the next password that is stored; default 4096."
                " Clients work as many at each login."
            ),
        ),
    ] = None


Rotation = Literal["InPlace", "TwoLogins"]
OnAdoption = Literal["Replace", "Keep"]


class LoginPolicy(PasswordPolicy, rename="camel", omit_defaults=True, kw_only=True):
    """Password policy of one access, with the treatment of open sessions at a change."""

    rotation: Annotated[
        Rotation,
        Meta(
            description=(
                "InPlace changes the password of the one login. TwoLogins lets no login fail: the"
                " role that username names owns everything and does not log in, and two logins"
                " that act as it, username_a and username_b, take turns in the Secret."
            ),
        ),
    ] = "InPlace"
    grace_period: Annotated[
        Duration | None,
        Meta(
            description=(
                "How long a login still works when another one has taken its turn: a duration,"
                " default 1h, or rotateEvery where that is shorter."
            ),
            extra_json_schema=rules(
                (
                    "duration(self) >= duration('0s') && duration(self) <= duration('87600h')",
                    "gracePeriod must be between 0s and 87600h",
                ),
            ),
        ),
    ] = None
    on_adoption: Annotated[
        OnAdoption,
        Meta(
            description=(
                "What becomes of the password of a role that was made by hand. Replace gives it a"
                " new one. Keep leaves it: it cannot be read, and so there is no Secret, until a"
                " rotation is asked for by annotation, or passwordSecretRef names the password."
            ),
        ),
    ] = "Replace"
