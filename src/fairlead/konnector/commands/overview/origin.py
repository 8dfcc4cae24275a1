"""The origin of one object: its copy on the provider, and the state of that."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import msgspec

from fairlead.api.links import Link, verdict_link, wrong
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.verdict import verdict_of
from fairlead.api.resource import Resource, split_api_version
from fairlead.client import Client
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.objects import waits_for
from fairlead.konnector.commands.overview.rows import FetchedBinding, binding_verdict, unsynced
from fairlead.konnector.policies.steps import Refuse, Wait


class ObjectOrigin(NamedTuple):
    """The link of an object's copy, and the copy itself; None if it is not there or not seen.

    ``seen`` says whether the provider's side was seen.
    """

    link: Link
    copy: Object | None
    seen: bool


async def origin_of(consumer: Client, resource: Resource, obj: Object) -> ObjectOrigin | None:
    """Look for the copy of an object; None if no APIServiceBinding binds its kind.

    Raises:
        ClientError: the consumer's bindings cannot be listed.
    """
    async with Overview(consumer) as overview:
        bound = await overview.look_at_object(resource, obj)
    if bound is None:
        return None
    seen = any(kind.copies is not None for kind in bound.kinds or ())
    return ObjectOrigin(judge(bound, obj), copy_in(bound, obj), seen)


def copy_in(bound: FetchedBinding, obj: Object) -> Object | None:
    """Return an object's copy among the data fetched for its binding; None if it is not there."""
    # One kind with one object: see look_at_object.
    copies = bound.kinds[0].copies if bound.kinds else None
    target = copies.strategy.place(obj.key).target if copies is not None else None
    return copies.objects.get(target) if copies is not None and target is not None else None


def judge(bound: FetchedBinding, obj: Object) -> Link:
    """Return the link for an object's copy, by the data fetched for its binding."""
    name = bound.binding.meta.name
    text = f"the {obj.kind} that APIServiceBinding {name} brings"

    def broken(reason: str, about: str, remedy: str = "") -> Link:
        return wrong(KUBE_BIND, reason, name="provider", subject=text, about=about, remedy=remedy)

    verdict = binding_verdict(bound)
    if bound.problem:
        return verdict_link(verdict, name="provider", subject=text)
    if not bound.kinds or bound.kinds[0].copies is None:
        return broken("NotReached", "the provider was not seen", f"fairlead bindings {name}")
    copy = copy_in(bound, obj)
    waits = _waits(bound)
    remedy = f"fairlead bindings {name} --objects"
    if verdict.state == "failed" and (copy is None or waits):
        # What stops the binding stops the object.
        link = verdict_link(verdict, name="provider", subject=text)
        waited = f"waits for {waits or 'its copy to be created'}"
        return msgspec.structs.replace(link, about=f"{waited}: {link.about}")
    stopped = _stopped(bound)
    if stopped is not None:
        reason, since = stopped
        link = broken(reason, f"waits for {waits}", KUBE_BIND.helps(reason, place="consumer"))
        return msgspec.structs.replace(link, since=since)
    if copy is None and obj.meta.deleting and not waits:
        return Link(name="provider", object=text, state="ok", about="its copy is gone")
    if copy is None:
        return broken("NotCopied", f"waits for {waits or 'its copy to be created'}", remedy)
    text = f"{copy.kind} {copy.key} of the provider, by APIServiceBinding {name}"
    link = verdict_link(verdict_of(copy), name="provider", subject=text)
    if link.state != "ok":
        return msgspec.structs.replace(link, remedy=f"{link.remedy}: {events_at(copy)}")
    if waits:
        return broken("NotInSync", f"waits for {waits}", remedy)
    return msgspec.structs.replace(link, about="is in sync")


def events_at(copy: Object) -> str:
    """Return where the Events about a copy are: a consumer may not read the provider's."""
    group, _ = split_api_version(copy.api_version)
    kind = f"{copy.kind.lower()}.{group}" if group else copy.kind.lower()
    place = f"-n {shlex.quote(copy.meta.namespace)} " if copy.meta.namespace else ""
    return (
        "Events about it stay in its cluster, by "
        f"`kubectl {place}describe {shlex.quote(kind)} {shlex.quote(copy.meta.name)}` there"
    )


def _waits(bound: FetchedBinding) -> str:
    kind = (bound.kinds or ())[0]
    return next(
        (waits_for(found.step, pair, kind.delay(pair.key)) for pair, found in unsynced(kind)), ""
    )


def _stopped(bound: FetchedBinding) -> tuple[str, str] | None:
    """Return the reason why the object may not have a copy, and its time; None without one."""
    kind = (bound.kinds or ())[0]
    for pair, found in unsynced(kind):
        delay = kind.delay(pair.key)
        if isinstance(found.step, Refuse):
            return found.step.reason, ""
        if isinstance(found.step, Wait) and pair.target is None and delay is not None:
            return delay.reason, delay.last_transition_time
    return None
