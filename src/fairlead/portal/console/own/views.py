"""The pages of a cluster's own side: all things, bindings, one binding, one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fairlead.explain.chains import Chain
from fairlead.portal.console.looking import Looks, Seen
from fairlead.portal.console.own.chain import Telling, Whole, broken
from fairlead.portal.console.own.sight import Seeing, Sight
from fairlead.portal.console.own.things import NO_NAMESPACE, Bound, Thing
from fairlead.portal.console.own.unbinding import SEEN_TOPIC, Unbindings, missing, topic
from fairlead.portal.console.states import RANKS, STATES
from fairlead.portal.console.viewing import Asked, MissingError, Topics, View
from fairlead.portal.identity.sessions import Session


MOST_ROWS = 1000
"""Rows of a list; filters show the others."""


class Filters(NamedTuple):
    """What a list is to show, as its address says it."""

    text: str = ""
    kind: str = ""
    namespace: str = ""
    state: str = ""

    @classmethod
    def of(cls, asked: Asked) -> Filters:
        """Those of a page that is asked for."""
        return cls(asked.get("q"), asked.get("kind"), asked.get("namespace"), asked.get("state"))

    def keep(self, thing: Thing) -> bool:
        """Whether a thing is to be shown."""
        wanted = self.state
        if wanted == "problem":
            shown = thing.state in {"failed", "waiting"}
        else:
            shown = wanted in {"", thing.state}
        words = f"{thing.kind} {thing.namespace} {thing.name} {thing.about}".lower()
        return (
            shown
            and self.kind in {"", thing.kind}
            and self.namespace in {"", thing.namespace}
            and all(word in words for word in self.text.lower().split())
        )


class _OfAll(View):
    """A page of the look over everything."""

    def __init__(self, looks: Looks, seeing: Seeing) -> None:
        self._looks = looks
        self._seeing = seeing

    async def scope(self, session: Session, asked: Asked) -> Any:
        """The same for all: each may see what the program's credentials may."""
        return ""

    def topics(self, scope: Any) -> Topics:
        """The look."""
        return (SEEN_TOPIC,)

    async def _see(self) -> tuple[Seen, Sight]:
        seen = await self._looks.see(SEEN_TOPIC, self._seeing)
        return seen, seen.value if seen.value is not None else Sight()


class Things(_OfAll):
    """One list over all that there is, with its filters in the address."""

    route = "/"
    template = "own/things.html"

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """What the filters let through, what is wrong before the rest."""
        seen, sight = await self._see()
        filters = Filters.of(asked)
        kept = sorted(
            (one for one in sight.things if filters.keep(one)),
            key=lambda one: (RANKS[one.state], one),
        )
        counts = dict.fromkeys(STATES, 0)
        for one in sight.things:
            counts[one.state] += 1
        return {
            "seen": seen,
            "notes": sight.notes,
            "things": kept[:MOST_ROWS],
            "more": max(0, len(kept) - MOST_ROWS),
            "every": len(sight.things),
            "counts": counts,
            "kinds": _each(one.kind for one in sight.things),
            "namespaces": _each(one.namespace for one in sight.things),
            "filters": filters,
        }


class Bindings(_OfAll):
    """What ``fairlead bindings`` prints."""

    route = "/bindings"
    template = "own/bindings.html"

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """A row for each binding."""
        seen, sight = await self._see()
        return {"seen": seen, "notes": sight.notes, "rows": sight.bindings}


class BindingPage(_OfAll):
    """One binding: its conditions, and every object of it."""

    route = "/bindings/{name}"
    template = "own/binding.html"

    def __init__(self, looks: Looks, seeing: Seeing, unbindings: Unbindings) -> None:
        super().__init__(looks, seeing)
        self._unbindings = unbindings

    async def scope(self, session: Session, asked: Asked) -> Any:
        """The binding's name.

        Raises:
            MissingError: a look has found that there is none.
        """
        name = asked.name("name")
        seen, sight = await self._see()
        if seen.value is not None and _binding(sight, name) is None:
            raise missing(name)
        return name

    def topics(self, scope: Any) -> Topics:
        """The look, and the binding's unbinding."""
        return (SEEN_TOPIC, topic(scope))

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """The binding; its objects that are not in sync come first."""
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


class Told(NamedTuple):
    """A chain as its page tells it: in one sentence, and link by link.

    ``on`` is what is waited for, ``since`` since when.
    """

    chain: Chain
    on: str
    about: str
    since: str


class ObjectPage(View):
    """One object: what it waits for, both of its sides, and its past."""

    route = "/objects/{resource}/{namespace}/{name}"
    template = "own/object.html"

    def __init__(self, looks: Looks, telling: Telling) -> None:
        self._looks = looks
        self._telling = telling

    async def scope(self, session: Session, asked: Asked) -> Any:
        """Resource, namespace and name.

        Raises:
            MissingError: a look has found that there is no such object.
        """
        namespace = asked.name("namespace")
        scope = (
            asked.name("resource"),
            "" if namespace == NO_NAMESPACE else namespace,
            asked.name("name"),
        )
        seen = await self._see(scope)
        if seen.at is not None and seen.value is None:
            raise MissingError(
                f"There is no {scope[0]} {'/'.join(part for part in scope[1:] if part)}",
                "It is not there any more, or its name is another. The first page lists what"
                " there is.",
            )
        return scope

    def topics(self, scope: Any) -> Topics:
        """The look at this object."""
        return (_topic(scope),)

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """All that is told of it."""
        seen = await self._see(scope)
        found: Whole | None = seen.value
        chains = found.chains if found is not None else ()
        name = "/".join(part for part in scope[1:] if part)
        return {
            "seen": seen,
            "whole": found,
            "title": f"{found.thing.kind if found is not None else scope[0]} {name}",
            "chains": [_told(one) for one in chains],
            "notes": found.notes if found is not None else (),
        }

    async def _see(self, scope: tuple[str, str, str]) -> Seen:
        resource, namespace, name = scope

        async def look() -> Whole | None:
            return await self._telling(name, namespace, resource)

        return await self._looks.see(_topic(scope), look)


def _topic(scope: tuple[str, str, str]) -> str:
    return "/".join(("object", *scope))


def _told(chain: Chain) -> Told:
    link = broken(chain)
    if link is None:
        return Told(chain, "", "", "")
    return Told(chain, link.object, link.about, link.since)


def _binding(sight: Sight, name: str) -> Bound | None:
    return next((one for one in sight.bindings if one.name == name), None)


def _each(values: Iterable[str]) -> list[str]:
    return sorted({one for one in values if one})
