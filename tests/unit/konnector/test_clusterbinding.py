"""Every edge of kube-bind's ClusterBindings document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import ClusterBinding, SecretRef
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.clusterbinding.reconcile import Plan, State, heartbeating, reconcile
from fairlead.konnector.clusterbinding.version import konnector_version
from fairlead.konnector.connections.reconcile import SecretKey


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
MINE = Key("kube-bind", "kubeconfig-a")
PLACE = SecretKey(MINE, "kubeconfig")


def secret(data: dict[str, str], **body: Any) -> Object:
    metadata: JSON = {"name": MINE.name, "namespace": MINE.namespace, "resourceVersion": "4"}
    whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return object_from_dict({**whole, "data": data, **body})


THEIRS = secret({"kubeconfig": "bmV3", "other": "eA=="}, type="example.org/kubeconfig")


def planned(*, last: str = "", conditions: tuple[JSON, ...] = (), **given: Any) -> Plan:
    status = {"lastHeartbeatTime": last, "conditions": list(conditions)}
    body: JSON = {
        "metadata": {"name": "cluster"},
        "spec": {
            "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
            "providerPrettyName": "Acme",
        },
        "status": status,
    }
    known: dict[str, Any] = {
        "binding": msgspec.convert(body, ClusterBinding),
        "provider_secret": THEIRS,
        "consumer_secrets": {PLACE: secret(THEIRS.to_dict()["data"])},
        "fault": "",
        "version": "v1.2.3",
        "now": NOW,
    }
    return reconcile(State(**{**known, **given}))


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    return {item.type: (item.status, item.reason) for item in plan.status.conditions}


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        pytest.param({}, ("True", ""), id="valid"),
        pytest.param({"provider_secret": None}, ("False", "ProviderSecretNotFound"), id="absent"),
        pytest.param(
            {"provider_secret": None, "unreadable": "forbidden"},
            ("False", "ProviderSecretNotFound"),
            id="unreadable",
        ),
        pytest.param({"fault": "no key"}, ("False", "ProviderSecretInvalid"), id="invalid"),
    ],
)
def test_the_providers_secret(given: dict[str, Any], valid: tuple[str, str]) -> None:
    found = conditions(planned(**given))
    assert found["SecretValid"] == valid
    assert found["Ready"] == valid


def test_an_equal_secret_is_not_written() -> None:
    assert planned().secrets == []


def test_a_rotated_secret_replaces_the_kubeconfig_and_nothing_else() -> None:
    old = secret({"kubeconfig": "b2xk", "other": "dGhlaXJz", "mine": "eQ=="})
    places = {PLACE: old, SecretKey(MINE, "second"): old}
    (write,) = planned(consumer_secrets=places).secrets
    assert write.old is old
    assert write.body["data"] == {
        "kubeconfig": "bmV3",
        "second": "bmV3",
        "other": "dGhlaXJz",
        "mine": "eQ==",
    }
    assert write.body["type"] == "Opaque"
    assert write.body["metadata"]["resourceVersion"] == "4"


def test_a_deleted_secret_is_created_again_under_its_own_name() -> None:
    (write,) = planned(consumer_secrets={PLACE: None}).secrets
    assert write.old is None
    assert write.body["metadata"] == {"name": "kubeconfig-a", "namespace": "kube-bind"}
    assert write.body["type"] == "example.org/kubeconfig"
    assert write.body["data"] == {"kubeconfig": "bmV3"}


def test_every_secret_of_the_connection_is_rotated() -> None:
    other = Key("kube-bind", "kubeconfig-b")
    plan = planned(consumer_secrets={SecretKey(other, "kubeconfig"): None, PLACE: None})
    assert [write.body["metadata"]["name"] for write in plan.secrets] == [
        "kubeconfig-a",
        "kubeconfig-b",
    ]
    assert plan.status.consumer_secret_ref == SecretRef(name="kubeconfig-a", namespace="kube-bind")


@pytest.mark.parametrize("given", [{"provider_secret": None}, {"fault": "no context"}])
def test_nothing_is_copied_from_a_bad_secret(given: dict[str, Any]) -> None:
    assert planned(consumer_secrets={PLACE: secret({})}, **given).secrets == []


@pytest.mark.parametrize(
    ("last", "beat", "due"),
    [
        pytest.param("", "2026-01-01T12:00:00Z", 151, id="first"),
        pytest.param("2026-01-01T11:59:00Z", "2026-01-01T11:59:00Z", 91, id="fresh"),
        pytest.param("2026-01-01T11:57:30Z", "2026-01-01T12:00:00Z", 151, id="due"),
        pytest.param("2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z", 151, id="late"),
        pytest.param("2026-01-01T13:00:00Z", "2026-01-01T12:00:00Z", 151, id="in-the-future"),
    ],
)
def test_heartbeats(last: str, beat: str, due: int) -> None:
    plan = planned(last=last)
    assert plan.status.last_heartbeat_time == beat
    assert plan.status.heartbeat_interval == "5m0s"
    assert plan.next_beat == due


def test_heartbeats_are_given_also_while_the_secret_is_bad() -> None:
    assert planned(provider_secret=None).status.last_heartbeat_time == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        pytest.param("v1.30.0+kube-bind-v0.6.0", "v0.6.0", id="marked"),
        pytest.param("v0.0.0-master+$Format:%H$", "v0.0.0", id="development"),
        pytest.param("v1.2.3", "v1.2.3", id="plain"),
        pytest.param("0.1.0", "v0.1.0", id="without-v"),
        pytest.param("0.1.0.dev0", "v0.1.0", id="python-development"),
        pytest.param("1.0.0rc1", "v1.0.0", id="python-candidate"),
        pytest.param("main", None, id="no-version"),
        pytest.param("", None, id="empty"),
    ],
)
def test_versions(raw: str, version: str | None) -> None:
    assert konnector_version(raw) == version
    plan = planned(version=raw)
    assert plan.status.konnector_version == (version or "unknown")
    valid = ("True", "") if version else ("False", "ParseError")
    assert conditions(plan)["ValidVersion"] == valid


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param("", ("True", ""), id="updated"),
        pytest.param("refused", ("False", "ClusterBindingUpdateFailed"), id="not-updated"),
    ],
)
def test_bindings_are_told_whether_the_update_went_through(
    error: str, expected: tuple[str, str]
) -> None:
    condition = heartbeating(error)
    assert condition.type == "Heartbeating"
    assert (condition.status, condition.reason) == expected


def test_steady_state_changes_nothing() -> None:
    first = planned(last="2026-01-01T11:59:00Z")
    stored = [msgspec.to_builtins(item) for item in first.status.conditions]
    again = planned(last="2026-01-01T11:59:00Z", conditions=tuple(stored))
    assert again.status == first.status
