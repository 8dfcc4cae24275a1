"""Admission webhooks: when they are asked, what they are asked, what their answers do."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web
from tests.contract.support import (
    GROUP,
    OLD_WIDGETS,
    WIDGETS,
    configmap,
    eventually,
    widget,
)
from tests.support import webhooks
from tests.support.planes import ControlPlane
from tests.support.webhooks import (
    MUTATING,
    VALIDATING,
    Review,
    WebhookServer,
    add,
    allow,
    configuration,
    data,
    deny,
    patch,
    rule,
)

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, NAMESPACES
from fairlead.client import ApiError, Client, Conflict, Invalid, NotFound, parse_kubeconfig
from fairlead.client.wire import object_path


@pytest.fixture
async def hooks() -> AsyncIterator[WebhookServer]:
    async with WebhookServer() as server:
        yield server


async def cached(client: Client, written: Object) -> None:
    """Wait until the server's watch cache has a ConfigMap as it was written.

    A real server has a change reviewed against what is in its cache, and once more where that
    turns out to be outdated.
    """
    path = object_path(CONFIGMAPS, written.meta.name, written.meta.namespace)

    async def has_it() -> bool:
        try:
            body = await client.request("GET", path, params={"resourceVersion": "0"})
        except NotFound:
            return False
        version: str = json.loads(body)["metadata"]["resourceVersion"]
        return version == written.meta.resource_version

    await eventually(has_it)


async def refused(client: Client, namespace: str, body: JSON | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIGMAPS, body or configmap("a"), namespace)
    return caught.value


# Configurations


async def test_a_configuration_is_completed(client: Client) -> None:
    name = f"complete-{uuid.uuid4().hex[:8]}"
    hook: JSON = {
        "name": "a.hooks.example.org",
        "clientConfig": {"service": {"name": "web", "namespace": "default"}},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {"nobody": "has-it"}},
    }
    made = (
        await client.create(MUTATING, {"metadata": {"name": name}, "webhooks": [hook]})
    ).to_dict()
    await client.delete(MUTATING, name)
    assert made["metadata"]["generation"] == 1
    assert made["webhooks"] == [
        {
            **hook,
            "clientConfig": {"service": {"name": "web", "namespace": "default", "port": 443}},
            "rules": [{**rule(), "scope": "*"}],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "timeoutSeconds": 10,
            "reinvocationPolicy": "Never",
        }
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"name": "a.b"}, "name: Invalid value: .*at least three segments", id="name"),
        pytest.param({"name": ""}, r"webhooks\[0\].name: Required value", id="no name"),
        pytest.param(
            {"clientConfig": {}},
            "clientConfig: Required value: exactly one of url or service is required",
            id="nowhere",
        ),
        pytest.param(
            {"clientConfig": {"url": "http://a/"}},
            "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
            id="http",
        ),
        pytest.param(
            {"clientConfig": {"url": "https://a/?b=c"}},
            'url: Invalid value: "b=c": query parameters are not permitted in the URL',
            id="query",
        ),
        pytest.param(
            {"sideEffects": "Some"}, 'sideEffects: Unsupported value: "Some"', id="side effects"
        ),
        pytest.param(
            {"sideEffects": None},
            "sideEffects: Required value: must specify one of None, NoneOnDryRun",
            id="no side effects",
        ),
        pytest.param(
            {"admissionReviewVersions": []},
            "admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            id="no versions",
        ),
        pytest.param(
            {"admissionReviewVersions": ["v9"]},
            "admissionReviewVersions: Invalid value: .*must include at least one of v1, v1beta1",
            id="versions",
        ),
        pytest.param(
            {"timeoutSeconds": 31},
            "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30",
            id="too long",
        ),
        pytest.param(
            {"failurePolicy": "Odd"}, 'failurePolicy: Unsupported value: "Odd"', id="failure"
        ),
        pytest.param({"matchPolicy": "Odd"}, 'matchPolicy: Unsupported value: "Odd"', id="match"),
        pytest.param(
            {"rules": [rule("CREATE", "*")]},
            r"rules\[0\].operations: Invalid value: .*if '\*' is present, must not specify other",
            id="operations",
        ),
        pytest.param(
            {"rules": [rule("READ")]},
            r"rules\[0\].operations\[0\]: Unsupported value: \"READ\"",
            id="operation",
        ),
        pytest.param(
            {"rules": [{"operations": ["CREATE"]}]},
            r"rules\[0\].apiGroups: Required value",
            id="empty rule",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}},
            "namespaceSelector.*not a valid selector operator|namespaceSelector.*Odd",
            id="selector",
        ),
    ],
)
async def test_a_wrong_configuration_is_refused(client: Client, change: JSON, text: str) -> None:
    hook: JSON = {
        "name": "a.hooks.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {"nobody": "has-it"}},
        **change,
    }
    with pytest.raises(Invalid, match=text):
        await client.create(
            VALIDATING, {"metadata": {"name": "wrong"}, "webhooks": [hook]}, dry_run=True
        )


# What is asked


async def test_a_create_is_reviewed(client: Client, namespace: str, hooks: WebhookServer) -> None:
    one = [hooks.hook("/one")]
    async with hooks.installed(client, namespace, mutating=[hooks.hook("/first")], validating=one):
        made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    ((first, before), (second, asked)) = hooks.seen
    assert (first, second) == ("/first", "/one")
    expected = {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a",
        "namespace": namespace,
        "operation": "CREATE",
        "oldObject": None,
        "dryRun": False,
    }
    assert expected.items() <= before.items()
    assert expected.items() <= asked.items()
    assert asked["options"]["kind"] == "CreateOptions"
    assert "system:masters" in asked["userInfo"]["groups"]
    assert "uid" not in before["object"]["metadata"]
    assert asked["object"]["metadata"]["uid"] == made.meta.uid
    assert asked["object"]["data"] == {"key": "value"}


async def test_each_write_is_reviewed_with_what_it_changes(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    every = [hooks.hook("/every", rules=[rule("*")])]
    async with hooks.installed(client, namespace, validating=every):
        old = await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"key": "new"}})
        await cached(client, old)
        put = await client.update(CONFIGMAPS, {**old.to_dict(), "data": {"key": "put"}})
        made = await client.apply(CONFIGMAPS, {**_named("b", namespace), "data": {"k": "v"}})
        await cached(client, made)
        await client.apply(CONFIGMAPS, {**_named("b", namespace), "data": {"k": "w"}})
        await cached(client, put)
        await client.delete(CONFIGMAPS, "a", namespace)
    found = [
        (
            asked["operation"],
            asked["options"]["kind"],
            (asked["object"] or {}).get("data"),
            (asked["oldObject"] or {}).get("data"),
        )
        for asked in hooks.asked("/every")
    ]
    assert found == [
        ("UPDATE", "UpdateOptions", {"key": "new"}, {"key": "value"}),
        ("UPDATE", "UpdateOptions", {"key": "put"}, {"key": "new"}),
        ("CREATE", "CreateOptions", {"k": "v"}, None),
        ("UPDATE", "UpdateOptions", {"k": "w"}, {"k": "v"}),
        ("DELETE", "DeleteOptions", None, {"key": "put"}),
    ]


def _named(name: str, namespace: str) -> JSON:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def of_widgets(*operations: str, **more: Any) -> JSON:
    given = {"apiGroups": [GROUP], "resources": ["widgets"], **more}
    return {**rule(*operations), **given}


async def test_an_update_shows_the_status_that_is_stored(
    client: Client, namespace: str, hooks: WebhookServer, widgets: None
) -> None:
    made = await client.create(WIDGETS, widget("a"), namespace)
    done = {**made.to_dict(), "status": {"ready": True}}
    made = await client.update(WIDGETS, done, subresource="status")
    rules = [of_widgets("UPDATE", resources=["widgets", "widgets/status"])]
    async with hooks.installed(client, namespace, validating=[hooks.hook("/one", rules=rules)]):
        body = made.to_dict()
        await client.update(WIDGETS, {**body, "spec": {"size": 2}, "status": {"ready": False}})
        await client.merge_patch(
            WIDGETS, "a", namespace, {"status": {"ready": False}}, subresource="status"
        )
    main, status = hooks.asked("/one")
    assert main["object"]["status"] == {"ready": True}
    assert "subResource" not in main
    assert main["object"]["spec"] == {"size": 2, "color": "red"}
    assert status["subResource"] == status["requestSubResource"] == "status"
    assert status["object"]["status"] == {"ready": False}


async def test_what_a_kind_leaves_to_the_server_is_there_before_webhooks(
    client: Client, namespace: str, hooks: WebhookServer, widgets: None
) -> None:
    body = widget("a", odd=1)
    rules = [of_widgets()]
    async with hooks.installed(client, namespace, mutating=[hooks.hook("/one", rules=rules)]):
        await client.create(WIDGETS, body, namespace)
    (asked,) = hooks.asked("/one")
    assert asked["object"]["spec"] == {"size": 1, "color": "red"}


@pytest.mark.parametrize(
    ("more", "names"),
    [
        pytest.param({}, ["a"], id="create"),
        pytest.param({"rules": [rule("UPDATE")]}, [], id="another operation"),
        pytest.param({"rules": [rule(resources="secrets")]}, [], id="another resource"),
        pytest.param({"rules": [rule(resources="*")]}, ["a"], id="every resource"),
        pytest.param({"rules": [rule(resources="*/*")]}, ["a"], id="with subresources"),
        pytest.param({"rules": [rule(resources="configmaps/status")]}, [], id="subresource"),
        pytest.param({"rules": [rule(scope="Cluster")]}, [], id="of the cluster"),
        pytest.param({"rules": [rule(scope="Namespaced")]}, ["a"], id="in namespaces"),
        pytest.param({"rules": [{**rule(), "apiGroups": ["apps"]}]}, [], id="another group"),
        pytest.param({"rules": [{**rule(), "apiVersions": ["*"]}]}, ["a"], id="every version"),
        pytest.param({"rules": []}, [], id="no rules"),
        pytest.param(
            {"objectSelector": {"matchLabels": {"a": "b"}}}, ["a"], id="labels of the object"
        ),
        pytest.param(
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
            [],
            id="other labels",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"webhooks-of": "nobody"}}},
            [],
            id="another namespace",
        ),
    ],
)
async def test_webhooks_say_what_they_are_asked_about(
    client: Client, namespace: str, hooks: WebhookServer, more: JSON, names: list[str]
) -> None:
    async with hooks.installed(client, namespace, validating=[hooks.hook("/one", **more)]):
        await client.create(CONFIGMAPS, configmap("a", labels={"a": "b"}), namespace)
    found = [
        asked["name"]
        for asked in hooks.asked("/one")
        if asked["resource"]["resource"] == "configmaps"
    ]
    assert found == names


async def test_an_object_is_selected_by_the_labels_that_it_loses(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    await client.create(CONFIGMAPS, configmap("a", labels={"a": "b"}), namespace)
    selector: Any = {"objectSelector": {"matchLabels": {"a": "b"}}, "rules": [rule("UPDATE")]}
    async with hooks.installed(client, namespace, validating=[hooks.hook("/one", **selector)]):
        without: JSON = {"metadata": {"labels": None}}
        await cached(client, await client.merge_patch(CONFIGMAPS, "a", namespace, without))
        await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"key": "new"}})
    assert len(hooks.asked("/one")) == 1


@pytest.mark.parametrize(("policy", "kinds"), [("Equivalent", [("v1", "v1beta1")]), ("Exact", [])])
async def test_a_rule_of_one_version_is_for_all(
    client: Client,
    namespace: str,
    hooks: WebhookServer,
    widgets: None,
    policy: str,
    kinds: list[tuple[str, str]],
) -> None:
    one = hooks.hook("/one", rules=[of_widgets()], matchPolicy=policy)
    async with hooks.installed(client, namespace, validating=[one]):
        old = widget("a") | {"apiVersion": OLD_WIDGETS.api_version}
        await client.create(OLD_WIDGETS, old, namespace)
    asked = hooks.asked("/one")
    assert [(one["kind"]["version"], one["requestKind"]["version"]) for one in asked] == kinds
    assert [one["object"]["apiVersion"] for one in asked] == [WIDGETS.api_version] * len(kinds)


async def test_a_patch_in_another_version_arrives(
    client: Client, namespace: str, hooks: WebhookServer, widgets: None
) -> None:
    one = hooks.hook("/one", patch(add("/spec/color", "blue")), rules=[of_widgets()])
    async with hooks.installed(client, namespace, mutating=[one]):
        old = widget("a") | {"apiVersion": OLD_WIDGETS.api_version}
        made = await client.create(OLD_WIDGETS, old, namespace)
    assert made.to_dict()["spec"]["color"] == "blue"
    assert made.api_version == OLD_WIDGETS.api_version


async def test_webhooks_are_not_asked_about_their_configurations(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    rules = [{**rule("*", resources="*"), "apiGroups": [webhooks.GROUP], "apiVersions": ["*"]}]
    async with hooks.installed(
        client, namespace, validating=[hooks.hook("/one", deny(), rules=rules)]
    ):
        name = f"other-{namespace}"
        await client.create(VALIDATING, configuration(VALIDATING, name, "nobody", []))
        await client.delete(VALIDATING, name)
    assert hooks.asked("/one") == []


async def test_the_namespace_itself_is_selected_by_its_labels(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    one = hooks.hook(
        "/one", deny(message="no"), rules=[rule("CREATE", "UPDATE", resources="namespaces")]
    )
    name = f"{namespace}-more"
    async with hooks.installed(client, namespace, validating=[one]):
        labelled: JSON = {"name": name, "labels": {webhooks.LABEL: namespace}}
        with pytest.raises(ApiError, match="denied the request: no"):
            await client.create(NAMESPACES, {"metadata": labelled})
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await client.delete(NAMESPACES, name)
    assert len(hooks.asked("/one")) == 1


# Refusals


@pytest.mark.parametrize(
    ("status", "code", "reason", "text"),
    [
        pytest.param({}, 400, "", " without explanation", id="nothing"),
        pytest.param({"message": "because"}, 400, "", ": because", id="message"),
        pytest.param({"reason": "Odd"}, 400, "Odd", ": Odd", id="reason"),
        pytest.param(
            {"code": 403, "reason": "Forbidden", "message": "no"},
            403,
            "Forbidden",
            ": no",
            id="all of it",
        ),
        pytest.param({"code": 200, "message": "no"}, 400, "", ": no", id="no code of an error"),
        pytest.param({"code": 422, "message": "no"}, 422, "", ": no", id="code"),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_denial_says_what_the_webhook_says(
    client: Client,
    namespace: str,
    hooks: WebhookServer,
    kind: str,
    status: JSON,
    code: int,
    reason: str,
    text: str,
) -> None:
    given: Any = {kind: [hooks.hook("/one", deny(**status))]}
    async with hooks.installed(client, namespace, **given):
        error = await refused(client, namespace)
    whole = f'admission webhook "one.hooks.example.org" denied the request{text}'
    assert (error.code, error.reason, error.message) == (code, reason, whole)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_updates_and_deletes_are_denied_too(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    one = hooks.hook("/one", deny(message="no"), rules=[rule("UPDATE", "DELETE")])
    async with hooks.installed(client, namespace, validating=[one]):
        with pytest.raises(ApiError, match="denied the request: no"):
            await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"key": "new"}})
        with pytest.raises(ApiError, match="denied the request: no"):
            await client.delete(CONFIGMAPS, "a", namespace)
        with pytest.raises(ApiError, match="denied the request: no"):
            await client.delete_collection(CONFIGMAPS, namespace, fields="metadata.name=a")
    assert data(await client.get(CONFIGMAPS, "a", namespace)) == {"key": "value"}


async def test_each_object_of_a_collection_is_asked_about(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    for name in ("a", "b", "c"):
        await client.create(CONFIGMAPS, configmap(name, labels={"of": "many"}), namespace)
    one = hooks.hook("/one", rules=[rule("DELETE")])
    async with hooks.installed(client, namespace, validating=[one]):
        await client.delete_collection(CONFIGMAPS, namespace, labels="of=many")
    asked = hooks.asked("/one")
    assert sorted(one["oldObject"]["metadata"]["name"] for one in asked) == ["a", "b", "c"]
    assert all("name" not in one for one in asked)
    assert not (await client.list(CONFIGMAPS, namespace, labels="of=many")).items


async def test_validation_comes_before_validating_webhooks(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    body = configmap("a") | {"data": {"odd key": "value"}}
    async with hooks.installed(client, namespace, validating=[hooks.hook("/one")]):
        error = await refused(client, namespace, body)
    assert isinstance(error, Invalid)
    assert hooks.asked("/one") == []


# Changes


async def test_a_patch_changes_what_is_stored(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    more = patch(add("/data/more", "x"), {"op": "remove", "path": "/data/key"})
    async with hooks.installed(
        client,
        namespace,
        mutating=[hooks.hook("/one", more, rules=[rule("CREATE", "UPDATE")])],
        validating=[hooks.hook("/two")],
    ):
        made = await client.create(CONFIGMAPS, configmap("a"), namespace)
        assert data(made) == {"more": "x"}
        changed = await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"key": "new"}})
        assert data(changed) == {"more": "x"}
    assert hooks.asked("/two")[0]["object"]["data"] == {"more": "x"}


async def test_a_patch_that_makes_an_object_invalid_is_refused(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    one = hooks.hook("/one", patch(add("/data/odd key", "x")))
    async with hooks.installed(client, namespace, mutating=[one]):
        error = await refused(client, namespace)
    assert isinstance(error, Invalid)


async def test_mutating_webhooks_see_one_another_in_order(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    later = [hooks.hook("/third", patch(add("/data/third", "x")))]
    sooner = [
        hooks.hook("/second", patch(add("/data/second", "x"))),
        hooks.hook("/first", patch(add("/data/first", "x"))),
    ]
    async with (
        hooks.installed(client, namespace, mutating=later, name="b"),
        hooks.installed(client, namespace, mutating=sooner, name="a"),
    ):
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    assert [(path, sorted(asked["object"]["data"])) for path, asked in hooks.seen] == [
        ("/second", ["key"]),
        ("/first", ["key", "second"]),
        ("/third", ["first", "key", "second"]),
    ]


@pytest.mark.parametrize(
    ("policies", "change", "order"),
    [
        pytest.param(("IfNeeded", "Never"), True, ["/a", "/b", "/a"], id="changed later"),
        pytest.param(("IfNeeded", "Never"), False, ["/a", "/b"], id="unchanged"),
        pytest.param(("Never", "IfNeeded"), True, ["/a", "/b"], id="changed by itself"),
        pytest.param(("IfNeeded", "IfNeeded"), True, ["/a", "/b", "/a"], id="both"),
    ],
)
async def test_a_webhook_is_asked_again_if_it_wants(
    client: Client,
    namespace: str,
    hooks: WebhookServer,
    policies: tuple[str, str],
    change: bool,
    order: list[str],
) -> None:
    second = patch(add("/data/b", "x")) if change else allow
    mutating = [
        hooks.hook("/a", reinvocationPolicy=policies[0]),
        hooks.hook("/b", second, reinvocationPolicy=policies[1]),
    ]
    async with hooks.installed(client, namespace, mutating=mutating):
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    assert [path for path, _ in hooks.seen] == order


async def test_a_delete_cannot_be_changed(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    one = hooks.hook("/one", patch(add("/data/b", "x")), rules=[rule("DELETE")])
    text = 'webhook "one.hooks.example.org" attempted to modify the object, which is not supported'
    async with hooks.installed(client, namespace, mutating=[one]):
        with pytest.raises(ApiError, match=text) as caught:
            await client.delete(CONFIGMAPS, "a", namespace)
    assert caught.value.code == 500


async def test_a_dry_run_asks_too(client: Client, namespace: str, hooks: WebhookServer) -> None:
    one = hooks.hook("/one", patch(add("/data/b", "x")), sideEffects="NoneOnDryRun")
    async with hooks.installed(client, namespace, mutating=[one]):
        made = await client.create(CONFIGMAPS, configmap("a"), namespace, dry_run=True)
    assert data(made) == {"key": "value", "b": "x"}
    assert [asked["dryRun"] for asked in hooks.asked("/one")] == [True]
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_a_generated_name_is_the_one_that_was_seen(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    body: JSON = {"metadata": {"generateName": "made-"}, "data": {"key": "value"}}
    async with hooks.installed(client, namespace, validating=[hooks.hook("/one")]):
        made = await client.create(CONFIGMAPS, body, namespace)
    (asked,) = hooks.asked("/one")
    assert asked["object"]["metadata"]["name"] == made.meta.name
    assert asked["object"]["metadata"]["uid"] == made.meta.uid


async def test_warnings_reach_the_client(
    control_plane: ControlPlane, namespace: str, client: Client, hooks: WebhookServer
) -> None:
    one = hooks.hook("/one", lambda request: {"allowed": True, "warnings": ['do "not"', "b"]})
    two = hooks.hook("/two", lambda request: {"allowed": False, "warnings": ["last"]})
    with structlog.testing.capture_logs() as logs:
        async with (
            Client(parse_kubeconfig(control_plane.kubeconfig())) as fresh,
            hooks.installed(client, namespace, mutating=[one], validating=[two]),
        ):
            await refused(fresh, namespace)
    found = [entry["warning"] for entry in logs if entry["event"] == "API server warning"]
    assert found == ['do "not"', "b", "last"]


async def test_a_large_object_is_reviewed(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    body = configmap("a") | {"data": {"key": "x" * 300_000}}
    async with hooks.installed(
        client,
        namespace,
        mutating=[hooks.hook("/one", patch(add("/data/b", "x")))],
        validating=[hooks.hook("/two", rules=[rule("CREATE", "UPDATE")])],
    ):
        made = await client.create(CONFIGMAPS, body, namespace)
        await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"c": "x"}})
        hooks.reviews["/two"] = deny(message="no")
        with pytest.raises(ApiError, match="denied the request: no"):
            await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"d": "x"}})
    assert sorted(data(made)) == ["b", "key"]
    created, changed, *_ = hooks.asked("/two")
    assert created["object"]["metadata"]["uid"] == made.meta.uid
    assert created["userInfo"]["groups"]
    assert sorted(changed["object"]["data"]) == ["b", "c", "key"]
    assert sorted(data(await client.get(CONFIGMAPS, "a", namespace))) == ["b", "c", "key"]


async def test_a_webhook_may_compress_for_those_who_can_read_it(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    def compressed(request: JSON) -> web.Response:
        answer = {"uid": request["uid"], "allowed": False, "status": {"message": "told so"}}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        response = web.json_response(body)
        # Only if the request offers to read it.
        response.enable_compression()
        return response

    async with hooks.installed(client, namespace, validating=[hooks.hook("/one", compressed)]):
        assert (await refused(client, namespace)).message.endswith("denied the request: told so")


# Webhooks that cannot be asked


def raw(text: str, code: int = 200) -> Review:
    return lambda request: web.Response(text=text, status=code, content_type="application/json")


def answer(**more: Any) -> Review:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **more}
    return raw(json.dumps(body))


GARBAGE = [
    pytest.param(raw("{"), "", id="no JSON"),
    pytest.param(raw("oh", 500), "has prevented the request from succeeding", id="500"),
    pytest.param(raw("", 404), "could not find the requested resource", id="404"),
    pytest.param(answer(), "webhook response was absent", id="no response"),
    pytest.param(
        answer(response={"uid": "odd", "allowed": True}),
        'expected response.uid="[-0-9a-f]{36}", got "odd"',
        id="another uid",
    ),
]
BAD_PATCHES = [
    pytest.param(
        lambda request: {"allowed": True, "patch": "W10="},
        "webhook returned response.patch but not response.patchType",
        id="no type",
    ),
    pytest.param(
        lambda request: {"allowed": True, "patchType": "JSONPatch"},
        "webhook returned response.patchType but not response.patch",
        id="no patch",
    ),
    pytest.param(
        patch(add("/data/b", "x"), patchType="Odd"),
        'patchType of "Odd"|unsupported patch type "Odd"',
        id="another type",
    ),
]


@pytest.mark.parametrize(("review", "text"), [*GARBAGE, *BAD_PATCHES])
async def test_garbage_is_a_failure(
    client: Client, namespace: str, hooks: WebhookServer, review: Review, text: str
) -> None:
    one = hooks.hook("/one", review)
    async with hooks.installed(client, namespace, mutating=[one]):
        error = await refused(client, namespace)
    head = 'Internal error occurred: failed calling webhook "one.hooks.example.org": '
    assert (error.code, error.reason) == (500, "InternalError")
    assert re.match(re.escape(head) + f".*({text})", error.message)


@pytest.mark.parametrize(("review", "text"), GARBAGE)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_garbage_is_passed_over_where_that_is_allowed(
    client: Client, namespace: str, hooks: WebhookServer, kind: str, review: Review, text: str
) -> None:
    given: Any = {kind: [hooks.hook("/one", review, failurePolicy="Ignore"), hooks.hook("/two")]}
    async with hooks.installed(client, namespace, **given):
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    assert len(hooks.asked("/one")) == len(hooks.asked("/two")) == 1


async def test_a_validating_webhook_may_not_patch(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    one = hooks.hook("/one", patch(add("/data/b", "x")))
    async with hooks.installed(client, namespace, validating=[one]):
        error = await refused(client, namespace)
    assert "validating webhook may not return response.patch" in error.message


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_patch_that_does_not_fit_is_never_passed_over(
    client: Client, namespace: str, hooks: WebhookServer, policy: str
) -> None:
    one = hooks.hook("/one", patch({"op": "remove", "path": "/data/absent"}), failurePolicy=policy)
    async with hooks.installed(client, namespace, mutating=[one]):
        error = await refused(client, namespace)
    assert (error.code, error.reason) == (500, "InternalError")


def elsewhere(url: str, bundle: str) -> JSON:
    return {"clientConfig": {"url": url, "caBundle": bundle}}


async def test_a_webhook_that_is_not_there(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    url = "https://127.0.0.1:1/one"
    one = hooks.hook("/one", **elsewhere(url, hooks.bundle))
    async with hooks.installed(client, namespace, validating=[one]):
        error = await refused(client, namespace)
    assert re.fullmatch(
        'Internal error occurred: failed calling webhook "one.hooks.example.org": '
        f'(failed to call webhook: )?Post "{url}\\?timeout=10s": '
        "dial tcp 127.0.0.1:1: connect: connection refused",
        error.message,
    )


async def test_a_webhook_with_another_certificate(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    async with WebhookServer() as other:
        one = hooks.hook("/one", **elsewhere(hooks.url + "/one", other.bundle))
        async with hooks.installed(client, namespace, validating=[one]):
            error = await refused(client, namespace)
    assert "x509: certificate signed by unknown authority" in error.message
    assert hooks.asked("/one") == []


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_webhook_that_hangs_stops_nobody_else(
    client: Client, namespace: str, hooks: WebhookServer, kind: str
) -> None:
    asked, free = asyncio.Event(), asyncio.Event()

    async def hang(request: JSON) -> JSON:
        asked.set()
        await free.wait()
        return {"allowed": True}

    selector = {"objectSelector": {"matchLabels": {"slow": "yes"}}, "timeoutSeconds": 30}
    given: Any = {kind: [hooks.hook("/slow", hang, **selector), hooks.hook("/two")]}
    async with hooks.installed(client, namespace, **given):
        slow = configmap("slow", labels={"slow": "yes"})
        waiting = asyncio.create_task(client.create(CONFIGMAPS, slow, namespace))
        await asked.wait()
        await client.create(CONFIGMAPS, configmap("a"), namespace)
        assert not waiting.done()
        free.set()
        await waiting


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_has_so_much_time(
    client: Client, namespace: str, hooks: WebhookServer, policy: str
) -> None:
    async def hang(request: JSON) -> JSON:
        await asyncio.Event().wait()
        return {}

    one = hooks.hook("/one", hang, timeoutSeconds=1, failurePolicy=policy)
    async with hooks.installed(client, namespace, mutating=[one]):
        if policy == "Ignore":
            await client.create(CONFIGMAPS, configmap("a"), namespace)
            return
        error = await refused(client, namespace)
    assert re.fullmatch(
        'Internal error occurred: failed calling webhook "one.hooks.example.org": '
        f'(failed to call webhook: )?Post "{hooks.url}/one\\?timeout=1s": context deadline '
        "exceeded",
        error.message,
    )


async def test_what_changes_while_a_webhook_is_asked(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    """A PUT conflicts; a patch is made again, and what is stored is what the webhook saw."""
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    numbers = iter(range(100))

    async def meddle(request: JSON) -> JSON:
        if "late" in request["object"]["data"]:
            return {"allowed": True}
        number = str(next(numbers))
        if int(number) < 2:
            await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"late": number}})
        return {"allowed": True}

    one = hooks.hook("/one", meddle, rules=[rule("UPDATE")])
    async with hooks.installed(client, namespace, validating=[one]):
        with pytest.raises(Conflict):
            await client.update(CONFIGMAPS, {**made.to_dict(), "data": {"put": "x"}})
        await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"late": None}})
        found = await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"mine": "x"}})
    assert data(found)["mine"] == "x"
    stored = data(await client.get(CONFIGMAPS, "a", namespace))
    assert hooks.asked("/one")[-1]["object"]["data"] == stored


async def test_built_in_defaults_are_there(
    client: Client, namespace: str, hooks: WebhookServer
) -> None:
    rules = [{**rule(), "apiGroups": ["apps"], "resources": ["deployments"]}]
    labels = {"app": "a"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        },
    }
    one = hooks.hook("/one", patch(add("/spec/replicas", 3)), rules=rules)
    async with hooks.installed(client, namespace, mutating=[one]):
        made = await client.create(
            DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec}, namespace
        )
    (asked,) = hooks.asked("/one")
    assert asked["object"]["spec"]["replicas"] == 1
    assert made.to_dict()["spec"]["replicas"] == 3
