"""How long providers have been out of reach for bindings that wait for them."""

from __future__ import annotations


class Patience:
    """Tells when a provider that cannot be reached counts as gone.

    Times are in seconds of any clock; the wait begins anew when the provider was reached once.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: dict[str, float] = {}

    def ended(self, binding: str, *, unreachable: bool, now: float) -> bool:
        """Whether the provider of a binding has been unreachable for so long."""
        if not unreachable:
            self.forget(binding)
            return False
        return now - self._since.setdefault(binding, now) >= self._timeout

    def forget(self, binding: str) -> None:
        """The binding is gone, or waits no more."""
        self._since.pop(binding, None)
