"""States, conditions and rows that the list and the page of bindings share."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import Judgement
from fairlead.portal.console.bindings.known import ConsumerConnection
from fairlead.portal.console.objects.kinds import FollowedKind, Kinds
from fairlead.portal.model.lists import (
    Counts,
    ObjectRow,
    badness,
)


def object_row(kinds: Kinds, kind: FollowedKind, found: Object) -> ObjectRow:
    """Return the row of a cached object."""
    verdict = kind.verdict(found)
    whose = kinds.whose(kind, found)
    return ObjectRow(
        kind=found.kind,
        resource=kind.name,
        namespace=found.meta.namespace,
        name=found.meta.name,
        where=whose.namespace if whose is not None else "",
        state=verdict.state,
        about=verdict.text,
        helps=verdict.remedy,
        since=verdict.since,
    )


def together(verdict: Judgement, known: ConsumerConnection | None) -> Judgement:
    """Return the worse of the export's state and the connection's."""
    if known is None or badness(verdict.state) <= badness(known.verdict.state):
        return verdict
    return known.verdict


def with_objects(verdict: Judgement, counts: Counts) -> tuple[Judgement, str]:
    """Return a binding's state with its objects', and the remedy."""
    if verdict.state != "ok" or not counts.failed:
        return verdict, verdict.remedy
    about = f"{counts.failed} of {counts.total} objects fail"
    return Judgement("failed", message=about), "see what each of its objects needs"


def problems(kinds: Kinds, names: Iterable[str]) -> list[str]:
    """Return a sentence for each named kind whose objects cannot be listed."""
    return [problem for name in names if (problem := kinds.problem(name))]
