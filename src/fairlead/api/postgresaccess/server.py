"""PostgresServer: a server that the platform's team offers, and its permitted uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.crd import AGE, PrinterColumn
from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess.connection import (
    CA_DESCRIPTION,
    CLIENT_CERTIFICATE_DESCRIPTION,
    CONDITIONS,
    GROUP,
    CASecretRef,
    Identifier,
    Pattern,
    Port,
    SecretRef,
    SSLMode,
    rules,
)
from fairlead.api.postgresaccess.grants import ObjectPrivilege
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelectorRequirement, LabelSelectorTerms


POSTGRESSERVERS = Resource(GROUP, "v1", "postgresservers", "PostgresServer", namespaced=False)

REACHABLE = "Reachable"

PublicPrivilege = Literal["CONNECT", "TEMPORARY", "CREATE"]
Groups = Literal["Shared", "None"]
PasswordFormat = Literal["Verifier", "Plain"]


class NamespaceRequirement(LabelSelectorRequirement, kw_only=True, frozen=True):
    """A term of a selector of namespaces, whose operator API servers check."""

    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"],
        Meta(description="How the label is compared."),
    ]


class NamespaceSelector(LabelSelectorTerms, kw_only=True, frozen=True):
    """``metav1.LabelSelector`` over namespaces' labels; the empty one selects all."""

    match_expressions: Annotated[
        Sequence[NamespaceRequirement],
        Meta(
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="Terms that must all hold.",
        ),
    ] = []


class PostgresServerSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Address of the server, its administrator's credentials, and the permitted uses."""

    host: Annotated[str, Meta(min_length=1, description="Where the operator reaches it.")]
    port: Annotated[
        Port, Meta(description="Port that the operator connects to; default 5432.")
    ] = 5432
    database: Annotated[
        Identifier, Meta(description="The maintenance database, where role work is serialised.")
    ] = "postgres"
    credentials_secret_ref: Annotated[
        SecretRef,
        Meta(description="A Secret with username and password in the operator's namespace."),
    ]
    ssl_mode: Annotated[
        SSLMode,
        Meta(description="How the connection is protected, as libpq has it; default verify-full."),
    ] = "verify-full"
    ca_secret_ref: Annotated[CASecretRef | None, Meta(description=CA_DESCRIPTION)] = None
    client_certificate_secret_ref: Annotated[
        SecretRef | None, Meta(description=CLIENT_CERTIFICATE_DESCRIPTION)
    ] = None
    external_host: Annotated[
        str, Meta(description="Where clients reach it, for the generated Secret; default host.")
    ] = ""
    external_port: Annotated[
        Port | None,
        Meta(description="Port that clients connect to, for the generated Secret; default port."),
    ] = None
    allowed_namespaces: Annotated[
        NamespaceSelector,
        Meta(description="Namespaces whose PostgresAccess may use this server; {} is all."),
    ]
    username_pattern: Annotated[
        str,
        Meta(
            description=(
                "Which usernames are allowed: * stands for anything, {namespace} for the"
                " namespace."
            )
        ),
    ] = "*"
    allowed_databases: Annotated[
        list[str],
        Meta(
            min_length=1,
            description="Databases grants may name, with the same placeholders.",
        ),
    ]
    allowed_privileges: Annotated[
        # One for each ObjectPrivilege: the bound grows with them.
        Annotated[list[ObjectPrivilege], Meta(max_length=13)] | None,
        Meta(
            description=(
                "Privileges that grants may name, or come to by ALL and access; without it all."
            ),
        ),
    ] = None
    allowed_member_of: Annotated[
        Annotated[list[Pattern], Meta(max_length=256)] | None,
        Meta(
            description=(
                "Roles that memberOf may name, with the same placeholders; without it those of the"
                " Controller. PostgreSQL's own and its providers' are allowed by their full names"
                " alone."
            ),
        ),
    ] = None
    password_format: Annotated[
        PasswordFormat,
        Meta(
            description=(
                "What the operator sends when it sets a password. Verifier keeps the password from"
                " the server; Plain is for servers that refuse verifiers, and needs sslMode"
                " verify-full or verify-ca."
            ),
        ),
    ] = "Verifier"  # noqa: S105 - a form of passwords
    groups: Annotated[
        Groups,
        Meta(
            description=(
                "Deprecated: spec.groups of those PostgresAccess that are in a shared group and do"
                " not say it themselves. Shared is refused of a new PostgresServer."
            )
        ),
    ] = "None"
    revoke_public: Annotated[
        list[PublicPrivilege],
        Meta(
            max_length=3,
            description=(
                "What is taken from PUBLIC in the databases that grants name: CONNECT and"
                " TEMPORARY on the database, CREATE on its schema public."
            ),
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = []


class PostgresServerStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Whether the server answers to its administrator."""

    conditions: Annotated[
        list[Condition], CONDITIONS, Meta(description="Whether the server can be used.")
    ] = []
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
    ] = 0
    version: Annotated[str, Meta(description="Version of PostgreSQL.")] = ""
    system_identifier: Annotated[
        str, Meta(description="PostgreSQL's own identifier of the database cluster.")
    ] = ""


_SPEC_RULES = Meta(
    extra_json_schema=rules(
        (
            (
                "!has(self.passwordFormat) || self.passwordFormat != 'Plain' || !has(self.sslMode)"
                " || self.sslMode in ['verify-ca', 'verify-full']"
            ),
            "passwordFormat Plain needs sslMode verify-full or verify-ca",
        ),
        (
            # Servers of former versions may have it, and every write of a status is checked.
            (
                "!has(self.groups) || self.groups != 'Shared'"
                " || (has(oldSelf.groups) && oldSelf.groups == 'Shared')"
            ),
            "groups Shared is deprecated; share a group role by memberOf of the PostgresAccesses",
        ),
    )
)


class PostgresServer(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A PostgreSQL server that the platform's team offers to namespaces."""

    api_version: str = POSTGRESSERVERS.api_version
    kind: str = POSTGRESSERVERS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[PostgresServerSpec, _SPEC_RULES]
    status: PostgresServerStatus = msgspec.field(default_factory=PostgresServerStatus)


SERVER_COLUMNS = (
    PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    PrinterColumn("Host", ".spec.host"),
    PrinterColumn("Version", ".status.version"),
    AGE,
    PrinterColumn("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
)
