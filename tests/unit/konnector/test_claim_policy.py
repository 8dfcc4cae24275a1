"""Claimed objects: who owns them, when they are copied, and what is never touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.kubebind import PermissionClaim
from fairlead.api.kubebind.claims import Targets
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies.claims import ClaimPolicy, ClaimState
from fairlead.konnector.policies.steps import (
    AskNamespace,
    ConfirmNamespace,
    Create,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    Replace,
    Step,
    StepOutcome,
    Wait,
)
from fairlead.konnector.sync.selection import Referrers, Selection, keys
from fairlead.runtime import Delta


OURS = "cluster-abc"
KEY = Key("shop", "creds")
TARGET = Key("cluster-abc-shop", "creds")
LABEL = "kube-bind.io/owner"
SOURCE = {
    "kube-bind.io/cluster-namespace": OURS,
    "kube-bind.io/consumer-namespace": "shop",
    "kube-bind.io/consumer-uid": "c-1",
}
BACK = {
    "kube-bind.io/provider-namespace": "cluster-abc-shop",
    "kube-bind.io/provider-uid": "p-1",
}
BINDING: JSON = {
    "apiVersion": "kube-bind.io/v1alpha2",
    "kind": "APIServiceBinding",
    "name": "db",
    "uid": "binding-1",
}
OTHER_BINDING = {**BINDING, "uid": "binding-2"}


def secret(
    key: Key,
    uid: str,
    *,
    owner: str = "",
    annotations: dict[str, str] | None = None,
    owners: tuple[JSON, ...] = (),
    deleting: bool = False,
    **body: Any,
) -> Object:
    metadata: JSON = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": uid,
        "resourceVersion": "3",
        "labels": {LABEL: owner} if owner else {},
        "annotations": annotations or {},
        "ownerReferences": list(owners),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return object_from_dict({**whole, "data": {"a": "Yg=="}, **body})


def consumer(owner: str = "", **given: Any) -> Object:
    return secret(KEY, "c-1", owner=owner, **given)


def provider(owner: str = "", **given: Any) -> Object:
    return secret(TARGET, "p-1", owner=owner, **given)


def copy(**given: Any) -> Object:
    """Our copy of the provider's object, on the consumer."""
    known: dict[str, Any] = {"annotations": BACK, "owners": (BINDING,)}
    return consumer("provider", **{**known, **given})


def sent(**given: Any) -> Object:
    """Our copy of the consumer's object, on the provider."""
    return provider("consumer", **{"annotations": SOURCE, **given})


POLICY = ClaimPolicy(cluster_namespace=OURS, binding_name="db", binding_uid="binding-1")


def next_step(*, converged: bool = True, **given: Any) -> Step:
    """The step for a pair, which is claimed on both sides unless something else is given."""
    state: dict[str, Any] = {
        "bindings": frozenset({"binding-1", "binding-3"}),
        "consumer": given.pop("consumer_claimed", True),
        "provider": given.pop("provider_claimed", True),
    }
    for name in ("consumer_namespace", "expected", "others", "readable", "orphan"):
        if name in given:
            state[name] = given.pop(name)
    pair = Pair(**{"key": KEY, "target": TARGET, **given})
    if converged:
        outcomes: dict[Any, StepOutcome] = {
            side: came
            for side in ("consumer", "provider")
            if (came := POLICY.outcome(side, pair)) is not None
        }
        pair = msgspec.structs.replace(pair, outcomes=outcomes)
    return POLICY.next_step(pair, ClaimState(**state))


def owner(side: Any, value: str | None) -> PatchMetadata:
    """The step that labels an original."""
    return PatchMetadata(side, {"labels": {LABEL: value}})


def test_what_nobody_expects_in_a_namespace_does_not_come() -> None:
    step = next_step(provider=provider("provider"), expected=False)
    assert isinstance(step, Refuse)
    assert step.reason == "ReservedNamespace"
    # What is there already stays as it is kept.
    assert next_step(consumer=copy(), provider=provider("provider"), expected=False) == next_step(
        consumer=copy(), provider=provider("provider")
    )


MARKS = {"meta.helm.sh/release-name": "shop", "note": "kept"}


