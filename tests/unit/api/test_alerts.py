"""Alerts about an object's state agree with the verdict on it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from tests.unit.api.test_verdict import ACCESS, BINDING, ROWS, SERVER, WIDGET, c, obj

from fairlead.api.conditions import get_condition
from fairlead.api.kubebind import CLUSTERBINDINGS, ClusterBinding
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.verdict import Finding, condition_state, conditions_of, verdict_of
from fairlead.api.timestamps import format_time, moment
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.metrics import BindingMetrics
from fairlead.konnector import bounds
from fairlead.konnector.metrics import BindingStates, KbindInformers
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import OwnerMetrics, PostgresMetrics
from fairlead.provider.commands.overview import connection_verdict
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.metrics import ConsumerMetrics
from fairlead.runtime import Cluster, Informer, Metrics


ROOT = Path(__file__).parents[3]
RULES: dict[str, str] = {
    rule["alert"]: rule["expr"]
    for path in (ROOT / "config" / "alerts").glob("*.yaml")
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}
OF_STATES = {
    "FairleadBindingFailed",
    "FairleadBindingsNotProjected",
    "FairleadConnectionNotReady",
    "FairleadConsumerSilent",
    "FairleadObjectsConflicting",
    "FairleadObjectsFailing",
    "FairleadPostgresServerAway",
    "FairleadAccessesFailing",
    "FairleadAdministratorRefused",
    "FairleadWorkHeldByLock",
}
"""Alerts about the state of objects; a test below has each."""
OTHERS = {
    # Of a program, or of people who sign in.
    *("FairleadNoLeader", "FairleadWatchRestarts", "FairleadQueueGrowing"),
    *("FairleadEventLoopLag", "FairleadCertificateExpiring", "FairleadWebhookFailing"),
    "FairleadSignInsRefused",
    # Of ages and numbers, which are no state: an object may be well meanwhile.
    *("FairleadObjectsLagging", "FairleadTokenOld", "FairleadLoginsEnding"),
    "FairleadDriftHealedAgain",
}


def test_each_alert_is_known_to_tell_of_a_state_or_not() -> None:
    assert set(RULES) == OF_STATES | OTHERS


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(row[0], id=name)
        for name, row in ROWS.items()
        if row[0].kind == "ServiceBinding" and not row[0].meta.deleting
    ],
)
def test_bindings_are_counted_by_their_verdict(found: Object) -> None:
    expr = RULES["FairleadBindingsNotProjected"]
    pattern = re.search(r'outcome=~"([^"]+)"', expr)
    assert pattern is not None
    # Whatever the pass thinks of itself.
    for flow in (SimpleNamespace(error="", stage=""), SimpleNamespace(error="no", stage="x")):
        metrics = BindingMetrics()
        context = cast("BaseContext", SimpleNamespace(flow=flow))
        metrics.passed("servicebinding", "b", context, found)
        _, family = metrics.collect()
        (outcome,) = [one.labels["outcome"] for one in family.samples if one.value]
        state = verdict_of(found).state
        assert bool(re.fullmatch(pattern[1], outcome)) == (state != "ok")
        assert (outcome == "waiting") == (state == "waiting")


def _at(**ago: float) -> str:
    return format_time(moment() - timedelta(**ago))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="never"),
        pytest.param({"lastHeartbeatTime": _at(seconds=5)}, id="without-interval"),
        *(
            pytest.param({"lastHeartbeatTime": at, "heartbeatInterval": "5m0s"}, id=name)
            for name, at in {
                "just-now": _at(seconds=5),
                "long-ago": _at(hours=2),
                "ahead": _at(hours=-2),
            }.items()
        ),
    ],
)
def test_a_consumer_is_silent_if_its_verdict_is_failed(status: dict[str, str]) -> None:
    binding = object_from_dict(
        {
            "apiVersion": CLUSTERBINDINGS.api_version,
            "kind": "ClusterBinding",
            "metadata": {"name": "cluster", "namespace": "kb-a"},
            "spec": {
                "kubeconfigSecretRef": {"name": "k", "key": "kubeconfig"},
                "providerPrettyName": "Fairlead",
            },
            "status": status,
        }
    )

    class Informer:
        def get(self, *_: Any) -> Object:
            return binding

        def list(self, *_: Any) -> list[Object]:
            return []

    cluster = SimpleNamespace(client=None, informer=lambda _: Informer())
    now = moment()
    metrics = ConsumerMetrics(cast("Cluster", cluster))
    condition, _ = health(binding.decode(ClusterBinding).status, now=now)
    silent = metrics._state("kb-a", now).silent
    assert silent == (connection_verdict(condition).state == "failed")


@pytest.mark.parametrize("type_", ["Conflicts", "ObjectsFailing"])
def test_a_binding_whose_objects_alert_shows_them_as_failed(type_: str) -> None:
    found = obj(BINDING, c("Ready", "True"), c(type_, "True", "WritesRefused", "one of them"))
    (_, condition) = conditions_of(found)
    assert condition_state(found, condition) == "failed"
    assert [remark.type for remark in verdict_of(found).remarks] == [type_]
    refused = Finding("failed", "it is refused", "SyncFailed")
    assert verdict_of(obj(WIDGET), [refused]).state == "failed"


@pytest.mark.parametrize(
    "reason", ["ConnectionFailed", "TLSFailed", "TimedOut", "AuthenticationFailed", "Locked"]
)
def test_a_server_that_alerts_is_not_in_order(reason: str) -> None:
    found = obj(SERVER, c("Reachable", "False", reason), observedGeneration=2)
    assert verdict_of(found).state in {"failed", "waiting"}
    metrics = OwnerMetrics()
    metrics.reached(AccessError(reason, "no"))
    # Another alert tells of a refused login, and of a lock.
    assert (metrics.reachable == 0) == (reason not in {"AuthenticationFailed", "Locked"})


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(row[0], id=name)
        for name, row in ROWS.items()
        if row[0].kind == "APIServiceBinding"
    ],
)
def test_a_binding_alerts_if_its_verdict_is_failed(found: Object) -> None:
    informer = SimpleNamespace(list=lambda: [found])
    (family,) = BindingStates(Metrics(), cast("Informer", informer)).collect()
    (sample,) = family.samples
    assert sample.labels == {"binding": found.meta.name}
    assert bool(sample.value) == (verdict_of(found).state == "failed")


def kbind(
    kind: str, name: str, *conditions: JSON, namespace: str = "", deleting: bool = False
) -> Object:
    metadata: JSON = {"name": name, "namespace": namespace, "generation": 1}
    if deleting:
        metadata["deletionTimestamp"] = _at(hours=1)
    spec: JSON = {"connectionRef": {"name": "acme"}, "apis": [{"name": "ws.acme.io"}]}
    if kind == "Connection":
        spec = {"kubeconfigSecretRef": {"namespace": "kube-bind", "name": name}}
    return object_from_dict(
        {
            "apiVersion": "core.kbind.io/v1alpha1",
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
            "status": {"conditions": list(conditions)},
        }
    )


def ready(status: str, reason: str = "AsExpected") -> JSON:
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": _at(hours=1),
        "observedGeneration": 1,
    }


def kbind_series(*objects: Object) -> dict[tuple[str, str], float]:
    """The values by the end of the metric's name and the label."""
    informers = (
        SimpleNamespace(list=lambda kind=kind: [one for one in objects if one.kind == kind])
        for kind in ("Connection", "ClusterBinding", "Binding")
    )
    states = BindingStates(Metrics(), None, KbindInformers(*cast("Any", informers)))
    return {
        (family.name.rpartition("_")[2], sample.labels["binding"]): sample.value
        for family in states.collect()
        for sample in family.samples
    }


