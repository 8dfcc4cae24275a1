"""Compares desired with actual privileges of many roles in one database, in one statement.

Only differences are returned. Objects with the same owner and ACL are compared once, which keeps
this cheap: tables of a schema that were granted together have one ACL, for any number of tables
and roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import GrantsPolicy
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Query, Session
from fairlead.postgres.database.plans.differences import (
    PRIVILEGES,
    Actor,
    CatalogPlace,
    ComparedObject,
    ComparedObjects,
    Difference,
    Level,
    listed,
    words,
)
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import ServerSnapshot
from fairlead.postgres.database.plans.targets import (
    DatabaseGrants,
    Target,
    describe_target,
    parse,
)
from fairlead.postgres.database.reading.actors import with_actors
from fairlead.postgres.database.reading.comparison_query import (
    DIFFERENCES,
    IN_REST,
    IN_WINDOW,
)
from fairlead.postgres.errors import AccessError, Retry


class RoleGrants(msgspec.Struct, frozen=True, kw_only=True):
    """One role, and its desired privileges in the database.

    A role that has another oid or another name by now is left alone. With ``policy`` Additive only
    privileges in ``ledger`` are revoked: lines of
    :meth:`~fairlead.postgres.database.plans.grants.DesiredGrants.describe`, also about other
    databases. An ``unborn`` role is yet to be created: no role has its oid, see
    :func:`unborn_oid`. The administrator may act as roles of the ``installation``, of none if that
    is "".
    """

    oid: int
    username: str
    unborn: bool = False
    grants: DatabaseGrants = DatabaseGrants()
    policy: GrantsPolicy = "Authoritative"
    ledger: frozenset[str] = frozenset()
    installation: str = ""


def unborn_oid(number: int) -> int:
    """Return an oid for a role that is yet to be created; servers count from the other end."""
    return 2**32 - 1 - number


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a role's grants that does not exist; with ``schema`` its schema neither."""

    target: Target
    schema: bool


_FIRST: CatalogPlace = (0, 0, 0)
_LAST: CatalogPlace = (2**32 - 1, 2**32 - 1, 2**15)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Differences and missing objects by username, without the roles that have none.

    ``gone`` are roles that do not exist any more, ``cut`` roles that may have more differences
    than one reading returns. ``last`` is the last object of a window that was full.
    """

    differences: Mapping[str, Sequence[Difference]] = {}
    absent: Mapping[str, Sequence[Absence]] = {}
    gone: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()
    last: CatalogPlace | None = None
    possible: bool = False
    """Whether the administrator's own rights settle some of the differences."""

    @property
    def actors(self) -> frozenset[Actor]:
        """The roles by whose rights the administrator may settle some of the differences."""
        actors = (one.actor for some in self.differences.values() for one in some)
        return frozenset(actor for actor in actors if actor is not None)


async def read_differences(
    session: Session, database: str, role_grants: Sequence[RoleGrants]
) -> Reading:
    """Read the differences between the roles' actual and desired privileges in this database.

    It takes one statement for any number of roles. Objects that a role owns are left alone: an
    owner's privileges are inherent. A grant on all tables of an empty schema has no difference.
    Privileges of PUBLIC do not count as the role's.

    Args:
        session: a session in that database.
        database: its name, for the ledgers.
        role_grants: the roles, each once.

    Raises:
        psycopg.Error: a DataError if the database's encoding lacks a character of a name.
    """
    comparison = Comparison(database, role_grants, session.server_version)
    if not role_grants:
        return Reading()
    reading = comparison.reading(await session.rows(*comparison.query))
    return await comparison.with_actors(session, reading)


async def read_window(session: Session, comparison: Comparison) -> Reading:
    """Read the differences in the present window of a role, which is cut where there are many.

    Raises:
        psycopg.Error: as :func:`read_differences`.
    """
    while True:
        reading = comparison.reading(await session.rows(*comparison.query))
        comparison.stay(reading.last)
        if comparison.end is None or not reading.cut or not comparison.narrow():
            return await comparison.with_actors(session, reading)


_Flat = frozenset[tuple[Target, str, bool]]


