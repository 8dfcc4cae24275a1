"""Waits until the konnector has done its work on objects of kbind v2, and says what is awaited."""

from __future__ import annotations

from fairlead.api.conditions import get_condition, stored_conditions
from fairlead.api.kbind.names import READY
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client.lookups import WaitTimeout, find, wait_for
from fairlead.konnector.commands.readiness import NOT_READY, UNTOUCHED, WaitOptions, unestablished
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.v2.targets import KbindTarget


STEADY_SECONDS = 6.0
"""Seconds after which a konnector has reported a watch that fails, twice its own patience."""
_UNTOUCHED_END = "no konnector has begun to unbind it"


async def until_ready(waiting: WaitOptions, target: KbindTarget) -> None:
    """Wait until a Connection or a binding is Ready.

    Raises:
        BindError: the time is up; the message has the konnector's words.
        ClientError: the server refused the look.
    """
    resource, (place, name) = target.resource, target.key
    waiting.progress(f"waiting for {target.title}")
    described = waiting.reporting(unready, NOT_READY)
    await waiting.begun(resource, name, described, UNTOUCHED, place=place)
    await waiting.done(resource, name, described, UNTOUCHED, place=place)
    waiting.progress(f"{target.title} is ready")


async def until_steady(waiting: WaitOptions, target: KbindTarget) -> None:
    """Wait until a binding has been Ready for :data:`STEADY_SECONDS`.

    A konnector reports a watch that fails only when it has failed for some looks. Where its roles
    could not be checked, a binding that has just become Ready proves nothing.

    Raises:
        BindError: the time is up; the message has the konnector's words.
        ClientError: the server refused the look.
    """
    resource, (place, name) = target.resource, target.key

    def steady(obj: Object | None) -> str:
        return "" if unready(obj) else "Ready"

    while True:
        await until_ready(waiting, target)
        left = min(STEADY_SECONDS, waiting.deadline.left())
        try:
            await wait_for(waiting.client, resource, name, place, until=steady, timeout=left)
        except WaitTimeout:
            return


async def until_served(waiting: WaitOptions, api: str) -> None:
    """Wait until the CRD of an API is established.

    Raises:
        BindError: the time is up.
        ClientError: the server refused the look.
    """
    await waiting.done(CUSTOMRESOURCEDEFINITIONS, api, unestablished)


def unready(obj: Object | None) -> str:
    """Return what keeps an object from being Ready, "" if nothing does."""
    if obj is None:
        return "it does not exist"
    ready = get_condition(stored_conditions(obj.to_dict()), READY)
    if ready is None:
        return UNTOUCHED
    return "" if ready.status == "True" else f"{NOT_READY}{ready.reason}: {ready.message}"


async def until_gone(waiting: WaitOptions, target: KbindTarget, uid: str) -> None:
    """Wait until a deleted object is gone.

    Raises:
        BindError: it is there after the time; the message says what it waits for.
        ClientError: the server refused the look.
    """
    resource, (place, name) = target.resource, target.key

    def obstacle(obj: Object | None) -> str:
        return "" if obj is None or obj.meta.uid != uid else waits_for(obj)

    described = waiting.reporting(obstacle)
    await waiting.begun(resource, name, described, _UNTOUCHED_END, place=place)
    await waiting.done(resource, name, described, _UNTOUCHED_END, place=place)
    # A watch may lose sight of an object; only the server's own answer counts.
    again = await find(waiting.client, resource, name, place)
    if again is not None and again.meta.uid == uid:
        raise BindError(f"{target.title} still exists: try again")
    waiting.progress(f"{target.title} is gone")


def waits_for(obj: Object) -> str:
    """Return why a deleted object is there yet, as its conditions tell it."""
    ready = get_condition(stored_conditions(obj.to_dict()), READY)
    if not obj.meta.deleting or ready is None or ready.status == "True" or not ready.message:
        return _UNTOUCHED_END
    return ready.message
