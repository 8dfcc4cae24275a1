"""Sets condition SecretValid of each binding: whether its Secret holds a usable kubeconfig."""

from __future__ import annotations

from contextlib import AsyncExitStack

from fairlead.api.kubebind import APIServiceBinding, ClusterSecretKeyRef
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import Key, Object
from fairlead.api.timestamps import moment
from fairlead.client import ConfigError
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.controllers.bindingsecret.reconcile import grace_left, reconcile
from fairlead.konnector.secrets import content, provider_config
from fairlead.runtime import Request, Result


class BindingSecretController:
    """Watches bindings and the Secrets that they refer to."""

    name = "bindingsecret"

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def run(self) -> None:
        """Work until cancelled."""
        consumer = self._consumer
        controller = consumer.controller("konnector-bindingsecret", self._reconcile)

        def secret_changed(key: Key) -> None:
            for obj in consumer.bindings.list():
                binding = obj.try_decode(APIServiceBinding)
                if binding is None:
                    continue
                ref = binding.spec.kubeconfig_secret_ref
                if Key(ref.namespace, ref.name) == key:
                    controller.enqueue(Request("", "", obj.meta.name))

        async with AsyncExitStack() as stack:
            bindings = consumer.cluster.informer(consumer.bindings.resource)
            stack.push_async_callback(bindings.close)
            controller.watch(bindings)
            consumer.secrets.listen(secret_changed)
            stack.callback(consumer.secrets.unlisten, secret_changed)
            await consumer.secrets.synced()
            await controller.run()

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self._consumer.bindings.get("", request.name)
        if obj is None:
            return None
        ref = obj.decode(APIServiceBinding).spec.kubeconfig_secret_ref
        key = Key(ref.namespace, ref.name)
        secrets = self._consumer.secrets
        # The Secret is still being listed: calling it missing would make a binding unready at each
        # start.
        if not secrets.has_synced(key) and not secrets.error(key):
            return None
        if left := seconds_left(self._consumer, obj, ref):
            return Result(left)
        await self._consumer.statuses.set(request.name, secret_valid(self._consumer, ref))
        return None


def seconds_left(consumer: Consumer, obj: Object, ref: ClusterSecretKeyRef) -> float:
    """Return how long the missing Secret of a binding or bundle is still awaited, in seconds."""
    key = Key(ref.namespace, ref.name)
    # A Secret that cannot be read will not come by waiting.
    if consumer.secrets.get(key) is not None or consumer.secrets.error(key):
        return 0.0
    return grace_left(obj.meta.creation_timestamp, moment())


def secret_valid(consumer: Consumer, ref: ClusterSecretKeyRef) -> KubeBindCondition:
    """Return the condition SecretValid for a reference to a Secret of the consumer."""
    key = Key(ref.namespace, ref.name)
    secret = consumer.secrets.get(key)
    kubeconfig = content(secret, ref.key)
    return reconcile(
        ref,
        exists=secret is not None,
        content=kubeconfig,
        unreadable="" if consumer.secrets.has_synced(key) else consumer.secrets.error(key),
        fault=fault(kubeconfig) if kubeconfig else "",
    )


def fault(kubeconfig: bytes) -> str:
    """Return the fault of a provider's kubeconfig, "" if there is none; it quotes no content."""
    try:
        provider_config(kubeconfig)
    except ConfigError as error:
        return str(error)
    return ""