@pytest.mark.parametrize(
    "named",
    [frozenset[str](), frozenset({"kapp.k14s.io/app"})],
    ids=["mark", "named-by-the-claim"],
)
@pytest.mark.parametrize("side", ["consumer", "provider"])
def test_a_mark_of_a_delivery_tool_stays_on_the_side_where_it_was_set(
    side: str, named: frozenset[str]
) -> None:
    """A copy that has it from before loses it in one write."""
    here = side == "consumer"
    original = (consumer if here else provider)(side, annotations=MARKS)
    copied = (sent if here else copy)()
    ends = []
    for end in (original, copied):
        body = end.to_dict()
        body["metadata"]["labels"]["kapp.k14s.io/app"] = "1"
        ends.append(object_from_dict(body))
    original, copied = ends
    pair = Pair(
        key=KEY,
        target=TARGET,
        consumer=original if here else copied,
        provider=copied if here else original,
    )
    state = ClaimState(consumer=True, provider=True, bindings=frozenset({"binding-1"}))
    step = msgspec.structs.replace(POLICY, named=named).next_step(pair, state)
    assert isinstance(step, Replace)
    assert step.side == ("provider" if here else "consumer")
    assert ("kapp.k14s.io/app" in step.body["metadata"]["labels"]) == bool(named)
    annotations = step.body["metadata"]["annotations"]
    assert (annotations["note"], "meta.helm.sh/release-name" in annotations) == ("kept", False)


UNCLAIMED = {"consumer_claimed": False, "provider_claimed": False}


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({}, Done(), id="nothing-anywhere"),
        pytest.param({"provider": provider(), **UNCLAIMED}, Done(), id="not-claimed"),
        pytest.param({"provider": provider()}, owner("provider", "provider"), id="label-first"),
        pytest.param(
            {"provider": provider("provider"), "consumer_namespace": False},
            Wait("consumer namespace"),
            id="consumer-namespace-is-going",
        ),
        pytest.param(
            {"provider": provider("provider"), "consumer": copy()}, InSync(), id="in-step"
        ),
        pytest.param(
            {"provider": provider("provider"), "consumer": copy(deleting=True)},
            Wait("deletion of the consumer's copy"),
            id="copy-is-going",
        ),
        pytest.param(
            {"provider": provider("provider", deleting=True), "consumer": copy()},
            Delete("consumer", KEY, "c-1"),
            id="original-is-going",
        ),
        pytest.param({"consumer": copy()}, Read("provider"), id="original-gone-says-the-cache"),
        pytest.param(
            {"consumer": copy(), "gone": frozenset({"provider"})},
            Delete("consumer", KEY, "c-1"),
            id="original-gone-says-the-server",
        ),
        pytest.param(
            {"consumer": copy(), "target": None},
            Wait("provider namespace"),
            id="provider-namespace-is-not-known",
        ),
        pytest.param(
            {"consumer": copy(), "target": None, "namespace_asked": False},
            ConfirmNamespace(),
            id="provider-namespace-gone-says-the-cache",
        ),
        pytest.param(
            {
                "consumer": copy(),
                "target": None,
                "namespace_asked": False,
                "namespace_gone": True,
            },
            Delete("consumer", KEY, "c-1"),
            id="provider-namespace-gone-says-the-server",
        ),
        pytest.param(
            {"provider": provider("provider"), "consumer": copy(), **UNCLAIMED},
            owner("provider", None),
            id="unclaimed-label-first",
        ),
        pytest.param(
            {"provider": provider(), "consumer": copy(), **UNCLAIMED},
            Delete("consumer", KEY, "c-1"),
            id="unclaimed-then-the-copy",
        ),
    ],
)
def test_provider_owned(given: dict[str, Any], step: Step) -> None:
    assert next_step(**given) == step


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({"consumer": consumer(), **UNCLAIMED}, Done(), id="not-claimed"),
        pytest.param(
            {"consumer": consumer(), "target": None, "namespace_asked": False},
            AskNamespace(),
            id="namespace-unasked",
        ),
        pytest.param(
            {"consumer": consumer(), "target": None},
            Wait("provider namespace"),
            id="namespace-pending",
        ),
        pytest.param({"consumer": consumer()}, owner("consumer", "consumer"), id="label-first"),
        pytest.param(
            {"consumer": consumer("consumer"), "provider": sent()}, InSync(), id="in-step"
        ),
        pytest.param(
            {"consumer": consumer(), "provider": sent()},
            owner("consumer", "consumer"),
            id="label-again",
        ),
        pytest.param(
            {"consumer": consumer("consumer"), "provider": sent(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="copy-is-going",
        ),
        pytest.param(
            {"provider": sent(deleting=True)},
            Wait("deletion of the provider's copy"),
            id="copy-is-going-like-its-original",
        ),
        pytest.param(
            {
                "consumer": consumer("consumer", data={"a": "Yw=="}),
                "provider": sent(immutable=True, deleting=True),
                "converged": False,
            },
            Wait("deletion of the provider's copy"),
            id="copy-is-going-and-immutable",
        ),
        pytest.param({"provider": sent()}, Read("consumer"), id="original-gone-says-the-cache"),
        pytest.param(
            {"provider": sent(), "gone": frozenset({"consumer"})},
            Delete("provider", TARGET, "p-1"),
            id="original-gone-says-the-server",
        ),
        pytest.param(
            {"consumer": consumer("consumer"), "provider": sent(), **UNCLAIMED},
            owner("consumer", None),
            id="unclaimed-label-first",
        ),
        pytest.param(
            {"consumer": consumer(), "provider": sent(), **UNCLAIMED},
            Delete("provider", TARGET, "p-1"),
            id="unclaimed-then-the-copy",
        ),
        pytest.param(
            {"consumer": consumer("provider", owners=(OTHER_BINDING,)), "provider": sent()},
            Delete("provider", TARGET, "p-1"),
            id="name-was-taken-by-another-providers-copy",
        ),
    ],
)
def test_consumer_owned(given: dict[str, Any], step: Step) -> None:
    assert next_step(**given) == step


