from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.jsonpath import JSONPathError
from fairlead_sandbox.resources.custom import columns


OBJ: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "x"}, "name": "n"},
    "spec": {"l": [{"p": 1}, {"p": 2}, {"p": 3}], "s": ["a", "b"], "n": 0},
    "status": {
        "conditions": [
            {"type": "Synced", "status": "False"},
            {"type": "Ready", "status": "True", "n": 3},
        ]
    },
}


def shown(path: str, type_: str = "string") -> Any:
    (column,) = columns([{"name": "Any", "jsonPath": path, "type": type_}])
    return column.cell(OBJ)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".metadata.name", "n"),
        (".metadata.nope.more", None),
        (".spec.n", "0"),
        (r".metadata.labels.a\.b/c", "x"),
        (r".metadata.labels['a\.b/c']", "x"),
        (".metadata.labels['a.b/c']", None),
        (".spec.l[0].p", "1"),
        (".spec.l[-1].p", "3"),
        (".spec.l[9].p", None),
        (".spec.l[0:2].p", "1 2"),
        (".spec.l[*].p", "1 2 3"),
        (".spec.l.*.p", "1 2 3"),
        ("..p", "1 2 3"),
        (".spec.s", '["a","b"]'),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.type=='Ready')].status", "True"),
        ('.status.conditions[?(@.type == "Nope")].status', None),
        ('.status.conditions[?(@.type!="Ready")].status', "False"),
        (".status.conditions[?(@.n)].type", "Ready"),
        (".status.conditions[?(@.n > 2)].type", "Ready"),
        (".status.conditions[?(@.n > 'x')].type", None),
        (".metadata[?(@.a)]", None),
        (".spec.s[?(@ == 'a')]", "a"),
    ],
)
def test_shown(path: str, expected: str | None) -> None:
    assert shown(path) == expected


def test_a_number_is_shown_as_one() -> None:
    assert shown(".spec.n", "integer") == 0
    assert shown(".metadata.name", "integer") is None


@pytest.mark.parametrize("path", [".spec[", ".a[?(x", ".a[", ".a['b]"])
def test_refused(path: str) -> None:
    with pytest.raises(JSONPathError):
        shown(path)
