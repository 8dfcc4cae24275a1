"""The page of an object: state, spec, status and timeline."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from fairlead.api.kubebind import PermissionClaim
from fairlead.api.kubebind.claims import reference_targets
from fairlead.api.links import Link
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.verdict import Judgement, short
from fairlead.explain.chains import Chain, join
from fairlead.portal.console.bindings.known import Consumers, kinds_of
from fairlead.portal.console.claims import KINDS
from fairlead.portal.console.objects.kinds import FollowedKind, History, spec_of
from fairlead.portal.console.objects.sights import Sights
from fairlead.portal.console.pages.rendering import segment
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import NO_NAMESPACE
from fairlead.portal.model.thing import (
    ThingPage,
    answer_of,
    body_of,
    explain_command,
    shown_conditions,
    side_of,
)
from fairlead.portal.model.timeline import timeline, writes_of
from fairlead.postgres.commands.links import role_by_status


MOST_NAMED = 50
"""Largest number of listed related objects."""
_EVENTS_OF_CLUSTER = "default"
"""The namespace of Events about cluster-scoped objects."""


class VisibleObject(NamedTuple):
    """An object that a person may see, and their rights on Events, exports and the connection."""

    consumer: str
    kind: str
    namespace: str
    name: str
    events: bool
    exports: bool
    connection: bool


class ObjectPage(View):
    """The page of an object of an exported kind."""

    route = "/objects/{namespace}/{resource}/{within}/{name}"
    template = "thing.html"

    def __init__(self, consumers: Consumers, sights: Sights, history: History) -> None:
        self._consumers = consumers
        self._sights = sights
        self._history = history

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return what the person may see of the object.

        Raises:
            MissingError: the person has no right, or the object is not this consumer's.
        """
        consumer, resource = asked.name("namespace"), asked.name("resource")
        within, name = asked.name("within"), asked.name("name")
        namespace = "" if within == NO_NAMESPACE else within
        kind = self._consumers.kinds.get(resource)
        missing = _missing(resource, namespace, name)
        if kind is None or kind.resource.namespaced != bool(namespace):
            raise missing
        # The path may name this consumer and a namespace of another one.
        place = namespace in self._consumers.kinds.namespaces(consumer)
        if not self._consumers.title(consumer) or (namespace and not place):
            raise missing
        if not await self._sights.reads(session.person, consumer, kind, namespace):
            raise missing
        events = await self._sights.reads_events(
            session.person, consumer, namespace or _EVENTS_OF_CLUSTER
        )
        around = await self._sights.one(session.person, consumer, ())
        return VisibleObject(
            consumer,
            resource,
            namespace,
            name,
            events=events,
            exports=consumer in around.consumers,
            connection=consumer in around.connections,
        )

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the consumer and of cluster-scoped objects."""
        return ("", scope.consumer)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the object as of now; an open page stays open after its deletion."""
        seen: VisibleObject = scope
        kind = self._consumers.kinds.get(seen.kind)
        bindings = [
            export.meta.name
            for export in self._consumers.exports(seen.consumer)
            if seen.exports and seen.kind in kinds_of(export)
        ]
        at = f"/bindings/{segment(seen.consumer)}"
        crumbs = [("My bindings", "/bindings"), (self._consumers.title(seen.consumer), "")]
        crumbs += [(binding, f"{at}/{segment(binding)}") for binding in bindings]
        plain = {"title": seen.name, "crumbs": crumbs}
        obj = self._object(seen)
        if kind is None or obj is None:
            return plain | {"page": None}
        return plain | {"page": self._page(seen, kind, obj)}

    def _page(self, seen: VisibleObject, kind: FollowedKind, obj: Object) -> ThingPage:
        meta, body, verdict = obj.meta, body_of(obj), kind.verdict(obj)
        whose = self._consumers.kinds.whose(kind, obj)
        where = whose.namespace if whose is not None else ""
        chain = provider_chain(obj, verdict)
        writers = ", ".join(dict.fromkeys(short(write.manager) for write in writes_of(obj)))
        facts = (
            ("Kind", f"{obj.kind} {obj.api_version}"),
            ("Your namespace", where),
            ("Namespace here", seen.namespace),
            ("Written by", writers),
        )
        return ThingPage(
            kind=obj.kind,
            name=meta.name,
            namespace=seen.namespace,
            answer=answer_of(verdict, [chain]),
            command=explain_command(obj.kind, meta.name, where),
            facts=tuple((label, text) for label, text in facts if text),
            chains=(chain,) if len(chain.links) > 1 else (),
            conditions=shown_conditions(obj, self._history.of(meta.uid)),
            sides=(side_of("On the provider", body),),
            related=tuple(self._claimed(seen.consumer, obj, body)),
            timeline=tuple(
                timeline(obj, self._history.of(meta.uid), kind.about(obj) if seen.events else ())
            ),
            notes=tuple(self._notes(seen, kind)),
        )

    def _notes(self, seen: VisibleObject, kind: FollowedKind) -> Iterator[str]:
        connection = self._consumers.connection(seen.consumer) if seen.connection else None
        if connection is not None and connection.verdict.state != "ok":
            silent = connection.verdict
            yield (
                f"{silent.text}. This state may not have reached your cluster. Remedy:"
                f" {silent.remedy}."
            )
        if kind.problem:
            yield f"{kind.problem}."
        if note := _events_note(kind, seen):
            yield f"{note}."

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return nothing, but fail if the object does not exist.

        Raises:
            MissingError: the object does not exist.
        """
        if self._object(scope) is None:
            raise _missing(scope.kind, scope.namespace, scope.name)
        return {}

    def _object(self, seen: VisibleObject) -> Object | None:
        kind = self._consumers.kinds.get(seen.kind)
        found = kind.objects.get(seen.namespace, seen.name) if kind is not None else None
        if kind is None or found is None:
            return None
        whose = self._consumers.kinds.whose(kind, found)
        return found if whose is not None and whose.consumer == seen.consumer else None

    def _claimed(self, consumer: str, found: Object, body: JSON) -> list[tuple[str, str]]:
        """Return kind and name of the related objects that the object's fields name."""
        group = found.api_version.partition("/")[0]
        named: dict[tuple[str, str], None] = {}
        for export in self._consumers.exports(consumer):
            for claim in spec_of(export).permission_claims:
                for name in _named(claim, group, found, body, self._consumers.kinds):
                    named[(KINDS.get(claim.resource, claim.resource), short(name))] = None
        return list(named)[:MOST_NAMED]


