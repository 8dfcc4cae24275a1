"""What a scrape tells of synchronisation: latencies, counts, and what goes with a binding."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.api.meta import Key
from fairlead.konnector.metrics import SyncMetrics, Syncs
from fairlead.runtime import Controller, Informer, Metrics


LABELS = ("binding", "resource", "side", "reason", "direction", "le")
KEY, OTHER = Key("shop", "a"), Key("shop", "b")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Watch:
    """An informer's counters."""

    def __init__(self, **restarts: int) -> None:
        self.restarts = Counter(restarts)
        self.closed = False


def watch(**restarts: int) -> Informer:
    return cast("Informer", Watch(**restarts))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> SyncMetrics:
    return SyncMetrics("postgres", "things.example.org", clock)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    text = metrics.render()[0].decode()
    return {
        (
            sample.name.removeprefix("fairlead_sync_"),
            *(sample.labels[name] for name in LABELS if name in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("fairlead_sync_")
    }


def test_the_oldest_change_is_told_that_has_not_crossed(
    metrics: SyncMetrics, clock: Clock
) -> None:
    assert (metrics.spec.pending, metrics.spec.oldest) == (0, 0)
    metrics.spec.arrived(KEY)
    clock.now += 7
    metrics.spec.arrived(OTHER)
    clock.now += 2
    assert (metrics.spec.pending, metrics.spec.oldest) == (2, 9)
    with metrics.looking(KEY) as look:
        # It has not crossed for as long as no server answers.
        assert (metrics.spec.pending, metrics.spec.uncrossed, metrics.spec.oldest) == (1, 2, 9)
        look.spec_crossed()
        assert (metrics.spec.uncrossed, metrics.spec.oldest) == (1, 2)
    assert (metrics.spec.pending, metrics.spec.oldest) == (1, 2)
    with pytest.raises(ValueError, match="no"), metrics.looking(OTHER):
        raise ValueError("no")
    assert (metrics.spec.uncrossed, metrics.spec.oldest) == (1, 2)


def test_a_change_counts_from_its_first_event_until_the_write_is_answered(
    metrics: SyncMetrics, clock: Clock
) -> None:
    metrics.spec.arrived(KEY)
    clock.now += 1
    metrics.spec.arrived(KEY)
    clock.now += 1
    with metrics.looking(KEY) as look:
        clock.now += 0.5
        look.spec_crossed()
        look.status_crossed()
    assert metrics.spec.seconds.sum == pytest.approx(2.5)
    assert sum(metrics.spec.seconds.counts) == 1
    assert sum(metrics.status.seconds.counts) == 0


def test_both_directions_are_counted_apart(metrics: SyncMetrics, clock: Clock) -> None:
    metrics.spec.arrived(KEY)
    metrics.status.arrived(KEY)
    with metrics.looking(KEY) as look:
        clock.now += 1
        look.spec_crossed()
        clock.now += 2
        look.status_crossed()
    assert (metrics.spec.seconds.sum, metrics.status.seconds.sum) == (1.0, 3.0)


def test_a_change_that_arrives_meanwhile_counts_by_itself(
    metrics: SyncMetrics, clock: Clock
) -> None:
    metrics.spec.arrived(KEY)
    with metrics.looking(KEY) as look:
        metrics.spec.arrived(KEY)
        look.spec_crossed()
        # A second write of the same look is not the newer change's.
        clock.now += 9
        look.spec_crossed()
    clock.now += 1
    with metrics.looking(KEY) as look:
        look.spec_crossed()
    assert metrics.spec.seconds.sum == pytest.approx(10)
    assert sum(metrics.spec.seconds.counts) == 2


def test_an_event_that_asks_for_nothing_is_forgotten(metrics: SyncMetrics, clock: Clock) -> None:
    metrics.spec.arrived(KEY)
    metrics.spec.arrived(OTHER)
    with metrics.looking(KEY):
        pass
    assert metrics.spec.pending == 1
    clock.now += 60
    with metrics.looking(KEY) as look:
        look.spec_crossed()
    assert sum(metrics.spec.seconds.counts) == 0


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "unfinished"])
def test_what_has_not_crossed_goes_on_counting(
    metrics: SyncMetrics, clock: Clock, *, fails: bool
) -> None:
    def look() -> None:
        with metrics.looking(KEY) as one:
            one.unfinished()
            if fails:
                raise RuntimeError

    metrics.spec.arrived(KEY)
    clock.now += 1
    if fails:
        with pytest.raises(RuntimeError):
            look()
    else:
        look()
    metrics.spec.arrived(KEY)
    clock.now += 1
    with metrics.looking(KEY) as one:
        one.spec_crossed()
    assert metrics.spec.seconds.sum == pytest.approx(2)


