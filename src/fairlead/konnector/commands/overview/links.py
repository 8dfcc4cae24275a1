"""The links of the provider: a binding, its Connection, and the copy of one object."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.kbind import CONNECTIONS
from fairlead.api.kbind import ClusterBinding as KbindClusterBinding
from fairlead.api.kbind.names import FOREIGN_CRD, READY
from fairlead.api.kubebind.conditions import WRONG_WHILE_TRUE
from fairlead.api.links import Link, following, verdict_link, wrong
from fairlead.api.meta import Object
from fairlead.api.reasons.kbind import KBIND
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.verdict import Finding, Judgement, verdict_of, with_findings
from fairlead.api.resource import Resource, split_api_version
from fairlead.client import Client
from fairlead.konnector.commands.overview.comparison import AwaitedStep
from fairlead.konnector.commands.overview.crossing import crossing_finding, rewriting_finding
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.mirrored import name_of
from fairlead.konnector.commands.overview.rows import (
    FetchedBinding,
    binding_verdict,
    connection_verdict,
    mirrored_connection,
    mirrored_own,
    unsynced,
)
from fairlead.konnector.policies.mirror import is_orphan
from fairlead.konnector.policies.steps import Pair


def binding_links(bound: FetchedBinding) -> list[Link]:
    """Return the link of a binding, and behind one of kbind v2 that of its Connection."""
    if not bound.is_kbind:
        return [binding_link(bound)]
    connection = connection_link(bound)
    if bound.binding.kind == CONNECTIONS.kind:
        return [connection]
    return _in_line(_mirrored_link(bound), connection)


def binding_link(bound: FetchedBinding) -> Link:
    """Return the fault of a binding as a link, or the number of its objects in sync."""
    text = f"APIServiceBinding {bound.binding.meta.name}"
    return _with_numbers(bound, binding_verdict(bound), text, bound.binding.meta.name)


def _with_numbers(bound: FetchedBinding, verdict: Judgement, text: str, name: str) -> Link:
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
            remedy=f"fairlead bindings {name} --objects",
        )
    remarks = "".join(f"; remark: {remark.text}" for remark in verdict.remarks)
    return msgspec.structs.replace(link, about=f"{objects} objects are in sync{remarks}")


def _mirrored_link(bound: FetchedBinding) -> Link:
    """Return the link of a binding of kbind v2, without what concerns its Connection."""
    verdict = mirrored_own(bound)
    if verdict.state == "ok" and not bound.reached:
        # Nothing is known of its objects.
        return verdict_link(verdict, name="provider", subject=bound.title)
    link = _with_numbers(bound, verdict, bound.title, name_of(bound.binding))
    if link.state != "waiting" or not verdict.remarks or verdict.state != "ok":
        return link
    # A conflict is why objects are not in sync, and the remark on it has the remedy.
    remark = verdict.remarks[0]
    said = f"{link.about}; remark: {remark.text}"
    return msgspec.structs.replace(link, about=said, remedy=remark.remedy or link.remedy)


def connection_link(bound: FetchedBinding) -> Link:
    """Return the link of the Connection of a binding of kbind v2."""
    verdict = connection_verdict(bound)
    text = f"Connection {mirrored_connection(bound)}"
    if verdict.state == "unknown" and not verdict.reason:
        return Link(name="provider", object=text, state="unknown", about=verdict.message)
    link = verdict_link(verdict, name="provider", subject=text)
    if link.state != "ok":
        return link
    where = f" at {bound.server}" if bound.server else ""
    unseen = f"; {bound.unseen}, so objects are not compared with the provider's"
    return msgspec.structs.replace(
        link, about=f"{link.about}{where}{unseen if bound.unseen else ''}"
    )


def _in_line(binding: Link, connection: Link) -> list[Link]:
    """Return the links of a binding and its Connection, in which one says what breaks first."""
    if binding.state == "failed" and connection.state == "waiting":
        # The binding has a fault of its own, which the end of the wait does not mend.
        return [binding]
    if binding.state == "waiting" and connection.state in {"failed", "waiting"}:
        binding = following(binding)
    return [binding, connection]


class ObjectOrigin(NamedTuple):
    """The links of an object's copy, and the copy itself; None if it is not there or not seen.

    ``is_read`` says whether the provider's side was seen.
    """

    links: list[Link]
    copy: Object | None
    is_read: bool


async def origin_of(consumer: Client, resource: Resource, obj: Object) -> ObjectOrigin | None:
    """Look for the copy of an object; None if no binding of either protocol binds its kind.

    Raises:
        ClientError: the consumer's bindings cannot be listed.
    """
    async with Overview(consumer) as overview:
        bound = await overview.look_at_object(resource, obj)
        if bound is None:
            if not await overview.is_uncovered(resource, obj):
                return None
            return ObjectOrigin([_uncovered(obj)], None, is_read=False)
        matters = _awaited(bound) is not None or rewriting_finding(obj, bound.binding) is not None
        warnings = await overview.warnings([obj]) if matters else {}
    is_read = any(kind.copies is not None for kind in bound.kinds or ())
    warning = warnings.get(obj.meta.uid)
    if bound.is_kbind:
        links = mirrored_links(bound, obj, resource.group_resource, warning)
    else:
        links = [judge(bound, obj, warning)]
    return ObjectOrigin(links, copy_in(bound, obj), is_read)


def _uncovered(obj: Object) -> Link:
    """Return the link of an object of a bound kind that no binding of kbind v2 covers."""
    place = f"namespace {obj.meta.namespace}" if obj.meta.namespace else "the whole cluster"
    text = f"no binding of kbind v2 covers {place}, so it is not synchronised"
    subject = f"the {obj.kind} of a provider"
    return wrong(KBIND, NOT_COVERED, name="provider", subject=subject, text=text)


NOT_COVERED = "NotCovered"
"""Reason of a link: no binding covers an object of a kind that is bound."""


def mirrored_links(
    bound: FetchedBinding, obj: Object, api: str, warning: Object | None = None
) -> list[Link]:
    """Return the links from an object to its copy by kbind v2: binding, Connection, copy.

    The copy is left out where what is before it says why nothing is known of it.

    Args:
        bound: the binding that decides about the object, fetched for this object alone.
        obj: the consumer's object.
        api: name of its API, PLURAL.GROUP.
        warning: the last Warning about the object.
    """
    connection = connection_link(bound)
    own = mirrored_own(bound)
    # Those of its remarks that are about objects are about others.
    remarks = [remark for remark in own.remarks if remark.type not in WRONG_WHILE_TRUE]
    own = msgspec.structs.replace(own, remarks=tuple(remarks))
    parsed = bound.binding.try_decode(KbindClusterBinding)
    is_bound = parsed is not None and _is_well(parsed, api)
    binding = verdict_link(own, name="provider", subject=bound.title)
    if binding.state != "ok" and is_bound and not bound.binding.meta.deleting:
        # Another one of its APIs has the fault.
        remark = f"binds {api}; remark: {own.text}"
        binding = Link(name="provider", object=bound.title, state="ok", about=remark)
    links = _in_line(binding, connection)
    if any(link.state in {"failed", "waiting"} for link in links):
        return links
    copy = _mirrored_copy(bound, obj, warning)
    return links if copy is None else [*links, copy]


def _is_well(binding: KbindClusterBinding, api: str) -> bool:
    """Whether an API of a binding is bound, and its condition Ready names no fault of it."""
    ready = get_condition(binding.status.conditions, READY)
    is_named = ready is not None and api in ready.message
    return not is_named and api in {bound.name for bound in binding.status.bound_apis}


def _mirrored_copy(bound: FetchedBinding, obj: Object, warning: Object | None) -> Link | None:
    """Return the link of an object's copy by kbind v2; None if it was not looked for."""
    text = f"the {obj.kind} that {bound.title} brings"
    if not bound.kinds and not bound.reached:
        return None
    if not bound.kinds:
        fault = "its CustomResourceDefinition belongs to another Connection, or does not exist"
        return wrong(KBIND, FOREIGN_CRD, name="provider", subject=text, text=fault)
    if bound.kinds[0].copies is None:
        return None
    copy, crossing = copy_in(bound, obj), None
    if (awaited := _awaited(bound)) is not None:
        crossing = crossing_finding(*awaited, bound.binding, warning)
    elif copy is not None:
        crossing = rewriting_finding(obj, bound.binding, warning)
    if crossing is not None and crossing.reason:
        stopped = with_findings(Judgement("unknown"), [crossing])
        return verdict_link(stopped, name="provider", subject=text)
    remedy = f"fairlead bindings {name_of(bound.binding)} --objects"
    waits = crossing.message if crossing is not None else "waits for its copy to be created"
    if copy is None and crossing is None and obj.meta.deleting:
        return Link(name="provider", object=text, state="ok", about="its copy is gone")
    if copy is None:
        return wrong(
            KUBE_BIND, "NotCopied", name="provider", subject=text, text=waits, remedy=remedy
        )
    return _crossed(copy, crossing, f"by {bound.title}", remedy, orphan=is_orphan(obj.meta))


