"""The bare loader of the konnector: it makes the same writes, and looks at nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable

from bench.loading import Side, Write, each, namespace_of, patch, post
from bench.sync.load import create, status
from bench.sync.pair import BARE
from bench.widgets import widget
from fairlead.api.kubebind import FINALIZER_SYNCER


LOADED = "bare"
"""The prefix of its objects in the measured run, which are numbered."""


class Bare:
    """The bare loader on both sides."""

    def __init__(self, consumer: Side, provider: Side) -> None:
        self._consumer = consumer
        self._provider = provider

    async def run(self, prefix: str, numbers: Iterable[int], connections: int) -> float:
        """Time the writes for the objects of these numbers."""
        made = [self._writes(f"{prefix}-{number}", number) for number in numbers]
        begun = time.monotonic()
        await each(connections, self._one, made)
        return time.monotonic() - begun

    async def _one(self, writes: list[tuple[Side, Write]]) -> None:
        for where, write in writes:
            await where.send(write)

    def _writes(self, name: str, number: int) -> list[tuple[Side, Write]]:
        """Make the konnector's writes: what a copy carries, and what is told of it."""
        consumer, provider = self._consumer, self._provider
        where = namespace_of(number)
        copy = widget(name, where, number)
        copy["metadata"]["annotations"] |= {
            "kube-bind.io/cluster-namespace": "kube-bind-xxxxxxxx",
            "kube-bind.io/consumer-namespace": where,
            "kube-bind.io/consumer-uid": "00000000-0000-0000-0000-000000000000",
        }
        told = {
            "kube-bind.io/provider-namespace": f"kube-bind-xxxxxxxx-{where}",
            "kube-bind.io/provider-uid": "00000000-0000-0000-0000-000000000000",
        }
        return [
            (consumer, create(BARE, name, number)),
            (consumer, patch(BARE, where, name, {"metadata": {"finalizers": [FINALIZER_SYNCER]}})),
            (provider, post(BARE, where, copy)),
            (provider, status(BARE, where, name)),
            (consumer, patch(BARE, where, name, {"metadata": {"annotations": told}})),
            (consumer, status(BARE, where, name)),
        ]
