"""Consumers of kbind v2, as their Leases show them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fairlead.api.kbind import lease_name
from fairlead.api.kbind.names import (
    ANNOTATION_RENEWED_AT,
    CONSUMER_CLUSTER_UID,
    LEASE_ACCOUNT_PREFIX,
    LEASE_NAMESPACE,
)
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.timestamps import format_micro_time, parse_time
from fairlead.portal.console.consumers.directory import KnownConsumer
from fairlead.portal.console.consumers.leases import consumers_of
from fairlead.provider.v2.record import home_body, home_of


NOW = parse_time("2026-05-01T12:00:00Z")
UID = "2f1e"


def lease(
    age: float | None = 10, *, uid: str = UID, name: str = "", of: str = "", **spec: object
) -> Object:
    """A Lease that was renewed some seconds ago, by the account of an invited consumer."""
    renewed = "" if age is None else format_micro_time(NOW - timedelta(seconds=age))
    body: JSON = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": LEASE_NAMESPACE,
            "name": name or lease_name(uid),
            "annotations": {
                CONSUMER_CLUSTER_UID: uid,
                ANNOTATION_RENEWED_AT: f"{renewed} konnector-0",
            }
            | ({f"{LEASE_ACCOUNT_PREFIX}{home_of(of)}": ""} if of else {}),
        },
        "spec": {"leaseDurationSeconds": 60} | ({"renewTime": renewed} if renewed else {}) | spec,
    }
    return object_from_dict(body)


def leased(lease: Object, now: datetime) -> KnownConsumer | None:
    """The consumer of one Lease."""
    consumers = consumers_of([], [lease], now)
    return consumers[0] if consumers else None


@pytest.mark.parametrize(
    ("renewed", "state", "reason"),
    [
        pytest.param(lease(10), "ok", "", id="renewed"),
        pytest.param(lease(61), "failed", "HeartbeatTimeout", id="silent"),
        pytest.param(lease(61, leaseDurationSeconds=300), "ok", "", id="of-a-longer-lease"),
        pytest.param(
            lease(61, leaseDurationSeconds=0), "failed", "HeartbeatTimeout", id="of-none"
        ),
        pytest.param(lease(None), "waiting", "FirstHeartbeatPending", id="never-renewed"),
        pytest.param(lease(-3600), "failed", "HeartbeatTimeDrift", id="of-another-clock"),
        pytest.param(lease(10, renewTime=7), "waiting", "FirstHeartbeatPending", id="malformed"),
    ],
)
def test_a_lease_is_judged_as_a_heartbeat(renewed: Object, state: str, reason: str) -> None:
    consumer = leased(renewed, NOW)
    assert consumer is not None
    assert (consumer.state, consumer.row.reason if state != "ok" else "") == (state, reason)
    assert consumer.row.identity == UID
    assert "kbind v2" in consumer.words


def test_a_silent_one_says_since_when_and_what_helps() -> None:
    consumer = leased(lease(3600), NOW)
    assert consumer is not None
    assert consumer.row.since == "2026-05-01T11:00:00.000000Z"
    assert "is the konnector running" in consumer.row.message
    assert consumer.row.remedy


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lease(name="konnector.kbind.io"), id="of-a-leader-election"),
        pytest.param(lease(name=lease_name("another")), id="of-another-cluster"),
        pytest.param(lease(uid="", name="consumer-"), id="without-a-uid"),
    ],
)
def test_other_leases_are_no_consumers(other: Object) -> None:
    assert leased(other, NOW) is None


def test_it_says_whether_the_konnector_is_ours() -> None:
    ours, other = (
        leased(lease(), NOW),
        leased(lease(renewTime="2026-05-01T11:59:59.5Z"), NOW),
    )
    assert ours is not None
    assert other is not None
    assert (ours.row.konnector_version, other.row.konnector_version) == (
        "Fairlead's",
        "not Fairlead's",
    )


def home(name: str) -> Object:
    return object_from_dict(home_body(name))


def test_an_invited_consumer_has_the_latest_of_its_leases() -> None:
    leases = [
        lease(7200, of="shop"),
        lease(5, uid="second", of="shop"),
        lease(5, uid="stranger"),
        lease(5, uid="lost", of="none"),
    ]
    shop, zoo, lost, stranger = consumers_of([home("zoo"), home("shop")], leases, NOW)
    assert (shop.row.identity, shop.row.namespace, shop.state) == ("shop", home_of("shop"), "ok")
    # All clusters that say to be this consumer's, since each may say so.
    assert shop.clusters == (UID, "second")
    assert (zoo.row.identity, zoo.state, zoo.row.reason) == (
        "zoo",
        "waiting",
        "FirstHeartbeatPending",
    )
    assert (lost.row.identity, lost.row.namespace) == ("lost", "")
    assert (stranger.row.identity, stranger.clusters) == ("stranger", ("stranger",))


def test_nothing_is_said_of_konnectors_where_leases_cannot_be_read() -> None:
    (shop,) = consumers_of([home("shop")], [], NOW, readable=False)
    assert (shop.state, shop.row.message) == ("unknown", "its Leases cannot be read")
