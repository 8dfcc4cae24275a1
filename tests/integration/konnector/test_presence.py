"""Traces of a provider that may not be seen, on a control plane."""

from __future__ import annotations

from fairlead.client import Client
from fairlead.konnector.commands.presence import absence


async def test_traces_that_may_not_be_seen_say_nothing(client: Client) -> None:
    assert (await absence(client, "kube-bind")).startswith("there is no sign of a konnector")
