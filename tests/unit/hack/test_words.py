"""The check of plain words, and that the source passes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hack.words import ROOT, check, findings


def lines(source: str) -> list[int]:
    return [one.line for one in findings("a.py", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param('"""What it does."""', [1], id="of a module"),
        pytest.param('class A:\n    """\n    Those of one."""', [2], id="of a class"),
        pytest.param('async def f():\n    """Of whom."""', [2], id="of a function"),
        pytest.param('X = 1\n"""That it takes."""', [2], id="of a constant"),
        pytest.param('class A:\n    x: int\n    """Whose it is."""', [3], id="of a field"),
        pytest.param('X = 1\n"""Seconds that it takes."""', [], id="a noun and its unit"),
        pytest.param('"""Whether X is Y."""', [], id="a predicate"),
        pytest.param('"""Whatsoever, Office, Thatcher."""', [], id="longer words"),
        pytest.param('x = "What is wrong: "', [], id="a message may begin so"),
        pytest.param("x = 1  # Nobody knows.", [1], id="a comment"),
        pytest.param('x = (\n    "as"\n    " somebody\'s"\n)', [3], id="a message"),
        pytest.param('"""Return it.\n\nWhoever asks."""', [3], id="a later line of a docstring"),
        pytest.param('x = "nobodyish"', [], id="another word"),
        pytest.param("x = \"there is no account 'nobody'\"", [], id="a contract"),
        pytest.param("x = 1\nfound = x", [2], id="a vague variable"),
        pytest.param("def f(*, told=1):\n    self._kept = told", [1, 2], id="others of the kind"),
        pytest.param("async def _look(): ...", [1], id="a vague function"),
        pytest.param("x = [one for one in y]", [], id="one line alone knows it"),
        pytest.param("x = [\n    one\n    for one in y\n]", [3], id="several lines know it"),
    ],
)
def test_lines_that_break_the_rule_are_found(source: str, expected: list[int]) -> None:
    assert lines(source) == expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, source in {"a/b/one.py": '"""What."""', "a/c.py": "# nobody", "a/d.py": ""}.items():
        module = tmp_path / path
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(source)
    return tmp_path


def test_an_error_names_file_line_word_and_remedy(folder: Path) -> None:
    errors = check(folder)
    assert errors[0].startswith("a/b/one.py:1: the text begins with 'What': begin with")
    assert errors[1].startswith("a/c.py:1: 'nobody': name who acts")
    assert len(errors) == 2


def test_the_source_passes() -> None:
    assert check(ROOT / "src") == [], "python -m hack.words"
