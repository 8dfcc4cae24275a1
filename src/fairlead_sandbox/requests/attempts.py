"""Attempts to answer a call; one that another write has overtaken is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from fairlead_sandbox import errors
from fairlead_sandbox.requests.calls import Call
from fairlead_sandbox.storage.store import StorageError
from fairlead_sandbox.webhooks.conversation import Conversation, Unanswered


T = TypeVar("T")

SECONDS = 34.0
"""Maximum time of a write with all its webhooks, in seconds, as in kube-apiserver."""
ATTEMPTS = 5
"""Maximum number of attempts in a row that other writes overtake.

Answers of webhooks start the count anew. kube-apiserver tries a patch as often.
"""
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READS = frozenset({"get", "list"})


class OutdatedError(Exception):
    """The objects that an attempt worked on changed before it could write."""


def prepared(call: Call) -> Call:
    """Return the call, with a conversation with webhooks if it writes and webhooks exist."""
    if call.info.verb not in _WRITES or not call.core.webhooks.any:
        return call
    manager = call.query.get("fieldManager", "")
    return replace(call, webhooks=Conversation(call.user.info, call.dry_run, manager))


async def answered(call: Call, attempt: Callable[[Call], Awaitable[T]]) -> T:
    """Return the result of the first attempt that no other write overtakes.

    An attempt is repeated once its questions to webhooks are answered, when its objects have
    changed meanwhile, and when a read has shown a change that could not be stored.

    Raises:
        StatusError: the call failed, a webhook refuses it, or it was overtaken too often.
        StorageError: a write could not be stored.
    """
    # Without webhooks a write waits for no other server; the limit of worker processes holds for
    # it.
    seconds = SECONDS if call.webhooks is not None and call.ask is not None else None
    try:
        async with asyncio.timeout(seconds) as limit:
            return await _repeated(call, attempt)
    except TimeoutError:
        # Another TimeoutError comes from the attempt itself and says nothing about this limit.
        if limit.expired():
            raise errors.too_slow(SECONDS) from None
        raise


async def _repeated(call: Call, attempt: Callable[[Call], Awaitable[T]]) -> T:
    overtaken = 0
    while True:
        try:
            return await attempt(call)
        except Unanswered as pending:
            if call.webhooks is None or call.ask is None:
                raise
            await call.ask(call.webhooks, pending.questions)
            overtaken = 0
            continue
        except OutdatedError:
            failure = errors.conflict(call.type.group_resource, call.key.name)
        except StorageError:
            # A write is not repeated: its client learns that the disk is full. A read is: it was
            # about to show a change that the store has taken back since, and now finds the
            # state before that change.
            if call.info.verb not in _READS:
                raise
            failure = errors.disk_full("the disk refuses every change at present")
        overtaken += 1
        if overtaken == ATTEMPTS:
            raise failure
