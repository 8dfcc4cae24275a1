"""All scenarios, by name."""

from __future__ import annotations

from tests.sim.binding import Binding
from tests.sim.chain import Chain
from tests.sim.kbindv2 import KbindV2
from tests.sim.kubebind import KubeBind
from tests.sim.operator import Operator
from tests.sim.scenarios import Scenario


SCENARIOS: dict[str, type[Scenario]] = {
    one.name: one for one in (KubeBind, KbindV2, Operator, Binding, Chain)
}

SHARES = (
    *(("kubebind", "binding", "kubebind", "chain", "kbindv2", "binding") * 3),
    "kubebind",
    "operator",
)
"""Whose turn it is, one seed after another; a real PostgreSQL makes the operator cost the most."""
