"""The page of an object: state, spec, status and timeline."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from fairlead.api.kubebind import PermissionClaim
from fairlead.api.kubebind.claims import reference_targets
from fairlead.api.meta import JSON, Object
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.reasons.verdict import conditions_of, short
from fairlead.portal.console.bindings.known import AT_CLUSTER_SCOPE, Consumers, kinds_of
from fairlead.portal.console.bindings.showing import shown_conditions
from fairlead.portal.console.objects.history import History
from fairlead.portal.console.objects.kinds import FollowedKind, spec_of
from fairlead.portal.console.objects.readable import parts
from fairlead.portal.console.objects.sights import Sights
from fairlead.portal.console.objects.timeline import timeline, writes_of
from fairlead.portal.console.objects.waits import waits_of
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.identity.sessions import BrowserSession


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
    template = "object.html"

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
        namespace = "" if within == AT_CLUSTER_SCOPE else within
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
        plain = {
            "seen": seen,
            "cluster": self._consumers.title(seen.consumer),
            "bindings": [
                one.meta.name
                for one in self._consumers.exports(seen.consumer)
                if seen.exports and seen.kind in kinds_of(one)
            ],
        }
        found = self._found(seen)
        if kind is None or found is None:
            return plain | {"found": None}
        verdict = kind.verdict(found)
        conditions = conditions_of(found)
        whose = self._consumers.kinds.whose(kind, found)
        known = self._consumers.connection(seen.consumer) if seen.connection else None
        try:
            body = found.to_dict()
        except NestedTooDeeply:
            body = {}
        return plain | {
            "found": found.meta,
            "kind": found.kind,
            "version": found.api_version,
            "whole": bool(body.get("spec") or body.get("status")),
            "where": whose.namespace if whose is not None else "",
            "verdict": verdict,
            "waits": waits_of(found, verdict),
            "parts": parts(body),
            "conditions": shown_conditions(conditions, self._history, found),
            "writers": list(dict.fromkeys(short(one.manager) for one in writes_of(found))),
            "claimed": self._claimed(seen.consumer, found, body),
            "timeline": timeline(
                found,
                conditions,
                self._history.of(found.meta.uid),
                kind.about(found) if seen.events else (),
            ),
            "events_note": _events_note(kind, seen),
            "silent": known.verdict if known is not None and known.verdict.state != "ok" else None,
            "stale": kind.problem,
        }

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return nothing, but fail if the object does not exist.

        Raises:
            MissingError: the object does not exist.
        """
        if self._found(scope) is None:
            raise _missing(scope.kind, scope.namespace, scope.name)
        return {}

    def _found(self, seen: VisibleObject) -> Object | None:
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
                    named[(_KINDS.get(claim.resource, claim.resource), short(name))] = None
        return list(named)[:MOST_NAMED]


_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}


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
