"""Every edge of kube-bind's spec and status syncers, as steps."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies import bound as spec
from fairlead.konnector.policies.steps import (
    AskNamespace,
    AskOwned,
    ConfirmConsumerGone,
    ConfirmProviderGone,
    CreateProvider,
    DeleteProvider,
    Done,
    PatchConsumer,
    Refuse,
    Settle,
    Sides,
    Step,
    UpdateProvider,
    UpdateStatus,
    Wait,
)
from fairlead.konnector.syncer import status
from fairlead.konnector.syncer.convergence import Convergence


OURS = "cluster-abc"
TARGET = Key("cluster-abc-shop", "db")
SYNCER = "kubebind.io/syncer"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SOURCE = {
    "kube-bind.io/cluster-namespace": OURS,
    "kube-bind.io/consumer-namespace": "shop",
    "kube-bind.io/consumer-uid": "consumer-1",
}
BACK = {
    "kube-bind.io/provider-namespace": "cluster-abc-shop",
    "kube-bind.io/provider-uid": "provider-1",
}


def consumer(
    *,
    finalizers: tuple[str, ...] = (SYNCER,),
    deleting: bool = False,
    annotations: dict[str, str] | None = None,
    **body: Any,
) -> Object:
    metadata: JSON = {
        "name": "db",
        "namespace": "shop",
        "uid": "consumer-1",
        "resourceVersion": "7",
        "finalizers": list(finalizers),
        "labels": {"team": "shop"},
        "annotations": annotations if annotations is not None else BACK,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"size": 1}, **body})


def provider(
    *, annotations: dict[str, str] | None = None, deleting: bool = False, **body: Any
) -> Object:
    metadata: JSON = {
        "name": "db",
        "namespace": "cluster-abc-shop",
        "uid": "provider-1",
        "resourceVersion": "9",
        "annotations": annotations if annotations is not None else SOURCE,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"size": 1}, **body})


def sides(**given: Any) -> Sides:
    known: dict[str, Any] = {
        "consumer": consumer(),
        "provider": provider(),
        "target": TARGET,
        "cluster_namespace": OURS,
        "spec_converged": True,
        "status_converged": True,
    }
    return Sides(**{**known, **given})


FOREIGN = {**SOURCE, "kube-bind.io/cluster-namespace": "cluster-other"}


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({"consumer": None}, Done(), id="consumer-absent"),
        pytest.param(
            {"target": None, "service_namespace": False}, AskNamespace(), id="namespace-unasked"
        ),
        pytest.param({"target": None}, Wait("provider namespace"), id="namespace-pending"),
        pytest.param(
            {"provider": None, "consumer": consumer(finalizers=("a",), annotations={})},
            PatchConsumer(["a", SYNCER], {}),
            id="new-finalizer-first",
        ),
        pytest.param(
            {"provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="provider-copy-being-deleted-there",
        ),
        pytest.param(
            {"consumer": consumer(finalizers=(), annotations={})},
            PatchConsumer([SYNCER], BACK),
            id="finalizer-and-annotations-in-one-write",
        ),
        pytest.param({}, Done(), id="nothing-changed"),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=())}, Done(), id="released-already"
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=("a", SYNCER)), "target": None},
            PatchConsumer(["a"], {}),
            id="deleting-before-it-had-a-namespace",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True)},
            DeleteProvider(TARGET, "provider-1"),
            id="deleting-takes-the-copy",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="deleting-awaits-the-copy",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": None},
            ConfirmProviderGone(),
            id="deleting-asks-the-server",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": None, "provider_gone": True},
            PatchConsumer([], {}),
            id="deleting-copy-gone",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(annotations=FOREIGN)},
            PatchConsumer([], {}),
            id="deleting-leaves-a-foreign-object",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(annotations={})},
            PatchConsumer([], {}),
            id="deleting-leaves-a-native-object",
        ),
    ],
)
def test_spec(given: dict[str, Any], step: Step) -> None:
    assert spec.next_step(sides(**given)) == step


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            {"provider": provider(annotations=FOREIGN)}, "ForeignObjectExists", id="foreign"
        ),
        pytest.param(
            {"target": None, "namespace_refusal": "taken"}, "ForeignObjectExists", id="no-place"
        ),
        pytest.param(
            {"provider": provider(annotations={"theirs": "x"})}, "ForeignObjectExists", id="native"
        ),
        pytest.param({"target": Key("", "x" * 254), "provider": None}, "NameTooLong", id="long"),
    ],
)
def test_spec_refuses_with_a_reason_that_a_person_can_act_on(
    given: dict[str, Any], reason: str
) -> None:
    step = spec.next_step(sides(**given))
    assert isinstance(step, Refuse)
    assert step.reason == reason


def test_a_new_copy_carries_what_is_the_users_and_nothing_of_the_cluster() -> None:
    mine = {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}", **BACK}
    source = consumer(annotations=mine, status={"ready": True}, data={"k": "v"})
    step = spec.next_step(sides(consumer=source, provider=None))
    assert step == CreateProvider(
        {
            "apiVersion": "example.org/v1",
            "kind": "Thing",
            "metadata": {
                "name": "db",
                "namespace": "shop",
                "labels": {"team": "shop"},
                "annotations": {"note": "kept", **SOURCE},
            },
            "spec": {"size": 1},
            "data": {"k": "v"},
        }
    )


MINE: JSON = {"f:spec": {"f:size": {}}, "f:metadata": {"f:labels": {"f:team": {}}}}


def labelled(body: JSON, **labels: str) -> JSON:
    """A copy's body with the consumer's label and these."""
    return {**body, "metadata": {**body["metadata"], "labels": {"team": "shop", **labels}}}


def changed(body: JSON, **members: Any) -> Object:
    return object_from_dict({**body, **members})


COPY = labelled(provider().to_dict())


@pytest.mark.parametrize(
    ("source", "found", "wanted"),
    [
        pytest.param({"size": 2}, {"size": 1}, {"size": 2}, id="changed"),
        pytest.param({"size": 1, "more": 2}, {"size": 1}, {"size": 1, "more": 2}, id="added"),
        pytest.param({"size": 1}, None, {"size": 1}, id="spec-missing-there"),
        pytest.param({"names": ["a", "b"]}, {"names": ["a"]}, {"names": ["a", "b"]}, id="list"),
    ],
)
def test_what_the_consumer_changed_is_put_at_once(source: Any, found: Any, wanted: Any) -> None:
    copy = {**COPY, "spec": found}
    if found is None:
        del copy["spec"]
    given = sides(
        consumer=consumer(spec=source), provider=object_from_dict(copy), spec_converged=False
    )
    step = spec.next_step(given)
    assert isinstance(step, UpdateProvider)
    assert step.body["spec"] == wanted
    assert step.body["metadata"]["resourceVersion"] == "9"


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(changed(COPY, spec={"size": 1, "theirs": 2}), id="spec"),
        pytest.param(changed(COPY, data={"theirs": "2"}), id="another-member"),
        pytest.param(object_from_dict(labelled(COPY, theirs="kept")), id="label"),
        pytest.param(changed(COPY, spec={"size": 1, "in": {"deep": 1}}), id="deep"),
    ],
)
def test_what_a_copy_has_more_is_asked_after_before_it_is_judged(copy: Object) -> None:
    assert spec.next_step(sides(provider=copy, spec_converged=False)) == AskOwned()


@pytest.mark.parametrize(
    ("owned", "wanted"),
    [
        pytest.param(MINE, {"size": 1, "theirs": 2}, id="of-others-stays"),
        pytest.param(
            {"f:spec": {"f:size": {}, "f:theirs": {}}}, {"size": 1}, id="of-the-consumer-goes"
        ),
        pytest.param({"f:spec": {}}, {"size": 1}, id="owned-as-a-whole"),
    ],
)
def test_a_member_that_the_consumer_lacks(owned: JSON, wanted: JSON) -> None:
    copy = changed(COPY, spec={"size": 3, "theirs": 2})
    step = spec.next_step(sides(provider=copy, spec_converged=False, owned=owned))
    assert isinstance(step, UpdateProvider)
    assert step.body["spec"] == wanted


def test_what_others_added_alone_needs_no_write() -> None:
    copy = changed(COPY, spec={"size": 1, "theirs": 2})
    step = spec.next_step(sides(provider=copy, spec_converged=False, owned=MINE))
    assert step == Settle()


def test_labels_and_annotations_follow_the_consumer() -> None:
    mine = {"note": "new", "kube-bind.io/other": "x", LAST_APPLIED: "{}", **BACK}
    theirs = {**SOURCE, "note": "old", "gone": "1", "theirs": "kept"}
    copy = labelled(provider(annotations=theirs).to_dict(), theirs="kept", gone="1")
    owned: JSON = {
        "f:metadata": {
            "f:labels": {"f:team": {}, "f:gone": {}},
            "f:annotations": {"f:note": {}, "f:gone": {}},
        }
    }
    given = sides(
        consumer=consumer(annotations=mine),
        provider=object_from_dict(copy),
        spec_converged=False,
        owned=owned,
    )
    step = spec.next_step(given)
    assert isinstance(step, UpdateProvider)
    assert step.body["metadata"]["labels"] == {"team": "shop", "theirs": "kept"}
    assert step.body["metadata"]["annotations"] == {**SOURCE, "note": "new", "theirs": "kept"}


def test_a_removed_spec_is_removed_there() -> None:
    body = consumer().to_dict()
    del body["spec"]
    given = sides(
        consumer=object_from_dict(body),
        provider=object_from_dict(COPY),
        spec_converged=False,
        owned=MINE,
    )
    step = spec.next_step(given)
    assert isinstance(step, UpdateProvider)
    assert "spec" not in step.body


def test_a_copy_of_an_object_of_the_same_name_before_is_taken_over() -> None:
    older = {**SOURCE, "kube-bind.io/consumer-uid": "older", "theirs": "kept"}
    copy = labelled(provider(annotations=older).to_dict())
    step = spec.next_step(sides(provider=object_from_dict(copy), owned=MINE))
    assert isinstance(step, UpdateProvider)
    assert step.body["metadata"]["annotations"] == {"theirs": "kept", **SOURCE}


def test_a_copy_that_was_let_go_is_taken_up_again() -> None:
    free = {name: value for name, value in SOURCE.items() if not name.endswith("-uid")}
    copy = labelled(provider(annotations=free).to_dict())
    step = spec.next_step(sides(provider=object_from_dict(copy)))
    assert isinstance(step, UpdateProvider)
    assert step.body["metadata"]["annotations"] == SOURCE


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({}, None, id="loses-the-uid-first"),
        pytest.param({"provider": None, "provider_gone": True}, PatchConsumer([], {}), id="gone"),
        pytest.param(
            {"provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="deleted-over-there-anyway",
        ),
        pytest.param(
            {"provider": provider(annotations={"kube-bind.io/cluster-namespace": OURS})},
            PatchConsumer([], {}),
            id="then-the-object-goes",
        ),
    ],
)
def test_an_orphaned_copy_stays(given: dict[str, Any], step: Step | None) -> None:
    found = spec.next_step(sides(consumer=consumer(deleting=True), orphan=True, **given))
    if step is not None:
        assert found == step
        return
    assert isinstance(found, UpdateProvider)
    assert "kube-bind.io/consumer-uid" not in found.body["metadata"]["annotations"]
    assert found.body["spec"] == {"size": 1}


def test_a_copy_that_was_let_go_is_nobodys_orphan() -> None:
    free = provider(annotations={"kube-bind.io/cluster-namespace": OURS})
    given = sides(consumer=None, consumer_gone=True, provider=free)
    assert status.next_step(given) == Done()


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({"provider": None}, Done(), id="provider-absent"),
        pytest.param({"consumer": None}, ConfirmConsumerGone(), id="orphan-asks-the-server"),
        pytest.param(
            {"consumer": None, "consumer_gone": True},
            DeleteProvider(TARGET, "provider-1"),
            id="orphan-goes",
        ),
        pytest.param(
            {"consumer": None, "consumer_gone": True, "provider": provider(deleting=True)},
            Done(),
            id="orphan-is-going",
        ),
        pytest.param(
            {"consumer": None, "consumer_gone": True, "provider": provider(annotations={})},
            Done(),
            id="native-object-stays",
        ),
        pytest.param(
            {"consumer": None, "consumer_gone": True, "provider": provider(annotations=FOREIGN)},
            Done(),
            id="foreign-object-stays",
        ),
        pytest.param(
            {"provider": provider(annotations=FOREIGN), "status_converged": False},
            Done(),
            id="foreign-status-does-not-come",
        ),
        pytest.param(
            {"provider": provider(annotations={}), "status_converged": False},
            Done(),
            id="native-status-does-not-come",
        ),
        pytest.param(
            {"consumer": consumer(annotations={"mine": "kept"})},
            PatchConsumer([SYNCER], BACK),
            id="annotations-first",
        ),
        pytest.param({}, Done(), id="nothing-changed"),
        pytest.param(
            {"status_converged": False, "status_subresource": False},
            Done(),
            id="no-status-subresource",
        ),
    ],
)
def test_status(given: dict[str, Any], step: Step) -> None:
    assert status.next_step(sides(**given)) == step


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param({"status": {"ready": True}}, {"ready": True}, id="replaced"),
        pytest.param({}, None, id="removed"),
    ],
)
def test_the_whole_status_comes_back(found: JSON, wanted: Any) -> None:
    given = sides(
        consumer=consumer(status={"old": 1}), provider=provider(**found), status_converged=False
    )
    step = status.next_step(given)
    assert isinstance(step, UpdateStatus)
    assert step.body.get("status") == wanted
    assert step.body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("source", "target", "converged"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="equal-in-another-order"),
        pytest.param({"a": 1}, {"a": 1, "b": 0}, True, id="as-defaulted"),
        pytest.param({"a": 2}, {"a": 1, "b": 0}, False, id="source-changed"),
        pytest.param({"a": 1}, {"a": 1, "b": 9}, False, id="target-changed"),
        pytest.param({"a": True}, {"a": 1}, False, id="a-boolean-is-no-number"),
        pytest.param(None, {}, False, id="missing-is-not-empty"),
    ],
)
def test_what_came_of_a_write_is_no_difference(source: Any, target: Any, converged: bool) -> None:
    memory = Convergence()
    memory.applied(TARGET, {"a": 1}, {"a": 1, "b": 0})
    assert memory.converged(TARGET, source, target) is converged


def test_what_was_forgotten_is_written_again() -> None:
    memory = Convergence()
    memory.applied(TARGET, {"a": 1}, {"a": 1, "b": 0})
    memory.forget(TARGET)
    assert not memory.converged(TARGET, {"a": 1}, {"a": 1, "b": 0})
