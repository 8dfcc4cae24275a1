"""The source of ``fairlead console``: looks at a cluster with one's own kubeconfig.

It polls and does not watch: the caller may lack the right, and states are compared with the
provider's copies, as ``fairlead bindings`` does. All open pages share each look.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from fairlead.api.kbind.names import ANNOTATION_CONFLICT, ANNOTATION_DELETION_POLICY
from fairlead.api.links import Chain, Link
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import short, verdict_of
from fairlead.api.resource import EVENTS, SECRETS, Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotServed
from fairlead.client.lookups import find
from fairlead.explain.explaining import explain
from fairlead.explain.targets import ExplainedTarget, UnknownTargetError
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import FetchedBinding
from fairlead.portal import bounds
from fairlead.portal.console.pages.looking import Looks, SeenLook
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, path_of
from fairlead.portal.console.sources.look import SEEN_TOPIC, OwnSight, look
from fairlead.portal.console.sources.mirrors import mirror_path
from fairlead.portal.console.sources.rows import BINDING_RESOURCES
from fairlead.portal.console.sources.source import ConsoleSource, SeenGraph
from fairlead.portal.console.topology.graph import of_chains, with_mirrors, without_mirrors
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import (
    NO_NAMESPACE,
    BindingDetail,
    BindingList,
    BindingRow,
    CountedList,
    Counts,
    ListedObjects,
    MirrorDetail,
    ObjectRow,
    failure_of,
    overview_of,
)
from fairlead.portal.model.thing import (
    ThingPage,
    answer_of,
    body_of,
    differences_of,
    explain_command,
    keys_of,
    shown_conditions,
    side_of,
)
from fairlead.portal.model.timeline import merged, timeline, writes_of


_SERVICE_BINDINGS = {SERVICEBINDINGS.group_resource, COREOS_SERVICEBINDINGS.group_resource}
_BINDING = re.compile(r"APIServiceBinding (\S+)$")
"""Text of a link that names a binding in place of its provider."""
_MIRROR = re.compile(r", by (ClusterBinding|Binding) (\S+)$")
"""Text of a link to a copy by kbind v2."""


class OwnCluster(ConsoleSource):
    """Fills the model by looks; everyone sees what the program's credentials may.

    A scope is the topics of a page.

    Args:
        client: a client with the caller's rights.
        overview: the overview of the same cluster, with its connections to providers.
        looks: makes and shares all looks.
        operator_namespace: namespace of the PostgresAccess operator's settings.
        unbinds: whether the binding of a name is being unbound here.
    """

    binding_route = "/bindings/{name}"
    object_route = "/objects/{resource}/{namespace}/{name}"
    empty = (
        ("Nothing is bound here. With a provider's invitation: `fairlead bind -f FILE`. ", ""),
        ("Then create an object of a bound kind, and a ServiceBinding for your app.", ""),
    )
    other = "provider"

    def __init__(
        self,
        client: Client,
        overview: Overview,
        looks: Looks,
        operator_namespace: str,
        unbinds: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._overview = overview
        self._looks = looks
        self._operator_namespace = operator_namespace
        self._unbinds = unbinds
        self._look = partial(look, client, overview)

    async def everything(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the topic of the look over the whole cluster."""
        return (SEEN_TOPIC,)

    async def chains(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the topic of the chains."""
        return ("topology",)

    async def binding(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the topics of the look and of the binding's unbinding.

        Raises:
            MissingError: the look found no such binding.
        """
        name = page.name("name")
        last = await self._looks.see(SEEN_TOPIC, self._look)
        # Without a first result the binding may exist: the page then says that it is being read.
        if last.value is not None and _bound(last.value, name) is None:
            raise no_binding(name)
        return SEEN_TOPIC, unbinding_topic(name)

    async def mirror(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the topic of the look, for a Connection or binding of kbind v2.

        Raises:
            MissingError: the look found none of this kind and name.
        """
        last = await self._looks.see(SEEN_TOPIC, self._look)
        if last.value is not None and _mirror(last.value, page) is None:
            raise _no_mirror(page)
        return (SEEN_TOPIC,)

    async def object(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the topic of the look at the object.

        Raises:
            MissingError: the look found no such object.
        """
        shown = await self.thing((), page)
        if shown.at is not None and shown.value is None:
            names = (page.name(name) for name in ("namespace", "name"))
            place = "/".join(name for name in names if name != NO_NAMESPACE)
            raise MissingError(
                f"There is no {page.name('resource')} {place}",
                "It no longer exists, or has another name. The first page lists all objects.",
            )
        return (_topic(page),)

    def topics(self, scope: Any) -> Topics:
        """Return the topics, which are the scope."""
        topics: Topics = scope
        return topics

    async def objects(self, scope: Any) -> SeenLook:
        """Return all things, as an :class:`ListedObjects`."""
        return await self._see(lambda sight: ListedObjects(sight.things, sight.notes))

    async def bindings(self, scope: Any) -> SeenLook:
        """Return the rows that ``fairlead bindings`` prints."""

        def rows(sight: OwnSight) -> BindingList:
            return BindingList(rows=tuple(sight.rows), notes=sight.notes)

        return await self._see(rows)

    async def overview(self, scope: Any) -> SeenLook:
        """Return numbers by state, what failed last, and silent konnectors."""

        def overview(sight: OwnSight) -> Any:
            rows = sight.rows
            objects = [thing for thing in sight.things if thing.resource not in BINDING_RESOURCES]
            every: list[BindingRow | ObjectRow] = [*rows, *objects]
            return overview_of(
                [
                    CountedList("Bindings", Counts.of(row.state for row in rows), "/bindings"),
                    CountedList("Objects", Counts.of(thing.state for thing in objects), "/"),
                ],
                [failure_of(row) for row in every if row.state == "failed"],
                [
                    failure_of(row, since=row.silent_since or row.heartbeat)
                    for row in rows
                    if row.silent_since is not None
                ],
                sight.notes,
            )

        return await self._see(overview)

    async def graph(self, scope: Any, cluster: str) -> SeenLook:
        """Return the chains of the cluster."""
        return await self._looks.see(scope[0], self._all_chains)

    async def binding_detail(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the binding with its objects."""
        name = page.name("name")

        def detail(sight: OwnSight) -> BindingDetail | None:
            bound = _bound(sight, name)
            if bound is None:
                return None
            going = bound.unbinds or self._unbinds(name)
            return msgspec.structs.replace(bound, unbinds=going)

        return await self._see(detail)

    async def mirror_detail(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the Connection or binding of kbind v2, as a :class:`MirrorDetail`."""
        return await self._see(lambda sight: _mirror(sight, page))

    async def thing(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the object with its copy, its chains and its timeline."""
        within = page.name("namespace")
        names = (
            page.name("name"),
            "" if within == NO_NAMESPACE else within,
            page.name("resource"),
        )
        return await self._looks.see(_topic(page), lambda: self._tell(*names))

    async def _see(self, make: Callable[[OwnSight], Any]) -> SeenLook:
        """Return what is made of the look over the whole cluster."""
        last = await self._looks.see(SEEN_TOPIC, self._look)
        return last if last.value is None else last._replace(value=make(last.value))

    async def _all_chains(self) -> SeenGraph:
        """Follow the chains of all ServiceBindings, and of objects that none of them uses.

        Raises:
            ClientError: the cluster is unavailable.
        """
        last = await self._looks.see(SEEN_TOPIC, self._look)
        sight: OwnSight = last.value if last.value is not None else await self._look()
        services = [one for one in sight.things if one.resource in _SERVICE_BINDINGS]
        spaces = {one.namespace for one in services}
        # Namespaces with a problem first, since the number is limited.
        bad = {one.namespace for one in services if one.state != "ok"}
        ordered = sorted(spaces, key=lambda space: (space not in bad, space))
        chains, notes = await self._follow([(ExplainedTarget(), space) for space in ordered])
        names = {_named(link.object) for chain in chains for link in chain}
        # Workloads are only shown as ends of their ServiceBindings' chains.
        others = [
            thing
            for thing in sight.things
            if thing.resource not in BINDING_RESOURCES
            and thing.resource not in _SERVICE_BINDINGS
            and (thing.kind, thing.place) not in names
        ]
        others.sort(key=lambda thing: (thing.state == "ok", thing))
        more, unseen = await self._follow(
            [(ExplainedTarget(one.resource, one.name), one.namespace) for one in others]
        )
        notes += unseen
        if len(spaces) > bounds.CHAINS or len(others) > bounds.CHAINS:
            notes.append(
                f"More than {bounds.CHAINS} namespaces or objects have chains: those with a"
                " problem come first, and the others are not shown."
            )
        notes += sight.notes
        rows = {(thing.kind, thing.place): thing for thing in sight.things}
        every = without_mirrors([*chains, *more], sight.mirrors)
        graph = of_chains(every, lambda link: _path(link, rows))
        graph = with_mirrors(graph, sight.mirrors)
        return SeenGraph(graph, tuple(sorted(dict.fromkeys(notes))))

    async def _follow(
        self, targets: list[tuple[ExplainedTarget, str]]
    ) -> tuple[list[tuple[Link, ...]], list[str]]:
        slots = asyncio.Semaphore(bounds.REQUESTS_OF_A_LOOK)
        notes: list[str] = []

        async def follow(target: ExplainedTarget, namespace: str) -> list[tuple[Link, ...]]:
            async with slots:
                try:
                    explanation = await explain(
                        self._client, target, namespace, self._operator_namespace
                    )
                except UnknownTargetError:
                    # It was deleted since the look.
                    return []
                except ApiError as error:
                    notes.append(f"chains of {target.name or namespace} are not seen: {error}")
                    return []
            notes.extend(explanation.notes)
            return [one.links for one in explanation.chains]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow(*one)) for one in targets[: bounds.CHAINS]]
        return [chain for task in tasks for chain in task.result()], notes

    async def _tell(self, name: str, namespace: str, resource: str) -> ThingPage | None:
        """Look at an object; return None if it or its kind, ``plural.group``, does not exist.

        Raises:
            ClientError: the cluster is unavailable, or refuses to read the object.
        """
        plural, _, group = resource.partition(".")
        try:
            kind = await self._client.discovery.resource_by_plural(group, plural)
        except NotServed:
            return None
        if kind.namespaced != bool(namespace):
            return None
        obj = await find(self._client, kind, name, namespace)
        if obj is None:
            return None
        return await self._whole(kind, obj)

    async def _whole(self, kind: Resource, obj: Object) -> ThingPage:
        notes: list[str] = []
        chains = await self._chains_of(kind, obj, notes)
        bound, copy = await self._copy(kind, obj, notes)
        here = timeline(obj, (), await self._events(kind, obj, notes), cluster="here")
        there = (
            timeline(copy, (), await self._events_there(bound, copy, notes), cluster="provider")
            if copy is not None
            else []
        )
        body = body_of(obj)
        sides, differences = [side_of("In this cluster", body)], None
        if copy is not None:
            body_there = body_of(copy)
            sides.append(side_of(f"On the provider, as {copy.key}", body_there))
            differences = differences_of(body, body_there)
        meta = obj.meta
        bindings = [_crumb(bound)] if bound is not None else []
        return ThingPage(
            kind=obj.kind,
            name=meta.name,
            namespace=meta.namespace,
            answer=answer_of(verdict_of(obj), chains),
            command=explain_command(kind.group_resource, meta.name, meta.namespace),
            facts=(
                ("Kind", f"{obj.kind} {obj.api_version}"),
                ("Written by", ", ".join(dict.fromkeys(one.manager for one in writes_of(obj)))),
                *_marks(obj),
            ),
            chains=chains,
            conditions=shown_conditions(obj),
            # No part of a Secret is shown, and nothing tells whether its values differ.
            sides=() if kind == SECRETS else tuple(sides),
            differences=None if kind == SECRETS else differences,
            keys=tuple(keys_of(body)),
            timeline=tuple(merged(here, there)),
            notes=tuple(sorted(dict.fromkeys(notes))),
            crumbs=(
                ("Bindings", "/bindings"),
                *bindings,
            ),
        )

    async def _chains_of(self, kind: Resource, obj: Object, notes: list[str]) -> tuple[Chain, ...]:
        target = ExplainedTarget(kind.group_resource, obj.meta.name)
        try:
            explanation = await explain(
                self._client, target, obj.meta.namespace, self._operator_namespace
            )
        except UnknownTargetError as error:
            notes.append(str(error))
            return ()
        notes += explanation.notes
        return explanation.chains

    async def _copy(
        self, kind: Resource, obj: Object, notes: list[str]
    ) -> tuple[FetchedBinding | None, Object | None]:
        try:
            bound = await self._overview.look_at_object(kind, obj)
        except ClientError as error:
            notes.append(f"it is unknown whether a provider brings {kind.kind}: {error}")
            return None, None
        if bound is None:
            return None, None
        if bound.problem:
            notes.append(f"the provider's cluster could not be read: {bound.problem}")
        copies = bound.kinds[0].copies if bound.kinds else None
        target = copies.strategy.place(obj.key).target if copies is not None else None
        if copies is None or target is None:
            return bound, None
        return bound, copies.objects.get(target)

    async def _events(self, kind: Resource, obj: Object, notes: list[str]) -> Sequence[Object]:
        meta = obj.meta
        fields = f"involvedObject.kind={kind.kind},involvedObject.name={meta.name}"
        try:
            # Recorders put Events about cluster-scoped objects into namespace default.
            listed = await self._client.list(EVENTS, meta.namespace or "default", fields=fields)
        except ApiError as error:
            notes.append(f"Events of this cluster are not shown: {error}")
            return ()
        return listed.items

    async def _events_there(
        self, bound: FetchedBinding | None, copy: Object, notes: list[str]
    ) -> Sequence[Object]:
        if bound is None:
            return ()
        try:
            return await self._overview.events(bound, copy)
        except Forbidden:
            notes.append(
                "Events of the provider are not shown: a consumer may not list them there"
            )
            return ()
        except ClientError as error:
            notes.append(f"Events of the provider are not shown: {error}")
            return ()


def unbinding_topic(name: str) -> str:
    """Return the topic of a binding's unbinding."""
    return f"unbinding/{name}"


def no_binding(name: str) -> MissingError:
    """Return the error for an unknown binding."""
    return MissingError(
        f"There is no APIServiceBinding {name}",
        "It no longer exists, or has another name. The page Bindings lists all of them.",
    )


def _no_mirror(page: AskedPage) -> MissingError:
    within = page.name("namespace")
    place = page.name("name") if within == NO_NAMESPACE else f"{within}/{page.name('name')}"
    return MissingError(
        f"There is no {page.name('resource')} {place}",
        "It no longer exists, or has another name. The page Bindings lists all of them.",
    )


def _topic(page: AskedPage) -> str:
    return "/".join(("object", *(page.name(name) for name in ("resource", "namespace", "name"))))


def _bound(sight: OwnSight, name: str) -> BindingDetail | None:
    return next((bound for bound in sight.bindings if bound.row.binding == name), None)


def _mirror(sight: OwnSight, page: AskedPage) -> MirrorDetail | None:
    names = (page.name(name) for name in ("resource", "namespace", "name"))
    at = path_of("bindings", *names)
    return next((detail for detail in sight.mirrors if detail.row.at == at), None)


def _crumb(bound: FetchedBinding) -> tuple[str, str]:
    """Return the name of an object's binding, and the path of its page."""
    obj = bound.binding
    if bound.is_kbind:
        return f"{obj.kind} {obj.key}", mirror_path(obj)
    return obj.meta.name, path_of("bindings", obj.meta.name)


def _marks(obj: Object) -> list[tuple[str, str]]:
    """Return what annotations of kbind v2 say of an object, as labels and values."""
    labels = {ANNOTATION_CONFLICT: "Conflict", ANNOTATION_DELETION_POLICY: "Deletion policy"}
    annotations = obj.meta.annotations
    return [(labels[name], short(annotations[name])) for name in labels if name in annotations]


def _path(link: Link, rows: Mapping[tuple[str, str], ObjectRow]) -> str:
    if match := _BINDING.search(link.object):
        return path_of("bindings", match[1])
    if (match := _MIRROR.search(link.object)) and (mirror := rows.get((match[1], match[2]))):
        return mirror.at
    kind, place = _named(link.object)
    if thing := rows.get((kind, place)):
        return thing.at
    namespace, slash, name = place.partition("/")
    return (
        path_of("objects", SECRETS.plural, namespace, name)
        if (kind == SECRETS.kind and slash)
        else ""
    )


def _named(text: str) -> tuple[str, str]:
    """Return kind and place of an object from a link's text."""
    kind, _, rest = text.partition(" ")
    return kind, rest.partition(" ")[0]
