from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubebind import export

from fairlead.api.meta import JSON, Key, Object, ObjectMeta, object_from_dict
from fairlead.konnector.controllers.namespacelifecycle.reconcile import Action, reconcile
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.holding import (
    ClusterHold,
    Holding,
    decision,
    recorded_cluster,
    withheld,
)
from fairlead.konnector.policies.steps import COPY_HELD, Delete, Pair, Read, Refuse, Replace


NS = "kube-bind-1"


@pytest.mark.parametrize(
    ("recorded", "said", "holding", "recorded_then", "recorded_kept"),
    [
        pytest.param("", "", "", "here", "here", id="first contact"),
        pytest.param("", "Keep", "", "here", "here", id="first contact, Keep in a repository"),
        pytest.param("here", "", "", "here", "here", id="the same cluster"),
        pytest.param("here", "Discard:here", "", "here", "here", id="discards nothing of its own"),
        pytest.param("there", "", "Hold", "there", "there", id="another one"),
        pytest.param("there", "Keep", "Keep", "there", "here", id="kept once all is let go"),
        pytest.param("there", "Discard:there", "", "here", "here", id="discarded"),
        pytest.param("there", "Discard", "Hold", "there", "there", id="names no cluster"),
        pytest.param("there", "Discard:old", "Hold", "there", "there", id="names another cluster"),
        pytest.param("there", "keep", "Hold", "there", "there", id="says nothing known"),
        pytest.param("", "Hold", "Hold", "here/before", "here/before", id="held, never recorded"),
        pytest.param("here", "Hold", "Hold", "here/before", "here/before", id="put back"),
        pytest.param("here/before", "Hold", "Hold", "here/before", "here/before", id="held on"),
        pytest.param("here/before", "", "Hold", "here/before", "here/before", id="not decided"),
        pytest.param("here/before", "Keep", "Keep", "here/before", "here", id="put back, kept"),
        pytest.param(
            "here/before", "Discard:here/before", "", "here", "here", id="put back, gone"
        ),
        pytest.param("there", "Hold", "Hold", "there", "there", id="another one, held on"),
    ],
)
def test_copies_of_another_cluster_are_held_until_it_is_said(
    recorded: str, said: str, holding: Holding, recorded_then: str, recorded_kept: str
) -> None:
    hold = ClusterHold(recorded=recorded, cluster="here", decision=said)
    assert hold.holding == holding
    assert (hold.record(keeps=False), hold.record(keeps=True)) == (recorded_then, recorded_kept)


@pytest.mark.parametrize("said", ["", "Keep", "Hold", "Discard:there"])
def test_as_long_as_the_other_cluster_lives_its_copies_are_its_own(said: str) -> None:
    hold = ClusterHold(recorded="there", cluster="here", decision=said, rival=True)
    assert hold.holding == "Wait"
    assert hold.record(keeps=True) == "there"
    assert "stop the wrong one" in hold.condition([]).message
    assert ClusterHold(recorded="here", cluster="here", rival=True).holding == ""


def test_a_cluster_that_does_not_know_itself_holds_and_records_nothing() -> None:
    hold = ClusterHold(recorded="there")
    assert (hold.holding, hold.record(keeps=True)) == ("Hold", "there")
    assert ClusterHold().record(keeps=False) == ""


def annotated(name: str, **annotations: str) -> Object:
    return object_from_dict({"metadata": {"name": name, "annotations": annotations}})


def test_a_binding_says_more_than_its_bundle() -> None:
    key = "kube-bind.io/held-copies"
    keeps, discards = annotated("a", **{key: "Keep"}), annotated("b", **{key: "Discard:x"})
    assert decision(None, None) == decision(annotated("a"), None) == ""
    assert decision(annotated("a"), keeps) == "Keep"
    assert decision(discards, keeps) == "Discard:x"


def test_the_record_is_read_of_the_export() -> None:
    body = export().to_dict()
    found = {"type": "ConsumerCluster", "status": "True", "message": "uid-1"}
    assert recorded_cluster(None) == recorded_cluster(object_from_dict(body)) == ""
    body["status"] = {"conditions": [found]}
    assert recorded_cluster(object_from_dict(body)) == "uid-1"
    assert recorded_cluster(object_from_dict({**body, "spec": 1})) == ""


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (None, "not counted yet"),
        ([], "no copy waits for its object"),
        (["Widget a"], "1 copy waits for its object (Widget a), "),
        (list("edcba"), "5 copies wait for their objects (a, b, c, and 2 more), "),
    ],
)
def test_the_condition_counts_and_says_what_to_do(waiting: list[str] | None, text: str) -> None:
    condition = ClusterHold(recorded="there", cluster="here").condition(waiting)
    assert text in condition.message
    for part in ("uid there", "uid here", "--keep-copies", "--discard-copies", "Discard:there"):
        assert part in condition.message
    keeping = ClusterHold(recorded="there", cluster="here", decision="Keep").condition(waiting)
    assert "keeps each of them" in keeping.message


def copy(**metadata: Any) -> Object:
    annotations = {"kube-bind.io/cluster-namespace": NS, "kube-bind.io/consumer-uid": "u"}
    known = {"name": "x", "namespace": "there", "uid": "c", "annotations": annotations}
    return object_from_dict({"kind": "Widget", "metadata": {**known, **metadata}})


PAIR = Pair(key=Key("here", "x"), provider=copy(), target=Key("there", "x"))
GONE = PAIR.without("consumer")
DELETE = Delete("provider", Key("there", "x"), "c")


def test_a_copy_without_an_object_is_deleted_held_or_let_go() -> None:
    assert BoundPolicy(cluster_namespace=NS).next_step(GONE) == DELETE
    held = BoundPolicy(cluster_namespace=NS, holding="Hold")
    assert held.next_step(PAIR) == Read("consumer")
    assert getattr(held.next_step(GONE), "reason", "") == COPY_HELD
    let_go = BoundPolicy(cluster_namespace=NS, holding="Keep").next_step(GONE)
    assert isinstance(let_go, Replace)
    body: JSON = let_go.body
    assert body["metadata"]["annotations"] == {"kube-bind.io/cluster-namespace": NS}


def test_while_copies_are_kept_an_object_that_is_deleted_takes_its_copy_along() -> None:
    there = PAIR.having("consumer", copy())
    assert withheld(DELETE, there, "Keep") == DELETE
    assert isinstance(withheld(DELETE, there, "Hold"), Refuse)


def test_what_deletes_no_copy_is_not_withheld() -> None:
    here = Delete("consumer", Key("here", "x"), "c")
    assert withheld(here, PAIR, "Hold") == here


@pytest.mark.parametrize(
    ("orphan", "found", "holding", "action"),
    [
        pytest.param(False, False, "", "confirm", id="gone"),
        pytest.param(False, False, "Hold", "nothing", id="held"),
        pytest.param(False, False, "Keep", "let-go", id="to be kept"),
        pytest.param(True, False, "Keep", "nothing", id="kept"),
        pytest.param(True, False, "", "nothing", id="kept for good"),
        pytest.param(True, True, "", "take-up", id="returned"),
        pytest.param(True, True, "Keep", "nothing", id="returned meanwhile"),
        pytest.param(False, True, "Hold", "nothing", id="there"),
    ],
)
def test_a_namespace_that_may_return_keeps_its_counterpart(
    *, orphan: bool, found: bool, holding: Holding, action: Action
) -> None:
    annotations = {"kube-bind.io/deletion-policy": "Orphan"} if orphan else {}
    meta = ObjectMeta(name="shop", annotations=annotations)
    assert reconcile(meta, namespace_found=found, holding=holding) == action
