"""From differences to statements, without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.postgres.database.plans.differences import (
    ComparedObject,
    ComparedObjects,
    Difference,
    PrivilegeChange,
    listed,
    plan_privileges,
)


def objects(level: Any, *names: str, schema: str = "s", **more: Any) -> ComparedObjects:
    items = tuple(ComparedObject(schema, name) for name in names) or (ComparedObject(schema),)
    return ComparedObjects(level=level, items=items, owner="owner", total=len(items), **more)


def missing(of: ComparedObjects, privilege: str = "SELECT", **more: Any) -> Difference:
    base = Difference(action="grant", objects=of, privilege=privilege)
    return msgspec.structs.replace(base, **more)


def statements(**differences: list[Difference]) -> list[str]:
    return [change.statement.as_string() for change in plan_privileges(differences)]


TABLES = objects("table", "a", "b")
FUNCTION = ComparedObjects(
    level="routine",
    items=(
        ComparedObject("s", 'f"', (("pg_catalog", "int4"), ("s", "m"))),
        ComparedObject("s", "f"),
    ),
    owner="owner",
    total=2,
)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        pytest.param(
            missing(TABLES), 'GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app"', id="tables"
        ),
        pytest.param(
            missing(TABLES, option=True),
            'GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app" WITH GRANT OPTION',
            id="to-pass-on",
        ),
        pytest.param(
            missing(TABLES, action="revoke"),
            'REVOKE SELECT ON TABLE "s"."a", "s"."b" FROM "app"',
            id="revoke",
        ),
        pytest.param(
            missing(TABLES, action="revoke", option=True),
            'REVOKE SELECT ON TABLE "s"."a", "s"."b" FROM "app" CASCADE',
            id="revoke-what-was-passed-on",
        ),
        pytest.param(
            missing(TABLES, action="revoke option", option=True),
            'REVOKE GRANT OPTION FOR SELECT ON TABLE "s"."a", "s"."b" FROM "app" CASCADE',
            id="revoke-the-option",
        ),
        pytest.param(
            missing(objects("schema"), "USAGE"), 'GRANT USAGE ON SCHEMA "s" TO "app"', id="schema"
        ),
        pytest.param(
            missing(objects("sequence", "q"), "USAGE"),
            'GRANT USAGE ON SEQUENCE "s"."q" TO "app"',
            id="sequence",
        ),
        pytest.param(
            missing(objects("type", "m"), "USAGE"),
            'GRANT USAGE ON TYPE "s"."m" TO "app"',
            id="type",
        ),
        pytest.param(
            missing(FUNCTION, "EXECUTE"),
            'GRANT EXECUTE ON ROUTINE "s"."f"(), "s"."f"""("pg_catalog"."int4", "s"."m") TO "app"',
            id="routines",
        ),
        pytest.param(
            missing(objects("column", "x", "y", table="t")),
            'GRANT SELECT ("x", "y") ON TABLE "s"."t" TO "app"',
            id="columns",
        ),
        pytest.param(
            missing(objects("future table", "maker"), option=True),
            'ALTER DEFAULT PRIVILEGES FOR ROLE "maker" IN SCHEMA "s"'
            ' GRANT SELECT ON TABLES TO "app" WITH GRANT OPTION',
            id="future",
        ),
        pytest.param(
            missing(objects("future large object", "maker", schema=""), action="revoke"),
            'ALTER DEFAULT PRIVILEGES FOR ROLE "maker" REVOKE SELECT ON LARGE OBJECTS FROM "app"',
            id="future-everywhere",
        ),
    ],
)
def test_a_statement_for_each_kind(difference: Difference, expected: str) -> None:
    assert statements(app=[difference]) == [expected]


def test_what_is_alike_shares_a_statement() -> None:
    more = objects("table", "c", schema="r")
    both = [missing(TABLES), missing(TABLES, "INSERT"), missing(more), missing(more, "INSERT")]
    assert statements(b=both, a=both) == [
        'GRANT INSERT, SELECT ON TABLE "r"."c", "s"."a", "s"."b" TO "a", "b"'
    ]


