"""Readers of stored CustomResourceDefinitions; :mod:`fairlead.api.crd` makes new ones.

Only the fields that Fairlead needs are decoded. Schemas are skipped unless :func:`crd_schema` asks
for one: they may be large, or nested deeply.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.versions import crd_versions, lossless


class CRDNames(msgspec.Struct, frozen=True):
    """Plural name of a kind, as in paths, and the kind, as in objects."""

    plural: str
    kind: str


class CRDVersion(msgspec.Struct, frozen=True):
    """A version of a kind, and whether it is served and stored."""

    name: str
    served: bool = False
    storage: bool = False


class CRDConversion(msgspec.Struct, frozen=True):
    """Way in which the versions of a kind are converted into one another."""

    strategy: str = "None"


class CRDSpec(msgspec.Struct, frozen=True):
    """The kind that a CustomResourceDefinition defines."""

    group: str
    names: CRDNames
    versions: list[CRDVersion]
    scope: str = "Namespaced"
    conversion: CRDConversion | None = None

    @property
    def namespaced(self) -> bool:
        """Whether objects of the kind live in namespaces."""
        return self.scope == "Namespaced"

    @property
    def served(self) -> list[str]:
        """The names of the versions that are served, in the order of the CRD."""
        return [version.name for version in self.versions if version.served]

    @property
    def stored(self) -> str:
        """The name of the version that objects are stored in; "" where none is named."""
        return next((version.name for version in self.versions if version.storage), "")

    def resource(self, version: str) -> Resource:
        """Return the resource of a version."""
        names = self.names
        return Resource(self.group, version, names.plural, names.kind, self.namespaced)

    def unpruned(self, resource: Resource) -> Resource:
        """Return the resource of the version in which a write of an object takes no field from it.

        A server drops the fields that the schema of a request's version lacks. Without conversion
        an object looks the same in all versions, so that it is written in the stored one. A
        webhook keeps the fields, and an object looks different in each version: it is written in
        the version of ``resource``.
        """
        converts = self.conversion is not None and self.conversion.strategy != "None"
        return (
            resource if converts or self.stored not in self.served else self.resource(self.stored)
        )

    def readable(self) -> Resource | None:
        """Return the resource in which to read objects; None if no version is served.

        The stored version comes first: it needs no conversion, whose webhook may be down.
        """
        served = self.served
        if not served:
            return None
        return self.resource(self.stored if self.stored in served else served[0])


class CRDStatus(msgspec.Struct, rename="camel", frozen=True):
    """Status of a CustomResourceDefinition; the API server writes nulls into a new one."""

    accepted_names: dict[str, Any] | None = None
    stored_versions: list[str] | None = None
    conditions: list[Condition] | None = None


class _Specified(msgspec.Struct, frozen=True):
    spec: CRDSpec


class _Standing(msgspec.Struct, frozen=True):
    status: CRDStatus | None = None


class _WithSchema(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, JSON] = {}


class _Schemas(msgspec.Struct, frozen=True):
    versions: list[_WithSchema]


class _WithSchemas(msgspec.Struct, frozen=True):
    spec: _Schemas


def crd_spec(crd: Object) -> CRDSpec:
    """Return the spec of a CustomResourceDefinition.

    Raises:
        msgspec.ValidationError: it is not one that an API server would store.
    """
    return crd.decode(_Specified).spec


def crd_status(crd: Object) -> CRDStatus:
    """Return the status of a CustomResourceDefinition, an empty one if it is missing.

    Raises:
        msgspec.ValidationError: it is not one that an API server would store.
    """
    return crd.decode(_Standing).status or CRDStatus()


def lossless_resource(crd: Object) -> tuple[Resource | None, str]:
    """Return the resource in which no request takes a field from an object, and "".

    Where no version is such: the resource in which objects can be read, None if no version is
    served, and the reason.

    Raises:
        msgspec.ValidationError: it is not one that an API server would store.
    """
    spec, stored = crd_spec(crd), crd_status(crd).stored_versions
    name, why = lossless(crd_versions("in this cluster", crd.to_dict()["spec"], stored or ()))
    return (spec.resource(name), "") if name else (spec.readable(), why)


def crd_schema(crd: Object, version: str) -> JSON | None:
    """Return the OpenAPI schema of a version, None without one.

    Raises:
        msgspec.ValidationError: it is not one that an API server would store.
    """
    for entry in crd.decode(_WithSchemas).spec.versions:
        if entry.name == version:
            return entry.schema.get("openAPIV3Schema")
    return None
