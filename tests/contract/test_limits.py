"""How much a server takes: of an object, of a patch, of a body."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.support import configmap
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, SECRETS
from fairlead.client import ApiError, Client, Invalid


@today("must have at most 262144")
async def test_annotations_may_have_a_quarter_of_a_megabyte(
    client: Client, namespace: str
) -> None:
    fits = configmap("fits", annotations={"a": "x" * (256 * 1024 - 1)})
    await client.create(CONFIGMAPS, fits, namespace)
    more = configmap("more", annotations={"a": "x" * 256 * 1024})
    with pytest.raises(
        Invalid, match=r"metadata\.annotations: Too long: may not be more than 262144 bytes"
    ):
        await client.create(CONFIGMAPS, more, namespace)


@today("must have at most 1048576 bytes")
@pytest.mark.parametrize(
    ("resource", "data"),
    [
        pytest.param(CONFIGMAPS, {"data": {"a": "x" * 1_048_577}}, id="data"),
        pytest.param(CONFIGMAPS, {"binaryData": {"a": "AAAA" * 349_526}}, id="binaryData"),
        pytest.param(SECRETS, {"data": {"a": "AAAA" * 349_526}}, id="Secret"),
    ],
)
async def test_values_may_have_a_megabyte(
    client: Client, namespace: str, resource: Any, data: JSON
) -> None:
    with pytest.raises(Invalid, match="Too long: may not be more than 1048576 bytes"):
        await client.create(resource, {"metadata": {"name": "a"}, **data}, namespace)


async def test_a_body_may_have_three_megabytes(client: Client, namespace: str) -> None:
    body = configmap("a") | {"data": {"a": "x" * 3 * 1024 * 1024}}
    with pytest.raises(ApiError, match="Request entity too large: limit is 3145728") as found:
        await client.create(CONFIGMAPS, body, namespace)
    assert found.value.status.code == 413


async def test_a_json_patch_may_have_ten_thousand_operations(
    client: Client, namespace: str
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    test: JSON = {"op": "test", "path": "/data/key", "value": "value"}
    change: JSON = {"op": "replace", "path": "/data/key", "value": "new"}
    changed = await client.json_patch(CONFIGMAPS, "a", namespace, [*[test] * 9_999, change])
    assert changed.to_dict()["data"] == {"key": "new"}
    text = "allowed maximum operations in a JSON patch is 10000, got 10001"
    with pytest.raises(ApiError, match=text) as found:
        await client.json_patch(CONFIGMAPS, "a", namespace, [change] * 10_001)
    assert found.value.status.code == 413


async def test_a_value_that_is_copied_into_itself_ends_at_three_megabytes(
    client: Client, namespace: str
) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    copies: list[JSON] = [{"op": "add", "path": "/x", "value": {"x": "x" * 1000}}]
    copies += [{"op": "copy", "from": "/x", "path": f"/x/c{index}"} for index in range(35)]
    with pytest.raises(ApiError, match="the server rejected our request") as found:
        await client.json_patch(CONFIGMAPS, "a", namespace, copies)
    assert found.value.status.code == 422
    few = [{"op": "copy", "from": "/data/key", "path": f"/data/k{index}"} for index in range(35)]
    changed = await client.json_patch(CONFIGMAPS, "a", namespace, few)
    assert len(changed.to_dict()["data"]) == 36
