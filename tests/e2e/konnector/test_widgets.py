"""The example of examples/03-widgets: a kind that Fairlead knows nothing about binds by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.support.pairs import fresh_planes
from tests.support.provider import WIDGETS, example, prepare, running
from tests.support.waiting import when

from fairlead.api.kubebind import APISERVICENAMESPACES, decode_binding_response
from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.programs import consumer_programs, run
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.manifests import NAME as KONNECTOR
from fairlead.provider.invitation import invite


class Pair:
    """Both clusters, bound, and the provider namespace of the consumer's ``default``."""

    def __init__(self, provider: Client, consumer: Client) -> None:
        self.provider = provider
        self.consumer = consumer
        self.namespace = ""


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with (
        fresh_planes("sandbox", "provider", "consumer") as (provider, consumer),
        Client(parse_kubeconfig(provider.kubeconfig())) as provider_client,
        Client(parse_kubeconfig(consumer.kubeconfig())) as consumer_client,
    ):
        await prepare(provider_client, exports=["widgets.example.org"])
        async with running(provider_client), asyncio.TaskGroup() as group:
            (program,) = [item for item in consumer_programs() if item.name == KONNECTOR]
            task = group.create_task(run(program, consumer_client, cluster_name="consumer"))
            try:
                yield await _bound(Pair(provider_client, consumer_client))
            finally:
                task.cancel()


async def _bound(pair: Pair) -> Pair:
    response = await invite(pair.provider, name="team-a", template="widgets")
    answer = decode_binding_response(msgspec.json.encode(response))
    assert await bind(pair.consumer, answer) == ["widgets"]
    await pair.consumer.create(WIDGETS, example("sample"))
    stored = await when(
        pair.provider,
        APISERVICENAMESPACES,
        "default",
        answer.provider_namespace,
        until=lambda body: bool(body.get("status", {}).get("namespace")),
    )
    pair.namespace = stored["status"]["namespace"]
    return pair


def data(name: str, kind: str, **labels: str) -> JSON:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"k": "dg=="}}


async def test_the_example_binds_without_a_change_of_code(pair: Pair) -> None:
    here, there, namespace = pair.consumer, pair.provider, pair.namespace
    copy = await when(there, WIDGETS, "blue", namespace, until=bool)
    assert copy["spec"] == example("sample")["spec"]

    made = {"status": {"made": 3, "factory": "north"}}
    await there.merge_patch(WIDGETS, "blue", namespace, made, subresource="status")
    await when(
        here, WIDGETS, "blue", "default", until=lambda body: body.get("status") == made["status"]
    )

    await there.create(SECRETS, data("blue-origin", "Secret"), namespace)
    await there.create(SECRETS, data("not-named", "Secret"), namespace)
    arrived = await when(here, SECRETS, "blue-origin", "default", until=bool)
    assert arrived["data"] == {"k": "dg=="}

    label = {"example.org/for-the-factory": "true"}
    await here.create(CONFIGMAPS, data("order", "ConfigMap", **label), "default")
    await when(there, CONFIGMAPS, "order", namespace, until=bool)
    names = {item.meta.name for item in (await here.list(SECRETS, "default")).items}
    assert "not-named" not in names


async def test_a_new_field_of_the_providers_crd_reaches_the_consumer(pair: Pair) -> None:
    name = "widgets.example.org"
    crd = (await pair.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["shape"] = {"type": "string"}
    await pair.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await when(
        pair.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        name,
        until=lambda body: "shape" in str(body["spec"]["versions"]),
    )


async def test_a_deleted_widget_is_gone_on_both_sides(pair: Pair) -> None:
    await when(pair.provider, WIDGETS, "blue", pair.namespace, until=bool)
    await pair.consumer.delete(WIDGETS, "blue", "default")
    for client, namespace in ((pair.provider, pair.namespace), (pair.consumer, "default")):
        await when(client, WIDGETS, "blue", namespace, until=lambda body: not body)
