"""A provider that brings a conversion webhook, seen from a consumer with a real API server.

The provider lies: it writes its BoundSchema by hand, as no program of ours would. The webhook of
these tests listens on loopback, which no person may accept, so that the record stands for one who
has accepted it.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.konnector import Link, World, event
from tests.support.pki import Authority
from tests.support.realplane import RealPlane
from tests.support.tiers import real
from tests.support.waiting import SECONDS, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTTEMPLATES,
    BOUNDSCHEMAS,
    APIServiceBinding,
    BoundSchema,
    ConversionWebhook,
    crd_from_bound_schema,
)
from fairlead.api.kubebind.boundschema import unwrapped_schema
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.conversions import (
    AcceptedWebhooks,
    record_webhooks,
    remove_webhooks,
)
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.unbind import unbind


DEAD = "does not answer correctly"


class Webhook:
    """Renames the colour of v1 to the tint of v2 and back, and keeps what it was sent."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority.create("webhook")
        self._folder = folder
        self._runner: web.AppRunner | None = None
        self.url = ""
        self._port = 0
        self.seen: list[JSON] = []

    @property
    def conversion(self) -> JSON:
        authority = base64.b64encode(self._authority.pem).decode()
        return {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": self.url, "caBundle": authority},
                "conversionReviewVersions": ["v1"],
            },
        }

    async def start(self) -> None:
        pair = self._authority.issue("webhook")
        file = self._folder / "webhook.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        app = web.Application()
        app.router.add_post("/convert", self._convert)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=context)
        await site.start()
        host, self._port = self._runner.addresses[0][:2]
        self.url = f"https://{host}:{self._port}/convert"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _convert(self, request: web.Request) -> web.Response:
        review = await request.json()
        wanted = review["request"]["desiredAPIVersion"]
        objects = review["request"]["objects"]
        self.seen += objects
        answer = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [_converted(one, wanted) for one in objects],
        }
        return web.json_response({**review, "response": answer})


def _converted(body: JSON, version: str) -> JSON:
    old, new = ("colour", "tint") if version.endswith("/v2") else ("tint", "colour")
    spec = dict(body["spec"])
    if old in spec:
        spec[new] = spec.pop(old)
    return {**body, "apiVersion": version, "spec": spec}


@pytest.fixture(scope="module")
def plane(plane_thread: Any, real_programs: None) -> Iterator[RealPlane]:
    """A server of its own: a webhook that does not answer holds up every namespace of it."""
    plane = RealPlane()
    plane_thread.run(plane.start())
    yield plane
    plane_thread.run(plane.stop())


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    webhook = Webhook(tmp_path)
    await webhook.start()
    yield webhook
    await webhook.stop()


@pytest.fixture(params=[real("consumer", id="real-consumer")])
async def world(request: pytest.FixtureRequest, stack: AsyncExitStack, plane: RealPlane) -> World:
    world = World(stack, real=request.param, plane=plane)
    await world.start()
    await world.konnector(conversion_interval=0.2)
    return world


async def bound(world: World) -> Link:
    """Bind by a template whose schema only this test changes."""
    never = {"spec": {"schemaUpdatePolicy": "Never"}}
    await world.provider.merge_patch(APISERVICEEXPORTTEMPLATES, world.group, "", never)
    return await world.bound()


async def schema_of(world: World, link: Link) -> Object:
    name = world.widgets.group_resource
    return await world.provider.get(BOUNDSCHEMAS, name, link.cluster_namespace)


async def writes(world: World, link: Link, spec: JSON) -> None:
    """Have the provider write the spec of its BoundSchema."""
    name = world.widgets.group_resource
    patch = {"spec": spec}
    await world.provider.merge_patch(BOUNDSCHEMAS, name, link.cluster_namespace, patch)


async def brings(world: World, link: Link, webhook: Webhook) -> None:
    """Have the provider serve v2, which is stored, and convert to it by the webhook.

    Its sandbox calls no webhooks: it takes the fields of either version in both.
    """
    name = world.widgets.group_resource
    offered = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()["spec"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    (known,) = offered["versions"]
    known = {**known, "schema": {"openAPIV3Schema": anything}, "additionalPrinterColumns": []}
    versions = [known, {**known, "name": "v2", "storage": False}]
    await world.provider.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, name, "", {"spec": {"versions": versions}}
    )
    body = (await schema_of(world, link)).to_dict()
    (first,) = body["spec"]["versions"]
    tint = {"type": "object", "properties": {"tint": {"type": "string"}}}
    second = {
        **first,
        "name": "v2",
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": tint, "status": tint}}
        },
        "additionalPrinterColumns": [],
        "subresources": {"status": {}},
    }
    spec = {
        **body["spec"],
        "versions": [{**first, "storage": False}, second],
        "conversion": webhook.conversion,
    }
    await writes(world, link, spec)


async def strategy(world: World, wanted: str) -> None:
    await when(
        world.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        world.widgets.group_resource,
        until=lambda body: body and body["spec"]["conversion"]["strategy"] == wanted,
    )


async def accepts(world: World, link: Link, webhook: Webhook) -> None:
    """Record an acceptance, which no person could give for an address on loopback."""
    known = ConversionWebhook(
        group=world.widgets.group, resource=world.widgets.plural, url=webhook.url
    )
    await record_webhooks(world.consumer, link.name, [known], lambda _line: None)
    await strategy(world, "Webhook")


async def going(world: World, name: str) -> None:
    """A namespace that is being deleted, on a server that has read none of the objects yet."""
    # Any change of a CRD has its API server drop the objects that it keeps.
    await world.consumer.merge_patch(
        CUSTOMRESOURCEDEFINITIONS,
        world.widgets.group_resource,
        "",
        {"spec": {"names": {"shortNames": ["wdg"]}}},
    )
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await world.consumer.create(NAMESPACES, body)
    await world.consumer.delete(NAMESPACES, name)


