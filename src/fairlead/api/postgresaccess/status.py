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
    """The generated Secret, once its login works."""

    name: Annotated[str, Meta(description="Name of the Secret.")] = ""
    uid: Annotated[str, Meta(description="Its uid.")] = ""
    uris: Annotated[
        Uris | None,
        Meta(description="The form of its URIs, which one that is made anew keeps."),
    ] = None


class PasswordInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The password that the server has, as a keyed hash; times are RFC 3339 in UTC."""

    fingerprint: Annotated[str, Meta(description="A keyed hash of the password.")] = ""
    changed_at: Annotated[str, Meta(description="When the password was last changed.")] = ""
    next_rotation: Annotated[str, Meta(description="When the next password is due.")] = ""
    open_sessions: Annotated[
        int,
        Meta(
            description=(
                "How many sessions of the login were open when it got this password. They go on,"
                " whether a client or a pooler has opened them."
            )
        ),
    ] = 0


class SessionsInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The end of open sessions that annotation end-sessions-at has asked for last."""

    request: Annotated[str, Meta(description="Value of the annotation that was carried out.")] = ""
    ended_at: Annotated[str, Meta(description="When it was carried out, in RFC 3339.")] = ""
    ended: Annotated[int, Meta(description="How many sessions of the logins were ended.")] = 0
    left: Annotated[int, Meta(description="How many of them were still open after that.")] = 0


class LoginInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A role to log in with: the ``current`` one is in the Secret.

    The others end, or have ended, at ``ends_at``, in RFC 3339.
    """

    name: Annotated[str, Meta(description="Name of the role.")]
    current: Annotated[bool, Meta(description="Whether this login is in the Secret.")] = False
    ends_at: Annotated[str, Meta(description="When the login ends, or has ended.")] = ""


class ServerInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The server that answered."""

    host: Annotated[str, Meta(description="Host of the server.")] = ""
    version: Annotated[str, Meta(description="Version of PostgreSQL.")] = ""
    system_identifier: Annotated[
        str, Meta(description="PostgreSQL's own identifier of the database cluster.")
    ] = ""


class Plan(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Statements that would be executed in the server; passwords are shown as ***.

    ``digest`` identifies all statements, of which the first are listed. ``approved_digest`` is the
    digest of the last approved plan that was carried out, ``approved_by`` names the field manager
    that wrote the approval, and the time. An approval is valid once.

    With spec.approval Manual the hashes of the statements prove what was approved: ``parts`` are
    those that are left, ``done`` those that were carried out by the present approval.
    """

    digest: Annotated[str, Meta(description="Names the plan; an approval repeats it.")] = ""
    statements: Annotated[list[str], Meta(description="The first statements.")] = []
    total: Annotated[int, Meta(description="How many statements there are.")] = 0
    approved_digest: Annotated[
        str, Meta(description="The plan that was last approved and carried out.")
    ] = ""
    approved_by: Annotated[str, Meta(description="Who wrote that approval, and when.")] = ""
    parts: Annotated[
        list[str], Meta(description="Hashes of the statements that wait or are left.")
    ] = []
    done: Annotated[
        list[str], Meta(description="Hashes of those that this plan's approval has carried out.")
    ] = []


class Blockers(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Objects that a role owns in one database."""

    database: Annotated[str, Meta(description="The database.")]
    objects: Annotated[list[str], Meta(description="What the role owns there.")] = []


class Deletion(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Objects that a deletion waits for; ``truncated`` if there are more than are listed.

    ``removed`` of ``total`` objects and privileges are gone, where they go in pieces.
    """

    blockers: Annotated[
        list[Blockers], Meta(description="What the role still owns, database by database.")
    ] = []
    truncated: Annotated[bool, Meta(description="Whether there is more than is listed.")] = False
    removed: Annotated[
        int, Meta(description="How many objects and privileges of the role are gone so far.")
    ] = 0
    total: Annotated[
        int, Meta(description="How many objects and privileges the role had at the begin.")
    ] = 0


class PostgresAccessStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Result of the last pass."""

    conditions: Annotated[
        list[Condition],
        _CONDITIONS,
        Meta(description="Whether login and grants are as asked for."),
    ] = []
    last_reconcile_state: Annotated[
        ReconcileState | None, Meta(description="How the last pass ended.")
    ] = None
    last_log: Annotated[str, Meta(description="What the last pass says, in words.")] = ""
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
        # As UNSEEN has it: no generation is -1, so that such a status is of no spec.
    ] = -1
    binding: Binding | None = None
    username: Annotated[str, Meta(description="The role that the access has made.")] = ""
    secret: SecretInfo | None = None
    password: PasswordInfo | None = None
    sessions: SessionsInfo | None = None
    logins: Annotated[
        list[LoginInfo],
        Meta(
            description="Which login is in the Secret, and when others end; only of two in turn."
        ),
    ] = []
    server: ServerInfo | None = None
    applied_grants: Annotated[
        list[str], Meta(description="The privileges that the access has granted.")
    ] = []
    group: Annotated[str, Meta(description="The shared group role that holds the privileges.")] = (
        ""
    )
    warnings: Annotated[list[str], Meta(description="What works and is worth a look.")] = []
    plan: Plan | None = None
    expires_at: Annotated[
        str, Meta(description="When the login ends, by expiresAfter or attributes.validUntil.")
    ] = ""
    deletion: Deletion | None = None
