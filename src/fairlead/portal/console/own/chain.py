"""Reads the data of an object's page: what it waits for, both copies, and its timeline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import verdict_of
from fairlead.api.resource import EVENTS, SECRETS, Resource
from fairlead.binding.commands.explain import ExplainedTarget, UnknownTargetError
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotServed
from fairlead.client.lookups import find
from fairlead.explain.chains import Chain
from fairlead.explain.explaining import explain
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import FetchedBinding
from fairlead.portal.model.readable import keys_of
from fairlead.portal.model.thing import (
    ThingPage,
    answer_of,
    body_of,
    differences_of,
    explain_command,
    shown_conditions,
    side_of,
)
from fairlead.portal.model.timeline import merged, timeline, writes_of


class OwnThing(msgspec.Struct, frozen=True):
    """The page of an object, and the APIServiceBinding that brings its kind, "" without one."""

    page: ThingPage
    binding: str


class Telling:
    """Reads all that an object's page shows.

    Args:
        client: a client with the caller's rights.
        overview: the overview of the same cluster.
        operator_namespace: namespace of the PostgresAccess operator's settings.
    """

    def __init__(self, client: Client, overview: Overview, operator_namespace: str) -> None:
        self._client = client
        self._overview = overview
        self._operator_namespace = operator_namespace

    async def __call__(self, name: str, namespace: str, resource: str) -> OwnThing | None:
        """Return the data of an object; None if the object or its kind does not exist.

        Args:
            name: the object's name.
            namespace: its namespace, "" if it is cluster-scoped.
            resource: ``plural.group``.

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
        found = await find(self._client, kind, name, namespace)
        if found is None:
            return None
        return await self._whole(kind, found)

    async def _whole(self, kind: Resource, found: Object) -> OwnThing:
        notes: list[str] = []
        chains = await self._chains(kind, found, notes)
        bound, copy = await self._copy(kind, found, notes)
        here = timeline(found, (), await self._events(kind, found, notes), cluster="here")
        there = (
            timeline(copy, (), await self._events_there(bound, copy, notes), cluster="provider")
            if copy is not None
            else []
        )
        body = body_of(found)
        sides, differences = [side_of("In this cluster", body)], None
        if copy is not None:
            body_there = body_of(copy)
            sides.append(side_of(f"On the provider, as {copy.key}", body_there))
            differences = differences_of(body, body_there)
        meta = found.meta
        page = ThingPage(
            kind=found.kind,
            name=meta.name,
            namespace=meta.namespace,
            answer=answer_of(verdict_of(found), chains),
            command=explain_command(kind.group_resource, meta.name, meta.namespace),
            facts=(
                ("Kind", f"{found.kind} {found.api_version}"),
                ("Written by", ", ".join(dict.fromkeys(one.manager for one in writes_of(found)))),
            ),
            chains=chains,
            conditions=shown_conditions(found),
            # No part of a Secret is shown, and nothing tells whether its values differ.
            sides=() if kind == SECRETS else tuple(sides),
            differences=None if kind == SECRETS else differences,
            keys=tuple(keys_of(body)),
            timeline=tuple(merged(here, there)),
            notes=tuple(sorted(dict.fromkeys(notes))),
        )
        return OwnThing(page, bound.binding.meta.name if bound is not None else "")

    async def _chains(self, kind: Resource, found: Object, notes: list[str]) -> tuple[Chain, ...]:
        target = ExplainedTarget(kind.group_resource, found.meta.name)
        try:
            told = await explain(
                self._client, target, found.meta.namespace, self._operator_namespace
            )
        except UnknownTargetError as error:
            notes.append(str(error))
            return ()
        notes += told.notes
        return told.chains

    async def _copy(
        self, kind: Resource, found: Object, notes: list[str]
    ) -> tuple[FetchedBinding | None, Object | None]:
        try:
            bound = await self._overview.look_at_object(kind, found)
        except ClientError as error:
            notes.append(f"whether a provider brings {kind.kind} is not known: {error}")
            return None, None
        if bound is None:
            return None, None
        if bound.problem:
            notes.append(f"the provider's side was not seen: {bound.problem}")
        copies = bound.kinds[0].copies if bound.kinds else None
        target = copies.strategy.place(found.key).target if copies is not None else None
        if copies is None or target is None:
            return bound, None
        return bound, copies.objects.get(target)

    async def _events(self, kind: Resource, found: Object, notes: list[str]) -> Sequence[Object]:
        meta = found.meta
        fields = f"involvedObject.kind={kind.kind},involvedObject.name={meta.name}"
        try:
            # Recorders put Events about cluster-scoped objects into namespace default.
            listed = await self._client.list(EVENTS, meta.namespace or "default", fields=fields)
        except ApiError as error:
            notes.append(f"Events of this cluster are not seen: {error}")
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
            notes.append("Events of the provider are not seen: a consumer may not list them there")
            return ()
        except ClientError as error:
            notes.append(f"Events of the provider are not seen: {error}")
            return ()
