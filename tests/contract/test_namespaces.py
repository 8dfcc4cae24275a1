from __future__ import annotations

import uuid

import pytest
from tests.contract.support import configmap, eventually, gone
from tests.support.tiers import today

from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS
from fairlead.client import Client, Forbidden, Invalid, NotFound


async def test_the_first_namespaces_are_there(client: Client) -> None:
    found = {item.meta.name for item in (await client.list(NAMESPACES)).items}
    assert found >= {"default", "kube-system", "kube-public", "kube-node-lease"}


async def test_a_namespace_starts_active_with_an_account(client: Client, namespace: str) -> None:
    body = (await client.get(NAMESPACES, namespace)).to_dict()
    assert body["status"]["phase"] == "Active"
    assert body["spec"]["finalizers"] == ["kubernetes"]
    assert (await client.get(SERVICEACCOUNTS, "default", namespace)).meta.name == "default"


async def test_nothing_is_made_where_there_is_no_namespace(client: Client) -> None:
    with pytest.raises(NotFound, match=r'^namespaces "no-such-place" not found$'):
        await client.create(CONFIGMAPS, configmap("a"), "no-such-place")
    assert not (await client.list(CONFIGMAPS, "no-such-place")).items


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("A", "a lowercase RFC 1123 label must consist of lower case", id="capital"),
        pytest.param(
            "a.b",
            "must not contain dots",
            id="dot",
            marks=today("a lowercase RFC 1123 label must consist of lower case"),
        ),
    ],
)
async def test_a_name_must_be_a_label(client: Client, name: str, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        await client.create(NAMESPACES, {"metadata": {"name": name}})


async def test_default_may_not_be_deleted(client: Client) -> None:
    text = '^namespaces "default" is forbidden: this namespace may not be deleted$'
    with pytest.raises(Forbidden, match=text):
        await client.delete(NAMESPACES, "default")


async def test_content_goes_with_its_namespace_once_nothing_holds_it(client: Client) -> None:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(CONFIGMAPS, configmap("free"), name)
    await client.create(CONFIGMAPS, configmap("held", finalizers=["example.org/hold"]), name)
    await client.delete(NAMESPACES, name)
    await gone(client, "free", name)

    async def explained() -> bool:
        body = (await client.get(NAMESPACES, name)).to_dict()
        conditions = {one["type"]: one for one in body["status"].get("conditions", [])}
        remaining = conditions.get("NamespaceFinalizersRemaining", {})
        return "example.org/hold in 1 resource instances" in remaining.get("message", "")

    await eventually(explained)
    assert (await client.get(NAMESPACES, name)).to_dict()["status"]["phase"] == "Terminating"
    text = f'^configmaps "new" is forbidden: unable to create new content in namespace {name} '
    with pytest.raises(Forbidden, match=text + "because it is being terminated$"):
        await client.create(CONFIGMAPS, configmap("new"), name)
    await client.merge_patch(CONFIGMAPS, "held", name, {"metadata": {"finalizers": None}})
    await gone(client, name, "", NAMESPACES)
