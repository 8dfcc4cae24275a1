"""Links of a chain that are made from the tables, and which of them is the worst."""

from __future__ import annotations

import pytest

from fairlead.api.links import Link, worst, wrong
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State


def link(object_: str, state: State) -> Link:
    return Link(name="service", object=object_, state=state)


def test_a_link_stands_as_the_table_says() -> None:
    made = wrong(KUBE_BIND, "NotCopied", name="provider", subject="a copy", text="is not there")
    assert made == Link(
        name="provider",
        object="a copy",
        state="waiting",
        about="is not there",
        reason="NotCopied",
        remedy=KUBE_BIND.helps("NotCopied"),
    )
    better = wrong(
        KUBE_BIND, "HeartbeatTimeout", name="provider", subject="x", text="y", remedy="start it"
    )
    assert (better.state, better.remedy) == ("failed", "start it")


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([], None),
        (["ok", "unknown"], None),
        (["ok", "waiting", "failed", "failed"], 2),
        (["waiting", "ok", "waiting"], 0),
    ],
)
def test_what_has_failed_is_worse_than_what_waits(states: list[State], found: int | None) -> None:
    links = [link(str(place), state) for place, state in enumerate(states)]
    assert worst(links) == (None if found is None else links[found])
