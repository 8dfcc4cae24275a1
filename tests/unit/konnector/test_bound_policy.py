"""Every edge of the policy for bound objects: kube-bind's spec and status syncers, as steps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies import bound, localkeys
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.copies import Metadata, payload
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.konnector.policies.steps import (
    AskNamespace,
    Create,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    Replace,
    ReplaceStatus,
    Settle,
    Step,
    StepOutcome,
    Wait,
    outcome,
)


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
    *,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    uid: str = "provider-1",
    **body: Any,
) -> Object:
    metadata: JSON = {
        "name": "db",
        "namespace": "cluster-abc-shop",
        "uid": uid,
        "resourceVersion": "9",
        "annotations": annotations if annotations is not None else SOURCE,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"size": 1}, **body})


POLICY = BoundPolicy(cluster_namespace=OURS)
KEY = Key("shop", "db")


def pair(**given: Any) -> Pair:
    """Both ends; those in ``converged`` are what came of writing them."""
    known: dict[str, Any] = {
        "key": KEY,
        "consumer": consumer(),
        "provider": provider(),
        "target": TARGET,
    }
    converged = given.pop("converged", ("consumer", "provider"))
    found = Pair(**{**known, **given})
    outcomes: dict[Any, StepOutcome] = {
        side: came for side in converged if (came := POLICY.outcome(side, found)) is not None
    }
    return msgspec.structs.replace(found, outcomes=outcomes)


def next_step(found: Pair, *, orphan: bool = False) -> Step:
    return msgspec.structs.replace(POLICY, orphaning=lambda: orphan).next_step(found)


FOREIGN = {**SOURCE, "kube-bind.io/cluster-namespace": "cluster-other"}


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param(
            {"target": None, "namespace_asked": False}, AskNamespace(), id="namespace-unasked"
        ),
        pytest.param({"target": None}, Wait("provider namespace"), id="namespace-pending"),
        pytest.param(
            {"provider": None, "consumer": consumer(finalizers=("a",), annotations={})},
            PatchMetadata("consumer", {"finalizers": ["a", SYNCER]}),
            id="new-finalizer-first",
        ),
        pytest.param(
            {"provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="provider-copy-being-deleted-there",
        ),
        pytest.param(
            {"consumer": consumer(finalizers=(), annotations={})},
            PatchMetadata("consumer", {"finalizers": [SYNCER], "annotations": BACK}),
            id="finalizer-and-annotations-in-one-write",
        ),
        pytest.param({}, InSync(), id="nothing-changed"),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=())}, Done(), id="released-already"
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=("a", SYNCER)), "target": None},
            PatchMetadata("consumer", {"finalizers": ["a"]}),
            id="deleting-before-it-had-a-namespace",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True)},
            Delete("provider", TARGET, "provider-1"),
            id="deleting-takes-the-copy",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True),
                "provider": provider(
                    annotations={**SOURCE, "kube-bind.io/consumer-uid": "one-before"}
                ),
            },
            Delete("provider", TARGET, "provider-1"),
            id="deleting-takes-the-copy-of-an-object-of-the-same-name-before",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="deleting-awaits-the-copy",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": None},
            Read("provider"),
            id="deleting-asks-the-server",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True),
                "provider": None,
                "gone": frozenset({"provider"}),
            },
            PatchMetadata("consumer", {"finalizers": []}),
            id="deleting-copy-gone",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(annotations=FOREIGN)},
            Read("provider"),
            id="deleting-asks-of-what-is-not-ours",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True),
                "provider": provider(annotations=FOREIGN),
                "owned": {},
            },
            PatchMetadata("consumer", {"finalizers": []}),
            id="deleting-leaves-a-foreign-object",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True),
                "provider": provider(annotations={}, uid="native"),
                "owned": {},
            },
            PatchMetadata("consumer", {"finalizers": []}),
            id="deleting-leaves-a-native-object",
        ),
    ],
)
def test_spec(given: dict[str, Any], step: Step) -> None:
    assert next_step(pair(**given)) == step


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            {"provider": provider(annotations=FOREIGN)}, "ForeignObjectExists", id="foreign"
        ),
        pytest.param(
            {"target": None, "namespace_refusal": "taken"}, "NamespaceRefused", id="no-place"
        ),
        pytest.param(
            {"provider": provider(annotations={"theirs": "x"}, uid="native")},
            "ForeignObjectExists",
            id="native",
        ),
        pytest.param({"target": Key("", "x" * 254), "provider": None}, "NameTooLong", id="long"),
    ],
)
def test_spec_refuses_with_a_reason_that_a_person_can_act_on(
    given: dict[str, Any], reason: str
) -> None:
    step = next_step(pair(**given))
    assert isinstance(step, Refuse)
    assert step.reason == reason


FREE = {"kube-bind.io/cluster-namespace": OURS}


@pytest.mark.parametrize(
    ("given", "orphan", "size"),
    [
        pytest.param(
            {"consumer": consumer(deleting=True, spec={"size": 2})}, False, 2, id="first"
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True, spec={"size": 2}),
                "provider": provider(deleting=True),
            },
            False,
            2,
            id="both-are-being-deleted",
        ),
        pytest.param(
            {"consumer": consumer(spec={"size": 2}), "provider": provider(deleting=True)},
            False,
            2,
            id="copy-being-deleted-there",
        ),
        pytest.param(
            {
                "consumer": consumer(spec={"size": 2}, finalizers=()),
                "provider": provider(deleting=True),
            },
            False,
            2,
            id="copy-being-deleted-there-without-our-finalizer-here",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=("a",), spec={"size": 2})},
            False,
            2,
            id="our-finalizer-taken-off-by-hand",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, spec={"size": 2})}, True, 2, id="orphan-first"
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True, finalizers=("a",), spec={"size": 2}),
                "provider": provider(annotations=FREE),
            },
            True,
            None,
            id="orphan-that-was-let-go",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True, spec={"size": 2}),
                "provider": provider(annotations=FOREIGN, deleting=True),
                "owned": {},
            },
            False,
            None,
            id="foreign-copy",
        ),
    ],
)
def test_changes_cross_until_the_copy_is_gone(
    given: dict[str, Any], orphan: bool, size: int | None
) -> None:
    step = next_step(pair(**given, converged=()), orphan=orphan)
    assert isinstance(step, Replace) == (size is not None)
    if isinstance(step, Replace):
        assert (step.side, step.body["spec"]) == ("provider", {"size": size})


def test_a_new_copy_carries_what_is_the_users_and_nothing_of_the_cluster() -> None:
    mine = {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}", **BACK}
    source = consumer(annotations=mine, status={"ready": True}, data={"k": "v"})
    step = next_step(pair(consumer=source, provider=None))
    assert isinstance(step, Create)
    assert msgspec.json.decode(msgspec.json.encode(step.body)) == {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {
            "name": "db",
            "namespace": "cluster-abc-shop",
            "labels": {"team": "shop"},
            "annotations": {"note": "kept", **SOURCE},
        },
        "spec": {"size": 1},
        "data": {"k": "v"},
    }


MARK = {"argocd.argoproj.io/instance": "shop"}


def marked(end: Object, **annotations: str) -> Object:
    """The object with a mark of a delivery tool as a label, and more annotations."""
    body = end.to_dict()
    metadata = body["metadata"]
    metadata["labels"] = {"team": "shop", **MARK}
    metadata["annotations"] = {**metadata["annotations"], **annotations}
    return object_from_dict(body)


def test_a_mark_of_a_delivery_tool_stays_where_it_was_set() -> None:
    source = marked(consumer(), **{"meta.helm.sh/release-name": "shop"})
    step = next_step(pair(consumer=source, provider=None, converged=()))
    assert isinstance(step, Create)
    assert step.body["metadata"]["labels"] == {"team": "shop"}
    assert step.body["metadata"]["annotations"] == SOURCE
    body = msgspec.json.decode(msgspec.json.encode(step.body))
    body["metadata"]["uid"] = "provider-1"
    copy = object_from_dict(body)
    assert isinstance(next_step(pair(consumer=source, provider=copy, converged=())), InSync)
    # More or fewer keys may cross.
    every = msgspec.structs.replace(POLICY, local=LocalMetadataKeys.of((), ["*"]))
    step = every.next_step(pair(consumer=source, provider=copy, converged=()))
    assert isinstance(step, Replace)
    assert step.body["metadata"]["labels"] == {"team": "shop", **MARK}


@pytest.mark.parametrize("set_here", [True, False], ids=["crossed-before", "set-there"])
def test_a_copy_loses_a_mark_that_has_crossed_in_one_write(set_here: bool) -> None:
    """Whose it is, managedFields tell: one that the provider's own tool has set stays."""
    ours: JSON = {"f:team": {}, **({f"f:{name}": {} for name in MARK} if set_here else {})}
    owned = {"f:spec": {"f:size": {}}, "f:metadata": {"f:labels": ours}}
    found = pair(consumer=marked(consumer()), provider=marked(provider()), converged=())
    assert next_step(found) == Read("provider")
    step = next_step(found.knowing(owned=owned))
    if not set_here:
        assert step == Settle("provider")
        return
    assert isinstance(step, Replace)
    assert step.body["metadata"]["labels"] == {"team": "shop"}
    written = object_from_dict(step.body)
    assert isinstance(next_step(found.having("provider", written)), InSync)


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
    given = pair(consumer=consumer(spec=source), provider=object_from_dict(copy), converged=())
    step = next_step(given)
    assert isinstance(step, Replace)
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
    assert next_step(pair(provider=copy, converged=())) == Read("provider")


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
    step = next_step(pair(provider=copy, converged=(), owned=owned))
    assert isinstance(step, Replace)
    assert step.body["spec"] == wanted


