"""CustomResourceDefinitions made of a provider's discovery and OpenAPI v3 documents.

A document of CRDs has their schemas nearly as they were written; one of an aggregated API server
is made of Go types, and has references, types without names of fields, and defaults of zero. Both
become structural schemas, as API servers want them. Additional columns and the subresource scale
are in no document, and are lost. Sources: KEP-2896 (OpenAPI v3), "Specifying a
structural schema" in the documentation of CRDs, kbind v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.konnector import bounds


class SchemaError(Exception):
    """No CRD can be made of a document; the message says why."""


class ServedVersion(msgspec.Struct, frozen=True):
    """A version of an API, and whether it has the subresource status."""

    name: str
    status: bool = False


class ServedAPI(msgspec.Struct, frozen=True):
    """An API as discovery lists it; ``versions`` begin with the preferred one."""

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[ServedVersion, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its CRD."""
        return f"{self.plural}.{self.group}"

    @property
    def preferred(self) -> str:
        """The version that its CRD stores."""
        return self.versions[0].name


def definition(api: ServedAPI, schema: JSON | None = None) -> JSON:
    """Return the CRD of an API, by the schema of its preferred version; None for none."""
    names: JSON = {"plural": api.plural, "kind": api.kind}
    if api.singular:
        names["singular"] = api.singular
    if api.short_names:
        names["shortNames"] = list(api.short_names)
    if api.categories:
        names["categories"] = list(api.categories)
    metadata: JSON = {"name": api.name}
    if f".{api.group}".endswith(_PROTECTED):
        metadata["annotations"] = {_APPROVED: "unapproved, made of OpenAPI"}
    return {
        "apiVersion": CUSTOMRESOURCEDEFINITIONS.api_version,
        "kind": CUSTOMRESOURCEDEFINITIONS.kind,
        "metadata": metadata,
        "spec": {
            "group": api.group,
            "names": names,
            "scope": "Namespaced" if api.namespaced else "Cluster",
            "versions": [
                _version(version, schema if version.name == api.preferred else None, api)
                for version in api.versions
            ],
        },
    }


_PROTECTED = ".kubernetes.io"
"""End of groups of which API servers take no CRD without :data:`_APPROVED`; KEP-1111."""
_APPROVED = "api-approved.kubernetes.io"


_SELECTABLE = "x-kubernetes-selectable-fields"


def _version(version: ServedVersion, schema: JSON | None, api: ServedAPI) -> JSON:
    result: JSON = {
        "name": version.name,
        "served": True,
        "storage": version.name == api.preferred,
    }
    if schema is not None:
        fields = schema.get(_SELECTABLE)
        described = {key: value for key, value in schema.items() if key != _SELECTABLE}
        result["schema"] = {"openAPIV3Schema": described}
        if isinstance(fields, list):
            # A document has them at the schema, without the dot of a path in JSON; KEP-4358.
            paths = [field["fieldPath"] for field in fields if isinstance(field, dict)]
            result["selectableFields"] = [{"jsonPath": f".{path}"} for path in paths]
    if version.status:
        result["subresources"] = {"status": {}}
    return result


class _Components(msgspec.Struct):
    schemas: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


class _Marks(msgspec.Struct):
    kinds: list[dict[str, str]] = msgspec.field(
        default_factory=list, name="x-kubernetes-group-version-kind"
    )


class SchemaDocument:
    """The OpenAPI v3 document of one API version.

    Raises:
        SchemaError: it is none.
    """

    def __init__(self, body: bytes) -> None:
        try:
            self._components = msgspec.json.decode(body, type=_Document).components.schemas
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SchemaError(f"the OpenAPI document cannot be read: {error}") from None
        self._kinds = {
            (mark.get("group", ""), mark.get("version", ""), mark.get("kind", "")): name
            for name, raw in self._components.items()
            for mark in _marks(raw)
        }

    def schema(self, group: str, version: str, kind: str) -> JSON:
        """Return the structural schema of a kind.

        Raises:
            SchemaError: the document lacks the kind, or no structural schema can be made of it.
        """
        name = self._kinds.get((group, version, kind))
        if name is None:
            raise SchemaError(f"the OpenAPI document has no schema for {kind}")
        try:
            return _Conversion(self._components).root(name)
        except RecursionError:
            raise SchemaError("its schema is nested too deeply") from None


def _marks(raw: msgspec.Raw) -> list[dict[str, str]]:
    try:
        return msgspec.json.decode(raw, type=_Marks).kinds
    except (msgspec.MsgspecError, RecursionError):
        return []


