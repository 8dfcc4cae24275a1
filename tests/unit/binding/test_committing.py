"""What a context collected, on its way to the server."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.cluster import FakeCluster, content
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    message,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.patch import apply_merge_patch
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.status import Status, StatusCause, StatusDetails
from fairlead.binding.cluster.committing import Committer
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.workloads.workload import Workload
from fairlead.client import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
)
from fairlead.runtime import EventRecorder


FORBIDDEN = Forbidden(
    Status("Failure", 'x is forbidden: User "sa" cannot patch resource "x"', "Forbidden", 403)
)
DENIED = Forbidden(Status("Failure", 'admission webhook "a.b" denied the request: no', "", 403))
INVALID = Invalid(Status("Failure", "template is immutable", "Invalid", 422))


def binding(**spec: Any) -> JSON:
    return spec_binding(service=SECRET_SERVICE, **spec)


def collected(body: JSON, *workloads: JSON) -> BaseContext:
    return FakeCluster(objects=[secret(), *(workloads or [deployment()])]).process(body)


class Events:
    """An event recorder that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, obj: Object, type_: str, reason: str, message: str, action: str = "") -> None:
        self.seen.append((type_, reason, message))


def committer(client: FakeClient, events: Events | None = None) -> Committer:
    return Committer(client.client, SERVICEBINDINGS, cast("EventRecorder", events or Events()))


async def commit(client: FakeClient, context: BaseContext) -> JSON:
    await committer(client).write(context)
    return client.object("ServiceBinding", "sb")


class Crowded(FakeClient):
    """Other writers change the Deployment just before each of the first writes of ours."""

    def __init__(self, *bodies: JSON, change: JSON, times: int) -> None:
        super().__init__(*bodies)
        self.change, self.left, self.tries = change, times, 0
        self.objects["Deployment", "web"]["metadata"]["resourceVersion"] = "1"

    async def merge_patch(self, resource: Resource, *args: Any, **options: Any) -> Object:
        if resource.kind == "Deployment":
            self.tries += 1
            if self.left:
                self.left -= 1
                web = self.objects["Deployment", "web"]
                web["metadata"]["resourceVersion"] = str(self.tries + 1)
                self.objects["Deployment", "web"] = apply_merge_patch(web, self.change)
        return await super().merge_patch(resource, *args, **options)


def annotated(name: str) -> JSON:
    return {"metadata": {"annotations": {name: "x"}}}


@pytest.mark.parametrize(
    ("change", "times", "tries"),
    [
        pytest.param(annotated("writer"), 9, 10, id="an annotation"),
        pytest.param({"status": {"replicas": 1}}, 1, 2, id="the status"),
        pytest.param(annotated("writer"), 99, None, id="without end"),
        pytest.param({"spec": {"replicas": 2}}, 1, None, id="the spec"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, 1, None, id="labels"),
        pytest.param({"metadata": {"uid": "other"}}, 1, None, id="made anew"),
        pytest.param({"metadata": {"deletionTimestamp": "x"}}, 1, None, id="going"),
        pytest.param(
            annotated("projection.servicebinding.io/uid-2"), 1, None, id="bound by another"
        ),
        pytest.param(
            annotated("projection.servicebinding.io/uid-sb"), 1, None, id="our own record"
        ),
        pytest.param({}, 1, 2, id="nothing but the version"),
    ],
)
async def test_a_write_that_comes_second_is_based_on_what_is_there(
    change: JSON, times: int, tries: int | None
) -> None:
    body, web = binding(), deployment()
    web["metadata"]["resourceVersion"] = "1"
    context = collected(body, web)
    client = Crowded(body, secret(), web, change=change, times=times)
    if tries is None:
        with pytest.raises(Conflict):
            await commit(client, context)
        assert "volumes" not in pod(client.object("Deployment", "web"))
        return
    assert conditions(await commit(client, context))["Ready"] == ("True", "ApplicationsBound")
    assert client.tries == tries
    web = client.object("Deployment", "web")
    assert apply_merge_patch(web, change) == web
    assert pod(web)["volumes"]
    assert any(name.startswith("projection.") for name in web["metadata"]["annotations"])


