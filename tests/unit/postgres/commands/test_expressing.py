"""From what a role holds to grants: by cases, and by chance on a real server."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from fairlead.api.meta import JSON
from fairlead.postgres import bounds
from fairlead.postgres.commands.expressing import (
    Expressed,
    attributes_of,
    express,
    grants_problem,
    object_name,
)
from fairlead.postgres.database.plans.snapshot import RoleFacts
from fairlead.postgres.database.reading.holdings import Grantee, HeldObjects


ROLE, OWNER, OTHER = 20, 10, 30


def held(
    level: str, *names: str, to: Iterable[tuple[int, str, bool]] = (), **more: object
) -> HeldObjects:
    fields = {"schema": "s", "owner": OWNER, "total": len(names), **more}
    made = msgspec.convert({"level": level, "names": names, **fields}, HeldObjects)
    grantees = (
        Grantee(role, frozenset(privileges.split()), option) for role, privileges, option in to
    )
    return msgspec.structs.replace(made, grantees=tuple(grantees))


def said(found: Expressed) -> list[JSON]:
    bodies: list[JSON] = msgspec.to_builtins(found.grants)
    return [
        {key: body[key] for key in body if key not in {"database", "schema"}} for body in bodies
    ]


SELECT = (ROLE, "SELECT", False)


@pytest.mark.parametrize(
    ("rows", "grants"),
    [
        pytest.param(
            [held("table", "a", "b", to=[SELECT])],
            [{"on": "Tables", "privileges": ["SELECT"]}],
            id="all",
        ),
        pytest.param(
            [held("table", "a", to=[SELECT]), held("table", "b")],
            [{"on": "Tables", "privileges": ["SELECT"], "names": ["a"]}],
            id="some",
        ),
        pytest.param(
            [held("table", "a", to=[SELECT]), held("table", "b", owner=ROLE)],
            [{"on": "Tables", "privileges": ["SELECT"]}],
            id="its-own-do-not-count",
        ),
        pytest.param(
            [
                held("table", "a", to=[(ROLE, "SELECT INSERT", False)]),
                held("table", "b", to=[SELECT]),
            ],
            [
                {"on": "Tables", "privileges": ["SELECT"]},
                {"on": "Tables", "privileges": ["INSERT"], "names": ["a"]},
            ],
            id="all-and-some",
        ),
        pytest.param(
            [held("table", "a", to=[SELECT, (ROLE, "INSERT", True)])],
            [
                {"on": "Tables", "privileges": ["SELECT"]},
                {"on": "Tables", "privileges": ["INSERT"], "grantOption": True},
            ],
            id="grant-option",
        ),
        pytest.param(
            [held("table", "a", to=[(OTHER, "SELECT", False), (0, "INSERT", False)])],
            [],
            id="of-others-and-of-everybody",
        ),
        pytest.param(
            [held("column", "x", "y", table="t", to=[(ROLE, "UPDATE", False)])],
            [
                {
                    "on": "Tables",
                    "privileges": ["UPDATE"],
                    "names": ["t"],
                    "columns": ["x", "y"],
                }
            ],
            id="columns",
        ),
        pytest.param(
            [
                held("table", "a", to=[SELECT]),
                held("future table", "maker", owner=11, to=[SELECT]),
            ],
            [
                {
                    "on": "Tables",
                    "privileges": ["SELECT"],
                    "includeFuture": {"ownedBy": ["maker"]},
                }
            ],
            id="now-and-in-future",
        ),
        pytest.param(
            [held("future table", "maker", owner=11, to=[SELECT])],
            [
                {
                    "on": "Tables",
                    "privileges": ["SELECT"],
                    "includeFuture": {"ownedBy": ["maker"]},
                }
            ],
            id="in-future-where-there-is-nothing-yet",
        ),
    ],
)
def test_grants_of_a_schema(rows: list[HeldObjects], grants: list[JSON]) -> None:
    usage = held("schema", "s", to=[(ROLE, "USAGE", False)])
    found = express(ROLE, "d", {}, [usage, *rows])
    asked = {"on": "Schema", "privileges": ["USAGE"]}
    assert (said(found), found.left) == ([asked, *grants], [])


@pytest.mark.parametrize(
    ("schema", "asks"),
    [
        pytest.param(held("schema", "s", to=[(ROLE, "CREATE", False)]), False, id="none"),
        pytest.param(held("schema", "s", to=[(0, "USAGE", False)]), False, id="everybody-s"),
        pytest.param(held("schema", "s", to=[(ROLE, "USAGE", True)]), True, id="its-own"),
        pytest.param(held("schema", "s", owner=ROLE), True, id="an-owner-s"),
    ],
)
def test_a_grant_asks_for_usage_where_the_role_has_it(schema: HeldObjects, asks: bool) -> None:
    rows = [schema, held("table", "a", to=[SELECT]), held("sequence", "q", to=[SELECT])]
    found = express(ROLE, "d", {}, rows)
    inside = [one.schema_usage for one in found.grants if one.on != "Schema"]
    assert inside == [asks, asks]


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        pytest.param(
            [held("table", "a"), held("future table", "maker", owner=11, to=[SELECT])],
            "SELECT on future tables of maker in schema s, but not on all of them",
            id="in-future-alone",
        ),
        pytest.param(
            [held("future table", "maker", schema="", owner=11, to=[SELECT])],
            "SELECT on future tables of maker, in every schema",
            id="of-every-schema",
        ),
        pytest.param(
            [held("table", "pg_authid", schema="pg_catalog", system=True, to=[SELECT])],
            "SELECT on table pg_authid in PostgreSQL's own schema pg_catalog",
            id="catalogs",
        ),
        pytest.param(
            [held("table", "a", to=[SELECT], total=9), held("table", "b")],
            "SELECT on table a and 8 more in schema s",
            id="too-many-to-name",
        ),
    ],
)
def test_what_grants_cannot_say(rows: list[HeldObjects], left: str) -> None:
    found = express(ROLE, "d", {}, rows)
    assert (found.grants, found.left) == ([], [left])


def test_privileges_on_the_database() -> None:
    found = express(ROLE, "d", {"CONNECT": False, "CREATE": True}, [])
    assert said(found) == [
        {"on": "Database", "privileges": ["CONNECT"]},
        {"on": "Database", "privileges": ["CREATE"], "grantOption": True},
    ]


def test_more_grants_than_a_spec_takes() -> None:
    rows = [
        held("schema", f"s{n}", schema=f"s{n}", to=[(ROLE, "USAGE", False)]) for n in range(65)
    ]
    found = express(ROLE, "d", {}, rows)
    assert f"have 65 items, but the limit of spec.grants is {bounds.GRANTS}" in grants_problem(
        found.grants
    )


def test_attributes() -> None:
    assert attributes_of(RoleFacts(oid=1, name="r", login=True)) == (None, "")
    found, why = attributes_of(
        RoleFacts(oid=1, name="r", login=True, inherit=False, config={"work_mem": "1MB"})
    )
    assert (msgspec.to_builtins(found), why) == (
        {"inherit": False, "config": {"work_mem": "1MB"}},
        "",
    )
    assert (
        "another role"
        in attributes_of(RoleFacts(oid=1, name="r", login=True, config={"role": "x"}))[1]
    )


def test_names_of_objects() -> None:
    taken: set[str] = set()
    names = [object_name(role, taken) for role in ("Shop App", "shop_app", "shop-app", "ä", "1")]
    assert names == ["shop-app", "shop-app-2", "shop-app-3", "role", "1"]


# By chance: whatever a role was granted, what is expressed asks for exactly that.
