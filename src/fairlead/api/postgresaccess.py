"""``access.k8s.delta10.nl/v1``: PostgresAccess as upstream has it, and our PostgresServer.

A PostgresAccess asks for a PostgreSQL role with its grants and a Secret to log in with. It names
the server by a PostgresServer, which the platform's team owns, or by a connection of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.resource import Resource


GROUP = "access.k8s.delta10.nl"
POSTGRESACCESSES = Resource(GROUP, "v1", "postgresaccesses", "PostgresAccess")
POSTGRESSERVERS = Resource(GROUP, "v1", "postgresservers", "PostgresServer", namespaced=False)

FINALIZER = f"{GROUP}/finalizer"
ABANDON_ANNOTATION = f"{GROUP}/abandon"
"""Set to "true", it lets a deletion go on without touching the database."""

PROVISIONED_SERVICE_LABEL = "servicebinding.io/provisioned-service"
EXPORTED_LABEL = "kube-bind.io/exported"

READY = "Ready"
SUCCESS = "Success"
IN_PROGRESS = "InProgress"
REACHABLE = "Reachable"

Privilege = Literal[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "CREATE",
    "CONNECT",
    "TEMPORARY",
    "EXECUTE",
    "USAGE",
    "SET",
    "ALTER SYSTEM",
    "MAINTAIN",
    "ALL",
]
GrantLevel = Literal["Database", "Schema", "Tables", "Sequences", "Routines", "Types"]
Bundle = Literal["ReadOnly", "ReadWrite", "Owner"]
GrantsPolicy = Literal["Authoritative", "Additive"]
CleanupPolicy = Literal["Restrict", "Cascade", "Orphan", "Retain"]
SSLMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
ReconcileState = Literal["Success", "InProgress", "Error"]

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Identifier = Annotated[str, Meta(min_length=1, max_length=63)]


def _rules(*rules: tuple[str, str]) -> JSON:
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]
    }


_CONDITIONS = Meta(
    extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
)


class SecretKeyRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """One key of a Secret in the object's own namespace."""

    name: Name
    key: Name


