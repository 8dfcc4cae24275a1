"""The manifests and the pages of the examples."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from tests.support.foreignkinds import FIELDS
from tests.support.image import ROOT
from tests.support.pages import faults, fences_of, own_schemas

from fairlead.api.kbind.rights import binding_roles
from fairlead.api.meta import JSON


FOLDER = ROOT / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*"))
SCHEMAS = own_schemas()
LINES = 45
"""The length of a README, which is half a screen and what leads on."""


def named(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.yaml")), ids=named)
def test_a_manifest_has_the_fields_of_its_kind(file: Path) -> None:
    bodies = list(yaml.safe_load_all(file.read_text()))
    assert bodies
    for body in bodies:
        kind = (body["apiVersion"], body["kind"])
        assert faults(body, SCHEMAS) == []
        if kind in FIELDS:
            assert paths(body) - set(FIELDS[kind].split()) == set()


def paths(value: JSON, above: str = "") -> set[str]:
    """Paths of the fields of an object; fields of a list's items are below the list."""
    found = set()
    for name, inner in value.items():
        here = f"{above}.{name}" if above else name
        found.add(here)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                found |= paths(one, here)
    return found


def test_examples_are_numbered_without_a_gap_and_listed() -> None:
    listed = re.findall(r"\]\(([^)]+)/README.md\)", (FOLDER / "README.md").read_text())
    assert listed == [folder.name for folder in EXAMPLES]
    assert [int(name[:2]) for name in listed] == list(range(1, len(listed) + 1))


@pytest.mark.parametrize("folder", EXAMPLES, ids=named)
def test_a_readme_has_the_end_first_and_the_one_command(folder: Path) -> None:
    readme = folder / "README.md"
    title, _, rest = readme.read_text().partition("\n\n")
    assert title.startswith(f"# {folder.name[:2]}: ")
    assert rest.startswith("At the end ")
    first, second, *_ = fences_of(readme)
    assert (first.language, first.commands) == ("sh", [f"{folder.relative_to(ROOT)}/run"])
    assert second.language == "text"
    assert len(rest.partition("\n## ")[0].splitlines()) <= LINES
    assert os.access(folder / "run", os.X_OK)
    linked = set(re.findall(r"\]\(([^/)]+)\)", rest))
    assert linked == {file.name for file in folder.iterdir() if shown(file, readme)}


def shown(file: Path, readme: Path) -> bool:
    """Whether a README has to name a file: the manifests, and the programs of the library."""
    if file.suffix == ".py":
        return "library" in readme.parent.name
    return file.suffix in {".yaml", ".lua"}


def test_rights_of_the_konnector_are_those_that_a_binding_needs() -> None:
    folder = FOLDER / "09-nothing-installed"
    stated = list(yaml.safe_load_all((folder / "rights.yaml").read_text()))
    account = {"kind": "ServiceAccount", "name": "konnector", "namespace": "kube-bind"}
    api = "certificates.pki.acme.io"
    needed = binding_roles("certificates", "shop", [api], konnector=account)
    for body in needed:
        body["metadata"].pop("annotations", None)
    assert stated[1:] == needed
