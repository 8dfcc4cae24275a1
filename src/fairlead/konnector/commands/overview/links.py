"""The links of the provider: an APIServiceBinding, and the copy of one object."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import msgspec

from fairlead.api.links import Link, verdict_link, wrong
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.verdict import Judgement, verdict_of, with_findings
from fairlead.api.resource import Resource, split_api_version
from fairlead.client import Client
from fairlead.konnector.commands.overview.comparison import AwaitedStep
from fairlead.konnector.commands.overview.crossing import crossing_finding, rewriting_finding
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import FetchedBinding, binding_verdict, unsynced
from fairlead.konnector.policies.steps import Pair


def binding_link(bound: FetchedBinding) -> Link:
    """Return the fault of a binding as a link, or the number of its objects in sync."""
    text = f"APIServiceBinding {bound.binding.meta.name}"
    verdict = binding_verdict(bound)
    link = verdict_link(verdict, name="provider", subject=text)
    if verdict.state != "ok":
        return msgspec.structs.replace(link, state=verdict.state)
    objects = sum(len(kind.objects) for kind in bound.kinds or ())
    behind = sum(1 for kind in bound.kinds or () for _ in unsynced(kind))
    if behind:
        return msgspec.structs.replace(
            link,
            state="waiting",
            about=f"{objects - behind} of {objects} objects are in sync",
            reason="NotInSync",
            remedy=f"fairlead bindings {bound.binding.meta.name} --objects",
        )
    remarks = "".join(f"; remark: {remark.text}" for remark in verdict.remarks)
    return msgspec.structs.replace(link, about=f"{objects} objects are in sync{remarks}")


class ObjectOrigin(NamedTuple):
    """The link of an object's copy, and the copy itself; None if it is not there or not seen.

    ``is_read`` says whether the provider's side was seen.
    """

    link: Link
    copy: Object | None
    is_read: bool


async def origin_of(consumer: Client, resource: Resource, obj: Object) -> ObjectOrigin | None:
    """Look for the copy of an object; None if no APIServiceBinding binds its kind.

    Raises:
        ClientError: the consumer's bindings cannot be listed.
    """
    async with Overview(consumer) as overview:
        bound = await overview.look_at_object(resource, obj)
        if bound is None:
            return None
        matters = _awaited(bound) is not None or rewriting_finding(obj, bound.binding) is not None
        warnings = await overview.warnings([obj]) if matters else {}
    is_read = any(kind.copies is not None for kind in bound.kinds or ())
    link = judge(bound, obj, warnings.get(obj.meta.uid))
    return ObjectOrigin(link, copy_in(bound, obj), is_read)


def copy_in(bound: FetchedBinding, obj: Object) -> Object | None:
    """Return an object's copy among the data fetched for its binding; None if it is not there."""
    # One kind with one object: see look_at_object.
    copies = bound.kinds[0].copies if bound.kinds else None
    target = copies.strategy.place(obj.key).target if copies is not None else None
    return copies.objects.get(target) if copies is not None and target is not None else None


def judge(bound: FetchedBinding, obj: Object, warning: Object | None = None) -> Link:
    """Return the link for an object's copy, by the data fetched for its binding.

    ``warning`` is the last Warning about the object.
    """
    name = bound.binding.meta.name
    text = f"the {obj.kind} that APIServiceBinding {name} brings"

    def broken(reason: str, summary: str, remedy: str = "") -> Link:
        return wrong(KUBE_BIND, reason, name="provider", subject=text, text=summary, remedy=remedy)

    verdict = binding_verdict(bound)
    if bound.problem:
        return verdict_link(verdict, name="provider", subject=text)
    if not bound.kinds or bound.kinds[0].copies is None:
        return broken("NotReached", "the provider was not seen", f"fairlead bindings {name}")
    copy = copy_in(bound, obj)
    crossing = None
    if (awaited := _awaited(bound)) is not None:
        delay = bound.kinds[0].delay(awaited[1].key)
        crossing = crossing_finding(*awaited, bound.binding, warning, delay)
    elif copy is not None:
        crossing = rewriting_finding(obj, bound.binding, warning)
    waits = crossing.message if crossing is not None else "waits for its copy to be created"
    remedy = f"fairlead bindings {name} --objects"
    if verdict.state == "failed" and (copy is None or crossing is not None):
        # What stops the binding stops the object.
        link = verdict_link(verdict, name="provider", subject=text)
        return msgspec.structs.replace(link, about=f"{waits}: {link.about}")
    if crossing is not None and crossing.reason:
        stopped = with_findings(Judgement("unknown"), [crossing])
        return verdict_link(stopped, name="provider", subject=text)
    if copy is None and crossing is None and obj.meta.deleting:
        return Link(name="provider", object=text, state="ok", about="its copy is gone")
    if copy is None:
        return broken("NotCopied", waits, remedy)
    text = f"{copy.kind} {copy.key} of the provider, by APIServiceBinding {name}"
    link = verdict_link(verdict_of(copy), name="provider", subject=text)
    if link.state != "ok":
        return msgspec.structs.replace(link, remedy=f"{link.remedy}: {events_at(copy)}")
    if crossing is not None:
        return broken("NotInSync", waits, remedy)
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


def _awaited(bound: FetchedBinding) -> tuple[AwaitedStep, Pair] | None:
    """Return the next step of the object that was fetched with its binding; None if in sync."""
    pairs = unsynced(bound.kinds[0]) if bound.kinds else ()
    return next(((found, pair) for pair, found in pairs), None)
