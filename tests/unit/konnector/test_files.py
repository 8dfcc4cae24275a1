from __future__ import annotations

import errno

import pytest

from fairlead.client.config import ClusterConfig
from fairlead.client.connection import failed
from fairlead.konnector.files import WatchBudget


def allowed(budget: WatchBudget, *watches: str) -> list[str]:
    return [watch for watch in watches if budget.allows(watch)]


@pytest.mark.parametrize(("limit", "places"), [(1024, 768), (256, 192), (100, 50), (2, 1)])
def test_some_files_are_kept_for_all_else(limit: int, places: int) -> None:
    wanted = {str(number): str(number) for number in range(places + 1)}
    budget = WatchBudget(limit)
    budget.want("all", wanted)
    assert len(allowed(budget, *wanted)) == places
    enough = WatchBudget(budget.needed)
    enough.want("all", wanted)
    assert len(allowed(enough, *wanted)) == places + 1


def test_without_a_limit_all_fit() -> None:
    budget = WatchBudget()
    wanted = {str(number): "" for number in range(10_000)}
    budget.want("all", wanted)
    assert all(map(budget.allows, wanted))


def test_namespaces_are_served_whole_in_the_order_in_which_they_came() -> None:
    told: list[str] = []
    budget = WatchBudget(8)
    for who in ("objects", "claims"):
        budget.join(who, lambda who=who: told.append(who))  # type: ignore[misc]
    budget.want("objects", {"o-b": "b"})
    budget.want("objects", {"o-b": "b", "o-a": "a", "o-c": "c"})
    assert told == []
    budget.want("claims", {"c-b": "b", "c-a": "a", "c-c": "c"})
    # The objects of namespace c had a place until the claims of the others came.
    assert told == ["objects"]
    assert allowed(budget, "o-a", "o-b", "o-c", "c-a", "c-b", "c-c") == [
        *("o-a", "o-b"),
        *("c-a", "c-b"),
    ]
    budget.want("objects", {"o-a": "a", "o-c": "c"})
    assert len(allowed(budget, "o-a", "o-c", "c-a", "c-b", "c-c")) == 4
    budget.leave("claims")
    assert allowed(budget, "o-a", "o-c") == ["o-a", "o-c"]
    assert told[-1] == "objects"


def test_what_several_want_together_takes_one_place() -> None:
    budget = WatchBudget(2)
    budget.want("one", {"w": "a"})
    budget.want("other", {"w": "a"})
    assert budget.allows("w")
    budget.leave("one")
    budget.want("third", {"x": "b"})
    assert (budget.allows("w"), budget.allows("x")) == (True, False)
    budget.leave("other")
    assert budget.allows("x")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_files_is_no_fault_of_the_kubeconfig(number: int) -> None:
    told = str(failed(ClusterConfig("https://there"), OSError(number, "Too many open files")))
    assert "ulimit -n" in told
    assert "kubeconfig" not in told
