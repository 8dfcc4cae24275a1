"""Rights of a person to see consumers' exports and objects, checked by reviews.

A consumer's owner sees what the consumer's ServiceAccount may read. In addition each person sees
what they may read themselves, such as administrators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTS, BINDER_NAME, CLUSTERBINDINGS
from fairlead.api.resource import EVENTS, Resource
from fairlead.portal import bounds
from fairlead.portal.console.sources.kinds import FollowedKind, Kinds
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.handshake.reviews import AccessReviews, ReviewedAction
from fairlead.portal.identity.sessions import Person


EVERYWHERE: Final = ""
"""Value in place of a namespace, for all namespaces."""
_PERSON: Final = ""
"""Key in place of a consumer, for what the person may read themselves."""


class Sight(msgspec.Struct, frozen=True):
    """A person's rights to see; ``objects`` has triples of consumer, kind and namespace.

    The person may see the exports of ``consumers`` and the heartbeats of ``connections``, and
    owns ``own``.
    """

    own: tuple[str, ...]
    consumers: frozenset[str]
    connections: frozenset[str]
    objects: frozenset[tuple[str, str, str]]
    all: bool = False

    def reads(self, consumer: str, kind: str, namespace: str) -> bool:
        """Whether the person may see a consumer's objects of ``kind`` in ``namespace``."""
        return any(
            (who, kind, where) in self.objects
            for who in (_PERSON, consumer)
            for where in (EVERYWHERE, namespace)
        )


