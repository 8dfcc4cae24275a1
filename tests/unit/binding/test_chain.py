"""Where the chain from a workload to its service breaks, and what is said of each link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import SECRET_SERVICE, deployment, pod, secret, spec_binding

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.links import Chain, Link
from fairlead.api.meta import JSON, Key
from fairlead.api.reasons.servicebinding import SERVICE_BINDING
from fairlead.binding.commands.links import (
    BoundWorkload,
    SeenObject,
    ToldBinding,
    binding_link,
    chain_of,
    secret_link,
    secret_named,
    service_link,
    workload_links,
)
from fairlead.binding.workloads.records import BindingRecord, ContainerPath, read_records
from fairlead.binding.workloads.records import BoundContainer as InContainer
from fairlead.explain.targets import ExplainedTarget, parse_target


def there(kind: str, name: str, **body: Any) -> SeenObject:
    version = "v1" if kind == "Secret" else "example.org/v1"
    whole: JSON = {"apiVersion": version, "kind": kind, **body}
    return SeenObject(text=f"{kind} shop/{name}", sight="there", body=whole, key=Key("shop", name))


def absent(kind: str, name: str, sight: Any = "NotFound", problem: str = "") -> SeenObject:
    return SeenObject(text=f"{kind} shop/{name}", sight=sight, problem=problem)


def told(*conditions: tuple[str, ConditionStatus, str], **fields: Any) -> ToldBinding:
    made = [
        Condition(type=type_, status=status, reason=reason, message=f"about {reason}")
        for type_, status, reason in conditions
    ]
    return ToldBinding(
        text="ServiceBinding shop/db (servicebinding.io)", conditions=made, **fields
    )


READY = told(
    ("ServiceAvailable", "True", "Resolved"),
    ("Ready", "True", "ApplicationsBound"),
    secret="login",
)
NOT_COLLECTED = told(
    ("ServiceAvailable", "False", "ServiceNotFound"), ("Ready", "False", "ProcessingError")
)
NOT_INJECTED = told(
    ("ServiceAvailable", "True", "Resolved"),
    ("InjectionReady", "False", "Error"),
    ("Ready", "False", "ProcessingError"),
    secret="login",
)
DB = there("Database", "db", status={"binding": {"name": "login"}})
UNNAMED = there("Database", "db")
SICK = there(
    "Database",
    "db",
    status={
        "binding": {"name": "login"},
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "Down",
                "message": "the disk is full",
                "lastTransitionTime": "",
            }
        ],
    },
)
STARTING = there(
    "Database",
    "db",
    status={"conditions": [{"type": "Ready", "status": "False", "reason": "Reconciling"}]},
)
UNSERVED = absent("Database", "db", "NotServed", "no such kind")
LOGIN = there("Secret", "login", data={"host": "ZGI=", "password": "c2VjcmV0"})
RECORD = BindingRecord(
    group="servicebinding.io",
    name="db",
    secret="login",
    volume="db",
    containers=[
        ContainerPath(
            path="x", env=(), volume_mounts=(), bound={"app": InContainer(["A"], False, "/b")}
        )
    ],
)
WEB = BoundWorkload(workload=there("Deployment", "web"), record=RECORD)
REFUSAL = "ReplicaFailure is True, FailedCreate: no variables of Secrets"
FAILING = BoundWorkload(
    workload=there(
        "Deployment",
        "web",
        metadata={"generation": 2},
        status={
            "observedGeneration": 2,
            "conditions": [
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "reason": "FailedCreate",
                    "message": "no variables of Secrets",
                }
            ],
        },
    ),
    record=RECORD,
)
NOT_READ = BoundWorkload(workload=absent("Deployment", "web", "Forbidden", "you may not read it"))
ROLLOUT_FAILS = told(
    ("Ready", "True", "ApplicationsBound"),
    ("RolloutFailing", "True", "PodsRefused"),
    secret="login",
)
BARE = BoundWorkload(workload=there("Deployment", "web"))


def whole(
    says: ToldBinding,
    service: SeenObject = DB,
    secrets: Sequence[SeenObject] = (LOGIN,),
    workloads: Sequence[BoundWorkload] = (WEB,),
    *more: Link,
) -> Chain:
    made = secret_link(secrets, None)
    return chain_of(
        says,
        [
            *more,
            service_link(service, says),
            binding_link(says),
            *workload_links(workloads, says, "Deployment by a selector"),
            *([made] if made else []),
        ],
    )


AWAY = Link(name="provider", object="x", state="failed", reason="NotReached", remedy="look there")


@pytest.mark.parametrize(
    ("found", "broken", "reason", "states"),
    [
        pytest.param(whole(READY), None, "", "ok ok ok ok", id="all-is-well"),
        pytest.param(
            whole(NOT_COLLECTED, absent("Database", "db"), (), [BARE]),
            "service", "ServiceNotFound", "waiting waiting failed", id="no-service",
        ),
        pytest.param(
            whole(NOT_COLLECTED, UNSERVED, (), [BARE]),
            "service", "ServiceNotFound", "waiting waiting failed", id="no-kind",
        ),
        pytest.param(
            whole(NOT_COLLECTED, UNNAMED, (), [BARE]),
            "service", "ServiceMissingBinding", "waiting waiting waiting", id="names-no-secret",
        ),
        pytest.param(
            whole(NOT_COLLECTED, DB, [absent("Secret", "login")], [BARE]),
            "Secret", "ErrorReadingSecret", "waiting waiting failed ok", id="no-secret",
        ),
        pytest.param(
            whole(NOT_COLLECTED, DB, [there("Secret", "login")], [BARE]),
            "Secret", "NoBindingData", "waiting waiting failed ok", id="an-empty-secret",
        ),
        pytest.param(
            whole(READY, SICK), "service", "Down", "ok ok ok failed", id="service-is-sick",
        ),
        pytest.param(
            whole(NOT_COLLECTED, STARTING, (), [BARE]),
            "service", "Reconciling", "waiting waiting waiting", id="service-is-not-there-yet",
        ),
        pytest.param(
            whole(NOT_COLLECTED, SICK, [absent("Secret", "login")], [BARE], AWAY),
            "provider", "NotReached", "waiting waiting waiting waiting failed", id="provider-away",
        ),
        pytest.param(
            whole(NOT_INJECTED, SICK, workloads=[BARE]),
            "service", "Down", "waiting failed ok failed", id="in-the-way-and-sick",
        ),
        pytest.param(
            whole(NOT_INJECTED, workloads=[BARE]),
            "binding", "Error", "waiting failed ok ok", id="something-in-the-way",
        ),
        pytest.param(
            whole(NOT_INJECTED, workloads=[BoundWorkload(workload=absent("Deployment", "web"))]),
            "binding", "Error", "failed failed ok ok", id="no-workload",
        ),
        pytest.param(
            whole(told()), "binding", "Unseen", "ok waiting ok ok", id="nobody-has-looked",
        ),
        pytest.param(
            whole(told(("Ready", "True", "ApplicationsBound"), fresh=False)),
            "binding", "Unseen", "ok waiting ok ok", id="changed-since",
        ),
        pytest.param(
            whole(told(problem="spec.service is missing")),
            "binding", "InvalidSpec", "ok failed ok ok", id="no-spec-to-speak-of",
        ),
        pytest.param(
            whole(told(("Ready", "True", "ApplicationsBound"), deleting=True, secret="login")),
            "binding", "Waiting", "ok waiting ok ok", id="going",
        ),
        pytest.param(
            whole(told(("Ready", "True", "ApplicationsBound"), secret="newer")),
            "workload", "NotProjected", "failed ok ok ok", id="still-the-former-secret",
        ),
        pytest.param(
            whole(READY, workloads=[BARE]), None, "", "unknown ok ok ok", id="without-a-record",
        ),
        pytest.param(
            whole(READY, workloads=[FAILING]),
            "workload", "PodsRefused", "failed ok ok ok", id="pods-refused",
        ),
        pytest.param(
            whole(ROLLOUT_FAILS, workloads=[NOT_READ]),
            "workload", "PodsRefused", "failed ok ok ok", id="pods-refused-of-what-is-not-read",
        ),
        pytest.param(
            whole(ROLLOUT_FAILS), None, "", "ok ok ok ok", id="a-rollout-that-goes-on-again",
        ),
        pytest.param(
            whole(READY, workloads=[]),
            "workload", "ApplicationNotFound", "failed ok ok ok", id="selects-nothing",
        ),
    ],
)  # fmt: skip
def test_the_first_that_is_broken(
    found: Chain, broken: str | None, reason: str, states: str
) -> None:
    assert (found.broken, found.reason) == (broken, reason)
    assert [one.state for one in found.links] == states.split()
    names = ("workload", "binding", "Secret", "service", "provider")
    assert [names.index(one.name) for one in found.links] == sorted(
        names.index(one.name) for one in found.links
    )
    assert found.ready is (broken is None)
    assert bool(found.next_step) is (broken is not None)


def test_a_binding_that_is_not_ready_says_since_when() -> None:
    since = "2026-01-01T00:00:00Z"
    failed = Condition("InjectionReady", "False", "Error", "no", since)
    link = binding_link(ToldBinding(text="x", conditions=[failed, Condition("Ready", "False")]))
    assert (link.state, link.since) == ("failed", since)


def test_a_workload_that_waits_for_a_missing_service_is_not_sent_to_the_controller() -> None:
    found = whole(NOT_COLLECTED, absent("Database", "db"), (), [BARE])
    assert found.next_step.startswith("create the service")
    assert "get pods" not in str([link.remedy for link in found.links])


def test_no_value_of_a_secret_is_told() -> None:
    assert "c2VjcmV0" not in repr(whole(READY))


def test_what_a_workload_has() -> None:
    (link,) = workload_links([WEB], READY, "")
    assert link.message == "Deployment shop/web: has Secret login at /b and as 1 variable"


def test_a_failed_rollout_is_quoted() -> None:
    (link,) = workload_links([FAILING], READY, "")
    assert link.message == f"Deployment shop/web: has Secret login, but {REFUSAL}"


def test_pods_that_are_of_an_older_template_are_counted() -> None:
    status = {"observedGeneration": 3, "updatedReplicas": 1}
    spec = {"replicas": 3}
    waiting = there("StatefulSet", "web", metadata={"generation": 3}, spec=spec, status=status)
    (link,) = workload_links([BoundWorkload(workload=waiting, record=RECORD)], READY, "")
    assert (link.state, link.message.partition("; ")[2]) == ("ok", "so far 1 of 3 Pods have it")


def test_the_variables_of_a_client_are_counted_and_missed() -> None:
    uri = "postgres://db/?sslmode=verify-full"
    login: dict[str, Any] = {"type": "postgresql", "uri": uri, "ca.crt": "CA"}
    cluster = FakeCluster(objects=[secret(**login), deployment()])
    wishes = {"servicebinding.io/client": "url"}
    cluster.reconcile(spec_binding(service=SECRET_SERVICE, annotations=wishes))
    body = cluster.get("deployments", "web")
    web = SeenObject(text="Deployment ns/web", sight="there", body=body, key=Key("ns", "web"))
    (record,) = read_records(body["metadata"]["annotations"]).values()
    bound = BoundWorkload(workload=web, record=record)
    ready = told(("Ready", "True", "ApplicationsBound"), secret="s1")
    (link,) = workload_links([bound], ready, "")
    assert link.message.endswith("has Secret s1 at /bindings/sb and as 2 variables")
    (url,) = (one for one in pod(body)["containers"][0]["env"] if one["name"] == "DATABASE_URL")
    url["value"] = "theirs"
    (link,) = workload_links([bound], ready, "")
    assert link.message.endswith("was bound, and has lost variable DATABASE_URL")


APP = {"name": "app", "image": "x"}
UNPRIVILEGED = {"runAsUser": 65532, "runAsGroup": 65532}
CANNOT = "container app does not run as root, and cannot read the files, whose mode is"
MAY_BE_UNABLE = (
    "and may be unable to read the files, whose mode is 0440: set securityContext.fsGroup"
)
NOT_USED = "libpq does not use the key of container app, which others may read by the files' mode"


@pytest.mark.parametrize(
    ("mode", "pod_security", "security", "env", "remark"),
    [
        pytest.param("", UNPRIVILEGED, {}, [], "", id="all-read"),
        pytest.param("0400", UNPRIVILEGED, {}, [], f"{CANNOT} 0400", id="owner-alone"),
        pytest.param("0440", UNPRIVILEGED, {}, [], f"{CANNOT} 0440", id="another-group"),
        pytest.param("0440", {"runAsUser": 5}, {}, [], MAY_BE_UNABLE, id="the-images-group"),
        pytest.param("0400", {"runAsUser": 5}, {}, [], CANNOT, id="no-group-reads"),
        pytest.param("0440", {"runAsUser": 5, "runAsGroup": 0}, {}, [], "", id="roots-group"),
        pytest.param(
            "0440", UNPRIVILEGED | {"supplementalGroups": [0]}, {}, [], "", id="roots-group-too"
        ),
        pytest.param("0400", UNPRIVILEGED | {"fsGroup": 7}, {}, [], "", id="fsGroup"),
        pytest.param("0400", {"runAsNonRoot": True}, {}, [], CANNOT, id="not-root"),
        pytest.param("0400", {}, {"runAsNonRoot": True}, [], CANNOT, id="container-not-root"),
        pytest.param("0400", {}, {"runAsUser": 5}, [], CANNOT, id="user-of-the-container"),
        pytest.param("0400", UNPRIVILEGED, {"runAsUser": 0}, [], "", id="container-of-root"),
        pytest.param("0400", {"runAsUser": 0}, {}, [], "", id="root"),
        pytest.param("0400", {}, {}, [], "", id="the-images-user"),
        pytest.param("", {}, {}, ["/bindings/sb/tls.key"], f"{NOT_USED} 0644", id="key"),
        pytest.param(
            "0460", {"fsGroup": 7}, {}, ["/bindings/sb/tls.key"], f"{NOT_USED} 0460", id="writes"
        ),
        pytest.param("0440", {"fsGroup": 7}, {}, ["/bindings/sb/tls.key"], "", id="private-key"),
        pytest.param("", {}, {}, ["/tls/tls.key"], "", id="key-from-elsewhere"),
    ],
)  # fmt: skip
def test_files_that_a_container_cannot_read_or_use(
    mode: str, pod_security: JSON, security: JSON, env: list[str], remark: str
) -> None:
    variables = [{"name": "PGSSLKEY", "value": value} for value in env]
    web = deployment(containers=[{**APP, "securityContext": security, "env": variables}])
    pod(web)["securityContext"] = pod_security
    cluster = FakeCluster(objects=[secret(), web])
    wishes = {"servicebinding.io/default-mode": mode} if mode else {}
    cluster.reconcile(spec_binding(service=SECRET_SERVICE, annotations=wishes))
    body = cluster.get("deployments", "web")
    (record,) = read_records(body["metadata"]["annotations"]).values()
    seen = SeenObject(text="Deployment ns/web", sight="there", body=body, key=Key("ns", "web"))
    ready = told(("Ready", "True", "ApplicationsBound"), secret="s1")
    links = workload_links([BoundWorkload(workload=seen, record=record)] * 5, ready, "")
    assert [link.state for link in links] == (["ok"] * 5 if remark else ["ok"])
    text = links[0].message.partition("; remark: ")[2]
    assert remark in text
    assert bool(text) is bool(remark)


def test_a_binding_that_is_ready_has_the_remark_of_its_injection() -> None:
    assert binding_link(READY).about == "is Ready"
    injected = told(("InjectionReady", "True", "ApplicationUpdated"), *_of(READY))
    assert binding_link(injected).about == "is Ready; remark: about ApplicationUpdated"


def _of(binding: ToldBinding) -> list[tuple[str, ConditionStatus, str]]:
    return [(one.type, one.status, one.reason) for one in binding.conditions]


def test_what_a_workload_has_lost() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    env = [{"name": "X", "key": "password"}]
    wishes = {"servicebinding.io/bind-as-env": "true"}
    binding = spec_binding(service=SECRET_SERVICE, env=env, annotations=wishes)
    cluster.reconcile(binding)
    body = cluster.get("deployments", "web")
    (record,) = read_records(body["metadata"]["annotations"]).values()
    seen = SeenObject(text="Deployment ns/web", sight="there", body=body, key=Key("ns", "web"))
    bound = BoundWorkload(workload=seen, record=record)
    ready = told(("Ready", "True", "ApplicationsBound"), secret="s1")
    assert [one.state for one in workload_links([bound], ready, "")] == ["ok"]
    container = pod(body)["containers"][0]
    container |= {"env": [], "envFrom": [], "volumeMounts": []}
    pod(body)["volumes"] = [{"name": "sb", "emptyDir": {}}]
    (link,) = workload_links([bound], ready, "")
    assert link.state == "failed"
    assert link.message == (
        "Deployment ns/web: was bound, and has lost volume sb, variable X, mount /bindings/sb, "
        "the variables of the whole Secret"
    )


def test_many_workloads_are_counted_and_those_amiss_come_first() -> None:
    many = [
        BoundWorkload(workload=there("Deployment", f"w{n}"), record=RECORD) for n in range(500)
    ]
    gone = BoundWorkload(workload=absent("Deployment", "odd"))
    first, rest = workload_links([*many, gone], READY, "")
    assert (first.state, first.object) == ("failed", "Deployment shop/odd")
    assert (rest.state, rest.object) == ("ok", "500 workloads")


@pytest.mark.parametrize("reason", sorted(one.name for one in SERVICE_BINDING if one.helps))
def test_each_reason_has_a_remedy(reason: str) -> None:
    says = told(("CollectionReady", "False", reason), ("Ready", "False", reason))
    assert binding_link(says).remedy == SERVICE_BINDING.helps(reason)


@pytest.mark.parametrize(
    "status",
    [None, "x", ["x"], {"binding": None}, {"binding": ["x"]}, {"binding": {"name": 1}}],
    ids=repr,
)
def test_whatever_a_service_has_in_its_status(status: Any) -> None:
    odd = there("Database", "db", status=status)
    assert secret_named(odd) == ""
    assert service_link(odd, NOT_COLLECTED).state == "waiting"
    odd.body["status"] = {"conditions": status}
    assert service_link(odd, NOT_COLLECTED).state == "waiting"


def test_secrets_that_may_not_be_read_are_not_judged() -> None:
    link = secret_link([absent("Secret", "login", "Forbidden", "you may not read it")], None)
    assert link is not None
    assert link.state == "unknown"


def test_the_bindings_own_secret() -> None:
    link = secret_link([LOGIN], absent("Secret", "db-deadbeef"))
    assert link is not None
    assert (link.state, link.about) == ("failed", "which the binding created, is missing")


@pytest.mark.parametrize("text", ["web", "/", "deployment/", "/web", "a/b/c", "binding/a/b/c"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="is not a target"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "of_binding"),
    [
        ("", True),
        ("servicebinding/db", True),
        ("ServiceBindings.servicebinding.io/db", True),
        ("sbr/db", True),
        ("deployment/web", False),
        ("deploy.apps/web", False),
    ],
)
def test_targets(text: str, of_binding: bool) -> None:
    assert parse_target(text).of_binding is of_binding


@pytest.mark.parametrize(
    ("text", "kind", "version"),
    [
        ("widgets.v1alpha1.example.org/a", "widgets.example.org", "v1alpha1"),
        ("Deployment.v1.apps/web", "deployment.apps", "v1"),
        ("widgets.example.org/a", "widgets.example.org", ""),
        ("widgets.vault.example.org/a", "widgets.vault.example.org", ""),
        ("pods.v1/a", "pods.v1", ""),
    ],
)
def test_a_target_may_name_the_version_of_its_kind(text: str, kind: str, version: str) -> None:
    found = parse_target(text)
    assert (found.kind, found.version) == (kind, version)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("binding/all", ExplainedTarget("binding", "all")),
        ("binding/shop/all", ExplainedTarget("binding", "all", namespace="shop")),
        (
            "bindings.v1alpha1.core.kbind.io/shop/all",
            ExplainedTarget("bindings.core.kbind.io", "all", "v1alpha1", "shop"),
        ),
    ],
)
def test_a_binding_of_kbind_v2_may_be_named_with_its_namespace(
    text: str, expected: ExplainedTarget
) -> None:
    assert parse_target(text) == expected


def test_no_target_is_all_bindings() -> None:
    assert parse_target("") == ExplainedTarget()