def test_columns_of_two_tables_do_not() -> None:
    found = [missing(objects("column", "x", table=table)) for table in ("t", "u")]
    assert len(statements(app=found)) == 2
    future = [missing(objects("future table", "maker", schema=schema)) for schema in "sr"]
    assert len(statements(app=future)) == 2
    makers = [missing(objects("future table", maker)) for maker in "ab"]
    assert statements(app=makers) == [
        'ALTER DEFAULT PRIVILEGES FOR ROLE "a", "b" IN SCHEMA "s" GRANT SELECT ON TABLES TO "app"'
    ]


def test_revocations_come_first_and_what_is_impossible_not_at_all() -> None:
    assert statements(
        app=[
            missing(TABLES),
            missing(objects("table", "theirs"), possible=False),
            missing(objects("table", "z"), action="revoke"),
        ]
    ) == [
        'REVOKE SELECT ON TABLE "s"."z" FROM "app"',
        'GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app"',
    ]


def test_a_statement_has_an_end() -> None:
    many = objects("table", *(f"t{number:03}" for number in range(450)))
    shared = [missing(many)]
    roles = {f"r{number:04}": shared for number in range(1001)}
    sizes = [(len(one.items), len(one.usernames)) for one in plan_privileges(roles)]
    assert sizes == [(items, users) for items in (200, 200, 50) for users in (500, 500, 1)]


@pytest.mark.parametrize(
    ("items", "usernames", "by_role", "expected"),
    [
        pytest.param("abc", "xy", False, [("a", "xy"), ("bc", "xy")], id="objects-first"),
        pytest.param("abc", "xy", True, [("abc", "x"), ("abc", "y")], id="roles-first"),
        pytest.param("abc", "x", True, [("a", "x"), ("bc", "x")], id="one-role"),
        pytest.param("a", "xyz", False, [("a", "x"), ("a", "yz")], id="one-object"),
        pytest.param("a", "x", False, [], id="one-of-each"),
    ],
)
def test_a_change_is_taken_apart(
    items: str, usernames: str, by_role: bool, expected: list[tuple[str, str]]
) -> None:
    change = PrivilegeChange(
        action="grant",
        level="table",
        privileges=("SELECT",),
        items=tuple(ComparedObject("s", name) for name in items),
        usernames=tuple(usernames),
    )
    halves = change.halves(by_role=by_role)
    assert [
        ("".join(item.name for item in half.items), "".join(half.usernames)) for half in halves
    ] == expected


@pytest.mark.parametrize(
    ("difference", "what", "reason"),
    [
        pytest.param(
            missing(TABLES, option=True),
            "grant SELECT on table s.a, table s.b to app with grant option",
            "ask for it, and it is not there",
            id="grant",
        ),
        pytest.param(
            missing(objects("future table", "maker"), action="revoke"),
            "revoke SELECT on future tables of maker in schema s from app",
            "no grant in spec.grants asks for it",
            id="revoke",
        ),
        pytest.param(
            missing(objects("column", "x", table="t"), action="revoke option", option=True),
            "revoke grant option for SELECT on column s.t.x from app",
            "without the grant option",
            id="option",
        ),
    ],
)
def test_a_change_in_words(difference: Difference, what: str, reason: str) -> None:
    (change,) = plan_privileges({"app": [difference]})
    assert change.what == what
    assert change.reason.endswith(reason)


@pytest.mark.parametrize(
    ("things", "total", "expected"),
    [
        pytest.param(["a", "b"], 0, "a, b", id="all"),
        pytest.param(["a", "b"], 7, "a, b and 5 more", id="more-than-listed"),
        pytest.param(list("abcdefghijkl"), 0, "a, b, c, d, e, f, g, h, i, j and 2 more", id="12"),
        pytest.param(["a" * 600, "b"], 0, "a" * 600 + " and 1 more", id="long"),
    ],
)
def test_lists_have_an_end(things: list[str], total: int, expected: str) -> None:
    assert listed(things, total) == expected
