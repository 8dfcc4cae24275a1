"""Where one object comes from: its copy on the provider, and how that stands."""

from __future__ import annotations

from fairlead.api.conditions import unready
from fairlead.api.links import Link
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.objects import waits_for
from fairlead.konnector.commands.overview.rows import FetchedBinding, unsynced


async def origin_of(consumer: Client, resource: Resource, obj: Object) -> Link | None:
    """Look for the copy of an object; None where no APIServiceBinding binds its kind.

    Raises:
        ClientError: the consumer's bindings cannot be listed.
    """
    async with Overview(consumer) as overview:
        bound = await overview.look_at_object(resource, obj)
    return None if bound is None else judge(bound, obj)


def judge(bound: FetchedBinding, obj: Object) -> Link:
    """What is to be said of an object's copy, of what was fetched of its binding."""
    name = bound.binding.meta.name
    text = f"the {obj.kind} that APIServiceBinding {name} brings"

    def link(state: State, about: str, reason: str = "", remedy: str = "") -> Link:
        return Link(
            name="provider", object=text, state=state, about=about, reason=reason, remedy=remedy
        )

    copies = bound.kinds[0].copies if bound.kinds else None
    if bound.problem or copies is None:
        problem = bound.problem or "the provider was not seen"
        return link("failed", problem, "NotReached", f"fairlead bindings {name}")
    target = copies.strategy.to_provider(obj.key)
    copy = copies.objects.get(target) if target is not None else None
    waits = _waits(bound)
    remedy = f"fairlead bindings {name} --objects"
    if copy is None:
        about = f"waits for {waits or 'its copy to be created'}"
        return link("waiting", about, "NotCopied", remedy)
    text = f"{copy.kind} {copy.key} of the provider, by APIServiceBinding {name}"
    wrong = unready(copy.to_dict())
    if wrong is not None:
        about = wrong.message or "says that it is not Ready"
        helps = KUBE_BIND.helps("NotReady")
        return link("failed", about, wrong.reason or "NotReady", helps)
    if waits:
        return link("waiting", f"waits for {waits}", "NotInSync", remedy)
    return link("ok", "is in sync")


def _waits(bound: FetchedBinding) -> str:
    return next(
        (waits_for(found.step, pair) for pair, found in unsynced((bound.kinds or ())[0])), ""
    )
