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
    """A Secret and its key."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]
    key: Annotated[Name, Meta(description="Key in the Secret.")]


class ValueOrSecret(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A value, or a Secret that has it."""

    value: Annotated[str | None, Meta(description="The value.")] = None
    secret_ref: Annotated[
        SecretKeyRef | None, Meta(description="The Secret and the key that have the value.")
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
    "A Secret with the CA certificates that verify the server's certificate. Without"
    " it the operator uses the system's CAs, and treats verify-ca as verify-full."
)
CLIENT_CERTIFICATE_DESCRIPTION = (
    "A Secret with a client certificate, in the keys tls.crt and tls.key. If sslMode"
    " verifies the server, the certificate can replace the password."
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
            (
                "the PostgresServer has the certificates: remove caSecretRef and"
                " clientCertificateSecretRef"
            ),
        ),
        (
            _CA_OF_USE,
            "caSecretRef needs an sslMode that uses it: verify-full, verify-ca or require",
        ),
    )
)


class Connection(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Connection to the server: serverRef, or existingSecret, or host and credentials."""

    server_ref: Annotated[
        ServerRef | None,
        Meta(description="A PostgresServer. Its credentials stay in the operator's namespace."),
    ] = None
    existing_secret: Annotated[
        Name | None,
        Meta(
            description=(
                "A Secret with the keys username or user, password, host or uri; optionally port,"
                " dbname or database, and sslmode."
            ),
        ),
    ] = None
    existing_secret_namespace: Annotated[
        Name | None,
        Meta(
            description=(
                "Namespace of the Secrets that this connection names, if it is not the access's"
                " namespace. The Controller or the operator's flags must allow it."
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
        Meta(description="Database to which the operator connects first; default postgres."),
    ] = None
    username: Annotated[
        ValueOrSecret | None, _ONE_VALUE, Meta(description="User name of the administrator.")
    ] = None
    password: Annotated[
        ValueOrSecret | None, _ONE_VALUE, Meta(description="Password of the administrator.")
    ] = None
    ssl_mode: Annotated[
        SSLMode | None,
        Meta(
            description=(
                "TLS mode; default verify-full with caSecretRef, otherwise require. If"
                " existingSecret has an sslmode too, the stricter one applies."
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
    """How the operator makes passwords, and when it rotates them."""

    length: Annotated[
        Annotated[int, Meta(ge=16, le=128)] | None,
        Meta(description="Number of characters; default 32."),
    ] = None
    alphabet: Annotated[
        Annotated[str, Meta(min_length=2, max_length=94)] | None,
        Meta(
            description=(
                "urlsafe (the default: letters, digits, - and _), alphanumeric, hex, or the"
                " characters themselves, from printable ASCII without the space. Together with"
                " length it must give at least 96 random bits."
            ),
        ),
    ] = None
    rotate_every: Annotated[
        Duration | None,
        Meta(
            description=(
                "Time after which the operator makes a new password: a duration such as 720h, at"
                " least 1m."
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
                "Iterations of SCRAM-SHA-256 for the next password; default 4096. A client"
                " computes the same number at each login."
            ),
        ),
    ] = None


Rotation = Literal["InPlace", "TwoLogins"]
OnAdoption = Literal["Replace", "Keep"]


class LoginPolicy(PasswordPolicy, rename="camel", omit_defaults=True, kw_only=True):
    """How the operator makes and rotates the password of one access."""

    rotation: Annotated[
        Rotation,
        Meta(
            description=(
                "InPlace changes the password of the login. With TwoLogins no login fails during"
                " a rotation: the role username owns everything and cannot log in, and its two"
                " logins username_a and username_b take turns in the Secret."
            ),
        ),
    ] = "InPlace"
    grace_period: Annotated[
        Duration | None,
        Meta(
            description=(
                "How long the previous login still works after a rotation with TwoLogins: a"
                " duration, default 1h, or rotateEvery if that is shorter."
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
                "What the operator does with the password of a role that a person made by hand."
                " Replace sets a new one. Keep leaves it; the operator cannot read it from the"
                " server, so there is no Secret until you request a rotation by annotation or"
                " supply the password with passwordSecretRef."
            ),
        ),
    ] = "Replace"
