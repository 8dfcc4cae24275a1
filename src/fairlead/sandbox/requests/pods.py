"""What a Pod that nothing runs answers to those who want to speak with it."""

from __future__ import annotations

from fairlead.sandbox import errors
from fairlead.sandbox.objects.core import Answer, Call
from fairlead.sandbox.requests.handlers.read import existing


_SUBRESOURCES = {
    "log": ("get",),
    "exec": ("get", "create"),
    "attach": ("get", "create"),
    "portforward": ("get", "create"),
}

STREAMS = [("pods", name, verb) for name, verbs in _SUBRESOURCES.items() for verb in verbs]
"""The subresources of Pods that need one that runs, with their verbs."""


async def not_running(call: Call) -> Answer:
    """Refuse, as any server does for a Pod that no node has.

    Raises:
        StatusError: always; 404 when there is no such Pod.
    """
    name = existing(call).key.name
    text = f"pod {name} does not have a host assigned: the sandbox runs no Pods"
    raise errors.bad_request(text)
