"""``access.k8s.delta10.nl/v1``: PostgresAccess as upstream has it, and the CRDs of its group.

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
from fairlead.api.postgresconnection import CONDITIONS as _CONDITIONS
from fairlead.api.postgresconnection import (
    CONNECTION_RULES,
    GO_DURATION,
    GROUP,
    UNSEEN,
    Connection,
    Identifier,
    LoginPolicy,
    Name,
)
from fairlead.api.postgresconnection import rules as _rules
from fairlead.api.postgrescontroller import CONTROLLER_COLUMNS, CONTROLLERS, Controller
from fairlead.api.postgresserver import POSTGRESSERVERS, SERVER_COLUMNS, Groups, PostgresServer
from fairlead.api.resource import Resource


POSTGRESACCESSES = Resource(GROUP, "v1", "postgresaccesses", "PostgresAccess")

FINALIZER = f"{GROUP}/finalizer"
ABANDON_ANNOTATION = f"{GROUP}/abandon"
"""Set to "true", it lets a deletion go on without touching the database."""
ROTATE_ANNOTATION = f"{GROUP}/rotate-at"
"""On a PostgresAccess: each new value asks for a new password, once. On the generated Secret: the
value that its password was made for."""

PROVISIONED_SERVICE_LABEL = "servicebinding.io/provisioned-service"
EXPORTED_LABEL = "kube-bind.io/exported"

READY = "Ready"
SUCCESS = "Success"
IN_PROGRESS = "InProgress"
RECONCILING = "Reconciling"
STALLED = "Stalled"
SUSPENDED = "Suspended"
APPROVE_ANNOTATION = f"{GROUP}/approve"
"""The digest of the plan that may be carried out where spec.approval is Manual."""

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
ReconcileState = Literal["Success", "InProgress", "Error"]


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


class SecretTemplate(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What the generated Secret has beside the login itself.

    Values of ``data`` are texts with placeholders ``{{name}}`` or ``{{name|filter}}``: the names
    are username, password, host, port, database, sslmode, url and jdbcUrl, the filters urlquote,
    json and b64.
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
    data: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=32,
            description=(
                "More keys, as texts with {{username}}, {{password}}, {{host}}, {{port}},"
                " {{database}}, {{sslmode}}, {{url}} and {{jdbcUrl}}, each also with |urlquote,"
                " |json or |b64."
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

    name: Name
    key: Annotated[Name, Meta(extra_json_schema={"x-default": "password"})] = "password"


class MemberOf(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A group that the role is a member of."""

    role: Identifier
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
    """Attributes of the role; those that would give it power over others cannot be asked for."""

    connection_limit: Annotated[
        Annotated[int, Meta(ge=-1, le=262143)] | None,
        Meta(description="Connections at once; -1 is no limit."),
    ] = None
    valid_until: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(
            description="Until when the password logs in, in RFC 3339.",
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
        list[Annotated[Grant, Meta(extra_json_schema=_GRANT_RULES)]], Meta(max_length=64)
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
                " must have no powers."
            )
        ),
    ] = None
    groups: Annotated[
        Groups | None,
        Meta(
            description=(
                "Shared puts what the grants ask for on one group role for all accesses of the"
                " server that ask for the same, and makes the role a member of it; None grants to"
                " the role itself. Default what the PostgresServer says, or else None. What is"
                " granted with grantOption stays the role's own."
            )
        ),
    ] = None
    member_of: Annotated[
        Annotated[list[MemberOf], Meta(max_length=32)] | None,
        Meta(
            description=(
                "Groups of the role; those that are not listed are left. Without the field"
                " memberships are nobody's concern."
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
        Annotated[str, Meta(max_length=32, pattern=GO_DURATION)] | None,
        Meta(
            description=(
                "How long after its creation the access ends, such as 8h: the password logs in no"
                " more, and the role goes as cleanupPolicy says."
            )
        ),
    ] = None


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


_NO_OWN_ROTATION = (
    "!(has(self.passwordSecretRef) && has(self.passwordPolicy)"
    " && has(self.passwordPolicy.rotateEvery))"
)

_NO_TURNS = (
    "!(has(self.passwordSecretRef) && has(self.passwordPolicy)"
    " && has(self.passwordPolicy.rotation) && self.passwordPolicy.rotation == 'TwoLogins')"
)
_GRACE_OF_USE = (
    "!has(self.passwordPolicy) || !has(self.passwordPolicy.gracePeriod)"
    " || !has(self.passwordPolicy.rotateEvery)"
    " || duration(self.passwordPolicy.gracePeriod) <= duration(self.passwordPolicy.rotateEvery)"
)


def _secret_type(of: str) -> str:
    """In CEL, the type of the generated Secret; the template may be new, and its type not."""
    given = f"has({of}.secretTemplate) && has({of}.secretTemplate.type)"
    return f"({given} ? {of}.secretTemplate.type : 'Opaque')"


_SPEC_RULES = Meta(
    extra_json_schema=_rules(
        (_NO_OWN_ROTATION, "passwordSecretRef excludes passwordPolicy.rotateEvery; remove one"),
        (_NO_TURNS, "passwordSecretRef excludes passwordPolicy.rotation TwoLogins; remove one"),
        (_GRACE_OF_USE, "passwordPolicy.gracePeriod must not be longer than rotateEvery"),
        (
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
            categories=["fairlead"],
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