def test_a_claimed_copy_takes_changes_until_it_is_gone() -> None:
    original = consumer("consumer", data={"a": "Yw=="})
    step = next_step(consumer=original, provider=sent(deleting=True), converged=False)
    assert isinstance(step, Replace)
    assert (step.side, step.body["data"]) == ("provider", {"a": "Yw=="})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            {"provider": provider(), "consumer": consumer()}, "OwnerUnknown", id="both-unlabelled"
        ),
        pytest.param(
            {"provider": provider("provider"), "consumer": consumer()},
            "OwnerUnknown",
            id="consumers-own-object-is-not-overwritten",
        ),
        pytest.param(
            {"provider": provider(), "consumer": consumer(), "provider_claimed": False},
            "OwnerUnknown",
            id="the-claim-is-about-the-consumers-alone",
        ),
        pytest.param(
            {"provider": provider(), "consumer": consumer("consumer")},
            "OwnerUnknown",
            id="providers-own-object-is-not-overwritten",
        ),
        pytest.param(
            {
                "provider": provider("provider"),
                "consumer": consumer("provider", owners=(OTHER_BINDING,)),
            },
            "ForeignObjectExists",
            id="another-providers-copy",
        ),
        pytest.param(
            {
                "provider": provider(
                    annotations={**SOURCE, "kube-bind.io/cluster-namespace": "cluster-x"}
                ),
                "consumer": consumer(),
            },
            "ForeignObjectExists",
            id="another-consumers-copy",
        ),
        pytest.param(
            {
                "provider": provider("consumer"),
                "consumer": consumer("consumer"),
                "owned": {"f:data": {}},
            },
            "ForeignObjectExists",
            id="a-copy-without-a-source",
        ),
        pytest.param(
            {"consumer": consumer(type="kubernetes.io/service-account-token")},
            "ClusterToken",
            id="token-of-the-consumer",
        ),
        pytest.param(
            {"provider": provider(type="bootstrap.kubernetes.io/token")},
            "ClusterToken",
            id="token-of-the-provider",
        ),
    ],
)
def test_what_needs_a_person_is_told(given: dict[str, Any], reason: str) -> None:
    step = next_step(**given)
    assert isinstance(step, Refuse)
    assert step.reason == reason
    assert "Yg==" not in step.message


@pytest.mark.parametrize(
    ("given", "step"),
    [
        pytest.param({}, Read("provider"), id="its-server-is-asked"),
        pytest.param(
            {"consumer": consumer("consumer", deleting=True), "owned": {}, "wrote": True},
            None,
            id="the-original-is-going",
        ),
        pytest.param({"consumer": None}, Done(), id="no-original"),
        pytest.param({"consumer_claimed": False}, Done(), id="claimed-no-more"),
    ],
)
def test_a_sent_copy_that_has_lost_its_annotations(given: dict[str, Any], step: Any) -> None:
    known = {"provider": provider("consumer"), "consumer": consumer("consumer"), **given}
    found = next_step(**known, converged=False)
    if step is None:
        assert isinstance(found, Refuse)
        assert f"kube-bind.io/cluster-namespace={OURS}" in found.message
    else:
        assert found == step


