from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.contract.support import GROUP, WIDGETS, crd, eventually, gone, widget

from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, Invalid, MethodNotAllowed, NotFound
from fairlead.runtime import install_crds


def _fresh() -> Resource:
    word = f"x{uuid.uuid4().hex[:8]}"
    return Resource(GROUP, "v1", f"{word}s", word.capitalize())


async def _define(client: Client, resource: Resource) -> None:
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd(resource.plural, resource.kind))

    async def served() -> bool:
        try:
            await client.list(resource, "default")
        except NotFound:
            return False
        return True

    await eventually(served)


def _object(resource: Resource, name: str, **metadata: object) -> JSON:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **metadata},
    }


async def _conditions(client: Client, name: str) -> dict[str, JSON]:
    body = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    return {one["type"]: one for one in body["status"].get("conditions") or []}


async def test_a_crd_is_established(client: Client, widgets: None) -> None:
    name = f"widgets.{GROUP}"
    conditions = await _conditions(client, name)
    accepted, established = conditions["NamesAccepted"], conditions["Established"]
    assert (accepted["status"], accepted["reason"]) == ("True", "NoConflicts")
    assert (established["status"], established["reason"]) == ("True", "InitialNamesAccepted")
    body = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    assert body["status"]["storedVersions"] == ["v1"]
    assert body["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert body["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("names", [{}, {"kind": ""}], ids=["missing", "empty"])
async def test_a_crd_needs_a_kind(client: Client, names: JSON) -> None:
    resource = _fresh()
    body = crd(resource.plural, resource.kind)
    body["spec"]["names"] = {"plural": resource.plural, **names}
    with pytest.raises(Invalid) as found:
        await client.create(CUSTOMRESOURCEDEFINITIONS, body)
    assert found.value.message.endswith(
        "is invalid: [spec.names.singular: Required value, spec.names.kind: Required value, "
        "spec.names.listKind: Required value]"
    )


async def test_a_taken_kind_is_not_accepted(client: Client, widgets: None) -> None:
    resource = _fresh()
    body = crd(resource.plural, "Widget")
    body["spec"]["names"] |= {"listKind": "OtherList", "singular": "other"}
    name = f"{resource.plural}.{GROUP}"
    await client.create(CUSTOMRESOURCEDEFINITIONS, body)

    async def refused() -> bool:
        found = (await _conditions(client, name)).get("NamesAccepted", {})
        return found.get("reason") == "KindConflict"

    await eventually(refused)
    conditions = await _conditions(client, name)
    assert conditions["NamesAccepted"]["message"] == '"Widget" is already in use'
    assert conditions["Established"]["reason"] == "NotAccepted"
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(client, name, "", CUSTOMRESOURCEDEFINITIONS)


async def test_objects_are_pruned_and_defaulted(
    client: Client, namespace: str, widgets: None
) -> None:
    made = await client.create(WIDGETS, widget("a", junk=1) | {"other": 1}, namespace)
    assert made.to_dict()["spec"] == {"size": 1, "color": "red"}
    assert "other" not in made.to_dict()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            id="minimum",
        ),
        pytest.param(
            {"size": "big"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: '
            '"string"',
            id="type",
        ),
        pytest.param(
            {"color": "pink"},
            'spec.color: Unsupported value: "pink": supported values: "red", "blue"',
            id="enumeration",
        ),
    ],
)
async def test_objects_are_checked(
    client: Client, namespace: str, widgets: None, spec: JSON, message: str
) -> None:
    with pytest.raises(Invalid) as found:
        await client.create(WIDGETS, widget("a", **spec), namespace)
    assert found.value.message == f'Widget.{GROUP} "a" is invalid: {message}'


async def test_instances_go_before_their_crd(client: Client, namespace: str) -> None:
    resource = _fresh()
    name = f"{resource.plural}.{GROUP}"
    await _define(client, resource)
    held = _object(resource, "held", finalizers=["example.org/hold"])
    await client.create(resource, held, namespace)
    await client.create(resource, _object(resource, "free"), namespace)
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(client, "free", namespace, resource)

    async def deleting() -> bool:
        found = (await _conditions(client, name)).get("Terminating", {})
        return found.get("reason") == "InstanceDeletionInProgress"

    await eventually(deleting)
    with pytest.raises(MethodNotAllowed, match="create not allowed while custom resource defini"):
        await client.create(resource, _object(resource, "new"), namespace)
    assert (await client.get(resource, "held", namespace)).meta.deleting
    patch: JSON = {"metadata": {"finalizers": None}}
    await client.merge_patch(resource, "held", namespace, patch)
    await gone(client, name, "", CUSTOMRESOURCEDEFINITIONS)

    async def unserved() -> bool:
        try:
            await client.list(resource, namespace)
        except NotFound:
            return True
        return False

    # A real server stops serving a kind a moment after its CRD is gone.
    await eventually(unserved)


async def test_instances_go_before_their_crd_when_no_version_is_served(
    client: Client, namespace: str
) -> None:
    resource = _fresh()
    name = f"{resource.plural}.{GROUP}"
    await _define(client, resource)
    await client.create(resource, _object(resource, "a"), namespace)
    change: JSON = {"op": "replace", "path": "/spec/versions/0/served", "value": False}
    await client.json_patch(CUSTOMRESOURCEDEFINITIONS, name, "", [change])
    await gone(client, "a", namespace, resource)
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(client, name, "", CUSTOMRESOURCEDEFINITIONS)