@pytest.mark.parametrize(
    ("body", "writes"),
    [
        pytest.param(
            binding(),
            [("patch", "Deployment"), ("patch", "ServiceBinding/status")],
            id="its own Secret",
        ),
        pytest.param(
            binding(type="t"),
            [
                ("create", "Secret"),
                ("patch", "Deployment"),
                ("patch", "ServiceBinding/status"),
            ],
            id="a copy",
        ),
    ],
)
async def test_the_secret_is_there_before_a_workload_refers_to_it(
    body: JSON, writes: list[tuple[str, str]]
) -> None:
    client = FakeClient(body, deployment())
    after = await commit(client, collected(body))
    assert client.writes == writes
    assert conditions(after)["Ready"] == ("True", "ApplicationsBound")
    name = after["status"]["binding"]["name"]
    assert pod(client.object("Deployment", "web"))["volumes"][0]["secret"]["secretName"] == name


async def test_nothing_is_written_when_all_is_as_it_should_be() -> None:
    body = binding(type="t")
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(body)
    client = FakeClient(body, cluster.get("deployments", "web"), *cluster.of("secrets"))
    await commit(client, cluster.process(body))
    assert client.writes == []


@pytest.mark.parametrize(
    ("verb", "resource", "error", "reason", "text"),
    [
        pytest.param(
            "patch",
            "deployments",
            FORBIDDEN,
            "ApplicationUpdateError",
            "update and patch on deployments.apps with a ClusterRole labelled",
            id="workload forbidden",
        ),
        pytest.param(
            "patch",
            "deployments",
            INVALID,
            "ApplicationUpdateError",
            "Deployment ns/web was not updated: template is immutable",
            id="workload refused",
        ),
        pytest.param(
            "patch",
            "deployments",
            DENIED,
            "ApplicationUpdateError",
            'Deployment ns/web was not updated: admission webhook "a.b" denied the request: no',
            id="workload denied",
        ),
        pytest.param(
            "create",
            "secrets",
            DENIED,
            "ErrorPersistingSecret",
            'admission webhook "a.b" denied the request: no',
            id="Secret denied",
        ),
        pytest.param(
            "create",
            "secrets",
            FORBIDDEN,
            "ErrorPersistingSecret",
            "create and patch on secrets with a ClusterRole labelled",
            id="Secret forbidden",
        ),
        pytest.param(
            "create", "secrets", INVALID, "ErrorPersistingSecret", "immutable", id="Secret refused"
        ),
    ],
)
async def test_refusals_end_up_in_the_status(
    verb: str, resource: str, error: ClientError, reason: str, text: str
) -> None:
    body = binding(type="t")
    client = FakeClient(body, deployment())
    client.fail[verb, resource] = error
    context = collected(body)
    after = await commit(client, context)
    assert conditions(after)["Ready"] == ("False", reason)
    assert text in message(after, "Ready")
    assert conditions(after)["InjectionReady"][0] == "False"
    assert text in message(after, "InjectionReady")
    assert ("ClusterRole" in message(after, "Ready")) == (error is FORBIDDEN)
    assert context.flow.transient
    assert client.object("Deployment", "web") == deployment()


_OBJECT = '{"metadata":{"name":"web"},"spec":{"adminPassword":"RIGSECRET"}}'
_SPEC = 'core.PodTemplateSpec{Spec:core.PodSpec{Env:[]core.EnvVar{Value:"RIGSECRET"}}}'
_UNREAD = 'expect [ or n, but found ", error found in #10 byte of ...|:"RIGSECRET","x"|...'


