"""Secret validation, namespaces and unbinding."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import FINALIZER_UNBIND, ClusterSecretKeyRef
from fairlead.api.meta import JSON, Object, ObjectMeta, object_from_dict
from fairlead.api.timestamps import parse_time
from fairlead.konnector.consumer import owning_bindings
from fairlead.konnector.controllers.bindingsecret.reconcile import grace_left
from fairlead.konnector.controllers.bindingsecret.reconcile import reconcile as validate
from fairlead.konnector.controllers.namespacelifecycle.reconcile import new_namespace
from fairlead.konnector.controllers.namespacelifecycle.reconcile import reconcile as live
from fairlead.konnector.controllers.unbind.controller import UnbindPatience
from fairlead.konnector.controllers.unbind.reconcile import Obstacles, UnbindPlan, gone_message
from fairlead.konnector.controllers.unbind.reconcile import reconcile as unbind
from fairlead.konnector.crds import is_open, opened
from fairlead.runtime import Delta


REF = ClusterSecretKeyRef(name="k", namespace="kube-bind", key="kubeconfig")
TIME = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("created", "left"),
    [
        pytest.param(TIME, 3.0, id="new"),
        pytest.param("2025-12-31T23:59:58Z", 1.0, id="young"),
        pytest.param("2025-12-31T23:59:57Z", 0.0, id="old-enough"),
        pytest.param("2025-01-01T00:00:00Z", 0.0, id="old"),
        pytest.param("2026-01-01T01:00:00Z", 3.0, id="by-a-clock-that-is-ahead"),
        pytest.param(None, 0.0, id="unknown"),
    ],
)
def test_the_secret_of_a_new_binding_is_awaited(created: str | None, left: float) -> None:
    assert grace_left(created, parse_time(TIME)) == left


@pytest.mark.parametrize(
    ("given", "reason", "message"),
    [
        pytest.param({"exists": False}, "KubeconfigSecretNotFound", "not found", id="absent"),
        pytest.param(
            {"exists": False, "unreadable": "forbidden"},
            "KubeconfigSecretNotFound",
            "cannot be read: forbidden",
            id="forbidden",
        ),
        pytest.param({"content": b""}, "KubeconfigSecretInvalid", "no key", id="key-missing"),
        pytest.param(
            {"fault": "no current context"},
            "KubeconfigSecretInvalid",
            "no current context; `fairlead bind` replaces it",
            id="unusable",
        ),
        pytest.param({}, "", "", id="valid"),
    ],
)
def test_a_kubeconfig_secret(given: dict[str, Any], reason: str, message: str) -> None:
    known: dict[str, Any] = {"exists": True, "content": b"secret", "unreadable": "", "fault": ""}
    condition = validate(REF, **{**known, **given})
    assert condition.status == ("False" if reason else "True")
    assert condition.reason == reason
    assert message in condition.message
    assert "secret" not in condition.message


def meta(owner: str = "", *, deleting: bool = False) -> ObjectMeta:
    labels = {"kube-bind.io/owner": owner} if owner else {}
    return ObjectMeta(name="shop", labels=labels, deletion_timestamp=TIME if deleting else None)


@pytest.mark.parametrize(
    ("found", "namespace_found", "confirmed", "action"),
    [
        pytest.param(None, False, True, "nothing", id="no-service-namespace"),
        pytest.param(meta(), True, False, "nothing", id="both-there"),
        pytest.param(meta(), False, False, "confirm", id="namespace-gone-says-the-cache"),
        pytest.param(
            meta(), False, True, "delete-service-namespace", id="namespace-gone-says-the-server"
        ),
        pytest.param(meta(deleting=True), False, True, "nothing", id="going-already"),
        pytest.param(meta("consumer"), False, False, "confirm", id="labelled-consumer"),
        pytest.param(meta("provider"), False, False, "create-namespace", id="providers-wish"),
        pytest.param(meta("provider"), True, False, "nothing", id="providers-wish-fulfilled"),
    ],
)
def test_namespaces(
    found: ObjectMeta | None, namespace_found: bool, confirmed: bool, action: str
) -> None:
    assert live(found, namespace_found=namespace_found, confirmed=confirmed) == action


@pytest.mark.parametrize(
    ("name", "made", "action"),
    [
        pytest.param("brand-new", 99, "create-namespace", id="the hundredth"),
        pytest.param("brand-new", 100, "nothing", id="one more"),
        pytest.param("kube-system", 0, "nothing", id="the cluster's own"),
        pytest.param("not.a.namespace", 0, "nothing", id="no name of a namespace"),
        pytest.param("x" * 64, 0, "nothing", id="too long a name"),
    ],
)
def test_not_every_wish_of_a_provider_is_fulfilled(name: str, made: int, action: str) -> None:
    wish = msgspec.structs.replace(meta("provider"), name=name)
    assert live(wish, namespace_found=False, created=made) == action
    assert live(wish, namespace_found=True, created=made) == "nothing"


def test_a_namespace_that_the_provider_wished_for_says_so() -> None:
    assert new_namespace("shop")["metadata"] == {
        "name": "shop",
        "labels": {"kube-bind.io/owner": "provider"},
    }


ANYTHING: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def crd(
    *, deleting: bool = False, webhook: bool = False, schema: JSON = ANYTHING, **version: Any
) -> Object:
    metadata: JSON = {"name": "things.example.org"}
    if deleting:
        metadata["deletionTimestamp"] = TIME
    spec: JSON = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}, **version}]}
    if webhook:
        client = {"url": "https://convert.example.org"}
        spec["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    body = {"apiVersion": "v1", "kind": "C", "metadata": metadata, "spec": spec}
    return object_from_dict(body)


def binding(*, deleting: bool = True, finalizer: bool = True) -> ObjectMeta:
    return ObjectMeta(
        name="things",
        deletion_timestamp=TIME if deleting else None,
        finalizers=[FINALIZER_UNBIND] if finalizer else [],
    )


FREE = Obstacles()
UNDELETABLE = Obstacles(undeletable="no")


def unbound(
    meta: ObjectMeta,
    *crds: Object,
    claimed: tuple[str, ...] = (),
    obstacles: Obstacles = FREE,
    given_up: bool = False,
    refused: bool = False,
) -> UnbindPlan:
    return unbind(
        meta,
        crds,
        claimed=claimed,
        obstacles=obstacles,
        patience=90.0,
        given_up=given_up,
        refused=refused,
    )


@pytest.mark.parametrize(
    ("plan", "deleted", "waiting", "released"),
    [
        pytest.param(unbound(binding(deleting=False), crd()), 0, False, False, id="bound"),
        pytest.param(unbound(binding(finalizer=False), crd()), 0, False, False, id="not-ours"),
        pytest.param(unbound(binding(), crd()), 1, True, False, id="crds-go-first"),
        pytest.param(unbound(binding(), crd(deleting=True)), 0, True, False, id="crds-going"),
        pytest.param(
            unbound(binding(), claimed=("Secret a/b",)), 0, True, False, id="claimed-objects-left"
        ),
        pytest.param(unbound(binding()), 0, False, True, id="all-gone"),
        pytest.param(
            unbound(binding(), crd(), given_up=True), 1, True, False, id="given-up-crds-go-first"
        ),
        pytest.param(
            unbound(binding(), claimed=("claimed secrets",), given_up=True),
            0,
            False,
            True,
            id="given-up-claims-are-not-awaited",
        ),
        pytest.param(
            unbound(binding(), crd(), obstacles=UNDELETABLE),
            1,
            True,
            False,
            id="crds-without-a-right",
        ),
        pytest.param(
            unbound(binding(), crd(), obstacles=UNDELETABLE, given_up=True),
            0,
            False,
            True,
            id="given-up-crds-without-a-right-are-collected",
        ),
    ],
)
def test_unbinding(plan: UnbindPlan, deleted: int, waiting: bool, released: bool) -> None:
    assert len(plan.delete) == deleted
    assert (plan.condition is not None) is waiting
    assert plan.release is released


STRICT: JSON = {"type": "object", "required": ["spec"]}


@pytest.mark.parametrize(
    ("plan", "opened", "deleted"),
    [
        pytest.param(unbound(binding(), crd(schema=STRICT)), 0, 1, id="deleted-as-it-is"),
        pytest.param(unbound(binding(), crd(webhook=True)), 1, 0, id="webhook-goes-first"),
        pytest.param(
            unbound(binding(), crd(webhook=True, deleting=True)), 1, 0, id="webhook-of-one-going"
        ),
        pytest.param(
            unbound(binding(), crd(webhook=True), given_up=True), 1, 0, id="webhook-given-up"
        ),
        pytest.param(
            unbound(binding(deleting=False), crd(webhook=True)), 0, 0, id="webhook-while-bound"
        ),
        pytest.param(
            unbound(binding(), crd(schema=STRICT, deleting=True), refused=True),
            1,
            0,
            id="schema-that-refuses-objects",
        ),
        pytest.param(
            unbound(binding(), crd(deleting=True), refused=True), 0, 0, id="opened-already"
        ),
    ],
)
def test_what_holds_objects_goes_before_the_crd(
    plan: UnbindPlan, opened: int, deleted: int
) -> None:
    assert (len(plan.open), len(plan.delete)) == (opened, deleted)


def test_an_open_crd_drops_and_refuses_nothing() -> None:
    found = crd(
        webhook=True, schema=STRICT, selectableFields=[{"jsonPath": ".spec.a"}], served=True
    )
    body = opened(found)
    assert body["spec"] == {
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": ANYTHING}, "served": True}],
        "conversion": {"strategy": "None"},
    }
    assert is_open(object_from_dict(body))
    assert not is_open(found)


def test_an_unbinding_that_cannot_go_on_says_why_and_what_to_do() -> None:
    condition = unbound(
        binding(), crd(), obstacles=Obstacles(unreachable="the provider is down")
    ).condition
    assert condition is not None
    assert "the provider is down" in condition.message
    assert (
        "for 90 s (the konnector's --unbind-timeout), the konnector stops waiting"
        in condition.message
    )
    assert "remove the finalizer kubebind.io/syncer from them" in condition.message


@pytest.mark.parametrize(
    ("obstacles", "told"),
    [
        pytest.param(
            Obstacles(lossy="fields would be lost"),
            "fields would be lost. After 90 s (the konnector's --unbind-timeout) the konnector",
            id="fields-lost",
        ),
        pytest.param(
            Obstacles(undeletable="a policy says no"),
            "a policy says no. After 90 s (the konnector's --unbind-timeout) the CustomRes",
            id="deletion-refused",
        ),
        pytest.param(Obstacles(faults="no right to list"), "; no right to list", id="fault"),
        pytest.param(Obstacles(objects="1 object cannot"), "; 1 object cannot", id="objects"),
        pytest.param(Obstacles(retained="a/b stays"), "; a/b stays", id="finalizers-of-others"),
    ],
)
def test_an_unbinding_blames_the_provider_for_nothing_else(
    obstacles: Obstacles, told: str
) -> None:
    condition = unbound(binding(), crd(), obstacles=obstacles).condition
    assert condition is not None
    assert told in condition.message
    assert "provider stays" not in condition.message
    assert condition.severity == "Warning"


def test_what_is_given_up_already_is_promised_no_more() -> None:
    obstacles = Obstacles(unreachable="down", objects="1 object cannot be written")
    condition = unbound(binding(), crd(), obstacles=obstacles, given_up=True).condition
    assert condition is not None
    assert condition.message.endswith("things.example.org; down; 1 object cannot be written")


@pytest.mark.parametrize(
    ("plan", "severity"),
    [
        pytest.param(unbound(binding(), crd()), "Info", id="in-order"),
        pytest.param(
            unbound(binding(), crd(), obstacles=Obstacles(unreachable="down")),
            "Warning",
            id="held-up",
        ),
        pytest.param(unbound(binding(), crd(), given_up=True), "Warning", id="given-up"),
    ],
)
def test_only_an_unbinding_that_is_held_up_is_a_warning(plan: UnbindPlan, severity: str) -> None:
    assert plan.condition is not None
    assert plan.condition.severity == severity


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        pytest.param(unbound(binding(), crd(deleting=True)), 0, id="reachable"),
        pytest.param(unbound(binding(), crd(deleting=True), given_up=True), 1, id="given-up"),
        pytest.param(unbound(binding(), crd(), given_up=True), 0, id="not-deleted-yet"),
    ],
)
def test_objects_are_let_go_only_without_a_provider(plan: UnbindPlan, count: int) -> None:
    assert len(plan.let_go) == count


def test_a_provider_counts_as_gone_only_after_a_while_without_a_break() -> None:
    patience = UnbindPatience(10.0)
    looks = [(True, 0.0), (True, 9.0), (False, 9.5), (True, 10.0), (True, 19.0), (True, 20.0)]
    found = [patience.ended("db", unreachable=fault, now=now) for fault, now in looks]
    assert found == [False, False, False, False, False, True]
    patience.forget("db")
    assert not patience.ended("db", unreachable=True, now=30.0)


@pytest.mark.parametrize(("copies", "said"), [(1, "1 copy stays"), (2, "2 copies stay")])
def test_what_stays_is_counted(copies: int, said: str) -> None:
    told = gone_message(Obstacles(unreachable="no route"), copies)
    assert said in told
    assert "counts as gone: no route" in told


def test_a_provider_that_is_there_does_not_count_as_gone() -> None:
    assert "counts as gone" not in gone_message(Obstacles(lossy="fields would be lost"), 1)


def owned_by(*bindings: str) -> Object:
    owners = [
        {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "APIServiceBinding",
            "name": name,
            "uid": name,
        }
        for name in bindings
    ]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}
    return object_from_dict({"metadata": {"name": "w", "ownerReferences": [*owners, other]}})


@pytest.mark.parametrize(
    ("delta", "names"),
    [
        pytest.param(Delta("ADDED", None, owned_by("db")), ["db"], id="new"),
        pytest.param(Delta("MODIFIED", owned_by("db"), owned_by()), ["db"], id="handed-over"),
        pytest.param(Delta("MODIFIED", owned_by("a"), owned_by("b")), ["a", "b"], id="taken-over"),
        pytest.param(Delta("DELETED", owned_by("db"), None), ["db"], id="deleted"),
    ],
)
def test_a_binding_that_has_lost_its_crd_is_looked_at(delta: Delta, names: list[str]) -> None:
    assert [request.name for request in owning_bindings(delta)] == names
