"""Differences between actual and desired privileges, and the fewest statements for them.

Objects with the same owner and ACL have the same differences, and so do roles that ask for the
same. They share a difference and a statement, so that each catalog row is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import LEVEL_PRIVILEGES
from fairlead.postgres import bounds
from fairlead.postgres.database.plans.targets import ObjectLevel


FutureAny = Literal[
    "future table",
    "future sequence",
    "future routine",
    "future type",
    "future schema",
    "future large object",
]
"""Levels of default privileges; those on schemas and large objects are only revoked."""

Level = Literal[ObjectLevel, FutureAny]
Action = Literal["grant", "revoke", "revoke option"]

PRIVILEGES: Final[frozenset[str]] = frozenset().union(*LEVEL_PRIVILEGES.values())
"""Privileges that a statement of the operator may name."""

_KEYWORDS: Final[Mapping[str, sql.SQL]] = {word: sql.SQL(word) for word in sorted(PRIVILEGES)}
_KINDS: Final[Mapping[Level, sql.SQL]] = {
    "schema": sql.SQL("SCHEMA"),
    "table": sql.SQL("TABLE"),
    "column": sql.SQL("TABLE"),
    "sequence": sql.SQL("SEQUENCE"),
    "routine": sql.SQL("ROUTINE"),
    "type": sql.SQL("TYPE"),
    "future table": sql.SQL("TABLES"),
    "future sequence": sql.SQL("SEQUENCES"),
    "future routine": sql.SQL("ROUTINES"),
    "future type": sql.SQL("TYPES"),
    "future schema": sql.SQL("SCHEMAS"),
    "future large object": sql.SQL("LARGE OBJECTS"),
}
_GRANT = sql.SQL("GRANT {privileges} ON {kind}{objects} TO {roles}{option}")
_REVOKE = sql.SQL("REVOKE {option}{privileges} ON {kind}{objects} FROM {roles}{cascade}")
_COMMA = sql.SQL(", ")
_NOTHING = sql.SQL("")


CatalogPlace = tuple[int, int, int]
"""An object, or its column by number, in the order of catalogs; see ``pg_shdepend``."""
Arguments = tuple[tuple[str, str], ...]
"""Schemas and names of the types of a routine's input arguments."""

T = TypeVar("T")


class ComparedObject(NamedTuple):
    """One object; ``name`` is the column's at level column, the creating role's at future ones."""

    schema: str
    name: str = ""
    arguments: Arguments = ()


