"""The version of a kind in which no request takes a field from a stored object.

An API server reads the stored object in the version of a request, and stores what is left of it:
with strategy None a field that this version's schema lacks is gone after any write, be it of the
status, of the metadata alone, or the deletion of an object with finalizers. Source:
k8s.io/apiextensions-apiserver, ``pkg/apiserver/schema/pruning`` and ``pkg/apiserver/conversion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead.api.meta import JSON


FIELDS = 5
"""Largest number of fields that a message names for each pair of versions."""
_STEPS = 20_000
"""Largest number of pairs of schema nodes that are compared; larger schemas count as lossy."""

_TOO_MUCH: Final = "more fields than can be compared"

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata"})
_ANYTHING: Final[JSON] = {_PRESERVE: True}
_SCALARS: Final[JSON] = {}
"""A schema that says nothing of fields: objects of it are stored empty."""
_REST: Final = ""
"""Stands for all keys that no schema names; no key of an object is empty."""


class KindVersion(msgspec.Struct, frozen=True):
    """A version of a kind; ``schema`` is the OpenAPI schema itself, without a wrapper."""

    name: str
    schema: JSON
    served: bool = False
    storage: bool = False


class KindVersions(msgspec.Struct, frozen=True):
    """Versions of a kind in one cluster, which ``where`` names for messages.

    ``former`` are versions in which objects may have been stored, with the schemas of that time.
    ``converted`` tells whether a webhook converts between versions: then it carries the fields
    over, and its author answers for it.
    """

    where: str
    versions: Sequence[KindVersion]
    former: Sequence[KindVersion] = ()
    converted: bool = False

    @property
    def served(self) -> list[str]:
        """The names of the served versions."""
        return [version.name for version in self.versions if version.served]

    @property
    def stored(self) -> list[str]:
        """The name of the version that objects are stored in; [] where none is."""
        return [version.name for version in self.versions if version.storage]

    def losses(self, name: str) -> Iterator[str]:
        """Yield what stored objects lose by a request in a version, one text for each cause."""
        storage = next((one for one in self.versions if one.storage), None)
        for carrier in self.versions:
            # What a request writes is stored in the stored version, and so passes both.
            if carrier.name != name and carrier is not storage:
                continue
            for stored in (storage, *self.former):
                if stored is None or stored is carrier:
                    continue
                if self.converted and stored.name != carrier.name:
                    continue
                if fields := lost_fields(carrier.schema, stored.schema):
                    yield self._loss(carrier, stored, fields)

    def _loss(self, carrier: KindVersion, stored: KindVersion, fields: Sequence[str]) -> str:
        shown = ", ".join(fields[:FIELDS]) + (" and others" if len(fields) > FIELDS else "")
        of = "itself as it was" if carrier.name == stored.name else stored.name
        return f"{self.where} {carrier.name} lacks {shown} of {of}, in which objects are stored"


class Lossless(NamedTuple):
    """A version in which nothing is lost; ``name`` is "" where none is, for the reason ``why``."""

    name: str
    why: str = ""


def lossless(*clusters: KindVersions) -> Lossless:
    """Return the version in which objects of a kind can be written in all of these clusters.

    The version that the first cluster stores comes first, since it needs no conversion there.
    """
    served = [name for name in clusters[0].served if all(name in one.served for one in clusters)]
    preferred = [name for one in clusters for name in one.stored if name in served]
    causes: list[str] = []
    for name in dict.fromkeys((*preferred, *served)):
        losses = [loss for one in clusters for loss in one.losses(name)]
        if not losses:
            return Lossless(name)
        causes += losses
    if not served:
        offers = [f"{one.where} {', '.join(one.served) or 'none'}" for one in clusters]
        causes = [f"no version is served everywhere ({'; '.join(offers)})"]
    return Lossless("", "; ".join(dict.fromkeys(causes)))


def crd_versions(
    where: str, spec: JSON, stored: Iterable[str] = (), before: JSON | None = None
) -> KindVersions:
    """Return the versions of a CRD.

    Args:
        where: name of the cluster.
        spec: the spec of the CRD.
        stored: names of the versions in which objects may be stored, as in its status.
        before: the spec by which these were stored, if it is another one.
    """
    versions = [_version(spec, one) for one in spec["versions"]]
    old = versions if before is None else [_version(before, one) for one in before["versions"]]
    names = {*stored, *(one.name for one in old if one.storage)}
    former = [one for one in old if one.name in names]
    converted = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    return KindVersions(where, versions, former, converted=converted)


def _version(spec: JSON, version: JSON) -> KindVersion:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or _SCALARS
    return KindVersion(
        name=version["name"],
        schema=_ANYTHING if spec.get("preserveUnknownFields") else schema,
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
    )


def lost_fields(through: JSON, stored: JSON) -> list[str]:
    """Return the paths of fields that one structural schema keeps and another one takes away.

    The list ends soon after :data:`FIELDS`. ``[]`` in a path stands for the items of a list and
    ``*`` for keys that no schema names.

    Args:
        through: the schema that a request has to pass.
        stored: the schema of the stored object.
    """
    try:
        return _lost_fields(through, stored)
    except RecursionError:
        # Two schemas are compared level by level, and each pair of them by Python, which recurses.
        return [_TOO_MUCH]


def _lost_fields(through: JSON, stored: JSON) -> list[str]:
    names_lost: list[str] = []
    todo: list[tuple[str, JSON, JSON]] = [("", through, stored)]
    steps = 0
    while todo and len(names_lost) <= FIELDS:
        path, narrow, wide = todo.pop()
        if narrow == wide:
            continue
        lost: list[str] = []
        for key, member in _members(wide, narrow, root=not path):
            steps += 1
            here, inner = f"{path}.{key or '*'}", _member(narrow, key)
            if inner is None:
                lost.append(here)
            else:
                todo.append((here, inner, member))
        # Below a value of which everything is taken away there is no more to find.
        if not lost and (items := _items(wide)):
            todo.append((f"{path}[]", _items(narrow), items))
        names_lost += lost
        if steps > _STEPS:
            return [*names_lost, _TOO_MUCH]
    return sorted(names_lost)


def _members(schema: JSON, other: JSON, *, root: bool) -> Iterator[tuple[str, JSON]]:
    """Yield the members that objects of a schema have, each of them that one of both names."""
    envelope = _ENVELOPE if schema.get(_EMBEDDED) and not root else ()
    for key in dict.fromkeys((*_properties(schema), *_properties(other), *envelope, _REST)):
        if root and key in _ENVELOPE:
            continue
        member = _member(schema, key)
        if member is not None:
            yield key, member


def _properties(schema: JSON) -> JSON:
    return schema.get("properties") or {}


def _member(schema: JSON, key: str) -> JSON | None:
    """Return the schema of a member, None if it is taken away."""
    properties = _properties(schema)
    if schema.get(_EMBEDDED) and key in _ENVELOPE:
        return _ANYTHING
    if key in properties:
        member: JSON = properties[key]
        return member
    additional = schema.get("additionalProperties")
    if additional is None or additional is False:
        return _ANYTHING if schema.get(_PRESERVE) else None
    # ``true`` allows any key, and says nothing of what is inside its value.
    return additional if isinstance(additional, dict) else _SCALARS


def _items(schema: JSON) -> JSON:
    items = schema.get("items")
    if schema.get(_PRESERVE):
        return {**items, **_ANYTHING} if isinstance(items, dict) else _ANYTHING
    return items if isinstance(items, dict) else _SCALARS