async def test_a_new_default_shows_on_stored_objects(client: Client, namespace: str) -> None:
    resource = _fresh()
    name = f"{resource.plural}.{GROUP}"
    await _define(client, resource)
    made = await client.create(resource, _object(resource, "a") | {"spec": {}}, namespace)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default"
    change: list[JSON] = [{"op": "replace", "path": path, "value": "blue"}]
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape"
    value = {"type": "string", "default": "round"}
    change.append({"op": "add", "path": path, "value": value})
    await client.json_patch(CUSTOMRESOURCEDEFINITIONS, name, "", change)

    async def shown() -> bool:
        found = await client.get(resource, "a", namespace)
        assert found.meta.resource_version == made.meta.resource_version
        return bool(found.to_dict()["spec"] == {"color": "red", "shape": "round"})

    await eventually(shown)
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)


def _of_version(resource: Resource, version: str, field: str) -> JSON:
    body = crd(resource.plural, resource.kind)
    (one,) = body["spec"]["versions"]
    schema = {"type": "object", "properties": {field: {"type": "string"}}}
    return {
        **body,
        "spec": {
            **body["spec"],
            "versions": [{**one, "name": version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def test_an_older_version_stays_unserved_while_objects_may_be_stored_in_it(
    client: Client,
) -> None:
    resource = _fresh()
    name = f"{resource.plural}.{GROUP}"
    older = msgspec.structs.replace(resource, version="v1alpha1")
    newer = msgspec.structs.replace(resource, version="v1alpha2")
    await install_crds(client, [_of_version(resource, "v1alpha1", "old")])
    await client.create(older, {**_object(older, "a"), "old": "kept"}, "default")
    await install_crds(client, [_of_version(resource, "v1alpha2", "new")])
    body = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    assert [(one["name"], one["served"], one["storage"]) for one in body["spec"]["versions"]] == [
        ("v1alpha2", True, True),
        ("v1alpha1", False, False),
    ]
    old = body["spec"]["versions"][1]["schema"]["openAPIV3Schema"]
    assert list(old["properties"]) == ["old"]
    assert body["status"]["storedVersions"] == ["v1alpha1", "v1alpha2"]

    async def unserved() -> bool:
        try:
            await client.get(older, "a", "default")
        except NotFound:
            return (await client.get(newer, "a", "default")).meta.name == "a"
        return False

    await eventually(unserved)
    await install_crds(client, [_of_version(resource, "v1alpha2", "new")])
    again = await client.get(CUSTOMRESOURCEDEFINITIONS, name)
    assert again.meta.generation == body["metadata"]["generation"]
    without = {**body, "spec": {**body["spec"], "versions": body["spec"]["versions"][:1]}}
    without["metadata"] = {**body["metadata"], "resourceVersion": again.meta.resource_version}
    with pytest.raises(Invalid, match="storedVersions"):
        await client.update(CUSTOMRESOURCEDEFINITIONS, without)
    # Whoever migrates storage writes every object anew before saying that none is left.
    moved = {"metadata": {"annotations": {"moved": "true"}}}
    await client.merge_patch(newer, "a", "default", moved)
    await client.merge_patch(
        CUSTOMRESOURCEDEFINITIONS,
        name,
        "",
        {"status": {"storedVersions": ["v1alpha2"]}},
        subresource="status",
    )
    await install_crds(client, [_of_version(resource, "v1alpha2", "new")])
    last = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    assert [one["name"] for one in last["spec"]["versions"]] == ["v1alpha2"]
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(client, name, "", CUSTOMRESOURCEDEFINITIONS)


_SIZE: JSON = {"type": "object", "properties": {"size": {"type": "integer"}}}
_LESS: JSON = {"type": "object", "properties": {"colour": {"type": "string"}}}


def _schema_of(spec: JSON) -> JSON:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}


async def _by_replacement(client: Client, resource: Resource, namespace: str) -> None:
    body = (await client.get(resource, "a", namespace)).to_dict()
    body["metadata"]["labels"] = {"a": "b"}
    await client.update(resource, body)


async def _by_metadata(client: Client, resource: Resource, namespace: str) -> None:
    await client.merge_patch(resource, "a", namespace, {"metadata": {"labels": {"a": "b"}}})


async def _by_status(client: Client, resource: Resource, namespace: str) -> None:
    body = (await client.get(resource, "a", namespace)).to_dict()
    await client.update(resource, {**body, "status": {"done": True}}, subresource="status")


async def _by_apply(client: Client, resource: Resource, namespace: str) -> None:
    body = _object(resource, "a", namespace=namespace, labels={"a": "b"})
    await client.apply(resource, body, field_manager="contract")


async def _by_deletion(client: Client, resource: Resource, namespace: str) -> None:
    await client.delete(resource, "a", namespace)


@pytest.mark.parametrize(
    "write", [_by_replacement, _by_metadata, _by_status, _by_apply, _by_deletion]
)
async def test_a_request_in_a_version_without_a_field_takes_it_from_the_stored_object(
    client: Client, namespace: str, write: Callable[[Client, Resource, str], Awaitable[None]]
) -> None:
    full = _fresh()
    less = msgspec.structs.replace(full, version="v1beta1")
    body = crd(full.plural, full.kind)
    (v1,) = body["spec"]["versions"]
    v1 |= {"schema": _schema_of(_SIZE), "additionalPrinterColumns": []}
    beta = {**v1, "name": "v1beta1", "storage": False, "schema": _schema_of(_LESS)}
    body["spec"]["versions"] = [beta, v1]
    await install_crds(client, [body])
    made = _object(full, "a", namespace=namespace, finalizers=["example.org/hold"])
    await client.create(full, {**made, "spec": {"size": 3}})
    seen = (await client.get(less, "a", namespace)).to_dict()
    assert not seen["spec"], "a read in that version does not have the field"
    await write(client, less, namespace)
    found = (await client.get(full, "a", namespace)).to_dict()
    assert not found["spec"]
    await client.merge_patch(full, "a", namespace, {"metadata": {"finalizers": []}})