def _refused(message: str, *causes: tuple[str, str, str], code: int = 422) -> ApiError:
    found = [StatusCause(reason, text, field) for reason, text, field in causes]
    details = StatusDetails(name="web", causes=found)
    return Invalid(Status("Failure", message, "Invalid", code, details if causes else None))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            _refused(
                f"Rig web is invalid: patch: Invalid value: {_OBJECT!r}: {_UNREAD}",
                ("FieldValueInvalid", f"Invalid value: {json.dumps(_OBJECT)}: {_UNREAD}", "patch"),
            ),
            "patch: Invalid value",
            id="the whole object",
        ),
        pytest.param(
            _refused(
                f"Job web is invalid: spec.template: Invalid value: {_SPEC}: field is immutable",
                (
                    "FieldValueInvalid",
                    f"Invalid value: {_SPEC}: field is immutable",
                    "spec.template",
                ),
            ),
            "spec.template: Invalid value",
            id="as Go prints it",
        ),
        pytest.param(
            _refused(
                "Rig web is invalid",
                (
                    "FieldValueInvalid",
                    'Invalid value: {"a":{"b":"RIG: SECRET"}}: field is immutable',
                    "spec.a",
                ),
                ("FieldValueDuplicate", 'Duplicate value: {"n":"RIGSECRET"}', "spec.b[1]"),
                ("FieldValueInvalid", 'Invalid value: ["RIGSECRET"]: are too many', "spec.c"),
                ("FieldValueInvalid", 'Invalid value: []string{"RIGSECRET"}: no', "spec.d"),
                ("FieldValueInvalid", 'Invalid value: {"a":"RIGSECRET', "spec.e"),
                ("FieldValueInvalid", "Invalid value: a rule says no", "spec.f"),
                ("FieldValueTooMany", "Too many: 4: must have at most 3 items", "spec.g"),
                ("FieldValueTooLong", "Too long: may not be more than 4 bytes", "spec.h"),
            ),
            "spec.a: Invalid value: field is immutable; spec.b[1]: Duplicate value; "
            "spec.c: Invalid value: are too many; spec.d: Invalid value; spec.e: Invalid value; "
            "spec.f: Invalid value: a rule says no; spec.g: Too many: must have at most 3 items; "
            "spec.h: Too long: may not be more than 4 bytes",
            id="as 1.37 prints it",
        ),
        pytest.param(
            _refused(
                "Rig web is invalid",
                (
                    "FieldValueInvalid",
                    'Invalid value: "RIGSECRET": in body should be at most 8 chars long',
                    "spec.adminPassword",
                ),
                ("FieldValueDuplicate", 'Duplicate value: "RIGSECRET"', "spec.a[1].b"),
                ("FieldValueRequired", "Required value: must be set", "spec.c"),
                ("FieldValueRequired", "Required value", "spec.d"),
                ("FieldValueForbidden", f"Forbidden: pods may not change\n{_SPEC}", "spec"),
                ("FieldValueTypeInvalid", "Invalid value: 5: must be of type string", "spec.e"),
                ("Odd", "", "spec.f"),
            ),
            "spec.adminPassword: Invalid value: in body should be at most 8 chars long; "
            "spec.a[1].b: Duplicate value; spec.c: Required value: must be set; "
            "spec.d: Required value; spec: Forbidden: pods may not change; "
            "spec.e: Invalid value: must be of type string; spec.f: Odd",
            id="several fields",
        ),
        pytest.param(
            _refused(f"Rig cannot be handled as a Rig: v1.Rig.Spec: {_UNREAD}", code=400),
            'Rig cannot be handled as a Rig: v1.Rig.Spec: expect [ or n, but found ", ...',
            id="no causes",
        ),
        pytest.param(
            _refused('admission webhook "a.b" denied the request: no Secrets here', code=400),
            'admission webhook "a.b" denied the request: no Secrets here',
            id="a webhook",
        ),
        pytest.param(
            _refused("x", *(("R", "Required value", f"spec.f{n:03}") for n in range(100))),
            "; ".join(f"spec.f{n:03}: Required value" for n in range(100))[:496] + " ...",
            id="many fields",
        ),
    ],
)
@pytest.mark.parametrize("resource", ["deployments", "secrets"])
async def test_a_refusal_tells_why_and_not_what_was_refused(
    resource: str, error: ApiError, said: str
) -> None:
    body = binding(type="t")
    client = FakeClient(body, deployment())
    client.fail["create" if resource == "secrets" else "patch", resource] = error
    after = await commit(client, collected(body))
    told = message(after, "Ready")
    assert told.removeprefix("Deployment ns/web was not updated: ") == said
    assert "RIGSECRET" not in str(after)


