from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.api.kubebind import consumer_crds, provider_crds
from fairlead.api.meta import JSON
from fairlead.cli.crds import file_name, to_yaml


FOLDER = Path(__file__).parents[3] / "config" / "crd"


@pytest.mark.parametrize("crd", provider_crds() + consumer_crds(), ids=file_name)
def test_the_generated_file_is_what_the_types_say(crd: JSON) -> None:
    assert (FOLDER / file_name(crd)).read_text() == to_yaml([crd]), "run: make crds"
