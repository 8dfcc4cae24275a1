"""The verdict on objects of all makers, by what they and those who ask say."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.conditions import TABLES
from fairlead.api.reasons.model import Place
from fairlead.api.reasons.verdict import (
    LONGEST,
    Finding,
    condition_state,
    conditions_of,
    place_of,
    verdict_of,
)
from fairlead.postgres.database.reading.dependencies import (
    keeps_subscription,
    owns_objects,
    runs_as_owner,
)
from fairlead.postgres.errors import AccessError


AT = "2026-01-01T00:00:00Z"
STATES = {"ok", "waiting", "failed", "unknown"}


def c(type_: str, status: str, reason: str = "", message: str = "", generation: int = 0) -> JSON:
    condition: JSON = {"type": type_, "status": status, "lastTransitionTime": AT}
    condition |= {"reason": reason, "message": message}
    return condition | ({"observedGeneration": generation} if generation else {})


def obj(
    kind: str, *conditions: JSON, spec: JSON | None = None, meta: JSON | None = None, **status: Any
) -> Object:
    """An object of ``version/Kind``, of the generation 2."""
    version, _, name = kind.rpartition("/")
    whole: JSON = dict(status)
    if conditions:
        whole["conditions"] = list(conditions)
    metadata = {"name": "x", "namespace": "team", "uid": "u", "generation": 2, **(meta or {})}
    spec = spec or SPECS.get(kind, {})
    body: JSON = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}
    return object_from_dict(body | ({"status": whole} if whole else {}))


ACCESS = "access.k8s.delta10.nl/v1/PostgresAccess"
SERVER = "access.k8s.delta10.nl/v1/PostgresServer"
BINDING = "kube-bind.io/v1alpha2/APIServiceBinding"
EXPORT = "kube-bind.io/v1alpha2/APIServiceExport"
SERVICE_BINDING = "servicebinding.io/v1/ServiceBinding"
SPECS: dict[str, JSON] = {
    ACCESS: {
        "connection": {"serverRef": {"name": "main"}},
        "username": "app",
        "generatedSecret": "app",
    },
    BINDING: {"kubeconfigSecretRef": {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}},
    SERVICE_BINDING: {
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "service": {"apiVersion": "v1", "kind": "Secret", "name": "db"},
    },
}
CONNECTION = "core.kbind.io/v1alpha1/Connection"
KBIND_BINDING = "core.kbind.io/v1alpha1/Binding"
KBIND_CLUSTER_BINDING = "core.kbind.io/v1alpha1/ClusterBinding"
CERTIFICATE = "cert-manager.io/v1/Certificate"
CLUSTER = "postgresql.cnpg.io/v1/Cluster"
COMPOSITE = "example.org/v1/XDatabase"
WIDGET = "example.org/v1/Widget"
ROLLED_OUT = c("Progressing", "True", "NewReplicaSetAvailable")
PROVIDED = {"finalizers": ["kubebind.io/syncer"]}
MIRRORED = {"finalizers": ["core.kbind.io/syncer"]}
GOING = {"deletionTimestamp": AT, "finalizers": ["example.org/hold"]}
COPY = {"annotations": {"kube-bind.io/cluster-namespace": "kube-bind-1"}}
MIRRORED_COPY = {"annotations": {"core.kbind.io/consumer-object-uid": "u"}}

ROWS: dict[str, tuple[Object, str, str]] = {
    # kbind v2
    "connection ready": (
        obj(CONNECTION, c("Connected", "True", "AsExpected"), c("Ready", "True", "AsExpected")),
        *("ok", "AsExpected"),
    ),
    "connection never seen": (obj(CONNECTION), "waiting", "Unseen"),
    "connection without its Secret": (
        obj(CONNECTION, *(c(one, "False", "SecretNotFound") for one in ("SecretValid", "Ready"))),
        *("failed", "SecretNotFound"),
    ),
    "connection without an answer": (
        obj(CONNECTION, *(c(one, "False", "Pending") for one in ("Connected", "Ready"))),
        *("waiting", "Pending"),
    ),
    "connection of another konnector": (
        obj(CONNECTION, c("AnotherKonnector", "True", "LeaseHeld")),
        *("failed", "LeaseHeld"),
    ),
    "connection that waits for its bindings": (
        obj(CONNECTION, c("Ready", "False", "DrainingBindings"), meta=GOING),
        *("waiting", "DrainingBindings"),
    ),
    "kbind binding ready": (
        obj(
            KBIND_BINDING,
            *(c("Ready", "True", "AsExpected"), c("Conflicts", "True", "ForeignObjectExists")),
        ),
        *("ok", "AsExpected"),
    ),
    "kbind binding without a right": (
        obj(
            KBIND_CLUSTER_BINDING,
            *(c("Ready", "False", "Forbidden"), c("PermissionDenied", "True", "Forbidden")),
        ),
        *("failed", "Forbidden"),
    ),
    "object in conflict by kbind": (
        obj(WIDGET, c("Synced", "False", "OwnedByAnother"), meta=MIRRORED),
        *("failed", "OwnedByAnother"),
    ),
    "mirrored object of a provider that counts by itself": (
        obj(WIDGET, c("Ready", "True", generation=1), meta=MIRRORED),
        *("ok", ""),
    ),
    # Fairlead's own
    "access ready": (
        obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=2),
        "ok",
        "Ready",
    ),
    "access never seen": (obj(ACCESS), "waiting", "Unseen"),
    "access changed since": (
        obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=1),
        *("waiting", "Unseen"),
    ),
    "access in progress": (
        obj(
            ACCESS,
            *(c("Ready", "False", "Reconciling"), c("InProgress", "True", "Reconciling")),
            observedGeneration=2,
        ),
        *("waiting", "Reconciling"),
    ),
    "access refused": (
        obj(
            ACCESS,
            *(c("Ready", "False", "PolicyDenied"), c("Stalled", "True", "PolicyDenied")),
            observedGeneration=2,
        ),
        *("failed", "PolicyDenied"),
    ),
    "access that tries again": (
        obj(
            ACCESS,
            *(c("Ready", "False", "DatabaseSyncFailed", "ConnectionFailed: nothing listens"),),
            *(c("Reconciling", "True", "DatabaseSyncFailed", "ConnectionFailed: nothing"),),
            observedGeneration=2,
        ),
        *("failed", "DatabaseSyncFailed"),
    ),
    "provider's access, changed here more often": (
        obj(
            ACCESS,
            c("Ready", "True", "Ready", generation=1),
            observedGeneration=1,
            meta=PROVIDED,
        ),
        *("ok", "Ready"),
    ),
    "access whose deletion is stopped": (
        obj(ACCESS, c("Ready", "False", "OwnsObjects"), observedGeneration=2, meta=GOING),
        *("failed", "OwnsObjects"),
    ),
    "access that is being deleted": (
        obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=2, meta=GOING),
        *("waiting", "Deleting"),
    ),
    "server reached, not let in": (
        obj(
            SERVER,
            *(c("Ready", "False", "AuthenticationFailed"), c("Reachable", "True", "Reachable")),
            observedGeneration=2,
        ),
        *("failed", "AuthenticationFailed"),
    ),
    "server silent": (
        obj(
            SERVER, c("Ready", "False", "ConnectionFailed"), c("Reachable", "Unknown", "TLSFailed")
        ),
        *("failed", "ConnectionFailed"),
    ),
    "binding ready": (obj(BINDING, c("Ready", "True")), "ok", ""),
    "binding ready, with conflicts": (
        obj(BINDING, c("Ready", "True"), c("Conflicts", "True", "ForeignObjectExists", "team/x")),
        *("ok", ""),
    ),
    "binding ready, without status": (
        obj(BINDING, c("Ready", "True"), c("WithoutStatus", "True", "NoStatusSubresource")),
        *("ok", ""),
    ),
    "binding refused": (
        obj(
            BINDING,
            c("Ready", "False", "APIServiceExportFailed"),
            c("Connected", "False", "APIServiceExportFailed", "the provider refuses"),
        ),
        *("failed", "APIServiceExportFailed"),
    ),
    "binding without a konnector": (obj(BINDING), "waiting", "Unseen"),
    "export not bound yet": (
        obj(EXPORT, c("Ready", "False", "NA"), c("ConsumerInSync", "False", "NA", "no one binds")),
        *("waiting", "NA"),
    ),
    "template, which nobody answers": (
        obj("kube-bind.io/v1alpha2/APIServiceExportTemplate"),
        *("ok", ""),
    ),
    "service binding ready": (
        obj(SERVICE_BINDING, c("Ready", "True", "ApplicationsBound"), observedGeneration=2),
        *("ok", "ApplicationsBound"),
    ),
    "service binding ready, rollout failing": (
        obj(
            SERVICE_BINDING,
            *(c("Ready", "True", "ApplicationsBound"), c("RolloutFailing", "True", "PodsRefused")),
            observedGeneration=2,
        ),
        *("ok", "ApplicationsBound"),
    ),
    "service binding without a service": (
        obj(
            SERVICE_BINDING,
            c("Ready", "False", "ServiceNotFound"),
            c("ServiceAvailable", "False", "ServiceNotFound", "db is not there"),
        ),
        *("failed", "ServiceNotFound"),
    ),
    "service binding that cannot see": (
        obj(SERVICE_BINDING, c("Ready", "Unknown", "ProcessingError", "no answer")),
        *("unknown", "ProcessingError"),
    ),
    # Kubernetes'
    "secret": (obj("v1/Secret"), "ok", ""),
    "config map": (obj("v1/ConfigMap"), "ok", ""),
    "role": (obj("rbac.authorization.k8s.io/v1/Role"), "ok", ""),
    "deployment available": (
        obj(
            "apps/v1/Deployment",
            *(ROLLED_OUT, c("Available", "True", "MinimumReplicasAvailable")),
            observedGeneration=2,
            updatedReplicas=1,
        ),
        *("ok", "MinimumReplicasAvailable"),
    ),
    "deployment rolling out": (
        obj(
            "apps/v1/Deployment",
            *(c("Progressing", "True", "ReplicaSetUpdated"), c("Available", "False", "Minimum")),
            observedGeneration=2,
        ),
        *("waiting", "Minimum"),
    ),
    "deployment that lost its Pods": (
        obj("apps/v1/Deployment", ROLLED_OUT, c("Available", "False", "Minimum")),
        *("failed", "Minimum"),
    ),
    "deployment with old Pods": (
        obj(
            "apps/v1/Deployment",
            *(c("Progressing", "True", "ReplicaSetUpdated"), c("Available", "True", "Minimum")),
            spec={"replicas": 3},
            updatedReplicas=1,
        ),
        *("waiting", ""),
    ),
    "deployment past its deadline": (
        obj(
            "apps/v1/Deployment",
            *(c("Available", "True"), c("Progressing", "False", "ProgressDeadlineExceeded")),
        ),
        *("failed", "ProgressDeadlineExceeded"),
    ),
    "deployment whose Pods are refused": (
        obj(
            "apps/v1/Deployment", c("Available", "True"), c("ReplicaFailure", "True", "Forbidden")
        ),
        *("failed", "Forbidden"),
    ),
    "deployment not seen since": (
        obj("apps/v1/Deployment", ROLLED_OUT, c("Available", "True"), observedGeneration=1),
        *("waiting", ""),
    ),
    "stateful set ready": (obj("apps/v1/StatefulSet", readyReplicas=1), "ok", ""),
    "stateful set coming": (obj("apps/v1/StatefulSet", spec={"replicas": 2}), "waiting", ""),
    "daemon set ready": (
        obj("apps/v1/DaemonSet", numberReady=3, desiredNumberScheduled=3),
        *("ok", ""),
    ),
    "job done": (obj("batch/v1/Job", c("Complete", "True", "Done")), "ok", "Done"),
    "job failed": (
        obj("batch/v1/Job", c("Failed", "True", "BackoffLimitExceeded")),
        *("failed", "BackoffLimitExceeded"),
    ),
    "job at work": (obj("batch/v1/Job", active=1), "waiting", ""),
    "pod ready": (obj("v1/Pod", c("Ready", "True"), phase="Running"), "ok", ""),
    "pod without its image": (
        obj(
            "v1/Pod",
            c("Ready", "False", "ContainersNotReady"),
            phase="Pending",
            containerStatuses=[
                {"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
            ],
        ),
        *("failed", "ImagePullBackOff"),
    ),
    "pod starting": (
        obj(
            "v1/Pod",
            c("Ready", "False", "ContainersNotReady"),
            phase="Pending",
            containerStatuses=[
                {"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}
            ],
        ),
        *("waiting", "ContainersNotReady"),
    ),
    "pod without a node": (
        obj("v1/Pod", c("PodScheduled", "False", "Unschedulable"), phase="Pending"),
        *("failed", "Unschedulable"),
    ),
    "pod over": (obj("v1/Pod", phase="Failed", reason="Evicted"), "failed", "Evicted"),
    "claim of a volume": (obj("v1/PersistentVolumeClaim", phase="Bound"), "ok", "Bound"),
    "claim that waits": (
        obj("v1/PersistentVolumeClaim", phase="Pending"),
        *("waiting", "Pending"),
    ),
    "service with a load balancer": (
        obj("v1/Service", spec={"type": "LoadBalancer"}, loadBalancer={}),
        *("waiting", "Pending"),
    ),
    "service": (obj("v1/Service", loadBalancer={}), "ok", ""),
    "definition": (
        obj(
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            *(c("NamesAccepted", "True"), c("Established", "True", "InitialNamesAccepted")),
        ),
        *("ok", "InitialNamesAccepted"),
    ),
    "definition with a name that is taken": (
        obj(
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            *(c("NamesAccepted", "False", "PluralConflict"), c("Established", "False")),
        ),
        *("failed", "PluralConflict"),
    ),
    "definition installing": (
        obj("apiextensions.k8s.io/v1/CustomResourceDefinition", c("Established", "False", "New")),
        *("waiting", "New"),
    ),
    # cert-manager's
    "certificate": (obj(CERTIFICATE, c("Ready", "True", "Ready", generation=2)), "ok", "Ready"),
    "certificate being issued": (
        obj(
            CERTIFICATE,
            *(
                c("Ready", "False", "DoesNotExist", "no Secret"),
                c("Issuing", "True", "DoesNotExist"),
            ),
        ),
        *("waiting", "DoesNotExist"),
    ),
    "certificate that failed": (
        obj(
            CERTIFICATE, c("Ready", "False", "DoesNotExist"), c("Issuing", "False", "Failed", "no")
        ),
        *("failed", "Failed"),
    ),
    "certificate that is over": (
        obj(CERTIFICATE, c("Ready", "False", "Expired", "since yesterday")),
        *("failed", "Expired"),
    ),
    "certificate about another spec": (
        obj(CERTIFICATE, c("Ready", "True", "Ready", generation=1)),
        *("waiting", ""),
    ),
    "issuer": (
        obj("cert-manager.io/v1/Issuer", c("Ready", "False", "ErrRegisterACMEAccount", "no")),
        *("failed", "ErrRegisterACMEAccount"),
    ),
    # CloudNativePG's
    "postgres cluster": (
        obj(
            CLUSTER,
            *(c("Ready", "True", "ClusterIsReady"), c("ContinuousArchiving", "False", "NoWAL")),
            phase="Cluster in healthy state",
        ),
        *("ok", "ClusterIsReady"),
    ),
    "postgres cluster coming": (
        obj(CLUSTER, c("Ready", "False", "ClusterIsNotReady", "Cluster Is Not Ready")),
        *("waiting", "ClusterIsNotReady"),
    ),
    # Crossplane's
    "composite ready": (
        obj(COMPOSITE, c("Synced", "True", "ReconcileSuccess"), c("Ready", "True", "Available")),
        *("ok", "Available"),
    ),
    "composite creating": (
        obj(COMPOSITE, c("Synced", "True", "ReconcileSuccess"), c("Ready", "False", "Creating")),
        *("waiting", "Creating"),
    ),
    "composite that cannot be written": (
        obj(
            COMPOSITE,
            c("Ready", "False", "Creating"),
            c("Synced", "False", "ReconcileError", "no"),
        ),
        *("failed", "ReconcileError"),
    ),
    "composite ready and out of sync": (
        obj(
            COMPOSITE,
            c("Ready", "True", "Available"),
            c("Synced", "False", "ReconcileError", "no"),
        ),
        *("failed", "ReconcileError"),
    ),
    # Argo's
    "application healthy": (
        obj(
            "argoproj.io/v1alpha1/Application",
            health={"status": "Healthy"},
            sync={"status": "OutOfSync"},
        ),
        *("ok", "Healthy"),
    ),
    "application degraded": (
        obj("argoproj.io/v1alpha1/Application", health={"status": "Degraded", "message": "no"}),
        *("failed", "Degraded"),
    ),
    "rollout": (
        obj("argoproj.io/v1alpha1/Rollout", ROLLED_OUT, c("Available", "True", "AvailableReason")),
        *("ok", "AvailableReason"),
    ),
    # Others'
    "knative service at work": (
        obj("serving.knative.dev/v1/Service", c("Ready", "Unknown", "RevisionMissing")),
        *("waiting", "RevisionMissing"),
    ),
    "external secret": (
        obj("external-secrets.io/v1/ExternalSecret", c("Ready", "False", "SecretSyncedError")),
        *("failed", "SecretSyncedError"),
    ),
    "flux stalled": (
        obj(
            "kustomize.toolkit.fluxcd.io/v1/Kustomization",
            *(c("Ready", "False", "BuildFailed"), c("Stalled", "True", "BuildFailed", "no")),
        ),
        *("failed", "BuildFailed"),
    ),
    "flux reconciling": (
        obj(
            "kustomize.toolkit.fluxcd.io/v1/Kustomization",
            *(c("Reconciling", "True", "Progressing"), c("Ready", "Unknown", "Progressing")),
        ),
        *("waiting", "Progressing"),
    ),
    "task that failed": (
        obj("tekton.dev/v1/TaskRun", c("Succeeded", "False", "TaskRunTimeout")),
        *("failed", "TaskRunTimeout"),
    ),
    "gateway": (
        obj(
            "gateway.networking.k8s.io/v1/Gateway",
            *(c("Accepted", "True", "Accepted"), c("Programmed", "False", "Pending")),
        ),
        *("waiting", "Pending"),
    ),
    "elastic search": (
        obj("elasticsearch.k8s.elastic.co/v1/Elasticsearch", health="red", phase="Ready"),
        *("failed", "red"),
    ),
    "degraded beside ready": (
        obj(WIDGET, c("Ready", "True"), c("Degraded", "True", "Slow")),
        *("failed", "Slow"),
    ),
    "not degraded": (obj(WIDGET, c("Ready", "True"), c("Degraded", "False", "")), "ok", ""),
    "not available beside ready": (
        obj(WIDGET, c("Ready", "True", "Fine"), c("Available", "False", "Odd")),
        *("ok", "Fine"),
    ),
    "reconciling beside ready": (
        obj(WIDGET, c("Ready", "True"), c("Reconciling", "True", "Busy")),
        *("waiting", "Busy"),
    ),
    "not reconciling": (obj(WIDGET, c("Reconciling", "False", "Idle")), "ok", "Idle"),
    "an odd type beside ready": (obj(WIDGET, c("Ready", "True"), c("Tide", "False")), "ok", ""),
    "an odd type alone": (obj(WIDGET, c("Tide", "True")), "unknown", ""),
    "nothing said": (obj(WIDGET), "unknown", ""),
    "not ready without a reason": (obj(WIDGET, c("Ready", "False")), "waiting", ""),
    "a word of ours on another's object": (
        obj(WIDGET, c("Ready", "False", "Pending")),
        *("waiting", "Pending"),
    ),
    "the konnector refuses": (
        obj(WIDGET, c("Synced", "False", "ForeignObjectExists", "another x"), meta=COPY),
        *("failed", "ForeignObjectExists"),
    ),
    "another's object that goes": (
        obj(WIDGET, c("Ready", "False", "Broken"), meta=GOING),
        *("waiting", "Deleting"),
    ),
}


@pytest.mark.parametrize(
    ("found", "state", "reason"), [pytest.param(*row, id=name) for name, row in ROWS.items()]
)
def test_the_verdict_on_an_object(found: Object, state: str, reason: str) -> None:
    verdict = verdict_of(found)
    assert (verdict.state, verdict.reason) == (state, reason)
    # What is well has nothing to do; what failed says what helps, and whose word it is.
    assert not (verdict.remedy and state == "ok")
    assert state != "failed" or (verdict.remedy and verdict.owner)


BOUND = obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=2)
REFUSED = obj(ACCESS, c("Ready", "False", "PolicyDenied", "no"), observedGeneration=2)
SILENT = Finding("failed", "the konnector has stopped reporting", "HeartbeatTimeout", AT)
UNSYNCED = Finding("waiting", "waits for the status of its copy", "NotInSync")


@pytest.mark.parametrize(
    ("found", "findings", "state", "reason"),
    [
        pytest.param(BOUND, [], "ok", "Ready", id="none"),
        pytest.param(BOUND, [UNSYNCED], "waiting", "NotInSync", id="a change on its way"),
        pytest.param(BOUND, [SILENT], "failed", "HeartbeatTimeout", id="a silent konnector"),
        pytest.param(REFUSED, [UNSYNCED], "failed", "PolicyDenied", id="worse than the change"),
        pytest.param(REFUSED, [SILENT], "failed", "HeartbeatTimeout", id="nearer to the cause"),
        pytest.param(obj(ACCESS), [SILENT], "failed", "HeartbeatTimeout", id="never seen"),
        pytest.param(obj(WIDGET), [Finding("ok", "is in sync")], "ok", "", id="says nothing"),
        pytest.param(
            obj(WIDGET), [UNSYNCED], "waiting", "NotInSync", id="says nothing, on its way"
        ),
    ],
)
def test_what_the_one_who_asks_knows_counts(
    found: Object, findings: list[Finding], state: str, reason: str
) -> None:
    verdict = verdict_of(found, findings)
    assert (verdict.state, verdict.reason) == (state, reason)


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        pytest.param("binding ready, with conflicts", ["team/x"], id="a fault beside Ready"),
        pytest.param("binding ready, without status", [], id="a fact"),
        pytest.param(
            "service binding ready, rollout failing", ["RolloutFailing is True"], id="pods"
        ),
        pytest.param("binding refused", [], id="the cause is no remark"),
        pytest.param("application healthy", ["it is out of sync with its source"], id="sync"),
    ],
)
def test_remarks_stand_beside_a_verdict(row: str, texts: list[str]) -> None:
    assert [remark.message for remark in verdict_of(ROWS[row][0]).remarks] == texts


def test_warnings_of_an_access_are_remarks() -> None:
    found = obj(ACCESS, c("Ready", "True", "Ready"), observedGeneration=2, warnings=["look"])
    assert [remark.message for remark in verdict_of(found).remarks] == ["look"]


def test_a_word_of_ours_on_anothers_object_has_no_remedy_of_ours() -> None:
    verdict = verdict_of(ROWS["a word of ours on another's object"][0])
    assert verdict.owner == "other"
    assert "konnector" not in verdict.remedy


def test_a_stage_that_fails_has_the_remedy_of_the_finer_reason() -> None:
    message = "DatabaseNotFound: database payroll of spec.grants does not exist"
    found = obj(ACCESS, c("Ready", "False", "DatabaseSyncFailed", message), observedGeneration=2)
    assert verdict_of(found).remedy == "create the database, or correct spec.grants"


def test_a_policy_is_advised_only_to_who_can_set_it() -> None:
    condition = c("Ready", "False", "OwnsObjects", "role app owns 2 tables")
    places: dict[str, JSON] = {"": {}, "consumer": PROVIDED, "provider": COPY}
    remedies = {
        place: verdict_of(obj(ACCESS, condition, observedGeneration=2, meta=meta)).remedy
        for place, meta in places.items()
    }
    assert "set spec.cleanupPolicy" in remedies[""]
    assert remedies["consumer"].startswith("set spec.cleanupPolicy")
    # The consumer's spec would overwrite it in a copy.
    assert "spec.cleanupPolicy" not in remedies["provider"]
    assert remedies["provider"].startswith("give the objects of the role to another role")


@pytest.mark.parametrize(
    "error",
    [
        owns_objects("app", [("shop", ["table a"])]),
        keeps_subscription("s", "shop"),
        runs_as_owner("app", "shop", "boss", ["function f"]),
    ],
    ids=["restrict", "subscription", "orphan"],
)
def test_what_a_role_owns_is_a_fact_for_readers_in_either_cluster(error: AccessError) -> None:
    # Who reads the message in the provider's cluster cannot set the policy: see the remedies.
    assert not re.search(r"\bset spec\.|drop it|drop or|reassign", error.message)


@pytest.mark.parametrize("place", get_args(Place))
def test_no_remedy_only_points_to_the_message(place: Place) -> None:
    for reason in (reason for table in TABLES for reason in table):
        assert "as the message says" not in reason.remedy(place)


def test_what_is_being_deleted_names_what_holds_it() -> None:
    verdict = verdict_of(ROWS["another's object that goes"][0])
    assert "example.org/hold" in verdict.message
    assert (verdict.since, "finalizers" in verdict.remedy) == (AT, True)


DEPLOYMENT = "apps/v1/Deployment"
CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"


@pytest.mark.parametrize(
    ("kind", "condition", "state"),
    [
        *(
            pytest.param(kind, c(type_, status), None, id=f"{type_}-{status}")
            for kind, types in {
                DEPLOYMENT: ("Progressing", "ReplicaFailure"),
                CRD: ("Established", "NamesAccepted", "NonStructuralSchema", "Terminating"),
                "v1/Pod": ("PodScheduled", "ContainersReady", "Initialized"),
                "batch/v1/Job": ("Suspended", "SuccessCriteriaMet"),
                WIDGET: ("Tide", "Progressing"),
                ACCESS: ("Tide",),
            }.items()
            for type_ in types
            for status in ("True", "False")
        ),
        pytest.param(DEPLOYMENT, c("Available", "True"), "ok", id="available"),
        pytest.param("batch/v1/Job", c("Failed", "True"), "failed", id="failed-job"),
        pytest.param("batch/v1/Job", c("Failed", "False"), None, id="job-that-has-not-failed"),
        pytest.param(WIDGET, c("Stalled", "True", "Broken"), "failed", id="stalled"),
        pytest.param(WIDGET, c("Stalled", "False"), None, id="not-stalled"),
        pytest.param(WIDGET, c("Degraded", "True"), "failed", id="degraded"),
        pytest.param(WIDGET, c("Degraded", "False"), None, id="not-degraded"),
        pytest.param(WIDGET, c("Reconciling", "True"), "waiting", id="reconciling"),
        pytest.param(WIDGET, c("Reconciling", "False"), None, id="not-reconciling"),
        pytest.param(WIDGET, c("Ready", "False", "Odd"), "waiting", id="ready-goes-on"),
        pytest.param(WIDGET, c("Ready", "False", "SyncError"), "failed", id="ready-failed"),
        pytest.param(WIDGET, c("Ready", "False", "SyncError", generation=1), None, id="older"),
        pytest.param(ACCESS, c("Stalled", "True", "PolicyDenied"), "failed", id="own-stalled"),
        pytest.param(ACCESS, c("Stalled", "False", "Ready"), None, id="own-not-stalled"),
        pytest.param(ACCESS, c("InProgress", "False", "Ready"), None, id="own-not-in-progress"),
        pytest.param(ACCESS, c("Expiring", "True", "EndsSoon"), None, id="own-end"),
        pytest.param(BINDING, c("Conflicts", "True", "ForeignObjectExists"), "failed", id="wrong"),
        pytest.param(BINDING, c("Conflicts", "False"), None, id="not-wrong"),
        pytest.param(BINDING, c("WithoutStatus", "True"), None, id="without-status"),
        pytest.param(BINDING, c("Connected", "True"), "ok", id="own-connected"),
    ],
)
def test_the_state_of_one_condition(kind: str, condition: JSON, state: str | None) -> None:
    found = obj(kind, condition)
    assert condition_state(found, conditions_of(found)[0]) == state


@pytest.mark.parametrize("found", [pytest.param(row[0], id=name) for name, row in ROWS.items()])
def test_the_condition_that_decides_has_the_state_of_the_verdict(found: Object) -> None:
    verdict = verdict_of(found)
    deciding = [one for one in conditions_of(found) if one.type == verdict.type]
    states = {condition_state(found, one) for one in deciding}
    assert states <= {verdict.state, None}


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)
_KINDS = (
    "apps/v1/Deployment",
    "v1/Pod",
    "v1/Service",
    "argoproj.io/v1/Application",
    ACCESS,
    WIDGET,
)


@given(_json, st.sampled_from(_KINDS))
def test_whatever_stands_in_a_status_is_read(status: Any, kind: str) -> None:
    version, _, name = kind.rpartition("/")
    for stored in (status, {"conditions": status}, {"conditions": [status], "health": status}):
        body = {
            "apiVersion": version,
            "kind": name,
            "metadata": {"name": "x", "generation": 1},
            "spec": status,
            "status": stored,
        }
        assert verdict_of(object_from_dict(body)).state in STATES


def test_a_malformed_condition_hides_no_other() -> None:
    malformed: list[Any] = [7, {"type": "Ready", "status": 1}, c("Synced", "False", "Bad")]
    found = conditions_of(obj(WIDGET, *malformed))
    assert [(condition.type, condition.status) for condition in found] == [("Synced", "False")]


def test_long_texts_are_cut() -> None:
    found = obj(WIDGET, c("Ready", "False", "Error" + "r" * 9000, "m" * 9000))
    verdict = verdict_of(found)
    assert len(verdict.message) == len(verdict.reason) == LONGEST + 1


@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        pytest.param(
            obj(ACCESS, c("Ready", "False", "PolicyDenied"), meta=COPY),
            "ask the team that runs the server or the operator to allow it",
            id="the operator's, at the provider",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "NameInvalid"), meta=COPY),
            "ask the consumer's team: correct the field",
            id="the author's, at the provider",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "ConnectionFailed"), meta=PROVIDED),
            "ask the provider's team: start the server",
            id="the operator's, at the consumer",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "NameInvalid"), meta=PROVIDED),
            "correct the field",
            id="the author's, at the consumer",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "ConnectionFailed")),
            "start the server",
            id="in one cluster",
        ),
        pytest.param(
            obj(ACCESS, meta=PROVIDED),
            "ask the provider's team whether its controller",
            id="no operator that looks, at the consumer",
        ),
        pytest.param(obj(ACCESS), "see whether the operator runs", id="no operator that looks"),
        pytest.param(
            obj(EXPORT, c("Ready", "False", "NA")),
            "have the consumer's team see whether the konnector runs",
            id="a silent konnector, at the provider",
        ),
        pytest.param(
            obj(BINDING, c("Ready", "False", "ProviderObjectInvalid")),
            "ask the provider's team",
            id="a provider's fault, at the consumer",
        ),
        pytest.param(
            obj(CONNECTION, c("Ready", "False", "ClusterIdentityChanged")),
            "restore the former cluster, or delete the Connection",
            id="another cluster behind a Connection",
        ),
        pytest.param(
            obj(BINDING, c("Ready", "False", "ClusterIdentityChanged")),
            "restore the objects, then fairlead bind -f",
            id="another cluster that binds by v1alpha2",
        ),
        pytest.param(
            obj(WIDGET, c("Synced", "False", "ForeignObjectExists"), meta=MIRRORED),
            "rename one of the two objects; for bound objects you can also set",
            id="a conflict by kbind v2",
        ),
        pytest.param(
            obj(WIDGET, c("Synced", "False", "ForeignObjectExists"), meta=PROVIDED),
            "rename one of the two objects; the provider can hand over",
            id="a conflict by v1alpha2",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "NameInvalid"), meta=MIRRORED_COPY),
            "ask the consumer's team: correct the field",
            id="the author's, at the provider of kbind v2",
        ),
        pytest.param(
            obj(ACCESS, c("Ready", "False", "ConnectionFailed"), meta=MIRRORED),
            "ask the provider's team: start the server",
            id="the operator's, at the consumer of kbind v2",
        ),
        pytest.param(obj(KBIND_BINDING), "see whether the konnector", id="no konnector"),
        pytest.param(
            obj(KBIND_BINDING, meta=GOING), "see whether the konnector", id="what it has to let go"
        ),
    ],
)
def test_a_remedy_is_for_the_cluster_of_its_reader(found: Object, remedy: str) -> None:
    assert verdict_of(found).remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("kube-bind.io/v1alpha2/ClusterBinding", "provider"),
        (KBIND_CLUSTER_BINDING, "consumer"),
        (CONNECTION, "consumer"),
        (BINDING, "consumer"),
        ("example.org/v1/ClusterBinding", ""),
    ],
)
def test_kinds_of_one_name_are_told_apart_by_their_group(kind: str, place: Place) -> None:
    assert place_of(obj(kind)) == place
