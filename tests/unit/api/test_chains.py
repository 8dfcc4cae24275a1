"""Where a chain breaks first, seen from its source."""

from __future__ import annotations

import pytest

from fairlead.api.links import Link, LinkName, join
from fairlead.api.reasons.model import State


def link(name: LinkName, state: State, reason: str = "") -> Link:
    return Link(name=name, object=f"a {name}", state=state, reason=reason, remedy=f"mend {name}")


@pytest.mark.parametrize(
    ("links", "broken", "states"),
    [
        pytest.param([link("service", "ok"), link("role", "ok")], None, ["ok", "ok"], id="well"),
        pytest.param(
            [link("role", "failed", "Locked"), link("service", "failed", "Locked")],
            "role",
            ["waiting", "failed"],
            id="the source is blamed, in whatever order they come",
        ),
        pytest.param(
            [link("service", "failed"), link("provider", "waiting"), link("role", "ok")],
            "provider",
            ["waiting", "waiting", "ok"],
            id="what waits holds up what is before it",
        ),
        pytest.param(
            [link("Secret", "failed"), link("service", "ok"), link("role", "unknown")],
            "Secret",
            ["failed", "ok", "unknown"],
            id="what is not seen is not blamed",
        ),
        pytest.param([], None, [], id="nothing"),
        pytest.param(
            [
                link("Secret", "ok"),
                link("service", "failed", "SecretConflict"),
                link("role", "failed", "SecretConflict"),
            ],
            "Secret",
            ["failed", "waiting", "waiting"],
            id="another's Secret is what is in the way",
        ),
        pytest.param(
            [
                link("Secret", "waiting"),
                link("service", "failed", "SecretConflict"),
                link("provider", "failed", "SecretConflict"),
                link("role", "failed", "SecretConflict"),
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