def test_what_others_added_alone_needs_no_write() -> None:
    copy = changed(COPY, spec={"size": 1, "theirs": 2})
    step = next_step(pair(provider=copy, converged=(), owned=MINE))
    assert step == Settle("provider")


def test_labels_and_annotations_follow_the_consumer() -> None:
    others = {"kube-bind.io/other": "x", "core.kbind.io/conflict": "x", LAST_APPLIED: "{}"}
    mine = {"note": "new", **others, **BACK}
    theirs = {**SOURCE, "note": "old", "gone": "1", "theirs": "kept"}
    copy = labelled(provider(annotations=theirs).to_dict(), theirs="kept", gone="1")
    owned: JSON = {
        "f:metadata": {
            "f:labels": {"f:team": {}, "f:gone": {}},
            "f:annotations": {"f:note": {}, "f:gone": {}},
        }
    }
    given = pair(
        consumer=consumer(annotations=mine),
        provider=object_from_dict(copy),
        converged=(),
        owned=owned,
    )
    step = next_step(given)
    assert isinstance(step, Replace)
    assert step.body["metadata"]["labels"] == {"team": "shop", "theirs": "kept"}
    assert step.body["metadata"]["annotations"] == {**SOURCE, "note": "new", "theirs": "kept"}


def test_a_removed_spec_is_removed_there() -> None:
    body = consumer().to_dict()
    del body["spec"]
    given = pair(
        consumer=object_from_dict(body),
        provider=object_from_dict(COPY),
        converged=(),
        owned=MINE,
    )
    step = next_step(given)
    assert isinstance(step, Replace)
    assert "spec" not in step.body