class Sights:
    """Checks what a person may see."""

    def __init__(self, reviews: AccessReviews, ownership: Ownership, kinds: Kinds) -> None:
        self._reviews = reviews
        self._ownership = ownership
        self._kinds = kinds

    async def all(self, person: Person, exported: Mapping[str, frozenset[str]]) -> Sight:
        """Return what a person may see of all consumers; ``exported`` has their kinds.

        Raises:
            ClientError: the API server refused or is unavailable.
            Refusal: the person's name begins with ``system:``.
        """
        own = self.own(person)
        everything = await self._allows(person, APISERVICEEXPORTS)
        names = frozenset(exported if everything else own)
        kinds = {kind for name in names for kind in exported.get(name, ())}
        wide, beating = await asyncio.gather(
            self._wide(person, kinds), self._allows(person, CLUSTERBINDINGS)
        )
        parts = await asyncio.gather(
            *(self._own(one, exported.get(one, frozenset()) - wide) for one in own)
        )
        rights = frozenset((_PERSON, kind, EVERYWHERE) for kind in wide)
        none: frozenset[str] = frozenset()
        return Sight(
            own=own,
            consumers=(names if everything else none).union(*(one.consumers for one in parts)),
            connections=(names if everything and beating else none).union(
                *(one.connections for one in parts)
            ),
            objects=rights.union(*(one.objects for one in parts)),
            all=everything,
        )

    async def one(self, person: Person, consumer: str, kinds: Iterable[str]) -> Sight:
        """Return what a person may see of one consumer.

        Raises:
            ClientError: the API server refused or is unavailable.
            Refusal: the person's name begins with ``system:``.
        """
        kinds_asked = frozenset(kinds)
        own = tuple(one for one in self.own(person) if one == consumer)
        may, beating, wide = await asyncio.gather(
            self._allows(person, APISERVICEEXPORTS, consumer),
            self._allows(person, CLUSTERBINDINGS, consumer),
            self._wide(person, kinds_asked),
        )
        rights = frozenset((_PERSON, kind, EVERYWHERE) for kind in wide)
        if may:
            # Without the right to list the consumer's exports, the person may not learn that
            # the consumer exists.
            rights |= await self._narrow(person, consumer, kinds_asked - wide)
        parts = [await self._own(one, kinds_asked - wide) for one in own]
        here = frozenset({consumer})
        return Sight(
            own=own,
            consumers=(here if may else frozenset()).union(*(one.consumers for one in parts)),
            connections=(here if beating and may else frozenset()).union(
                *(one.connections for one in parts)
            ),
            objects=rights.union(*(one.objects for one in parts)),
        )

    async def reads(
        self, person: Person, consumer: str, kind: FollowedKind, namespace: str
    ) -> bool:
        """Whether the person may see the page of a consumer's object of the kind."""
        where = namespace if kind.resource.namespaced else EVERYWHERE
        own = consumer in self.own(person)
        if own and await self._account(consumer, kind.resource, where):
            return True
        return await self._allows(person, kind.resource, where)

    async def reads_events(self, person: Person, consumer: str, namespace: str) -> bool:
        """Whether the person may see the Events of ``namespace``."""
        if await self._allows(person, EVENTS, namespace):
            return True
        return consumer in self.own(person) and await self._account(consumer, EVENTS, namespace)

    async def may_delete(self, person: Person, consumer: str, export: str) -> bool:
        """Whether the person may delete the export themselves."""
        action = ReviewedAction.on(APISERVICEEXPORTS, "delete", consumer, export)
        return await self._reviews.allows(person, action)

    def own(self, person: Person) -> tuple[str, ...]:
        """Return the cluster namespaces of a person's and their groups' consumers."""
        names = {one.meta.name for one in self._ownership.namespaces(person)}
        return tuple(sorted(names))

    async def _own(self, consumer: str, kinds: frozenset[str]) -> Sight:
        """Return what a consumer's ServiceAccount may read."""
        may, beating = await asyncio.gather(
            self._account(consumer, APISERVICEEXPORTS, consumer),
            self._account(consumer, CLUSTERBINDINGS, consumer),
        )
        here = frozenset({consumer})
        names = [
            namespace
            for part in await asyncio.gather(*(self._of_kind(consumer, kind) for kind in kinds))
            for namespace in part
        ]
        return Sight(
            own=(consumer,),
            consumers=here if may else frozenset(),
            connections=here if beating else frozenset(),
            objects=frozenset(names),
        )

    async def _of_kind(self, consumer: str, name: str) -> list[tuple[str, str, str]]:
        """Return where a consumer's ServiceAccount may read objects of a kind."""
        kind = self._kinds.get(name)
        if kind is None:
            return []
        if await self._account(consumer, kind.resource, EVERYWHERE):
            return [(consumer, name, EVERYWHERE)]
        where = self._with_objects(consumer, kind)
        answers = await asyncio.gather(
            *(self._account(consumer, kind.resource, one) for one in where)
        )
        return [(consumer, name, one) for one, may in zip(where, answers, strict=True) if may]

    async def _narrow(
        self, person: Person, consumer: str, kinds: Iterable[str]
    ) -> frozenset[tuple[str, str, str]]:
        """Return the person's own rights to objects, checked namespace by namespace."""
        rights: set[tuple[str, str, str]] = set()
        for name in kinds:
            kind = self._kinds.get(name)
            if kind is None:
                continue
            where = self._with_objects(consumer, kind)
            answers = await asyncio.gather(
                *(self._allows(person, kind.resource, one) for one in where)
            )
            rights.update(
                (_PERSON, name, place) for place, may in zip(where, answers, strict=True) if may
            )
        return frozenset(rights)

    def _with_objects(self, consumer: str, kind: FollowedKind) -> list[str]:
        if not kind.resource.namespaced:
            return []
        names = self._kinds.namespaces(consumer)
        return [one for one in names if kind.verdicts(one)][: bounds.NAMESPACES_REVIEWED]

    async def _wide(self, person: Person, kinds: Iterable[str]) -> frozenset[str]:
        """Return the kinds whose objects a person may list in all namespaces."""
        kinds_known = [
            kind for name in sorted(kinds) if (kind := self._kinds.get(name)) is not None
        ]
        answers = await asyncio.gather(
            *(self._allows(person, one.resource) for one in kinds_known)
        )
        return frozenset(one.name for one, may in zip(kinds_known, answers, strict=True) if may)

    async def _allows(self, person: Person, resource: Resource, namespace: str = "") -> bool:
        return await self._reviews.allows(person, ReviewedAction.on(resource, "list", namespace))

    async def _account(self, consumer: str, resource: Resource, namespace: str) -> bool:
        action = ReviewedAction.on(resource, "list", namespace)
        return await self._reviews.allows_account(consumer, BINDER_NAME, action)
