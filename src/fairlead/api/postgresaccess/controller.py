"""Controller: the operator's settings as an object; the oldest in its namespace is in force.

The kind and the fields ``existingSecretNamespace``, ``excludedUsers``, ``rabbitmq`` and ``redis``
are access-operator's (https://github.com/delta10/access-operator), the others Fairlead's. Fields
that a Controller leaves out have the values of the operator's flags.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.crd import AGE, PrinterColumn
from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess.connection import (
    CONDITIONS,
    GROUP,
    Duration,
    PasswordPolicy,
    Pattern,
    rules,
)
from fairlead.api.resource import Resource


CONTROLLERS = Resource(GROUP, "v1", "controllers", "Controller")

UnmanagedUsers = Literal["Report", "Owned", "Drop"]
ConnectionsPolicy = Literal["Allowed", "Forbidden", "Listed"]

_SET = {"x-kubernetes-list-type": "set"}
"""Schema keys of a list in which API servers refuse duplicates."""
Roles = Annotated[list[str], Meta(max_length=1024, extra_json_schema=_SET)]
Patterns = Annotated[list[Pattern], Meta(max_length=256, extra_json_schema=_SET)]


_HOSTS_OF_USE = (
    "!has(self.policy) || self.policy != 'Forbidden' || !has(self.hosts) || size(self.hosts) == 0"
)


class OwnConnections(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Rule for the servers that an access may name without a PostgresServer."""

    policy: Annotated[
        ConnectionsPolicy,
        Meta(
            description=(
                "Allowed takes any, Forbidden none, Listed those of hosts. Nothing is looked up or"
                " connected to for one that is refused."
            )
        ),
    ] = "Allowed"
    hosts: Annotated[
        list[Pattern],
        Meta(
            max_length=256,
            description=(
                "Hosts with or without a port, such as *.databases.svc, db.example.org:5432 or"
                " 10.1.0.0/16: * stands for anything, {namespace} for the access's namespace."
                " Networks are for addresses that are written out. Why a connection to one of them"
                " fails is told in full."
            ),
            extra_json_schema=_SET,
        ),
    ] = []


class PostgresSettings(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings that apply to all PostgresAccesses."""

    excluded_users: Annotated[
        Roles, Meta(description="Roles that are never made, changed or dropped.")
    ] = []
    excluded_user_patterns: Annotated[
        Patterns, Meta(description="The same for all roles like these: * stands for anything.")
    ] = []
    unmanaged_users: Annotated[
        UnmanagedUsers | None,
        Meta(
            description=(
                "What becomes of roles that no PostgresAccess asks for: Report tells of those that"
                " Fairlead made, Owned drops these, and Drop also logins that others made."
            )
        ),
    ] = None
    # A setting of access-operator, taken so that its manifests can be applied.
    stale_user_deletion_policy: Annotated[
        str, Meta(max_length=64, description="Accepted and left alone; see unmanagedUsers.")
    ] = ""
    allow_adoption: Annotated[
        bool | None,
        Meta(description="Whether an access may take over a role that has no owner."),
    ] = None
    allowed_member_of: Annotated[
        Patterns,
        Meta(
            description=(
                "Roles that memberOf may name where no PostgresServer says so: * stands for"
                " anything, {namespace} for the access's namespace."
            )
        ),
    ] = []
    connections: Annotated[
        OwnConnections | None,
        Meta(
            description="Whether accesses may bring connections of their own.",
            extra_json_schema=rules(
                (_HOSTS_OF_USE, "hosts are of no use with policy Forbidden"),
            ),
        ),
    ] = None
    synced_interval: Annotated[
        Duration | None, Meta(description="Between looks at what is in sync, at least 10s.")
    ] = None
    pending_interval: Annotated[
        Duration | None, Meta(description="Between looks at what waits for others, at least 1s.")
    ] = None
    max_connections_per_server: Annotated[
        Annotated[int, Meta(ge=1, le=64)] | None,
        Meta(description="Connections that the operator has to one server at once."),
    ] = None
    password_defaults: Annotated[
        PasswordPolicy | None, Meta(description="Where an access does not say.")
    ] = None


class ControllerSettings(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the operator; sections of RabbitMQ and Redis are accepted without effect."""

    existing_secret_namespace: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether connections may name Secrets of other namespaces than their own, which"
                " gives every tenant the use of them."
            )
        ),
    ] = None
    allowed_secret_namespaces: Annotated[
        Patterns | None,
        Meta(
            description=(
                "With existingSecretNamespace, the namespaces that may be named: * stands for"
                " anything, {namespace} for the access's own; without it all but the operator's."
            )
        ),
    ] = None
    postgres: PostgresSettings = msgspec.field(default_factory=PostgresSettings)
    rabbitmq: Annotated[dict[str, Any], Meta(description="Accepted and left alone.")] = {}
    redis: Annotated[dict[str, Any], Meta(description="Accepted and left alone.")] = {}


class ControllerSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The wanted settings."""

    settings: ControllerSettings = msgspec.field(default_factory=ControllerSettings)


class Accesses(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Numbers of accesses that are in sync and that are not."""

    ready: Annotated[int, Meta(description="How many are in sync.")] = 0
    failing: Annotated[int, Meta(description="How many are not.")] = 0


class ServerSummary(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Numbers of accesses of one PostgresServer that are in sync and that are not."""

    name: Annotated[str, Meta(description="Name of the PostgresServer.")]
    ready: Annotated[int, Meta(description="How many accesses are in sync.")] = 0
    failing: Annotated[int, Meta(description="How many are not.")] = 0


class ControllerStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Conditions of the settings, and numbers of accesses by server."""

    conditions: Annotated[
        list[Condition], CONDITIONS, Meta(description="Whether the settings are in force.")
    ] = []
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
    ] = 0
    accesses: Accesses | None = None
    own_connections: Annotated[
        Accesses | None, Meta(description="Those that name no PostgresServer.")
    ] = None
    servers: Annotated[
        list[ServerSummary],
        Meta(
            description="Those with the most failing accesses, at most 64.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []


class OperatorController(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The operator's settings: the oldest in the operator's namespace counts."""

    api_version: str = CONTROLLERS.api_version
    kind: str = CONTROLLERS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ControllerSpec = msgspec.field(default_factory=ControllerSpec)
    status: ControllerStatus = msgspec.field(default_factory=ControllerStatus)


CONTROLLER_COLUMNS = (
    PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    PrinterColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    PrinterColumn("In sync", ".status.accesses.ready", type="integer"),
    PrinterColumn("Failing", ".status.accesses.failing", type="integer"),
    AGE,
    PrinterColumn("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
)
