"""Divides the removal of a role's objects into pieces, in an order in which each can go.

What depends on an object goes before it or with it, so that nothing is dropped with CASCADE, and
nothing of another role goes along. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec


class CatalogObject(NamedTuple):
    """Identity of an object in its database: the oids of its catalog and of itself."""

    catalog: int
    oid: int


class OwnedObject(NamedTuple):
    """An object that a role owns, or a cast of such a type.

    ``kind`` is the word of DROP and ALTER, "" for one that only DROP OWNED removes; ``locks`` is
    the number of locks that its removal takes.
    """

    thing: CatalogObject
    kind: str
    locks: int


class Dependence(NamedTuple):
    """``dependent`` does not work without ``on``.

    ``carrier`` is the part of the dependent that refers to the other, such as a constraint.
    """

    dependent: CatalogObject
    on: CatalogObject
    carrier: CatalogObject


class RoleEstate(msgspec.Struct, frozen=True, kw_only=True):
    """The newest objects of roles in a database.

    ``held_objects`` are objects on which older ones of the roles depend, which are not among
    these; ``strangers`` a few objects, in words, of other roles that depend on these. ``oldest``
    is the smallest oid, and ``whole`` whether there are no older ones.
    """

    objects: tuple[OwnedObject, ...] = ()
    dependences: tuple[Dependence, ...] = ()
    held_objects: frozenset[CatalogObject] = frozenset()
    strangers: tuple[str, ...] = ()
    oldest: int = 0
    whole: bool = True

    @property
    def locks(self) -> int:
        """Number of locks that the removal of all these objects takes."""
        return sum(owned.locks for owned in self.objects)


Group = tuple[str, tuple[CatalogObject, ...]]
"""Objects of one kind, which one statement names together."""
_CIRCLES = frozenset({"TABLE", "VIEW"})
"""Kinds whose objects go together by one statement though each depends on the other."""


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces of a removal, each with groups in their order; and what keeps the rest.

    ``carriers`` are parts of objects by which more objects than fit in a piece depend on one
    another in a circle.
    """

    pieces: tuple[tuple[Group, ...], ...] = ()
    carriers: tuple[CatalogObject, ...] = ()


def plan_pieces(estate: RoleEstate, bound: int) -> Pieces:
    """Divide the removal of an estate; a piece takes at most ``bound`` locks, or is one object."""
    by_thing = {owned.thing: owned for owned in estate.objects}
    later: dict[CatalogObject, list[CatalogObject]] = {}
    for edge in estate.dependences:
        later.setdefault(edge.on, []).append(edge.dependent)
    pieces = _Pieces(bound)
    stuck: set[CatalogObject] = set(estate.held_objects)
    circles: set[CatalogObject] = set()
    for circle in _circles([*by_thing], later):
        objects = [by_thing[thing] for thing in circle]
        inside = set(circle)
        outside = {dependent for thing in circle for dependent in later.get(thing, ())} - inside
        kinds = {owned.kind for owned in objects}
        locks = sum(owned.locks for owned in objects)
        heavy = len(objects) > 1 and (locks > bound or not kinds <= _CIRCLES or len(kinds) > 1)
        if heavy:
            circles |= inside
        if heavy or "" in kinds or (inside | outside) & stuck:
            stuck |= inside
        else:
            pieces.add(objects, locks)
    carriers = {
        edge.carrier
        for edge in estate.dependences
        if edge.dependent in circles and edge.on in circles
    }
    return Pieces(pieces=tuple(pieces.done()), carriers=tuple(sorted(carriers)))


def cut(objects: Sequence[OwnedObject], bound: int) -> tuple[tuple[Group, ...], ...]:
    """Divide objects, in their order, into pieces of at most ``bound`` locks, or of one object."""
    pieces = _Pieces(bound)
    for owned in objects:
        pieces.add([owned], owned.locks)
    return tuple(pieces.done())


class _Pieces:
    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._done: list[tuple[Group, ...]] = []
        self._groups: list[tuple[str, list[CatalogObject]]] = []
        self._locks = 0

    def add(self, objects: Sequence[OwnedObject], locks: int) -> None:
        """Add objects of one kind, which go together."""
        if self._locks and self._locks + locks > self._bound:
            self._end()
        self._locks += locks
        kind = objects[0].kind
        if not self._groups or self._groups[-1][0] != kind:
            self._groups.append((kind, []))
        self._groups[-1][1].extend(owned.thing for owned in objects)

    def done(self) -> list[tuple[Group, ...]]:
        """Return all pieces."""
        self._end()
        return self._done

    def _end(self) -> None:
        if self._groups:
            self._done.append(tuple((kind, tuple(things)) for kind, things in self._groups))
        self._groups, self._locks = [], 0


def _circles(
    things: Sequence[CatalogObject], later: Mapping[CatalogObject, Sequence[CatalogObject]]
) -> Iterator[list[CatalogObject]]:
    """Yield the objects, those that depend on one another in a circle together.

    Each comes after all that depend on it. This is Tarjan's algorithm without recursion, for a
    tenant may make a chain of any length.
    """
    order: dict[CatalogObject, int] = {}
    low: dict[CatalogObject, int] = {}
    waiting: list[CatalogObject] = []
    is_waiting: set[CatalogObject] = set()
    for start in things:
        if start in order:
            continue
        way = [(start, iter(later.get(start, ())))]
        order[start] = low[start] = len(order)
        waiting.append(start)
        is_waiting.add(start)
        while way:
            thing, dependents = way[-1]
            following = next(
                (other for other in dependents if other not in order or other in is_waiting), None
            )
            if following is not None and following not in order:
                order[following] = low[following] = len(order)
                waiting.append(following)
                is_waiting.add(following)
                way.append((following, iter(later.get(following, ()))))
                continue
            if following is not None:
                low[thing] = min(low[thing], order[following])
                continue
            way.pop()
            if way:
                before = way[-1][0]
                low[before] = min(low[before], low[thing])
            if low[thing] == order[thing]:
                circle: list[CatalogObject] = []
                while not circle or circle[-1] != thing:
                    circle.append(waiting.pop())
                    is_waiting.discard(circle[-1])
                yield circle
