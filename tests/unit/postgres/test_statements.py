"""Whatever the strings of the API are, a statement is what it is with plain ones.

PostgreSQL's own parser says so; that each is one statement of a known kind is looked after in all
tests of this folder that work on a server.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.support.specs import NAME, TEXT
from tests.support.statements import SENT, parsed, tree, wrong

from fairlead.api.postgresaccess import Attributes, MemberOf
from fairlead.postgres.database.plans import groups, logins, statements
from fairlead.postgres.database.plans.attributes import (
    attribute_parts,
    membership_statements,
    setting_statements,
)
from fairlead.postgres.database.plans.differences import ComparedObject, PrivilegeChange
from fairlead.postgres.database.plans.snapshot import (
    GroupFacts,
    Membership,
    RoleFacts,
    ServerFacts,
)
from fairlead.postgres.database.plans.statements import DatabaseAction
from fairlead.postgres.database.work.rights import join


class Composer(NamedTuple):
    """A statement of some strings, and which kind it is; the first are names, the last a text."""

    kind: str
    compose: Callable[..., sql.Composable]


SERVER = ServerFacts(
    version=180004,
    version_text="18.4",
    system_identifier="1",
    admin="admin",
    admin_oid=10,
    superuser=False,
    reads_verifiers=False,
)


def with_all(name: str, verifier: str) -> sql.Composable:
    attributes = Attributes(connection_limit=3, inherit=False)
    parts = attribute_parts(attributes, "2030-01-01T00:00:00Z", None)
    return statements.alter_role(name, login=True, secret=verifier, parts=parts)


def setting(parameter: str) -> Callable[[str, str], sql.Composable]:
    def compose(name: str, value: str) -> sql.Composable:
        (step,) = setting_statements(name, Attributes(config={parameter: value}), None)
        return step.statement

    return compose


def reset(name: str) -> sql.Composable:
    role = RoleFacts(oid=1, name=name, login=True, config={"app.name": "x"})
    (step,) = setting_statements(name, Attributes(), role)
    return step.statement


def member(version: int) -> Callable[[str, str], sql.Composable]:
    def compose(name: str, group: str) -> sql.Composable:
        one = MemberOf(role=group, admin=True)
        steps, _ = membership_statements(name, [one], None, {group: GroupFacts()}, version)
        return steps[0].statement

    return compose


def left(name: str, group: str, grantor: str) -> sql.Composable:
    role = RoleFacts(oid=1, name=name, login=True, groups={group: Membership(grantor=grantor)})
    steps, _ = membership_statements(name, [], role, {}, 180000)
    return steps[0].statement


def only_admin(name: str, group: str) -> sql.Composable:
    role = RoleFacts(oid=1, name=name, login=True, groups={group: Membership(admin=True)})
    steps, _ = membership_statements(
        name, [MemberOf(role=group)], role, {group: GroupFacts()}, 150000
    )
    return steps[0].statement


def change(action: Any, level: Any, *, option: bool) -> Callable[..., sql.Composable]:
    def compose(schema: str, name: str, other: str, first: str, second: str) -> sql.Composable:
        arguments = ((schema, other), ("pg_catalog", "int4")) if level == "routine" else ()
        return PrivilegeChange(
            action=action,
            level=level,
            privileges=("SELECT", "USAGE"),
            items=(ComparedObject(schema, name, arguments), ComparedObject(schema, other)),
            usernames=(first, second),
            option=option,
            within=other if level == "column" else "",
        ).statement

    return compose


NOON = datetime(2030, 1, 1, tzinfo=UTC)
COMPOSERS: dict[str, Composer] = {
    "create": Composer("CreateRoleStmt", statements.create_role),
    "alter": Composer("AlterRoleStmt", with_all),
    "fence": Composer("AlterRoleStmt", statements.fence_role),
    "comment": Composer("CommentStmt", lambda name, text: statements.comment_role(name, text, "")),
    "set": Composer("AlterRoleSetStmt", setting("app.name")),
    "reset": Composer("AlterRoleSetStmt", reset),
    "member-15": Composer("GrantRoleStmt", member(150000)),
    "member-18": Composer("GrantRoleStmt", member(180000)),
    "left": Composer("GrantRoleStmt", left),
    "only-admin": Composer("GrantRoleStmt", only_admin),
    "revoke-public": Composer(
        "GrantStmt", lambda database: statements.revoke_public(["CONNECT", "CREATE"], database)
    ),
    "owner": Composer("CreateRoleStmt", logins.create_owner),
    "act-as-owner": Composer("AlterRoleSetStmt", logins.act_as_owner),
    "act-as-owner-in": Composer("AlterRoleSetStmt", logins.act_as_owner_in),
    "end-login": Composer("AlterRoleStmt", lambda name: logins.end_login(name, NOON)),
    "fence-login": Composer(
        "AlterRoleStmt", lambda name: logins.end_login(name, None, fence=True)
    ),
    "join": Composer("GrantRoleStmt", lambda name: join(name, SERVER)),
    "join-group": Composer(
        "GrantRoleStmt", lambda group, *names: groups.joining(group, names, 180000).statement
    ),
    "leave-group": Composer(
        "GrantRoleStmt",
        lambda group, by, *names: groups.leaving(group, names, 180000, by, "").statement,
    ),
}
for verb in ("grant", "revoke"):
    for option in (False, True):
        COMPOSERS[f"{verb}-database-{option}"] = Composer(
            "GrantStmt",
            lambda database, *names, verb=verb, option=option: statements.database_grant(
                DatabaseAction(verb, ("CONNECT", "TEMPORARY"), database, option), names
            ),
        )
for action in ("grant", "revoke", "revoke option"):
    for level in ("schema", "table", "column", "sequence", "routine", "type"):
        COMPOSERS[f"{action}-{level}"] = Composer(
            "GrantStmt", change(action, level, option=action != "revoke")
        )
    for level in ("table", "sequence", "routine", "type", "schema", "large object"):
        COMPOSERS[f"{action}-future-{level}"] = Composer(
            "AlterDefaultPrivilegesStmt", change(action, f"future {level}", option=False)
        )
NUMBERS = {
    "create": 2, "alter": 2, "fence": 1, "comment": 2, "set": 2, "reset": 1, "member-15": 2,
    "member-18": 2, "left": 3, "only-admin": 2, "revoke-public": 1, "owner": 1, "join-owner": 2,
    "act-as-owner": 2, "act-as-owner-in": 2, "end-login": 1, "fence-login": 1, "join": 1,
}  # fmt: skip
"""Strings of each; the others have five."""


@pytest.mark.parametrize("which", COMPOSERS)
@given(st.lists(NAME, min_size=5, max_size=5, unique=True), TEXT)
@settings(max_examples=25, deadline=None)
def test_a_statement_is_what_it_is_with_plain_names(
    which: str, names: list[str], text: str
) -> None:
    kind, compose = COMPOSERS[which]
    number = NUMBERS.get(which, 5)
    given_ = names[:number]
    if which in {"create", "alter", "comment", "set"}:
        # A comment without a text is none.
        given_[-1] = text or ("x" if which == "comment" else "")
    plain = [f"plain{index}" for index in range(number)]
    odd, even = compose(*given_).as_string(), compose(*plain).as_string()
    assert type(parsed(odd)).__name__ == kind in SENT
    assert tree(parsed(odd)) == tree(parsed(even), dict(zip(plain, given_, strict=True)))


@pytest.mark.parametrize(
    ("text", "parameters", "right"),
    [
        ("SELECT 1", False, True),
        ("SELECT %(a)s LIKE '%%'", True, True),
        ("SELECT 1; SELECT 2", False, False),
        ("DROP ROLE a; DROP ROLE b", False, False),
        ("DROP DATABASE d", False, False),
        ("ALTER SYSTEM SET a = 1", False, False),
        ("GRANT", False, False),
        ("", False, False),
    ],
)
def test_what_may_be_sent(text: str, parameters: bool, right: bool) -> None:
    assert (wrong(text, parameters=parameters) == "") is right