def _pathed(path: str) -> JSON:
    services = [{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]
    application = {"name": "web", "bindingPath": {"secretPath": path}}
    return coreos_binding(services=services, application=application)


class Pruning(FakeClient):
    """Of a workload's spec it keeps what the schema has, as servers do."""

    async def merge_patch(self, *given: Any, **more: Any) -> Object:
        stored = (await super().merge_patch(*given, **more)).to_dict()
        stored.get("spec", {}).pop("nope", None)
        self.objects[stored["kind"], stored["metadata"]["name"]] = stored
        return object_from_dict(stored)


@pytest.mark.parametrize("path", ["spec.nope", "spec.nope.deeper"])
async def test_a_name_that_the_server_does_not_keep_is_said(path: str) -> None:
    body = _pathed(path)
    client = Pruning(body, deployment())
    context = collected(body)
    seen: list[Workload] = []
    made = Committer(
        client.client,
        COREOS_SERVICEBINDINGS,
        cast("EventRecorder", Events()),
        lambda _, workload: seen.append(workload),
    )
    await made.write(context)
    after = client.object("ServiceBinding", "sb")
    assert conditions(after)["Ready"] == ("False", "ApplicationUpdateError")
    assert conditions(after)["InjectionReady"] == ("False", "Error")
    assert f"Deployment ns/web does not keep the Secret's name at .{path}" in message(
        after, "InjectionReady"
    )
    # Nobody writes it back, so that nobody is fought.
    assert not seen


class WithoutPart(FakeClient):
    """The schema of its workloads lacks a part of the Pod's spec."""

    part = ""

    async def merge_patch(self, *given: Any, **more: Any) -> Object:
        stored = (await super().merge_patch(*given, **more)).to_dict()
        for spec in (
            (pod(stored), *pod(stored)["containers"]) if stored["kind"] == "Deployment" else ()
        ):
            spec.pop(self.part, None)
        return object_from_dict(stored)


@pytest.mark.parametrize(
    ("part", "path"),
    [
        pytest.param("volumes", ".spec.template.spec.volumes", id="volumes"),
        pytest.param(
            "volumeMounts", ".spec.template.spec.containers[app].volumeMounts", id="mounts"
        ),
        pytest.param("env", ".spec.template.spec.containers[app].env", id="variables"),
    ],
)
async def test_a_projection_that_the_server_does_not_keep_is_said(part: str, path: str) -> None:
    body = binding(type="t")
    client = WithoutPart(body, deployment())
    client.part = part
    after = await commit(client, collected(body))
    assert conditions(after)["Ready"] == ("False", "ApplicationUpdateError")
    assert f"Deployment ns/web does not keep {path}" in message(after, "InjectionReady")


async def test_a_name_that_the_server_keeps_is_where_it_was_asked_for() -> None:
    body = _pathed("metadata.annotations.login")
    client = FakeClient(body, deployment())
    await Committer(client.client, COREOS_SERVICEBINDINGS, cast("EventRecorder", Events())).write(
        collected(body)
    )
    assert conditions(client.object("ServiceBinding", "sb"))["Ready"][0] == "True"
    assert client.object("Deployment", "web")["metadata"]["annotations"]["login"] == "s1"


async def test_what_cannot_even_be_sent_is_said_and_keeps_no_other_from_being_written() -> None:
    body = binding(workload={"selector": {"matchLabels": {"a": "b"}}})
    workloads = [deployment(name, labels={"a": "b"}) for name in ("one", "two")]
    client = FakeClient(body, *workloads)
    context = collected(body, *workloads)
    context.changed_workloads()[0].body["metadata"]["name"] = "else"
    after = await commit(client, context)
    assert pod(client.object("Deployment", "two"))["volumes"]
    for type_ in ("InjectionReady", "Ready"):
        assert conditions(after)[type_][0] == "False"
        assert "Deployment ns/one cannot be updated" in message(after, type_)


async def test_what_may_be_updated_and_not_patched_is_put() -> None:
    """As roles allow that were written for the original operator."""
    body = binding()
    client = FakeClient(body, deployment())
    client.fail["patch", "deployments"] = FORBIDDEN
    client.puts = True
    after = await commit(client, collected(body))
    assert client.writes == [("update", "Deployment"), ("patch", "ServiceBinding/status")]
    assert conditions(after)["Ready"] == ("True", "ApplicationsBound")
    assert pod(client.object("Deployment", "web"))["volumes"]


async def test_one_workload_that_is_refused_keeps_no_other_from_being_written() -> None:
    body = binding(workload={"selector": {"matchLabels": {"a": "b"}}})
    workloads = [deployment(name, labels={"a": "b"}) for name in ("one", "two", "three")]
    client = FakeClient(body, *workloads)
    patch = client.merge_patch

    async def refusing(resource: Resource, name: str, *rest: Any, **more: Any) -> Object:
        if name in {"one", "three"}:
            raise INVALID
        return await patch(resource, name, *rest, **more)

    client.merge_patch = refusing  # type: ignore[method-assign]
    after = await commit(client, collected(body, *workloads))
    assert pod(client.object("Deployment", "two"))["volumes"]
    assert conditions(after)["Ready"] == ("False", "ApplicationUpdateError")
    told = message(after, "Ready")
    assert [name in told for name in ("ns/one", "ns/two", "ns/three")] == [True, False, True]


async def test_what_several_refusals_have_in_common_is_said_once() -> None:
    body = binding(workload={"selector": {"matchLabels": {"a": "b"}}})
    workloads = [deployment(name, labels={"a": "b"}) for name in ("one", "two")]
    client = FakeClient(body, *workloads)
    client.fail["patch", "deployments"] = FORBIDDEN
    after = await commit(client, collected(body, *workloads))
    told = message(after, "Ready")
    assert (told.count("get, list, watch, update and patch"), told.count("cannot")) == (1, 1)


async def test_a_secret_that_was_not_written_is_in_every_condition() -> None:
    body = binding(type="t")
    client = FakeClient(body, deployment())
    client.fail["create", "secrets"] = INVALID
    after = await commit(client, collected(body))
    for type_ in ("CollectionReady", "InjectionReady", "Ready"):
        assert conditions(after)[type_] == ("False", "ErrorPersistingSecret")


@pytest.mark.parametrize(
    ("error", "left"),
    [
        pytest.param(None, False, id="deleted"),
        pytest.param(FORBIDDEN, True, id="forbidden: it stays"),
        pytest.param(NotFound(Status("Failure", "", "NotFound", 404)), True, id="gone already"),
    ],
)
async def test_secrets_of_former_content_are_deleted(
    error: ClientError | None, left: bool
) -> None:
    body = binding(type="t")
    context = collected(body)
    context.changes.superseded = [("sb-00000000", "uid-sb-00000000")]
    client = FakeClient(body, deployment(), secret("sb-00000000"))
    if error:
        client.fail["delete", "secrets"] = error
    await committer(client).delete_superseded(context)
    assert ("Secret", "sb-00000000") in client.objects, "in the pass that changes workloads"
    await context.withhold(context.changed_selected())
    assert context.changes.superseded == [], "what no workload reads is found again"
    context.changes.superseded = [("sb-00000000", "uid-sb-00000000")]
    await committer(client).delete_superseded(context)
    assert (("Secret", "sb-00000000") in client.objects) is left


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        pytest.param(Conflict(Status("Failure", "", "Conflict", 409)), Conflict, id="conflict"),
        pytest.param(NotFound(Status("Failure", "", "NotFound", 404)), Conflict, id="gone"),
        pytest.param(ConnectionFailed("down"), ConnectionFailed, id="server is down"),
    ],
)
async def test_what_passes_is_not_in_the_status(
    error: ClientError, raised: type[ClientError]
) -> None:
    body = binding()
    client = FakeClient(body, deployment())
    client.fail["patch", "deployments"] = error
    with pytest.raises(raised):
        await commit(client, collected(body))
    assert "status" not in client.object("ServiceBinding", "sb")


