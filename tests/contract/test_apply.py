"""Server-side apply: owners, conflicts, and what goes when nobody wants it any more."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from tests.contract.support import WIDGETS, configmap, widget
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, Resource
from fairlead.client import ApiError, Client, Conflict


CONFIG = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
Owners = dict[tuple[str, str], Any]


class Applier:
    """Applies to one namespace, and tells who owns what."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def __call__(
        self, resource: Resource, body: JSON, manager: str = "m1", **params: str
    ) -> JSON:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.send(resource, body, fieldManager=manager, **params)

    async def send(
        self, resource: Resource, body: Any, media_type: str = CONFIG, **params: str
    ) -> JSON:
        name = body["metadata"]["name"] if isinstance(body, dict) else "a"
        path = resource.path(self.namespace, name)
        answer = await self.client.request(
            "PATCH", path, params=params, body=msgspec.json.encode(body), content_type=media_type
        )
        return msgspec.json.decode(answer, type=JSON)

    async def patch(self, resource: Resource, name: str, change: JSON, manager: str) -> JSON:
        body = {**change, "metadata": {"name": name, **change.get("metadata", {})}}
        return await self.send(resource, body, MERGE, fieldManager=manager)


@pytest.fixture
def apply(client: Client, namespace: str) -> Applier:
    return Applier(client, namespace)


def owners(body: JSON) -> Owners:
    """The fields by manager and operation."""
    found = body["metadata"].get("managedFields") or []
    assert all(entry["fieldsType"] == "FieldsV1" and entry["time"] for entry in found)
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in found}


def data(**values: str) -> JSON:
    return {"metadata": {"name": "a"}, "data": values}


def data_fields(*names: str) -> JSON:
    return {"f:data": {f"f:{name}": {} for name in names}}


async def test_what_is_applied_is_owned_and_applying_it_again_is_no_write(apply: Applier) -> None:
    made = await apply(CONFIGMAPS, data(x="1", y="1"))
    assert owners(made) == {("m1", "Apply"): data_fields("x", "y")}
    assert await apply(CONFIGMAPS, data(x="1", y="1")) == made


async def test_owners_share_an_object_and_what_they_agree_on(apply: Applier) -> None:
    await apply(CONFIGMAPS, data(x="1", y="1"))
    both = await apply(CONFIGMAPS, data(y="1", z="1"), "m2")
    assert both["data"] == {"x": "1", "y": "1", "z": "1"}
    assert owners(both) == {
        ("m1", "Apply"): data_fields("x", "y"),
        ("m2", "Apply"): data_fields("y", "z"),
    }
    less = await apply(CONFIGMAPS, {"metadata": {"name": "a"}})
    assert less["data"] == {"y": "1", "z": "1"}
    assert owners(less) == {("m2", "Apply"): data_fields("y", "z")}


async def test_taking_what_others_own_is_a_conflict_unless_forced(apply: Applier) -> None:
    await apply(CONFIGMAPS, data(x="1", y="1"))
    with pytest.raises(Conflict) as one:
        await apply(CONFIGMAPS, data(x="2"), "m2")
    assert str(one.value) == 'Apply failed with 1 conflict: conflict with "m1": .data.x'
    with pytest.raises(Conflict) as two:
        await apply(CONFIGMAPS, data(x="2", y="2"), "m2")
    assert str(two.value) == (
        'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.x\n- .data.y'
    )
    details = two.value.status.details
    assert details is not None
    assert [(cause.reason, cause.message, cause.field) for cause in details.causes or ()] == [
        ("FieldManagerConflict", 'conflict with "m1"', ".data.x"),
        ("FieldManagerConflict", 'conflict with "m1"', ".data.y"),
    ]
    taken = await apply(CONFIGMAPS, data(x="2"), "m2", force="true")
    assert taken["data"] == {"x": "2", "y": "1"}
    assert owners(taken) == {
        ("m1", "Apply"): data_fields("y"),
        ("m2", "Apply"): data_fields("x"),
    }


@pytest.mark.parametrize("force", ["", "1", "true", "T", "f", "no"])
async def test_any_value_but_0_and_false_forces(apply: Applier, force: str) -> None:
    await apply(CONFIGMAPS, data(x="1"))
    taken = await apply(CONFIGMAPS, data(x="2"), "m2", force=force)
    assert taken["data"] == {"x": "2"}


