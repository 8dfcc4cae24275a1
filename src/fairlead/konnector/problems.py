"""What keeps a binding's watches from working, gathered from those who notice it."""

from __future__ import annotations


_SHOWN = 3


class Problems:
    """Messages by binding and by who reported them."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, str]] = {}

    def report(self, binding: str, source: str, message: str) -> None:
        """Say what is wrong, or "" when all is well again."""
        known = self._messages.setdefault(binding, {})
        if message:
            known[source] = message
        else:
            known.pop(source, None)

    def message(self, binding: str) -> str:
        """What is wrong for a binding, "" when nothing is; of many, the first few."""
        found = [message for _, message in sorted(self._messages.get(binding, {}).items())]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "; ".join(found[:_SHOWN] + more)

    def clear(self, binding: str, prefix: str) -> None:
        """All whose source begins so have nothing to say any more."""
        known = self._messages.get(binding, {})
        for source in [source for source in known if source.startswith(prefix)]:
            del known[source]