def test_a_copy_of_an_object_of_the_same_name_before_is_taken_over() -> None:
    older = {**SOURCE, "kube-bind.io/consumer-uid": "older", "theirs": "kept"}
    copy = labelled(provider(annotations=older).to_dict())
    step = next_step(pair(provider=object_from_dict(copy), owned=MINE))
    assert isinstance(step, Replace)
    assert step.body["metadata"]["annotations"] == {"theirs": "kept", **SOURCE}


def test_a_copy_that_was_let_go_is_taken_up_again() -> None:
    free = {name: value for name, value in SOURCE.items() if not name.endswith("-uid")}
    copy = labelled(provider(annotations=free).to_dict())
    step = next_step(pair(provider=object_from_dict(copy)))
    assert isinstance(step, Replace)
    assert step.body["metadata"]["annotations"] == SOURCE


STRIPPED = object_from_dict(labelled(provider(annotations={"theirs": "kept"}).to_dict()))
UNRECORDED = consumer(annotations={})
PROVED: dict[str, Any] = {"owned": MINE, "wrote": True}


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({}, Read("provider"), id="its-server-is-asked"),
        pytest.param(
            {"consumer": UNRECORDED, "created": "provider-1"},
            PatchMetadata("consumer", {"annotations": BACK}),
            id="just-made-is-recorded-first",
        ),
        pytest.param(
            {"created": "provider-1", "owned": MINE},
            "ForeignObjectExists",
            id="recorded-but-not-written-by-a-konnector",
        ),
        pytest.param(
            {"consumer": UNRECORDED, **PROVED}, "ForeignObjectExists", id="written-not-recorded"
        ),
        pytest.param(
            {"consumer": UNRECORDED, "created": "older"},
            "ForeignObjectExists",
            id="another-was-made",
        ),
        pytest.param(
            {
                "consumer": consumer(annotations={**BACK, "kube-bind.io/provider-uid": "other"}),
                **PROVED,
            },
            "ForeignObjectExists",
            id="another-uid",
        ),
        pytest.param(
            {
                "consumer": consumer(
                    annotations={**BACK, "kube-bind.io/provider-namespace": "cluster-x-shop"}
                ),
                **PROVED,
            },
            "ForeignObjectExists",
            id="another-namespace",
        ),
        pytest.param(
            {"provider": provider(annotations=FOREIGN), **PROVED},
            "ForeignObjectExists",
            id="it-says-that-it-is-anothers",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True)}, Read("provider"), id="deleting-asks-its-server"
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), **PROVED},
            Delete("provider", TARGET, "provider-1"),
            id="deleting-takes-what-is-proved",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "owned": {}},
            PatchMetadata("consumer", {"finalizers": []}),
            id="deleting-leaves-what-is-not",
        ),
        pytest.param(
            {"consumer": None, "gone": frozenset({"consumer"}), **PROVED},
            Done(),
            id="without-an-object-nothing-is-proved",
        ),
    ],
)
def test_a_copy_that_has_lost_its_annotations(given: dict[str, Any], step: Step | str) -> None:
    found = next_step(pair(**{"provider": STRIPPED, **given}))
    if isinstance(step, str):
        assert isinstance(found, Refuse)
        assert found.reason == step
        if "consumer" not in given:
            return
        assert f"kube-bind.io/cluster-namespace={OURS}" in found.message
    else:
        assert found == step


