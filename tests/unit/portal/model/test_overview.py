"""The overview: its numbers, and what it names."""

from __future__ import annotations

from fairlead.portal.model.lists import CountedList, Counts, Failure, overview_of


def failure(name: str, since: str) -> Failure:
    return Failure(text=name, at=f"/{name}", since=since)


def test_it_names_the_five_latest_failures_and_counts_all() -> None:
    failures = [failure(f"f{day}", f"2026-01-0{day}T00:00:00Z") for day in range(1, 7)]
    times = [failure("never", ""), failure("no time", "yesterday"), *failures]
    lists = [CountedList("Bindings", Counts(failed=1)), CountedList("Objects", Counts(4, 0, 7))]
    overview = overview_of(lists, times, times[:6])
    assert [each.text for each in overview.failures] == ["f6", "f5", "f4", "f3", "f2"]
    assert (overview.failed, overview.more_failures) == (8, 3)
    assert overview.title == "(8) Overview"
    assert [each.text for each in overview.silent] == ["f4", "f3", "f2", "f1", "never"]
    assert overview.more_silent == 1


def test_a_title_without_failures_has_no_number() -> None:
    overview = overview_of([CountedList("Objects", Counts(ok=3, waiting=1))], [], [])
    assert overview.title == "Overview"
    assert overview.more_failures == 0
