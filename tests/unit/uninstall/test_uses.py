"""Uses of a program tell the verdict on their object, and what lets it go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.api.test_verdict import ACCESS, GOING, ROWS, SERVICE_BINDING, c, obj

from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import verdict_of
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.uninstall.duties import binding, postgres
from fairlead.uninstall.duties.base import standing
from fairlead.uninstall.findings import Use


USES: dict[str, Callable[[Object], Use]] = {
    "PostgresAccess": lambda found: postgres._use(found, set(), ""),
    "ServiceBinding": lambda found: binding._use(SERVICEBINDINGS, found, set(), ""),
}
FAILING = {
    ACCESS: c("Ready", "False", "OwnsObjects", "role app owns 2 tables"),
    SERVICE_BINDING: c("Ready", "False", "ApplicationUpdateError", "a policy refuses"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_what_stops_a_deletion_is_told_with_its_own_remedy(kind: str) -> None:
    found = obj(kind, FAILING[kind], observedGeneration=2, meta=GOING)
    verdict = verdict_of(found)
    use = USES[found.kind](found)
    assert f"(failed: {verdict.text})" in use.what
    assert "and waits for" in use.what
    # It was deleted already.
    assert use.remedy == verdict.remedy


@pytest.mark.parametrize("kind", FAILING)
def test_what_only_waits_for_its_program_has_no_word_more(kind: str) -> None:
    found = obj(kind, c("Ready", "True", "Ready"), observedGeneration=2, meta=GOING)
    use = USES[found.kind](found)
    assert "and waits for the" in use.what
    assert "(" not in use.what
    assert "kubectl delete" in use.remedy


@pytest.mark.parametrize("found", [pytest.param(row[0], id=name) for name, row in ROWS.items()])
def test_the_state_is_that_of_the_verdict(found: Object) -> None:
    verdict, told = verdict_of(found), standing(found, "the program")
    assert ("(failed: " in told) == (verdict.state == "failed")
    assert ("and waits for the program" in told) == found.meta.deleting
    assert not told or verdict.state != "ok"