class ComparedObjects(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Objects of one schema that have the same owner and the same ACL.

    ``table`` is the table of columns. ``total`` counts also objects that are not listed.
    """

    level: Level
    items: tuple[ComparedObject, ...]
    owner: str
    table: str = ""
    total: int = 0


class Actor(NamedTuple):
    """A role by whose rights the administrator acts."""

    oid: int
    name: str


class Difference(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One privilege that is missing on objects, or is to be revoked there.

    ``option`` is the grant option: to be granted, or held so far. ``grantor`` is the role whose
    grant is to be revoked. Without ``possible`` the administrator lacks the right to the change.
    ``actor`` is the role of the operator's own by whose rights it is possible, None if the
    administrator's own rights suffice. An access is complete without a ``dispensable`` grant that
    is not possible: PUBLIC has the privilege, or the objects are an extension's and no grant names
    them.
    """

    action: Action
    objects: ComparedObjects
    privilege: str
    option: bool = False
    grantor: str = ""
    possible: bool = True
    dispensable: bool = False
    actor: Actor | None = None

    @property
    def is_left_out(self) -> bool:
        """Whether an access is complete without this grant."""
        return self.dispensable and not self.possible


class PrivilegeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A statement about privileges in parts; ``within`` is the table of columns.

    It takes the rights of ``actor``, see :class:`Difference`.
    """

    action: Action
    level: Level
    privileges: tuple[str, ...]
    items: tuple[ComparedObject, ...]
    usernames: tuple[str, ...]
    option: bool = False
    within: str = ""
    actor: Actor | None = None

    @property
    def statement(self) -> sql.Composed:
        """The composed SQL statement."""
        granted = self.action == "grant"
        shape = _GRANT if granted else _REVOKE
        if granted:
            option = sql.SQL(" WITH GRANT OPTION") if self.option else _NOTHING
        else:
            option = sql.SQL("GRANT OPTION FOR ") if self.action == "revoke option" else _NOTHING
        composed = shape.format(
            privileges=self._privileges(),
            kind=_KINDS[self.level],
            objects=self._objects(),
            roles=_COMMA.join(map(sql.Identifier, self.usernames)),
            option=option,
            # Privileges that the role has passed on depend on its grant option.
            cascade=sql.SQL(" CASCADE") if self.option else _NOTHING,
        )
        if not self.level.startswith("future"):
            return composed
        return sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {}{} {}").format(
            _COMMA.join(sql.Identifier(item.name) for item in self.items),
            sql.SQL(" IN SCHEMA {}").format(sql.Identifier(self.items[0].schema))
            if self.items[0].schema
            else _NOTHING,
            composed,
        )

    @property
    def what(self) -> str:
        """The change in words: ``grant SELECT on table s.t to app``."""
        verb = "revoke grant option for" if self.action == "revoke option" else self.action
        way = "to" if self.action == "grant" else "from"
        objects = listed([words(self.level, item, self.within) for item in self.items])
        option = " with grant option" if self.action == "grant" and self.option else ""
        who = listed(self.usernames)
        return f"{verb} {', '.join(self.privileges)} on {objects} {way} {who}{option}"

    @property
    def summary(self) -> tuple[str, str]:
        """The words of the statement before and after its objects, for many of them."""
        option = "GRANT OPTION FOR " if self.action == "revoke option" else ""
        verb, way = ("GRANT", "TO") if self.action == "grant" else ("REVOKE", "FROM")
        return f"{verb} {option}{', '.join(self.privileges)}", way

    @property
    def reason(self) -> str:
        """The reason for the change."""
        if self.action == "grant":
            return "spec.grants ask for it, and it is not there"
        if self.action == "revoke option":
            return "spec.grants ask for it without the grant option"
        return "it is there, and no grant in spec.grants asks for it"

    def halves(self, *, by_role: bool) -> tuple[PrivilegeChange, ...]:
        """Return two changes that together equal this one; none if it has one role and object."""
        if len(self.usernames) > 1 and (by_role or len(self.items) == 1):
            middle = len(self.usernames) // 2
            return (
                msgspec.structs.replace(self, usernames=self.usernames[:middle]),
                msgspec.structs.replace(self, usernames=self.usernames[middle:]),
            )
        if len(self.items) > 1:
            middle = len(self.items) // 2
            return (
                msgspec.structs.replace(self, items=self.items[:middle]),
                msgspec.structs.replace(self, items=self.items[middle:]),
            )
        return ()

    def _privileges(self) -> sql.Composed:
        words: Iterable[sql.Composable] = (_KEYWORDS[name] for name in self.privileges)
        if self.level == "column":
            columns = _COMMA.join(sql.Identifier(item.name) for item in self.items)
            words = (sql.SQL("{} ({})").format(word, columns) for word in words)
        return _COMMA.join(words)

    def _objects(self) -> sql.Composable:
        if self.level.startswith("future"):
            return _NOTHING
        if self.level == "column":
            objects: list[sql.Composable] = [sql.Identifier(self.items[0].schema, self.within)]
        else:
            objects = [_composed(self.level, item) for item in self.items]
        return sql.SQL(" {}").format(_COMMA.join(objects))


def _composed(level: Level, item: ComparedObject) -> sql.Composable:
    if level == "schema":
        return sql.Identifier(item.schema)
    if level != "routine":
        return sql.Identifier(item.schema, item.name)
    # Types are composed from schema and name in the catalogs, so the server parses no text of a
    # tenant.
    types = _COMMA.join(sql.Identifier(*argument) for argument in item.arguments)
    return sql.SQL("{}({})").format(sql.Identifier(item.schema, item.name), types)


def words(level: Level, item: ComparedObject, table: str = "") -> str:
    """Return one object in words, for messages."""
    if level == "schema":
        return f"schema {item.schema}"
    if level.startswith("future"):
        return f"{level}s of {item.name}" + (f" in schema {item.schema}" if item.schema else "")
    if level == "column":
        return f"column {item.schema}.{table}.{item.name}"
    arguments = ", ".join(name for _, name in item.arguments)
    return f"{level} {item.schema}.{item.name}" + (f"({arguments})" if level == "routine" else "")


def listed(things: Sequence[str], total: int = 0) -> str:
    """Return the first names in words, and the number of the others."""
    shown: list[str] = []
    for thing in things[: bounds.STATEMENT_NAMED]:
        if shown and sum(map(len, shown)) + len(thing) > bounds.STATEMENT_CHARACTERS:
            break
        shown.append(thing)
    more = max(total, len(things)) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def plan_privileges(differences: Mapping[str, Iterable[Difference]]) -> list[PrivilegeChange]:
    """Return the fewest statements that settle the possible differences, revocations first.

    Args:
        differences: the differences by username; roles with the same one share a statement.
    """
    # Differences are compared by identity (eq=False): the reading makes one object for all roles
    # that have it, which is what lets them share a statement.
    who: dict[Difference, list[str]] = {}
    for username, of_role in differences.items():
        for difference in of_role:
            if difference.possible:
                who.setdefault(difference, []).append(username)
    privileges: dict[
        tuple[ComparedObjects, Action, bool, Actor | None, tuple[str, ...]], set[str]
    ] = {}
    for change, usernames in who.items():
        key = (
            change.objects,
            change.action,
            change.option,
            change.actor,
            tuple(sorted(usernames)),
        )
        privileges.setdefault(key, set()).add(change.privilege)
    items: dict[PrivilegeChange, list[ComparedObject]] = {}
    for (objects, action, option, actor, usernames_), names in privileges.items():
        shape = PrivilegeChange(
            action=action,
            level=objects.level,
            privileges=tuple(sorted(names)),
            items=_together(objects),
            usernames=usernames_,
            option=option,
            within=objects.table,
            actor=actor,
        )
        items.setdefault(shape, []).extend(objects.items)
    changes = [part for shape, all_ in items.items() for part in _parts(shape, all_)]
    return sorted(changes, key=_order)


def _order(
    change: PrivilegeChange,
) -> tuple[bool, str, tuple[ComparedObject, ...], tuple[str, ...]]:
    return change.action == "grant", change.level, change.items, change.privileges


def _together(objects: ComparedObjects) -> tuple[ComparedObject, ...]:
    """Return the part that a statement names once: a column's table, a future level's schema."""
    if objects.level == "column" or objects.level.startswith("future"):
        return (ComparedObject(objects.items[0].schema),)
    return ()


def _parts(shape: PrivilegeChange, items: Iterable[ComparedObject]) -> Iterator[PrivilegeChange]:
    for some in _chunks(sorted(set(items)), bounds.STATEMENT_OBJECTS):
        for usernames in _chunks(shape.usernames, bounds.STATEMENT_ROLES):
            yield msgspec.structs.replace(shape, items=some, usernames=usernames)


def _chunks(things: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    rest = iter(things)
    while chunk := tuple(islice(rest, size)):
        yield chunk
