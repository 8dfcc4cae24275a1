"""Who asked for services of other namespaces: what is noted, and what is believed."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import coreos_binding, deleted, secret

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.resource import SECRETS
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION
from fairlead.binding.admission import names
from fairlead.binding.admission.serving import reviewers
from fairlead.binding.builders import DefaultBuilder
from fairlead.binding.contexts.base import InvalidBinding, ServicesRefused
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.options import DEFAULT_DENIED, SERVICE_ACCOUNTS_ELSEWHERE
from fairlead.binding.pipeline import at_once
from fairlead.binding.reads import Answer, Get, Read, ReadFailure, Snapshot
from fairlead.runtime.admission.server import AdmissionRequest, Verdict
from fairlead_sandbox.patches import json_patch


KEY = bytes(range(32))
PLACE = ("own", "key")
READ_KEY = Get(SECRETS, *PLACE)
ANN: JSON = {"username": "ann", "groups": ["devs"]}
ADMIN = json.dumps({"username": "admin", "groups": ["system:masters"]})
OWN = "system:serviceaccount:own:controllers"
FOREIGN = {"group": "", "version": "v1", "kind": "Secret", "name": "s", "namespace": "other"}


def key_secret(key: bytes = KEY) -> JSON:
    data = {"key": base64.b64encode(key).decode()}
    meta = {"namespace": PLACE[0], "name": PLACE[1]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def binding(**spec: Any) -> JSON:
    return coreos_binding(**{"services": [FOREIGN], **spec})


def review(
    new: JSON, old: JSON | None = None, user: JSON = ANN, key: bytes = KEY
) -> tuple[JSON, Verdict]:
    """A binding as it is after the webhook, and what the webhook said."""
    reviewer = reviewers("own", OWN, None, lambda: key)[names.REQUESTER_PATH]
    namespace = new["metadata"]["namespace"]
    asked = AdmissionRequest(
        uid="1", namespace=namespace, user_info=user, object=new, old_object=old
    )
    verdict = reviewer(asked)
    assert isinstance(verdict, Verdict)
    return json_patch(copy.deepcopy(new), list(verdict.patch)), verdict


def noted(**spec: Any) -> JSON:
    return review(binding(**spec))[0]


def texts(body: JSON) -> JSON:
    found: JSON = body["metadata"].get("annotations") or {}
    return found


def changed(body: JSON, **meta: Any) -> JSON:
    return {**body, "metadata": {**body["metadata"], **meta}}


def annotated(body: JSON, **by_name: str) -> JSON:
    known = {"requester": REQUESTER_ANNOTATION, "proof": PROOF_ANNOTATION}
    added = {known[name]: text for name, text in by_name.items()}
    return changed(body, annotations={**texts(body), **added})


def respecified(body: JSON, **spec: Any) -> JSON:
    return {**body, "spec": {**body["spec"], **spec}}


def context(
    body: JSON, key: Answer | None = None, denied: Sequence[str] = DEFAULT_DENIED
) -> CoreosContext:
    """A context that is open."""
    snapshot = Snapshot(FakeCluster())
    snapshot.put(READ_KEY, object_from_dict(key_secret()) if key is None else key)
    builder = DefaultBuilder(requester_key=PLACE, denied_requesters=denied)
    made = builder.provider(object_from_dict(body), snapshot)
    at_once(made.open())
    return made


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(noted(), id="as it was noted"),
        pytest.param(respecified(noted(), bindAsFiles=True), id="a default that a server adds"),
        pytest.param(respecified(noted(), envVarPrefix="x"), id="a member that nobody reads"),
        pytest.param(
            respecified(noted(), services=[dict(reversed(FOREIGN.items()))]), id="another order"
        ),
        pytest.param(changed(noted(), finalizers=["a/b"], generation=7), id="our own writes"),
        pytest.param(coreos_binding(services=[{**FOREIGN, "namespace": None}]), id="own: null"),
    ],
)
def test_what_a_webhook_noted_is_believed(body: JSON) -> None:
    assert context(body).spec_name() == ""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(binding(), id="no annotation"),
        pytest.param(annotated(binding(), requester=ADMIN), id="forged requester"),
        pytest.param(annotated(binding(), requester=ADMIN, proof="0" * 64), id="forged proof"),
        pytest.param(annotated(binding(), requester=ADMIN, proof="é\0"), id="odd proof"),
        pytest.param(annotated(noted(), requester=ADMIN), id="another requester"),
        pytest.param(annotated(noted(), requester=""), id="no requester any more"),
        pytest.param(annotated(noted(), proof=""), id="no proof any more"),
        pytest.param(changed(noted(), name="sb2"), id="another name"),
        pytest.param(changed(noted(), namespace="team2"), id="another namespace"),
        pytest.param(
            respecified(noted(), services=[{**FOREIGN, "name": "t"}]), id="another service"
        ),
        pytest.param(
            respecified(noted(), services=[FOREIGN, {**FOREIGN, "name": "t"}]), id="one more"
        ),
        pytest.param(
            respecified(noted(), application={"group": "apps", "version": "v1", "name": "x"}),
            id="another workload",
        ),
        pytest.param(respecified(noted(), detectBindingResources=True), id="more of the service"),
        pytest.param(
            respecified(noted(), mappings=[{"name": "a", "value": "{{ . }}"}]), id="a mapping"
        ),
        pytest.param(review(binding(), user={"groups": ["devs"]})[0], id="without a user"),
    ],
)
def test_what_no_webhook_noted_is_refused(body: JSON) -> None:
    with pytest.raises(InvalidBinding, match=r"services\[0\].namespace .* while the webhook"):
        context(body)
    deleted(body)
    context(body)


def account(namespace: str, *groups: str) -> JSON:
    return {
        "username": f"system:serviceaccount:{namespace}:deployer",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", *groups],
    }


ELSEWHERE = (SERVICE_ACCOUNTS_ELSEWHERE,)


@pytest.mark.parametrize(
    ("user", "denied"),
    [
        pytest.param(account("argocd"), ELSEWHERE, id="an account of another namespace"),
        pytest.param(account("ns-2"), ELSEWHERE, id="a namespace whose name begins alike"),
        pytest.param(
            {"username": "system:serviceaccount:argocd:deployer"}, ELSEWHERE, id="without groups"
        ),
        pytest.param(
            {"username": "ann", "groups": ["system:serviceaccounts"]}, ELSEWHERE, id="by its group"
        ),
        pytest.param(ANN, ("ann",), id="a user"),
        pytest.param(ANN, ("devs",), id="a group"),
        pytest.param({"username": "aws:role/cd/17"}, ("bob", "aws:role/cd/*"), id="any session"),
        pytest.param({"username": "a[b]?"}, ("a[b]?",), id="characters of a pattern"),
        pytest.param(account("ns"), ("system:serviceaccounts:ns",), id="its own account"),
    ],
)
def test_a_denied_requester_is_refused_by_name(user: JSON, denied: tuple[str, ...]) -> None:
    body, _ = review(binding(), user=user)
    with pytest.raises(ServicesRefused, match="--cross-namespace-denied-requesters") as refused:
        context(body, denied=denied)
    assert user["username"] in str(refused.value)


@pytest.mark.parametrize(
    ("user", "denied"),
    [
        pytest.param(ANN, ELSEWHERE, id="a person"),
        pytest.param(account("ns"), ELSEWHERE, id="an account of the binding's namespace"),
        pytest.param(account("argocd"), (), id="nobody is denied"),
        pytest.param(account("argocd"), ("system:serviceaccounts:flux",), id="another group"),
        pytest.param({"username": "ann2"}, ("ann", "an?2", "[a]nn2"), id="another user"),
    ],
)
def test_other_requesters_are_believed(user: JSON, denied: tuple[str, ...]) -> None:
    body, _ = review(binding(), user=user)
    context(body, denied=denied)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(ReadFailure("NotFound", "gone"), id="gone"),
        pytest.param(object_from_dict(key_secret(b"short")), id="unusable"),
        pytest.param(object_from_dict(key_secret(bytes(32))), id="another"),
    ],
)
def test_without_the_key_nothing_is_proven(key: Answer) -> None:
    with pytest.raises(InvalidBinding, match="--cross-namespace true"):
        context(noted(), key)


def process(body: JSON, cluster: FakeCluster, key: Answer) -> CoreosContext:
    def answer(read: Read) -> Answer:
        return key if read == READ_KEY else cluster.answer(read)

    return DefaultBuilder(requester_key=PLACE).process(object_from_dict(body), answer)


def test_a_key_that_cannot_be_read_now_is_asked_for_again() -> None:
    found = process(noted(), FakeCluster(objects=[secret()]), ReadFailure("Error", "no answer"))
    assert (found.flow.error, found.flow.transient) == ("no answer", True)
    assert not found.secret


def test_services_are_read_with_the_rights_of_who_asked() -> None:
    foreign = secret()
    foreign["metadata"] |= {"namespace": "other", "name": "s"}
    cluster = FakeCluster(objects=[foreign])
    key = object_from_dict(key_secret())
    assert process(noted(), cluster, key).secret
    assert {(one.user, one.groups) for one in cluster.reviews} == {("ann", ("devs",))}
    cluster.denied = [{"namespace": "other"}]
    assert "cannot read service s in namespace other" in process(noted(), cluster, key).flow.error


def test_edits_of_ours_leave_what_is_noted() -> None:
    before = noted()
    after, verdict = review(changed(before, labels={"a": "b"}), before, {"username": OWN})
    assert texts(after) == texts(before)
    assert not verdict.patch
    forged = annotated(before, requester=ADMIN, proof="x")
    assert texts(review(forged, before)[0]) == texts(before)
    other, _ = review(changed(before, labels={"a": "b"}), before, {"username": "bob"})
    assert json.loads(texts(other)[REQUESTER_ANNOTATION])["username"] == "bob"
    context(other)


def test_only_what_names_other_namespaces_is_proven() -> None:
    near, verdict = review(
        annotated(coreos_binding(), proof="by hand", requester=ADMIN), user={"username": "bob"}
    )
    assert set(texts(near)) == {REQUESTER_ANNOTATION}
    assert not verdict.warnings


@pytest.mark.parametrize(
    ("body", "key", "text"),
    [
        pytest.param(changed(binding(), name="", generateName="sb-"), KEY, "name", id="name"),
        pytest.param(binding(), b"", "no key for it yet", id="key"),
    ],
)
def test_what_cannot_be_proven_is_said(body: JSON, key: bytes, text: str) -> None:
    after, verdict = review(annotated(body, proof="by hand"), key=key)
    assert set(texts(after)) == {REQUESTER_ANNOTATION}
    (warning,) = verdict.warnings
    assert text in warning


_SPEC = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["services", "namespace", "name"]), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(_SPEC)
def test_whatever_a_spec_says_the_requester_is_noted(spec: Any) -> None:
    after, _ = review({**binding(), "spec": spec})
    assert json.loads(texts(after)[REQUESTER_ANNOTATION])["username"] == "ann"
