"""Listing a custom resource whose CRD is absent, just being installed, or served in a moment."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fakeserver import Answer, FakeServer, failure, respond, text

from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, NotFound, limits
from fairlead.client.lookups import list_all


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
CRD = CUSTOMRESOURCEDEFINITIONS.path("", "widgets.example.org")
UNSERVED = text("404 page not found\n", 404, "text/plain")


def crd(*conditions: dict[str, str]) -> Answer:
    named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    metadata = {"name": "widgets.example.org", "uid": "1", "resourceVersion": "1"}
    return respond({**named, "metadata": metadata, "status": {"conditions": conditions}})


ESTABLISHED = crd({"type": "Established", "status": "True"})
ITEMS = respond({"metadata": {}, "items": [{"metadata": {"name": "a"}}]})


def absent() -> Answer:
    status: dict[str, Any] = {"name": "widgets.example.org", "kind": "customresourcedefinitions"}
    body = {"kind": "Status", "code": 404, "reason": "NotFound", "details": status}
    return respond(body, 404)


@pytest.mark.parametrize(
    ("definition", "listed", "names"),
    [
        pytest.param(absent(), [UNSERVED], [], id="no CRD"),
        pytest.param(crd(), [UNSERVED], [], id="a CRD that is not established"),
        pytest.param(ESTABLISHED, [UNSERVED, UNSERVED, ITEMS], ["a"], id="served in a moment"),
        pytest.param(ESTABLISHED, [ITEMS], ["a"], id="served"),
    ],
)
async def test_a_list_of_a_custom_resource(
    client: Client, server: FakeServer, definition: Answer, listed: list[Answer], names: list[str]
) -> None:
    server.on(CRD, definition).on(WIDGETS.path(), *listed)
    assert [found.meta.name for found in await list_all(client, WIDGETS)] == names


async def test_a_kind_that_stays_unserved_is_an_error(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOOK_PAUSE_SECONDS", 0.001)
    server.on(CRD, ESTABLISHED).on(WIDGETS.path(), failure(404, "NotFound"))
    with pytest.raises(NotFound):
        await list_all(client, WIDGETS)