async def test_a_webhook_is_asked_about_told_when_dead_and_removed_by_command(
    world: World, webhook: Webhook
) -> None:
    link = await bound(world)
    await world.consumer.create(world.widgets, world.widget("blue"))
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)

    await brings(world, link, webhook)
    told = await link.condition("SchemaInSync", lambda one: one.get("status") == "False")
    assert told["reason"] == "WebhookNotAccepted"
    assert webhook.url in told["message"]
    await strategy(world, "None")
    changed = {"spec": {"colour": "red"}}
    await world.consumer.merge_patch(world.widgets, "blue", "default", changed)
    red = lambda body: body["spec"]["colour"] == "red"  # noqa: E731
    await when(world.provider, world.widgets, "blue", namespace, until=red)
    assert webhook.seen == []
    with pytest.raises(BindError, match=r"cannot be accepted: 127\.0\.0\.1 is loopback"):
        await accept(
            world.consumer,
            link.name,
            timeout=SECONDS,
            webhooks=AcceptedWebhooks((webhook.url,)),
        )

    await accepts(world, link, webhook)
    await link.says(Ready="True", SchemaInSync="True")
    newer = msgspec.structs.replace(world.widgets, version="v2")
    await when(
        world.consumer, newer, "blue", "default", until=lambda body: body["spec"]["tint"] == "red"
    )
    assert webhook.seen

    await webhook.stop()
    await link.condition("ConversionFailing", bool)
    held = f"held-{link.name}"
    await going(world, held)
    told = await link.condition("ConversionFailing", lambda one: held in one.get("message", ""))
    assert told["reason"] == "WebhookFailing"
    assert f"{webhook.url} of {world.widgets.group_resource} {DEAD}" in told["message"]
    command = f"`fairlead accept {link.name} --remove-conversion-webhook {webhook.url}`"
    assert command in told["message"]
    await strategy(world, "Webhook")

    lines: list[str] = []
    await remove_webhooks(world.consumer, link.name, [webhook.url], lines.append)
    assert lines[-1].endswith("no longer has this webhook")
    await gone(world.consumer, NAMESPACES, held)
    await link.condition("ConversionFailing", lambda one: not one)
    told = await link.condition("SchemaInSync", lambda one: one.get("status") == "False")
    assert "Until then the konnector copies no content" in told["message"]
    await strategy(world, "None")
    # In v1 it has no colour now, which is not to reach the copy.
    await world.consumer.merge_patch(newer, "blue", "default", {"spec": {"tint": "green"}})
    assert (await world.consumer.get(world.widgets, "blue", "default")).to_dict()["spec"] == {}
    await webhook.start()
    await accepts(world, link, webhook)
    green = lambda body: body["spec"].get("tint") == "green"  # noqa: E731
    await when(world.provider, newer, "blue", namespace, until=green)


async def test_a_webhook_of_a_former_version_counts_and_unbinding_takes_it_away_first(
    world: World, webhook: Webhook
) -> None:
    link = await bound(world)
    await brings(world, link, webhook)
    await link.condition("SchemaInSync", lambda one: one.get("status") == "False")
    await world.one.stop()
    # As the former version left it: installed, and no record.
    schema = (await schema_of(world, link)).decode(BoundSchema).spec
    spec = crd_from_bound_schema(schema)["spec"]
    name = world.widgets.group_resource
    await world.consumer.merge_patch(CUSTOMRESOURCEDEFINITIONS, name, "", {"spec": spec})
    await world.consumer.merge_patch(
        APISERVICEBINDINGS,
        link.name,
        "",
        {"status": {"conversionWebhooks": None}},
        subresource="status",
    )
    await world.one.start()
    said = await event(world.consumer, "default", "ConversionAccepted")
    assert webhook.url in said["message"]
    await link.says(Ready="True", SchemaInSync="True")
    found = await world.consumer.get(APISERVICEBINDINGS, link.name)
    accepted = found.decode(APIServiceBinding).status.conversion_webhooks or []
    assert [known.url for known in accepted] == [webhook.url]
    await world.consumer.create(world.widgets, world.widget("blue"))
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)

    await webhook.stop()
    await link.condition("ConversionFailing", bool)
    await unbind(world.consumer, link.name, orphan=True, timeout=SECONDS)
    copy = (await world.provider.get(world.widgets, "blue", namespace)).to_dict()
    # Written without its conversion, the object would have lost it.
    assert copy["spec"]["tint"] == "blue"


async def test_unbinding_opens_a_schema_that_refuses_every_write(world: World) -> None:
    """A rule of the provider's, of a moment ago, keeps our finalizer on the objects."""
    link = await bound(world)
    await world.consumer.create(world.widgets, world.widget("blue"))
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    body = (await schema_of(world, link)).to_dict()
    (version,) = body["spec"]["versions"]
    schema = unwrapped_schema(version["schema"])
    schema["x-kubernetes-validations"] = [{"rule": "has(oldSelf.spec) && false"}]
    await writes(world, link, body["spec"])

    def ruled(body: JSON) -> bool:
        (version,) = body["spec"]["versions"]
        return "x-kubernetes-validations" in version["schema"]["openAPIV3Schema"]

    name = world.widgets.group_resource
    await when(world.consumer, CUSTOMRESOURCEDEFINITIONS, name, until=ruled)
    await unbind(world.consumer, link.name, timeout=SECONDS)
    await gone(world.provider, world.widgets, "blue", namespace)
