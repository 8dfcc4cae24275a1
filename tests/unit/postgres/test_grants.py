"""What grants ask for, what they may not ask for, and what became of them in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api import postgresaccess
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import Grant
from fairlead.postgres import bounds
from fairlead.postgres.database.plans.grants import check_grants, desired_grants
from fairlead.postgres.database.plans.targets import (
    DatabaseGrants,
    Privileges,
    Target,
    describe,
    parse,
    parse_routine,
)
from fairlead.postgres.errors import AccessError
from fairlead_sandbox.schema import compile_schema


def grants(*fields: JSON) -> list[Grant]:
    return [msgspec.convert({"database": "app"} | one, Grant) for one in fields]


def asked(*fields: JSON, version: int = 180000) -> DatabaseGrants:
    return desired_grants(grants(*fields), version).of("app")


USAGE: dict[Target, Privileges] = {Target("schema", "public"): {"USAGE": False}}


@pytest.mark.parametrize(
    ("fields", "database", "objects"),
    [
        pytest.param(
            {"privileges": ["CONNECT", "TEMPORARY"]},
            {"CONNECT": False, "TEMPORARY": False},
            {},
            id="inferred-database",
        ),
        pytest.param(
            {"privileges": ["CREATE"]},
            {},
            {Target("schema", "public"): {"CREATE": False}},
            id="inferred-schema",
        ),
        pytest.param(
            {"privileges": ["SELECT", "EXECUTE", "MAINTAIN"], "schema": "s"},
            {},
            {
                Target("schema", "s"): {"USAGE": False},
                Target("table", "s"): {"SELECT": False, "MAINTAIN": False},
                Target("routine", "s"): {"EXECUTE": False},
            },
            id="inferred-objects",
        ),
        pytest.param(
            {"on": "Database", "privileges": ["CREATE"]}, {"CREATE": False}, {}, id="database"
        ),
        pytest.param(
            {"true": "Database", "privileges": ["CREATE"]},
            {"CREATE": False},
            {},
            id="on-without-quotes-in-yaml",
        ),
        pytest.param(
            {"on": "Database", "privileges": ["ALL"], "grantOption": True},
            {"CONNECT": True, "TEMPORARY": True, "CREATE": True},
            {},
            id="all-of-a-database",
        ),
        pytest.param(
            {"on": "Sequences", "privileges": ["USAGE"]},
            {},
            USAGE | {Target("sequence", "public"): {"USAGE": False}},
            id="sequences",
        ),
        pytest.param(
            {"on": "Types", "privileges": ["USAGE"], "names": ["mood"], "grantOption": True},
            {},
            USAGE | {Target("type", "public", "mood"): {"USAGE": True}},
            id="types-to-pass-on",
        ),
        pytest.param(
            {"on": "Tables", "names": ["a", "b"], "privileges": ["SELECT"]},
            {},
            USAGE
            | {
                Target("table", "public", "a"): {"SELECT": False},
                Target("table", "public", "b"): {"SELECT": False},
            },
            id="names",
        ),
        pytest.param(
            {"on": "Tables", "names": ["t"], "columns": ["a", "b"], "privileges": ["UPDATE"]},
            {},
            USAGE
            | {
                Target("column", "public", "t", "a"): {"UPDATE": False},
                Target("column", "public", "t", "b"): {"UPDATE": False},
            },
            id="columns",
        ),
        pytest.param(
            {"on": "Tables", "names": ["t"], "columns": ["a"], "privileges": ["ALL"]},
            {},
            USAGE
            | {
                Target("column", "public", "t", "a"): dict.fromkeys(
                    ("SELECT", "INSERT", "UPDATE", "REFERENCES"), False
                )
            },
            id="all-of-a-column",
        ),
        pytest.param(
            {"on": "Routines", "names": ["f", "g(int, text[])"], "privileges": ["EXECUTE"]},
            {},
            USAGE
            | {
                Target("routine", "public", "f"): {"EXECUTE": False},
                Target("routine", "public", "g", arguments="integer, text[]"): {"EXECUTE": False},
            },
            id="routines",
        ),
        pytest.param(
            {"privileges": ["SELECT", "CONNECT"], "includeFuture": {}},
            {"CONNECT": False},
            USAGE
            | {
                Target("table", "public"): {"SELECT": False},
                Target("future table", "public"): {"SELECT": False},
            },
            id="future",
        ),
        pytest.param(
            {
                "on": "Routines",
                "privileges": ["EXECUTE"],
                "includeFuture": {"ownedBy": ["a", "b"]},
            },
            {},
            USAGE
            | {
                Target("routine", "public"): {"EXECUTE": False},
                Target("future routine", "public", "a"): {"EXECUTE": False},
                Target("future routine", "public", "b"): {"EXECUTE": False},
            },
            id="future-of-two",
        ),
        pytest.param(
            {"access": "ReadOnly"},
            {"CONNECT": False},
            USAGE
            | {
                Target(level, "public"): {"SELECT": False}
                for level in ("table", "sequence", "future table", "future sequence")
            },
            id="read-only",
        ),
    ],
)
def test_grants_are_sorted_by_object(
    fields: JSON, database: Privileges, objects: dict[Target, Privileges]
) -> None:
    check_grants(grants(fields))
    assert asked(fields) == DatabaseGrants(database=database, objects=objects)


def test_bundles_grow() -> None:
    sizes = [
        sum(len(privileges) for privileges in asked({"access": bundle}).objects.values())
        for bundle in ("ReadOnly", "ReadWrite", "Owner")
    ]
    assert sizes == sorted(set(sizes))
    owner = asked({"access": "Owner", "includeFuture": {"ownedBy": ["maker"]}}).objects
    assert owner[Target("schema", "public")] == {"CREATE": False, "USAGE": False}
    assert len(owner[Target("future table", "public", "maker")]) == 8


def test_what_two_grants_ask_for_is_added_up() -> None:
    found = asked(
        {"privileges": ["SELECT"], "grantOption": True},
        {"privileges": ["SELECT", "INSERT"]},
        {"on": "Schema", "privileges": ["USAGE"], "grantOption": True},
    )
    assert found.objects == {
        Target("schema", "public"): {"USAGE": True},
        Target("table", "public"): {"SELECT": True, "INSERT": False},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"privileges": ["MAINTAIN", "SELECT"]},
            "needs PostgreSQL 17, but the server has version 16",
            id="17",
        ),
        pytest.param(
            {"privileges": ["SET", "SELECT"]}, "SET in spec.grants is a privilege on", id="set"
        ),
        pytest.param(
            {"on": "Tables", "privileges": ["EXECUTE", "SELECT"]},
            "EXECUTE in spec.grants cannot be granted on: Tables",
            id="another-level",
        ),
    ],
)
def test_what_cannot_be_granted_leaves_the_rest(fields: JSON, message: str) -> None:
    desired = desired_grants(grants(fields, fields), 160004)
    assert desired.of("app").objects[Target("table", "public")] == {"SELECT": False}
    (problem,) = desired.problems
    assert problem.reason == "UnsupportedPrivilege"
    assert message in problem.message


@pytest.mark.parametrize("fields", [{"on": "Tables", "privileges": ["ALL"]}, {"access": "Owner"}])
def test_all_comes_in_the_same_order_in_every_process(fields: JSON) -> None:
    for privileges in asked(fields).objects.values():
        assert list(privileges) == sorted(privileges)


def test_all_is_what_the_server_knows() -> None:
    every = {"on": "Tables", "privileges": ["ALL"]}
    newest = asked(every).objects[Target("table", "public")]
    older = asked(every, version=160004).objects[Target("table", "public")]
    assert newest.keys() - older.keys() == {"MAINTAIN"}


_SCHEMA = postgresaccess.crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC = compile_schema(
    {
        "type": "object",
        "properties": {"grants": _SCHEMA["properties"]["spec"]["properties"]["grants"]},
    }
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"privileges": ["SELECT"]}, "", id="as-ever"),
        pytest.param({}, "set either privileges or access", id="neither"),
        pytest.param(
            {"privileges": ["SELECT"], "access": "Owner"},
            "set either privileges or access",
            id="both",
        ),
        pytest.param({"access": "ReadWrite", "schema": "s", "grantOption": True}, "", id="bundle"),
        pytest.param(
            {"access": "ReadOnly", "on": "Tables"}, "access is for a whole schema", id="bundle-on"
        ),
        pytest.param(
            {"access": "ReadOnly", "true": "Tables"},
            "access is for a whole schema",
            id="bundle-on-unquoted",
        ),
        pytest.param(
            {"privileges": ["SELECT"], "names": ["t"]}, "names need on", id="names-of-nothing"
        ),
        pytest.param(
            {"on": "Schema", "privileges": ["USAGE"], "names": ["t"]},
            "names need on",
            id="names-of-a-schema",
        ),
        pytest.param(
            {"on": "Tables", "privileges": ["SELECT"], "columns": ["c"]},
            "columns need on: Tables, names",
            id="columns-of-all",
        ),
        pytest.param(
            {"on": "Sequences", "privileges": ["SELECT"], "names": ["s"], "columns": ["c"]},
            "columns need on: Tables, names",
            id="columns-of-sequences",
        ),
        pytest.param(
            {"on": "Tables", "privileges": ["DELETE"], "names": ["t"], "columns": ["c"]},
            "no privileges other than SELECT, INSERT, UPDATE and REFERENCES",
            id="delete-a-column",
        ),
        pytest.param(
            {"true": "Tables", "privileges": ["UPDATE"], "names": ["t"], "columns": ["c"]},
            "",
            id="columns",
        ),
        pytest.param(
            {"on": "Tables", "privileges": ["SELECT"], "names": ["t"], "includeFuture": {}},
            "includeFuture is for all",
            id="future-names",
        ),
        pytest.param(
            {"on": "Schema", "privileges": ["USAGE"], "includeFuture": {}},
            "includeFuture is for all",
            id="future-schema",
        ),
        pytest.param({"privileges": ["ALL"]}, "ALL needs on", id="all-of-nothing"),
        pytest.param({"on": "Types", "privileges": ["ALL"]}, "", id="all-types"),
    ],
)
def test_fields_that_contradict_are_refused_by_the_server_and_by_us(
    fields: JSON, message: str
) -> None:
    found = SPEC.validate({"grants": [{"database": "app"} | fields]}, None)
    assert bool(found) is bool(message)
    assert message in " ".join(str(one) for one in found)
    if not message:
        check_grants(grants(fields))
        return
    with pytest.raises(AccessError, match=r"spec.grants\[1\]") as refused:
        check_grants(grants({"privileges": ["USAGE"]}, fields))
    assert refused.value.reason == "GrantInvalid"
    assert message in refused.value.message


def test_a_privilege_of_another_level_is_refused_by_the_server() -> None:
    one = {"database": "app", "on": "Schema", "privileges": ["SELECT"]}
    assert "does not exist for the kind of object in on" in str(
        SPEC.validate({"grants": [one]}, None)
    )


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        pytest.param({"schema": "pg_catalog"}, "SchemaReserved", ".schema", id="catalog"),
        pytest.param(
            {"schema": "information_schema"}, "SchemaReserved", ".schema", id="information-schema"
        ),
        pytest.param({"database": "é" * 32}, "NameInvalid", ".database", id="long-database"),
        pytest.param({"schema": "s\0"}, "NameInvalid", ".schema", id="nul"),
        pytest.param({"schema": "s\ud800"}, "NameInvalid", ".schema", id="half-a-character"),
        pytest.param(
            {"on": "Tables", "names": ["a", "b\n"]}, "NameInvalid", ".names[1]", id="name"
        ),
        pytest.param(
            {"on": "Tables", "names": ["a"], "columns": ["c" * 64]},
            "NameInvalid",
            ".columns[0]",
            id="column",
        ),
        pytest.param(
            {"on": "Routines", "names": ["f(int\u202e)"]}, "NameInvalid", ".names[0]", id="type"
        ),
        pytest.param(
            {"includeFuture": {"ownedBy": ["a\t"]}},
            "NameInvalid",
            ".includeFuture.ownedBy[0]",
            id="owner",
        ),
    ],
)
def test_names_that_are_refused(fields: JSON, reason: str, field: str) -> None:
    one = Grant(database="app", privileges=["SELECT"])
    for name, value in fields.items():
        if name == "includeFuture":
            one.include_future = postgresaccess.IncludeFuture(owned_by=value["ownedBy"])
        else:
            setattr(one, name, value)
    with pytest.raises(AccessError) as refused:
        check_grants([Grant(database="ok", privileges=["USAGE"]), one])
    assert refused.value.reason == reason
    assert f"spec.grants[1]{field}" in refused.value.message


def test_a_spec_cannot_name_without_end() -> None:
    names = [str(number) for number in range(bounds.GRANT_OBJECTS // 64)]
    one = Grant(database="app", on="Tables", names=names, columns=["c"] * 64, privileges=["ALL"])
    check_grants([one])
    with pytest.raises(AccessError, match="grant on whole schemas"):
        check_grants([one, one])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("f", ("f", None), id="any"),
        pytest.param("f()", ("f", ""), id="without-arguments"),
        pytest.param("F (INT,  Varchar(10))", ("F", "integer, character varying"), id="aliases"),
        pytest.param("f(numeric(10, 2)[3])", ("f", "numeric[]"), id="modifiers"),
        pytest.param("f(pg_catalog.int8 [])", ("f", "bigint[]"), id="catalog"),
        pytest.param('f(public."a,(b" [], x)', ("f", 'public."a,(b"[], x'), id="quoted"),
        pytest.param(
            "f(timestamp(3)  with time zone)", ("f", "timestamp with time zone"), id="words"
        ),
        pytest.param("odd)", ("odd)", None), id="closing-alone"),
        pytest.param("odd(", ("odd(", None), id="opening-alone"),
    ],
)
def test_routines_are_named_with_types(text: str, expected: tuple[str, str | None]) -> None:
    assert parse_routine(text) == expected


def test_the_ledger_in_words() -> None:
    found = asked(
        {"privileges": ["CONNECT", "SELECT", "INSERT", "EXECUTE"], "includeFuture": {}},
        {"on": "Tables", "names": ["Odd one"], "privileges": ["SELECT"], "grantOption": True},
        {"on": "Tables", "names": ["t"], "columns": ["c"], "privileges": ["SELECT"]},
        {"on": "Routines", "names": ["f(int)"], "privileges": ["EXECUTE"]},
        {"on": "Types", "privileges": ["USAGE"], "includeFuture": {"ownedBy": ["maker"]}},
    )
    assert describe("app", found) == [
        "CONNECT on database app",
        "USAGE on schema app.public",
        "INSERT, SELECT on all tables in app.public",
        'SELECT with grant option on table app.public."Odd one"',
        "SELECT on column app.public.t.c",
        "EXECUTE on all routines in app.public",
        "EXECUTE on routine app.public.f(integer)",
        "USAGE on all types in app.public",
        "INSERT, SELECT on future tables in app.public",
        "EXECUTE on future routines in app.public",
        "USAGE on future types of maker in app.public",
    ]


NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from(".\"'() ,"),
    min_size=1,
    max_size=12,
)


def _target(parts: tuple[Any, ...]) -> Target:
    level, schema, name, column = parts
    if level == "column":
        return Target(level, schema, name or "t", column)
    if level == "schema":
        return Target(level, schema)
    arguments = "integer, text[]" if level == "routine" and name else None
    return Target(level, schema, name, arguments=arguments)


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(
                ["schema", "table", "column", "sequence", "routine", "type", "future table"]
            ),
            NAMES,
            NAMES | st.just(""),
            NAMES,
        ).map(_target),
        st.dictionaries(st.sampled_from(["SELECT", "USAGE"]), st.booleans(), min_size=1),
        max_size=4,
    ),
    NAMES,
    st.dictionaries(st.just("CONNECT"), st.booleans()),
)
@settings(deadline=None)
def test_the_ledger_is_read_back(
    objects: dict[Target, Privileges], database: str, own: Privileges
) -> None:
    held = DatabaseGrants(database=own, objects=objects)
    lines = describe(database, held)
    assert parse(database, lines) == held
    assert parse(database + "x", lines) == DatabaseGrants()
    assert parse(database, ["anything else", *(line + "\n" for line in lines)]) == DatabaseGrants()
