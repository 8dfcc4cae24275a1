"""The running connections to providers, by binding and by Secret."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.konnector.consumer import Provider
from fairlead.konnector.policies.work import SecretKey


class RunningConnections:
    """Finds the running connection of a binding, or of the Secret with its kubeconfig."""

    def __init__(self) -> None:
        self._providers: list[Provider] = []
        self._listeners: list[Callable[[Provider], None]] = []

    def add(self, provider: Provider) -> None:
        """Add the connection of a provider that was joined."""
        self._providers.append(provider)
        for listener in list(self._listeners):
            listener(provider)

    def remove(self, provider: Provider) -> None:
        """Remove the connection of a provider that is being left."""
        self._providers.remove(provider)

    def on_add(self, listener: Callable[[Provider], None]) -> Callable[[], None]:
        """Call the listener with each running and each later connection.

        Returns:
            A function that ends the calls.
        """
        self._listeners.append(listener)
        for provider in self._providers:
            listener(provider)
        return lambda: self._listeners.remove(listener)

    def using(self, source: SecretKey) -> Provider | None:
        """Return the provider whose kubeconfig is in this Secret key, None if not connected."""
        return next((found for found in self._providers if source in found.spec.sources), None)

    def of(self, binding: str) -> Provider | None:
        """Return the provider of a binding, None if it is not connected."""
        return next((found for found in self._providers if binding in found.bindings), None)
