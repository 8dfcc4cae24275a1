"""PostgresAccess: its spec, with fields beyond access-operator's, and its annotations.

A PostgresAccess asks for a PostgreSQL role with its grants and a Secret to log in with. It names
the server by a PostgresServer, which the platform's team owns, or by a connection of its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess.connection import (
    CONNECTION_RULES,
    GROUP,
    UNSEEN,
    Connection,
    Duration,
    Identifier,
    LoginPolicy,
    Name,
)
from fairlead.api.postgresaccess.connection import rules as _rules
from fairlead.api.postgresaccess.grants import GRANT_RULES, Grant
from fairlead.api.postgresaccess.server import (
    Groups,
)
from fairlead.api.postgresaccess.status import PostgresAccessStatus, Uris
from fairlead.api.resource import Resource


POSTGRESACCESSES = Resource(GROUP, "v1", "postgresaccesses", "PostgresAccess")

FINALIZER = f"{GROUP}/finalizer"
ABANDON_ANNOTATION = f"{GROUP}/abandon"
"""Annotation: with "true" a deletion proceeds without a change in the database."""
ROTATE_ANNOTATION = f"{GROUP}/rotate-at"
"""Annotation of a PostgresAccess: each new value asks for one new password.

The generated Secret has the value that its password was made for.
"""

END_SESSIONS_ANNOTATION = f"{GROUP}/end-sessions-at"
"""Annotation of a PostgresAccess: each new value ends the open sessions of its logins once.

``status.sessions`` has the value that was carried out.
"""

PROVISIONED_SERVICE_LABEL = "servicebinding.io/provisioned-service"

READY = "Ready"
SUCCESS = "Success"
IN_PROGRESS = "InProgress"
RECONCILING = "Reconciling"
STALLED = "Stalled"
EXPIRING = "Expiring"
"""Condition that holds while the end of the login is near, and after it."""
APPROVE_ANNOTATION = f"{GROUP}/approve"
"""Annotation with the digest of the approved plan, for spec.approval Manual."""


class SecretTemplate(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Labels, annotations, type and further entries of the generated Secret.

    Values of ``data`` are texts with placeholders ``{{name}}`` or ``{{name|filter}}``: the names
    are username, password, host, port, database, sslmode, uri, jdbcUri, url and jdbcUrl, the
    filters urlquote, json and b64.
    """

    labels: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(max_length=32, description="Labels of the Secret; those of others stay."),
    ] = {}
    annotations: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(max_length=32, description="Annotations of the Secret; those of others stay."),
    ] = {}
    type: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="The Secret's type, which cannot be changed.",
            extra_json_schema={"x-default": "Opaque"},
        ),
    ] = "Opaque"
    include_default_keys: Annotated[
        bool,
        Meta(
            description="False leaves username and password alone beside the keys of data.",
            extra_json_schema={"x-default": True},
        ),
    ] = True
    uris: Annotated[
        Uris | None,
        Meta(
            description=(
                "Verified ends uri and jdbc-uri with the TLS mode of the server, so that a client"
                " without its CA does not connect; Plain leaves the mode out. A Secret keeps the"
                " form that it has; a new one is Verified."
            )
        ),
    ] = None
    data: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=32,
            description=(
                "More keys, as texts with {{username}}, {{password}}, {{host}}, {{port}},"
                " {{database}}, {{sslmode}}, {{uri}}, {{jdbcUri}}, {{url}} and {{jdbcUrl}} (these"
                " two never have a TLS mode), each also with |urlquote, |json or |b64."
            ),
            extra_json_schema=_rules(
                (
                    "!('username' in self) && !('password' in self)",
                    "the keys username and password hold the login itself; choose others",
                ),
            ),
        ),
    ] = {}


class PasswordSecretRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """One key of a Secret in the object's own namespace that holds a password made elsewhere."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]
    key: Annotated[
        Name,
        Meta(
            extra_json_schema={"x-default": "password"}, description="Key that holds the password."
        ),
    ] = "password"


class MemberOf(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A group that the role is a member of."""

    role: Annotated[Identifier, Meta(description="Name of the group role.")]
    inherit: Annotated[
        bool,
        Meta(
            description=(
                "Whether the group's privileges hold at once (the default); since PostgreSQL 16."
            )
        ),
    ] = True
    set: Annotated[
        bool,
        Meta(
            description=(
                "Whether SET ROLE to the group is allowed (the default); since PostgreSQL 16."
            )
        ),
    ] = True
    admin: Annotated[
        bool, Meta(description="Whether the role may make others members of the group.")
    ] = False


class Attributes(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Attributes of the role, without those that would give it power over other roles."""

    connection_limit: Annotated[
        # The largest max_connections that PostgreSQL takes.
        Annotated[int, Meta(ge=-1, le=262143)] | None,
        Meta(description="Connections at once; -1 is no limit."),
    ] = None
    valid_until: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(
            description=(
                "Until when the password logs in, in RFC 3339. Role, Secret and grants stay;"
                " expiresAfter removes them."
            ),
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    inherit: Annotated[
        bool | None, Meta(description="INHERIT or NOINHERIT; default as the server has it.")
    ] = None
    config: Annotated[
        dict[str, Annotated[str, Meta(max_length=1024)]],
        Meta(
            max_length=32,
            description=(
                "Parameters that the role's sessions start with; others that it had are reset."
            ),
        ),
    ] = {}


GrantsPolicy = Literal["Authoritative", "Additive"]
CleanupPolicy = Literal["Restrict", "Cascade", "Orphan", "Retain"]
AdoptionPolicy = Literal["Never", "IfUnclaimed"]
Mode = Literal["Enforce", "Observe"]
Approval = Literal["Automatic", "Manual"]


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
    secret_template: Annotated[
        SecretTemplate | None,
        Meta(description="What the Secret has beside the login, and under which keys."),
    ] = None
    password_policy: Annotated[
        LoginPolicy | None,
        Meta(
            description=(
                "How the password is made, and when anew. A new one is also made for each new"
                f" value of annotation {ROTATE_ANNOTATION}, and when the Secret or its key"
                " password is deleted."
            )
        ),
    ] = None
    password_secret_ref: Annotated[
        PasswordSecretRef | None,
        Meta(
            description=(
                "A password made elsewhere, which is never changed here and taken over when it"
                " changes there."
            )
        ),
    ] = None
    connection: Annotated[Connection, CONNECTION_RULES]
    grants: Annotated[
        list[Annotated[Grant, Meta(extra_json_schema=GRANT_RULES)]],
        Meta(max_length=64, description="What the role may do, database by database."),
    ] = []
    grants_policy: Annotated[
        GrantsPolicy,
        Meta(
            description=(
                "Authoritative revokes what the role holds beside its grants, in their databases;"
                " Additive only what this object has granted before."
            ),
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
    orphan_to: Annotated[
        Identifier | None,
        Meta(
            description=(
                "The role that Orphan gives everything to; default the owner of each database. It"
                " must have no powers, and be allowed like a group of memberOf."
            )
        ),
    ] = None
    groups: Annotated[
        Groups | None,
        Meta(
            description=(
                "Deprecated. None, the default, grants to the role itself. Shared has a group role"
                " for all accesses of the server with the same grants, and is refused where none"
                " holds them yet; name a group role in memberOf. Default for accesses in a group"
                " is what the PostgresServer says. What is granted with grantOption stays the"
                " role's own."
            )
        ),
    ] = None
    member_of: Annotated[
        Annotated[list[MemberOf], Meta(max_length=32)] | None,
        Meta(
            description=(
                "Groups of the role; those that are not listed are left. Without the field"
                " memberships are left alone."
            )
        ),
    ] = None
    attributes: Attributes | None = None
    adoption_policy: Annotated[
        AdoptionPolicy,
        Meta(
            description=(
                "IfUnclaimed takes over a role that exists and was made by hand, if the"
                " operator's Controller allows it."
            ),
        ),
    ] = "Never"
    suspend: Annotated[
        bool, Meta(description="Leave role and Secret as they are; a deletion goes on.")
    ] = False
    mode: Annotated[
        Mode,
        Meta(
            description="Observe writes nothing, and tells in status.plan what would be done.",
        ),
    ] = "Enforce"
    approval: Annotated[
        Approval,
        Meta(
            description=(
                f"Manual does only what annotation {GROUP}/approve names by the digest of"
                " status.plan."
            ),
        ),
    ] = "Automatic"
    expires_after: Annotated[
        Duration | None,
        Meta(
            description=(
                "How long after its creation the access ends, such as 8h: the password logs in no"
                " more, and the role goes as cleanupPolicy says. It excludes"
                " attributes.validUntil."
            )
        ),
    ] = None


_NO_OWN_ROTATION = (
    "!(has(self.passwordSecretRef) && has(self.passwordPolicy)"
    " && has(self.passwordPolicy.rotateEvery))"
)

_NO_TURNS = (
    "!(has(self.passwordSecretRef) && has(self.passwordPolicy)"
    " && has(self.passwordPolicy.rotation) && self.passwordPolicy.rotation == 'TwoLogins')"
)
_NOTHING_TO_ROTATE = (
    "!has(self.passwordPolicy) || !has(self.passwordPolicy.onAdoption)"
    " || self.passwordPolicy.onAdoption != 'Keep' || (!has(self.passwordPolicy.rotateEvery)"
    " && (!has(self.passwordPolicy.rotation) || self.passwordPolicy.rotation == 'InPlace'))"
)
# Two logins take turns: the former one has to have ended before its next turn.
_GRACE_OF_USE = (
    "!has(self.passwordPolicy) || !has(self.passwordPolicy.gracePeriod)"
    " || !has(self.passwordPolicy.rotateEvery)"
    " || duration(self.passwordPolicy.gracePeriod) <= duration(self.passwordPolicy.rotateEvery)"
)


def _two_ends(of: str) -> str:
    """Return CEL for a spec with two fields that end the login."""
    given = f"has({of}.attributes) && has({of}.attributes.validUntil)"
    return f"(has({of}.expiresAfter) && {given})"


def _secret_type(of: str) -> str:
    """Return CEL for the type of the generated Secret; a new template may lack one."""
    given = f"has({of}.secretTemplate) && has({of}.secretTemplate.type)"
    return f"({given} ? {of}.secretTemplate.type : 'Opaque')"


_SPEC_RULES = Meta(
    extra_json_schema=_rules(
        (_NO_OWN_ROTATION, "passwordSecretRef excludes passwordPolicy.rotateEvery; remove one"),
        (_NO_TURNS, "passwordSecretRef excludes passwordPolicy.rotation TwoLogins; remove one"),
        (
            _NOTHING_TO_ROTATE,
            "passwordPolicy.onAdoption Keep excludes rotateEvery and TwoLogins; remove one",
        ),
        (_GRACE_OF_USE, "passwordPolicy.gracePeriod must not be longer than rotateEvery"),
        (
            # Objects of former versions may have both, and every write of a status is checked.
            f"!{_two_ends('self')} || {_two_ends('oldSelf')}",
            "expiresAfter excludes attributes.validUntil; remove one",
        ),
        (
            # Kubernetes lets no Secret change its type.
            f"{_secret_type('self')} == {_secret_type('oldSelf')}",
            "secretTemplate.type cannot be changed",
        ),
    )
)


class PostgresAccess(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A PostgreSQL role with its grants and a Secret to log in with."""

    api_version: str = POSTGRESACCESSES.api_version
    kind: str = POSTGRESACCESSES.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[PostgresAccessSpec, _SPEC_RULES]
    status: Annotated[PostgresAccessStatus, UNSEEN] = msgspec.field(
        default_factory=PostgresAccessStatus
    )
