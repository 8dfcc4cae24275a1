"""Attributes, settings and memberships of roles: the checks and the missing statements.

Pure. Parameters that hold lists are compared by their items, because PostgreSQL stores them quoted
in its own way (https://www.postgresql.org/docs/current/catalog-pg-db-role-setting.html).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, MemberOf
from fairlead.api.timestamps import parse_time
from fairlead.postgres.database.plans.names import check_identifier, check_no_group
from fairlead.postgres.database.plans.snapshot import GroupFacts, Membership, RoleFacts
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.errors import AccessError, refusal


GRANT_OPTIONS_VERSION = 160000
"""``server_version_num`` of PostgreSQL 16, the first with options of memberships."""

_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")
# PostgreSQL's own flag for it is GUC_LIST_QUOTE; two more parameters have it,
# shared_preload_libraries and unix_socket_directories, which no role can have.
_LISTS = {
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "temp_tablespaces",
}
"""Parameters whose values are lists of names, each quoted by itself."""
_REFUSED = {"role", "session_authorization", "is_superuser"}
"""Parameters that would make the role act as another role."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about groups and parameters that the plan of a role needs.

    ``reserved`` are parameters, in lower case, that only a superuser may set: ALTER ROLE by a
    superuser would give their power to the role's login, or undo a setting made by hand.
    """

    groups: Mapping[str, GroupFacts] = {}
    reserved: frozenset[str] = frozenset()


NOTHING_AROUND = Around()


def check_attributes(attributes: Attributes) -> None:
    """Refuse malformed parameters, and those that would make the role act as another.

    Raises:
        AccessError: AttributeInvalid; the text names the field.
    """
    for name, value in attributes.config.items():
        if not _PARAMETER.fullmatch(name):
            raise refusal(
                "AttributeInvalid",
                f"spec.attributes.config: {name!a} is not the name of a parameter; correct it",
            )
        if name.lower() in _REFUSED:
            raise refusal(
                "AttributeInvalid",
                f"spec.attributes.config.{name} would let the role act as another role; remove it",
            )
        if "\0" in value:
            raise refusal(
                "AttributeInvalid", f"spec.attributes.config.{name} contains a NUL byte; remove it"
            )
    if attributes.valid_until and moment_of(attributes.valid_until) is None:
        raise refusal(
            "AttributeInvalid",
            "spec.attributes.validUntil is not a time with a time zone; write one like"
            " 2027-01-31T12:00:00Z",
        )


def moment_of(text: str) -> datetime | None:
    """Parse a time; return None for a malformed one, and for one without a time zone."""
    try:
        naive = datetime.fromisoformat(text).tzinfo is None
        return None if naive else parse_time(text)
    except (ValueError, OverflowError):
        return None


def check_members(groups: Sequence[MemberOf], names: Collection[str]) -> None:
    """Refuse names that PostgreSQL would cut, and the ``names`` of the access's own roles.

    Raises:
        AccessError: NameInvalid or MemberOfInvalid; the text names the field.
    """
    checked: set[str] = set()
    for index, group in enumerate(groups):
        field = f"spec.memberOf[{index}].role"
        check_identifier(group.role, field)
        check_no_group(group.role, field)
        if group.role in names:
            raise refusal(
                "MemberOfInvalid",
                f"{field} is spec.username itself, or one of its logins; remove it",
            )
        if group.role in checked:
            raise refusal("MemberOfInvalid", f"{field} names {group.role} again; remove one")
        checked.add(group.role)


def valid_until(attributes: Attributes | None, expires_at: str, before: str) -> str | None:
    """Return the end of the password, "" for no end, None if the server's value is left alone.

    Args:
        attributes: the attributes of the access.
        expires_at: the end of the access, "" for none.
        before: the end that was set before, "" for none.
    """
    requested = attributes.valid_until if attributes is not None else None
    times = [time for one in (requested, expires_at) if one and (time := moment_of(one))]
    if times:
        # As the query of ``catalog_query`` writes it, for both are compared as text.
        return min(times).isoformat(timespec="seconds").replace("+00:00", "Z")
    return "" if before else None


def attribute_parts(
    attributes: Attributes | None, until: str | None, role: RoleFacts | None
) -> list[sql.Composable]:
    """Return the missing clauses of CREATE ROLE or ALTER ROLE beside login and password."""
    parts: list[sql.Composable] = []
    if attributes is not None:
        limit = attributes.connection_limit
        if limit is not None and limit != (role.connection_limit if role else -1):
            parts.append(sql.SQL("CONNECTION LIMIT {}").format(sql.Literal(limit)))
        inherit = attributes.inherit
        if inherit is not None and inherit != (role.inherit if role else True):
            parts.append(sql.SQL("INHERIT" if inherit else "NOINHERIT"))
    # No statement removes an end; infinity is an end that never comes.
    if until is not None and until != (role.valid_until if role else ""):
        parts.append(sql.SQL("VALID UNTIL {}").format(sql.Literal(until or "infinity")))
    return parts


def setting_statements(
    username: str,
    attributes: Attributes | None,
    role: RoleFacts | None,
    reserved: Collection[str] = (),
) -> Iterator[AccessStatement]:
    """Yield the statements that set and reset parameters, without the ``reserved`` ones."""
    if attributes is None:
        return
    # PostgreSQL ignores the case of a parameter's name, and stores the spelling of those
    # that it knows.
    settings = {name.lower(): (name, value) for name, value in attributes.config.items()}
    stored = {name.lower(): value for name, value in (role.config if role else {}).items()}
    owner = sql.Identifier(username)
    if role is not None and role.overfull:
        yield reset_settings(username)
    for key, (name, value) in sorted(settings.items()):
        same = key in stored and _items(key, stored[key]) == _items(key, value)
        if same or key in reserved:
            continue
        values = sql.SQL(", ").join(sql.Literal(item) for item in _items(key, value))
        yield AccessStatement(
            statement=sql.SQL("ALTER ROLE {} SET {} = {}").format(owner, _parameter(name), values),
            what=f"set {name} of role {username}",
            why="spec.attributes.config asks for it, and the role has another value or none",
            field=f"spec.attributes.config.{name}",
        )
    for key in sorted(stored.keys() - settings.keys() - set(reserved)):
        yield AccessStatement(
            statement=sql.SQL("ALTER ROLE {} RESET {}").format(owner, _parameter(key)),
            what=f"reset {key} of role {username}",
            why="the role has it, and spec.attributes.config does not name it",
        )


def reset_settings(username: str, database: str = "") -> AccessStatement:
    """Return the reset of settings too large to be read, for all databases or for one."""
    where = (
        sql.SQL(" IN DATABASE {}").format(sql.Identifier(database)) if database else sql.SQL("")
    )
    return AccessStatement(
        statement=sql.SQL("ALTER ROLE {}{} RESET ALL").format(sql.Identifier(username), where),
        what=f"reset the parameters of role {username}"
        + (f" in database {database}" if database else ""),
        why=(
            "they are larger than spec.attributes allows, so the operator does not read them one"
            " by one"
        ),
    )


def refused_settings(
    attributes: Attributes | None, reserved: Collection[str]
) -> list[AccessError]:
    """Return a refusal for each asked parameter that only a superuser may set."""
    config = attributes.config if attributes is not None else {}
    return [
        refusal(
            "PolicyDenied",
            f"only superusers may set spec.attributes.config.{name}; remove it",
        )
        for name in sorted(config)
        if name.lower() in reserved
    ]


def _parameter(name: str) -> sql.Composable:
    return sql.Identifier(*name.split("."))


def _items(name: str, value: str) -> list[str]:
    """Return the names of a list as SET takes them, or the value as the only item."""
    if name not in _LISTS:
        return [value]
    matches = re.findall(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|$)', value)
    items = [quoted.replace('""', '"') if quoted else plain for quoted, plain in matches]
    # SET takes an empty list as one empty name, and PostgreSQL stores it as two quotes.
    return [item for item in items if item] or [""]


def membership_statements(
    username: str,
    members: Sequence[MemberOf] | None,
    role: RoleFacts | None,
    groups: Mapping[str, GroupFacts],
    version: int,
) -> tuple[list[AccessStatement], list[AccessError]]:
    """Return the statements that change the role's memberships, and the errors of single ones.

    Memberships that another role has granted are left alone: the administrator's REVOKE does not
    affect them.

    Args:
        username: the name of the role.
        members: the desired memberships, None to leave all as they are.
        role: the role as it is, None if it is about to be created.
        groups: facts about the desired groups; groups that do not exist are missing.
        version: ``server_version_num``.
    """
    if members is None:
        return [], []
    statements: list[AccessStatement] = []
    problems: list[AccessError] = []
    memberships = role.groups if role else {}
    member = sql.Identifier(username)
    for state in members:
        problem = _refused(state.role, groups)
        if problem is not None:
            problems.append(problem)
            continue
        before = memberships.get(state.role)
        taken = _without_admin(username, state, before, version)
        # Before PostgreSQL 16 a GRANT never takes the option. Since then WITH ADMIN FALSE does,
        # but what the member has granted by it stays.
        if taken is not None and before is not None:
            statements.append(taken)
            before = msgspec.structs.replace(before, admin=False)
        options = _options(state, before, version)
        if options is not None:
            group = sql.Identifier(state.role)
            statement = sql.SQL("GRANT {} TO {}{}").format(group, member, options)
            what = f"make role {username} a member of {state.role}"
            why = (
                "spec.memberOf asks for it, and the role does not have it, or has it with other"
                " options"
            )
            statements.append(AccessStatement(statement=statement, what=what, why=why))
    names = {one.role for one in members}
    for name, membership in sorted(memberships.items()):
        if name not in names and membership.by_admin:
            statement = sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(name), member)
            statement += _in_name_of(membership, version)
            what = f"remove role {username} from {name}"
            why = "the role is a member, and spec.memberOf does not name the group"
            statements.append(AccessStatement(statement=statement, what=what, why=why))
    return statements, problems


def _without_admin(
    username: str, wish: MemberOf, membership: Membership | None, version: int
) -> AccessStatement | None:
    """Return the statement that takes the admin option; None if there is nothing to take."""
    if membership is None or not membership.admin or wish.admin or not membership.by_admin:
        return None
    group, member = sql.Identifier(wish.role), sql.Identifier(username)
    statement = sql.SQL("REVOKE ADMIN OPTION FOR {} FROM {}").format(group, member)
    return AccessStatement(
        statement=statement + _in_name_of(membership, version),
        what=f"revoke the right of role {username} to add members to {wish.role}",
        why="spec.memberOf asks for the membership without that right",
    )


def _in_name_of(membership: Membership, version: int) -> sql.Composed:
    """Return the end of a REVOKE that takes the memberships which the member granted on too.

    Before PostgreSQL 16 they depend on nothing, and stay.
    """
    if version < GRANT_OPTIONS_VERSION:
        return sql.Composed([])
    # Without CASCADE a tenant could keep its membership by granting it on (2BP01).
    if not membership.grantor:
        return sql.Composed([sql.SQL(" CASCADE")])
    return sql.SQL(" GRANTED BY {} CASCADE").format(sql.Identifier(membership.grantor))


def unheeded_options(members: Iterable[MemberOf] | None, version: int) -> list[str]:
    """Return warnings about options of memberships that the server does not know."""
    if version >= GRANT_OPTIONS_VERSION:
        return []
    return [
        f"{' and '.join(options)} of spec.memberOf {state.role} has no effect before PostgreSQL"
        f" 16; the server has version {version // 10000}"
        for state in members or ()
        if (
            options := [
                f"{name}: false"
                for name, given in (("inherit", state.inherit), ("set", state.set))
                if not given
            ]
        )
    ]


def foreign_memberships(members: Iterable[MemberOf] | None, role: RoleFacts | None) -> list[str]:
    """Return warnings about memberships that only another grantor can revoke."""
    if members is None or role is None:
        return []
    names = {one.role for one in members}
    return [
        f"another role made {role.name} a member of {name}; that role has to revoke the membership"
        for name, membership in sorted(role.groups.items())
        if name not in names and not membership.by_admin
    ]


def _refused(group: str, groups: Mapping[str, GroupFacts]) -> AccessError | None:
    facts = groups.get(group)
    if facts is None:
        return AccessError(
            "RoleNotFound",
            f"role {group} of spec.memberOf does not exist; create it, or correct the name",
        )
    if facts.powerful:
        return refusal(
            "PolicyDenied",
            f"role {group} of spec.memberOf is a superuser, has powers over roles, or is a member"
            " of such a role; name another",
        )
    return None


def _options(
    member: MemberOf, membership: Membership | None, version: int
) -> sql.Composable | None:
    """Return the options of GRANT; None if the role has the membership with these options."""
    if version < GRANT_OPTIONS_VERSION:
        if membership is not None and (membership.admin or not member.admin):
            return None
        return sql.SQL(" WITH ADMIN OPTION" if member.admin else "")
    if membership is not None and (membership.inherit, membership.set, membership.admin) == (
        member.inherit,
        member.set,
        member.admin,
    ):
        return None
    words = {True: "TRUE", False: "FALSE"}
    return sql.SQL(
        f" WITH ADMIN {words[member.admin]}, INHERIT {words[member.inherit]},"
        f" SET {words[member.set]}"
    )