def _named(claim: PermissionClaim, group: str, found: Object, body: JSON, kinds: Any) -> list[str]:
    names: list[str] = []
    for reference in claim.selector.references:
        kind = kinds.get(reference.name)
        if reference.group != group or kind is None or kind.resource.kind != found.kind:
            continue
        names += sorted(key.name for key in reference_targets(reference, body).keys)
    return names


def _events_note(kind: FollowedKind, seen: VisibleObject) -> str:
    """Return why the timeline lacks Events; "" if it has them."""
    if kind.events_problem:
        return kind.events_problem
    if seen.events:
        return ""
    where = seen.namespace or _EVENTS_OF_CLUSTER
    return (
        f"Events are not shown: you may not list events in namespace {where}, and your cluster's"
        " login may not either"
    )


def _missing(resource: str, namespace: str, name: str) -> MissingError:
    text = f"{resource} {namespace}/{name}" if namespace else f"{resource} {name}"
    return MissingError(
        f"There is no object {text} for you",
        "It does not exist, or is not yours. Your objects are listed with your bindings.",
    )


def provider_chain(obj: Object, verdict: Judgement) -> Chain:
    """Return the provider's links of an object: itself, and the role of a PostgresAccess."""
    subject = f"{obj.kind} {obj.key}"
    link = Link(
        name="provider",
        object=subject,
        state=verdict.state,
        about=verdict.message or verdict.reason or ("is Ready" if verdict.state == "ok" else ""),
        reason=verdict.reason,
        remedy=verdict.remedy,
        since=verdict.since,
    )
    group = obj.api_version.partition("/")[0]
    if (group, obj.kind) != (POSTGRESACCESSES.group, POSTGRESACCESSES.kind):
        return join(subject, [link])
    return join(subject, [link, role_by_status(obj)])