class Comparison:
    """The query of differences: roles with the same grants share a shape, which is sent once.

    Args:
        database: the name of the database, for the ledgers.
        wanted: the roles, each once.
        version: ``server_version_num``.
        window: number of objects with privileges of the one role that a reading looks at; None
            for all objects at once.
        ends: ends of windows, in their order, at which a window ends where it would be larger.
    """

    def __init__(
        self,
        database: str,
        role_grants: Sequence[RoleGrants],
        version: int,
        window: int | None = None,
        ends: Sequence[CatalogPlace] = (),
    ) -> None:
        self.roles = role_grants
        self.window = window
        self._ends = ends
        self._after, self._last, self._in_rest = _FIRST, _LAST, True
        # Before PostgreSQL 16 members without INHERIT could, too
        # (https://www.postgresql.org/docs/release/16.0/).
        self._future = "MEMBER" if version < 160000 else "USAGE"
        self._targets: dict[Target, int] = {}
        self._shapes: dict[tuple[_Flat, _Flat], int] = {}
        self._of_role: list[int] = []
        self._atoms: list[tuple[int, int, str, bool, bool]] = []
        for role in role_grants:
            additive = role.policy == "Additive"
            # An Authoritative role is compared with its grants alone; the ledger would be as many
            # atoms again.
            ledger = _parsed(database, role.ledger) if additive else DatabaseGrants()
            self._of_role.append(self._shape(role.grants, ledger))

    def _shape(self, grants: DatabaseGrants, ledger: DatabaseGrants) -> int:
        flat = frozenset(_flat(grants)), frozenset(_flat(ledger))
        shape = self._shapes.get(flat)
        if shape is None:
            shape = self._shapes[flat] = len(self._shapes)
            for is_recorded, given in ((False, grants), (True, ledger)):
                for target, name, passed_on in _flat(given):
                    # From 1, as WITH ORDINALITY counts in the query.
                    number = self._targets.setdefault(target, len(self._targets) + 1)
                    self._atoms.append((shape, number, name, passed_on, is_recorded))
        return shape

    @property
    def query(self) -> Query:
        """The statement that reads the differences, with its parameters."""
        if self.window is None:
            return DIFFERENCES, self._parameters
        if self._in_rest:
            return IN_REST, self._parameters
        window = {
            "window": self.window,
            **dict(zip(("after_class", "after_object", "after_column"), self._after, strict=True)),
            **dict(zip(("last_class", "last_object", "last_column"), self._last, strict=True)),
        }
        return IN_WINDOW, {**self._parameters, **window}

    def stay(self, last: CatalogPlace | None) -> None:
        """Have later readings end with the last object of a window."""
        self._last = last or self._last

    def narrow(self) -> bool:
        """Halve the windows; return whether the present one is smaller now."""
        if self.window is None or self.window <= 1:
            return False
        self.window //= 2
        return True

    @property
    def end(self) -> CatalogPlace | None:
        """The end of the present window, None in the reading of what is missing elsewhere."""
        return None if self._in_rest else self._last

    def go_on(self) -> bool:
        """Have the next reading begin after the window; return whether there is any.

        The first reading is of what is missing on objects without any privilege of the role.
        """
        if self._in_rest:
            self._in_rest = False
        elif self._last == _LAST:
            return False
        else:
            self._after = self._last
        self._last = next((end for end in self._ends if end > self._after), _LAST)
        return True

    @cached_property
    def _parameters(self) -> Mapping[str, object]:
        shapes, numbers, privileges, passed_on, recorded = _columns(self._atoms, 5)
        levels, schemas, names, columns, arguments = _columns(self._targets, 5)
        return {
            "membership": self._future,
            "shapes": self._of_role,
            "roles": [role.oid for role in self.roles],
            "usernames": [role.username for role in self.roles],
            "unborn": [role.oid for role in self.roles if role.unborn],
            "strict": [role.policy == "Authoritative" for role in self.roles],
            "atom_shapes": shapes,
            "atom_targets": numbers,
            "privileges": privileges,
            "passed_on": passed_on,
            "known": recorded,
            "levels": levels,
            "schemas": schemas,
            "names": names,
            "columns": columns,
            "arguments": arguments,
            "limit": bounds.DIFFERENCES,
            "objects": bounds.ACL_OBJECTS,
        }

    def reading(self, rows: Iterable[Sequence[Any]]) -> Reading:
        """Return what differs and what is missing, by the rows of :attr:`query`."""
        return _reading(rows, self)

    async def with_actors(self, session: Session, reading: Reading) -> Reading:
        """Return the reading with the roles by whose rights the administrator may act."""
        installation = next((role.installation for role in self.roles), "")
        differences = await with_actors(session, installation, reading.differences)
        return msgspec.structs.replace(reading, differences=differences)

    def absences(self, schemas: Mapping[int, bool]) -> dict[str, list[Absence]]:
        """Return absences by username; ``schemas`` says by target whether its schema is absent."""
        of_shape: dict[int, set[int]] = {}
        for shape, number, _, _, recorded in self._atoms:
            if number in schemas and not recorded:
                of_shape.setdefault(shape, set()).add(number)
        targets = list(self._targets)
        return {
            role.username: [
                Absence(target=targets[number - 1], schema=schemas[number])
                for number in sorted(of_shape[shape])
            ]
            for role, shape in zip(self.roles, self._of_role, strict=True)
            if shape in of_shape
        }


