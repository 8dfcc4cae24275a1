"""The manual's reference is made from CRDs, commands and alerts, and is not behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from hack.reference import alerts, commands, pages, resources, tables


FOLDER = Path(__file__).parents[3] / "docs" / "reference"


def test_the_reference_is_as_the_code_makes_it() -> None:
    assert list(pages.stale(FOLDER)) == [], "python -m hack.reference docs/reference"


def test_a_page_that_is_no_more_and_one_that_is_not_yet_are_told_and_mended(
    tmp_path: Path,
) -> None:
    pages.write(tmp_path)
    for name in pages.BY_HAND:
        (tmp_path / name).write_text("# By hand\n")
    assert list(pages.stale(tmp_path)) == []
    (tmp_path / "resources" / "gone.md").write_text("# Gone\n")
    (tmp_path / "alerts.md").unlink()
    (tmp_path / "commands" / "bind.md").write_text("# Changed\n")
    assert list(pages.stale(tmp_path)) == ["alerts.md", "commands/bind.md", "resources/gone.md"]
    pages.write(tmp_path)
    assert list(pages.stale(tmp_path)) == []


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        pytest.param({"description": "A *name*"}, "A \\*name\\*.", id="text"),
        pytest.param({"default": "a"}, 'Default: `"a"`.', id="default"),
        pytest.param({"default": False}, "Default: `false`.", id="default-false"),
        pytest.param({"enum": ["A", "B"]}, "One of `A`, `B`.", id="enum"),
        pytest.param({"pattern": "^a|b$"}, "Matches `^a|b$`.", id="pattern"),
        pytest.param({"minimum": 1, "maximum": 9}, "1 to 9.", id="range"),
        pytest.param({"minimum": 0}, "At least 0.", id="least"),
        pytest.param({"minLength": 1}, "At least 1 character.", id="one"),
        pytest.param({"maxItems": 1}, "At most 1 item.", id="one-item"),
        pytest.param({"minLength": 1, "maxLength": 63}, "1 to 63 characters.", id="length"),
        pytest.param(
            {"items": {"enum": ["A"]}, "x-kubernetes-list-type": "set"},
            "No duplicates. Each item: One of `A`.",
            id="list",
        ),
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "self", "message": "say a"}]},
            "Rule: say a.",
            id="rule",
        ),
    ],
)
def test_what_is_said_of_a_field(schema: dict[str, Any], told: str) -> None:
    root = {"properties": {"spec": {"type": "object", "properties": {"a": schema}}}}
    _, field = resources.fields(root)
    assert field.path == "spec.a"
    assert resources.about(field) == told
    required = resources.about(field._replace(required=True))
    assert "**Required.**" in required


def test_every_field_says_what_it_is() -> None:
    silent = [
        f"{crd['metadata']['name']} {version['name']}: {field.path}"
        for crd in resources.definitions()
        for version in crd["spec"]["versions"]
        for field in resources.fields(version["schema"]["openAPIV3Schema"])
        if not field.schema.get("description")
    ]
    assert silent == []


def test_every_flag_says_what_it_does() -> None:
    silent = [
        f"{name} {parameter.opts[-1]}"
        for name, command in commands.commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help and not parameter.hidden
    ]
    assert silent == []


def test_an_alert_leads_to_its_runbook_and_values_are_told_by_their_names() -> None:
    page = alerts.pages()["alerts.md"]
    assert "{{" not in page
    for runbook in (FOLDER.parent / "runbooks").glob("Fairlead*.md"):
        assert f"(../runbooks/{runbook.name})" in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a_b <c> [d] *", "a\\_b \\<c\\> \\[d\\] \\*", id="plain"),
        pytest.param("say `a_b <c>` now", "say `a_b <c>` now", id="code"),
        pytest.param("``a`b`` c_d", "`` a`b `` c\\_d", id="fenced-twice"),
        pytest.param("one ` alone_", "one ` alone\\_", id="unpaired"),
    ],
)
def test_descriptions_are_text(text: str, expected: str) -> None:
    assert tables.words(text) == expected


def test_pages_by_hand_are_there_and_none_that_the_code_makes() -> None:
    assert all((FOLDER / name).exists() for name in pages.BY_HAND)
    assert pages.BY_HAND.isdisjoint(pages.pages())