_REFERENCE = "#/components/schemas/"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_OPEN: JSON = {"type": "object", _PRESERVE: True}
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_KEPT = frozenset(
    {
        *("type", "format", "title", "description", "default", "enum", "nullable", "required"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems"),
        *("minProperties", "maxProperties", "externalDocs", "example"),
    }
)
"""Keywords of a CRD's schema that have no schema in them; uniqueItems may only be false there."""
_DROPPED = frozenset(
    {
        "x-kubernetes-group-version-kind",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-unions",
    }
)
"""Extensions of documents that CRDs do not have."""


class _Conversion:
    """One schema on its way to a structural one; schemas of Go types come by references."""

    def __init__(self, components: Mapping[str, msgspec.Raw]) -> None:
        self._components = components
        self._decoded: dict[str, JSON] = {}
        self._nodes = 0
        self._bytes = 0

    def root(self, name: str) -> JSON:
        """Return the schema of a kind, with the fields of metadata left to the API server."""
        component = self._component(name)
        schema = self._node(component, (name,), typed=_is_of_go(component))
        if schema.get("type") != "object":
            raise SchemaError(
                f"its schema is of {schema.get('type', 'no type')}, not of type object"
            )
        properties = {**schema.get("properties", {})}
        for field in ("apiVersion", "kind"):
            text = properties.get(field, {}).get("description")
            properties[field] = {"type": "string", **({"description": text} if text else {})}
        properties["metadata"] = {"type": "object"}
        if properties.keys() <= {"apiVersion", "kind", "metadata"}:
            # A kind without described fields is one without a schema.
            schema[_PRESERVE] = True
        return {**schema, "properties": properties}

    def _component(self, name: str) -> JSON:
        raw = self._components.get(name)
        if raw is None:
            raise SchemaError(f"the OpenAPI document lacks {name}, which its schema refers to")
        self._bytes += len(bytes(raw))
        self._check()
        if name not in self._decoded:
            try:
                self._decoded[name] = msgspec.json.decode(raw, type=dict[str, Any])
            except msgspec.MsgspecError:
                raise SchemaError(f"{name} of the OpenAPI document is not a schema") from None
        return self._decoded[name]

    def _check(self, level: int = 0) -> None:
        """Refuse what unfolds beyond all that a server takes.

        Raises:
            SchemaError: it does.
        """
        small = self._nodes <= bounds.SCHEMA_NODES and self._bytes <= bounds.SCHEMA_BYTES
        if not small or level > bounds.SCHEMA_LEVELS:
            raise SchemaError(
                f"its schema is too large: at most {bounds.SCHEMA_NODES} fields and "
                f"{bounds.SCHEMA_BYTES} bytes, nested at most {bounds.SCHEMA_LEVELS} levels "
                "deep"
            )

    def _node(self, schema: object, path: tuple[str, ...], *, typed: bool, level: int = 0) -> JSON:
        """Return a structural schema; ``path`` are the components around it.

        ``typed`` says that a Go type was behind it: an object without fields is free there.
        """
        self._nodes += 1
        self._check(level)
        if not isinstance(schema, dict):
            return {_PRESERVE: True}
        reference = _reference(schema)
        if reference is not None:
            return self._referred(schema, reference, path, level)
        if typed and _is_int_or_string(schema):
            return {_INT_OR_STRING: True, **_beside(schema)}
        result = {
            key: value
            for key, value in schema.items()
            if key in _KEPT or (key.startswith("x-kubernetes-") and key not in _DROPPED)
        }
        self._inner(schema, result, path, typed=typed, level=level + 1)
        _junctors(schema, result)
        _typed(result)
        if typed:
            _of_go(result)
        return result

    def _referred(self, schema: JSON, reference: str, path: tuple[str, ...], level: int) -> JSON:
        name = reference.removeprefix(_REFERENCE)
        if name == reference:
            raise SchemaError(f"its schema refers to {reference}, outside the document")
        if name == _OBJECT_META:
            result = dict(_OPEN)
        elif name in path:
            # It contains itself, which a structural schema cannot say.
            free = self._component(name).get("type") in {None, "object"}
            result = dict(_OPEN) if free else {_PRESERVE: True}
        else:
            component = self._component(name)
            result = self._node(component, (*path, name), typed=True, level=level + 1)
        return result | _beside(schema)

    def _inner(
        self, schema: JSON, result: JSON, path: tuple[str, ...], *, typed: bool, level: int
    ) -> None:
        """Convert the schemas of fields, items and values."""
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            result["properties"] = {
                name: self._node(inner, path, typed=typed, level=level)
                for name, inner in properties.items()
            }
            if schema.get(_EMBEDDED) and "metadata" in properties:
                # As at the root: the API server knows these fields.
                result["properties"]["metadata"] = {"type": "object"}
        if (items := schema.get("items")) is not None:
            result["items"] = self._node(items, path, typed=typed, level=level)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            result["additionalProperties"] = self._node(values, path, typed=typed, level=level)
        elif values is True:
            result["additionalProperties"] = True


def _is_of_go(component: JSON) -> bool:
    """Whether a kind refers to other types than metadata: the document of a CRD does not."""
    properties = component.get("properties")
    others = {**(properties if isinstance(properties, dict) else {}), "metadata": None}
    return _refers({name: inner for name, inner in others.items() if not _is_meta(inner)})


def _is_meta(schema: object) -> bool:
    return isinstance(schema, dict) and _reference(schema) == f"{_REFERENCE}{_OBJECT_META}"


def _reference(schema: JSON) -> str | None:
    """Return the reference that a schema consists of, beside its description."""
    if isinstance(reference := schema.get("$ref"), str):
        return reference
    match schema.get("allOf"):
        case [{"$ref": str(reference)}] if "properties" not in schema:
            return reference
    return None


def _beside(schema: JSON) -> JSON:
    """Return what stands beside a reference: a default of zero says nothing there."""
    names = {"description", "nullable", "default"}
    return {
        key: value
        for key, value in schema.items()
        if (key in names or (key.startswith("x-kubernetes-") and key not in _DROPPED))
        and not (key == "default" and not value)
    }


def _is_int_or_string(schema: JSON) -> bool:
    """Whether a Go type is IntOrString or Quantity."""
    if schema.get("format") == "int-or-string":
        return True
    for junctor in ("oneOf", "anyOf"):
        options = schema.get(junctor)
        if isinstance(options, list) and all(isinstance(option, dict) for option in options):
            types = {option.get("type") for option in options}
            if "string" in types and types <= {"string", "integer", "number"} and len(types) > 1:
                return True
    return False


def _junctors(schema: JSON, result: JSON) -> None:
    """Keep junctors that only restrict values; others leave the value free."""
    for junctor in _JUNCTORS:
        if junctor not in schema:
            continue
        if _refers(schema[junctor]):
            result[_PRESERVE] = True
        else:
            result[junctor] = schema[junctor]


def _refers(value: object) -> bool:
    if isinstance(value, dict):
        return "$ref" in value or any(_refers(inner) for inner in value.values())
    return isinstance(value, list) and any(_refers(inner) for inner in value)


def _typed(result: JSON) -> None:
    """Give a schema its type, and an array its items: every node of a structural one has them."""
    if isinstance(types := result.get("type"), list):
        if "null" in types:
            result["nullable"] = True
        others = [name for name in types if name != "null"]
        result.pop("type")
        if len(others) == 1:
            result["type"] = others[0]
    if not result.get("type") and not (result.get(_PRESERVE) or result.get(_INT_OR_STRING)):
        result.pop("type", None)
        values = result.get("enum") or ()
        if "properties" in result or "additionalProperties" in result:
            result["type"] = "object"
        elif "items" in result:
            result["type"] = "array"
        elif values and all(isinstance(value, str) for value in values):
            result["type"] = "string"
        else:
            result[_PRESERVE] = True
    if result.get("type") == "array" and "items" not in result:
        result["items"] = {_PRESERVE: True}


def _of_go(result: JSON) -> None:
    """Mend what a schema of a Go type has, and a structural one cannot."""
    # A default of zero is the type's, and may be none that its own pattern or enum lets pass.
    if "default" in result and not result["default"]:
        del result["default"]
    described = result.keys() & {"properties", "additionalProperties"}
    if result.get("type") == "object" and not described:
        result[_PRESERVE] = True
    if len(described) == 2:
        del result["additionalProperties"]
        result[_PRESERVE] = True
    keyless = result.get(_LIST_TYPE) == "map" and not _has_keys(result)
    # Go has lists of bytes, which are texts in JSON.
    if keyless or result.get("type") != "array":
        result.pop(_LIST_TYPE, None)
        result.pop(_LIST_KEYS, None)
    if result.get("type") != "object":
        result.pop("x-kubernetes-map-type", None)


def _has_keys(result: JSON) -> bool:
    """Whether the items of a list that is a map always have their keys."""
    items = result.get("items") or {}
    properties: JSON = items.get("properties") or {}
    required: Iterable[str] = items.get("required") or ()
    keys = result.get(_LIST_KEYS) or ()
    return bool(keys) and all(
        key in properties and (key in required or "default" in properties[key]) for key in keys
    )
