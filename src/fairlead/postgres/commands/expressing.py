"""The spec of an existing role: its grants, attributes and groups.

Pure. Privileges that spec.grants cannot express are returned in words; an adoption must leave
them alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, get_args

import msgspec

from fairlead.api.label_names import subdomain_errors
from fairlead.api.postgresaccess import (
    Attributes,
    Grant,
    GrantLevel,
    IncludeFuture,
    MemberOf,
    Privilege,
)
from fairlead.postgres import bounds
from fairlead.postgres.database.plans.attributes import check_attributes
from fairlead.postgres.database.plans.differences import PRIVILEGES, listed
from fairlead.postgres.database.plans.grants import check_grants
from fairlead.postgres.database.plans.snapshot import RoleFacts
from fairlead.postgres.database.plans.targets import FUTURE, TargetLevel
from fairlead.postgres.database.reading.holdings import HeldObjects
from fairlead.postgres.errors import AccessError


# The limits of the CRD, which would refuse a manifest above them.
_MAX_NAMES, _MAX_COLUMNS, _MAX_CREATORS, _MAX_SETTINGS = 128, 64, 16, 32

Atom = tuple[str, bool]
"""A privilege, and whether it has the grant option."""

_LEVELS: Final[Mapping[TargetLevel, GrantLevel]] = {
    "table": "Tables",
    "sequence": "Sequences",
    "routine": "Routines",
    "type": "Types",
}


class Expressed(NamedTuple):
    """Items of spec.grants; ``left`` describes the privileges that they cannot express."""

    grants: list[Grant]
    left: list[str]


def express(
    role: int,
    database: str,
    on_database: Mapping[str, bool],
    object_grants: Iterable[HeldObjects],
) -> Expressed:
    """Return the present grants of one role in one database.

    A grant has no names where it covers all objects of a schema that the role does not own.

    Args:
        role: the oid of the role.
        database: the name of the database.
        on_database: privileges on the database itself, and whether they have the grant option.
        object_grants: the ACLs in the database, with totals of all objects.
    """
    expressed = Expressed([], [])
    # A grant on a database has no schema; public is the default of the field.
    expressed.grants.extend(_plain(database, "public", "Database", on_database.items()))
    schemas: dict[str, dict[str, list[HeldObjects]]] = {}
    for objects in object_grants:
        # spec.grants refuses these schemas (SchemaReserved).
        if objects.system and _atoms(objects, role):
            expressed.left.append(
                f"{_words(objects, role)} in PostgreSQL's own schema {objects.schema}"
            )
        elif not objects.system:
            schemas.setdefault(objects.schema, {}).setdefault(objects.level, []).append(objects)
    for name, levels in sorted(schemas.items()):
        _express_schema(expressed, role, database, name, levels)
    return expressed


def _express_schema(
    expressed: Expressed,
    role: int,
    database: str,
    schema: str,
    levels: Mapping[str, Sequence[HeldObjects]],
) -> None:
    if schema:
        inside = Expressed([], expressed.left)
        for level, on in _LEVELS.items():
            objects = _Objects(role, database, schema, on)
            objects.express(inside, levels.get(level, ()), levels.get(FUTURE[level], ()))
        _columns(inside, role, database, schema, levels.get("column", ()))
        itself = [atom for one in levels.get("schema", ()) for atom in _atoms(one, role)]
        # An owner needs no USAGE, and has no grant of it.
        usage = any(name == "USAGE" for name, _ in itself) or any(
            objects.owner == role for objects in levels.get("schema", ())
        )
        expressed.grants.extend(_plain(database, schema, "Schema", itself))
        expressed.grants.extend(
            grant if usage else msgspec.structs.replace(grant, schema_usage=False)
            for grant in inside.grants
        )
    elsewhere = [
        objects for level, some in levels.items() for objects in some if _is_global(level, schema)
    ]
    expressed.left.extend(
        f"{_words(objects, role)}, in every schema"
        for objects in elsewhere
        if _atoms(objects, role)
    )


def _is_global(level: str, schema: str) -> bool:
    return level in {"future schema", "future large object"} or (
        level.startswith("future") and not schema
    )


class _Objects:
    """The objects of one kind in one schema."""

    def __init__(self, role: int, database: str, schema: str, on: GrantLevel) -> None:
        self._role = role
        self._database = database
        self._schema = schema
        self._on: GrantLevel = on

    def express(
        self,
        expressed: Expressed,
        object_grants: Sequence[HeldObjects],
        future: Sequence[HeldObjects],
    ) -> None:
        """Append the grants to ``expressed``, without names where they cover all objects."""
        # An owner has all privileges anyway, so its own objects neither ask for a grant nor hinder
        # one on all.
        others = [one for one in object_grants if one.owner != self._role]
        total = sum(one.total for one in others)
        counts: dict[Atom, int] = {}
        for objects in others:
            for atom in _atoms(objects, self._role):
                counts[atom] = counts.get(atom, 0) + objects.total
        creators = self._creators(expressed, future, counts, total)
        everywhere = {atom for atom, count in counts.items() if count == total}
        groups: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
        for privilege, option in everywhere | creators.keys():
            key = (option, creators.get((privilege, option), ()))
            groups.setdefault(key, []).append(privilege)
        for (option, names), privileges in sorted(groups.items()):
            expressed.grants.append(self._grant(privileges, option=option, creators=names))
        self._named(expressed, others, everywhere)

    def _creators(
        self,
        expressed: Expressed,
        future: Sequence[HeldObjects],
        counts: Mapping[Atom, int],
        total: int,
    ) -> dict[Atom, tuple[str, ...]]:
        """Return the creators of future objects by privilege, as includeFuture takes them.

        Grants can express a privilege on future objects only if it covers all present ones.
        """
        creators: dict[Atom, list[str]] = {}
        for objects in future:
            for atom in _atoms(objects, self._role):
                creators.setdefault(atom, []).extend(objects.names)
        said = {}
        for atom, names in creators.items():
            if counts.get(atom, 0) == total and len(names) <= _MAX_CREATORS:
                said[atom] = tuple(sorted(names))
            else:
                what = f"{atom[0]} on future {self._on.lower()} of {listed(sorted(names))}"
                expressed.left.append(f"{what} in schema {self._schema}, but not on all of them")
        return said

    def _named(
        self, expressed: Expressed, object_grants: Iterable[HeldObjects], everywhere: set[Atom]
    ) -> None:
        names: dict[frozenset[Atom], list[str]] = {}
        for objects in object_grants:
            atoms = frozenset(_atoms(objects, self._role)) - everywhere
            if not atoms:
                continue
            # Only some objects are known by name, or a name is too long for spec.grants.
            if objects.total > len(objects.names) or any(
                len(name) > bounds.NAME_CHARACTERS for name in objects.names
            ):
                expressed.left.append(f"{_words(objects, self._role)} in schema {self._schema}")
                continue
            names.setdefault(atoms, []).extend(objects.names)
        for atoms, some in sorted(names.items(), key=lambda item: sorted(item[1])):
            for option in sorted({option for _, option in atoms}):
                privileges = [name for name, passed_on in atoms if passed_on == option]
                for chunk in _chunks(sorted(some), _MAX_NAMES):
                    expressed.grants.append(self._grant(privileges, option=option, names=chunk))

    def _grant(
        self,
        privileges: Iterable[str],
        *,
        option: bool,
        names: Sequence[str] = (),
        creators: Sequence[str] = (),
    ) -> Grant:
        return Grant(
            database=self._database,
            schema=self._schema,
            on=self._on,
            privileges=_sorted(privileges),
            grant_option=option,
            names=list(names),
            include_future=IncludeFuture(owned_by=list(creators)) if creators else None,
        )


def _columns(
    expressed: Expressed,
    role: int,
    database: str,
    schema: str,
    object_grants: Iterable[HeldObjects],
) -> None:
    columns: dict[tuple[str, frozenset[Atom]], list[str]] = {}
    for objects in object_grants:
        atoms = frozenset(_atoms(objects, role))
        if atoms and objects.owner != role:
            columns.setdefault((objects.table, atoms), []).extend(objects.names)
    for (table, atoms), names in sorted(columns.items(), key=lambda item: (item[0][0], item[1])):
        for option in sorted({option for _, option in atoms}):
            for chunk in _chunks(sorted(names), _MAX_COLUMNS):
                expressed.grants.append(
                    Grant(
                        database=database,
                        schema=schema,
                        on="Tables",
                        names=[table],
                        columns=list(chunk),
                        privileges=_sorted(name for name, passed in atoms if passed == option),
                        grant_option=option,
                    )
                )


def _plain(
    database: str, schema: str, on: GrantLevel, atoms: Iterable[tuple[str, bool]]
) -> Iterator[Grant]:
    """Yield the grants on a database or a schema itself."""
    ordered = list(atoms)
    for option in (False, True):
        privileges = _sorted(name for name, passed_on in ordered if passed_on == option)
        if privileges:
            yield Grant(
                database=database,
                schema=schema,
                on=on,
                privileges=privileges,
                grant_option=option,
            )


def _atoms(object_grants: HeldObjects, role: int) -> list[Atom]:
    return [
        (name, grantee.option)
        for grantee in object_grants.grantees
        if grantee.role == role
        for name in sorted(grantee.privileges)
        if name in PRIVILEGES
    ]


def _sorted(privileges: Iterable[str]) -> list[Privilege]:
    given = set(privileges)
    # In the order of the CRD, so that the same privileges give the same manifest.
    return [one for one in get_args(Privilege) if one in given]


def _words(object_grants: HeldObjects, role: int) -> str:
    privileges = ", ".join(name for name, _ in _atoms(object_grants, role))
    # The names of default privileges are those of the roles that create.
    of = "s of" if object_grants.level.startswith("future") else ""
    names = listed(object_grants.names, object_grants.total)
    return f"{privileges} on {object_grants.level}{of} {names}"


def _chunks(names: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    rest = iter(names)
    while chunk := tuple(islice(rest, size)):
        yield chunk


def grants_problem(grants: Sequence[Grant]) -> str:
    """Return the reason for which spec.grants would be refused, "" where it is valid."""
    if len(grants) > bounds.GRANTS:
        return (
            f"its grants have {len(grants)} items, but the limit of spec.grants is {bounds.GRANTS}"
        )
    try:
        check_grants(grants)
    except AccessError as error:
        return error.message
    return ""


def attributes_of(role: RoleFacts) -> tuple[Attributes | None, str]:
    """Return the attributes that differ from a new role's; or the reason to leave them alone."""
    attributes = Attributes(
        connection_limit=None if role.connection_limit == -1 else role.connection_limit,
        valid_until=role.valid_until or None,
        inherit=None if role.inherit else False,
        config=dict(sorted(role.config.items())),
    )
    if (
        role.overfull
        or len(attributes.config) > _MAX_SETTINGS
        or any(len(value) > bounds.SETTING_CHARACTERS for value in attributes.config.values())
    ):
        return None, "it has more parameters, or longer ones, than spec.attributes allows"
    try:
        check_attributes(attributes)
    except AccessError as error:
        return None, error.message
    return (None if attributes == Attributes() else attributes), ""


def members_of(role: RoleFacts) -> list[MemberOf]:
    """Return the items of spec.memberOf for the groups of a role."""
    return [
        MemberOf(role=name, inherit=membership.inherit, set=membership.set, admin=membership.admin)
        for name, membership in sorted(role.groups.items())
    ]


def object_name(role: str, taken: set[str]) -> str:
    """Return a valid and free name for the object of a role, and add it to ``taken``."""
    # Of the 253 characters of a name some are left for a number, and for the -login of the Secret.
    stem = re.sub(r"[^a-z0-9]+", "-", role.lower()).strip("-")[:200] or "role"
    name, number = stem, 1
    while name in taken or subdomain_errors(name):
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
