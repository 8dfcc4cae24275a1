"""``access.k8s.delta10.nl/v1``: PostgresAccess as upstream has it, and the CRDs of its group.

A PostgresAccess asks for a PostgreSQL role with its grants and a Secret to log in with. It names
the server by a PostgresServer, which the platform's team owns, or by a connection of its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.postgresconnection import CONDITIONS as _CONDITIONS
from fairlead.api.postgresconnection import CONNECTION_RULES, GROUP, Connection, Identifier
from fairlead.api.postgresconnection import rules as _rules
from fairlead.api.postgrescontroller import CONTROLLER_COLUMNS, CONTROLLERS, Controller
from fairlead.api.postgresserver import POSTGRESSERVERS, SERVER_COLUMNS, PostgresServer
from fairlead.api.resource import Resource


POSTGRESACCESSES = Resource(GROUP, "v1", "postgresaccesses", "PostgresAccess")

FINALIZER = f"{GROUP}/finalizer"
ABANDON_ANNOTATION = f"{GROUP}/abandon"
"""Set to "true", it lets a deletion go on without touching the database."""

PROVISIONED_SERVICE_LABEL = "servicebinding.io/provisioned-service"
EXPORTED_LABEL = "kube-bind.io/exported"

READY = "Ready"
SUCCESS = "Success"
IN_PROGRESS = "InProgress"

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
]
CleanupPolicy = Literal["Restrict", "Cascade", "Orphan", "Retain"]
ReconcileState = Literal["Success", "InProgress", "Error"]


class Grant(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Privileges in one schema of one database.

    CONNECT and TEMPORARY apply to the database, CREATE and USAGE to the schema, EXECUTE to all
    its routines and the others to all its tables and views.
    """

    database: Identifier
    schema: Identifier = "public"
    privileges: Annotated[
        list[Privilege],
        Meta(
            min_length=1,
            max_length=15,
            extra_json_schema=_rules(
                (
                    "!self.exists(p, p == 'SET' || p == 'ALTER SYSTEM')",
                    "SET and ALTER SYSTEM are server parameters' privileges, not granted here",
                ),
            ),
        ),
    ]


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
    connection: Annotated[Connection, CONNECTION_RULES]
    grants: Annotated[list[Grant], Meta(max_length=64)] = []
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


ACCESS_COLUMNS = (
    PrinterColumn("Status", ".status.lastReconcileState"),
    PrinterColumn("User", ".spec.username"),
    PrinterColumn("Server", ".status.server.host"),
    AGE,
    PrinterColumn("LastLog", ".status.lastLog", priority=1),
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
            categories=["fairlead"],
        ),
        build_crd(
            CONTROLLERS,
            [Version("v1", Controller, columns=CONTROLLER_COLUMNS)],
            short_names=["actrl"],
            categories=["fairlead"],
        ),
    ]
