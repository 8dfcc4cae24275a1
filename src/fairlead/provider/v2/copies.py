"""Copies of a consumer that was invited by kbind v2, by their marks and their namespaces.

A consumer writes the marks of its copies as it likes, in its namespaces alone. One that may use a
whole cluster may write those of any object of its APIs; there the uid of its cluster decides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fairlead.api.kbind.names import (
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_RELATED_BINDING,
    CONSUMER_CLUSTER_UID,
)
from fairlead.api.meta import Object, ObjectMeta
from fairlead.client import Client, NotServed
from fairlead.client.lookups import Unseen, look_at
from fairlead.provider import bounds


class KbindPlaces(NamedTuple):
    """Where a consumer has copies: its namespaces, or by the uids of its clusters anywhere."""

    namespaces: frozenset[str]
    whole_cluster: bool
    clusters: frozenset[str]

    def has(self, meta: ObjectMeta) -> bool:
        """Whether an object of its APIs, or a related one, is its copy."""
        uid = meta.annotations.get(CONSUMER_CLUSTER_UID)
        marks = {ANNOTATION_CONSUMER_OBJECT_UID, ANNOTATION_RELATED_BINDING}
        if not uid or not marks & meta.annotations.keys():
            return False
        if self.whole_cluster:
            return uid in self.clusters
        return meta.namespace in self.namespaces


class KbindCopies(NamedTuple):
    """Numbers of copies by home, uids of clusters by home, and why kinds are not counted."""

    counts: Counter[str]
    clusters: dict[str, set[str]]
    unseen: dict[str, str]


async def count_copies(
    client: Client, apis: Mapping[str, Collection[str]], where: Mapping[str, KbindPlaces]
) -> KbindCopies:
    """Count the copies of all consumers, each API by one list.

    Args:
        client: a client of the provider's cluster.
        apis: the names of the APIs of each consumer, by its home.
        where: the places of each consumer, by its home.

    Raises:
        ApiError: the server refused to say which kinds it has.
    """
    copies = KbindCopies(Counter(), {}, {})
    free = asyncio.Semaphore(bounds.KINDS_AT_ONCE)

    async def count_objects(api: str, homes: Sequence[str]) -> None:
        async with free:
            objects = await _listed(client, api, copies.unseen)
        for obj in objects:
            for home in homes:
                if where[home].has(obj.meta):
                    uid = obj.meta.annotations[CONSUMER_CLUSTER_UID]
                    copies.counts[home] += 1
                    copies.clusters.setdefault(home, set()).add(uid)

    async with asyncio.TaskGroup() as group:
        for api in sorted(set().union(*apis.values())):
            group.create_task(count_objects(api, [home for home in apis if api in apis[home]]))
    return copies


async def _listed(client: Client, api: str, unseen: dict[str, str]) -> Iterable[Object]:
    plural, _, group = api.partition(".")
    try:
        resource = await client.discovery.resource_by_plural(group, plural)
        return await look_at(client, resource)
    except NotServed:
        # Its CRD is gone, and all objects with it.
        return ()
    except Unseen as error:
        unseen[api] = error.why
        return ()
