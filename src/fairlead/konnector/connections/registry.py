"""Which provider a binding is connected to at the moment."""

from __future__ import annotations

from fairlead.konnector.consumer import Provider


class Registry:
    """The connections that run."""

    def __init__(self) -> None:
        self._providers: list[Provider] = []

    def add(self, provider: Provider) -> None:
        """A provider has been joined."""
        self._providers.append(provider)

    def remove(self, provider: Provider) -> None:
        """A provider is being left."""
        self._providers.remove(provider)

    def of(self, binding: str) -> Provider | None:
        """The provider of a binding, None when it is not connected."""
        return next((found for found in self._providers if binding in found.bindings), None)