def test_restarts_are_those_since_the_binding_watches_and_outlive_the_watch(
    metrics: SyncMetrics,
) -> None:
    one, two, three = watch(cut=7), watch(), watch()
    metrics.watch(one, "consumer")
    metrics.watch(two, "provider")
    metrics.watch(three, "provider")
    one.restarts["cut"] += 1
    two.restarts["expired"] += 2
    three.restarts["expired"] += 3
    cast("Watch", two).closed = True
    wanted = {("consumer", "cut"): 1, ("provider", "expired"): 5}
    assert metrics.restarts() == wanted
    assert metrics.restarts() == wanted


async def test_series_name_binding_and_resource() -> None:
    registry = Metrics()
    metrics = Syncs(registry).of("postgres", "things.example.org", "sync-things")
    metrics.counted(in_sync=5, conflicts=2, failing=4)
    metrics.queue(lambda: 3)
    ended = watch()
    metrics.watch(ended, "provider")
    ended.restarts["cut"] += 1
    metrics.spec.arrived(KEY)
    with metrics.looking(KEY) as look:
        look.spec_crossed()
    found = samples(registry)
    row = ("postgres", "things.example.org")
    assert found["objects_in_sync", *row] == 5
    assert found["conflicts", *row] == 2
    assert found["failing", *row] == 4
    assert found["queue_depth", *row] == 3
    assert found["watch_restarts_total", *row, "provider", "cut"] == 1
    assert found["latency_seconds_count", *row, "spec"] == 1
    assert found["latency_seconds_count", *row, "status"] == 0
    assert found["latency_seconds_bucket", *row, "spec", "+Inf"] == 1
    metrics.spec.arrived(KEY)
    assert samples(registry)["pending", *row, "spec"] == 1
    metrics.stopped()
    found = samples(registry)
    assert {found[name, *row] for name in ("objects_in_sync", "conflicts", "queue_depth")} == {0}
    assert found["pending", *row, "spec"] == 0
    assert found["oldest_pending_seconds", *row, "spec"] == 0
    assert found["latency_seconds_count", *row, "spec"] == 1


async def test_numbers_outlive_a_syncer_and_go_with_their_binding() -> None:
    registry = Metrics()
    syncs = Syncs(registry)
    metrics = syncs.of("postgres", "things", "sync-things")
    syncs.of("postgres", "secrets", "claim-secrets")
    syncs.of("widgets", "secrets", "claim-secrets")
    assert syncs.of("postgres", "things", "sync-things") is metrics
    for name in ("sync-things", "claim-secrets"):
        registry.instrument(Controller(name, _nothing))
    syncs.forget("postgres")
    assert {key[1] for key in samples(registry)} == {"widgets"}
    text = registry.render()[0].decode()
    assert 'controller="sync-things"' not in text
    assert 'controller="claim-secrets"' in text
    assert syncs.of("postgres", "things", "sync-things") is not metrics


async def test_numbers_of_a_resource_go_without_those_of_others() -> None:
    registry = Metrics()
    syncs = Syncs(registry)
    for resource in ("things", "others"):
        syncs.of("connection/acme", resource, f"sync-{resource}")
    syncs.of("acme", "things", "sync-things")
    syncs.forget("connection/acme", "things")
    assert {key[1:3] for key in samples(registry)} == {
        ("connection/acme", "others"),
        ("acme", "things"),
    }


async def _nothing(_request: object) -> None:
    return
