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
    """The servers that an access may name without a PostgresServer."""

    policy: Annotated[
        ConnectionsPolicy,
        Meta(
            description=(
                "Allowed accepts every connection, Forbidden none, Listed only those to hosts."
                " The operator neither resolves nor contacts the host of a connection that it"
                " refuses."
            )
        ),
    ] = "Allowed"
    hosts: Annotated[
        list[Pattern],
        Meta(
            max_length=256,
            description=(
                "Hosts with or without a port, such as *.databases.svc, db.example.org:5432 or"
                " 10.1.0.0/16. * matches any text, and {namespace} is the access's namespace."
                " Networks match hosts that are given as IP addresses. Only for these hosts does"
                " the status say why a connection failed."
            ),
            extra_json_schema=_SET,
        ),
    ] = []


class PostgresSettings(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings that apply to all PostgresAccesses."""

    excluded_users: Annotated[
        Roles, Meta(description="Roles that the operator never makes, changes or drops.")
    ] = []
    excluded_user_patterns: Annotated[
        Patterns, Meta(description="Patterns for such roles; * matches any text.")
    ] = []
    unmanaged_users: Annotated[
        UnmanagedUsers | None,
        Meta(
            description=(
                "What the operator does with roles that no PostgresAccess requests: Report"
                " reports those that Fairlead made, Owned drops them, and Drop also drops logins"
                " that others made."
            )
        ),
    ] = None
    # A setting of access-operator, taken so that its manifests can be applied.
    stale_user_deletion_policy: Annotated[
        str,
        Meta(
            max_length=64,
            description="A field of access-operator without effect here; see unmanagedUsers.",
        ),
    ] = ""
    allow_adoption: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether an access with adoptionPolicy IfUnclaimed may adopt a role that a person"
                " made by hand."
            )
        ),
    ] = None
    allowed_member_of: Annotated[
        Patterns,
        Meta(
            description=(
                "Roles that memberOf may name if the PostgresServer does not set allowedMemberOf."
                " * matches any text, and {namespace} is the access's namespace."
            )
        ),
    ] = []
    connections: Annotated[
        OwnConnections | None,
        Meta(
            description="Connections that accesses may use without a PostgresServer.",
            extra_json_schema=rules(
                (
                    _HOSTS_OF_USE,
                    "hosts has no effect with policy Forbidden; remove it, or use policy Listed",
                ),
            ),
        ),
    ] = None
    synced_interval: Annotated[
        Duration | None,
        Meta(description="Time between two checks of an access that is in sync; at least 10s."),
    ] = None
    pending_interval: Annotated[
        Duration | None,
        Meta(
            description=(
                "Time between two checks of an access that waits for a person; at least 1s."
            )
        ),
    ] = None
    max_connections_per_server: Annotated[
        Annotated[int, Meta(ge=1, le=64)] | None,
        Meta(
            description=(
                "Largest number of connections to one server for work on databases; removals,"
                " passwords and checks use about eight more."
            )
        ),
    ] = None
    password_defaults: Annotated[
        PasswordPolicy | None,
        Meta(
            description="Values for the fields that the passwordPolicy of an access does not set."
        ),
    ] = None


class ControllerSettings(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the operator."""

    existing_secret_namespace: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether connections may name Secrets of other namespaces. Every tenant can then"
                " use these Secrets."
            )
        ),
    ] = None
    allowed_secret_namespaces: Annotated[
        Patterns | None,
        Meta(
            description=(
                "The namespaces that connections may name with existingSecretNamespace. * matches"
                " any text, and {namespace} is the access's namespace. Without this field: all"
                " except the operator's."
            )
        ),
    ] = None
    postgres: PostgresSettings = msgspec.field(default_factory=PostgresSettings)
    rabbitmq: Annotated[
        dict[str, Any], Meta(description="A field of access-operator without effect here.")
    ] = {}
    redis: Annotated[
        dict[str, Any], Meta(description="A field of access-operator without effect here.")
    ] = {}


class ControllerSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the operator."""

    settings: ControllerSettings = msgspec.field(default_factory=ControllerSettings)


class Accesses(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """How many accesses are in sync, and how many are not."""

    ready: Annotated[int, Meta(description="Number of accesses that are in sync.")] = 0
    failing: Annotated[int, Meta(description="Number of accesses that are not in sync.")] = 0


class ServerSummary(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """How many accesses of one PostgresServer are in sync, and how many are not."""

    name: Annotated[str, Meta(description="Name of the PostgresServer.")]
    ready: Annotated[int, Meta(description="Number of accesses that are in sync.")] = 0
    failing: Annotated[int, Meta(description="Number of accesses that are not in sync.")] = 0


class ControllerStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Conditions of the settings, and the number of accesses for each server."""

    conditions: Annotated[
        list[Condition],
        CONDITIONS,
        Meta(description="Conditions: whether the operator uses these settings."),
    ] = []
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that the status describes.")
    ] = 0
    accesses: Accesses | None = None
    own_connections: Annotated[
        Accesses | None, Meta(description="Accesses that name no PostgresServer.")
    ] = None
    servers: Annotated[
        list[ServerSummary],
        Meta(
            description="The PostgresServers with the most failing accesses, at most 64.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []


class OperatorController(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the operator. It uses the oldest Controller in its namespace."""

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
