"""The condition Healthy of a ClusterBinding, by its heartbeats."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from fairlead.api.durations import parse_duration
from fairlead.api.kubebind import ClusterBinding, ClusterBindingStatus
from fairlead.api.kubebind.conditions import (
    HEALTHY,
    HEARTBEAT_TIMEOUT,
    KubeBindCondition,
    false,
    true,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.timestamps import format_time, parse_time
from fairlead.provider import bounds
from fairlead.provider.changes import with_status


ALLOWED_DRIFT = timedelta(seconds=10)
"""Seconds that a heartbeat may lie in the future before the clocks count as different."""


class HealthPlan(NamedTuple):
    """Body to store, and seconds until the next look."""

    status: JSON
    requeue_after: float | None


def reconcile(binding: Object, *, now: datetime) -> HealthPlan:
    """Decide the conditions of a ClusterBinding, and when to look again."""
    condition, wait = health(binding.decode(ClusterBinding).status, now=now)
    return HealthPlan(with_status(binding, [condition], now=format_time(now)), wait)


def health(
    status: ClusterBindingStatus, *, now: datetime
) -> tuple[KubeBindCondition, float | None]:
    """Return the condition Healthy of a konnector, and the seconds until it may change."""
    if not status.last_heartbeat_time:
        return _info("FirstHeartbeatPending", "no konnector has reported yet"), None
    interval = parse_duration(status.heartbeat_interval)
    if not interval:
        return _info("HeartbeatIntervalMissing", "status.heartbeatInterval is not set"), None
    try:
        beat = parse_time(status.last_heartbeat_time)
        deadline = beat + 2 * interval
    except (ValueError, OverflowError):
        # Consumers write both fields, and may write times that no clock shows.
        return _drift(), None
    if now >= deadline:
        return _timeout(status), bounds.AGAIN_SECONDS
    if beat > now + ALLOWED_DRIFT:
        # Judged again when this cluster's clock reaches that time, if it is soon.
        return _drift(), min(bounds.AGAIN_SECONDS, (beat - now).total_seconds())
    return true(HEALTHY), (deadline - now).total_seconds()


def _timeout(status: ClusterBindingStatus) -> KubeBindCondition:
    return false(
        HEALTHY,
        HEARTBEAT_TIMEOUT,
        f"the last heartbeat was at {status.last_heartbeat_time}, more than twice the interval "
        f"{status.heartbeat_interval} ago: is the konnector running, and can it reach this "
        "cluster?",
    )


def _drift() -> KubeBindCondition:
    return false(
        HEALTHY,
        "HeartbeatTimeDrift",
        "the last heartbeat is in the future: the clocks of the two clusters differ",
        severity="Warning",
    )


def _info(reason: str, message: str) -> KubeBindCondition:
    return false(HEALTHY, reason, message, severity="Info")
