from __future__ import annotations

from typing import Any

import pytest

from fairlead_sandbox.schema import compile_path


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


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".metadata.name", ["n"]),
        ("{.metadata.name}", ["n"]),
        ("$.metadata.name", ["n"]),
        (".metadata.nope.more", []),
        (".spec.n", [0]),
        (r".metadata.labels.a\.b/c", ["x"]),
        (".metadata.labels['a.b/c']", ["x"]),
        ('.metadata["name"]', ["n"]),
        (".spec.l[0].p", [1]),
        (".spec.l[-1].p", [3]),
        (".spec.l[9].p", []),
        (".spec.l[0:2].p", [1, 2]),
        (".spec.l[*].p", [1, 2, 3]),
        (".spec.l.*.p", [1, 2, 3]),
        (".spec.s", [["a", "b"]]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type == "Nope")].status', []),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@.n)].type", ["Ready"]),
        (".status.conditions[?(@.n > 2)].type", ["Ready"]),
        (".status.conditions[?(@.n > 'x')].type", []),
        (".spec.s[?(@ == 'a')]", ["a"]),
        (".", [OBJ]),
    ],
)
def test_found(path: str, expected: list[Any]) -> None:
    assert compile_path(path)(OBJ) == expected


@pytest.mark.parametrize("path", ["spec", ".spec[", ".a[?(x)]", ".a[?(@.b == c)]", "..a", ".a["])
def test_refused(path: str) -> None:
    with pytest.raises(ValueError, match="unrecognized"):
        compile_path(path)
