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
    """Labels, annotations, type and additional keys of the generated Secret.

    Values of ``data`` are texts with placeholders ``{{name}}`` or ``{{name|filter}}``: the names
    are username, password, host, port, database, sslmode, uri, jdbcUri, url and jdbcUrl, the
    filters urlquote, json and b64.
    """

    labels: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(
            max_length=32,
            description="Labels of the Secret; the operator keeps labels that others add.",
        ),
    ] = {}
    annotations: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=32,
            description=(
                "Annotations of the Secret; the operator keeps annotations that others add."
            ),
        ),
    ] = {}
    type: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="Type of the Secret. You cannot change it later.",
            extra_json_schema={"x-default": "Opaque"},
        ),
    ] = "Opaque"
    include_default_keys: Annotated[
        bool,
        Meta(
            description="With False the Secret has only username, password and the keys in data.",
            extra_json_schema={"x-default": True},
        ),
    ] = True
    uris: Annotated[
        Uris | None,
        Meta(
            description=(
                "Verified adds the TLS mode to uri and jdbc-uri, so that a client without the"
                " server's CA does not connect; Plain omits it. Without this field a Secret keeps"
                " the form that it has, and a new Secret is Verified."
            )
        ),
    ] = None
    data: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=32,
            description=(
                "Additional keys. A value is a text with the placeholders {{username}},"
                " {{password}}, {{host}}, {{port}}, {{database}}, {{sslmode}}, {{uri}},"
                " {{jdbcUri}}, {{url}} and {{jdbcUrl}}; the last two have no TLS mode. Filters"
                " are |urlquote, |json and |b64, as in {{password|json}}."
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
    """A Secret in the access's namespace, and its key that has the password."""

    name: Annotated[Name, Meta(description="Name of the Secret.")]
    key: Annotated[
        Name,
        Meta(
            extra_json_schema={"x-default": "password"}, description="Key that has the password."
        ),
    ] = "password"


class MemberOf(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A group role of which the role is a member."""

    role: Annotated[Identifier, Meta(description="Name of the group role.")]
    inherit: Annotated[
        bool,
        Meta(
            description=(
                "Whether the role inherits the group's privileges; default true. Needs PostgreSQL"
                " 16."
            )
        ),
    ] = True
    set: Annotated[
        bool,
        Meta(
            description=(
                "Whether the role may SET ROLE to the group; default true. Needs PostgreSQL 16."
            )
        ),
    ] = True
    admin: Annotated[
        bool, Meta(description="Whether the role may add and remove members of the group.")
    ] = False


class Attributes(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Attributes of the role; none of them gives it power over other roles."""

    connection_limit: Annotated[
        # The largest max_connections that PostgreSQL takes.
        Annotated[int, Meta(ge=-1, le=262143)] | None,
        Meta(
            description=(
                "Largest number of simultaneous connections of the role; -1 means no limit."
            )
        ),
    ] = None
    valid_until: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(
            description=(
                "Time after which the password is not valid any more, in RFC 3339. Role, Secret"
                " and grants stay; use expiresAfter to remove them."
            ),
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    inherit: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether the role has INHERIT (true) or NOINHERIT (false). Without this field"
                " the operator does not change it."
            )
        ),
    ] = None
    config: Annotated[
        dict[str, Annotated[str, Meta(max_length=1024)]],
        Meta(
            max_length=32,
            description=(
                "Configuration parameters for the role's sessions. The operator resets those that"
                " are not listed here."
            ),
        ),
    ] = {}


GrantsPolicy = Literal["Authoritative", "Additive"]
CleanupPolicy = Literal["Restrict", "Cascade", "Orphan", "Retain"]
AdoptionPolicy = Literal["Never", "IfUnclaimed"]
Mode = Literal["Enforce", "Observe"]
Approval = Literal["Automatic", "Manual"]


class PostgresAccessSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The role, its grants, and the Secret with its login."""

    generated_secret: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="Name of the Secret that the operator creates and owns.",
        ),
    ]
    username: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=63,
            description="Name of the role, case-sensitive. You cannot change it later.",
            extra_json_schema=_rules(("self == oldSelf", "username cannot be changed")),
        ),
    ]
    secret_template: Annotated[
        SecretTemplate | None,
        Meta(description="Labels, annotations, type and keys of the generated Secret."),
    ] = None
    password_policy: Annotated[
        LoginPolicy | None,
        Meta(
            description=(
                "How the operator makes the password, and when it rotates it. It also makes a new"
                f" password for each new value of annotation {ROTATE_ANNOTATION}, and if you"
                " delete the Secret or empty its key password."
            )
        ),
    ] = None
    password_secret_ref: Annotated[
        PasswordSecretRef | None,
        Meta(
            description=(
                "A Secret with a password that you supply. The operator never changes this"
                " password, and follows changes in the Secret."
            )
        ),
    ] = None
    connection: Annotated[Connection, CONNECTION_RULES]
    grants: Annotated[
        list[Annotated[Grant, Meta(extra_json_schema=GRANT_RULES)]],
        Meta(
            max_length=64, description="Privileges of the role. Each item applies to one database."
        ),
    ] = []
    grants_policy: Annotated[
        GrantsPolicy,
        Meta(
            description=(
                "Authoritative revokes all privileges that the role has beyond its grants, in the"
                " databases of the grants. Additive revokes only privileges that this access"
                " granted before."
            ),
        ),
    ] = "Authoritative"
    cleanup_policy: Annotated[
        CleanupPolicy,
        Meta(
            description=(
                "What the operator does with the role when you delete the access. Restrict waits"
                " until the role owns nothing, Cascade drops the role's objects, Orphan gives"
                " them to the database's owner or orphanTo, Retain keeps the role but disables"
                " its login."
            ),
            extra_json_schema={"x-default": "Restrict"},
        ),
    ] = "Restrict"
    orphan_to: Annotated[
        Identifier | None,
        Meta(
            description=(
                "The role to which Orphan gives the objects; by default the owner of each"
                " database. The role must have no powers, and allowedMemberOf must allow it."
            )
        ),
    ] = None
    groups: Annotated[
        Groups | None,
        Meta(
            description=(
                "Deprecated: name a group role in memberOf instead. With None the operator grants"
                " to the role itself. With Shared it grants to a group role, which all accesses"
                " of the server with the same grants share; it refuses Shared if no group has"
                " these grants yet. For accesses that are in a group, the default is groups of"
                " the PostgresServer; for all others it is None. Grants with grantOption always"
                " go to the role itself."
            )
        ),
    ] = None
    member_of: Annotated[
        Annotated[list[MemberOf], Meta(max_length=32)] | None,
        Meta(
            description=(
                "Group roles of which the role is a member. The operator takes the role out of"
                " groups that are not listed. Without this field it changes no memberships."
            )
        ),
    ] = None
    attributes: Attributes | None = None
    adoption_policy: Annotated[
        AdoptionPolicy,
        Meta(
            description=(
                "With Never the operator adopts no role that exists. With IfUnclaimed it adopts a"
                " role that a person made by hand, if allowAdoption of the Controller is true."
            ),
        ),
    ] = "Never"
    suspend: Annotated[
        bool,
        Meta(description="With true the operator does nothing for this access except a deletion."),
    ] = False
    mode: Annotated[
        Mode,
        Meta(
            description=(
                "With Observe the operator changes nothing on the server, and status.plan lists"
                " the statements that it would execute."
            ),
        ),
    ] = "Enforce"
    approval: Annotated[
        Approval,
        Meta(
            description=(
                "With Manual the operator executes only a plan that you approved: set annotation"
                f" {GROUP}/approve to the digest in status.plan."
            ),
        ),
    ] = "Automatic"
    expires_after: Annotated[
        Duration | None,
        Meta(
            description=(
                "Lifetime of the access after its creation, such as 8h. Then the password is not"
                " valid any more, and the operator removes the role as cleanupPolicy says. You"
                " cannot combine it with attributes.validUntil."
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
        (
            _NO_OWN_ROTATION,
            "passwordSecretRef cannot be combined with passwordPolicy.rotateEvery; remove one",
        ),
        (
            _NO_TURNS,
            (
                "passwordSecretRef cannot be combined with passwordPolicy.rotation TwoLogins;"
                " remove one"
            ),
        ),
        (
            _NOTHING_TO_ROTATE,
            (
                "passwordPolicy.onAdoption Keep cannot be combined with rotateEvery or TwoLogins;"
                " remove one"
            ),
        ),
        (_GRACE_OF_USE, "passwordPolicy.gracePeriod must not be longer than rotateEvery"),
        (
            # Objects of former versions may have both, and every write of a status is checked.
            f"!{_two_ends('self')} || {_two_ends('oldSelf')}",
            "expiresAfter and attributes.validUntil both end the login; remove one",
        ),
        (
            # Kubernetes lets no Secret change its type.
            f"{_secret_type('self')} == {_secret_type('oldSelf')}",
            "secretTemplate.type cannot be changed",
        ),
    )
)


class PostgresAccess(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A PostgreSQL role with its grants, and a Secret with its login."""

    api_version: str = POSTGRESACCESSES.api_version
    kind: str = POSTGRESACCESSES.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[PostgresAccessSpec, _SPEC_RULES]
    status: Annotated[PostgresAccessStatus, UNSEEN] = msgspec.field(
        default_factory=PostgresAccessStatus
    )
