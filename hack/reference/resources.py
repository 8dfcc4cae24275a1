"""The pages of custom resources, from ``config/crd``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml
from hack.reference.tables import ROOT, code, sentence, table, words


_INDEX = """\
# Resources

Every kind that Fairlead adds to a cluster, with all fields. `fairlead crds` prints the
CustomResourceDefinitions, and `kubectl explain` shows the same texts.
"""
_GROUPS = {
    "access.k8s.delta10.nl": "PostgresAccess: logins for databases",
    "kube-bind.io": "kube-bind: services across clusters",
    "core.kbind.io": "kbind v2: services across clusters, with nothing installed at the provider",
    "servicebinding.io": "Service Binding: the API of the specification",
    "binding.operators.coreos.com": "Service Binding: the API of Service Binding Operator",
}
_LEFT_OUT = {"apiVersion", "kind", "metadata"}
_BOUNDS = (
    ("minLength", "maxLength", "character"),
    ("minItems", "maxItems", "item"),
    ("minProperties", "maxProperties", "entry"),
    ("minimum", "maximum", ""),
)
_PLURALS = {"character": "characters", "item": "items", "entry": "entries", "": ""}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HEAD = ("field", "type", "description")


class Field(NamedTuple):
    """A field by its path from the object's root, its schema, and whether it has to be there."""

    path: str
    schema: Mapping[str, Any]
    required: bool


def definitions() -> list[dict[str, Any]]:
    """All CustomResourceDefinitions, by the names of their files."""
    paths = sorted((ROOT / "config" / "crd").glob("*.yaml"))
    return [yaml.load(path.read_text(), _LOADER) for path in paths]  # noqa: S506  both are safe


def pages() -> dict[str, str]:
    """The pages by their paths below the reference."""
    found = definitions()
    made = {f"resources/{_file(crd)}": _page(crd) for crd in found}
    return {"resources/index.md": _index(found), **made}


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[Field]:
    """All fields below a schema, each before those that it has itself."""
    for name, child in schema.get("properties", {}).items():
        if not path and name in _LEFT_OUT:
            continue
        below = f"{path}.{name}" if path else name
        yield Field(below, child, name in schema.get("required", ()))
        yield from fields(child, below)
    if isinstance(schema.get("items"), Mapping):
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from fields(schema["additionalProperties"], f"{path}.*")


def _file(crd: Mapping[str, Any]) -> str:
    return f"{crd['metadata']['name']}.md"


def _title(crd: Mapping[str, Any]) -> str:
    kind: str = crd["spec"]["names"]["kind"]
    group: str = crd["spec"]["group"]
    # Two groups have each of these.
    return f"{kind} ({group})" if kind in {"ClusterBinding", "ServiceBinding"} else kind


def _index(crds: Iterable[Mapping[str, Any]]) -> str:
    found = list(crds)
    parts = [_INDEX]
    for group, title in _GROUPS.items():
        rows = [
            (
                f"[{crd['spec']['names']['kind']}]({_file(crd)})",
                crd["spec"]["scope"],
                words(sentence(_root(crd).get("description", ""))),
            )
            for crd in found
            if crd["spec"]["group"] == group
        ]
        parts.append(
            f"## {title}\n\n{code(group)}\n\n{table(('kind', 'scope', 'description'), rows)}"
        )
    return "\n".join(parts)


def _root(crd: Mapping[str, Any]) -> dict[str, Any]:
    (stored,) = (one for one in crd["spec"]["versions"] if one["storage"])
    root: dict[str, Any] = stored["schema"]["openAPIV3Schema"]
    return root