def _flat(grants: DatabaseGrants) -> Iterator[tuple[Target, str, bool]]:
    return (
        (target, name, passed_on)
        for target, privileges in grants.objects.items()
        for name, passed_on in privileges.items()
    )


@lru_cache(maxsize=4096)
def _parsed(database: str, ledger: frozenset[str]) -> DatabaseGrants:
    return parse(database, sorted(ledger))


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _reading(rows: Iterable[Sequence[Any]], comparison: Comparison) -> Reading:
    usernames = {role.oid: role.username for role in comparison.roles}
    differences: dict[str, list[Difference]] = {}
    absent: dict[str, list[Absence]] = {}
    gone: frozenset[str] = frozenset()
    cut: set[str] = set()
    last: CatalogPlace | None = None
    total = 0
    for row in rows:
        facts, (roles, actions, privileges, options, *settled) = row[:7], row[7:]
        if facts[0] == "gone":
            gone = frozenset(privileges)
        elif facts[0] == "window":
            last = (roles[0], roles[1], roles[2])
        elif facts[0] == "absent":
            absent = comparison.absences(dict(zip(roles, options, strict=True)))
        else:
            objects = _objects(*facts)
            if objects.total > len(objects.items):
                cut.update(usernames[role] for role in roles)
            total += len(roles)
            values = zip(actions, privileges, options, *settled, strict=True)
            for role, difference in zip(roles, _shared(objects, values), strict=True):
                if difference is not None:
                    differences.setdefault(usernames[role], []).append(difference)
    if total >= bounds.DIFFERENCES:
        # Roles take turns, so the ones that are cut off have the most.
        most = max(map(len, differences.values()), default=0)
        cut.update(name for name, some in differences.items() if len(some) >= most - 1)
    return Reading(
        differences=differences,
        absent=absent,
        gone=gone,
        cut=frozenset(cut),
        last=last,
        possible=any(one.possible for found in differences.values() for one in found),
    )


def _objects(
    level: Level,
    schema: str,
    part: str,
    names: Sequence[str],
    arguments: Sequence[Sequence[Sequence[str]]] | None,
    total: int,
    owner: str,
) -> ComparedObjects:
    if level == "schema":
        return ComparedObjects(
            level=level, items=(ComparedObject(schema),), owner=owner, total=total
        )
    if level == "column":
        items = [ComparedObject(schema, part)]
    elif arguments is None:
        items = [ComparedObject(schema, name) for name in names]
    else:
        items = [
            ComparedObject(schema, name, tuple((namespace, type_) for namespace, type_ in types))
            for name, types in zip(names, arguments, strict=True)
        ]
    return ComparedObjects(
        level=level,
        items=tuple(sorted(items)),
        owner=owner,
        table=names[0] if level == "column" else "",
        total=total,
    )


