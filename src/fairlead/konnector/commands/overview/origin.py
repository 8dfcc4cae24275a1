"""Where one object comes from: its copy on the provider, and how that stands."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.conditions import unready
from fairlead.api.meta import Object
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.objects import waits_for
from fairlead.konnector.commands.overview.rows import FetchedBinding, unsynced


class Origin(msgspec.Struct, frozen=True):
    """The provider's object behind one of ours; ``object`` names it as far as it is known."""

    object: str
    state: Literal["ok", "failed", "waiting"]
    about: str
    reason: str = ""
    remedy: str = ""


async def origin_of(consumer: Client, resource: Resource, obj: Object) -> Origin | None:
    """Look for the copy of an object; None where no APIServiceBinding binds its kind.

    Raises:
        ClientError: the consumer's bindings cannot be listed.
    """
    async with Overview(consumer) as overview:
        bound = await overview.look_at_object(resource, obj)
    return None if bound is None else judge(bound, obj)


def judge(bound: FetchedBinding, obj: Object) -> Origin:
    """What is to be said of an object's copy, of what was fetched of its binding."""
    name = bound.binding.meta.name
    text = f"the {obj.kind} that APIServiceBinding {name} brings"
    copies = bound.kinds[0].copies if bound.kinds else None
    if bound.problem or copies is None:
        problem = bound.problem or "the provider was not seen"
        remedy = f"fairlead bindings {name}"
        return Origin(text, "failed", problem, reason="NotReached", remedy=remedy)
    target = copies.strategy.to_provider(obj.key)
    copy = copies.objects.get(target) if target is not None else None
    waits = _waits(bound)
    remedy = f"fairlead bindings {name} --objects"
    if copy is None:
        about = f"waits for {waits or 'its copy to be created'}"
        return Origin(text, "waiting", about, reason="NotCopied", remedy=remedy)
    text = f"{copy.kind} {copy.key} of the provider, by APIServiceBinding {name}"
    wrong = unready(copy.to_dict())
    if wrong is not None:
        about = wrong.message or "says that it is not Ready"
        reason, remedy = wrong.reason or "NotReady", "ask the provider's team what it waits for"
        return Origin(text, "failed", about, reason=reason, remedy=remedy)
    if waits:
        return Origin(text, "waiting", f"waits for {waits}", reason="NotInSync", remedy=remedy)
    return Origin(text, "ok", "is in sync")


def _waits(bound: FetchedBinding) -> str:
    return next(
        (waits_for(found.step, pair) for pair, found in unsynced((bound.kinds or ())[0])), ""
    )
