"""Custom resources: the resource types that a CustomResourceDefinition defines."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import msgspec

from fairlead.api.jsonpath import JSONPath, JSONPathError
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead_sandbox.resources.columns import AGE, Column, since
from fairlead_sandbox.resources.types import ResourceType, Scale, Strategy
from fairlead_sandbox.schema import CompiledSchema, FieldError, compile_schema


# In the order in which kube-apiserver lists the verbs of custom resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CustomStrategy(Strategy):
    """Strategy of custom resources, by their structural schema."""

    generation = True
    unconditional_update = False

    def __init__(self, schema: JSON, *, status: bool, fields: Sequence[str]) -> None:
        self.status = status
        self.selectable_fields = fields
        self.openapi = schema

    @cached_property
    def _schema(self) -> CompiledSchema:
        """The compiled schema; compiling a large one takes seconds, so it waits for an object."""
        return compile_schema(self.openapi or {})

    def prune(self, body: JSON) -> None:
        """Remove the fields that the schema does not specify."""
        self._schema.prune(body)

    def prepare_create(self, body: JSON) -> None:
        """Prune unknown fields and set defaults."""
        self._schema.prune(body)
        self._schema.default(body)

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Prune unknown fields and set defaults."""
        self.prepare_create(body)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of the body against the schema and its CEL rules."""
        return self._schema.validate(body, old)


def custom_types(crd: JSON) -> list[ResourceType]:
    """Return the types of an established CRD's served versions, in its order."""
    return [_type(crd, version) for version in crd["spec"]["versions"] if version["served"]]


def storage_type(crd: JSON) -> ResourceType:
    """Return the type of an established CRD's storage version, which need not be served."""
    return _type(crd, _storage_version(crd))


def _storage_version(crd: JSON) -> JSON:
    return next(version for version in crd["spec"]["versions"] if version["storage"])


def _type(crd: JSON, version: JSON) -> ResourceType:
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
    subresources = version.get("subresources") or {}
    strategy, stored = _strategy(crd, version), _storage_version(crd)
    into_storage = strategy if stored["name"] == version["name"] else _strategy(crd, stored)
    return ResourceType(
        resource=resource,
        singular=names.get("singular") or resource.kind.lower(),
        collection=resource.group_resource,
        strategy=strategy,
        list_kind=names.get("listKind") or f"{resource.kind}List",
        short_names=names.get("shortNames") or (),
        categories=names.get("categories") or (),
        subresources=[name for name in ("status", "scale") if name in subresources],
        columns=columns(version.get("additionalPrinterColumns")),
        scale=_scale(subresources.get("scale")),
        verbs=_VERBS,
        custom=True,
        accepts_create="deletionTimestamp" not in crd["metadata"],
        warning=_warning(resource, version),
        stored_as=f"{spec['group']}/{stored['name']}",
        # Without a webhook a conversion changes apiVersion, and prunes by the other schema.
        encode=partial(_converted, strategy, resource.api_version),
        decode=None if into_storage is strategy else partial(_converted, into_storage, ""),
    )


def _strategy(crd: JSON, version: JSON) -> CustomStrategy:
    return CustomStrategy(
        _schema(crd, version),
        status="status" in (version.get("subresources") or {}),
        # A CRD writes .spec.color, a field selector spec.color (KEP-4358).
        fields=[
            field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or []
        ],
    )


def _converted(strategy: CustomStrategy, api_version: str, body: JSON) -> JSON:
    """Return a body in another version, without the fields that this version does not have."""
    converted = {**copy.deepcopy(body), "apiVersion": api_version}
    strategy.prune(converted)
    return converted


def _schema(crd: JSON, version: JSON) -> JSON:
    schema: JSON = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    if crd["spec"].get("preserveUnknownFields"):
        return {**schema, "x-kubernetes-preserve-unknown-fields": True}
    return schema


def _warning(resource: Resource, version: JSON) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{resource.api_version} {resource.kind} is deprecated"
    return version.get("deprecationWarning") or default


def _scale(scale: JSON | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(
        spec=_members(scale["specReplicasPath"]),
        status=_members(scale["statusReplicasPath"]),
        selector=_members(scale.get("labelSelectorPath") or ""),
    )


def _members(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split(".") if part)


def columns(definitions: Sequence[JSON] | None) -> list[Column]:
    """Return the columns of a version; only Age if it defines none."""
    if not definitions:
        return [AGE]
    return [
        Column(
            name=definition["name"],
            cell=_cell(definition["jsonPath"], definition["type"]),
            type=definition["type"],
            format=definition.get("format") or "",
            description=definition.get("description")
            or "Custom resource definition column (in JSONPath format): " + definition["jsonPath"],
            priority=definition.get("priority") or 0,
        )
        for definition in definitions
    ]


def _cell(path: str, type_: str) -> Callable[[JSON], Any]:
    column = JSONPath(f"{{{path}}}", allow_missing=True)

    def cell(body: JSON) -> Any:
        try:
            values_ = [value for values in column.find(body) for value in values]
        except JSONPathError:
            return None
        return _typed(values_, type_) if values_ else None

    return cell


def _typed(values: list[Any], type_: str) -> Any:
    """Return the value in its column's type, None if it does not fit."""
    value = values[0]
    match type_:
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return value if _is_number(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return since(value if isinstance(value, str) else None)
    return " ".join(map(_text, values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
