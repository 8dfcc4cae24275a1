"""Every edge of the policy for objects of kbind v2, as steps; the original's outcome beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies.merge import applied_fields
from fairlead.konnector.policies.mirror import MirroredFields, MirrorPolicy, spec_of
from fairlead.konnector.policies.steps import (
    Apply,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    ReplaceStatus,
    Settle,
    Step,
    StepOutcome,
    Wait,
)


OURS = "cluster-1"
KEY = Key("shop", "db")
SYNCER = "core.kbind.io/syncer"
CONFLICT = "core.kbind.io/conflict"
CLUSTER = "core.kbind.io/consumer-cluster-uid"
OBJECT = "core.kbind.io/consumer-object-uid"
MARKS = {CLUSTER: OURS, OBJECT: "consumer-1"}
LEFT = {CLUSTER: OURS, OBJECT: "consumer-0"}
ANOTHER = {CLUSTER: "cluster-2", OBJECT: "consumer-9"}
LABELS = {"core.kbind.io/managed": "true"}
ORPHAN = {"core.kbind.io/deletion-policy": "Orphan"}
DELETION = "deletion of the provider's copy"


def consumer(
    *,
    finalizers: tuple[str, ...] = (SYNCER,),
    deleting: bool = False,
    annotations: dict[str, str] | None = None,
    key: Key = KEY,
    **body: Any,
) -> Object:
    metadata: JSON = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": "consumer-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": list(finalizers),
        "labels": {"team": "shop"},
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"size": 1}, **body})


def provider(
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    deleting: bool = False,
    **body: Any,
) -> Object:
    metadata: JSON = {
        "name": "db",
        "namespace": "shop",
        "uid": "provider-1",
        "resourceVersion": "9",
        "creationTimestamp": "2026-01-01T00:00:05Z",
        "labels": LABELS if labels is None else labels,
        "annotations": MARKS if annotations is None else annotations,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"size": 1}, **body})


FOREIGN = provider(annotations={}, labels={})
GONE = frozenset({"provider"})

POLICIES = {
    "Fail": MirrorPolicy(cluster_uid=OURS, covered=lambda _namespace: "Fail"),
    "Adopt": MirrorPolicy(cluster_uid=OURS, covered=lambda _namespace: "Adopt"),
    "no status": MirrorPolicy(cluster_uid=OURS, covered=lambda _namespace: "Fail", status=False),
    "paused": MirrorPolicy(
        cluster_uid=OURS, covered=lambda _namespace: "Fail", paused=lambda: True
    ),
    "not bound": MirrorPolicy(cluster_uid=OURS, covered=lambda _namespace: None),
    "leaving copies": MirrorPolicy(
        cluster_uid=OURS, covered=lambda _namespace: None, orphaning=lambda: True
    ),
}


def body(*, uid: str = "", key: Key = KEY, **spec: Any) -> JSON:
    metadata: JSON = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    if uid:
        metadata["uid"] = uid
    metadata |= {"labels": LABELS, "annotations": MARKS}
    return {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": metadata,
        "spec": spec or {"size": 1},
    }


NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "shop", "labels": {**LABELS, CLUSTER: OURS}},
}
CHANGE = Apply("provider", body(uid="provider-1"))
FINALIZER = PatchMetadata("consumer", {"finalizers": [SYNCER]})
RELEASE = PatchMetadata("consumer", {"finalizers": []})
DELETE = Delete("provider", KEY, "provider-1")


def status(value: Any) -> Step:
    metadata = {"name": "db", "uid": "consumer-1", "resourceVersion": "7", "namespace": "shop"}
    there: JSON = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return ReplaceStatus("consumer", there if value is None else {**there, "status": value})


def pair(**given: Any) -> Pair:
    known: dict[str, Any] = {
        "key": KEY,
        "consumer": consumer(),
        "provider": provider(),
        "target": KEY,
    }
    return Pair(**{**known, **given})


def told(annotation: str) -> dict[str, str]:
    return {CONFLICT: annotation}


@pytest.mark.parametrize(
    ("given", "policy", "step"),
    [
        pytest.param(
            {"provider": None, "consumer": consumer(finalizers=("a",))},
            "Fail",
            PatchMetadata("consumer", {"finalizers": ["a", SYNCER]}),
            id="new-finalizer-first",
        ),
        pytest.param(
            {"provider": None}, "Fail", Read("consumer"), id="new-behind-a-cache-is-read"
        ),
        pytest.param(
            {"provider": None, "read": True}, "Fail", Read("provider"), id="new-server-is-asked"
        ),
        pytest.param(
            {"provider": None, "read": True, "gone": GONE},
            "Fail",
            Apply("provider", body(), force=False, namespace=NAMESPACE),
            id="new-applied-with-namespace",
        ),
        pytest.param(
            {
                "key": Key("", "db"),
                "provider": None,
                "read": True,
                "gone": GONE,
                "consumer": consumer(key=Key("", "db")),
            },
            "Fail",
            Apply("provider", body(key=Key("", "db")), force=False),
            id="new-cluster-scoped",
        ),
        pytest.param({}, "Fail", InSync(), id="equal"),
        pytest.param(
            {"provider": provider(spec={"size": 2})}, "Fail", CHANGE, id="drift-reverted"
        ),
        pytest.param({"provider": provider(spec={})}, "Fail", CHANGE, id="field-lost-at-provider"),
        pytest.param({"provider": provider(labels={})}, "Fail", CHANGE, id="label-lost"),
        pytest.param(
            {"provider": provider(labels={**LABELS, "team": "db"})},
            "Fail",
            InSync(),
            id="label-of-others",
        ),
        pytest.param(
            {"provider": provider(spec={"size": 1, "more": 1})},
            "Fail",
            Read("provider"),
            id="more-fields-owner-asked",
        ),
        pytest.param(
            {
                "provider": provider(spec={"size": 1, "more": 1}),
                "owned": {"f:spec": {"f:size": {}}},
            },
            "Fail",
            Settle("provider"),
            id="more-fields-of-others-stay",
        ),
        pytest.param(
            {
                "provider": provider(spec={"size": 1, "more": 1}),
                "owned": {"f:spec": {"f:size": {}, "f:more": {}}},
            },
            "Fail",
            CHANGE,
            id="field-removed-here-goes",
        ),
        pytest.param(
            {
                "consumer": consumer(spec={"items": [1]}),
                "provider": provider(spec={"items": [2, 1]}),
                "owned": {"f:spec": {"f:items": {"v:1": {}}}},
            },
            "Fail",
            Apply("provider", body(uid="provider-1", items=[1])),
            id="items-of-others-in-another-order",
        ),
        pytest.param(
            {
                "consumer": consumer(spec={"items": [1]}),
                "provider": provider(spec={"items": [1, 2]}),
                "owned": {"f:spec": {"f:items": {"v:1": {}}}},
            },
            "Fail",
            Settle("provider"),
            id="items-of-others-stay",
        ),
        pytest.param(
            {
                "consumer": consumer(spec={"items": [1]}),
                "provider": provider(spec={"items": [1, 2]}),
                "owned": {"f:spec": {"f:items": {}}},
            },
            "Fail",
            Apply("provider", body(uid="provider-1", items=[1])),
            id="atomic-list-replaced",
        ),
        # Whose the object in the copy's place is.
        pytest.param(
            {"provider": FOREIGN, "consumer": consumer(annotations=told("ForeignObjectExists"))},
            "Fail",
            Refuse,
            id="foreign-told",
        ),
        pytest.param(
            {"provider": FOREIGN},
            "no status",
            PatchMetadata("consumer", {"annotations": told("ForeignObjectExists")}),
            id="foreign-annotated",
        ),
        pytest.param({"provider": FOREIGN}, "Adopt", CHANGE, id="foreign-adopted"),
        pytest.param(
            {"provider": FOREIGN, "consumer": consumer(finalizers=())},
            "Adopt",
            FINALIZER,
            id="foreign-adopted-finalizer-first",
        ),
        pytest.param(
            {"provider": provider(annotations=LEFT)},
            "no status",
            PatchMetadata("consumer", {"annotations": told("OwnedByAnother")}),
            id="F12-copy-of-former-object-original-OwnedByAnother-ours-too",
        ),
        pytest.param(
            {"provider": provider(annotations=LEFT)},
            "Adopt",
            CHANGE,
            id="F12-copy-of-former-object-adopted-original-OwnedByAnother-for-ever",
        ),
        pytest.param(
            {
                "provider": provider(annotations=ANOTHER),
                "consumer": consumer(annotations=told("OwnedByAnother")),
            },
            "Adopt",
            Refuse,
            id="another-clusters-copy-never-adopted",
        ),
        pytest.param(
            {
                "provider": provider(annotations={CLUSTER: OURS}),
                "consumer": consumer(annotations=told("OwnedByAnother")),
            },
            "Adopt",
            Refuse,
            id="cluster-alone-is-anothers",
        ),
        pytest.param(
            {
                "provider": provider(annotations={OBJECT: "consumer-1"}),
                "consumer": consumer(annotations=told("OwnedByAnother")),
            },
            "Adopt",
            Refuse,
            id="object-alone-is-anothers",
        ),
        pytest.param(
            {
                "provider": provider(annotations=ANOTHER),
                "consumer": consumer(annotations=told("ForeignObjectExists")),
            },
            "no status",
            PatchMetadata("consumer", {"annotations": told("OwnedByAnother")}),
            id="another-conflict-than-before",
        ),
        pytest.param(
            {"provider": provider(annotations={}, labels={}, deleting=True)},
            "Adopt",
            Wait(DELETION),
            id="foreign-going-is-not-adopted",
        ),
        pytest.param(
            {"consumer": consumer(finalizers=(), annotations=told("ForeignObjectExists"))},
            "Fail",
            PatchMetadata("consumer", {"finalizers": [SYNCER], "annotations": {CONFLICT: None}}),
            id="conflict-over",
        ),
        # A copy that goes.
        pytest.param(
            {"provider": provider(deleting=True)}, "Fail", Wait(DELETION), id="copy-going"
        ),
        pytest.param(
            {"provider": provider(deleting=True, spec={"size": 2})},
            "Fail",
            CHANGE,
            id="copy-going-takes-changes",
        ),
        pytest.param(
            {"provider": provider(deleting=True, status={"phase": "Going"})},
            "Fail",
            status({"phase": "Going"}),
            id="copy-going-gives-status",
        ),
        # An object that goes.
        pytest.param({"consumer": consumer(deleting=True)}, "Fail", DELETE, id="deleted"),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": provider(deleting=True)},
            "Fail",
            Wait(DELETION),
            id="deletion-awaited",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, spec={"size": 2})},
            "Fail",
            Apply("provider", body(uid="provider-1", size=2)),
            id="deleted-after-last-change",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": None},
            "Fail",
            Read("provider"),
            id="deleted-server-is-asked-for-the-copy",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": None, "gone": GONE},
            "Fail",
            RELEASE,
            id="deleted-copy-gone",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, annotations=ORPHAN)},
            "Fail",
            RELEASE,
            id="deleted-orphan",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": FOREIGN},
            "Fail",
            Read("provider"),
            id="deleted-foreign-server-is-asked",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True), "provider": FOREIGN, "owned": {}},
            "Adopt",
            RELEASE,
            id="deleted-foreign-stays",
        ),
        pytest.param(
            {"consumer": consumer(deleting=True, finalizers=("a",))},
            "Fail",
            Done(),
            id="deleted-kept-by-others",
        ),
        pytest.param({"consumer": None}, "Fail", Done(), id="copy-alone-stays"),
        # An API that is bound and not offered any more.
        pytest.param({"provider": provider(spec={})}, "paused", Done(), id="paused"),
        pytest.param({"consumer": consumer(deleting=True)}, "paused", DELETE, id="paused-deleted"),
        # An object that no binding covers any more.
        pytest.param(
            {"consumer": consumer(finalizers=())}, "not bound", Done(), id="not-bound-untouched"
        ),
        pytest.param(
            {}, "not bound", DELETE, id="F15-not-bound-any-more-original-leaves-copy-and-finalizer"
        ),
        pytest.param(
            {"consumer": consumer(spec={"size": 2})},
            "not bound",
            DELETE,
            id="not-bound-takes-no-change",
        ),
        pytest.param(
            {"provider": provider(deleting=True)},
            "not bound",
            Wait(DELETION),
            id="F12-unbinding-awaits-the-copy-original-does-not",
        ),
        pytest.param(
            {"provider": None, "gone": GONE}, "not bound", RELEASE, id="not-bound-released"
        ),
        pytest.param(
            {"consumer": consumer(annotations=ORPHAN)},
            "not bound",
            RELEASE,
            id="not-bound-orphan",
        ),
        pytest.param({}, "leaving copies", RELEASE, id="not-bound-copies-stay"),
        pytest.param(
            {
                "consumer": consumer(annotations=told("ForeignObjectExists")),
                "provider": FOREIGN,
                "owned": {},
            },
            "not bound",
            PatchMetadata("consumer", {"finalizers": [], "annotations": {CONFLICT: None}}),
            id="not-bound-conflict-forgotten",
        ),
        pytest.param(
            {"consumer": consumer(finalizers=(), annotations=told("ForeignObjectExists"))},
            "not bound",
            PatchMetadata("consumer", {"annotations": {CONFLICT: None}}),
            id="not-bound-conflict-forgotten-without-finalizer",
        ),
        # The status.
        pytest.param(
            {"provider": provider(status={"phase": "Ready"})},
            "Fail",
            status({"phase": "Ready"}),
            id="status-back",
        ),
        pytest.param(
            {
                "consumer": consumer(status={"phase": "Ready"}),
                "provider": provider(status={"phase": "Ready"}),
            },
            "Fail",
            InSync(),
            id="status-equal",
        ),
        pytest.param(
            {"consumer": consumer(status={"phase": "Ready"})},
            "Fail",
            status(None),
            id="status-removed-original-keeps-it",
        ),
        pytest.param(
            {"provider": provider(status={"phase": "Ready"})},
            "no status",
            InSync(),
            id="no-status-subresource-here-original-backs-off-for-ever",
        ),
        pytest.param(
            {
                "consumer": consumer(annotations=told("ForeignObjectExists")),
                "provider": provider(annotations={}, labels={}, status={"phase": "Ready"}),
            },
            "Fail",
            Refuse,
            id="foreign-status-stays-there",
        ),
    ],
)
def test_next_step(given: dict[str, Any], policy: str, step: Any) -> None:
    came = POLICIES[policy].next_step(pair(**given))
    if isinstance(step, type):
        assert isinstance(came, step)
    else:
        assert came == step


def test_conflict_is_in_the_objects_status_before_its_annotation_says_so() -> None:
    found = pair(provider=FOREIGN, consumer=consumer(status={"conditions": [{"type": "Own"}]}))
    step = POLICIES["Fail"].next_step(found)
    assert isinstance(step, ReplaceStatus)
    assert step.optional
    own, condition = msgspec.json.decode(msgspec.json.encode(step.body["status"]["conditions"]))
    assert own == {"type": "Own"}
    assert condition.pop("message").startswith(
        "no konnector created Thing shop/db on the provider,"
    )
    assert condition == {
        "type": "Synced",
        "status": "False",
        "reason": "ForeignObjectExists",
        "lastTransitionTime": "2026-01-01T00:00:05Z",
    }

    after = found.having("consumer", consumer(status=step.body["status"]))
    annotation = PatchMetadata("consumer", {"annotations": told("ForeignObjectExists")})
    assert POLICIES["Fail"].next_step(after) == annotation


def test_conflict_whose_condition_the_server_drops_is_annotated_all_the_same() -> None:
    found = pair(provider=FOREIGN)
    outcome = POLICIES["Fail"].outcome("consumer", found)
    assert outcome is not None
    after = found.knowing(outcomes={"consumer": outcome})
    annotation = PatchMetadata("consumer", {"annotations": told("ForeignObjectExists")})
    assert POLICIES["Fail"].next_step(after) == annotation


def test_status_of_a_foreign_object_comes_once_it_is_adopted() -> None:
    """What was remembered of the conflict is no outcome of the status that comes later."""
    there = provider(annotations={}, labels={}, status={"phase": "Ready"})
    found = pair(provider=there)
    outcome = POLICIES["Fail"].outcome("consumer", found)
    assert outcome is not None
    adopted = provider(status={"phase": "Ready"})
    after = pair(provider=adopted, outcomes={"consumer": outcome})
    assert POLICIES["Fail"].next_step(after) == status({"phase": "Ready"})


def test_settled_fields_of_others_are_not_asked_for_again() -> None:
    found = pair(provider=provider(spec={"size": 1, "more": 1}))
    outcome = POLICIES["Fail"].outcome("provider", found)
    assert isinstance(outcome, StepOutcome)
    assert POLICIES["Fail"].next_step(found.knowing(outcomes={"provider": outcome})) == InSync()


def test_uid_in_the_body_is_the_only_difference_to_the_originals() -> None:
    """Servers record no owner of metadata.uid; it keeps another object from being written."""
    step = POLICIES["Fail"].next_step(pair(provider=provider(spec={})))
    assert isinstance(step, Apply)
    applied = msgspec.json.decode(msgspec.json.encode(step.body))
    assert applied["metadata"].pop("uid") == "provider-1"
    assert applied == body()
    assert step.force


@pytest.mark.parametrize(
    ("entry", "owned"),
    [
        pytest.param({"manager": "kbind-konnector"}, {"f:spec": {"f:size": {}}}, id="ours"),
        pytest.param({"manager": "kubectl"}, {}, id="others"),
        pytest.param({"manager": "kbind-konnector", "operation": "Update"}, {}, id="update"),
        pytest.param({"manager": "kbind-konnector", "subresource": "status"}, {}, id="status"),
    ],
)
def test_applied_fields(entry: JSON, owned: JSON) -> None:
    entry = {"operation": "Apply", "fieldsV1": {"f:spec": {"f:size": {}}}, **entry}
    stored = {"metadata": {"managedFields": [entry]}, "spec": {"size": 1}}
    assert applied_fields(stored, "kbind-konnector") == owned
    assert MirroredFields().wrote(stored) == bool(owned)


def test_server_without_managed_fields_leaves_all_to_the_konnector() -> None:
    assert applied_fields({"metadata": {}, "spec": {}, "status": {}}, "m") == {"f:spec": {}}


def test_object_without_a_spec_has_no_fields() -> None:
    assert spec_of(object_from_dict({"apiVersion": "v1", "kind": "Thing", "metadata": {}})) == {}
