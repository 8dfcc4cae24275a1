"""Providers whose Connections can be used, as bindings find them by the Connection's name."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from fairlead.client import Client
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.schemas.source import ProviderSchemas
from fairlead.runtime import Cluster


class ConnectedProvider:
    """The provider of one Connection, by one kubeconfig; another kubeconfig makes another one.

    Args:
        connection: name of the Connection.
        cluster: the provider's cluster; its client writes as field manager kbind-konnector.
        schemas: the APIs that the provider offers, with their schemas.
        remote_uid: uid of the provider's cluster.
        local_uid: uid of the consumer's cluster.
        syncers: work on this provider; it ends with the link to the provider.
    """

    def __init__(
        self,
        connection: str,
        cluster: Cluster,
        schemas: ProviderSchemas,
        remote_uid: str,
        local_uid: str,
        syncers: Supervisor[Hashable],
    ) -> None:
        self.connection = connection
        self.cluster = cluster
        self.schemas = schemas
        self.remote_uid = remote_uid
        self.local_uid = local_uid
        self.syncers = syncers

    @property
    def client(self) -> Client:
        """The provider's client."""
        return self.cluster.client


class ConnectedProviders:
    """The providers that can be used, by the names of their Connections.

    A provider is among them while its Connection is ready, or is deleted and waits for bindings.
    """

    def __init__(self) -> None:
        self._providers: dict[str, ConnectedProvider] = {}
        self._listeners: list[Callable[[str], None]] = []

    def of(self, connection: str) -> ConnectedProvider | None:
        """Return the provider of a Connection, None while it cannot be used."""
        return self._providers.get(connection)

    def put(self, connection: str, provider: ConnectedProvider | None) -> None:
        """Set the provider of a Connection; None while it cannot be used."""
        if self._providers.get(connection) is provider:
            return
        if provider is None:
            del self._providers[connection]
        else:
            self._providers[connection] = provider
        for listener in list(self._listeners):
            listener(connection)

    def listen(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call the listener with the name of each Connection whose provider comes or goes.

        It is called with those that are there at once.

        Returns:
            A function that ends the calls.
        """
        self._listeners.append(listener)
        for connection in list(self._providers):
            listener(connection)
        return lambda: self._listeners.remove(listener)