@pytest.mark.parametrize("force", ["0", "false", "False"])
async def test_0_and_false_do_not_force(apply: Applier, force: str) -> None:
    await apply(CONFIGMAPS, data(x="1"))
    with pytest.raises(Conflict):
        await apply(CONFIGMAPS, data(x="2"), "m2", force=force)


async def test_ordinary_writes_take_what_they_change(apply: Applier) -> None:
    await apply(CONFIGMAPS, data(x="1", y="1"))
    changed = await apply.patch(CONFIGMAPS, "a", {"data": {"x": "2", "w": "1"}}, "editor")
    assert owners(changed) == {
        ("m1", "Apply"): data_fields("y"),
        ("editor", "Update"): data_fields("w", "x"),
    }
    with pytest.raises(Conflict, match=r'conflict with "editor" using v1: \.data\.x'):
        await apply(CONFIGMAPS, data(x="1", y="1"))
    gone = await apply.patch(CONFIGMAPS, "a", {"data": {"w": None, "y": None}}, "editor")
    assert owners(gone) == {("editor", "Update"): data_fields("x")}


async def test_who_creates_owns_and_leads_to_a_conflict(
    apply: Applier, client: Client, namespace: str
) -> None:
    body = configmap("a", labels={"l": "1"}, finalizers=["x.example.org/y"])
    path = CONFIGMAPS.path(namespace)
    params = {"fieldManager": "maker"}
    made = msgspec.json.decode(await client.request("POST", path, params=params, body=body))
    fields = {
        "f:data": {".": {}, "f:key": {}},
        "f:metadata": {
            "f:finalizers": {".": {}, 'v:"x.example.org/y"': {}},
            "f:labels": {".": {}, "f:l": {}},
        },
    }
    assert owners(made) == {("maker", "Update"): fields}
    with pytest.raises(Conflict, match=r'conflict with "maker" using v1: \.data\.key'):
        await apply(CONFIGMAPS, data(key="2"))
    await apply.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, "maker")


