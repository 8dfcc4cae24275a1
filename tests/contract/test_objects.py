from __future__ import annotations

import msgspec
import pytest
from tests.contract.support import (
    OLD_WIDGETS,
    WIDGETS,
    configmap,
    widget,
)
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, LEASES, NAMESPACES, SECRETS, Resource
from fairlead.client import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Client,
    Conflict,
    Invalid,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
)


async def test_a_created_object_has_what_the_server_gives_it(
    client: Client, namespace: str
) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    assert made.meta.uid
    assert made.meta.creation_timestamp
    assert made.meta.resource_version.isdigit()
    assert made.meta.namespace == namespace
    assert made.meta.generation == 0
    assert (await client.get(CONFIGMAPS, "a", namespace)).meta == made.meta


async def test_what_only_the_server_may_set_is_taken_from_it(
    client: Client, namespace: str
) -> None:
    body = configmap("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z")
    made = await client.create(CONFIGMAPS, body, namespace)
    assert made.meta.uid != "mine"
    assert made.meta.creation_timestamp != "2001-01-01T00:00:00Z"


async def test_generate_name_makes_names(client: Client, namespace: str) -> None:
    body = {"metadata": {"generateName": "some-"}}
    made = [await client.create(CONFIGMAPS, body, namespace) for _ in range(2)]
    assert all(one.meta.name.startswith("some-") for one in made)
    assert all(len(one.meta.name) == len("some-") + 5 for one in made)
    assert made[0].meta.name != made[1].meta.name


async def test_a_taken_name_is_a_conflict(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists$') as found:
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    details = found.value.status.details
    assert details is not None
    assert (details.name, details.kind) == ("a", "configmaps")


async def test_a_missing_object_is_named(client: Client, namespace: str, widgets: None) -> None:
    with pytest.raises(NotFound, match=r'^widgets\.contract\.example\.org "none" not found$'):
        await client.get(WIDGETS, "none", namespace)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"name": "A_b"},
            'ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC '
            "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used "
            "for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="name",
        ),
        pytest.param(
            {},
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is '
            "required",
            id="no-name",
        ),
        pytest.param(
            {"name": "a", "labels": {"k": "a b"}},
            'ConfigMap "a" is invalid: metadata.labels: Invalid value: "a b": a valid label must '
            "be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            "'12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            id="label-value",
        ),
        pytest.param(
            {"name": "a", "finalizers": ["x"]},
            'ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "x": name is '
            "neither a standard finalizer name nor is it fully qualified",
            id="finalizer",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Secret"}]},
            'ConfigMap "a" is invalid: [metadata.ownerReferences[0].name: Required value: must '
            "not be empty, metadata.ownerReferences[0].uid: Required value: must not be empty]",
            id="owner",
            marks=today(
                'metadata.ownerReferences.name: Invalid value: "": name must not be empty'
            ),
        ),
    ],
)
async def test_metadata_is_checked(
    client: Client, namespace: str, metadata: JSON, message: str
) -> None:
    with pytest.raises(Invalid) as found:
        await client.create(CONFIGMAPS, {"metadata": metadata}, namespace)
    assert found.value.message == message


@today("what is unknown is dropped")
@pytest.mark.parametrize(
    ("resource", "body"),
    [
        pytest.param(CONFIGMAPS, {**configmap("a"), "nonsense": 1}, id="built-in"),
        pytest.param(WIDGETS, {**widget("a"), "nonsense": 1}, id="custom"),
    ],
)
async def test_unknown_fields_are_refused_on_request(
    client: Client, namespace: str, widgets: None, resource: Resource, body: JSON
) -> None:
    path = resource.path(namespace)
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "nonsense"'):
        await client.request("POST", path, params={"fieldValidation": "Strict"}, body=body)
    await client.request("POST", path, params={"fieldValidation": "Ignore"}, body=body)


