"""Which provider a binding is connected to at the moment."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.konnector.consumer import Provider
from fairlead.konnector.policies.work import SecretKey


class RunningConnections:
    """The connections that run."""

    def __init__(self) -> None:
        self._providers: list[Provider] = []
        self._listeners: list[Callable[[Provider], None]] = []

    def add(self, provider: Provider) -> None:
        """A provider has been joined."""
        self._providers.append(provider)
        for listener in list(self._listeners):
            listener(provider)

    def remove(self, provider: Provider) -> None:
        """A provider is being left."""
        self._providers.remove(provider)

    def on_add(self, listener: Callable[[Provider], None]) -> Callable[[], None]:
        """Tell of every provider that is or will be joined; what is returned ends that."""
        self._listeners.append(listener)
        for provider in self._providers:
            listener(provider)
        return lambda: self._listeners.remove(listener)

    def using(self, source: SecretKey) -> Provider | None:
        """The provider whose kubeconfig is kept there, None when it is not connected."""
        return next((found for found in self._providers if source in found.wanted.sources), None)

    def of(self, binding: str) -> Provider | None:
        """The provider of a binding, None when it is not connected."""
        return next((found for found in self._providers if binding in found.bindings), None)
