"""The state of an APIServiceBinding, as a link of a chain."""

from __future__ import annotations

from fairlead.api.links import Link
from fairlead.konnector.commands.overview.rows import FetchedBinding, binding_verdict, unsynced


def binding_link(bound: FetchedBinding) -> Link:
    """Return the fault of a binding as a link, or the number of its objects in sync."""
    text = f"APIServiceBinding {bound.binding.meta.name}"
    verdict = binding_verdict(bound)
    if verdict.state != "ok":
        return Link(
            name="provider",
            object=text,
            state=verdict.state,
            about=verdict.message,
            reason=verdict.reason,
            remedy=verdict.remedy,
            since=verdict.since,
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
    summary = f"{every} objects are in sync"
    for remark in verdict.remarks:
        summary += f"; remark: {remark.text}"
    return Link(name="provider", object=text, state="ok", about=summary)