def _page(crd: Mapping[str, Any]) -> str:
    spec = crd["spec"]
    names = spec["names"]
    versions = ", ".join(_version(spec["group"], one) for one in spec["versions"])
    rows = [("API version", versions)]
    rows.append(("names for kubectl", ", ".join(map(code, _names(names)))))
    if names.get("categories"):
        rows.append(("categories", ", ".join(map(code, names["categories"]))))
    rows.append(("scope", "namespaced" if spec["scope"] == "Namespaced" else "cluster-scoped"))
    root = _root(crd)
    parts = [
        f"# {_title(crd)}\n",
        words(sentence(root.get("description", ""))) + "\n",
        table(("what", "value"), rows),
    ]
    for name, child in root["properties"].items():
        if name not in _LEFT_OUT:
            parts.append(_section(name, child, root))
    rules = list(_rules(root))
    if rules:
        parts.append("## Rules for the whole object\n\n" + "\n".join(f"- {one}" for one in rules))
        parts.append("")
    columns = next(one for one in spec["versions"] if one["storage"]).get(
        "additionalPrinterColumns"
    )
    if columns:
        shown = [
            (
                one["name"],
                code(one["jsonPath"]),
                "`-o wide`" if one.get("priority") else "always",
            )
            for one in columns
        ]
        listed = table(("column", "JSONPath", "shown"), shown)
        parts.append(f"## Columns of kubectl get\n\n{listed}")
    return "\n".join(parts)


def _version(group: str, version: Mapping[str, Any]) -> str:
    name = f"{group}/{version['name']}"
    return f"{code(name)} (deprecated)" if version.get("deprecated") else code(name)


def _names(names: Mapping[str, Any]) -> list[str]:
    return [names["plural"], names["singular"], *names.get("shortNames", [])]


def _section(name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    top = Field(name, schema, name in root.get("required", ()))
    rows = [_row(field, name) for field in fields(schema, name)]
    said = about(top)
    if not rows:
        # Such as the list that a BindableKinds has in place of an object.
        return f"## {name}\n\n{_type(schema).capitalize()}. {said}\n"
    return f"## {name}\n\n{said}\n\n{table(_HEAD, rows)}"


def _row(field: Field, section: str) -> tuple[str, str, str]:
    shown = field.path.removeprefix(section).removeprefix(".")
    return (
        f'<a id="{field.path}"></a>{code(shown)}',
        _type(field.schema),
        about(field),
    )


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        return "list" if not items.get("type") else f"list of {_type(items)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_type(schema['additionalProperties'])}"
    if kind is None:
        return "anything"
    return str(kind)


def about(field: Field) -> str:
    """All that is to be said of a field: what it is, its default, what it may be."""
    return " ".join(filter(None, _facts(field)))


def _facts(field: Field) -> Iterator[str]:
    schema = field.schema
    yield words(sentence(schema.get("description", "")))
    if field.required:
        yield "**Required.**"
    if "default" in schema:
        yield f"Default: {code(json.dumps(schema['default']))}."
    yield from _limits(schema)
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from (_of_each(fact, "item") for fact in _limits(items))
    entries = schema.get("additionalProperties")
    if isinstance(entries, Mapping):
        yield from (_of_each(fact, "value") for fact in _limits(entries))


def _of_each(fact: str, noun: str) -> str:
    rule = fact.removeprefix("Rule: ")
    return f"Rule for each {noun}: {rule}" if rule != fact else f"Each {noun}: {fact}"


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in schema:
        yield f"One of {', '.join(map(code, schema['enum']))}."
    if "pattern" in schema:
        yield f"Matches {code(schema['pattern'])}."
    if "format" in schema:
        yield f"Format {code(schema['format'])}."
    for least, most, noun in _BOUNDS:
        yield from _bound(schema.get(least), schema.get(most), noun)
    if schema.get("x-kubernetes-list-type") == "map":
        keys = ", ".join(map(code, schema["x-kubernetes-list-map-keys"]))
        yield f"No two items have the same {keys}."
    if schema.get("x-kubernetes-list-type") == "set":
        yield "No duplicates."
    yield from _rules(schema)


def _bound(least: float | None, most: float | None, noun: str) -> Iterator[str]:
    if least is None and most is None:
        return
    last = most if most is not None else least
    counted = f" {noun if last == 1 else _PLURALS[noun]}" if noun else ""
    if least is not None and most is not None:
        span = f"{least} to {most}" if least != most else f"Exactly {most}"
    else:
        span = f"At most {most}" if least is None else f"At least {least}"
    yield f"{span}{counted}."


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"Rule: {words(sentence(rule.get('message') or rule['rule']))}"
