"""What a scrape tells of servers: counts by owner, and what goes with them."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql

from fairlead.api.timestamps import moment
from fairlead.postgres.errors import AccessError, refusal
from fairlead.postgres.metrics import PostgresMetrics


OWNER = "PostgresServer main"
TENANT = "namespace team"
SELECT = sql.SQL("SELECT 1")


class Server(NamedTuple):
    roles: int = 0
    pending: int = 0


@pytest.fixture
def metrics() -> PostgresMetrics:
    return PostgresMetrics()


def samples(metrics: PostgresMetrics) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return {
        (
            sample.name.removeprefix("fairlead_postgres_"),
            *(value for name, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_the_servers_of_one_owner_are_counted_together(metrics: PostgresMetrics) -> None:
    metrics.of(TENANT).servers += [Server(roles=2, pending=1), Server(roles=3)]
    metrics.of(OWNER).servers.append(Server(roles=1))
    found = samples(metrics)
    assert found["roles", TENANT] == 5
    assert found["changes_pending", TENANT] == 1
    assert found["roles", OWNER] == 1


@pytest.mark.parametrize(
    ("error", "reachable"),
    [
        pytest.param(None, 1, id="an answer"),
        pytest.param(AccessError("ConnectionFailed", "away"), 0, id="nobody there"),
        pytest.param(AccessError("TLSFailed", "spoilt"), 0, id="nobody to be trusted"),
        pytest.param(AccessError("TimedOut", "slow"), 0, id="too slow"),
        pytest.param(TimeoutError(), 0, id="slow"),
        pytest.param(AccessError("AuthenticationFailed", "no"), 1, id="an answer that is no"),
        pytest.param(RuntimeError("ours"), 1, id="a defect of ours"),
        pytest.param(refusal("UsernameConflict", "taken"), 1, id="a refusal of ours"),
    ],
)
def test_a_server_is_reachable_when_it_answers(
    metrics: PostgresMetrics, error: Exception | None, reachable: int
) -> None:
    metrics.of(OWNER).reached(error)
    assert samples(metrics)["reachable", OWNER] == reachable


def test_nothing_is_said_of_a_server_that_was_not_asked(metrics: PostgresMetrics) -> None:
    metrics.of(OWNER)
    assert ("reachable", OWNER) not in samples(metrics)


def test_one_server_out_of_reach_is_not_hidden_by_another_one(metrics: PostgresMetrics) -> None:
    away = Server()
    metrics.of(TENANT).servers += [away, Server(roles=1)]
    metrics.of(TENANT).reached(AccessError("ConnectionFailed", "away"), away)
    metrics.of(TENANT).reached(None, Server(roles=1))
    assert samples(metrics)["reachable", TENANT] == 0
    metrics.of(TENANT).ended(away)
    assert samples(metrics)["reachable", TENANT] == 1


def test_an_owner_without_servers_is_forgotten(metrics: PostgresMetrics) -> None:
    server = Server(roles=1)
    metrics.of(TENANT).servers.append(server)
    metrics.of(OWNER).is_known = True
    metrics.tidy(TENANT)
    assert ("roles", TENANT) in samples(metrics)
    metrics.of(TENANT).ended(server)
    metrics.tidy(TENANT)
    metrics.tidy(OWNER)
    found = samples(metrics)
    assert ("roles", TENANT) not in found
    assert found["roles", OWNER] == 0
    metrics.of(OWNER).is_known = False
    metrics.tidy(OWNER)
    assert ("roles", OWNER) not in samples(metrics)


def test_refusals_are_counted_by_reason_until_they_are_over(metrics: PostgresMetrics) -> None:
    metrics.refused("a", OWNER, "UsernameConflict")
    metrics.refused("b", OWNER, "UsernameConflict")
    metrics.refused("c", "", "PolicyDenied")
    metrics.refused("c", "", "PolicyDenied")
    found = samples(metrics)
    assert found["refused", OWNER, "UsernameConflict"] == 2
    assert found["refused", "", "PolicyDenied"] == 1
    metrics.accepted("a")
    metrics.accepted("never refused")
    assert samples(metrics)["refused", OWNER, "UsernameConflict"] == 1
    metrics.accepted("b")
    assert ("refused", OWNER, "UsernameConflict") not in samples(metrics)


def test_what_is_locked_is_counted_until_it_is_not(metrics: PostgresMetrics) -> None:
    metrics.of("PostgresServer main")
    metrics.lock("a", "PostgresServer main")
    metrics.lock("b", "Namespace team")
    assert samples(metrics)["locked", "PostgresServer main"] == 1
    assert samples(metrics)["locked", "Namespace team"] == 1
    metrics.accepted("a")
    metrics.refused("b", "Namespace team", "UserReserved")
    assert samples(metrics)["locked", "PostgresServer main"] == 0
    assert ("locked", "Namespace team") not in samples(metrics)


def test_cycles_are_a_histogram(metrics: PostgresMetrics) -> None:
    for seconds in (0.02, 0.2, 200.0):
        metrics.of(OWNER).seconds.observe(seconds)
    found = samples(metrics)
    assert found["cycle_seconds_bucket", "0.25", OWNER] == 2
    assert found["cycle_seconds_count", OWNER] == 3
    assert found["cycle_seconds_sum", OWNER] == pytest.approx(200.22)


def test_logins_that_end_are_counted_without_names(metrics: PostgresMetrics) -> None:
    for days in (-1, 0.5, 5, 20, 40):
        metrics.ends(days, moment() + timedelta(days=days))
    counts = {
        key[1]: value for key, value in samples(metrics).items() if key[0] == "logins_ending"
    }
    assert counts == {"1d": 1, "7d": 2, "30d": 3}
    metrics.ends(0.5, None)
    metrics.ends(5, moment() + timedelta(days=50))
    assert samples(metrics)["logins_ending", "30d"] == 1
