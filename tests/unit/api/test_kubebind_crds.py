from __future__ import annotations

import pytest
from tests.support.schemafacts import facts
from tests.unit.api.kubebind_kinds import expected

from fairlead.api.kubebind import consumer_crds, provider_crds


CRDS = {crd["spec"]["names"]["kind"]: crd for crd in consumer_crds() + provider_crds()}


@pytest.mark.parametrize("kind", expected())
def test_a_crd_is_as_the_protocol_describes_it(kind: str) -> None:
    assert sorted(facts(CRDS[kind])) == sorted(expected()[kind])


def test_there_is_no_other_kind() -> None:
    assert CRDS.keys() == expected().keys()


@pytest.mark.parametrize("kind", expected())
def test_columns_come_in_order(kind: str) -> None:
    columns = [line for line in expected()[kind] if line.startswith("|")]
    assert [line for line in facts(CRDS[kind]) if line.startswith("|")] == columns
