"""The pages of both consoles and the commands agree on every object."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.api.test_verdict import ROWS

from fairlead.api.links import verdict_link
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import verdict_of
from fairlead.api.resource import Resource
from fairlead.portal.console.objects.kinds import FollowedKind, kept_of
from fairlead.portal.console.objects.waits import waits_of
from fairlead.portal.console.own.things import thing_of
from fairlead.runtime import Delta, Informer


RESOURCE = Resource("example.org", "v1", "widgets", "Widget")


@pytest.mark.parametrize("found", [pytest.param(row[0], id=name) for name, row in ROWS.items()])
def test_each_page_and_command_gives_the_same_verdict(found: Object) -> None:
    state = verdict_of(found).state
    kind = FollowedKind(RESOURCE, cast("Informer", None), cast("Informer", None))
    # The provider's console judges what its cache keeps.
    kind.heard(Delta("ADDED", None, kept_of(found.to_dict())))
    verdict = kind.verdict(found)
    assert verdict.state == state
    assert kind.numbers(found.meta.namespace)[state] == 1
    assert thing_of(RESOURCE, found).state == state
    link = verdict_link(verdict, name="service", subject="x")
    assert link.state == ("ok" if state == "unknown" and not verdict.reason else state)
    waits = waits_of(found, verdict)
    assert waits.state == state or (state == "unknown" and waits.state == "ok")
