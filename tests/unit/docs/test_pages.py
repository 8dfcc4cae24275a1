"""What the pages of docs/tutorials and docs/how-to are made of: blocks, objects and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.foreignkinds import FIELDS
from tests.support.image import ROOT
from tests.support.pages import (
    FOLDERS,
    LANGUAGES,
    PLACES,
    Fence,
    faults,
    fences,
    fences_of,
    objects,
    own_schemas,
    pages,
    printed,
)

from fairlead.api.meta import JSON
from fairlead.api.unknownfields import unknown_fields
from fairlead.cli import main


PAGES = [page for page in pages() if page.stem != "index"]
SCHEMAS = own_schemas()
VALUES: JSON = yaml.safe_load((ROOT / "charts" / "fairlead" / "values.yaml").read_text())
COMMAND = re.compile(r"(?:^|[`|;(]|&&)[ ]*(fairlead (?:[a-z]|--)[^\n`|>&;()]*)", re.MULTILINE)


def named(page: Path) -> str:
    return f"{page.parent.name}-{page.stem}"


def blocks(language: str) -> Iterator[Any]:
    for page in PAGES:
        for fence in fences_of(page):
            if fence.language == language:
                yield pytest.param(fence, id=f"{named(page)}:{fence.line}")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_begins_with_what_its_reader_will_have(page: Path) -> None:
    title, _, rest = page.read_text().partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("At the end ")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_block_says_where_it_belongs(page: Path) -> None:
    before = ""
    for fence in fences_of(page):
        assert fence.language in LANGUAGES
        if fence.language == "sh":
            assert fence.title in PLACES
            assert fence.commands
        elif fence.language == "sql":
            assert fence.title.startswith("Database ")
        elif fence.language == "yaml":
            assert fence.title.endswith(".yaml")
        elif fence.language == "text":
            assert before == "sh", f"line {fence.line}: it is below no commands"
        assert not fence.exit_code or fence.language == "sh"
        before = fence.language


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_the_index_leads_to_all_pages(folder: Path) -> None:
    linked = set(re.findall(r"\]\((?:\./)?([-a-z0-9]+\.md)\)", (folder / "index.md").read_text()))
    assert linked == {page.name for page in folder.glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("fence", list(blocks("yaml")))
def test_objects_have_the_fields_of_their_kinds(fence: Fence) -> None:
    if fence.title.startswith("values"):
        (values,) = objects(fence.text)
        assert list(_strange(values, VALUES)) == []
        return
    for body in objects(fence.text):
        kind = (body["apiVersion"], body["kind"])
        assert faults(body, SCHEMAS) == []
        if kind in FIELDS:
            assert set(_paths(body)) - set(FIELDS[kind].split()) == set()
        elif kind not in SCHEMAS:
            assert not fence.not_run, (
                f"{kind} is neither applied nor in tests/support/foreignkinds.py"
            )
        for inner in _within(body):
            schema = SCHEMAS.get((inner.get("apiVersion", ""), inner.get("kind", "")))
            assert schema is None or unknown_fields(inner, schema) == []


@pytest.mark.parametrize("page", pages(), ids=named)
def test_commands_have_the_flags_that_pages_give_them(page: Path) -> None:
    text = page.read_text()
    for fence in fences_of(page):
        if fence.language == "text":
            text = text.replace(fence.text, "")
    text = text.replace("\\\n", " ")
    wrong = [line for line in COMMAND.findall(text) if not _known(line)]
    assert wrong == []


def _known(line: str) -> bool:
    """Whether there is such a command, with all the flags named."""
    try:
        words = shlex.split(line, comments=True)[1:]
    except ValueError:
        words = line.split()[1:]
    command: click.Command = main
    context = click.Context(main)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        if found is None:
            return words[0].isupper() or words[0] in {"--help", "--version"}
        command = found
        words.pop(0)
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    flags |= {"-h", "--help"}
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    return flags.issuperset(given[: given.index("--")] if "--" in given else given)


def _strange(values: Any, known: Any, path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if name not in known:
            yield f"{path}{name}"
        elif isinstance(value, dict) and known[name]:
            yield from _strange(value, known[name], f"{path}{name}.")


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields of an object of another project; what is free within it has none."""
    if isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
        return
    if not isinstance(value, dict) or path.endswith(("*", ".template", ".base")):
        return
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from _paths(inner, here)


def _within(value: Any) -> Iterator[JSON]:
    if isinstance(value, dict):
        for inner in value.values():
            if isinstance(inner, dict) and "kind" in inner and "spec" in inner:
                yield inner
            yield from _within(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _within(inner)


@pytest.mark.parametrize(
    ("expected", "text", "missing"),
    [
        pytest.param("a   1\n", "x\na 1\ny\n", "", id="blanks"),
        pytest.param("…\na …!\n", "a b!\n", "", id="anything"),
        pytest.param("a\n…\nc\n", "a\nb\nc\n", "", id="a line left out"),
        pytest.param("b\na\n", "a\nb\n", "a", id="order"),
        pytest.param("a\n", "aa\n", "a", id="whole lines"),
    ],
)
def test_what_is_printed_is_held_line_by_line(expected: str, text: str, missing: str) -> None:
    assert printed(expected, text) == missing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("```sh\necho\n", "line 1: the block has no end", id="open"),
        pytest.param("``` sh\necho\n```\n", "line 1", id="fence"),
        pytest.param("<!-- later -->\n```sh\necho\n```\n", "line 1: <!-- later -->", id="comment"),
    ],
)
def test_a_block_that_cannot_be_read_is_told(text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        list(fences(text))
