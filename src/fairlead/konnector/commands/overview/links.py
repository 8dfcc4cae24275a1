"""How an APIServiceBinding stands, as a link of a chain."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import APIServiceBinding
from fairlead.api.links import Link
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.konnector.commands.overview.rows import FetchedBinding, fault, unsynced


def binding_link(bound: FetchedBinding) -> Link:
    """What is wrong with a binding, or how many of its objects are in sync."""
    text = f"APIServiceBinding {bound.binding.meta.name}"
    try:
        conditions = bound.binding.decode(APIServiceBinding).status.conditions
    except msgspec.ValidationError as error:
        helps = KUBE_BIND.helps("Invalid")
        return Link(
            name="provider",
            object=text,
            state="failed",
            about=f"it cannot be read: {error}",
            reason="Invalid",
            remedy=helps,
        )
    if bound.problem:
        return Link(
            name="provider",
            object=text,
            state="failed",
            about=bound.problem,
            reason="NotReached",
            remedy=KUBE_BIND.helps("NotReached"),
        )
    found = fault(bound, conditions)
    if found is not None:
        return Link(
            name="provider",
            object=text,
            state=KUBE_BIND.state(found.reason) if found.reason else "failed",
            about=found.message,
            reason=found.reason,
            remedy=KUBE_BIND.helps(found.reason),
            since=found.since,
        )
    every = sum(len(kind.objects) for kind in bound.kinds or ())
    open_ = sum(1 for kind in bound.kinds or () for _ in unsynced(kind))
    if open_:
        return Link(
            name="provider",
            object=text,
            state="waiting",
            about=f"{every - open_} of {every} objects are in sync",
            reason="NotInSync",
            remedy=f"fairlead bindings {bound.binding.meta.name} --objects",
        )
    return Link(name="provider", object=text, state="ok", about=f"{every} objects are in sync")