def test_a_copy_that_certainly_is_ours_gets_its_annotations_back() -> None:
    step = next_step(pair(provider=STRIPPED, **PROVED))
    assert isinstance(step, Replace)
    assert step.body["metadata"]["annotations"] == {"theirs": "kept", **SOURCE}
    assert step.body["spec"] == {"size": 1}


def test_what_shall_stay_is_not_deleted_for_having_lost_its_annotations() -> None:
    given = pair(consumer=consumer(deleting=True), provider=STRIPPED, **PROVED)
    assert next_step(given, orphan=True) == PatchMetadata("consumer", {"finalizers": []})


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({}, None, id="loses-the-uid-first"),
        pytest.param(
            {"provider": None, "gone": frozenset({"provider"})},
            PatchMetadata("consumer", {"finalizers": []}),
            id="gone",
        ),
        pytest.param(
            {"provider": provider(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="deleted-over-there-anyway",
        ),
        pytest.param(
            {
                "provider": provider(annotations={"kube-bind.io/cluster-namespace": OURS}),
                "owned": {},
            },
            PatchMetadata("consumer", {"finalizers": []}),
            id="then-the-object-goes",
        ),
    ],
)
def test_an_orphaned_copy_stays(given: dict[str, Any], step: Step | None) -> None:
    found = next_step(pair(consumer=consumer(deleting=True), **given), orphan=True)
    if step is not None:
        assert found == step
        return
    assert isinstance(found, Replace)
    assert "kube-bind.io/consumer-uid" not in found.body["metadata"]["annotations"]
    assert found.body["spec"] == {"size": 1}


