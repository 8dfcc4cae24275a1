"""Pages of docs/tutorials and docs/how-to, as blocks that can be run and held against schemas.

A block says by its title where it belongs: commands to a cluster, YAML to a file, SQL to a
database. A comment right above it says that it cannot run here and why, or how it ends:

    <!-- not run: needs an engine for containers -->
    <!-- exit code: 1 -->

``text`` below commands is what they print, with others' lines in between or not; ``…`` in it
stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.support.image import ROOT

from fairlead.api import kubebind
from fairlead.api import postgresaccess as access
from fairlead.api.meta import JSON
from fairlead.api.servicebinding import spec as servicebinding
from fairlead.api.unknownfields import unknown_fields
from fairlead_sandbox.schema.objects.compiled import compile_schema


FOLDERS = (ROOT / "docs" / "tutorials", ROOT / "docs" / "how-to")
PROVIDER, CONSUMER, TERMINAL = "Provider's cluster", "Consumer's cluster", "Your terminal"
PLACES = (PROVIDER, CONSUMER, TERMINAL)
RUNNABLE = ("sh", "sql")
LANGUAGES = (*RUNNABLE, "yaml", "text", "ini", "lua", "mermaid")

_FENCE = re.compile(r"```(?P<language>\w*)(?: title=\"(?P<title>[^\"]*)\")?$")
_COMMENT = re.compile(r"<!-- (?P<what>not run|exit code): (?P<how>.+) -->$")


class Fence(NamedTuple):
    """A fenced block: its language, title and text, what its comment says, and its line."""

    language: str
    title: str
    text: str
    not_run: str
    exit_code: int
    line: int

    @property
    def commands(self) -> list[str]:
        """Its commands, with continued lines joined, and without comments of their own."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]


def pages() -> list[Path]:
    """All pages of both folders."""
    return [page for folder in FOLDERS for page in sorted(folder.glob("*.md"))]


def fences_of(page: Path) -> list[Fence]:
    """The blocks of a page, in order."""
    return list(fences(page.read_text()))


def fences(text: str) -> Iterator[Fence]:
    """The blocks of a page, in order.

    Raises:
        AssertionError: a fence or its comment cannot be read, or the last one is open.
    """
    lines = iter(enumerate(text.splitlines(), 1))
    above = ""
    for number, line in lines:
        if not line.startswith("```"):
            above = line
            continue
        head = _FENCE.match(line)
        assert head, f'line {number}: {line} is not ```LANGUAGE title="..."'
        body = []
        for _, inner in lines:
            if inner == "```":
                break
            body.append(inner)
        else:
            raise AssertionError(f"line {number}: the block has no end")
        comment = _COMMENT.match(above)
        assert comment or not above.startswith("<!--"), f"line {number - 1}: {above}"
        how = {comment["what"]: comment["how"]} if comment else {}
        yield Fence(
            head["language"],
            head["title"] or "",
            "".join(f"{one}\n" for one in body),
            how.get("not run", ""),
            int(how.get("exit code", 0)),
            number,
        )
        above = ""


def printed(expected: str, text: str) -> str:
    """The first line that was expected and not printed in this order, "" if all were."""
    lines = iter([" ".join(line.split()) for line in text.splitlines()])
    for one in expected.splitlines():
        wanted = " ".join(one.split())
        pattern = ".*".join(map(re.escape, wanted.split("…")))
        if wanted not in {"", "…"} and not any(re.fullmatch(pattern, line) for line in lines):
            return one
    return ""


def objects(text: str) -> list[JSON]:
    """The objects of a block of YAML."""
    return [body for body in yaml.safe_load_all(text) if body]


def faults(body: JSON, schemas: dict[tuple[str, str], JSON]) -> list[str]:
    """What is wrong with an object by the schema of its kind; fields that it lacks count."""
    schema = schemas.get((body["apiVersion"], body["kind"]))
    if schema is None:
        return []
    complete: JSON = yaml.safe_load(yaml.safe_dump(body))
    compiled = compile_schema(schema)
    compiled.default(complete)
    return [*unknown_fields(body, schema), *map(str, compiled.validate(complete))]


def own_schemas() -> dict[tuple[str, str], JSON]:
    """The schemas of Fairlead's kinds by apiVersion and kind."""
    crds: list[Any] = [
        *kubebind.provider_crds(),
        *kubebind.consumer_crds(),
        *access.crds(),
        *servicebinding.crds(),
    ]
    return {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]): version[
            "schema"
        ]["openAPIV3Schema"]
        for crd in crds
        for version in crd["spec"]["versions"]
    }
