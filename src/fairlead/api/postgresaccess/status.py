"""The status of a PostgresAccess: what became of it, where, and what stands in the way."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.postgresaccess.connection import CONDITIONS as _CONDITIONS


ReconcileState = Literal["Success", "InProgress", "Error"]


class Binding(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The Provisioned Service duck type of the Service Binding specification."""

    name: str = ""


class SecretInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The generated Secret, once its login works."""

    name: str = ""
    uid: str = ""


class PasswordInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The password that the server has, as a keyed hash; times are RFC 3339 in UTC."""

    fingerprint: str = ""
    changed_at: str = ""
    next_rotation: str = ""


class LoginInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A role to log in with: the ``current`` one is in the Secret.

    The others end, or have ended, at ``ends_at``, in RFC 3339.
    """

    name: str
    current: bool = False
    ends_at: str = ""


class ServerInfo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The server that answered."""

    host: str = ""
    version: str = ""
    system_identifier: str = ""


class Plan(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What would be done in the server; passwords are ***.

    ``digest`` names all statements, of which the first are listed. ``approved_digest`` is that of
    the plan that was approved and carried out last, ``approved_by`` the manager of fields that
    wrote the approval, and when. An approval is good for one time.
    """

    digest: str = ""
    statements: list[str] = []
    total: int = 0
    approved_digest: str = ""
    approved_by: str = ""


class Blockers(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What a role owns in one database."""

    database: str
    objects: list[str] = []


class Deletion(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What a deletion waits for; ``truncated`` says that there is more than is listed."""

    blockers: list[Blockers] = []
    truncated: bool = False


class PostgresAccessStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What the last pass found."""

    conditions: Annotated[list[Condition], _CONDITIONS] = []
    last_reconcile_state: ReconcileState | None = None
    last_log: str = ""
    observed_generation: int = -1
    binding: Binding | None = None
    username: str = ""
    secret: SecretInfo | None = None
    password: PasswordInfo | None = None
    logins: Annotated[
        list[LoginInfo],
        Meta(
            description="Which login is in the Secret, and when others end; only of two in turn."
        ),
    ] = []
    server: ServerInfo | None = None
    applied_grants: list[str] = []
    group: str = ""
    warnings: list[str] = []
    plan: Plan | None = None
    expires_at: str = ""
    deletion: Deletion | None = None
