"""All chains of a cluster as a tree and as a table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.links import Link
from fairlead.api.resource import SECRETS
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.commands.explain import ExplainedTarget, UnknownTargetError
from fairlead.client import ApiError, Client
from fairlead.explain.explaining import explain
from fairlead.portal.console.own.sight import OwnSight, Seeing
from fairlead.portal.console.own.unbinding import SEEN_TOPIC
from fairlead.portal.console.pages.looking import Looks, SeenLook
from fairlead.portal.console.pages.rendering import Pages, segment
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.console.topology.chains import of_chains
from fairlead.portal.console.topology.graph import Shown
from fairlead.portal.console.topology.table import rows
from fairlead.portal.console.topology.tree import grow
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import ObjectRow


MOST_TARGETS = 100
"""Largest number of namespaces, and of single objects, whose chains are followed.

Those with a problem come first.
"""
AT_ONCE = 4
"""Largest number of chains that are followed concurrently."""
_TOPIC = "topology"
_SERVICE_BINDINGS = {
    SERVICEBINDINGS.group_resource,
    COREOS_SERVICEBINDINGS.group_resource,
}
_BINDING = re.compile(r"APIServiceBinding (\S+)$")
"""Text of a link that names a binding in place of its provider."""


class Chains(msgspec.Struct, frozen=True):
    """The links of all chains; ``notes`` say what could not be followed."""

    chains: tuple[tuple[Link, ...], ...] = ()
    notes: tuple[str, ...] = ()
    sight: OwnSight = OwnSight()


class Following:
    """Follows the chains of all ServiceBindings, and of objects that none of them uses.

    Args:
        client: a client with the caller's rights.
        looks: shares the look over the cluster.
        seeing: makes that look.
        operator_namespace: namespace of the PostgresAccess operator's settings.
    """

    def __init__(
        self, client: Client, looks: Looks, seeing: Seeing, operator_namespace: str
    ) -> None:
        self._client = client
        self._looks = looks
        self._seeing = seeing
        self._operator_namespace = operator_namespace

    async def __call__(self) -> Chains:
        """Follow all chains.

        Raises:
            ClientError: the cluster is unavailable.
        """
        seen = await self._looks.see(SEEN_TOPIC, self._seeing)
        sight: OwnSight = seen.value if seen.value is not None else await self._seeing()
        services = [one for one in sight.things if one.resource in _SERVICE_BINDINGS]
        spaces = {one.namespace for one in services}
        # Namespaces with a problem first, since the number is limited.
        bad = {one.namespace for one in services if one.state != "ok"}
        targets = [
            (ExplainedTarget(), space)
            for space in sorted(spaces, key=lambda one: (one not in bad, one))
        ]
        found, notes = await self._follow(targets)
        told = {_named(link.object) for chain in found for link in chain}
        # Workloads are only shown as ends of their ServiceBindings' chains.
        others = [
            one
            for one in sight.things
            if one.resource != APISERVICEBINDINGS.group_resource
            and one.resource not in _SERVICE_BINDINGS
            and (one.kind, _place(one)) not in told
        ]
        others.sort(key=lambda one: (one.state == "ok", one))
        more, unseen = await self._follow(
            [(ExplainedTarget(one.resource, one.name), one.namespace) for one in others]
        )
        notes += unseen
        if len(spaces) > MOST_TARGETS or len(others) > MOST_TARGETS:
            notes.append(
                f"More than {MOST_TARGETS} namespaces or objects have chains: those with a problem"
                " come first, and the others are not shown."
            )
        notes += sight.notes
        return Chains(tuple(found + more), tuple(sorted(dict.fromkeys(notes))), sight)

    async def _follow(
        self, targets: list[tuple[ExplainedTarget, str]]
    ) -> tuple[list[tuple[Link, ...]], list[str]]:
        slots = asyncio.Semaphore(AT_ONCE)
        notes: list[str] = []

        async def follow(target: ExplainedTarget, namespace: str) -> list[tuple[Link, ...]]:
            async with slots:
                try:
                    told = await explain(self._client, target, namespace, self._operator_namespace)
                except UnknownTargetError:
                    # It was deleted since the look.
                    return []
                except ApiError as error:
                    notes.append(f"chains of {target.name or namespace} are not seen: {error}")
                    return []
            notes.extend(told.notes)
            return [one.links for one in told.chains]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow(*one)) for one in targets[:MOST_TARGETS]]
        return [chain for task in tasks for chain in task.result()], notes


class Topology(View):
    """The tree and the table; ?shown=problems leaves out chains that work."""

    route = "/topology"
    template = "own/topology.html"

    def __init__(self, looks: Looks, following: Following, pages: Pages) -> None:
        self._looks = looks
        self._following = following
        self._pages = pages

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Any:
        """Return one scope for all: everyone sees what the program's credentials may."""
        return ""

    def topics(self, scope: Any) -> Topics:
        """Return the topic of the chains."""
        return (_TOPIC,)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the tree and the table's rows."""
        seen: SeenLook = await self._looks.see(_TOPIC, self._following)
        found: Chains = seen.value if seen.value is not None else Chains()
        shown: Shown = "problems" if asked.get("shown") == "problems" else "all"
        known = {(one.kind, _place(one)): one for one in found.sight.things}
        graph = of_chains(found.chains, lambda link: self._href(link, known))
        return {
            "seen": seen,
            "notes": found.notes,
            "tree": grow(graph, shown) if graph.nodes else None,
            "table": rows(graph, shown),
            "shown": shown,
            "every": len(graph.nodes),
        }

    def _href(self, link: Link, known: Mapping[tuple[str, str], ObjectRow]) -> str:
        if found := _BINDING.search(link.object):
            return self._pages.path(f"/bindings/{segment(found[1])}")
        kind, place = _named(link.object)
        thing = known.get((kind, place))
        if thing is not None:
            return self._object(thing.resource, thing.place, thing.name)
        namespace, slash, name = place.partition("/")
        if kind == SECRETS.kind and slash:
            return self._object(SECRETS.plural, namespace, name)
        return ""

    def _object(self, *parts: str) -> str:
        return self._pages.path("/objects/" + "/".join(map(segment, parts)))


def _named(text: str) -> tuple[str, str]:
    """Return kind and place of an object from a link's text."""
    kind, _, rest = text.partition(" ")
    return kind, rest.partition(" ")[0]


def _place(thing: ObjectRow) -> str:
    return f"{thing.namespace}/{thing.name}" if thing.namespace else thing.name
