"""What a CRD says, as lines that a person can compare with a document."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.meta import JSON


_PLAIN = ("format", "pattern", "minLength", "maxLength", "minItems", "minimum", "maximum")
_KUBERNETES = {
    "x-kubernetes-preserve-unknown-fields": "open",
    "x-kubernetes-list-type": "list",
    "x-kubernetes-map-type": "map",
}


def facts(crd: JSON) -> list[str]:
    """Names, columns and each field of the one version with its type and constraints."""
    spec = crd["spec"]
    (version,) = spec["versions"]
    return [*_head(spec, version), *_fields("", version["schema"]["openAPIV3Schema"])]


def printed(crd: JSON) -> list[str]:
    """Return the columns of ``kubectl get``, those of ``-o wide`` alone in parentheses."""
    (version,) = crd["spec"]["versions"][:1]
    columns: list[JSON] = version["additionalPrinterColumns"]
    return [f"({one['name']})" if one.get("priority") else one["name"] for one in columns]


def _head(spec: JSON, version: JSON) -> Iterator[str]:
    names = spec["names"]
    short = ",".join(names.get("shortNames", [])) or "-"
    kept = "served storage" if version["served"] and version["storage"] else "unserved"
    yield f"{names['kind']} {names['singular']} {names['plural']} {names['listKind']}"
    yield f"{spec['scope']} short={short} categories={','.join(names['categories'])}"
    yield f"{version['name']} {kept} subresources={','.join(version['subresources'])}"
    for column in version["additionalPrinterColumns"]:
        priority = f" priority={column['priority']}" if "priority" in column else ""
        yield f"| {column['name']} {column['type']} {column['jsonPath']}{priority}"


def _fields(path: str, schema: JSON, *, required: bool = False) -> Iterator[str]:
    if path not in {".apiVersion", ".kind", ".metadata"}:
        yield " ".join([path or ".", *_words(schema, required=required)])
    if "items" in schema:
        yield from _fields(f"{path}[]", schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _fields(f"{path}.*", schema["additionalProperties"])
    wanted = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield from _fields(f"{path}.{name}", field, required=name in wanted)


def _words(schema: JSON, *, required: bool) -> Iterator[str]:
    yield schema.get("type", "any")
    if required:
        yield "required"
    if "enum" in schema:
        yield "|".join(repr(value) if value == "" else value for value in schema["enum"])
    if "default" in schema:
        yield f"default={schema['default']!r}"
    for name in _PLAIN:
        if name in schema:
            yield f"{name}={schema[name]}"
    for name, word in _KUBERNETES.items():
        if name in schema:
            yield word if schema[name] is True else f"{word}={schema[name]}"
    if "x-kubernetes-list-map-keys" in schema:
        yield f"keys={','.join(schema['x-kubernetes-list-map-keys'])}"
    for rule in schema.get("x-kubernetes-validations", []):
        yield f"rule({rule['rule']}: {rule['message']})"
