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
    """Sets default privileges, so that new objects have the same privileges at once."""

    owned_by: Annotated[
        list[Identifier],
        Meta(
            max_length=16,
            description=(
                "The roles that create the objects. By default the owner of the schema; if that"
                " is pg_database_owner, the owner of the database."
            ),
        ),
    ] = []


GRANT_RULES = _rules(
    ("has(self.privileges) != has(self.access)", "set either privileges or access"),
    (
        f"!has(self.access) || ({_ON} == '' && !has(self.names) && !has(self.columns))",
        "access is for a whole schema: remove on, names and columns",
    ),
    (
        "!has(self.access) || !has(self.schemaUsage) || self.schemaUsage",
        "access includes USAGE on the schema: remove schemaUsage",
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
            "columns need on: Tables, names, and no privileges other than SELECT, INSERT,"
            " UPDATE and REFERENCES"
        ),
    ),
    (
        f"!has(self.includeFuture) || (!has(self.names) && !({_ON} in ['Database', 'Schema']))",
        "includeFuture is for all tables, sequences, routines or types of a schema",
    ),
    (
        f"!has(self.privileges) || !('ALL' in self.privileges) || {_ON} != ''",
        "ALL needs on, because each kind of object has its own privileges",
    ),
    (_fits_level(), "privileges has one that does not exist for the kind of object in on"),
)


class Grant(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Privileges in one database: on the database, on a schema, or on objects of a schema.

    Without ``on``, CONNECT and TEMPORARY apply to the database, CREATE and USAGE to the schema,
    EXECUTE to all routines of the schema, and the others to all its tables and views.
    """

    database: Annotated[Identifier, Meta(description="The database to which the grant applies.")]
    schema: Annotated[
        Identifier, Meta(description="The schema to which the grant applies; default public.")
    ] = "public"
    on: Annotated[
        GrantLevel | None,
        Meta(
            description=(
                "Kind of object to which the privileges apply. Without it each privilege decides:"
                " CONNECT and TEMPORARY apply to the database, CREATE and USAGE to the schema,"
                " EXECUTE to routines, all others to tables and views. Write the name in quotes,"
                ' "on": YAML reads on as true.'
            )
        ),
    ] = None
    on_unquoted: Annotated[
        GrantLevel | None,
        Meta(description="The same as on. YAML reads on without quotes as true."),
    ] = msgspec.field(name="true", default=None)
    names: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=512)]],
        Meta(
            min_length=1,
            max_length=128,
            description=(
                "Names of the objects; by default all objects of the schema. Write a routine as"
                " name, or as name(type, ...) with the types of its input arguments."
            ),
        ),
    ] = []
    columns: Annotated[
        list[Identifier],
        Meta(
            min_length=1,
            max_length=64,
            description=(
                "Columns of the tables in names; the privileges then apply only to these columns."
            ),
        ),
    ] = []
    privileges: Annotated[
        list[Privilege],
        Meta(
            min_length=1,
            max_length=16,
            description=(
                "Privileges to grant. ALL means all privileges that the server's version has for"
                " this kind of object."
            ),
            extra_json_schema=_rules(
                (
                    "!self.exists(p, p == 'SET' || p == 'ALTER SYSTEM')",
                    (
                        "SET and ALTER SYSTEM are privileges on server parameters, which"
                        " Fairlead does"
                        " not grant"
                    ),
                ),
            ),
        ),
    ] = []
    access: Annotated[
        Bundle | None,
        Meta(
            description=(
                "Use instead of privileges: a bundle of the privileges to read, to read and"
                " write, or to do everything in the schema, with CONNECT. It applies to present"
                " objects, and to objects that the schema's owner creates later."
            )
        ),
    ] = None
    grant_option: Annotated[
        bool, Meta(description="Whether the role may grant the privileges to others.")
    ] = False
    include_future: Annotated[
        IncludeFuture | None,
        Meta(
            description=(
                "Also grants the privileges on objects that are created later, with default"
                " privileges."
            )
        ),
    ] = None
    schema_usage: Annotated[
        bool,
        Meta(
            description=(
                "Whether the operator also grants USAGE on the schema. Set it to false if the"
                " role has USAGE in another way, such as through PUBLIC."
            ),
        ),
    ] = True

    @property
    def level(self) -> GrantLevel | None:
        """Level of the grant: the field ``on``, or ``true`` as YAML 1.1 reads that name."""
        return self.on or self.on_unquoted
