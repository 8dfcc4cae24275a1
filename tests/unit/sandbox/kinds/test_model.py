"""The table of built-in kinds says of every kind that is served what it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.api.resource import Resource
from fairlead_sandbox import Sandbox
from fairlead_sandbox.builtin import builtin_types, resources
from fairlead_sandbox.builtin.strategies import WithSpec
from fairlead_sandbox.kinds import IncompleteModelError, model
from fairlead_sandbox.resources.types import ResourceType


WITHOUT_A_ROW = Resource("example.org", "v1", "oddities", "Oddity")


async def test_a_built_in_kind_without_a_row_keeps_the_sandbox_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def types() -> list[ResourceType]:
        return [*builtin_types(), resources._type(WITHOUT_A_ROW, WithSpec())]

    monkeypatch.setattr("fairlead_sandbox.sandbox.builtin_types", types)
    with pytest.raises(IncompleteModelError, match=r"Oddity in example.org/v1 .*types.txt"):
        await Sandbox(tls=False).start()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        pytest.param("  spec:2:OdditySpec", r"OdditySpec \(of Oddity.spec\)", id="field"),
        pytest.param("v1 Other Missing", r"Missing \(of v1 Other\)", id="kind"),
    ],
)
def test_a_type_that_is_named_and_not_there_is_said(
    line: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["v1 Oddity Oddity", "Oddity", "  metadata:1:string"]
    rows.insert(len(rows) if line.startswith(" ") else 0, line)
    (tmp_path / "types.txt").write_text("\n".join(rows))
    monkeypatch.setattr(model, "files", lambda package: tmp_path)
    with pytest.raises(IncompleteModelError, match=name):
        model.load.__wrapped__()
