"""The status of a PostgresAccess: conditions, Secret, password, server, plan and blockers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.postgresaccess.connection import CONDITIONS as _CONDITIONS


ReconcileState = Literal["Success", "InProgress", "Error"]
Uris = Literal["Verified", "Plain"]
"""Form of the URIs in a generated Secret: with the TLS mode of the server, or without one."""


class Binding(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The Provisioned Service duck type of the Service Binding specification."""

    name: Annotated[
        str, Meta(description="Name of the Secret that a ServiceBinding projects.")
    ] = ""


class SecretInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The generated Secret; set when the login in it works."""

    name: Annotated[str, Meta(description="Name of the Secret.")] = ""
    uid: Annotated[str, Meta(description="UID of the Secret.")] = ""
    uris: Annotated[
        Uris | None,
        Meta(
            description=(
                "Form of the URIs in the Secret. The operator uses it again if it creates the"
                " Secret anew."
            )
        ),
    ] = None


class PasswordInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The password on the server. Times are RFC 3339 in UTC."""

    fingerprint: Annotated[str, Meta(description="A keyed hash of the password.")] = ""
    changed_at: Annotated[str, Meta(description="When the password last changed.")] = ""
    next_rotation: Annotated[str, Meta(description="When the next password is due.")] = ""
    open_sessions: Annotated[
        int,
        Meta(
            description=(
                "Number of sessions of the login that were open when the operator set this"
                " password. They stay open, also those of poolers."
            )
        ),
    ] = 0


class SessionsInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Result of the last value of the annotation end-sessions-at."""

    request: Annotated[str, Meta(description="Value of the annotation.")] = ""
    ended_at: Annotated[
        str, Meta(description="When the operator ended the sessions, in RFC 3339.")
    ] = ""
    ended: Annotated[int, Meta(description="Number of sessions that the operator ended.")] = 0
    left: Annotated[
        int, Meta(description="Number of these sessions that were still open afterwards.")
    ] = 0


class LoginInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A role with which clients of the access log in."""

    name: Annotated[str, Meta(description="Name of the role.")]
    current: Annotated[bool, Meta(description="Whether this login is in the Secret.")] = False
    ends_at: Annotated[str, Meta(description="When the login ends or ended, in RFC 3339.")] = ""


class ServerInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The server on which the role is."""

    host: Annotated[str, Meta(description="Host of the server.")] = ""
    version: Annotated[str, Meta(description="Version of PostgreSQL.")] = ""
    system_identifier: Annotated[
        str,
        Meta(description="System identifier of the database cluster, as PostgreSQL reports it."),
    ] = ""


class Plan(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Statements that the operator would execute on the server, with *** for passwords.

    The digest covers all statements, also those that are not listed. An approval is valid once.
    With spec.approval Manual the hashes in parts and done prove what was approved.
    """

    digest: Annotated[
        str,
        Meta(
            description=(
                "Digest of the plan. To approve the plan, set the annotation to this digest."
            )
        ),
    ] = ""
    statements: Annotated[list[str], Meta(description="The first statements of the plan.")] = []
    total: Annotated[int, Meta(description="Number of statements in the plan.")] = 0
    approved_digest: Annotated[
        str, Meta(description="Digest of the last approved plan that the operator carried out.")
    ] = ""
    approved_by: Annotated[
        str, Meta(description="Field manager that wrote that approval, and the time.")
    ] = ""
    parts: Annotated[
        list[str], Meta(description="Hashes of the statements that are still to be executed.")
    ] = []
    done: Annotated[
        list[str],
        Meta(
            description=(
                "Hashes of the statements that the operator executed under the present approval."
            )
        ),
    ] = []


class Blockers(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Objects that a role owns in one database."""

    database: Annotated[str, Meta(description="Name of the database.")]
    objects: Annotated[
        list[str], Meta(description="Objects that the role owns in this database.")
    ] = []


class Deletion(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Objects for which a deletion waits, and its progress if the operator works in pieces."""

    blockers: Annotated[
        list[Blockers], Meta(description="Objects that the role still owns, for each database.")
    ] = []
    truncated: Annotated[
        bool, Meta(description="Whether the role owns more objects than this list contains.")
    ] = False
    removed: Annotated[
        int,
        Meta(description="Number of objects and privileges that the operator has removed so far."),
    ] = 0
    total: Annotated[
        int, Meta(description="Number of objects and privileges that the role had at the start.")
    ] = 0


class PostgresAccessStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Result of the last reconciliation."""

    conditions: Annotated[
        list[Condition],
        _CONDITIONS,
        Meta(description="Conditions: whether the login and the grants match the spec."),
    ] = []
    last_reconcile_state: Annotated[
        ReconcileState | None, Meta(description="Result of the last reconciliation.")
    ] = None
    last_log: Annotated[str, Meta(description="Message of the last reconciliation.")] = ""
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that the status describes.")
        # As UNSEEN has it: no generation is -1, so that such a status is of no spec.
    ] = -1
    binding: Binding | None = None
    username: Annotated[str, Meta(description="Name of the access's role on the server.")] = ""
    secret: SecretInfo | None = None
    password: PasswordInfo | None = None
    sessions: SessionsInfo | None = None
    logins: Annotated[
        list[LoginInfo],
        Meta(
            description="The logins that take turns in the Secret; only with rotation TwoLogins."
        ),
    ] = []
    server: ServerInfo | None = None
    applied_grants: Annotated[
        list[str], Meta(description="Privileges that the operator granted for this access.")
    ] = []
    group: Annotated[
        str,
        Meta(description="Shared group role that has the privileges; only with groups Shared."),
    ] = ""
    warnings: Annotated[
        list[str], Meta(description="Hints about things that work and that you should look at.")
    ] = []
    plan: Plan | None = None
    expires_at: Annotated[
        str,
        Meta(
            description="When the login ends, according to expiresAfter or attributes.validUntil."
        ),
    ] = ""
    deletion: Deletion | None = None