async def test_a_secret_of_somebody_else_is_not_overwritten() -> None:
    body = binding(type="t")
    context = collected(body)
    assert context.changes.secret is not None
    taken = secret(context.changes.secret.name, mine="1")
    client = FakeClient(body, deployment(), taken)
    after = await commit(client, context)
    assert conditions(after)["Ready"] == ("False", "ErrorPersistingSecret")
    assert content(client.object("Secret", context.changes.secret.name)) == {"mine": "1"}
    assert client.object("Deployment", "web") == deployment()


async def test_our_own_secret_is_put_right() -> None:
    body = binding(type="t")
    context = collected(body)
    assert context.changes.secret is not None
    name = context.changes.secret.name
    changed = secret(name, type="x")
    changed["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ServiceBinding", "name": "sb", "uid": "uid-sb"}
    ]
    client = FakeClient(body, deployment(), changed)
    await commit(client, context)
    assert content(client.object("Secret", name)) == {"type": "t", "password": "pw"}


async def test_unbinding_writes_workloads_alone() -> None:
    body = binding()
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(body)
    deleted(body)
    client = FakeClient(body, cluster.get("deployments", "web"))
    await committer(client).workloads(cluster.process(body))
    assert client.writes == [("patch", "Deployment")]
    assert pod(client.object("Deployment", "web"))["volumes"] == []