def _crossed(
    copy: Object, crossing: Finding | None, by: str, remedy: str, *, orphan: bool = False
) -> Link:
    """Return the link of a copy that is there."""
    text = f"{copy.kind} {copy.key} of the provider, {by}"
    link = verdict_link(verdict_of(copy), name="provider", subject=text)
    if link.state != "ok":
        return msgspec.structs.replace(link, remedy=f"{link.remedy}: {events_at(copy)}")
    if crossing is not None:
        return wrong(
            KUBE_BIND,
            "NotInSync",
            name="provider",
            subject=text,
            text=crossing.message,
            remedy=remedy,
        )
    stays = ", and stays when the object is deleted (Orphan)" if orphan else ""
    return msgspec.structs.replace(link, about=f"is in sync{stays}")


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
        return broken("NotReached", "the provider could not be read", f"fairlead bindings {name}")
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
    return _crossed(copy, crossing, f"by APIServiceBinding {name}", remedy)


def events_at(copy: Object) -> str:
    """Return where the Events about a copy are: a consumer may not read the provider's."""
    group, _ = split_api_version(copy.api_version)
    kind = f"{copy.kind.lower()}.{group}" if group else copy.kind.lower()
    place = f"-n {shlex.quote(copy.meta.namespace)} " if copy.meta.namespace else ""
    return (
        f"Events about it are in the provider's cluster: run `kubectl {place}describe "
        f"{shlex.quote(kind)} {shlex.quote(copy.meta.name)}` there"
    )


def _awaited(bound: FetchedBinding) -> tuple[AwaitedStep, Pair] | None:
    """Return the next step of the object that was fetched with its binding; None if in sync."""
    pairs = unsynced(bound.kinds[0]) if bound.kinds else ()
    return next(((found, pair) for pair, found in pairs), None)
