"""All scenarios, by name."""

from __future__ import annotations

from tests.sim.binding import Binding
from tests.sim.chain import Chain
from tests.sim.kubebind import KubeBind
from tests.sim.operator import Operator
from tests.sim.scenarios import Scenario


SCENARIOS: dict[str, type[Scenario]] = {
    one.name: one for one in (KubeBind, Operator, Binding, Chain)
}

_TEN = ("kubebind", "binding", "kubebind", "chain", "kubebind") * 2
SHARES = (*_TEN[:-1], "binding", *_TEN[:-1], "operator")
"""Whose turn it is, one seed after another; one of the operator costs as much as four others."""
