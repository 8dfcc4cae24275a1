"""How an object stands by its conditions: those that are bad when True are never well then."""

from __future__ import annotations

import itertools

import pytest

from fairlead.api import conditions as kubernetes
from fairlead.api.kubebind import conditions as kubebind
from fairlead.api.kubebind.conditions import WRONG_WHILE_TRUE, false, true, unknown
from fairlead.api.reasons.conditions import TABLES, TYPES, AnyCondition, state_of
from fairlead.api.reasons.model import State


def plain(type_: str, status: kubernetes.ConditionStatus, reason: str = "") -> AnyCondition:
    """A condition as Kubernetes has them."""
    return kubernetes.Condition(type_, status, reason=reason)


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        # kube-bind
        (true("Ready"), "ok"),
        (true("Connected"), "ok"),
        (unknown("Ready", "FirstHeartbeatPending", ""), "unknown"),
        (false("Healthy", "FirstHeartbeatPending", "", severity="Info"), "waiting"),
        (false("Healthy", "HeartbeatTimeout", ""), "failed"),
        (false("Ready", "", ""), "failed"),
        (false("Ready", "Pending", ""), "waiting"),
        (false("SchemaInSync", "ForeignCustomResourceDefinition", ""), "failed"),
        (false("ConsumerInSync", "NA", "", severity="Info"), "waiting"),
        (false("ConsumerInSync", "Unknown", "", severity="Info"), "waiting"),
        (false("NamespaceReady", "ObjectsRemain", "", severity="Info"), "waiting"),
        (kubebind.KubeBindCondition("Conflicts", "True", reason="CopyHeld"), "failed"),
        (
            kubebind.KubeBindCondition("ObjectsFailing", "True", reason="AsOddAsServersAre"),
            "failed",
        ),
        (kubebind.KubeBindCondition("AnotherKonnector", "False"), "ok"),
        (kubebind.KubeBindCondition("CredentialsInUse", "True", reason="Current"), "ok"),
        (true("Established"), "ok"),
        (false("Established", "Installing", ""), "waiting"),
        (kubebind.KubeBindCondition("NonStructuralSchema", "True", reason="Violations"), "failed"),
        (
            kubebind.KubeBindCondition("Terminating", "True", reason="InstanceDeletionPending"),
            "waiting",
        ),
        # PostgresAccess, PostgresServer and Controller
        (plain("Ready", "True", "Ready"), "ok"),
        (plain("Ready", "False", "Reconciling"), "waiting"),
        (plain("Success", "False", "Suspended"), "waiting"),
        (plain("Ready", "False", "OwnsObjects"), "failed"),
        (plain("Ready", "False", "Ready"), "waiting"),
        (plain("InProgress", "True", "ApprovalPending"), "waiting"),
        (plain("InProgress", "False", "Ready"), "ok"),
        (plain("Reconciling", "True", ""), "waiting"),
        (plain("Reconciling", "True", "AuthenticationFailed"), "failed"),
        (plain("Stalled", "True", "PolicyDenied"), "failed"),
        (plain("Stalled", "True", ""), "failed"),
        (plain("Reachable", "True", "AuthenticationFailed"), "ok"),
        (plain("Reachable", "Unknown", "TLSFailed"), "unknown"),
        (plain("Reachable", "False", "ConnectionFailed"), "failed"),
        # Service Binding
        (plain("CollectionReady", "True", "DataCollected"), "ok"),
        (plain("CollectionReady", "False", "ServiceMissingBinding"), "waiting"),
        (plain("InjectionReady", "False", "ApplicationNotFound"), "failed"),
        (plain("ServiceAvailable", "Unknown", "ServiceForbidden"), "unknown"),
        (plain("Ready", "False", "WritesPaced"), "waiting"),
        # services of others
        (plain("Degraded", "True", "DiskIsSlow"), "failed"),
        (plain("Degraded", "False", ""), "ok"),
        (plain("TideIsHigh", "True", ""), "unknown"),
        (plain("TideIsHigh", "True", "Ready"), "unknown"),
        (plain("TideIsHigh", "False", "PolicyDenied"), "failed"),
    ],
    ids=lambda one: one if isinstance(one, str) else f"{one.type}-{one.status}-{one.reason}",
)
def test_how_an_object_stands_by_a_condition(condition: AnyCondition, state: State) -> None:
    assert state_of(condition) == state


@pytest.mark.parametrize("type_", sorted(TYPES))
@pytest.mark.parametrize("reason", ["", "Ready", "AsOddAsServersAre"])
def test_what_is_bad_is_never_well(type_: str, reason: str) -> None:
    assert state_of(plain(type_, TYPES[type_].bad, reason)) in {"failed", "waiting"}


def test_conditions_that_kube_bind_shows_only_while_they_hold_are_bad_when_true() -> None:
    assert {type_ for type_ in WRONG_WHILE_TRUE if TYPES[type_].bad != "True"} == set()


def test_a_reason_of_several_tables_is_equally_bad_in_each() -> None:
    apart = {
        one.name
        for some, others in itertools.combinations(TABLES, 2)
        for one in some
        if one.name in others and one.state != others.state(one.name)
    }
    assert apart == set()
