"""How ``fairlead bindings`` looks."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from fairlead.api.reasons.verdict import Remark
from fairlead.cli.kubebind.bindings import BindingsTable, age, rows_json, short
from fairlead.konnector.commands.overview.rows import MirroredRow, OverviewRow


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
WELL = OverviewRow(
    "postgres", "Acme", ["accesses.example.org"], 100, 100, None, "2026-01-01T11:59:18Z", ""
)
BEHIND = OverviewRow(
    *("widgets", "Factory", ["widgets.example.org", "gadgets.example.org"], 97, 100, 130.0),
    *("2026-01-01T09:59:00Z", "NameTooLong: 3 objects have names that are too long: a, b, c"),
    state="failed",
    reason="NameTooLong",
    remedy="use a shorter name",
)
UNSEEN = OverviewRow("queue", "", [], None, None, None, None, "cannot reach https://10.0.0.1:6443")


MIRRORED = MirroredRow(
    *("all", "acme (10.0.0.1:6443)", ["widgets.example.org"], 1, 2, 30.0),
    *("2026-01-01T11:59:18Z", ""),
    kind="ClusterBinding",
    namespace="",
    connection="acme",
    conflicts=1,
    versions={"widgets.example.org": ["v1"]},
    remarks=[
        Remark("Conflicts", "1 object is not synchronised", "ForeignObjectExists", "rename it")
    ],
)


def shown(*rows: OverviewRow, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(BindingsTable(rows, NOW))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_wide_table_has_one_line_for_each_binding() -> None:
    lines = shown(WELL, BEHIND, UNSEEN, width=200)
    assert [line.split()[0] for line in lines] == ["BINDING", "postgres", "widgets", "queue"]
    assert lines[1].split() == ["postgres", "Acme", "accesses", "100/100", "-", "42s", "-"]
    assert "widgets, gadgets   97/100   2m         2h  NameTooLong: 3 objects" in lines[2]
    assert lines[2].endswith("too long: a, b, c; next: use a shorter name")
    assert lines[3].split()[:6] == ["queue", "-", "-", "?", "?", "?"]
    assert lines[3].endswith("cannot reach https://10.0.0.1:6443")


def test_a_narrow_table_has_the_problems_below_it() -> None:
    lines = shown(WELL, BEHIND, UNSEEN, width=80)
    assert "PROBLEM" not in lines[0]
    assert max(map(len, lines)) <= 80
    assert lines[4] == ""
    assert lines[5].startswith("widgets: NameTooLong: 3 objects")
    assert "next: use a shorter name" in " ".join(lines[5:-1])
    assert lines[-1] == "queue: cannot reach https://10.0.0.1:6443"


def test_the_protocol_is_a_column_while_there_is_one_of_kbind_v2() -> None:
    assert "PROTOCOL" not in shown(WELL, width=200)[0]
    header, first, second = shown(WELL, MIRRORED, width=200)
    assert header.split()[:3] == ["BINDING", "PROTOCOL", "PROVIDER"]
    assert first.split()[:2] == ["postgres", "v1alpha2"]
    assert second.split()[:2] == ["clusterbinding/all", "v2"]
    assert "acme (10.0.0.1:6443)  widgets (v1)      1/2  30s        42s  remark: " in second
    assert second.endswith("1 object is not synchronised; next: rename it")


def test_on_forty_columns_each_binding_is_a_list() -> None:
    assert shown(WELL, BEHIND, MIRRORED, width=40) == [
        "postgres",
        "  PROTOCOL   v1alpha2",
        "  PROVIDER   Acme",
        "  RESOURCES  accesses",
        "  IN SYNC    100/100",
        "  LAG        -",
        "  HEARTBEAT  42s",
        "",
        "widgets",
        "  PROTOCOL   v1alpha2",
        "  PROVIDER   Factory",
        "  RESOURCES  widgets, gadgets",
        "  IN SYNC    97/100",
        "  LAG        2m",
        "  HEARTBEAT  2h",
        "  NameTooLong: 3 objects have names that",
        "  are too long: a, b, c; next: use a",
        "  shorter name",
        "",
        "clusterbinding/all",
        "  PROTOCOL   v2",
        "  PROVIDER   acme (10.0.0.1:6443)",
        "  RESOURCES  widgets (v1)",
        "  IN SYNC    1/2",
        "  LAG        30s",
        "  HEARTBEAT  42s",
        "  remark: ForeignObjectExists: 1 object",
        "  is not synchronised; next: rename it",
    ]
    assert "PROTOCOL" not in "".join(shown(WELL, width=40))


def test_nothing_bound_says_what_to_do() -> None:
    (line,) = shown(width=80)
    assert "fairlead bind -f FILE" in line


def test_texts_of_a_provider_cannot_steer_the_terminal() -> None:
    evil = OverviewRow(
        *("a", "\x1b[2J[red]Evil\x07", [], 0, 0, None, None),
        "Reason: one\ntwo\x1b]0;title\x07",
    )
    text = "\n".join(shown(evil, width=200))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[2J[red]Evil" in text
    assert "Reason: one two" in text


def test_json_names_everything_and_says_null_for_what_is_unknown() -> None:
    document = json.loads(rows_json([BEHIND, UNSEEN]))
    assert document["bindings"][0] == {
        "binding": "widgets",
        "provider": "Factory",
        "resources": ["widgets.example.org", "gadgets.example.org"],
        "inSync": 97,
        "objects": 100,
        "lagSeconds": 130.0,
        "lastHeartbeatTime": "2026-01-01T09:59:00Z",
        "problem": BEHIND.problem,
        "state": "failed",
        "reason": "NameTooLong",
        "remedy": "use a shorter name",
        "since": "",
        "versions": {},
        "remarks": [],
    }
    assert document["bindings"][1]["inSync"] is None
    mirrored = json.loads(rows_json([MIRRORED]))["bindings"][0]
    assert mirrored.keys() - document["bindings"][0].keys() == {
        *("protocol", "kind", "namespace", "connection", "conflicts")
    }
    assert (mirrored["protocol"], mirrored["kind"], mirrored["binding"]) == (
        *("v2", "ClusterBinding", "all"),
    )
    assert json.loads(rows_json([])) == {"bindings": []}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([], "-"),
        (["a.x.org", "b.x.org"], "a, b"),
        (["a.x.org", "a.y.org", "b.x.org"], "a.x.org, a.y.org, b"),
    ],
)
def test_short_names(resources: list[str], expected: str) -> None:
    assert short(resources) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((None, "-"), (0.4, "0s"), (119.9, "119s"), (120.0, "2m"), (7199.0, "119m")),
        *((7200.0, "2h"), (172_799.0, "47h"), (172_800.0, "2d")),
    ],
)
def test_ages(seconds: float | None, expected: str) -> None:
    assert age(seconds) == expected
