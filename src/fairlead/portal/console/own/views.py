"""The pages of ``fairlead console``: all things, bindings, one binding, one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.portal.console.own.chain import OwnThing, Telling
from fairlead.portal.console.own.sight import OwnSight, Seeing
from fairlead.portal.console.own.things import BoundThing
from fairlead.portal.console.own.unbinding import SEEN_TOPIC, Unbindings, missing, topic
from fairlead.portal.console.pages.looking import Looks, SeenLook
from fairlead.portal.console.pages.rendering import segment
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import NO_NAMESPACE, Counts, ListQuery, ObjectRow, page_of
from fairlead.portal.model.overview import CountedList, Failure, overview_of
from fairlead.portal.model.states import RANKS, STATES


MOST_ROWS = 1000
"""Largest number of a binding's objects on its page."""


class _OfAll(View):
    """Base of the pages whose content comes from the shared read of the whole cluster."""

    def __init__(self, looks: Looks, seeing: Seeing) -> None:
        self._looks = looks
        self._seeing = seeing

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Any:
        """Return one scope for all: everyone sees what the program's credentials may."""
        return ""

    def topics(self, scope: Any) -> Topics:
        """Return the topic of the look."""
        return (SEEN_TOPIC,)

    async def _see(self) -> tuple[SeenLook, OwnSight]:
        seen = await self._looks.see(SEEN_TOPIC, self._seeing)
        return seen, seen.value if seen.value is not None else OwnSight()


class OwnOverview(_OfAll):
    """The overview of the cluster: numbers by state, what failed last, silent konnectors."""

    route = "/overview"
    template = "overview.html"

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the overview."""
        seen, sight = await self._see()
        kind = APISERVICEBINDINGS.kind
        bindings = Counts.of(row.state for row in sight.bindings)
        objects = Counts.of(thing.state for thing in sight.things if thing.kind != kind)
        overview = overview_of(
            [
                CountedList("Bindings", bindings, "/", {"kind": kind}),
                CountedList("Objects", objects, "/"),
            ],
            [_failure(thing) for thing in sight.things if thing.state == "failed"],
            [_silent(row) for row in sight.bindings if row.silent_since is not None],
        )
        return {"seen": seen, "notes": sight.notes, "overview": overview}


class Things(_OfAll):
    """The list of all things, with filters in the query."""

    route = "/"
    template = "own/things.html"

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the things that the query selects, the worst first."""
        seen, sight = await self._see()
        query = ListQuery.of(asked.get)
        things = [
            thing
            for thing in sight.things
            if query.selects(thing)
            and query.kind in {"", thing.kind}
            and query.namespace in {"", thing.namespace}
        ]
        ordered = sorted(things, key=lambda thing: (RANKS[thing.state], thing))
        return {
            "seen": seen,
            "notes": sight.notes,
            "page": page_of(ordered, len(sight.things), query),
            "counts": Counts.of(thing.state for thing in sight.things),
            "kinds": _each(thing.kind for thing in sight.things),
            "namespaces": _each(thing.namespace for thing in sight.things),
            "wanted": query,
            "states": STATES,
        }


class OwnBindings(_OfAll):
    """The list that ``fairlead bindings`` prints."""

    route = "/bindings"
    template = "own/bindings.html"

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return a row for each binding."""
        seen, sight = await self._see()
        return {"seen": seen, "notes": sight.notes, "rows": sight.bindings}


class OwnBindingPage(_OfAll):
    """The page of a binding: its conditions and objects."""

    route = "/bindings/{name}"
    template = "own/binding.html"

    def __init__(self, looks: Looks, seeing: Seeing, unbindings: Unbindings) -> None:
        super().__init__(looks, seeing)
        self._unbindings = unbindings

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Any:
        """Return the binding's name.

        Raises:
            MissingError: the look found no such binding.
        """
        name = asked.name("name")
        seen, sight = await self._see()
        # Without a first result the binding may exist: the page then says that it is being read.
        if seen.value is not None and _binding(sight, name) is None:
            raise missing(name)
        return name

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the look and of the binding's unbinding."""
        return (SEEN_TOPIC, topic(scope))

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the binding, its objects in the worst state first."""
        seen, sight = await self._see()
        found = _binding(sight, scope)
        crossings = sorted(
            found.crossings if found is not None else (),
            key=lambda one: (RANKS[one.thing.state], one.thing),
        )
        progress = self._unbindings.of(scope)
        return {
            "seen": seen,
            "name": scope,
            "row": found,
            "crossings": crossings[:MOST_ROWS],
            "more": max(0, len(crossings) - MOST_ROWS),
            "unbinding": progress is not None and progress.state == "going",
        }


class OwnObjectPage(View):
    """The page of an object: its chain, both of its sides, and its timeline."""

    route = "/objects/{resource}/{namespace}/{name}"
    template = "thing.html"

    def __init__(self, looks: Looks, telling: Telling) -> None:
        self._looks = looks
        self._telling = telling

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Any:
        """Return resource, namespace and name.

        Raises:
            MissingError: the look found no such object.
        """
        namespace = asked.name("namespace")
        scope = (
            asked.name("resource"),
            "" if namespace == NO_NAMESPACE else namespace,
            asked.name("name"),
        )
        seen = await self._see(scope)
        # Without a first result the object may exist: the page then says that it is being read.
        if seen.at is not None and seen.value is None:
            raise MissingError(
                f"There is no {scope[0]} {'/'.join(part for part in scope[1:] if part)}",
                "It no longer exists, or has another name. The first page lists all objects.",
            )
        return scope

    def topics(self, scope: Any) -> Topics:
        """Return the topic of the look at this object."""
        return (_topic(scope),)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the object's data."""
        seen = await self._see(scope)
        thing: OwnThing | None = seen.value
        crumbs = [("All objects", "/")]
        if thing is not None and thing.binding:
            crumbs.append((thing.binding, f"/bindings/{segment(thing.binding)}"))
        return {
            "seen": seen,
            "title": scope[2],
            "crumbs": crumbs,
            "page": thing.page if thing is not None else None,
        }

    async def _see(self, scope: tuple[str, str, str]) -> SeenLook:
        resource, namespace, name = scope

        async def look() -> OwnThing | None:
            return await self._telling(name, namespace, resource)

        return await self._looks.see(_topic(scope), look)


def _topic(scope: tuple[str, str, str]) -> str:
    return "/".join(("object", *scope))


def _binding(sight: OwnSight, name: str) -> BoundThing | None:
    return next((one for one in sight.bindings if one.name == name), None)


def _failure(thing: ObjectRow) -> Failure:
    if thing.kind == APISERVICEBINDINGS.kind:
        at = f"/bindings/{segment(thing.name)}"
    else:
        at = "/objects/" + "/".join(map(segment, (thing.resource, thing.place, thing.name)))
    where = f"{thing.namespace}/" if thing.namespace else ""
    return Failure(
        text=f"{thing.kind} {where}{thing.name}",
        at=at,
        message=thing.about,
        remedy=thing.helps,
        since=thing.since,
    )


def _silent(row: BoundThing) -> Failure:
    return Failure(
        text=f"{APISERVICEBINDINGS.kind} {row.name}",
        at=f"/bindings/{segment(row.name)}",
        state=row.state,
        message=row.problem,
        remedy=row.helps,
        since=row.silent_since or row.heartbeat,
    )


def _each(values: Iterable[str]) -> list[str]:
    return sorted({one for one in values if one})
