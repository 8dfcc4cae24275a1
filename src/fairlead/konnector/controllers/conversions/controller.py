"""Looks whether the conversion webhooks of bound kinds answer, and reports those that do not.

A webhook that does not answer is never removed here: the consumer decides.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack

from fairlead.api.definitions import CRDSpec, crd_spec
from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.kubebind.conditions import (
    CONVERSION_FAILING,
    get_condition,
    stored_conditions,
)
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES
from fairlead.client import ApiError, ClientError, NotFound
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Consumer, binding_itself, owning_bindings
from fairlead.konnector.controllers.conversions.reconcile import (
    FailingWebhook,
    failed_conversion,
    held_namespaces,
    reconcile,
)
from fairlead.konnector.conversions import installed_webhook
from fairlead.runtime import Request, Result, spec_changed


class ConversionsController:
    """Reads an object of each kind with a webhook, in each served version, at an interval."""

    name = "conversions"

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # Leased before the cluster runs, so that the konnector is not ready without them.
        self._namespaces = consumer.namespaces
        self._failing: dict[tuple[str, str], FailingWebhook] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        # Each look may wait for a webhook that does not answer.
        controller = self._consumer.controller(
            "konnector-conversions", self._reconcile, workers=bounds.CONVERSIONS_AT_ONCE
        )
        async with AsyncExitStack() as stack:
            for resource, mapper in (
                (APISERVICEBINDINGS, binding_itself),
                (CUSTOMRESOURCEDEFINITIONS, owning_bindings),
            ):
                informer = self._consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                controller.watch(informer, mapper, predicate=spec_changed)
            await controller.run()

    async def _reconcile(self, request: Request) -> Result | None:
        binding = self._consumer.bindings.get("", request.name)
        if binding is None:
            return None
        # While it is taken away, its webhooks are taken away first.
        converted = [] if binding.meta.deleting else self._converted(binding)
        failures = [await self._failure(crd) for crd in converted]
        condition = reconcile(request.name, [one for one in failures if one is not None])
        if condition is not None:
            await self._consumer.statuses.set(request.name, condition)
        elif get_condition(stored_conditions(binding), CONVERSION_FAILING) is not None:
            await self._consumer.statuses.set(request.name, absent=[CONVERSION_FAILING])
        return Result(self._consumer.options.conversion_interval) if converted else None

    def _converted(self, binding: Object) -> list[Object]:
        owned = [crd for crd in self._consumer.crds.list() if crd.meta.owned_by(binding.meta.uid)]
        return [crd for crd in owned if installed_webhook(crd)]

    async def _failure(self, crd: Object) -> FailingWebhook | None:
        """Return the failure of a CRD's webhook, None while the server can convert by it."""
        spec, url = crd_spec(crd), installed_webhook(crd)
        key = (crd.meta.uid, url)
        why = await self._why(spec)
        if not why:
            self._failing.pop(key, None)
            return None
        # A server's errors have other ports each time: a condition that changes with them would be
        # written for ever.
        before = self._failing.get(key)
        if before is not None and _unnumbered(before.why) == _unnumbered(why):
            why = before.why
        failure = FailingWebhook(crd.meta.name, url, why, await self._objects_held(spec))
        self._failing[key] = failure
        return failure

    async def _why(self, spec: CRDSpec) -> str:
        """Return why the webhook keeps an object from being read, "" if it does not."""
        client = self._consumer.client
        try:
            for resource in map(spec.resource, spec.served):
                async with asyncio.timeout(bounds.ANSWER_SECONDS):
                    page = await client.page(resource, limit=1, metadata_only=True)
                    some = next(iter(page.items), None)
                    # A list may come from a cache that was filled when the webhook still answered;
                    # one object is read from the store, and converted.
                    if some is not None:
                        await client.get(resource, some.meta.name, some.meta.namespace)
        except ApiError as error:
            return failed_conversion(error.message, spec)
        except (ClientError, TimeoutError):
            # Other faults of this cluster's server are told by the watches.
            return ""
        return ""

    async def _objects_held(self, spec: CRDSpec) -> list[str]:
        going = [space for space in self._namespaces.list() if space.meta.deleting]
        objects: list[Object] = []
        for namespace in going[: bounds.NAMESPACES_READ]:
            try:
                objects.append(await self._consumer.client.get(NAMESPACES, namespace.meta.name))
            except NotFound:
                continue
            except ClientError:
                break
        return held_namespaces(objects, spec)


def _unnumbered(message: str) -> str:
    return re.sub(r"[0-9]+", "", message)
