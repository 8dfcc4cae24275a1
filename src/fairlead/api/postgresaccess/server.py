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
    """A requirement for the labels of namespaces; API servers check its operator."""

    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"],
        Meta(description="How the selector compares the label."),
    ]


class NamespaceSelector(LabelSelectorTerms, kw_only=True, frozen=True):
    """``metav1.LabelSelector`` over the labels of namespaces; an empty one selects all."""

    match_expressions: Annotated[
        Sequence[NamespaceRequirement],
        Meta(
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="Requirements for the labels of an object, which must meet all of them.",
        ),
    ] = []


class PostgresServerSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Address of the server, the administrator's credentials, and what accesses may do."""

    host: Annotated[str, Meta(min_length=1, description="Host to which the operator connects.")]
    port: Annotated[
        Port, Meta(description="Port to which the operator connects; default 5432.")
    ] = 5432
    database: Annotated[
        Identifier,
        Meta(
            description=(
                "Maintenance database, in which the operator works on roles; default postgres."
            )
        ),
    ] = "postgres"
    credentials_secret_ref: Annotated[
        SecretRef,
        Meta(
            description=(
                "A Secret in the operator's namespace with the administrator's username and"
                " password."
            )
        ),
    ]
    ssl_mode: Annotated[
        SSLMode,
        Meta(description="TLS mode, as in libpq; default verify-full."),
    ] = "verify-full"
    ca_secret_ref: Annotated[CASecretRef | None, Meta(description=CA_DESCRIPTION)] = None
    client_certificate_secret_ref: Annotated[
        SecretRef | None, Meta(description=CLIENT_CERTIFICATE_DESCRIPTION)
    ] = None
    external_host: Annotated[
        str,
        Meta(
            description=(
                "Host to which clients connect, for the generated Secret; by default the value of"
                " host."
            )
        ),
    ] = ""
    external_port: Annotated[
        Port | None,
        Meta(
            description=(
                "Port to which clients connect, for the generated Secret; by default the value of"
                " port."
            )
        ),
    ] = None
    allowed_namespaces: Annotated[
        NamespaceSelector,
        Meta(
            description="Namespaces from which a PostgresAccess may use this server; {} means all."
        ),
    ]
    username_pattern: Annotated[
        str,
        Meta(
            description=(
                "Usernames that accesses may use. * matches any text, and {namespace} is the"
                " access's namespace."
            )
        ),
    ] = "*"
    allowed_databases: Annotated[
        list[str],
        Meta(
            min_length=1,
            description=(
                "Databases that grants may name, with the same placeholders as usernamePattern."
            ),
        ),
    ]
    allowed_privileges: Annotated[
        # One for each ObjectPrivilege: the bound grows with them.
        Annotated[list[ObjectPrivilege], Meta(max_length=13)] | None,
        Meta(
            description=(
                "Privileges that grants may contain, also through ALL and access; by default all."
            ),
        ),
    ] = None
    allowed_member_of: Annotated[
        Annotated[list[Pattern], Meta(max_length=256)] | None,
        Meta(
            description=(
                "Roles that memberOf and orphanTo may name, with the same placeholders as"
                " usernamePattern. Without this field allowedMemberOf of the Controller applies."
                " Patterns do not match the reserved roles of PostgreSQL and of cloud providers;"
                " list these by their full names."
            ),
        ),
    ] = None
    password_format: Annotated[
        PasswordFormat,
        Meta(
            description=(
                "What the operator sends to set a password. With Verifier the server never sees"
                " the password; Plain is for servers that refuse verifiers, and needs sslMode"
                " verify-full or verify-ca."
            ),
        ),
    ] = "Verifier"  # noqa: S105 - a form of passwords
    groups: Annotated[
        Groups,
        Meta(
            description=(
                "Deprecated. Default of spec.groups for each PostgresAccess that is in a shared"
                " group. A new PostgresServer cannot use Shared."
            )
        ),
    ] = "None"
    revoke_public: Annotated[
        list[PublicPrivilege],
        Meta(
            max_length=3,
            description=(
                "Privileges that the operator revokes from PUBLIC in the databases of grants:"
                " CONNECT and TEMPORARY on the database, CREATE on the schema public."
            ),
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = []


class PostgresServerStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Whether the operator can use the server."""

    conditions: Annotated[
        list[Condition],
        CONDITIONS,
        Meta(description="Conditions: whether the operator can use the server."),
    ] = []
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that the status describes.")
    ] = 0
    version: Annotated[str, Meta(description="Version of PostgreSQL.")] = ""
    system_identifier: Annotated[
        str,
        Meta(description="System identifier of the database cluster, as PostgreSQL reports it."),
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
            "groups Shared is deprecated; name a group role in memberOf of the PostgresAccesses",
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
