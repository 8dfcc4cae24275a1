"""A failing plan is made as short as it can be."""

from __future__ import annotations

from tests.sim.plans import Plan, Step, make_plan
from tests.sim.shrinking import shrink


def plan(*kinds: str) -> Plan:
    steps = tuple(Step(kind, 10.0 * number, number) for number, kind in enumerate(kinds, 1))
    return Plan(scenario="s", seed="1", steps=steps, splits=0.2, delay=0.5)


def kinds(found: Plan) -> list[str]:
    return [step.kind for step in found.steps]


def test_what_is_not_needed_is_left_out() -> None:
    noise = ["other"] * 20
    long = plan(*noise, "kill", *noise, "create", *noise)
    found = shrink(long, lambda one: {"kill", "create"} <= set(kinds(one)))
    assert kinds(found) == ["kill", "create"]
    assert found.steps[0].dice == 21
    assert (found.splits, found.delay) == (0.0, 0.002)
    assert found.steps[-1].at == 0.0


def test_pauses_stay_that_are_needed() -> None:
    def fails(one: Plan) -> bool:
        return len(one.steps) == 2 and one.steps[1].at - one.steps[0].at > 3.0

    found = shrink(plan("a", "b"), fails)
    assert found.steps[1].at - found.steps[0].at == 5.0


def test_the_search_ends() -> None:
    runs = []

    def fails(one: Plan) -> bool:
        runs.append(one)
        return len(one.steps) > 400

    shrink(plan(*["a"] * 500), fails, most=20)
    assert len(runs) == 20


def test_a_seed_makes_the_same_plan_each_time_and_has_some_of_the_faults() -> None:
    operations, faults = {"a": 1.0, "b": 2.0}, {f"f{n}": 1.0 for n in range(10)}
    one, two = (make_plan("s", "7", operations, faults) for _ in range(2))
    assert one == two
    found = {step.kind for step in one.steps} & faults.keys()
    assert 0 < len(found) <= 5
