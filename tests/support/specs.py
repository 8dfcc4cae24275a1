"""Specs of PostgresAccess made at random, with the strings that quoting has to stand."""

from __future__ import annotations

from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.postgres.database.plans.names import MAX_IDENTIFIER_BYTES, check_username
from fairlead.postgres.errors import AccessError


def cut(name: str, end: str = "") -> str:
    """As much of it as fits into an identifier, with an end."""
    return name.encode()[: MAX_IDENTIFIER_BYTES - len(end)].decode(errors="ignore") + end


def is_role(name: str) -> bool:
    """Whether it may be a role's; PostgreSQL takes "public" for PUBLIC in quotes too."""
    return name not in {"public", "none"}


AWKWARD = st.sampled_from(
    ["'", '"', "''", '""', "\\", ";", "--", "/*", "$$", "%", "{", "}", "%(a)s"]
)
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXT = st.lists(st.one_of(AWKWARD, st.text(CHARACTERS, max_size=8)), max_size=6).map("".join)
NAME = TEXT.map(lambda text: cut(text or "name")).filter(is_role)


def _is_username(name: str) -> bool:
    try:
        check_username(name)
    except AccessError:
        return False
    return True


LINE = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs"])
USERNAME = (
    st.lists(AWKWARD | st.text(LINE, max_size=8), max_size=6)
    .map(lambda parts: cut("".join(parts), "-app"))
    .filter(_is_username)
)
PLAIN = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
OBJECT = st.lists(AWKWARD | st.text(PLAIN, max_size=8), max_size=6).map("".join)
USUAL = st.integers(0, 9).map(bool)
"""Almost always true: a single string that is refused refuses a whole spec."""
TIMES = st.sampled_from(["2031-01-02T03:04:05Z", "2031-01-02T03:04:05.5+13:45"])


def grants(group: str, schema: str, table: str, other: str) -> list[JSON]:
    there = {"database": "app", "schema": schema, "privileges": ["SELECT"]}
    return [
        {**there, "on": "Tables", "names": [table], "columns": [other]},
        {**there, "on": "Tables", "names": [other]},
        {**there, "on": "Tables", "includeFuture": {"ownedBy": [group]}, "grantOption": True},
        {**there, "on": "Routines", "names": [f"{table}(int)", other], "privileges": ["EXECUTE"]},
        {**there, "schema": other},
        {**there, "database": other},
        {"database": "app", "schema": schema, "access": "ReadOnly"},
    ]


def or_anything(usual: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    anything = TEXT | st.text(max_size=70)
    return USUAL.flatmap(lambda is_usual: usual if is_usual else anything)


@st.composite
def specs(draw: st.DrawFn) -> JSON:
    group, schema = draw(OBJECT), draw(OBJECT)
    text = draw(TEXT)
    policies = st.sampled_from(["Restrict", "Cascade", "Orphan", "Retain"])
    return {
        "username": draw(or_anything(USERNAME)),
        "generatedSecret": "login",
        "connection": {"serverRef": {"name": "main"}},
        "cleanupPolicy": draw(policies),
        "orphanTo": cut(group, "-group"),
        "memberOf": [{"role": cut(group, "-group")}],
        "passwordPolicy": {"rotation": draw(st.sampled_from(["InPlace", "TwoLogins"]))},
        "attributes": {
            "validUntil": draw(or_anything(TIMES)),
            "config": {"app.name": text, "search_path": text},
        },
        "grants": grants(
            cut(group, "-group"),
            cut(schema, "-schema"),
            cut(draw(OBJECT), "-table"),
            draw(or_anything(OBJECT.map(lambda name: cut(name, "-other")))),
        ),
    }