def _shared(
    objects: ComparedObjects, values: Iterable[tuple[Any, ...]]
) -> Iterator[Difference | None]:
    """Yield one difference for all roles that have it; None for an unknown, newer privilege."""
    shared: dict[tuple[Any, ...], Difference] = {}
    for value in values:
        action, privilege, option, grantor, possible, dispensable = value
        if privilege not in PRIVILEGES:
            yield None
            continue
        # The plan of the statements merges roles by the identity of a difference (eq=False).
        if value not in shared:
            shared[value] = Difference(
                action=action,
                objects=objects,
                privilege=privilege,
                option=option,
                grantor=grantor,
                possible=possible,
                dispensable=dispensable,
            )
        yield shared[value]


def role_grants(
    state: WantedState, grants: DatabaseGrants, snapshot: ServerSnapshot, number: int = 0
) -> RoleGrants:
    """Return a role's desired privileges in a database; ``number`` gives unborn roles an oid."""
    role = snapshot.roles.get(state.username)
    return RoleGrants(
        oid=unborn_oid(number) if role is None else role.oid,
        unborn=role is None,
        username=state.username,
        grants=grants,
        policy=state.policy,
        ledger=state.ledger,
        installation=state.claim.installation,
    )


def problems_of(
    reading: Reading, username: str, database: str, admin: str, failed: Sequence[AccessError]
) -> list[AccessError]:
    """Return the errors of a role's grants that are not settled after the last try.

    Args:
        reading: the reading of the database after that try.
        username: the name of the role.
        database: the name of the database.
        admin: the administrator's role, for messages.
        failed: the errors of the statements for the role.
    """
    if not (reading.differences or reading.absent or reading.gone or reading.cut):
        return [*failed]
    left = reading.differences.get(username, ())
    problems = _absent(reading.absent.get(username, ()), database)
    if username in reading.gone:
        problems.append(AccessError("Conflict", f"role {username} was dropped meanwhile"))
    problems += [*_refused(left, database, admin), *failed]
    open_ = [one for one in left if one.possible]
    if username in reading.cut:
        problems.append(_unfinished(database))
    # Neither impossible nor failed: PostgreSQL answered OK with a warning at most (01006, 01007).
    elif open_ and not failed:
        problems.append(_silent(open_, database, admin))
    return problems


def hindrances(reading: Reading, username: str, database: str, admin: str) -> list[AccessError]:
    """Return the errors of a role's grants that are certain before any try."""
    absent = reading.absent.get(username, ())
    left = reading.differences.get(username, ())
    return [*_absent(absent, database), *_refused(left, database, admin)]


def _absent(absences: Sequence[Absence], database: str) -> list[AccessError]:
    problems = [
        AccessError(
            "SchemaNotFound",
            f"schema {schema} of spec.grants does not exist in database {database};"
            " create it, or correct the name",
        )
        for schema in sorted({one.target.schema for one in absences if one.schema})
    ]
    objects = [one.target for one in absences if not one.schema]
    future = sorted({target.name for target in objects if target.level.startswith("future")})
    problems += [
        AccessError(
            "RoleNotFound",
            f"role {name}, in includeFuture.ownedBy of spec.grants, does not exist;"
            " create it, or correct the name",
        )
        for name in future[: bounds.NAMED]
    ]
    named = [target for target in objects if not target.level.startswith("future")]
    if named:
        names = listed([describe_target(target, database) for target in named])
        message = (
            f"spec.grants names objects that do not exist: {names}; create them, or correct the"
            " names"
        )
        problems.append(AccessError("ObjectNotFound", message))
    return problems


