"""Joins a provider for each distinct kubeconfig of the consumer, and leaves it after its use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Protocol

import structlog

from fairlead.api.kubebind import (
    KUBECONFIG_NAME,
    LABEL_PROVIDER_KUBECONFIG,
    APIServiceBinding,
    APIServiceBindingBundle,
)
from fairlead.api.meta import Key
from fairlead.client import ConfigError
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.controllers.connections.reconcile import ConnectionMember, reconcile
from fairlead.konnector.policies.work import ConnectionSpec, SecretKey
from fairlead.konnector.secrets import content, provider_config
from fairlead.runtime import Delta, Request, Result, spec_changed


_log = structlog.get_logger(logger_name="fairlead.konnector.controllers.connections")
_ALL = Request("", "", "all")


class JoinedProvider(Protocol):
    """A provider that was joined."""

    @property
    def ended(self) -> bool:
        """Whether the provider's tasks have ended without :meth:`stop`."""
        ...

    def join(self, spec: ConnectionSpec) -> None:
        """Replace the bindings and Secrets that use the connection."""
        ...

    async def stop(self) -> None:
        """Leave the provider."""
        ...


class Connector(Protocol):
    """Joins providers."""

    async def __call__(self, identity: str, spec: ConnectionSpec) -> JoinedProvider:
        """Join a provider; ``identity`` is the connection's key, made of its kubeconfig.

        Raises:
            ConfigError: the kubeconfig cannot be used.
        """
        ...


class ConnectionsController:
    """Watches bindings, bundles and their Secrets; a connection for each distinct kubeconfig."""

    name = "connections"

    def __init__(self, consumer: Consumer, connect: Connector) -> None:
        self._consumer = consumer
        self._connect = connect
        self._running: dict[str, tuple[ConnectionSpec, JoinedProvider]] = {}
        self._farewells: dict[str, float] = {}

    async def run(self) -> None:
        """Work until cancelled, then leave all providers."""
        consumer = self._consumer
        # The one request stands for all connections, which two passes must not change at once.
        controller = consumer.controller("konnector-connections", self._reconcile, workers=1)

        def secret_changed(_key: Key) -> None:
            controller.enqueue(_ALL)

        async with AsyncExitStack() as stack:
            for resource in (consumer.bindings.resource, consumer.bundles.resource):
                informer = consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                controller.watch(informer, _everything, predicate=spec_changed)
            consumer.secrets.listen(secret_changed)
            stack.callback(consumer.secrets.unlisten, secret_changed)
            await consumer.secrets.synced()
            stack.push_async_callback(self._leave_all)
            controller.enqueue(_ALL)
            await controller.run()

    async def _reconcile(self, _request: Request) -> Result:
        members = list(self._members())
        await self._consumer.secrets.follow({member.source.secret for member in members})
        specs = reconcile(
            members,
            {member.source: self._content(member.source) for member in members},
            {identity: spec for identity, (spec, _) in self._running.items()},
            usable=_usable,
        )
        for identity in list(self._running):
            # One that ended by itself is left here, and joined anew below.
            ended = self._running[identity][1].ended
            if ended or (identity not in specs and not self._says_farewell(identity)):
                await self._leave(identity)
        for identity, spec in specs.items():
            self._farewells.pop(identity, None)
            await self._enter(identity, spec)
        return Result(
            min(bounds.AGAIN_SECONDS, bounds.FAREWELL_SECONDS)
            if self._farewells
            else bounds.AGAIN_SECONDS
        )

    def _says_farewell(self, identity: str) -> bool:
        """Whether an unused connection stays for a moment, with no binding.

        Bindings that still exist belong to another connection now, which reports about them.
        """
        now = asyncio.get_running_loop().time()
        spec, connection = self._running[identity]
        if identity not in self._farewells:
            there = [self._consumer.bindings.get("", name) for name in spec.bindings]
            # Without bindings, as for a bundle alone, there is no end to report.
            if not there or any(there):
                return False
            self._farewells[identity] = now + bounds.FAREWELL_SECONDS
            self._running[identity] = (ConnectionSpec(spec.kubeconfig), connection)
            connection.join(ConnectionSpec(spec.kubeconfig))
        return now < self._farewells[identity]

    async def _leave_all(self) -> None:
        for identity in list(self._running):
            await self._leave(identity)

    async def _leave(self, identity: str) -> None:
        _, connection = self._running.pop(identity)
        self._farewells.pop(identity, None)
        _log.info("leaving provider", connection=identity[:12])
        await connection.stop()

    async def _enter(self, identity: str, spec: ConnectionSpec) -> None:
        running = self._running.get(identity)
        if running is None:
            _log.info("joining provider", connection=identity[:12], bindings=len(spec.bindings))
            connection = await self._connect(identity, spec)
            self._running[identity] = (spec, connection)
        elif running[0] != spec:
            running[1].join(spec)
            self._running[identity] = (spec, running[1])

    def _members(self) -> Iterator[ConnectionMember]:
        for obj in self._consumer.bindings.list():
            if (binding := obj.try_decode(APIServiceBinding)) is not None:
                ref = binding.spec.kubeconfig_secret_ref
                source = SecretKey(Key(ref.namespace, ref.name), ref.key)
                yield ConnectionMember(obj.meta.name, source)
        for obj in self._consumer.bundles.list():
            if (bundle := obj.try_decode(APIServiceBindingBundle)) is not None:
                ref = bundle.spec.kubeconfig_secret_ref
                yield ConnectionMember("", SecretKey(Key(ref.namespace, ref.name), ref.key))
        for secret in self._consumer.secrets.own():
            # kube-bind's label gives the provider heartbeats before any binding exists; its key
            # has a fixed name.
            if secret.meta.labels.get(LABEL_PROVIDER_KUBECONFIG) == "true":
                yield ConnectionMember("", SecretKey(secret.key, KUBECONFIG_NAME))

    def _content(self, source: SecretKey) -> bytes:
        return content(self._consumer.secrets.get(source.secret), source.key)


def _usable(kubeconfig: bytes) -> bool:
    try:
        provider_config(kubeconfig)
    except ConfigError:
        return False
    return True


def _everything(_delta: Delta) -> list[Request]:
    return [_ALL]
