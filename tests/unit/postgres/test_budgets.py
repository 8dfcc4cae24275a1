from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.postgres import access

from fairlead.api.meta import object_from_dict
from fairlead.postgres.controllers.budgets import Budget, Budgets, budgets_of
from fairlead.runtime import Request


SERVER = Budget("server", "a", 1, 4)
OTHER = Budget("server", "b", 1, 4)
NAMESPACE = Budget("namespace", "team", 2, 2)


def request(name: object) -> Request:
    return Request("", "team", str(name))


class World:
    def __init__(self) -> None:
        self.queue: list[Request] = []
        self.budgets = Budgets(self.queue.append)

    def enter(self, name: object, *budgets: Budget) -> bool:
        return self.budgets.enter(request(name), budgets or [SERVER])

    def leave(self, name: object, *, slow: bool = False) -> None:
        self.budgets.leave(request(name), slow=slow)


@pytest.fixture
def world() -> World:
    return World()


def test_a_server_that_answers_quickly_gets_more_at_once(world: World) -> None:
    assert [world.enter(name) for name in range(8)] == [True, *[False] * 7]
    world.leave(0)
    assert world.queue == [request(1), request(2)]
    assert world.enter(1)
    assert world.enter(2)
    world.leave(1)
    assert world.queue == [request(name) for name in (1, 2, 3, 4, 5)]
    assert not world.enter(8)


def test_a_slow_server_gets_one_thing_at_a_time(world: World) -> None:
    for name in range(8):
        world.enter(name)
    world.leave(0)
    assert world.enter(1)
    assert world.enter(2)
    world.leave(1, slow=True)
    assert world.queue == [request(1), request(2)]
    world.leave(2, slow=True)
    assert world.queue[2:] == [request(3)]


def test_servers_do_not_wait_for_one_another(world: World) -> None:
    assert world.enter("a", SERVER)
    assert not world.enter("b", SERVER)
    assert world.enter("c", OTHER)


def test_a_place_is_kept_for_who_was_woken(world: World) -> None:
    world.enter("a")
    assert not world.enter("b")
    world.leave("a", slow=True)
    assert not world.enter("c")
    assert world.enter("b")


def test_who_comes_for_another_server_gives_its_place_to_the_next(world: World) -> None:
    world.enter("a")
    world.enter("b")
    world.enter("c")
    world.leave("a", slow=True)
    assert world.enter("b", OTHER)
    assert world.queue == [request("b"), request("c")]


def test_who_is_gone_gives_its_place_to_the_next(world: World) -> None:
    world.enter("a")
    world.enter("b")
    world.enter("c")
    world.leave("a", slow=True)
    assert world.budgets.enter(request("b"), [])
    assert world.queue == [request("b"), request("c")]


def test_who_is_parked_at_one_budget_keeps_nothing_of_another(world: World) -> None:
    namespace = NAMESPACE._replace(first=1, most=1)
    assert world.enter("a", SERVER, namespace)
    assert not world.enter("b", OTHER, namespace)
    assert world.enter("c", OTHER)


def test_nothing_is_kept_of_budgets_that_nobody_spends(world: World) -> None:
    for name in range(3):
        world.enter(name, SERVER, NAMESPACE)
    for name in range(3):
        world.enter(name, SERVER, NAMESPACE)
        world.leave(name)
    assert len(world.budgets) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=60))
def test_everybody_has_its_turn_and_no_budget_is_overdrawn(
    script: list[tuple[int, bool, bool]],
) -> None:
    """Whoever is woken comes; whoever is parked is woken in the end."""
    world, working, parked = World(), set[int](), set[int]()
    wanted = {name: [SERVER if name % 2 else OTHER, NAMESPACE] for name in range(10)}

    def come(name: int) -> None:
        if name in working:
            return
        (working if world.enter(name, *wanted[name]) else parked).add(name)
        parked.difference_update(working)
        spent = Counter(budget for one in working for budget in wanted[one])
        assert all(count <= budget.most for budget, count in spent.items())

    def go(name: int, *, slow: bool) -> None:
        working.discard(name)
        world.leave(name, slow=slow)

    def wake() -> None:
        while world.queue:
            come(int(world.queue.pop(0).name))

    for name, leaves, slow in script:
        if leaves and name in working:
            go(name, slow=slow)
        else:
            come(name)
        wake()
    while working:
        go(min(working), slow=False)
        wake()
    assert parked == set()
    assert len(world.budgets) == 0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [("PostgresServer", "main")], id="server"),
        pytest.param(
            {"connection": {"host": "db", "port": 5433}},
            [("server", "team db:5433"), ("namespace", "team")],
            id="own host",
        ),
        pytest.param(
            {"connection": {"existingSecret": "login"}},
            [("server", "team /login"), ("namespace", "team")],
            id="Secret",
        ),
        pytest.param({"connection": {"host": 1}}, [], id="unreadable"),
    ],
)
def test_what_an_access_spends(spec: dict[str, object], expected: list[tuple[str, str]]) -> None:
    found = budgets_of(object_from_dict(access("app", "team", "main", **spec)))
    assert [(one.kind, one.name) for one in found] == expected


def test_what_is_not_there_spends_nothing() -> None:
    assert budgets_of(None) == []
