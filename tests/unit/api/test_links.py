"""Links of a chain that are made from the tables, the worst of them, and where a chain breaks."""

from __future__ import annotations

import pytest

from fairlead.api.links import Link, LinkName, join, worst, wrong
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


def named(name: LinkName, state: State, reason: str = "") -> Link:
    return Link(name=name, object=f"a {name}", state=state, reason=reason, remedy=f"mend {name}")


@pytest.mark.parametrize(
    ("links", "broken", "states"),
    [
        pytest.param([named("service", "ok"), named("role", "ok")], None, ["ok", "ok"], id="well"),
        pytest.param(
            [named("role", "failed", "Locked"), named("service", "failed", "Locked")],
            "role",
            ["waiting", "failed"],
            id="the source is blamed, in whatever order they come",
        ),
        pytest.param(
            [named("service", "failed"), named("provider", "waiting"), named("role", "ok")],
            "provider",
            ["waiting", "waiting", "ok"],
            id="what waits holds up what is before it",
        ),
        pytest.param(
            [named("Secret", "failed"), named("service", "ok"), named("role", "unknown")],
            "Secret",
            ["failed", "ok", "unknown"],
            id="what is not seen is not blamed",
        ),
        pytest.param([], None, [], id="nothing"),
        pytest.param(
            [
                named("Secret", "ok"),
                named("service", "failed", "SecretConflict"),
                named("role", "failed", "SecretConflict"),
            ],
            "Secret",
            ["failed", "waiting", "waiting"],
            id="another's Secret is what is in the way",
        ),
        pytest.param(
            [
                named("Secret", "waiting"),
                named("service", "failed", "SecretConflict"),
                named("provider", "failed", "SecretConflict"),
                named("role", "failed", "SecretConflict"),
            ],
            "role",
            ["waiting", "waiting", "waiting", "failed"],
            id="the provider's Secret is not the one here",
        ),
    ],
)
def test_the_link_that_breaks_first(
    links: list[Link], broken: LinkName | None, states: list[State]
) -> None:
    found = join("it", links)
    assert (found.broken, [one.state for one in found.links]) == (broken, states)
    assert found.ready is (broken is None)
    # Another's Secret has the remedy that its access tells.
    mends = "role" if broken == "Secret" and links[0].state == "ok" else broken
    assert found.next_step == (f"mend {mends}" if broken else "")
    assert bool(found.reason) is not found.ready
