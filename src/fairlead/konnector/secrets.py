"""The Secrets of the consumer that hold kubeconfigs of providers, and their content."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from fairlead.api.meta import Key, Object
from fairlead.api.resource import SECRETS
from fairlead.client import ClusterConfig, ConfigError, parse_kubeconfig
from fairlead.runtime import Cluster, Delta, Informer


class KubeconfigSecrets:
    """Leases on the informers of kubeconfig Secrets."""

    def __init__(self, consumer: Cluster, namespace: str) -> None:
        self._consumer = consumer
        self._namespace = namespace
        self._own = consumer.informer(SECRETS, namespace=namespace)
        self._others: dict[Key, Informer] = {}
        self._listeners: list[Callable[[Key], None]] = []
        self._own.subscribe(self._tell)

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Call the listener with the key of each Secret that changes."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Key], None]) -> None:
        """Call the listener no more."""
        self._listeners.remove(listener)

    async def follow(self, keys: set[Key]) -> None:
        """Watch these Secrets and no others outside of the konnector's namespace."""
        outside = {key for key in keys if key.namespace != self._namespace}
        for key in sorted(self._others.keys() - outside):
            await self._others.pop(key).close()
        for key in sorted(outside - self._others.keys()):
            # By its name alone: the konnector reads no Secret without a reference.
            lease = self._consumer.informer(
                SECRETS, namespace=key.namespace, fields=f"metadata.name={key.name}"
            )
            self._others[key] = lease
            lease.subscribe(self._tell)

    def own(self) -> list[Object]:
        """Return the Secrets of the konnector's namespace."""
        return self._own.list()

    def get(self, key: Key) -> Object | None:
        """Return a Secret that is followed."""
        lease = self._lease(key)
        return lease.get(key.namespace, key.name) if lease else None

    def has_synced(self, key: Key) -> bool:
        """Whether the cache knows if a Secret exists."""
        lease = self._lease(key)
        return lease is not None and lease.has_synced

    def error(self, key: Key) -> str:
        """Return why a Secret cannot be read, "" if it can."""
        lease = self._lease(key)
        return lease.error if lease else ""

    async def synced(self) -> None:
        """Wait until the Secrets of the konnector's namespace are listed."""
        await self._own.synced()

    def _lease(self, key: Key) -> Informer | None:
        return self._own if key.namespace == self._namespace else self._others.get(key)

    def _tell(self, delta: Delta) -> None:
        for listener in list(self._listeners):
            listener(delta.object.key)


class _Secret(msgspec.Struct):
    data: dict[str, str | None] | None = None


def content(secret: Object | None, key: str) -> bytes:
    """Return the content of a Secret's key; b"" if it is missing or not base64."""
    parsed = secret.try_decode(_Secret) if secret is not None else None
    if parsed is None:
        return b""
    try:
        return base64.b64decode((parsed.data or {}).get(key) or "", validate=True)
    except ValueError:
        return b""


def provider_config(kubeconfig: bytes) -> ClusterConfig:
    """Return the config of a provider; the current context's namespace is the cluster namespace.

    Raises:
        ConfigError: the kubeconfig cannot be used, or it names no namespace.
    """
    config = parse_kubeconfig(kubeconfig)
    if not config.namespace:
        raise ConfigError(
            "the current context has no namespace: it must name the cluster namespace that the "
            "provider created for you"
        )
    return config
