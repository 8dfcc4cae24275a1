"""Trying a call until every admission webhook that it concerns has been asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from fairlead_sandbox import errors
from fairlead_sandbox.requests.calls import Call
from fairlead_sandbox.webhooks.conversation import Conversation, Unanswered


T = TypeVar("T")

SECONDS = 34.0
"""How long a write may take with all its webhooks, as kube-apiserver has it."""
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def prepared(call: Call) -> Call:
    """The call, ready to speak with webhooks if there are any."""
    if call.info.verb not in _WRITES or not call.core.webhooks.any:
        return call
    manager = call.query.get("fieldManager", "")
    return replace(call, webhooks=Conversation(call.user.info, call.dry_run, manager))


async def reviewed(call: Call, attempt: Callable[[Call], Awaitable[T]]) -> T:
    """What the attempt returns once every question of it is answered.

    Raises:
        StatusError: the call failed, a webhook refuses it, or all of them took too long.
    """
    if call.webhooks is None or call.ask is None:
        return await attempt(call)
    try:
        async with asyncio.timeout(SECONDS) as limit:
            while True:
                try:
                    return await attempt(call)
                except Unanswered as pending:
                    await call.ask(call.webhooks, pending.questions)
    except TimeoutError:
        if limit.expired():
            raise errors.too_slow(SECONDS) from None
        raise