def _refused(left: Iterable[Difference], database: str, admin: str) -> list[AccessError]:
    """Return one error for each kind of right that the administrator lacks."""
    future: list[Difference] = []
    grants: list[Difference] = []
    revocations: list[Difference] = []
    for state in left:
        if state.possible or state.is_left_out:
            continue
        if state.objects.level.startswith("future"):
            future.append(state)
        else:
            (grants if state.action == "grant" else revocations).append(state)
    messages = []
    if grants:
        messages.append(
            f"{admin} may not grant {_described(grants)} in database {database};"
            f" grant {admin} the role of the owner, or let the owner grant it"
        )
    if revocations:
        messages.append(
            f"{admin} cannot revoke {_described(revocations)} in database {database}:"
            " another role granted it, and has to revoke it"
        )
    if future:
        creators = listed(sorted({one.objects.owner for one in future}))
        messages.append(
            f"{admin} is not a member of {creators}, so it cannot change default privileges for"
            f" that role in database {database}: {_described(future)}; grant {admin} that role,"
            " or name others in includeFuture.ownedBy"
        )
    return [AccessError("InsufficientPrivilege", message) for message in messages]


def _silent(left: Iterable[Difference], database: str, admin: str) -> AccessError:
    ways = sorted({one.action.split()[0] for one in left})
    return AccessError(
        "InsufficientPrivilege",
        f"PostgreSQL did not {' or '.join(ways)} {_described(left)} in database {database}, and"
        f" reported no error; {admin} lacks the grant option, or another role granted it",
    )


def left_out(differences: Iterable[Difference], database: str, admin: str) -> str:
    """Return the remark on grants without which an access is complete, "" if there are none."""
    missing = [difference for difference in differences if difference.is_left_out]
    if not missing:
        return ""
    count = sum(objects.total for objects in {difference.objects for difference in missing})
    noun = "object is" if count == 1 else "objects are"
    return (
        f"{count} {noun} left out in database {database}, because {admin} may not grant on them,"
        f" and they belong to extensions or are open to PUBLIC: {_described(missing)}"
    )


def unfinished(username: str, database: str, left: int) -> AccessError:
    """Return the error of a role whose turn is over before all its privileges are settled."""
    return AccessError(
        "Unfinished",
        f"role {username} has privileges on very many objects in database {database}; the"
        f" operator works on them in pieces, one such role at a time; {left} objects and columns"
        " are left",
        retry=Retry.GOES_ON,
    )


def unapproved(username: str, database: str) -> AccessError:
    """Return the error of a role for which a change was not approved; its new plan waits."""
    return AccessError(
        "Unapproved",
        f"the privileges of role {username} in database {database} do not match the approved plan"
        " any more; planning again",
    )


# In the order of the index by roles, as in DEPENDENTS.
_HELD = sql.SQL("""
SELECT pg_catalog.count(*)
  FROM (SELECT s.dbid
          FROM (SELECT s.dbid, s.deptype
                  FROM pg_catalog.pg_shdepend s
                 WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
                   AND s.refobjid >= %(role)s::oid AND s.refobjid <= %(role)s::oid
                 ORDER BY s.refobjid) s
          JOIN pg_catalog.pg_database d ON d.oid = s.dbid
         WHERE d.datname = pg_catalog.current_database() AND s.deptype = 'a'
         LIMIT %(most)s::int8) s
""")


async def count_held(session: Session, role: int, most: int | None = None) -> int:
    """Count objects and columns of the session's database whose ACL names a role, by its oid."""
    ((count,),) = await session.rows(_HELD, {"role": role, "most": most})
    return int(count)


def _unfinished(database: str) -> AccessError:
    return AccessError(
        "Unfinished",
        f"more privileges differ in database {database} than the operator changes in one pass;"
        " the rest follows in the next pass",
    )


def _described(differences: Iterable[Difference]) -> str:
    """Return privileges and objects in words, each with its owner or grantor."""
    privileges: dict[tuple[ComparedObjects, str], set[str]] = {}
    for difference in differences:
        whose = f"owner {difference.objects.owner}"
        if difference.action != "grant":
            whose = f"granted by {difference.grantor}"
        privileges.setdefault((difference.objects, whose), set()).add(difference.privilege)
    total = sum(objects.total for objects, _ in privileges)
    every = (
        f"{', '.join(sorted(names))} on {words(objects.level, item, objects.table)} ({whose})"
        for (objects, whose), names in privileges.items()
        for item in objects.items
    )
    # ``listed`` shows ten at most, and there may be a million.
    return listed(list(islice(every, 64)), total)
