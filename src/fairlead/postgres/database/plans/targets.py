"""Objects of privileges, as values and as lines of text that can be parsed.

The lines are the ledger of an access: its status lists the granted privileges in them, and an
Additive access revokes no others. So each line names one object, and odd names are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec


ObjectLevel = Literal["schema", "table", "column", "sequence", "routine", "type"]
FutureLevel = Literal["future table", "future sequence", "future routine", "future type"]
TargetLevel = Literal[ObjectLevel, FutureLevel]

FUTURE: Final[Mapping[TargetLevel, FutureLevel]] = MappingProxyType(
    {
        "table": "future table",
        "sequence": "future sequence",
        "routine": "future routine",
        "type": "future type",
    }
)
"""Levels of default privileges, by the level of the objects that will be created."""


class Target(NamedTuple):
    """Objects of one kind in one schema.

    Without a ``name`` it is all of them. At a future level ``name`` is the role that creates the
    objects, by default the schema's owner. ``arguments`` are the types of a routine's input
    arguments as :func:`parse_routine` writes them; None is every routine of that name.
    """

    level: TargetLevel
    schema: str
    name: str = ""
    column: str = ""
    arguments: str | None = None


Privileges = Mapping[str, bool]
"""Privileges, and whether each has the grant option."""


class DatabaseGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Desired privileges of a role in one database.

    ``database`` are privileges on the database itself, which is in the shared catalogs: they are
    applied in the maintenance database. ``objects`` are in the database's own catalogs.
    """

    database: Privileges = MappingProxyType({})
    objects: Mapping[Target, Privileges] = MappingProxyType({})


NO_GRANTS = DatabaseGrants()
"""The grants of a role in a database that none of its grants names."""


def describe(database: str, grants: DatabaseGrants) -> list[str]:
    """Return one line for each object, like ``INSERT, SELECT on table app.public.orders``."""
    # The lines are in the status of accesses, and the digests in groups' names are of them: a new
    # wording would not match what earlier versions have written.
    lines = _lines(f"database {_word(database)}", grants.database)
    for target in sorted(grants.objects, key=_order):
        lines += _lines(describe_target(target, database), grants.objects[target])
    return lines


def describe_target(target: Target, database: str) -> str:
    """Return the object in words, like ``all tables in app.public``."""
    schema = f"{_word(database)}.{_word(target.schema)}"
    if target.level == "schema":
        return f"schema {schema}"
    if target.level.startswith("future"):
        creator = f" of {_word(target.name)}" if target.name else ""
        return f"{target.level}s{creator} in {schema}"
    if not target.name:
        return f"all {target.level}s in {schema}"
    column = f".{_word(target.column)}" if target.column else ""
    arguments = "" if target.arguments is None else f"({target.arguments})"
    return f"{target.level} {schema}.{_word(target.name)}{column}{arguments}"


