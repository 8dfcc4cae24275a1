"""How consumers stand, and which of them a list shows."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.kubebind import ClusterBindingStatus
from fairlead.api.kubebind.conditions import (
    HEALTHY,
    false,
    true,
    unknown,
)
from fairlead.api.reasons.conditions import state_of
from fairlead.portal.console.consumers.directory import KnownConsumer
from fairlead.portal.console.sources.consumers import KnownCluster, _judged, short_names
from fairlead.portal.model.lists import ListQuery
from fairlead.provider.commands.overview import ConsumerRow


def row(**more: Any) -> ConsumerRow:
    given: dict[str, Any] = {
        "identity": "id",
        "pretty_name": "Team",
        "namespace": "kb-a",
        "exports": [],
        "objects": 0,
        "konnector_version": "v1",
        "last_heartbeat_time": "",
        "healthy": true(HEALTHY),
    } | more
    return ConsumerRow(state=state_of(given["healthy"]), reason=given["healthy"].reason, **given)


@pytest.mark.parametrize(
    ("given", "state", "word"),
    [
        pytest.param({}, "ok", "healthy", id="well"),
        pytest.param({"deleting": True}, "waiting", "being revoked", id="revoked"),
        pytest.param(
            {"healthy": false(HEALTHY, "HeartbeatTimeout", "")},
            "failed",
            "HeartbeatTimeout",
            id="silent",
        ),
        pytest.param(
            {"healthy": false(HEALTHY, "FirstHeartbeatPending", "")},
            "waiting",
            "FirstHeartbeatPending",
            id="new",
        ),
        pytest.param(
            {"healthy": unknown(HEALTHY, "NotInvited", "")},
            "unknown",
            "NotInvited",
            id="no-binding",
        ),
        pytest.param({"warnings": ["one", "two"]}, "failed", "2 warnings", id="warnings"),
        pytest.param(
            {"warnings": ["one"], "healthy": false(HEALTHY, "HeartbeatTimeout", "")},
            "failed",
            "HeartbeatTimeout",
            id="silent-with-a-warning",
        ),
    ],
)
def test_how_a_consumer_stands(given: dict[str, Any], state: str, word: str) -> None:
    known = KnownConsumer(row(**given), "")
    assert (known.state, known.word) == (state, word)


def test_two_clusters_of_one_name_show_their_identities() -> None:
    clusters = [
        KnownCluster(f"kb-{identity}", identity, name, f"{name} ({identity})")
        for identity, name in (("a", "shop"), ("b", "shop"), ("c", "blog"))
    ]
    assert short_names(clusters) == {"kb-a": "shop (a)", "kb-b": "shop (b)", "kb-c": "blog"}


def test_a_connection_fails_since_its_last_heartbeat() -> None:
    beat = "2026-01-02T03:04:05Z"
    status = ClusterBindingStatus(last_heartbeat_time=beat, heartbeat_interval="5m0s")
    verdict = _judged(status, ()).connection.verdict
    assert (verdict.reason, verdict.since) == ("HeartbeatTimeout", beat)


def test_a_silent_konnector_fails_since_its_last_heartbeat() -> None:
    beat = "2026-01-02T03:04:05Z"
    silent = false(HEALTHY, "HeartbeatTimeout", "")
    answer = KnownConsumer(row(healthy=silent, last_heartbeat_time=beat), "").answer
    assert (answer.state, answer.reason, answer.since) == ("failed", "HeartbeatTimeout", beat)
    assert KnownConsumer(row(last_heartbeat_time=beat), "").answer.since == ""


@pytest.mark.parametrize(
    ("wanted", "state", "fits"),
    [
        *(("", "", True), ("team", "", True), ("TEAM kb-a", "", True), ("team other", "", False)),
        *(("login.example", "", True), ("", "ok", True), ("", "failed", False)),
        *(("healthy", "ok", True), ("", "nonsense", False)),
    ],
)
def test_which_consumers_a_list_shows(wanted: str, state: str, fits: bool) -> None:
    known = KnownConsumer(row(), "https://login.example/ada")
    assert ListQuery(q=wanted, state=state).selects(known) is fits
