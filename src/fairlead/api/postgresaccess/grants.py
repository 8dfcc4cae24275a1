"""Grants of a PostgresAccess: privileges on databases, schemas and objects, and their CEL rules.

Each level has other privileges; the rules refuse a privilege on the wrong level at admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.postgresaccess.connection import Identifier
from fairlead.api.postgresaccess.connection import rules as _rules


ObjectPrivilege = Literal[
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
    "MAINTAIN",
]
"""https://www.postgresql.org/docs/current/ddl-priv.html, without those on server parameters."""
# SET and ALTER SYSTEM are in access-operator's enum: they can be written here, so that a rule
# refuses them and says why.
Privilege = Literal[ObjectPrivilege, "SET", "ALTER SYSTEM", "ALL"]
GrantLevel = Literal["Database", "Schema", "Tables", "Sequences", "Routines", "Types"]
Bundle = Literal["ReadOnly", "ReadWrite", "Owner"]


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
        # Since PostgreSQL 17; with an older server the reason is UnsupportedPrivilege.
        "MAINTAIN",
    ),
    "Sequences": ("SELECT", "UPDATE", "USAGE"),
    "Routines": ("EXECUTE",),
    "Types": ("USAGE",),
}
LEVEL_PRIVILEGES: Mapping[GrantLevel, frozenset[Privilege]] = MappingProxyType(
    {level: frozenset(privileges) for level, privileges in _ON_LEVELS.items()}
)
"""Privileges that exist on each level in the newest PostgreSQL; ``ALL`` means all of them."""
# The only ones that PostgreSQL has on columns.
COLUMN_PRIVILEGES: frozenset[Privilege] = frozenset({"SELECT", "INSERT", "UPDATE", "REFERENCES"})


_NAMED_LEVELS: tuple[GrantLevel, ...] = ("Tables", "Sequences", "Routines", "Types")
# YAML 1.1 reads the name on as the boolean true, which becomes the name "true" in JSON; in CEL a
# field of that name is written __true__.
_ON = "(has(self.on) ? self.on : (has(self.__true__) ? self.__true__ : ''))"


def _listed(words: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _fits_level() -> str:
    """Return a CEL rule: the privileges exist on the level.

    A map of levels would be shorter, but a server that estimates costs knows the size of a list
    only where it is written out.
    """
    levels = " || ".join(
        f"({_ON} == '{level}' && self.privileges.all(p, p in {_listed((*privileges, 'ALL'))}))"
        for level, privileges in _ON_LEVELS.items()
    )
    return f"!has(self.privileges) || {_ON} == '' || {levels}"


class IncludeFuture(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Default privileges: objects that are created later get the same privileges at once."""

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


GRANT_RULES = _rules(
    ("has(self.privileges) != has(self.access)", "set one of privileges and access"),
    (
        f"!has(self.access) || ({_ON} == '' && !has(self.names) && !has(self.columns))",
        "access is for a whole schema: remove on, names and columns",
    ),
    (
        "!has(self.access) || !has(self.schemaUsage) || self.schemaUsage",
        "access has USAGE on the schema in it: remove schemaUsage",
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
    """Privileges in one database: on itself, on a schema, or on objects in the schema.

    Without ``on``, CONNECT and TEMPORARY apply to the database, CREATE and USAGE to the schema,
    EXECUTE to all its routines and the others to all its tables and views.
    """

    database: Annotated[Identifier, Meta(description="The database that the privileges are in.")]
    schema: Annotated[
        Identifier, Meta(description="The schema that the privileges are in; default public.")
    ] = "public"
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
    schema_usage: Annotated[
        bool,
        Meta(
            description=(
                "Whether USAGE on the schema comes with what is granted in it. False is for roles"
                " that have it otherwise, such as through PUBLIC."
            ),
        ),
    ] = True

    @property
    def level(self) -> GrantLevel | None:
        """Level of the grant: the field ``on``, or ``true`` as YAML 1.1 reads that name."""
        return self.on or self.on_unquoted
