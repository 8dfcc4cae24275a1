"""The front door's overview: bindings and objects that a person may see, and their clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.portal.console.bindings.known import object_row, problems
from fairlead.portal.console.bindings.listing import Bindings
from fairlead.portal.console.objects.kinds import FollowedKind
from fairlead.portal.console.objects.sights import Sight
from fairlead.portal.console.pages.rendering import segment
from fairlead.portal.console.pages.viewing import AskedPage
from fairlead.portal.model.lists import NO_NAMESPACE, BindingRow, Counts
from fairlead.portal.model.overview import CountedList, Failure, latest, overview_of


class _FailedObject(NamedTuple):
    """A failed object by its names, which cost less than its row."""

    consumer: str
    kind: FollowedKind
    namespace: str
    name: str
    since: str


class ProvidedOverview(Bindings):
    """The overview of all bindings that a person may see."""

    route = "/overview"
    template = "overview.html"

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the overview."""
        sight: Sight = scope
        bindings: list[BindingRow] = []
        objects: list[Counts] = []
        failed: list[_FailedObject] = []
        silent: list[Failure] = []
        more = False
        for consumer in sorted({*sight.own, *sight.consumers}):
            if not self._consumers.title(consumer):
                continue
            counted: set[str] = set()
            for row in self._rows(sight, consumer):
                # Two bindings may name one kind, whose objects count once.
                kinds = [name for name in row.kinds if name not in counted]
                counted.update(kinds)
                repeated = len(kinds) < len(row.kinds)
                objects.append(
                    self._counts(sight, consumer, kinds)[0] if repeated else row.objects
                )
                more |= row.unseen
                if row.binding:
                    bindings.append(row)
            failed += self._failed(sight, consumer, counted)
            silent += self._silent(sight, consumer)
        failures = [self._of_object(each) for each in latest(failed, _since)]
        # What fails by its objects alone has no time; the objects are named instead.
        failures += [
            _of_binding(row)
            for row in bindings
            if row.state == "failed" and (row.since or not row.objects.failed)
        ]
        names = sorted({name for row in bindings for name in row.kinds})
        overview = overview_of(
            [
                CountedList("Bindings", Counts.of(row.state for row in bindings), "/bindings"),
                CountedList("Objects", _sum(objects), more=more),
            ],
            failures,
            silent,
        )
        return {
            "overview": overview,
            "notes": [f"{text}." for text in problems(self._consumers.kinds, names)],
        }

    def _failed(self, sight: Sight, consumer: str, names: set[str]) -> Iterator[_FailedObject]:
        """Yield a consumer's failed objects; only namespaces with one are looked through."""
        kinds = self._consumers.kinds
        for name in names:
            kind = kinds.get(name)
            if kind is None:
                continue
            if not kind.resource.namespaced:
                if sight.reads(consumer, name, ""):
                    for obj in kinds.objects(kind, consumer):
                        if (verdict := kind.verdict(obj)).state == "failed":
                            yield _FailedObject(consumer, kind, "", obj.meta.name, verdict.since)
                continue
            for namespace in kinds.namespaces(consumer):
                if not kind.numbers(namespace).get("failed"):
                    continue
                if not sight.reads(consumer, name, namespace):
                    continue
                for each, verdict in kind.verdicts(namespace).items():
                    if verdict.state == "failed":
                        yield _FailedObject(consumer, kind, namespace, each, verdict.since)

    def _of_object(self, failed: _FailedObject) -> Failure:
        consumer, kind, namespace, name, since = failed
        obj = kind.objects.get(namespace, name)
        assert obj is not None  # noqa: S101  its verdict lives as long as the object
        row = object_row(self._consumers.kinds, kind, obj)
        where = f"{row.where or namespace}/" if namespace else ""
        parts = (consumer, kind.name, namespace or NO_NAMESPACE, name)
        return Failure(
            text=f"{row.kind} {where}{name} of {self._consumers.title(consumer)}",
            at="/objects/" + "/".join(map(segment, parts)),
            message=row.about,
            remedy=row.helps,
            since=since,
        )

    def _silent(self, sight: Sight, consumer: str) -> Iterator[Failure]:
        if consumer not in sight.connections:
            return
        connection = self._consumers.connection(consumer)
        if connection is None or connection.verdict.reason != HEARTBEAT_TIMEOUT:
            return
        verdict = connection.verdict
        exports = self._consumers.exports(consumer) if consumer in sight.consumers else []
        at = f"/bindings/{segment(consumer)}/{segment(exports[0].meta.name)}" if exports else ""
        yield Failure(
            text=self._consumers.title(consumer),
            at=at or "/bindings",
            state=verdict.state,
            message=verdict.text,
            remedy=verdict.remedy,
            since=connection.status.last_heartbeat_time or verdict.since,
        )


def _since(failed: _FailedObject) -> str:
    return failed.since


def _of_binding(row: BindingRow) -> Failure:
    return Failure(
        text=f"Binding {row.binding} of {row.cluster}",
        at=f"/bindings/{segment(row.namespace)}/{segment(row.binding)}",
        message=row.about,
        remedy=row.helps,
        since=row.since,
    )


def _sum(counts: list[Counts]) -> Counts:
    return Counts(
        ok=sum(each.ok for each in counts),
        waiting=sum(each.waiting for each in counts),
        failed=sum(each.failed for each in counts),
        unknown=sum(each.unknown for each in counts),
    )
