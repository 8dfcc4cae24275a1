from __future__ import annotations

import pytest
from tests.unit.sandbox.api import CONFIGMAPS, CRDS, WIDGETS, Api, configmap, crd, widget

from fairlead.api.meta import JSON
from fairlead_sandbox.resources.metadata import generated_name


@pytest.fixture
async def widgets(api: Api) -> None:
    assert (await api.post(CRDS, crd())).code == 201


JUNK: JSON = {"spec": {"size": 1, "junk": 1, "parts": [{"name": "a", "odd": 2}]}, "more": 3}


async def test_unknown_fields_are_refused_where_the_client_is_strict(
    api: Api, widgets: None
) -> None:
    reply = await api.post(f"{WIDGETS}?fieldValidation=Strict", widget("a", **JUNK))
    assert reply.code == 400
    assert reply.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown '
        'field "more", unknown field "spec.junk", unknown field "spec.parts[0].odd"'
    )


async def test_unknown_fields_are_warned_of(api: Api, widgets: None) -> None:
    reply = await api.post(f"{WIDGETS}?fieldValidation=Warn", widget("a", spec={"junk": 1}))
    assert reply.code == 201
    assert reply.headers["Warning"] == '299 - "unknown field \\"spec.junk\\""'
    assert reply.body["spec"] == {}


async def test_built_in_kinds_drop_what_they_do_not_have(api: Api) -> None:
    reply = await api.post(CONFIGMAPS, configmap("a") | {"junk": 1})
    assert "junk" not in reply.body
    reply = await api.post(f"{CONFIGMAPS}?fieldValidation=Strict", configmap("b") | {"junk": 1})
    assert 'strict decoding error: unknown field "junk"' in reply.message


async def test_deprecated_versions_warn(api: Api) -> None:
    await api.post(CRDS, crd(deprecated=True))
    assert (await api.get(WIDGETS)).headers["Warning"] == (
        '299 - "example.org/v1 Widget is deprecated"'
    )
    assert "Warning" not in (await api.get(CONFIGMAPS)).headers


async def test_immutable_means_it(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("a") | {"immutable": True})
    reply = await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "w"}})
    assert reply.message == (
        'ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set'
    )
    reply = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"l": "v"}}})
    assert reply.code == 200


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        pytest.param(
            {"metadata": {"name": "a"}, "data": {"k": "no base64!"}},
            400,
            "data[k]: illegal base64 data",
            id="base64",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "stringData": {"k": 1}},
            400,
            "Go struct field Secret.stringData of type string",
            id="text",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "data": {"a b": ""}}, 422, "data[a b]: Invalid", id="key"
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "type": "kubernetes.io/service-account-token"},
            422,
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
            id="account",
        ),
    ],
)
async def test_secrets_are_checked(api: Api, body: JSON, code: int, message: str) -> None:
    reply = await api.post("/api/v1/namespaces/default/secrets", body)
    assert reply.code == code
    assert message in reply.message
    assert "no base64!" not in reply.message


async def test_bodies_have_a_limit(api: Api) -> None:
    reply = await api.post(CONFIGMAPS, configmap("a", annotations={"a": "x" * 3_200_000}))
    assert (reply.code, reply.body["reason"]) == (413, "RequestEntityTooLarge")
    assert (
        await api.post(CONFIGMAPS, configmap("a") | {"data": {"k": "x" * 1_000_000}})
    ).code == (201)


async def test_scale_sees_the_replicas_of_any_kind(api: Api, widgets: None) -> None:
    await api.post(WIDGETS, widget("a", spec={"size": 2}))
    scale = (await api.get(f"{WIDGETS}/a/scale")).body
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0},
    )
    assert (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})).code == 200
    assert (await api.get(f"{WIDGETS}/a")).body["spec"]["size"] == 5
    scale["spec"]["replicas"] = 7
    reply = await api.send("PUT", f"{WIDGETS}/a/scale", scale)
    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    reply = await api.patch(f"{WIDGETS}/a/scale", {}, "application/apply-patch+yaml")
    assert (reply.code, reply.body["reason"]) == (415, "UnsupportedMediaType")
    reply = await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": -1}})
    assert "should be a non-negative integer" in reply.message


async def test_deployments_count_generations_and_scale(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec: JSON = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    made = (await api.post(path, {"metadata": {"name": "a"}, "spec": spec})).body
    assert (made["metadata"]["generation"], made["spec"]["replicas"]) == (1, 1)
    scale = (await api.get(f"{path}/a/scale")).body
    assert scale["status"]["selector"] == "app=a"
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
    kind = "application/strategic-merge-patch+json"
    changed = (await api.patch(f"{path}/a", patch, kind)).body
    assert changed["metadata"]["generation"] == 2
    reply = await api.post(path, {"metadata": {"name": "b"}, "spec": {"template": {}}})
    assert reply.message == (
        'Deployment.apps "b" is invalid: [spec.selector: Required value, '
        "spec.template.metadata.labels: Invalid value: null: `selector` does not "
        "match template `labels`, spec.template.spec.containers: Required value]"
    )


async def test_events_are_one_thing_in_two_groups(api: Api) -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    old = "/api/v1/namespaces/default/events"
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {
        "metadata": {"name": "e"},
        "regarding": regarding,
        "note": "well",
        "reason": "R",
        "reportingController": "c",
        "type": "Normal",
    }
    made = await api.post(new, event)
    assert (made.code, made.body["apiVersion"]) == (201, "events.k8s.io/v1")
    seen = (await api.get(f"{old}/e")).body
    assert seen["apiVersion"] == "v1"
    assert seen["involvedObject"] == regarding
    assert (seen["message"], seen["reportingComponent"]) == ("well", "c")
    for path, field in ((old, "involvedObject.name"), (new, "regarding.name")):
        found = (await api.get(f"{path}?fieldSelector={field}%3Dp")).body["items"]
        assert [item["metadata"]["name"] for item in found] == ["e"]
        assert not (await api.get(f"{path}?fieldSelector={field}%3Dq")).body["items"]


async def test_what_a_binding_binds_to_cannot_change(api: Api) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    body = {"metadata": {"name": "a:b"}, "roleRef": {"kind": "Role", "name": "r"}}
    assert (await api.post(path, body)).code == 201
    reply = await api.patch(f"{path}/a:b", {"roleRef": {"name": "other"}})
    assert reply.code == 422
    assert "roleRef: Invalid value" in reply.message


def test_generated_names_fit() -> None:
    name = generated_name("x" * 80)
    assert len(name) == 63
    assert name.startswith("x" * 58)