def test_a_sent_copy_that_certainly_is_ours_gets_its_annotations_back() -> None:
    found = next_step(
        provider=provider("consumer"),
        consumer=consumer("consumer"),
        owned={"f:data": {}},
        wrote=True,
        converged=False,
    )
    assert isinstance(found, Replace)
    assert found.body["metadata"]["annotations"] == SOURCE


def test_one_providers_secret_never_goes_to_another() -> None:
    """The label alone says nothing: a claim for all Secrets finds the other provider's copy."""
    other = consumer("provider", annotations=BACK, owners=(OTHER_BINDING,))
    assert next_step(consumer=other) == Done()
    assert next_step(consumer=other, target=None, namespace_asked=False) == Done()


def test_a_provider_cannot_pass_for_another_by_its_uids() -> None:
    other = consumer("provider", annotations=BACK, owners=(OTHER_BINDING,))
    step = next_step(provider=provider("provider"), consumer=other, converged=False)
    assert isinstance(step, Refuse)
    assert step.reason == "ForeignObjectExists"


def test_two_bindings_of_one_provider_share_a_copy() -> None:
    """It stays as long as one of them claims it, and goes with the last."""
    sibling = copy(owners=({**BINDING, "uid": "binding-3"},))
    step = next_step(provider=provider("provider"), consumer=sibling)
    assert isinstance(step, Replace)
    owners = [owner["uid"] for owner in step.body["metadata"]["ownerReferences"]]
    assert owners == ["binding-3", "binding-1"]


def test_a_copy_of_another_konnector_is_adopted() -> None:
    step = next_step(provider=provider("provider"), consumer=copy(owners=()))
    assert isinstance(step, Replace)
    (owner,) = step.body["metadata"]["ownerReferences"]
    assert owner["uid"] == "binding-1"


def test_a_new_copy_on_the_consumer() -> None:
    original = provider(
        "provider",
        annotations={"note": "kept", "kcp.io/cluster": "x"},
        owners=({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod"},),
        immutable=True,
    )
    assert next_step(provider=original) == Create(
        "consumer",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "creds",
                "namespace": "shop",
                "labels": {LABEL: "provider"},
                "annotations": {"note": "kept", **BACK},
                "ownerReferences": [BINDING],
            },
            "type": "Opaque",
            "immutable": True,
            "data": {"a": "Yg=="},
        },
    )


def test_a_new_copy_on_the_provider() -> None:
    step = next_step(consumer=consumer("consumer"))
    assert isinstance(step, Create)
    assert step.side == "provider"
    assert step.body["metadata"] == {
        "name": "creds",
        "namespace": "cluster-abc-shop",
        "labels": {LABEL: "consumer"},
        "annotations": SOURCE,
    }


def test_a_changed_copy_keeps_its_version_owners_and_finalizers() -> None:
    held = copy(owners=(BINDING, {**BINDING, "kind": "Other", "uid": "z"}), data={"old": "eA=="})
    step = next_step(provider=provider("provider"), consumer=held, converged=False)
    assert isinstance(step, Replace)
    assert step.body["data"] == {"a": "Yg=="}
    assert step.body["metadata"]["resourceVersion"] == "3"
    assert [owner["uid"] for owner in step.body["metadata"]["ownerReferences"]] == [
        "binding-1",
        "z",
    ]


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(copy(immutable=True, data={"old": "eA=="}), id="immutable"),
        pytest.param(copy(type="example.org/other"), id="type"),
    ],
)
def test_a_copy_that_cannot_be_changed_is_made_anew(held: Object) -> None:
    given = {"provider": provider("provider"), "consumer": held}
    assert next_step(converged=False, **given) == Delete("consumer", KEY, "c-1")


def test_a_service_accounts_own_secrets_are_not_compared() -> None:
    theirs = provider("provider", kind="ServiceAccount", secrets=[{"name": "token-x"}])
    ours = copy(kind="ServiceAccount", secrets=[{"name": "token-y"}])
    pair = Pair(key=KEY, target=TARGET, provider=theirs, consumer=ours)
    assert POLICY.outcome("consumer", pair) is None


def selection(selector: JSON) -> Selection:
    claim = msgspec.convert({"resource": "secrets", "selector": selector}, PermissionClaim)
    return Selection(claim, [], changed=lambda targets: None, moved=lambda: None)


