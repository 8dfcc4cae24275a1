"""What the webhooks of the binding say, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import EXCLUSIVE, IMMUTABLE, REQUESTER_ANNOTATION
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION
from fairlead.binding.admission import names, requester, rules
from fairlead.binding.admission.serving import reviewers
from fairlead.binding.options import AdmissionOptions
from fairlead.runtime.admission.server import AdmissionRequest, Verdict


READY: JSON = {"conditions": [{"type": "Ready", "status": "True"}]}
USER: JSON = {"username": "ann", "uid": "1", "groups": ["devs"], "extra": {"a": ["b"]}}
NOTED = '{"username":"ann","uid":"1","groups":["devs"],"extra":{"a":["b"]}}'
OWN = "system:serviceaccount:fairlead-binding:fairlead-binding"


def coreos(**more: Any) -> JSON:
    spec = {"application": {"name": "web", "group": "apps"}, "services": [], **more}
    return {"metadata": {"name": "a"}, "spec": spec}


def ready(binding: JSON) -> JSON:
    return {**binding, "status": READY}


BOTH = {"name": "web", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        pytest.param(coreos(), None, "", id="new"),
        pytest.param(coreos(application=BOTH), None, EXCLUSIVE, id="both"),
        pytest.param(coreos(application={**BOTH, "name": ""}), None, "", id="selector"),
        pytest.param(ready(coreos(bindAsFiles=True)), coreos(), IMMUTABLE, id="ready"),
        pytest.param(coreos(bindAsFiles=True), ready(coreos()), "", id="no longer ready"),
        pytest.param(ready(coreos()), coreos(), "", id="unchanged"),
        pytest.param(ready(coreos(envVarPrefix="")), coreos(), "", id="empty"),
        pytest.param(
            ready({**coreos(), "metadata": {"labels": {"a": "b"}}}), coreos(), "", id="metadata"
        ),
        pytest.param({**coreos(bindAsFiles=True), "status": 7}, coreos(), "", id="odd status"),
        pytest.param({"spec": None}, {}, "", id="nothing"),
    ],
)
def test_bindings_of_coreos(new: JSON, old: JSON | None, text: str) -> None:
    assert rules.coreos_binding(new, old) == text


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        pytest.param({"name": "web"}, "", id="name"),
        pytest.param({"selector": {}}, "", id="selector"),
        pytest.param({"name": "web", "selector": {}}, EXCLUSIVE, id="both"),
    ],
)
def test_bindings_of_the_specification(workload: JSON, text: str) -> None:
    old = {"spec": {"workload": {}}, "status": READY}
    new = {"spec": {"workload": workload}, "status": READY}
    assert rules.spec_binding(new, old) == text


def mapping(*versions: JSON) -> JSON:
    return {"spec": {"versions": list(versions)}}


@pytest.mark.parametrize(
    ("new", "text"),
    [
        pytest.param(mapping({"version": "*"}, {"version": "v1"}), "", id="fine"),
        pytest.param({"spec": {}}, "", id="none"),
        pytest.param(
            mapping({"version": " "}),
            "spec.versions[0].version is blank: name a version, or * for all others",
            id="blank",
        ),
        pytest.param(
            mapping({"version": "v1"}, {"version": "v1"}),
            "spec.versions[1].version v1 is there twice: give one template for each version",
            id="twice",
        ),
        pytest.param(
            mapping({"version": "*", "volumes": ".spec.volumes[*]"}),
            "spec.versions[0].volumes: .spec.volumes[*] must consist of field steps alone",
            id="volumes",
        ),
        pytest.param(
            mapping({"version": "*", "annotations": "..a"}),
            "spec.versions[0].annotations: ..a must consist of field steps alone",
            id="annotations",
        ),
        pytest.param(
            mapping({"version": "*", "containers": [{"path": ".spec.containers[*]"}]}),
            "",
            id="containers",
        ),
        pytest.param(
            mapping({"version": "*", "containers": [{"path": " "}]}),
            "spec.versions[0].containers[0].path is blank",
            id="no path",
        ),
        pytest.param(
            mapping({"version": "*", "containers": [{"path": ".a["}]}),
            "spec.versions[0].containers[0].path cannot be read: ",
            id="odd path",
        ),
        pytest.param(
            mapping({"version": "*", "containers": [{"path": ".a}{.b"}]}),
            "spec.versions[0].containers[0].path is not a single JSONPath: .a}{.b",
            id="two paths",
        ),
        pytest.param(
            mapping({"version": "*", "containers": [{"path": ".a[*]", "env": ".e[0]"}]}),
            "spec.versions[0].containers[0].env: .e[0] must consist of field steps alone",
            id="env",
        ),
    ],
)
def test_mappings(new: JSON, text: str) -> None:
    found = rules.mapping(new, None)
    assert found.startswith(text)
    assert bool(found) == bool(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "status", "metadata", "versions", "version", "containers", "path", "env"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["spec", "status", "metadata"]), _JSON))
def test_whatever_is_sent_is_judged(body: JSON) -> None:
    for rule in (rules.coreos_binding, rules.spec_binding, rules.mapping):
        assert isinstance(rule(body, {}), str)


@pytest.mark.parametrize(
    ("meta", "old", "user", "operation"),
    [
        pytest.param(
            {}, None, USER, ("/metadata/annotations", {REQUESTER_ANNOTATION: NOTED}), id="new"
        ),
        pytest.param(
            {"annotations": {"a": "b"}},
            None,
            USER,
            ("/metadata/annotations/servicebinding.io~1requester", NOTED),
            id="beside others",
        ),
        pytest.param(
            {"annotations": {REQUESTER_ANNOTATION: "forged"}},
            None,
            USER,
            ("/metadata/annotations/servicebinding.io~1requester", NOTED),
            id="forged",
        ),
        pytest.param({"annotations": {REQUESTER_ANNOTATION: NOTED}}, None, USER, None, id="same"),
        pytest.param({}, None, {"username": OWN}, None, id="our own"),
        pytest.param(
            {"finalizers": ["a/b"], "annotations": {REQUESTER_ANNOTATION: NOTED}},
            {"annotations": {REQUESTER_ANNOTATION: NOTED}},
            {"username": "gc"},
            None,
            id="finalizer",
        ),
        pytest.param(
            {},
            {"annotations": {REQUESTER_ANNOTATION: "other"}},
            USER,
            ("/metadata/annotations", {REQUESTER_ANNOTATION: NOTED}),
            id="taken away",
        ),
        pytest.param(
            {"labels": {"a": "b"}},
            {},
            USER,
            ("/metadata/annotations", {REQUESTER_ANNOTATION: NOTED}),
            id="label",
        ),
    ],
)
def test_the_requester_is_who_edited_last(
    meta: JSON, old: JSON | None, user: JSON, operation: tuple[str, Any] | None
) -> None:
    new = {"metadata": meta, "spec": {}}
    before = None if old is None else {"metadata": old, "spec": {}}
    found = requester.operations(user, OWN, new, before)
    assert [(one["path"], one["value"]) for one in found] == ([operation] if operation else [])


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(
            {REQUESTER_ANNOTATION: NOTED, PROOF_ANNOTATION: "p"},
            [
                {
                    "op": "add",
                    "path": "/metadata/annotations/servicebinding.io~1requester",
                    "value": '{"username":""}',
                },
                {
                    "op": "remove",
                    "path": "/metadata/annotations/servicebinding.io~1requester-proof",
                },
            ],
            id="who-has-asked-has-not-any-more",
        ),
        pytest.param(
            {},
            [
                {
                    "op": "add",
                    "path": "/metadata/annotations",
                    "value": {REQUESTER_ANNOTATION: '{"username":""}'},
                }
            ],
            id="nobody-before",
        ),
    ],
)
def test_nobody_has_asked_for_a_spec_that_the_controllers_have_changed(
    annotations: JSON, expected: list[JSON]
) -> None:
    old: JSON = {"metadata": {"annotations": annotations}, "spec": {}}
    new = {**old, "spec": {"template": "theirs"}}
    assert list(requester.operations({"username": OWN}, OWN, new, old)) == expected
    # Their own writes of finalizers and annotations leave who has asked.
    noted = {**old, "metadata": {"annotations": {**annotations, "a": "b"}, "finalizers": ["f"]}}
    assert requester.operations({"username": OWN}, OWN, noted, old) == ()


def test_the_requester_is_what_the_pipeline_reads() -> None:
    assert json.loads(requester.requester({**USER, "odd": 1, "groups": []})) == {
        "username": "ann",
        "uid": "1",
        "extra": {"a": ["b"]},
    }


def request(namespace: str = "shop", **more: Any) -> AdmissionRequest:
    body = coreos(application=BOTH)
    given: JSON = {"uid": "1", "namespace": namespace, "user_info": USER, "object": body, **more}
    return AdmissionRequest(**given)


def verdict_on(path: str, asked: AdmissionRequest, own: str = "a") -> Verdict:
    found = reviewers(own, OWN)[path](asked)
    assert isinstance(found, Verdict)
    return found


@pytest.mark.parametrize("path", [names.REQUESTER_PATH, names.COREOS_PATH])
def test_nothing_is_said_about_the_system_and_ourselves(path: str) -> None:
    said = verdict_on(path, request(), "fairlead-binding")
    assert said.refusal or said.patch
    for namespace in ("kube-system", "fairlead-binding"):
        verdict = verdict_on(path, request(namespace), "fairlead-binding")
        assert not verdict.refusal
        assert not verdict.patch


def test_what_is_being_deleted_may_lose_its_finalizers() -> None:
    body = coreos(application=BOTH)
    body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert not verdict_on(names.COREOS_PATH, request(object=body)).refusal


def test_a_delete_says_nothing() -> None:
    for path in reviewers("a", OWN):
        verdict = verdict_on(path, request(object=None))
        assert (verdict.refusal, list(verdict.patch)) == ("", [])


def serves(**changes: Any) -> AdmissionOptions:
    return AdmissionOptions(address="127.0.0.1:0", hosts=("hooks",), namespace="own", **changes)


def hooks_of(options: AdmissionOptions, url: str = "") -> dict[str, JSON]:
    hooks = [*names.mutating(options, url), *names.validating(options, url)]
    return {hook["name"].partition(".")[0]: hook for hook in hooks}


def test_each_webhook_fails_open_by_itself() -> None:
    hooks = hooks_of(serves(fail_open=("mappings",)))
    assert {name: hook["failurePolicy"] for name, hook in hooks.items()} == {
        "requester": "Fail",
        "bindings": "Fail",
        "coreos-bindings": "Fail",
        "mappings": "Ignore",
    }
    assert {hook["sideEffects"] for hook in hooks.values()} == {"None"}


def test_metrics_call_webhooks_as_configurations_do() -> None:
    hooks = hooks_of(serves(projected=(("pods", ""),)))
    called = {hook["clientConfig"]["service"]["path"]: name for name, hook in hooks.items()}
    assert called == names.CALLED


def test_a_server_outside_the_cluster_is_called_by_its_address() -> None:
    hooks = hooks_of(serves(), "https://hooks.example.org:9443")
    assert hooks["requester"]["clientConfig"] == {
        "url": "https://hooks.example.org:9443/mutate-servicebinding"
    }


def test_the_projector_is_asked_about_what_is_named_and_no_more() -> None:
    named = (("jobs", "batch"), ("pods", ""), ("cronjobs", "batch"))
    hook = hooks_of(serves(projected=named))["projector"]
    rules = [(one["apiGroups"], one["resources"], one["operations"]) for one in hook["rules"]]
    assert rules == [
        ([""], ["pods"], ["CREATE"]),
        (["batch"], ["cronjobs", "jobs"], ["CREATE"]),
    ]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "own"]
    closed = hooks_of(serves(projected=named, fail_closed=True))["projector"]
    assert closed["failurePolicy"] == "Fail"


def test_the_requester_is_noted_for_what_other_webhooks_make_of_a_spec() -> None:
    hooks = hooks_of(serves())
    again = [name for name, hook in hooks.items() if hook.get("reinvocationPolicy") == "IfNeeded"]
    assert again == ["requester"]