async def test_unbinding_keeps_what_another_writer_has_just_noted() -> None:
    body = binding()
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(body)
    deleted(body)
    web = cluster.get("deployments", "web")
    web["metadata"]["resourceVersion"] = "1"
    client = Crowded(body, web, change=annotated("writer"), times=1)
    await committer(client).workloads(cluster.process(body))
    assert client.object("Deployment", "web")["metadata"]["annotations"] == {"writer": "x"}


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        pytest.param(False, {"keep": "me"}, id="unbound"),
        pytest.param(True, {"servicebinding.io/mapping": "{}", "keep": "me"}, id="refused"),
    ],
)
async def test_the_old_mapping_is_dropped_once_it_was_unbound_by(
    refused: bool, left: dict[str, str]
) -> None:
    body = binding()
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(body)
    body["metadata"]["annotations"] = {"servicebinding.io/mapping": "{}", "keep": "me"}
    client = FakeClient(body, cluster.get("deployments", "web"))
    if refused:
        client.fail["patch", "deployments"] = FORBIDDEN
    after = await commit(client, cluster.process(body))
    assert after["metadata"]["annotations"] == left


async def test_entries_that_are_hidden_are_told_of_once() -> None:
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": name} for name in ("one", "two")
    ]
    body = coreos_binding(services=services, bindAsFiles=True)
    client, events = FakeClient(body, deployment()), Events()
    cluster = FakeCluster(objects=[secret("one", a="1"), secret("two", a="2"), deployment()])
    for _ in range(2):
        context = cluster.process(client.object("ServiceBinding", "sb"))
        await Committer(
            client.client, COREOS_SERVICEBINDINGS, cast("EventRecorder", events)
        ).write(context)
    assert [(type_, reason) for type_, reason, _ in events.seen] == [
        ("Normal", "ApplicationsBound"),
        ("Warning", "EntriesHidden"),
    ]
    assert {text for *_, text in events.seen} == {
        "entry a of Secret one is hidden by the entry of the same name of Secret two"
    }