REFERENCE: JSON = {"group": "example.org", "resource": "things", "jsonPath": {"name": "spec.name"}}


@pytest.mark.parametrize(
    ("selector", "everywhere", "namespaces"),
    [
        pytest.param({}, False, set(), id="nothing"),
        pytest.param({"labelSelector": {}}, True, set(), id="labels"),
        pytest.param(
            {"namedResources": [{"name": "a", "namespace": "shop"}]},
            False,
            {"shop"},
            id="named-with-namespace",
        ),
        pytest.param({"namedResources": [{"name": "a"}]}, True, set(), id="named"),
        pytest.param({"references": [REFERENCE]}, False, set(), id="nobody-refers"),
    ],
)
def test_no_more_is_watched_than_may_be_claimed(
    selector: JSON, everywhere: bool, namespaces: set[str]
) -> None:
    chosen = selection(selector)
    assert chosen.everywhere() is everywhere
    assert chosen.namespaces() == namespaces


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param(
            Targets(frozenset({Key("x", "a"), Key("x", "b")})),
            {Key("x", "a"), Key("x", "b")},
            id="named-namespaces",
        ),
        pytest.param(
            Targets(frozenset({Key("", "a")})), {Key("y", "a")}, id="any-namespace-that-has-it"
        ),
    ],
)
def test_a_changed_referrer_concerns_what_it_names(targets: Targets, expected: set[Key]) -> None:
    assert keys(targets, [Key("y", "a"), Key("y", "c")]) == expected


class FakeInformer:
    """Hands on what a test says has happened."""

    def __init__(self) -> None:
        self.tell: Callable[[Delta], None] = lambda _delta: None

    def add_index(self, *_: Any) -> None: ...

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        self.tell = handler


def referring(name: str, namespace: str = "") -> Object:
    metadata = {"name": "r", "uid": "r"} | ({"namespace": namespace} if namespace else {})
    whole = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
    return object_from_dict({**whole, "spec": {"name": name}})


def test_where_to_look_follows_the_referring_objects() -> None:
    claim = msgspec.convert(
        {"resource": "secrets", "selector": {"references": [REFERENCE]}}, PermissionClaim
    )
    informer = FakeInformer()
    referrers = Referrers(claim.selector.references[0], [cast("Any", informer)])
    changed: list[Targets] = []
    moved: list[None] = []
    chosen = Selection(
        claim, [referrers], changed=changed.append, moved=lambda: moved.append(None)
    )
    chosen.start()
    own = referring("db", "shop")
    informer.tell(Delta("ADDED", None, own))
    assert (chosen.everywhere(), chosen.namespaces()) == (False, frozenset({"shop"}))
    anywhere = referring("db")
    informer.tell(Delta("ADDED", None, anywhere))
    assert (chosen.everywhere(), chosen.namespaces()) == (True, frozenset({"shop"}))
    informer.tell(Delta("DELETED", anywhere, None))
    informer.tell(Delta("DELETED", own, None))
    assert (chosen.everywhere(), chosen.namespaces()) == (False, frozenset())
    assert len(moved) == 4
    assert [item.keys for item in changed] == [
        {Key("shop", "db")},
        {Key("", "db")},
        {Key("", "db")},
        {Key("shop", "db")},
    ]


def test_an_edited_referrer_concerns_what_it_names_anew_or_no_more() -> None:
    listed = {**REFERENCE, "jsonPath": {"name": "spec.names"}}
    claim = msgspec.convert(
        {"resource": "secrets", "selector": {"references": [listed]}}, PermissionClaim
    )
    informer = FakeInformer()
    referrers = Referrers(claim.selector.references[0], [cast("Any", informer)])
    changed: list[Targets] = []
    moved: list[None] = []
    chosen = Selection(
        claim, [referrers], changed=changed.append, moved=lambda: moved.append(None)
    )
    chosen.start()

    def naming(*names: str, size: int = 1) -> Object:
        body = referring("", "shop").to_dict()
        return object_from_dict({**body, "spec": {"names": list(names), "size": size}})

    one, other, edited = naming("a", "b"), naming("b", "c"), naming("b", "c", size=2)
    informer.tell(Delta("ADDED", None, one))
    informer.tell(Delta("MODIFIED", one, other))
    informer.tell(Delta("MODIFIED", other, edited))
    assert [{key.name for key in item.keys} for item in changed] == [{"a", "b"}, {"a", "c"}]
    assert chosen.namespaces() == {"shop"}
    assert len(moved) == 1
