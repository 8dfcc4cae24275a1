"""Consumers as a provider sees them: with nothing but what their invitations give."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from tests.support.provider import example, invited, request_export, request_namespace
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEEXPORTS, APISERVICENAMESPACES
from fairlead.api.meta import JSON
from fairlead.api.resource import EVENTS, Resource
from fairlead.client import Client
from fairlead.provider.invitation import invite


class Consumer:
    """One consumer as the provider sees it: its client, its namespace and its invitation."""

    def __init__(self, client: Client, namespace: str, response: JSON) -> None:
        self.client = client
        self.namespace = namespace
        self.response = response

    async def when(self, resource: Resource, name: str, *, until: Callable[[JSON], Any]) -> JSON:
        """An object of the cluster namespace, as the consumer sees it, once it is as wanted."""
        return await when(self.client, resource, name, self.namespace, until=until)

    async def says(
        self,
        resource: Resource,
        type_: str,
        value: str,
        name: str = "widgets",
        field: str = "status",
    ) -> JSON:
        """The object whose condition of this type has come to have this status, or reason."""
        return await self.when(
            resource, name, until=lambda body: condition(body, type_).get(field) == value
        )

    async def bind(self) -> None:
        await request_export(self.client, self.namespace, self.response["requests"][0])
        await self.says(APISERVICEEXPORTS, "ProviderInSync", "True")

    async def provider_namespace(self, name: str) -> str:
        await request_namespace(self.client, self.namespace, name)
        body = await self.when(
            APISERVICENAMESPACES,
            name,
            until=lambda body: bool(body.get("status", {}).get("namespace")),
        )
        namespace: str = body["status"]["namespace"]
        return namespace

    async def granted(self) -> None:
        """Wait until the rights of the export are there."""
        await self.says(APISERVICEEXPORTS, "PermissionsGranted", "True")

    async def event(self, admin: Client, reason: str) -> None:
        """Wait for an event in the consumer's cluster namespace."""
        listed = await admin.list(EVENTS, self.namespace)
        if any(item.to_dict()["reason"] == reason for item in listed.items):
            return
        async for event in admin.watch(
            EVENTS, self.namespace, resource_version=listed.resource_version
        ):
            if event.type != "BOOKMARK" and event.object.to_dict()["reason"] == reason:
                return
        pytest.fail(f"no Event with reason {reason}")


async def consumer(
    stack: AsyncExitStack, admin: Client, *, template: str = "widgets", identity: str = ""
) -> Consumer:
    """A consumer that nobody knew before, invited to use widgets."""
    chosen = identity or str(uuid.uuid4())
    response = await invite(admin, name="team", template=template, identity=chosen)
    client, namespace = await stack.enter_async_context(invited(msgspec.json.encode(response)))
    return Consumer(client, namespace, response)


def widget(name: str = "blue") -> JSON:
    """The example's widget."""
    return example("sample") | {"metadata": {"name": name}}


def secret(name: str) -> JSON:
    """A Secret with nothing in it."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