def test_an_orphaned_copy_is_no_leftover() -> None:
    free = provider(annotations={"kube-bind.io/cluster-namespace": OURS})
    given = pair(consumer=None, gone=frozenset({"consumer"}), provider=free)
    assert next_step(given) == Done()


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({"provider": None, "consumer": None}, Done(), id="nothing-anywhere"),
        pytest.param({"consumer": None}, Read("consumer"), id="leftover-asks-the-server"),
        pytest.param(
            {"consumer": None, "gone": frozenset({"consumer"})},
            Delete("provider", TARGET, "provider-1"),
            id="leftover-goes",
        ),
        pytest.param(
            {
                "consumer": None,
                "gone": frozenset({"consumer"}),
                "provider": provider(deleting=True),
            },
            Done(),
            id="leftover-is-going",
        ),
        pytest.param(
            {
                "consumer": None,
                "gone": frozenset({"consumer"}),
                "provider": provider(annotations={}),
            },
            Done(),
            id="native-object-stays",
        ),
        pytest.param(
            {
                "consumer": None,
                "gone": frozenset({"consumer"}),
                "provider": provider(annotations=FOREIGN),
            },
            Done(),
            id="foreign-object-stays",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True, finalizers=(), annotations={}),
                "provider": provider(annotations=FOREIGN, status={"a": 1}),
                "converged": ("provider",),
            },
            Done(),
            id="foreign-status-does-not-come",
        ),
        pytest.param(
            {
                "consumer": consumer(deleting=True, finalizers=(), annotations={}),
                "provider": provider(annotations={}, status={"a": 1}),
                "converged": ("provider",),
            },
            Done(),
            id="native-status-does-not-come",
        ),
        pytest.param(
            {"consumer": consumer(annotations={"mine": "kept"})},
            PatchMetadata("consumer", {"annotations": BACK}),
            id="annotations-first",
        ),
        pytest.param({}, InSync(), id="nothing-changed"),
    ],
)
def test_status(given: dict[str, Any], step: Step) -> None:
    assert next_step(pair(**given)) == step


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param({"status": {"ready": True}}, {"ready": True}, id="replaced"),
        pytest.param({}, None, id="removed"),
    ],
)
def test_the_whole_status_comes_back(found: JSON, wanted: Any) -> None:
    given = pair(
        consumer=consumer(status={"old": 1}), provider=provider(**found), converged=("provider",)
    )
    step = next_step(given)
    assert isinstance(step, ReplaceStatus)
    body = msgspec.json.decode(msgspec.json.encode(step.body))
    assert body.get("status") == wanted
    assert body["metadata"]["resourceVersion"] == "7"


def test_without_the_subresource_no_status_comes_back() -> None:
    given = pair(provider=provider(status={"ready": True}), converged=("provider",))
    assert isinstance(next_step(given), ReplaceStatus)
    assert BoundPolicy(cluster_namespace=OURS, status=False).next_step(given) == InSync()


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
    written = outcome({"a": 1}, {"a": 1, "b": 0})
    assert written is not None
    now = outcome(source, target)
    assert Pair(key=KEY, outcomes={"provider": written}).converged("provider", now) is converged
    assert Pair(key=KEY).converged("provider", now) is (now is None)


def test_each_ends_payload_is_computed_once_for_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what came of the write is compared with the same value of the consumer's object."""
    asked: list[str] = []

    def counted(obj: Object, metadata: Metadata | None = None) -> JSON:
        asked.append(obj.meta.uid)
        return payload(obj, metadata)

    for module in (bound, localkeys):
        monkeypatch.setattr(module, "payload", counted)
    found = pair(consumer=consumer(spec={"size": 2}), converged=())
    step = next_step(found)
    assert isinstance(step, Replace)
    defaulted = object_from_dict({**step.body, "spec": {"size": 2, "kind": "small"}})
    assert POLICY.outcome("provider", found.having("provider", defaulted)) is not None
    assert asked == ["consumer-1", "provider-1", "provider-1"]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"provider": None}, id="without-a-copy"),
        pytest.param({"converged": ()}, id="changed"),
        pytest.param({"consumer": consumer(finalizers=())}, id="without-finalizer"),
    ],
)
def test_nothing_crosses_while_objects_may_lack_fields(found: dict[str, Any]) -> None:
    """The conversion was taken away, and with it what the other version's fields are made of."""
    frozen = msgspec.structs.replace(POLICY, frozen=lambda: True)
    assert not isinstance(POLICY.next_step(pair(**found)), Done)
    assert frozen.next_step(pair(**found)) == Done()


def test_a_frozen_object_that_is_deleted_still_takes_its_copy_along() -> None:
    frozen = msgspec.structs.replace(POLICY, frozen=lambda: True)
    found = pair(consumer=consumer(deleting=True, spec={"size": 2}), converged=())
    assert isinstance(frozen.next_step(found), Delete)


@pytest.mark.parametrize(
    ("found", "crossing"),
    [
        pytest.param({"provider": None}, Create, id="new"),
        pytest.param({"converged": ()}, Replace, id="changed"),
        pytest.param(
            {"consumer": consumer(deleting=True, spec={"size": 2}), "converged": ()},
            Replace,
            id="changed-before-its-deletion",
        ),
    ],
)
def test_what_a_webhook_converts_is_read_from_the_server_before_it_crosses(
    found: dict[str, Any], crossing: type[Step]
) -> None:
    """A cache may hold what was read while the webhook was missing."""
    converted = msgspec.structs.replace(POLICY, converted=True)
    assert converted.next_step(pair(**found)) == Read("consumer")
    assert isinstance(converted.next_step(pair(**found, read=True)), crossing)
    assert isinstance(converted.next_step(pair()), InSync)
