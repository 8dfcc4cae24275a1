"""How many passes of one owner are under way at once, and who comes next."""

from __future__ import annotations

import pytest

from fairlead.client import Client, ClusterConfig
from fairlead.postgres.app import controllers
from fairlead.postgres.controllers.access.turns import LARGE, PassTurns
from fairlead.runtime import Cluster, Request


MAIN, OTHER = "PostgresServer main", "namespace team"


def request(name: str, namespace: str = "team") -> Request:
    return Request("cluster", namespace, name)


A, B, C, D = map(request, "abcd")


@pytest.fixture
def called() -> list[Request]:
    return []


@pytest.fixture
def turns(called: list[Request]) -> PassTurns:
    return PassTurns(called.append, most=2)


def test_so_many_are_under_way_and_the_newest_is_next(
    turns: PassTurns, called: list[Request]
) -> None:
    assert turns.begin(A, MAIN)
    assert turns.begin(B, MAIN)
    assert not turns.begin(C, MAIN)
    assert not turns.begin(D, MAIN)
    turns.end(A)
    assert called == [D]
    assert turns.begin(D, MAIN)
    turns.end(B)
    assert called == [D, C]


def test_large_accesses_are_few_whatever_the_limit_of_others(called: list[Request]) -> None:
    turns = PassTurns(called.append, most=100)
    teams = [request(str(number), f"team-{number % 3}") for number in range(8)]
    under_way = [one for one in teams if turns.begin(one, LARGE)]
    assert under_way == teams[:2]
    assert turns.begin(request("ordinary"), MAIN)
    # The namespace that has waited longest is next.
    turns.end(under_way[0])
    assert [one.namespace for one in called] == ["team-2"]


def test_where_very_many_wait_twice_as_many_are_under_way(called: list[Request]) -> None:
    turns = PassTurns(called.append, most=2)
    many = [request(str(number)) for number in range(40)]
    under_way = [one for one in many if turns.begin(one, MAIN)]
    # Two at once, and two more as soon as more than eight wait; never more than that.
    assert under_way == [*many[:2], *many[11:13]]
    left = len(many) - len(under_way)
    while under_way:
        turns.end(under_way.pop())
        while called:
            one = called.pop()
            if turns.begin(one, MAIN):
                under_way.append(one)
                left -= 1
        assert len(under_way) <= (4 if left > 8 else 3)
    assert left == 0


def test_another_owner_waits_for_nobody(turns: PassTurns) -> None:
    assert turns.begin(A, MAIN)
    assert turns.begin(B, MAIN)
    assert turns.begin(C, OTHER)


def test_namespaces_take_turns(turns: PassTurns, called: list[Request]) -> None:
    other = request("z", "other")
    for one in (A, B, other, C, D):
        turns.begin(one, MAIN)
    turns.end(A)
    assert turns.begin(called[0], MAIN)
    turns.end(B)
    assert called == [other, D]


def test_no_namespace_has_all_turns(called: list[Request]) -> None:
    turns = PassTurns(called.append, most=5)
    many = [request(str(number)) for number in range(7)]
    assert [turns.begin(one, MAIN) for one in many] == [True] * 5 + [False] * 2
    other, another = request("y", "other"), request("z", "other")
    assert turns.begin(other, MAIN)
    # Beside a namespace that has all of its turns there are few, so that all have a bound.
    assert not turns.begin(another, MAIN)
    turns.end(other)
    assert called == [another]
    assert turns.begin(another, MAIN)
    turns.end(many[0])
    assert called == [another, many[6]]


def test_who_waits_already_waits_once(turns: PassTurns, called: list[Request]) -> None:
    turns.begin(A, MAIN)
    turns.begin(B, MAIN)
    assert not turns.begin(C, MAIN)
    assert not turns.begin(C, MAIN)
    turns.end(A)
    turns.begin(C, MAIN)
    turns.end(B)
    assert called == [C]


def test_a_turn_that_was_taken_meanwhile_comes_again(
    turns: PassTurns, called: list[Request]
) -> None:
    turns.begin(A, MAIN)
    turns.begin(B, MAIN)
    turns.begin(C, MAIN)
    turns.end(A)
    assert turns.begin(D, MAIN)
    assert not turns.begin(C, MAIN)
    turns.end(D)
    assert called == [C, C]
    assert turns.begin(C, MAIN)


def test_the_turn_of_one_that_has_moved_is_the_next_ones(called: list[Request]) -> None:
    turns = PassTurns(called.append, most=1)
    for one in (A, B, C):
        turns.begin(one, MAIN)
    turns.end(A)
    assert called == [C]
    # Nobody else is under way who could call the next one.
    assert turns.begin(C, OTHER)
    assert called == [C, B]
    assert turns.begin(B, MAIN)


def test_to_begin_again_is_to_end_first(turns: PassTurns, called: list[Request]) -> None:
    turns.begin(A, MAIN)
    assert turns.begin(A, MAIN)
    assert turns.begin(B, MAIN)
    assert not turns.begin(C, MAIN)
    assert called == []


def test_to_end_what_never_began_is_nothing(turns: PassTurns, called: list[Request]) -> None:
    turns.end(A)
    assert called == []


def test_all_that_wait_are_given_back_at_the_end(turns: PassTurns) -> None:
    for one in (A, B, C, D):
        turns.begin(one, MAIN)
    assert set(turns.clear()) == {C, D}
    assert turns.begin(C, MAIN)
    assert turns.begin(D, MAIN)


async def test_namespaces_take_turns_at_the_workers_too() -> None:
    async with Client(ClusterConfig(server="https://127.0.0.1:1")) as client:
        _, _, accesses = controllers(Cluster("cluster", client))
        for one in (A, B, request("z", "other")):
            accesses.enqueue(one)
        assert [await accesses.queue.get() for _ in range(2)] == [A, request("z", "other")]