async def test_path_and_body_must_agree(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    text = "the namespace of the provided object does not match the namespace sent on the request"
    with pytest.raises(BadRequest) as found:
        await client.create(CONFIGMAPS, configmap("b", namespace="other"), namespace)
    assert found.value.message == text
    path = CONFIGMAPS.path(namespace, "a")
    with pytest.raises(BadRequest, match=r"the name of the object \(b\) does not match the name"):
        await client.request("PUT", path, body=configmap("b"))
    with pytest.raises(BadRequest, match="cannot be handled as a ConfigMap"):
        await client.create(
            CONFIGMAPS,
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}},
            namespace,
        )
    assert (await client.get(CONFIGMAPS, "a", namespace)).meta == made.meta


async def test_a_stale_update_is_refused(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    body = made.to_dict() | {"data": {"key": "new"}}
    changed = await client.update(CONFIGMAPS, body)
    assert int(changed.meta.resource_version) > int(made.meta.resource_version)
    text = (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )
    for attempt in (
        client.update(CONFIGMAPS, body | {"data": {}}),
        client.merge_patch(
            CONFIGMAPS,
            "a",
            namespace,
            {"metadata": {"resourceVersion": made.meta.resource_version}, "data": {}},
        ),
    ):
        with pytest.raises(Conflict) as found:
            await attempt
        assert found.value.message == text


async def test_an_update_without_a_version_overwrites(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    body = configmap("a", namespace=namespace) | {"data": {"other": "1"}}
    assert (await client.update(CONFIGMAPS, body)).to_dict()["data"] == {"other": "1"}


async def test_a_custom_resource_is_only_updated_with_a_version(
    client: Client, namespace: str, widgets: None
) -> None:
    await client.create(WIDGETS, widget("a"), namespace)
    body = widget("a", size=2)
    body["metadata"]["namespace"] = namespace
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: .*must be specified for an up"):
        await client.update(WIDGETS, body)


async def test_writing_the_same_again_changes_nothing(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    again = await client.update(CONFIGMAPS, made.to_dict())
    patched = await client.merge_patch(CONFIGMAPS, "a", namespace, {"data": {"key": "value"}})
    assert again.meta.resource_version == made.meta.resource_version
    assert patched.meta.resource_version == made.meta.resource_version


async def test_a_foreign_uid_is_refused(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    body = made.to_dict()
    body["metadata"]["uid"] = "other"
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other, UID in"):
        await client.update(CONFIGMAPS, body)
    with pytest.raises(ApiError, match="other") as found:
        await client.merge_patch(CONFIGMAPS, "a", namespace, {"metadata": {"uid": "other"}})
    assert found.value.code in {409, 422}


async def test_patches_change_what_they_name(
    client: Client, namespace: str, widgets: None
) -> None:
    await client.create(WIDGETS, widget("a"), namespace)
    merged = await client.merge_patch(WIDGETS, "a", namespace, {"spec": {"size": 4}})
    assert merged.to_dict()["spec"] == {"size": 4, "color": "red"}
    operations: list[JSON] = [
        {"op": "test", "path": "/spec/size", "value": 4},
        {"op": "add", "path": "/metadata/labels", "value": {"k": "v"}},
    ]
    patched = await client.json_patch(WIDGETS, "a", namespace, operations)
    assert patched.meta.labels == {"k": "v"}
    operations[0]["value"] = 5
    with pytest.raises(Invalid):
        await client.json_patch(WIDGETS, "a", namespace, operations)


async def test_strategic_patches_are_for_built_in_kinds(
    client: Client, namespace: str, widgets: None
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    await client.create(WIDGETS, widget("a"), namespace)
    kind = "application/strategic-merge-patch+json"
    answer = await client.request(
        "PATCH", CONFIGMAPS.path(namespace, "a"), body={"data": {"b": "1"}}, content_type=kind
    )
    assert msgspec.json.decode(answer)["data"] == {"key": "value", "b": "1"}
    with pytest.raises(UnsupportedMediaType):
        await client.request("PATCH", WIDGETS.path(namespace, "a"), body={}, content_type=kind)


async def test_collections_have_no_put(client: Client) -> None:
    with pytest.raises(MethodNotAllowed):
        await client.request("PUT", NAMESPACES.path(), body={"metadata": {"name": "a"}})


async def test_a_dry_run_leaves_no_trace(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace, dry_run=True)
    assert made.meta.uid
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_secrets_take_text_and_keep_their_type(client: Client, namespace: str) -> None:
    body: JSON = {"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"x": "eA=="}}
    made = (await client.create(SECRETS, body, namespace)).to_dict()
    assert made["data"] == {"k": "dg==", "x": "eA=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made
    with pytest.raises(Invalid, match="field is immutable"):
        await client.merge_patch(SECRETS, "a", namespace, {"type": "other"})
    with pytest.raises(Invalid, match=r"data\[tls\.crt\]: Required value"):
        await client.create(
            SECRETS, {"metadata": {"name": "b"}, "type": "kubernetes.io/tls"}, namespace
        )


async def test_yaml_bodies_are_read(client: Client, namespace: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    path = CONFIGMAPS.path(namespace)
    answer = await client.request("POST", path, body=text, content_type="application/yaml")
    assert msgspec.json.decode(answer)["data"] == {"k": "v"}


async def test_status_is_written_through_its_endpoint_alone(
    client: Client, namespace: str, widgets: None
) -> None:
    made = await client.create(WIDGETS, widget("a") | {"status": {"ready": True}}, namespace)
    assert "status" not in made.to_dict()
    patch = {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"x": "y"}}}
    changed = await client.merge_patch(WIDGETS, "a", namespace, patch, subresource="status")
    assert changed.to_dict()["status"] == {"ready": True}
    assert changed.to_dict()["spec"]["size"] == 1
    assert changed.meta.labels == {}
    assert changed.meta.generation == 1
    patch = {"status": {"ready": False}, "spec": {"size": 3}}
    changed = await client.merge_patch(WIDGETS, "a", namespace, patch)
    assert changed.to_dict()["status"] == {"ready": True}
    assert changed.to_dict()["spec"]["size"] == 3
    assert changed.meta.generation == 2


async def test_labels_do_not_change_the_generation(
    client: Client, namespace: str, widgets: None
) -> None:
    await client.create(WIDGETS, widget("a"), namespace)
    patch = {"metadata": {"labels": {"k": "v"}}}
    assert (await client.merge_patch(WIDGETS, "a", namespace, patch)).meta.generation == 1


async def test_every_version_shows_the_same_object(
    client: Client, namespace: str, widgets: None
) -> None:
    made = await client.create(WIDGETS, widget("a"), namespace)
    old = await client.get(OLD_WIDGETS, "a", namespace)
    assert old.api_version == OLD_WIDGETS.api_version
    assert old.meta == made.meta
    assert old.to_dict()["spec"] == made.to_dict()["spec"]


async def test_tables_have_the_columns_of_the_crd(
    client: Client, namespace: str, widgets: None
) -> None:
    await client.create(WIDGETS, widget("a", size=5), namespace)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = msgspec.json.decode(
        await client.request("GET", WIDGETS.path(namespace), accept=accept)
    )
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["a", 5]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_can_be_asked_for_alone(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a", labels={"k": "v"}), namespace)
    found = await client.list(CONFIGMAPS, namespace, labels="k=v", metadata_only=True)
    assert [one.meta.name for one in found.items] == ["a"]
    assert "data" not in found.items[0].to_dict()


async def test_a_lease_is_made_by_an_update_and_never_overwritten_unseen(
    client: Client, namespace: str
) -> None:
    body: JSON = {
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"holderIdentity": "first"},
    }
    made = await client.update(LEASES, body)
    assert made.meta.uid
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: .*must be specified for an up"):
        await client.update(LEASES, body | {"spec": {"holderIdentity": "second"}})
    body["metadata"] = {"name": "b", "namespace": namespace, "uid": "x"}
    with pytest.raises(Conflict, match="Key: /registry/leases/"):
        await client.update(LEASES, body)
    with pytest.raises(NotFound):
        await client.update(SECRETS, {"metadata": {"name": "b", "namespace": namespace}})
