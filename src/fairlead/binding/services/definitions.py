"""Binding definitions: annotations that define a service's entries and their names.

The grammar is that of the Secret Generation extension as Service Binding Operator reads it:
``service.binding(/<name>)?: <constant>`` or ``path=<template>(,option=value)*``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from fairlead.api.golang.text import brief, go_text
from fairlead.api.jsonpath import BudgetExhausted, JSONPathError
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import DEFINITION_ANNOTATION
from fairlead.binding import bounds


_OPTIONS = ("path", "optional", "objectType", "elementType", "sourceKey", "sourceValue")
_DATA_TYPES = {"Secret", "ConfigMap"}


class InvalidDefinition(ValueError):  # noqa: N818 (the reason's name)
    """An annotation that is not a valid definition."""


class CollectError(Exception):
    """A definition does not fit its service; the text fits into a condition."""

    def __init__(self, text: str) -> None:
        super().__init__(
            text
            if len(text) <= bounds.ERROR_CHARACTERS
            else f"{text[: bounds.ERROR_CHARACTERS]}..."
        )


class BeyondBounds(CollectError):  # noqa: N818 (a finding)
    """All definitions of a binding together exceed its budget; the text quotes no value."""


class ValueMissing(CollectError):  # noqa: N818 (a finding)
    """The service, or an object that it names, does not have the value yet."""


class DataReader(Protocol):
    """Reads objects that definitions refer to; raises ReadError."""

    async def read_secret(self, namespace: str, name: str) -> JSON:
        """Return a Secret."""

    async def read_config_map(self, namespace: str, name: str) -> JSON:
        """Return a ConfigMap."""


class Paths(Protocol):
    """Evaluates paths within a budget."""

    async def values(self, path: str, service: JSON) -> list[Any]:
        """Return the values of a path in a service; raises JSONPathError."""

    def decoded(self, secret: JSON) -> dict[str, bytes]:
        """Return the decoded entries of a Secret; raises ValueError."""

    def spend(self, values: int = 0, text: str = "") -> None:
        """Subtract values or a printed text from the budget; raises BudgetExhausted."""


class Definition(msgspec.Struct, frozen=True):
    """A definition; ``name`` is "" for a generic one, ``path`` is None for a constant."""

    name: str
    kind: str
    value: str = ""
    path: str | None = None
    optional: bool = False
    object_type: str = "string"
    source_key: str = ""
    source_value: str = ""


def parse_definition(key: str, value: str) -> Definition | None:
    """Parse an annotation; return None for other annotations.

    Raises:
        InvalidDefinition: the annotation is an invalid definition.
    """
    if not key.startswith(DEFINITION_ANNOTATION):
        return None
    prefix, _, name = key.partition("/")
    if prefix != DEFINITION_ANNOTATION:
        raise InvalidDefinition(f'can\'t process annotation with name "{key}"')
    if not value:
        raise InvalidDefinition(f"Annotation {key}:  not implemented!")
    options = _options(value)
    # A constant may have commas: only a piece that begins with an option makes it something else.
    if not options:
        return Definition(name=name, kind="string", value=value)
    try:
        return _build(key, name, value, options)
    except JSONPathError as error:
        text = f"could not create binding model for annotation key {key} and value {value}"
        raise InvalidDefinition(f"{text}: {error}") from None


def _options(value: str) -> dict[str, str]:
    options: dict[str, str] = {}
    # Service Binding Operator splits first, too: no path can have a comma, such as that of [0,1].
    for piece in value.split(","):
        option, equals, text = piece.partition("=")
        if equals and option in _OPTIONS:
            options[option] = text
    return options


def _build(key: str, name: str, value: str, options: Mapping[str, str]) -> Definition:
    if "path" not in options:
        raise JSONPathError(f'path not found: "{value}"')
    path = options["path"]
    if "{" not in path or path.count("{") != path.count("}"):
        raise JSONPathError(f'path has invalid syntax: "{path}"')
    object_type = options.get("objectType") or "string"
    default = "map" if object_type in _DATA_TYPES else "string"
    element_type = options.get("elementType", default)
    source_key = options.get("sourceKey", "")
    # So sourceKey alone passes the check of sliceOfMaps, as with Service Binding Operator.
    source_value = options.get("sourceValue", source_key)
    if element_type == "sliceOfMaps" and not (source_key and source_value):
        text = "sliceOfMaps elementType requires sourceKey and sourceValue to be present"
        raise JSONPathError(text)
    return Definition(
        name=name,
        kind=_kind(key, value, element_type, object_type),
        path=path,
        optional=options.get("optional") == "true",
        object_type=object_type,
        source_key=source_key,
        source_value=source_value,
    )


def _kind(key: str, value: str, element_type: str, object_type: str) -> str:
    if element_type in {"sliceOfMaps", "sliceOfStrings"}:
        return element_type
    if element_type in {"string", "map"}:
        if object_type == "string":
            return element_type
        if object_type in _DATA_TYPES:
            return f"{element_type}OfData"
    raise InvalidDefinition(f"Annotation {key}: {value} not implemented!")


def is_of_data(definition: Definition) -> bool:
    """Whether the definition's value is in a Secret or ConfigMap that the service names."""
    return definition.kind in {"mapOfData", "stringOfData"}