WELL = kbind("Connection", "acme", ready("True"))
AWAY = kbind("Connection", "acme", ready("False", "Pending"))


@pytest.mark.parametrize(
    ("connection", "binding", "failed"),
    [
        pytest.param(WELL, kbind("ClusterBinding", "all", ready("True")), 0, id="well"),
        pytest.param(
            WELL, kbind("ClusterBinding", "all", ready("False", "APINotExported")), 1, id="failed"
        ),
        pytest.param(
            AWAY,
            kbind("ClusterBinding", "all", ready("False", "Forbidden")),
            1,
            id="failed-anyhow",
        ),
        pytest.param(
            AWAY, kbind("ClusterBinding", "all", ready("False", "Pending")), 0, id="waits-for-it"
        ),
        pytest.param(
            WELL, kbind("ClusterBinding", "all", ready("False", "Pending")), 1, id="waits-alone"
        ),
        pytest.param(WELL, kbind("ClusterBinding", "all"), 0, id="new"),
        pytest.param(
            WELL,
            kbind("ClusterBinding", "all", ready("False", "Pending"), deleting=True),
            0,
            id="unbinding",
        ),
    ],
)
def test_a_kbind_binding_alerts_if_it_needs_a_person(
    connection: Object, binding: Object, failed: int
) -> None:
    assert kbind_series(connection, binding)["failed", "clusterbinding/all"] == failed


def test_a_connection_alerts_if_it_is_not_ready_and_not_being_deleted() -> None:
    found = kbind_series(
        WELL,
        kbind("Connection", "silent", ready("False", "Pending")),
        kbind("Connection", "new"),
        kbind("Connection", "old", ready("False", "DrainingBindings"), deleting=True),
    )
    assert found == {
        ("ready", "connection/acme"): 1,
        ("ready", "connection/new"): 0,
        ("ready", "connection/silent"): 0,
    }


def test_bindings_of_tenants_make_no_series_without_end() -> None:
    refused = ready("False", "APINotExported")
    bindings = [
        kbind("Binding", f"b{number:04}", refused, namespace="shop")
        for number in range(bounds.BINDING_SERIES + 3)
    ]
    found = kbind_series(WELL, *bindings)
    assert len(found) == bounds.BINDING_SERIES + 2
    assert found["failed", "binding/shop/b0000"] == 1
    assert found["failed", "binding/other"] == 3


def _failing(found: Object) -> int:
    metrics = PostgresMetrics()
    metrics.judged("a", "owner", get_condition(conditions_of(found), "Ready"))
    families = {family.name: family for family in metrics.collect()}
    return sum(int(one.value) for one in families["fairlead_postgres_failing"].samples)


@pytest.mark.parametrize("reason", [reason.name for reason in POSTGRES])
def test_an_access_is_counted_as_failing_by_its_verdict(reason: str) -> None:
    found = obj(ACCESS, c("Ready", "False", reason, "no"), observedGeneration=2)
    # Other alerts tell of the server, and of a login that ends as it was asked to.
    others = {"ConnectionFailed", "TLSFailed", "AuthenticationFailed", "Expired", "LoginEnded"}
    alerts = verdict_of(found).state == "failed" and reason not in others
    assert _failing(found) == alerts


def test_an_access_that_is_well_or_gone_is_not_failing() -> None:
    metrics = PostgresMetrics()
    failed = obj(ACCESS, c("Ready", "False", "UsernameConflict", "no"), observedGeneration=2)
    well = obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=2)
    for last in (well, None):
        metrics.judged("a", "owner", get_condition(conditions_of(failed), "Ready"))
        ready = get_condition(conditions_of(last), "Ready") if last is not None else None
        metrics.judged("a", "owner", ready)
        assert not metrics._failing