class ValueOrSecret(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A value written out, or the Secret key that holds it."""

    value: str | None = None
    secret_ref: SecretKeyRef | None = None


class ServerRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The PostgresServer by its name."""

    name: Name


_ONE_VALUE = Meta(
    extra_json_schema=_rules(
        ("has(self.value) != has(self.secretRef)", "set one of value and secretRef"),
    )
)


class Connection(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """How the operator reaches the server: serverRef, or existingSecret, or all written out."""

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
        Meta(description="Refused unless the operator's options allow it."),
    ] = None
    host: str | None = None
    port: Port | None = None
    database: str | None = None
    username: Annotated[ValueOrSecret | None, _ONE_VALUE] = None
    password: Annotated[ValueOrSecret | None, _ONE_VALUE] = None
    ssl_mode: SSLMode | None = None


_ON_LEVELS: dict[GrantLevel, tuple[Privilege, ...]] = {
    "Database": ("CONNECT", "TEMPORARY", "CREATE"),
    "Schema": ("CREATE", "USAGE"),
    "Tables": (
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
        "MAINTAIN",
    ),
    "Sequences": ("SELECT", "UPDATE", "USAGE"),
    "Routines": ("EXECUTE",),
    "Types": ("USAGE",),
}
LEVEL_PRIVILEGES: Mapping[GrantLevel, frozenset[Privilege]] = MappingProxyType(
    {level: frozenset(privileges) for level, privileges in _ON_LEVELS.items()}
)
"""What can be granted on each level, by the newest PostgreSQL; ``ALL`` is all of it."""
COLUMN_PRIVILEGES: frozenset[Privilege] = frozenset({"SELECT", "INSERT", "UPDATE", "REFERENCES"})


_NAMED_LEVELS: tuple[GrantLevel, ...] = ("Tables", "Sequences", "Routines", "Types")
_ON = "(has(self.on) ? self.on : (has(self.__true__) ? self.__true__ : ''))"


def _listed(words: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _fits_level() -> str:
    """A CEL rule: the privileges are those of the level.

    A map of levels would be shorter, but a server that estimates costs knows the size of a list
    only where it is written out.
    """
    levels = " || ".join(
        f"({_ON} == '{level}' && self.privileges.all(p, p in {_listed((*known, 'ALL'))}))"
        for level, known in _ON_LEVELS.items()
    )
    return f"!has(self.privileges) || {_ON} == '' || {levels}"


class IncludeFuture(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Default privileges: what is created later gets the same privileges at once."""

    owned_by: Annotated[
        list[Identifier],
        Meta(
            max_length=16,
            description=(
                "The roles that create; default the schema's owner, and the database's where that"
                " is pg_database_owner."
            ),
        ),
    ] = []


_GRANT_RULES = _rules(
    ("has(self.privileges) != has(self.access)", "set one of privileges and access"),
    (
        f"!has(self.access) || ({_ON} == '' && !has(self.names) && !has(self.columns))",
        "access is for a whole schema: remove on, names and columns",
    ),
    (
        f"!has(self.names) || {_ON} in {_listed(_NAMED_LEVELS)}",
        "names need on: Tables, Sequences, Routines or Types",
    ),
    (
        (
            f"!has(self.columns) || ({_ON} == 'Tables' && has(self.names) && has(self.privileges)"
            f" && self.privileges.all(p, p in {_listed((*sorted(COLUMN_PRIVILEGES), 'ALL'))}))"
        ),
        (
            "columns need on: Tables, names, and no privileges but SELECT, INSERT, UPDATE and"
            " REFERENCES"
        ),
    ),
    (
        f"!has(self.includeFuture) || (!has(self.names) && !({_ON} in ['Database', 'Schema']))",
        "includeFuture is for all tables, sequences, routines or types of a schema",
    ),
    (
        f"!has(self.privileges) || !('ALL' in self.privileges) || {_ON} != ''",
        "ALL needs on, for each level has privileges of its own",
    ),
    (_fits_level(), "privileges has one that cannot be granted on this level"),
)


class Grant(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Privileges in one database: on itself, on a schema, or on what is in the schema.

    Without ``on``, CONNECT and TEMPORARY apply to the database, CREATE and USAGE to the schema,
    EXECUTE to all its routines and the others to all its tables and views.
    """

    database: Identifier
    schema: Identifier = "public"
    on: Annotated[
        GrantLevel | None,
        Meta(
            description=(
                "What the privileges are on; default what each of them implies. YAML wants the"
                ' name in quotes: "on".'
            )
        ),
    ] = None
    on_unquoted: Annotated[
        GrantLevel | None,
        Meta(description="The same as on: what YAML makes of that name without quotes."),
    ] = msgspec.field(name="true", default=None)
    names: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=512)]],
        Meta(
            min_length=1,
            max_length=128,
            description=(
                "The objects, default all that are in the schema. A routine is named by its name,"
                " or by name(type, ...) with the types of its input arguments."
            ),
        ),
    ] = []
    columns: Annotated[
        list[Identifier],
        Meta(min_length=1, max_length=64, description="Columns of the tables named, alone."),
    ] = []
    privileges: Annotated[
        list[Privilege],
        Meta(
            min_length=1,
            max_length=16,
            description="ALL is all that the level and the server's version know.",
            extra_json_schema=_rules(
                (
                    "!self.exists(p, p == 'SET' || p == 'ALTER SYSTEM')",
                    "SET and ALTER SYSTEM are server parameters' privileges, not granted here",
                ),
            ),
        ),
    ] = []
    access: Annotated[
        Bundle | None,
        Meta(
            description=(
                "In place of privileges: what reading, writing, or everything in the schema needs,"
                " CONNECT included, on what there is and on what its owner creates later."
            )
        ),
    ] = None
    grant_option: Annotated[
        bool, Meta(description="Whether the role may pass the privileges on.")
    ] = False
    include_future: Annotated[
        IncludeFuture | None,
        Meta(description="Default privileges for what is created later."),
    ] = None

    @property
    def level(self) -> GrantLevel | None:
        """``on``, quoted or not."""
        return self.on or self.on_unquoted


class PostgresAccessSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The role, its grants and the Secret to log in with."""

    generated_secret: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="The Secret to write; the operator makes it and owns it.",
        ),
    ]
    username: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=63,
            description="The role's name, taken as it is: case counts. It cannot be changed.",
            extra_json_schema=_rules(("self == oldSelf", "username cannot be changed")),
        ),
    ]
    connection: Connection
    grants: Annotated[
        list[Annotated[Grant, Meta(extra_json_schema=_GRANT_RULES)]], Meta(max_length=64)
    ] = []
    grants_policy: Annotated[
        GrantsPolicy,
        Meta(
            description=(
                "Authoritative revokes what the role holds beside its grants, in their databases;"
                " Additive only what this object has granted before."
            ),
            extra_json_schema={"x-default": "Authoritative"},
        ),
    ] = "Authoritative"
    cleanup_policy: Annotated[
        CleanupPolicy,
        Meta(
            description=(
                "What becomes of the role on deletion. Restrict waits while it owns anything,"
                " Cascade drops what it owns, Orphan gives that to the database's owner, Retain"
                " leaves the role without its login."
            ),
            extra_json_schema={"x-default": "Restrict"},
        ),
    ] = "Restrict"


class Binding(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The Provisioned Service duck type of the Service Binding specification."""

    name: str = ""


class ServerInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The server that answered."""

    host: str = ""
    version: str = ""
    system_identifier: str = ""


class PostgresAccessStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What the last pass found."""

    conditions: Annotated[list[Condition], _CONDITIONS] = []
    last_reconcile_state: ReconcileState | None = None
    last_log: str = ""
    observed_generation: int = 0
    binding: Binding | None = None
    username: str = ""
    server: ServerInfo | None = None
    applied_grants: list[str] = []
    warnings: list[str] = []


class PostgresAccess(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A PostgreSQL role with its grants and a Secret to log in with."""

    api_version: str = POSTGRESACCESSES.api_version
    kind: str = POSTGRESACCESSES.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PostgresAccessSpec
    status: PostgresAccessStatus = msgspec.field(default_factory=PostgresAccessStatus)


class SecretRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A Secret in the operator's own namespace."""

    name: Name


class CASecretRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A Secret in the operator's own namespace, and the key that holds CA certificates."""

    name: Name
    key: Name = "ca.crt"


class LabelSelectorRequirement(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """``metav1.LabelSelectorRequirement``."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class NamespaceSelector(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """``metav1.LabelSelector`` over namespaces' labels; the empty one selects all."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class PostgresServerSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Where the server is, its administrator's credentials, and who may use it for what."""

    host: Annotated[str, Meta(min_length=1, description="Where the operator reaches it.")]
    port: Port = 5432
    database: Annotated[
        Identifier, Meta(description="The maintenance database, where role work is serialised.")
    ] = "postgres"
    credentials_secret_ref: Annotated[
        SecretRef,
        Meta(description="A Secret with username and password in the operator's namespace."),
    ]
    ssl_mode: SSLMode = "verify-full"
    ca_secret_ref: CASecretRef | None = None
    external_host: Annotated[
        str, Meta(description="Where clients reach it, for the generated Secret; default host.")
    ] = ""
    external_port: Port | None = None
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


class PostgresServerStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Whether the server answers to its administrator."""

    conditions: Annotated[list[Condition], _CONDITIONS] = []
    observed_generation: int = 0
    version: str = ""
    system_identifier: str = ""


class PostgresServer(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A PostgreSQL server that the platform's team offers to namespaces."""

    api_version: str = POSTGRESSERVERS.api_version
    kind: str = POSTGRESSERVERS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PostgresServerSpec
    status: PostgresServerStatus = msgspec.field(default_factory=PostgresServerStatus)


ACCESS_COLUMNS = (
    PrinterColumn("Status", ".status.lastReconcileState"),
    PrinterColumn("User", ".spec.username"),
    PrinterColumn("Server", ".status.server.host"),
    AGE,
    PrinterColumn("LastLog", ".status.lastLog", priority=1),
)
SERVER_COLUMNS = (
    PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    PrinterColumn("Host", ".spec.host"),
    PrinterColumn("Version", ".status.version"),
    AGE,
    PrinterColumn("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
)


def crds(*, exported: bool = False) -> list[JSON]:
    """The CRDs of this group.

    Args:
        exported: label PostgresAccess for export by kube-bind.
    """
    labels = {PROVISIONED_SERVICE_LABEL: "true"}
    if exported:
        labels[EXPORTED_LABEL] = "true"
    return [
        build_crd(
            POSTGRESACCESSES,
            [Version("v1", PostgresAccess, columns=ACCESS_COLUMNS)],
            labels=labels,
            short_names=["pgaccess"],
        ),
        build_crd(
            POSTGRESSERVERS,
            [Version("v1", PostgresServer, columns=SERVER_COLUMNS)],
            short_names=["pgserver"],
        ),
    ]
