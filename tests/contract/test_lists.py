from __future__ import annotations

import msgspec
import pytest
from tests.contract.support import GROUP, WIDGETS, configmap, crd, eventually, widget
from tests.support.planes import ControlPlane
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.client import ApiError, BadRequest, Client, Gone, NotFound


async def _page(client: Client, namespace: str, **params: str) -> JSON:
    body = await client.request("GET", CONFIGMAPS.path(namespace), params=params)
    return msgspec.json.decode(body, type=JSON)


def _names(page: JSON) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("app=web", ["a", "b"], id="equal"),
        pytest.param("app!=web", ["c", "d"], id="not-equal"),
        pytest.param("tier", ["a"], id="exists"),
        pytest.param("app,!tier", ["b", "c"], id="not-exists"),
        pytest.param("app in (web,db)", ["a", "b", "c"], id="in"),
        pytest.param("app notin (web)", ["c", "d"], id="notin"),
        pytest.param("app=web,tier=front", ["a"], id="and"),
    ],
)
async def test_labels_select(
    client: Client, namespace: str, selector: str, expected: list[str]
) -> None:
    labels: dict[str, JSON] = {
        "a": {"app": "web", "tier": "front"},
        "b": {"app": "web"},
        "c": {"app": "db"},
        "d": {"own": "yes"},
    }
    for name, value in labels.items():
        await client.create(SECRETS, {"metadata": {"name": name, "labels": value}}, namespace)
    fields = "type=Opaque"
    found = await client.list(SECRETS, namespace, labels=selector, fields=fields)
    assert [item.meta.name for item in found.items] == expected


async def test_fields_select(client: Client, namespace: str, widgets: None) -> None:
    for name in ("a", "b"):
        await client.create(WIDGETS, widget(name), namespace)
    found = await client.list(WIDGETS, namespace, fields="metadata.name=b")
    assert [item.meta.name for item in found.items] == ["b"]
    found = await client.list(WIDGETS, "", fields=f"metadata.namespace={namespace}")
    assert [item.meta.name for item in found.items] == ["a", "b"]
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.size"):
        await client.list(WIDGETS, namespace, fields="spec.size=1")


@today("metadata alone is selected by")
async def test_fields_that_a_crd_names_select(client: Client, namespace: str) -> None:
    chosen = Resource(GROUP, "v1", "chosens", "Chosen")
    fields = {name: {"type": "string"} for name in ("tier", "note")}
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version: JSON = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "selectableFields": [{"jsonPath": ".spec.tier"}],
    }
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd("chosens", "Chosen", version))
    try:

        async def made() -> bool:
            body = {"apiVersion": chosen.api_version, "kind": "Chosen"}
            try:
                for name, tier in (("a", "gold"), ("b", "iron")):
                    spec = {"tier": tier, "note": "x"}
                    whole = {**body, "metadata": {"name": name}, "spec": spec}
                    await client.create(chosen, whole, namespace)
            except NotFound:
                return False
            return True

        await eventually(made)
        found = await client.list(chosen, namespace, fields="spec.tier=gold")
        assert [item.meta.name for item in found.items] == ["a"]
        found = await client.list(chosen, namespace, fields="spec.tier!=gold")
        assert [item.meta.name for item in found.items] == ["b"]
        with pytest.raises(BadRequest, match=r"field label not supported: spec\.note"):
            await client.list(chosen, namespace, fields="spec.note=x")
    finally:
        await client.delete(CUSTOMRESOURCEDEFINITIONS, chosen.group_resource)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param(
            {"labelSelector": "a b c"},
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            id="label-selector",
            marks=today("expected: '=', '!=', '==', 'in', notin'"),
        ),
        pytest.param({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax', id="limit"),
    ],
)
async def test_wrong_queries_are_refused(
    client: Client, namespace: str, params: dict[str, str], message: str
) -> None:
    with pytest.raises(BadRequest) as found:
        await _page(client, namespace, **params)
    assert found.value.message == message


async def test_a_version_that_has_not_happened_yet_times_out(
    client: Client, namespace: str
) -> None:
    with pytest.raises(ApiError, match="Too large resource version") as found:
        await _page(client, namespace, resourceVersion="99999999999")
    assert found.value.code == 504


async def test_pages_show_one_moment(client: Client, namespace: str) -> None:
    for name in ("a", "b", "c", "d"):
        await client.create(CONFIGMAPS, configmap(name, labels={"own": "yes"}), namespace)
    first = await _page(client, namespace, limit="2", labelSelector="own=yes")
    await client.create(CONFIGMAPS, configmap("e", labels={"own": "yes"}), namespace)
    await client.delete(CONFIGMAPS, "d", namespace)
    token = first["metadata"]["continue"]
    params = {"continue": token, "limit": "5", "labelSelector": "own=yes"}
    rest = await _page(client, namespace, **params)
    assert (_names(first), _names(rest)) == (["a", "b"], ["c", "d"])
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert not rest["metadata"].get("continue")


async def test_a_page_tells_how_much_is_left(client: Client, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await client.create(SECRETS, {"metadata": {"name": name}}, namespace)
    everything = await client.list(SECRETS, namespace)
    body = await client.request("GET", SECRETS.path(namespace), params={"limit": "1"})
    metadata = msgspec.json.decode(body)["metadata"]
    assert metadata["remainingItemCount"] == len(everything.items) - 1


async def test_one_page_may_be_enough(client: Client, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await client.create(CONFIGMAPS, configmap(name, labels={"own": "yes"}), namespace)
    first = await client.page(CONFIGMAPS, namespace, labels="own=yes", limit=2, metadata_only=True)
    assert [item.meta.name for item in first.items] == ["a", "b"]
    assert first.items[0].kind == "ConfigMap"
    assert "data" not in first.items[0].to_dict()
    last = await client.page(
        CONFIGMAPS, namespace, labels="own=yes", limit=2, continue_=first.continue_
    )
    assert [item.meta.name for item in last.items] == ["c"]
    assert last.continue_ == ""


async def test_an_old_page_has_expired_after_compaction(
    client: Client, namespace: str, control_plane: ControlPlane
) -> None:
    for name in ("a", "b"):
        await client.create(CONFIGMAPS, configmap(name), namespace)
    first = await _page(client, namespace, limit="1")
    await client.create(CONFIGMAPS, configmap("c"), namespace)
    await control_plane.forget()
    params = {"continue": first["metadata"]["continue"], "limit": "1"}
    with pytest.raises(Gone, match="The provided continue parameter is too old") as found:
        await _page(client, namespace, **params)
    assert found.value.reason == "Expired"


async def test_an_exact_version_is_shown_as_it_was(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace)
    await client.delete(CONFIGMAPS, "a", namespace)
    await client.create(CONFIGMAPS, configmap("b"), namespace)
    version = made.meta.resource_version
    page = await _page(
        client, namespace, resourceVersion=version, resourceVersionMatch="Exact", limit="500"
    )
    assert "a" in _names(page)
    assert "b" not in _names(page)
    assert page["metadata"]["resourceVersion"] == version