async def apply(
    definition: Definition, service: JSON, paths: Paths, reader: DataReader
) -> JSON | None:
    """Evaluate a definition to a map of items; None if it is optional and finds nothing.

    Raises:
        CollectError: the service does not have the value, or (ValueMissing) not yet.
        ReadError: a Secret or ConfigMap it refers to cannot be read.
        ValueError: a Secret's entry is not base64.
    """
    needs_name = definition.kind in {"string", "stringOfData"}
    if needs_name and not definition.name:
        raise CollectError(
            "cannot use generic service.binding annotation for string elements, "
            "need to specify binding key like service.binding/foo"
        )
    if definition.path is None:
        return {definition.name: definition.value}
    try:
        values = await paths.values(definition.path, service)
        if is_of_data(definition):
            return await _data(definition, values, service, paths, reader)
        return _shape(definition, values, paths)
    # A JSONPathError too, and first: optional must not hide it.
    except BudgetExhausted as error:
        raise BeyondBounds(str(error)) from None
    except JSONPathError as error:
        # A path that leads to nothing is all that optional forgives: a Secret that is named and
        # missing, or several values, are errors still (Service Binding Operator).
        if definition.optional:
            return None
        raise ValueMissing(str(error)) from None


def _shape(definition: Definition, values: list[Any], paths: Paths) -> JSON:
    match definition.kind:
        case "string":
            return {definition.name: _single(definition, values)}
        case "map":
            return _named(definition, _map(definition, values))
        case "sliceOfMaps":
            return _named(definition, _pairs(definition, values, paths))
        case _:
            return _named(definition, _strings(definition, values, paths))


def _single(definition: Definition, values: list[Any]) -> Any:
    if len(values) != 1:
        shown = " ".join(brief(one) for one in values[: bounds.VALUES_SHOWN])
        more = (
            f" and {len(values) - bounds.VALUES_SHOWN} more"
            if len(values) > bounds.VALUES_SHOWN
            else ""
        )
        text = (
            f"only one value should be returned for {definition.path} but we got [{shown}]{more}"
        )
        raise CollectError(text)
    return values[0]


def _map(definition: Definition, values: list[Any]) -> Any:
    value = _single(definition, values)
    if not isinstance(value, dict):
        text = f"returned value for {definition.path} should be map, but we got {brief(value)}"
        raise CollectError(text)
    return value


async def _data(
    definition: Definition, values: list[Any], service: JSON, paths: Paths, reader: DataReader
) -> dict[str, Any]:
    name = go_text(_single(definition, values))
    # The service's own: an annotation leads to no other namespace.
    namespace = service["metadata"].get("namespace", "")
    is_secret = definition.object_type == "Secret"
    body = await (reader.read_secret if is_secret else reader.read_config_map)(namespace, name)
    if body.get("data") is None:
        raise ValueMissing(f"not found: {definition.object_type} {namespace}/{name} has no data")
    entries: Mapping[str, Any] = paths.decoded(body) if is_secret else body["data"]
    if definition.kind == "stringOfData":
        if definition.source_key not in entries:
            raise ValueMissing("not found")
        return {definition.name: entries[definition.source_key]}
    if not definition.source_value:
        return dict(entries)
    if definition.source_value not in entries:
        # A key that the Secret lacks is no error, as with Service Binding Operator.
        return {}
    key = definition.name or definition.source_value
    return {key: entries[definition.source_value]}


def _pairs(definition: Definition, values: list[Any], paths: Paths) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for item in _flattened(values, paths):
        if isinstance(item, dict):
            key = go_text(item.get(definition.source_key))
            paths.spend(text=key)
            result[key] = item.get(definition.source_value)
    return result


def _strings(definition: Definition, values: list[Any], paths: Paths) -> Any:
    strings: list[Any] = []
    for item in _flattened(values, paths):
        if definition.source_value:
            if isinstance(item, dict):
                strings.append(item.get(definition.source_value))
        elif isinstance(item, str):
            strings.append(item)
    return strings


