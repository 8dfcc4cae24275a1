from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubebind import NS, crd
from tests.support.stale import StaleServer

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.api.status import Status
from fairlead.client.errors import Forbidden
from fairlead.client.wire import Page
from fairlead.provider.controllers.namespace import departure as remains
from fairlead.provider.controllers.namespace.leaving import Remains


class Paged(StaleServer):
    """Shows one object at a time."""

    def __init__(self, made: Object, owners: list[str]) -> None:
        super().__init__({CUSTOMRESOURCEDEFINITIONS: [made]})
        self._owners = owners
        self.asked = 0

    async def page(
        self, resource: Resource, namespace: str = "", *, continue_: str = "", **_: Any
    ) -> Page:
        self.asked += 1
        number = int(continue_ or 0)
        if not self._owners:
            return Page([], "1", "")
        metadata: JSON = {"name": f"w{number}"}
        if owner := self._owners[number]:
            metadata["annotations"] = {"kube-bind.io/cluster-namespace": owner}
        rest = str(number + 1) if number + 1 < len(self._owners) else ""
        return Page([object_from_dict({"kind": resource.kind, "metadata": metadata})], "1", rest)


class Closed(Paged):
    """Lists no objects."""

    async def page(self, resource: Resource, namespace: str = "", **more: Any) -> Page:
        raise Forbidden(Status(message=f"no right on {resource.plural}"))


def names(*numbers: int) -> list[str]:
    return [f"widgets.example.org w{number}" for number in numbers]


@pytest.mark.parametrize(
    ("owners", "expected", "asked"),
    [
        pytest.param([], Remains(), 1, id="none"),
        pytest.param(["", "other", ""], Remains(), 3, id="none of the consumer's"),
        pytest.param(["", "", NS], Remains(names=names(2)), 3, id="one behind others"),
        pytest.param([NS] * 5, Remains(names=names(*range(5))), 5, id="as many as are looked for"),
        pytest.param(
            [NS] * 9, Remains(names=names(*range(5)), more=True), 5, id="more than are looked for"
        ),
    ],
)
async def test_pages_are_read_until_enough_is_found(
    owners: list[str], expected: Remains, asked: int
) -> None:
    server = Paged(crd(), owners)
    assert await remains.remains(server.client, "shop", NS) == expected
    assert server.asked == asked


async def test_cluster_scoped_kinds_are_in_no_namespace() -> None:
    server = Paged(crd(scope="Cluster"), [NS])
    assert await remains.remains(server.client, "shop", NS) == Remains()
    assert server.asked == 0


async def test_a_kind_that_is_not_served_could_not_be_looked_at() -> None:
    version: JSON = {"name": "v1", "served": False, "storage": True, "schema": {}}
    found = await remains.remains(Paged(crd(versions=[version]), []).client, "shop", NS)
    assert found.refused == ["CustomResourceDefinition widgets.example.org serves no version"]
    assert not found.none


@pytest.mark.parametrize(
    ("label", "refused"),
    [
        pytest.param(
            "kube-bind.io/exported",
            ["the provider may not list widgets.example.org"],
            id="of v1alpha2",
        ),
        pytest.param("core.kbind.io/exported", [], id="that others offer by kbind v2"),
    ],
)
async def test_a_kind_that_may_not_be_listed(label: str, refused: list[str]) -> None:
    made = crd()
    body = made.to_dict()
    body["metadata"]["labels"] = {label: "true"}
    found = await remains.remains(Closed(object_from_dict(body), []).client, "shop", NS)
    assert found.refused == refused