def parse(database: str, lines: Iterable[str]) -> DatabaseGrants:
    """Parse the lines of :func:`describe` about one database; other lines are skipped."""
    options: dict[str, bool] = {}
    objects: dict[Target, dict[str, bool]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or _name(match["database"]) != database:
            continue
        target = _target(match)
        privileges = options if target is None else objects.setdefault(target, {})
        for privilege in match["privileges"].split(", "):
            privileges[privilege] = bool(match["option"]) or privileges.get(privilege, False)
    return DatabaseGrants(database=options, objects=objects)


def is_passed_on(line: str) -> bool:
    """Whether the line of :func:`describe` is about privileges with grant option."""
    # Up to the first quote, because a quoted name may contain the same words.
    return f"{_OPTION} on " in line.partition('"')[0]


_OPTION = " with grant option"
# Words of the ledger and not of SQL: a hyphen needs no quotes here.
_WORD = r'[\w$-]+|"(?:[^"]|"")+"'
_PLAIN = re.compile(r"[\w$-]+")
_LINE = re.compile(
    r"(?P<privileges>[A-Z, ]+?)(?P<option> with grant option)? on (?:"
    r"(?P<level>database|schema|table|column|sequence|routine|type)"
    r"|all (?P<all>table|sequence|routine|type)s in"
    rf"|(?P<future>future (?:table|sequence|routine|type))s(?: of (?P<creator>{_WORD}))? in"
    rf") (?P<database>{_WORD})(?:\.(?P<schema>{_WORD}))?(?:\.(?P<name>{_WORD}))?"
    rf"(?:\.(?P<column>{_WORD}))?(?P<arguments>\(.*\))?"
)


def _target(match: re.Match[str]) -> Target | None:
    level = match["level"] or match["all"] or match["future"]
    if level == "database":
        return None
    return msgspec.convert(
        (
            level,
            _name(match["schema"]),
            _name(match["creator"] if match["future"] else match["name"]),
            _name(match["column"]),
            match["arguments"] and match["arguments"][1:-1],
        ),
        Target,
    )


def _name(word: str | None) -> str:
    if word is None:
        return ""
    return word[1:-1].replace('""', '"') if word.startswith('"') else word


def _word(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _lines(what: str, privileges: Privileges) -> list[str]:
    passed_on = ", ".join(sorted(name for name, option in privileges.items() if option))
    own = ", ".join(sorted(name for name, option in privileges.items() if not option))
    return [
        f"{names}{option} on {what}"
        for names, option in ((own, ""), (passed_on, _OPTION))
        if names
    ]


_LEVELS: Final[tuple[TargetLevel, ...]] = (
    "schema",
    "table",
    "column",
    "sequence",
    "routine",
    "type",
    "future table",
    "future sequence",
    "future routine",
    "future type",
)


def _order(target: Target) -> tuple[int, str, str, str, str]:
    level, schema, name, column, arguments = target
    return _LEVELS.index(level), schema, name, column, arguments or ""


_ALIASES: Final = MappingProxyType(
    {
        "bool": "boolean",
        "char": "character",
        "bpchar": "character",
        "dec": "numeric",
        "decimal": "numeric",
        "float": "double precision",
        "float4": "real",
        "float8": "double precision",
        "int": "integer",
        "int2": "smallint",
        "int4": "integer",
        "int8": "bigint",
        "time": "time without time zone",
        "timestamp": "timestamp without time zone",
        "timestamptz": "timestamp with time zone",
        "timetz": "time with time zone",
        "varbit": "bit varying",
        "varchar": "character varying",
    }
)
"""Names of types as PostgreSQL writes them, by their aliases."""

# A routine's signature has no modifiers: numeric(10, 2) is numeric there.
_MODIFIER = re.compile(r"\(\s*\d+\s*(?:,\s*-?\d+\s*)?\)")
_PART = re.compile(r'"(?:[^"]|"")*"|,|\s+|[^",\s]+')
# PostgreSQL keeps neither number nor sizes of dimensions: int[3][] is integer[]. The possessive
# quantifiers never go back, so a long text of a tenant takes linear time.
_DIMENSIONS = re.compile(r"(?:\s*+\[\s*+\d*+\s*+\])++$")


def parse_routine(text: str) -> tuple[str, str | None]:
    """Return a routine's name, and the types of its arguments or None.

    Types are written as ``format_type`` writes them. Only their text is compared: to look a type
    up, the server would have to parse text from a tenant.
    """
    name, open_, rest = text.partition("(")
    if not open_ or not rest.endswith(")"):
        return text, None
    types = [""]
    for part in _PART.findall(_MODIFIER.sub("", rest[:-1])):
        if part == ",":
            types.append("")
        else:
            types[-1] += part if part.startswith('"') else " " if part.isspace() else part.lower()
    written = ", ".join(_canonical(one.strip()) for one in types)
    return name.rstrip(), written


def _canonical(type_: str) -> str:
    plain = type_.removeprefix("pg_catalog.")
    element = _DIMENSIONS.sub("", plain)
    return _ALIASES.get(element, element) + ("[]" if element != plain else "")