def _flattened(values: list[Any], paths: Paths) -> Iterator[Any]:
    """Yield values, with lists among them flattened, in order."""
    # A stack of our own: lists may nest deeper than Python's allows.
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            paths.spend(1)
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            yield value
        else:
            waiting.pop()


def _named(definition: Definition, value: Any) -> JSON:
    if definition.name or not isinstance(value, dict):
        return {definition.name: value}
    return value


_PERCONA_USERS = "path={.spec.secretsName},objectType=Secret"
_PERCONA_MYSQL = {
    "service.binding/type": "mysql",
    "service.binding/provider": "percona",
    "service.binding/database": "mysql",
    "service.binding/host": "path={.status.host}",
    "service.binding/port": "3306",
    "service.binding/username": "root",
    "service.binding/password": f"{_PERCONA_USERS},sourceValue=root",
}
_MONGODB_USERS = "path={.spec.secrets.users},objectType=Secret"
_PERCONA_MONGODB = {
    "service.binding/type": "mongodb",
    "service.binding/provider": "percona",
    "service.binding/username": f"{_MONGODB_USERS},sourceValue=MONGODB_USER_ADMIN_USER",
    "service.binding/password": f"{_MONGODB_USERS},sourceValue=MONGODB_USER_ADMIN_PASSWORD",
    "service.binding/host": "path={.status.host}",
}
_CRUNCHY_USER = "path={.metadata.name}-pguser-{.metadata.name},objectType=Secret"
_CRUNCHY = {
    "service.binding/type": "postgresql",
    "service.binding/provider": "crunchydata",
    "service.binding/database": f"{_CRUNCHY_USER},sourceValue=dbname",
    "service.binding/username": f"{_CRUNCHY_USER},sourceValue=user",
    # All of the user's Secret but the verifier, with the entries of PgBouncer where it runs.
    **{
        f"service.binding/{key}": f"{_CRUNCHY_USER},sourceValue={key}"
        for key in (
            *("host", "port", "dbname", "user", "password", "uri", "jdbc-uri"),
            *("pgbouncer-host", "pgbouncer-port", "pgbouncer-uri", "pgbouncer-jdbc-uri"),
        )
    },
    # The Secret has the server's key, too.
    "service.binding/ca.crt": (
        "path={.metadata.name}-cluster-cert,objectType=Secret,sourceValue=ca.crt"
    ),
}
_CLOUDNATIVE_USER = "path={.metadata.name}-app,objectType=Secret"
_CLOUDNATIVE = {
    "service.binding/type": "postgresql",
    "service.binding": _CLOUDNATIVE_USER,
    "service.binding/host": "path={.status.writeService}",
    "service.binding/database": f"{_CLOUDNATIVE_USER},sourceValue=dbname",
    # The Secret has the authority's key, too.
    "service.binding/ca.crt": (
        "path={.status.certificates.serverCASecret},objectType=Secret,sourceValue=ca.crt,"
        "optional=true"
    ),
}

# Those of Service Binding Operator 1.4, with what clients need alone, and CloudNativePG's. Its
# RabbitmqCluster is missing, since that names its Secret itself.
_REGISTRY: dict[tuple[str, str], dict[str, str]] = {
    ("redis.redis.opstreelabs.in/v1beta1", "Redis"): {
        "service.binding/type": "redis",
        "service.binding/host": "path={.metadata.name}",
        "service.binding/password": (
            "path={.spec.kubernetesConfig.redisSecret.name},objectType=Secret,"
            "sourceValue=password,optional=true"
        ),
    },
    ("postgres-operator.crunchydata.com/v1beta1", "PostgresCluster"): _CRUNCHY,
    ("postgresql.cnpg.io/v1", "Cluster"): {
        **_CLOUDNATIVE,
        "service.binding/provider": "cloudnative-pg",
    },
    ("postgresql.k8s.enterprisedb.io/v1", "Cluster"): {
        **_CLOUDNATIVE,
        "service.binding/provider": "enterprisedb",
    },
    **{
        (f"pxc.percona.com/{version}", "PerconaXtraDBCluster"): _PERCONA_MYSQL
        for version in ("v1-8-0", "v1-9-0", "v1-10-0", "v1")
    },
    **{
        (f"psmdb.percona.com/{version}", "PerconaServerMongoDB"): _PERCONA_MONGODB
        for version in ("v1-9-0", "v1-10-0", "v1")
    },
}


def registered(api_version: str, kind: str) -> dict[str, str]:
    """Return the built-in annotations of a kind, {} for unknown kinds."""
    return _REGISTRY.get((api_version, kind), {})