async def test_tracking_ends_with_one_empty_entry_and_begins_with_an_apply(
    apply: Applier, client: Client, namespace: str
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    ended = await apply.patch(CONFIGMAPS, "a", {"metadata": {"managedFields": [{}]}}, "x")
    assert owners(ended) == {}
    assert owners(await apply.patch(CONFIGMAPS, "a", {"data": {"q": "1"}}, "x")) == {}
    begun = await apply(CONFIGMAPS, data(key="3"), force="true")
    assert owners(begun) == {
        ("m1", "Apply"): data_fields("key"),
        ("before-first-apply", "Update"): {"f:data": {".": {}, "f:q": {}}},
    }


WEB = "k:" + '{"name":"web"}'


def deployment(**spec: Any) -> JSON:
    return {"metadata": {"name": "web"}, "spec": spec}


def pods(*containers: JSON) -> JSON:
    return {"spec": {"containers": list(containers)}}


async def test_items_of_lists_have_owners(apply: Applier, client: Client, namespace: str) -> None:
    labels = {"app": "web"}
    whole = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            **pods({"name": "web", "image": "i:1", "env": [{"name": "A", "value": "1"}]}),
        },
    }
    await client.create(DEPLOYMENTS, deployment(**whole), namespace)
    variable = {"name": "B", "value": "2"}
    more = await apply(DEPLOYMENTS, deployment(template=pods({"name": "web", "env": [variable]})))
    (container,) = more["spec"]["template"]["spec"]["containers"]
    assert {found["name"] for found in container["env"]} == {"A", "B"}
    own = owners(more)["m1", "Apply"]
    assert own["f:spec"]["f:template"]["f:spec"]["f:containers"][WEB] == {
        ".": {},
        "f:env": {'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:name": {},
    }
    less = await apply(DEPLOYMENTS, deployment(template=pods({"name": "web"})))
    (container,) = less["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    side = {"name": "side", "image": "s:1"}
    two = await apply(DEPLOYMENTS, deployment(template=pods({"name": "web"}, side)))
    assert len(two["spec"]["template"]["spec"]["containers"]) == 2
    one = await apply(DEPLOYMENTS, deployment(template=pods({"name": "web"})))
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "web"


async def test_a_field_that_nobody_wants_any_more_gets_its_default(
    apply: Applier, client: Client, namespace: str, widgets: None
) -> None:
    made = await apply(WIDGETS, widget("w", size=3, color="blue"))
    assert made["spec"] == {"size": 3, "color": "blue"}
    less = await apply(WIDGETS, widget("w", size=3))
    assert less["spec"] == {"size": 3, "color": "red"}
    assert owners(less)["m1", "Apply"]["f:spec"].keys() - {"."} == {"f:size"}


async def test_the_status_is_applied_through_its_endpoint(
    apply: Applier, client: Client, namespace: str, widgets: None
) -> None:
    await apply(WIDGETS, widget("w", size=3))
    await client.apply(
        WIDGETS,
        {
            "apiVersion": WIDGETS.api_version,
            "kind": WIDGETS.kind,
            "metadata": {"name": "w", "namespace": namespace},
            "status": {"ready": True},
        },
        subresource="status",
        field_manager="st",
    )
    found = (await client.get(WIDGETS, "w", namespace)).to_dict()
    assert found["status"] == {"ready": True}
    status = owners(found)["st", "Apply"]["f:status"]
    assert status.keys() - {"."} == {"f:ready"}


async def test_a_dry_run_leaves_nothing(apply: Applier, client: Client, namespace: str) -> None:
    assert (await apply(CONFIGMAPS, data(x="1"), dryRun="All"))["data"] == {"x": "1"}
    with pytest.raises(ApiError) as missing:
        await client.get(CONFIGMAPS, "a", namespace)
    assert missing.value.code == 404


async def test_more_than_ten_writers_become_one(apply: Applier) -> None:
    await apply(CONFIGMAPS, data(x="1"))
    for number in range(12):
        label = {"labels": {f"l{number}": "1"}}
        found = await apply.patch(CONFIGMAPS, "a", {"metadata": label}, f"w{number}")
    writers = [name for name, operation in owners(found) if operation == "Update"]
    assert len(writers) == 10
    assert "ancient-changes" in writers


@pytest.mark.parametrize(
    ("change", "params", "code", "text"),
    [
        pytest.param({}, {"fieldManager": ""}, 422, "fieldManager: Required value", id="manager"),
        pytest.param(
            {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}},
            {},
            400,
            "^metadata.managedFields must be nil$",
            id="owners",
        ),
        pytest.param(
            {"apiVersion": "v2"},
            {},
            400,
            "^invalid object type: /v2, Kind=ConfigMap$",
            id="version",
            marks=today("Incorrect version specified in apply patch"),
        ),
        pytest.param(
            {"nope": 1}, {}, 500, "failed to create typed patch object.*: .nope: field not "
            "declared in schema", id="field",
        ),
        pytest.param(
            {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"x": "2"}},
            {},
            409,
            "the object has been modified",
            id="stale",
        ),
    ],
)  # fmt: skip
async def test_what_is_refused(
    apply: Applier, change: JSON, params: dict[str, str], code: int, text: str
) -> None:
    await apply(CONFIGMAPS, data(x="1"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", **data(x="1"), **change}
    options = {name: value for name, value in ({"fieldManager": "m1"} | params).items() if value}
    with pytest.raises(ApiError) as refused:
        await apply.send(CONFIGMAPS, body, **options)
    assert refused.value.code == code
    assert re.search(text, str(refused.value))


async def test_a_text_is_no_configuration(apply: Applier) -> None:
    with pytest.raises(ApiError, match="cannot unmarshal string into Go value") as refused:
        await apply.send(CONFIGMAPS, "text", fieldManager="m1")
    assert refused.value.code == 400


async def test_force_is_for_applies_alone(apply: Applier) -> None:
    await apply(CONFIGMAPS, data(x="1"))
    with pytest.raises(ApiError, match="may not be specified for non-apply patch") as refused:
        await apply.send(CONFIGMAPS, data(x="2"), MERGE, force="true")
    assert refused.value.code == 422
