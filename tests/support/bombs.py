"""Requests that are small or of a legal size, and cost a careless server minutes or its memory."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from fairlead.api.meta import JSON


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WIDGETS = "/apis/bombs.example.org/v1/namespaces/default/widgets"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MOST = 3_100_000
"""Bytes of the largest body; the server takes 3,145,728."""


@dataclass(frozen=True)
class Bomb:
    """One request; ``before`` is what has to be there, each with the path that it is sent to."""

    method: str
    path: str
    body: bytes = b""
    kind: str = "application/json"
    before: tuple[tuple[str, JSON], ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = self.body[:60] + b"..." if len(self.body) > 60 else self.body
        return (
            f"Bomb({self.method} {self.path[:80]} {self.kind} {len(self.body)} bytes: {shown!r})"
        )


def configmap(**members: Any) -> JSON:
    metadata = {"name": "bomb"} | members.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **members}


def widget(spec: Any) -> JSON:
    metadata = {"name": "bomb"}
    version = "bombs.example.org/v1"
    return {"apiVersion": version, "kind": "Widget", "metadata": metadata, "spec": spec}


def deployment(**spec: Any) -> JSON:
    pod = {"containers": [{"name": "c", "image": "i"}], **spec}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "bomb"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


def crd(schema: JSON | None = None, *, plural: str = "widgets", kind: str = "Widget") -> JSON:
    """A CRD; by default of objects that may be anything, with a list map, a set and a map."""
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    spec = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "set": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "string"},
            },
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": item,
            },
            "short": {"type": "array", "items": {"type": "string", "maxLength": 3}},
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    made = schema or {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": made}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.bombs.example.org"},
        "spec": {
            "group": "bombs.example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


def nested(depth: int, inner: Any, *, lists: bool = False) -> bytes:
    """JSON with ``depth`` objects or lists in one another; made as text, for it may be deep."""
    if lists:
        return b"[" * depth + json.dumps(inner).encode() + b"]" * depth
    return b'{"a":' * depth + json.dumps(inner).encode() + b"}" * depth


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _sizes(most: int) -> st.SearchStrategy[int]:
    """How often something is repeated: as often as a body can hold, often, or seldom."""
    return st.one_of(st.just(most), st.integers(most // 20, most // 5), st.integers(1, 200))


def _wide(make: Callable[[int], JSON], each: int) -> st.SearchStrategy[JSON]:
    """Bodies with as many members as fit; ``each`` is the size of one in bytes."""
    return _sizes(MOST // each).map(make)


WIDE: Mapping[str, st.SearchStrategy[tuple[str, JSON]]] = {
    name: bodies.map(lambda body, path=path: (path, body))  # type: ignore[misc]
    for name, path, bodies in (
        ("data", CONFIGMAPS, _wide(lambda n: configmap(data=dict.fromkeys(_names(n), "")), 13)),
        (
            "labels",
            CONFIGMAPS,
            _wide(lambda n: configmap(metadata={"labels": dict.fromkeys(_names(n), "")}), 13),
        ),
        (
            "odd labels",
            CONFIGMAPS,
            _wide(
                lambda n: configmap(metadata={"labels": dict.fromkeys(_names(n, "! "), "")}), 15
            ),
        ),
        (
            "finalizers",
            CONFIGMAPS,
            _wide(lambda n: configmap(metadata={"finalizers": _names(n, "a/b")}), 14),
        ),
        (
            "owners",
            CONFIGMAPS,
            _wide(lambda n: configmap(metadata={"ownerReferences": _owners(n)}), 65),
        ),
        (
            "managers",
            CONFIGMAPS,
            _wide(lambda n: configmap(metadata={"managedFields": _managers(n)}), 120),
        ),
        (
            "unknown fields",
            CONFIGMAPS,
            _wide(lambda n: configmap() | dict.fromkeys(_names(n), 1), 11),
        ),
        ("members", WIDGETS, _wide(lambda n: widget(dict.fromkeys(_names(n), 1)), 11)),
        ("empty lists", WIDGETS, _wide(lambda n: widget({"x": [[]] * n}), 3)),
        ("a set", WIDGETS, _wide(lambda n: widget({"set": _names(n)}), 10)),
        (
            "a keyed list",
            WIDGETS,
            _wide(lambda n: widget({"keyed": [{"k": name} for name in _names(n)]}), 16),
        ),
        ("wrong items", WIDGETS, _wide(lambda n: widget({"short": [1] * n}), 2)),
        ("long items", WIDGETS, _wide(lambda n: widget({"short": ["abcd"] * n}), 7)),
        ("nulls", WIDGETS, _wide(lambda n: widget({"texts": dict.fromkeys(_names(n))}), 14)),
        ("containers", DEPLOYMENTS, _wide(lambda n: deployment(containers=_containers(n)), 30)),
        ("empty containers", DEPLOYMENTS, _wide(lambda n: deployment(containers=[{}] * n), 3)),
        ("tolerations", DEPLOYMENTS, _wide(lambda n: deployment(tolerations=[{}] * n), 3)),
    )
}


def _names(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def _owners(count: int) -> list[JSON]:
    owner = {"apiVersion": "v1", "kind": "X", "name": "x"}
    return [{**owner, "uid": name} for name in _names(count)]


def _managers(count: int) -> list[JSON]:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return [{**entry, "manager": name, "fieldsV1": {"f:data": {}}} for name in _names(count)]


def _containers(count: int) -> list[JSON]:
    return [{"name": name, "image": "i"} for name in _names(count)]


def _sent(found: tuple[str, JSON], way: str) -> Bomb:
    path, body = found
    data = _json(body)
    match way:
        case "post":
            return Bomb("POST", path, data, query={"fieldValidation": "Warn"})
        case "put":
            return Bomb("PUT", f"{path}/bomb", data, before=((path, _small(path)),))
        case "apply":
            query = {"fieldManager": "bomb", "force": "true"}
            return Bomb("PATCH", f"{path}/bomb", data, APPLY_PATCH, query=query)
        case "strategic" if path != WIDGETS:
            kind = STRATEGIC_PATCH
            return Bomb("PATCH", f"{path}/bomb", data, kind, before=((path, body),))
    return Bomb("PATCH", f"{path}/bomb", data, MERGE_PATCH, before=((path, _small(path)),))


def _small(path: str) -> JSON:
    return {CONFIGMAPS: configmap(), WIDGETS: widget({}), DEPLOYMENTS: deployment()}[path]


WAYS = ("post", "put", "merge", "strategic", "apply")
wide_json = st.builds(
    _sent, st.sampled_from(sorted(WIDE)).flatmap(lambda name: WIDE[name]), st.sampled_from(WAYS)
)


def _deep(depth: int, path: str, way: str, *, lists: bool, leaves: int) -> Bomb:
    inner: Any = dict.fromkeys(_names(leaves), 1)
    text = nested(depth, [] if lists else inner, lists=lists)
    body = _json(_small(path) | {"spec": "HERE"}).replace(b'"HERE"', text)
    bomb = _sent((path, _small(path)), way)
    return Bomb(bomb.method, bomb.path, body, bomb.kind, bomb.before, bomb.query)


deep_json = st.builds(
    _deep,
    st.one_of(st.integers(1, 1200), st.integers(9_000, 300_000)),
    st.sampled_from([CONFIGMAPS, WIDGETS, DEPLOYMENTS]),
    st.sampled_from(WAYS),
    lists=st.booleans(),
    leaves=st.one_of(st.just(0), st.integers(1, 100_000)),
)


# --- patches -------------------------------------------------------------------------------------


def _doubling(times: int, *, lists: bool) -> list[JSON]:
    """A value that is copied into itself, again and again."""
    start: Any = ["x" * 100] if lists else {"x": "x" * 100}
    last = "-" if lists else "{}"
    return [{"op": "add", "path": "/spec", "value": {"a": start}}] + [
        {"op": "copy", "from": "/spec/a", "path": f"/spec/a/{last.format(index)}"}
        for index in range(times)
    ]


def _sinking(times: int) -> list[JSON]:
    """A value that is moved deeper and deeper."""
    ops: list[JSON] = [{"op": "add", "path": "/spec", "value": {}}]
    for _ in range(times):
        ops.append({"op": "add", "path": "/next", "value": {}})
        ops.append({"op": "move", "from": "/spec", "path": "/next/spec"})
        ops.append({"op": "move", "from": "/next", "path": "/spec"})
    return ops


def _shifting(times: int, size: int) -> list[JSON]:
    """A long list whose first place is taken again and again."""
    return [{"op": "add", "path": "/spec", "value": {"a": [1] * size}}] + [
        {"op": "add", "path": "/spec/a/0", "value": 0} for _ in range(times)
    ]


def _testing(times: int, size: int) -> list[JSON]:
    """A large value that is compared with itself, moved there and back in between."""
    return [{"op": "add", "path": "/spec", "value": {"a": [1] * size}}] + [
        {"op": "copy", "from": "/spec/a", "path": f"/spec/b{index % 2}"} for index in range(times)
    ]


def _json_patch(ops: list[JSON]) -> Bomb:
    return Bomb("PATCH", f"{WIDGETS}/bomb", _json(ops), JSON_PATCH, ((WIDGETS, widget({})),))


json_patches = st.one_of(
    st.builds(_doubling, st.integers(20, 10_000), lists=st.booleans()),
    st.builds(_sinking, st.integers(1, 3_300)),
    st.builds(_shifting, st.integers(1, 9_999), st.integers(1, 500_000)),
    st.builds(_testing, st.integers(1, 9_999), st.integers(1, 50_000)),
).map(_json_patch)


def _ordered(count: int, key: str, *, odd: bool) -> Bomb:
    """A strategic merge of a list with itself, in another order."""
    items: list[JSON] = [{"name": name} for name in _names(count)]
    before = deployment(containers=[{"name": "c", "image": "i", "env": items}])
    order = list(reversed(items))
    env: list[Any] = [{"name": [name]} for name in _names(count)] if odd else order
    container: JSON = {"name": "c", f"$setElementOrder/{key}": order, key: env}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    path = f"{DEPLOYMENTS}/bomb"
    return Bomb("PATCH", path, _json(patch), STRATEGIC_PATCH, ((DEPLOYMENTS, before),))


def _removing(count: int) -> Bomb:
    """A strategic merge that takes values out of a set and adds as many."""
    finalizers = _names(count, "a/b")
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": finalizers,
            "$setElementOrder/finalizers": list(reversed(finalizers)),
            "finalizers": _names(count, "c/d"),
        }
    }
    before = configmap(metadata={"finalizers": finalizers})
    path = f"{CONFIGMAPS}/bomb"
    return Bomb("PATCH", path, _json(patch), STRATEGIC_PATCH, ((CONFIGMAPS, before),))


strategic_patches = st.one_of(
    st.builds(_ordered, _sizes(40_000), st.just("env"), odd=st.booleans()),
    st.builds(_removing, _sizes(60_000)),
)


# --- YAML ----------------------------------------------------------------------------------------


def _yaml(text: bytes, way: str) -> Bomb:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\nx: " + text
    if way == "apply":
        query = {"fieldManager": "bomb"}
        return Bomb("PATCH", f"{CONFIGMAPS}/bomb", body[:MOST], APPLY_PATCH, query=query)
    if way == "delete":
        body = b"kind: DeleteOptions\napiVersion: v1\nx: " + text
        return Bomb("DELETE", f"{CONFIGMAPS}/bomb", body[:MOST], YAML)
    return Bomb("POST", CONFIGMAPS, body[:MOST], YAML)


_LAUGHS = b"\n".join(
    f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * 10) if level else '1'}]".encode()
    for level in range(12)
)
yaml_texts = st.one_of(
    _sizes(MOST // 2).map(lambda n: b"[" + b"1," * n + b"1]"),
    _sizes(MOST // 4).map(lambda n: b"\n" + b" - 1\n" * (n // 2)),
    _sizes(MOST // 3).map(lambda n: b"[" + b"{}," * n + b"1]"),
    _sizes(MOST // 12).map(lambda n: b"\n" + b"".join(b" k%d: 1\n" % i for i in range(n))),
    _sizes(MOST // 2).map(lambda n: b"\n " + b"- " * n),
    _sizes(MOST // 2).map(lambda n: b"[" * n),
    _sizes(MOST // 2).map(lambda n: b"!!int 1" + b":59" * (n // 3)),
    _sizes(MOST // 2).map(lambda n: b"1_" * n),
    _sizes(MOST).map(lambda n: b'"' + b"\\x41" * (n // 4) + b'"'),
    _sizes(MOST).map(lambda n: b" " * n),
    _sizes(MOST).map(lambda n: b"|\n " + b"x\n\n " * (n // 4)),
    st.just(b"1\n" + _LAUGHS),
    st.just(b"&a [*a]"),
    st.just(b"{<<: [{a: 1}, {<<: {b: 2}}]}"),
)
yaml_bodies = st.builds(_yaml, yaml_texts, st.sampled_from(["post", "apply", "delete"]))


# --- protobuf ------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    found = b""
    while True:
        value, low = value >> 7, value & 0x7F
        found += bytes([low | (0x80 if value else 0)])
        if not value:
            return found


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _envelope(version: str, kind: str, raw: bytes) -> bytes:
    header = _field(1, version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, header) + _field(2, raw)


def _crowded(count: int) -> bytes:
    """A ConfigMap with as many fields as fit, which it does not have."""
    return _envelope("v1", "ConfigMap", b"\x78\x01" * count)


def _entries(count: int) -> bytes:
    """A ConfigMap with as many entries of data as fit, all empty."""
    return _envelope("v1", "ConfigMap", b"\x12\x00" * count)


def _schemas(depth: int) -> bytes:
    """A CRD whose schema is as deep as it can be written."""
    schema = b""
    for _ in range(depth):
        # allOf of JSONSchemaProps
        schema = _field(27, schema)
        if len(schema) > 1_000_000:
            break
    version = _field(1, b"v1") + _field(4, _field(1, schema))
    spec = _field(1, b"bombs.example.org") + _field(7, version)
    return _envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", _field(2, spec))


def _numbers(count: int) -> bytes:
    """A Pod with numbers that take more bytes than a number may."""
    return _envelope("v1", "Pod", _field(2, b"\x20" + b"\xff" * count + b"\x01"))


protobuf_bodies = st.builds(
    lambda body, path: Bomb("POST", path, body[:MOST], PROTOBUF),
    st.one_of(
        st.builds(_crowded, _sizes(MOST // 2)),
        st.builds(_entries, _sizes(MOST // 2)),
        st.builds(_schemas, st.sampled_from([10, 300, 3_000, 30_000])),
        st.builds(_numbers, _sizes(MOST)),
        st.binary(max_size=100).map(lambda data: _envelope("v1", "ConfigMap", data)),
        st.just(b"k8s\x00" + struct.pack("!Q", (1 << 64) - 1) * 1000),
    ),
    st.sampled_from([CONFIGMAPS, CRDS]),
)


# --- selectors -----------------------------------------------------------------------------------

_LONGEST = 62_000
"""Letters of a query; the server takes lines of 65,536."""


def _selecting(text: str, parameter: str, path: str) -> Bomb:
    cut = text[: _LONGEST // max(1, -(-len(quote(text)) // max(len(text), 1)))]
    return Bomb("GET", path, query={parameter: cut})


selectors = st.builds(
    _selecting,
    st.one_of(
        _sizes(20_000).map(lambda n: ",".join(["a=b"] * n)),
        _sizes(20_000).map(lambda n: ",".join(["metadata.name!=a"] * n)),
        _sizes(20_000).map(lambda n: f"a in ({','.join(_names(n))})"),
        _sizes(60_000).map(lambda n: "!" * n),
        _sizes(60_000).map(lambda n: "\\" * n),
        _sizes(60_000).map(lambda n: "(" * n),
        _sizes(60_000).map(lambda n: "a" * n + "="),
        _sizes(60_000).map(lambda n: "a," * n),
        _sizes(60_000).map(lambda n: " " * n + "a"),
        st.text(max_size=50),
    ),
    st.sampled_from(["labelSelector", "fieldSelector"]),
    st.sampled_from([CONFIGMAPS, WIDGETS, "/api/v1/pods", "/api/v1/events"]),
)


# --- schemas, patterns and rules -----------------------------------------------------------------


def _defined(schema: JSON) -> Bomb:
    body = crd({"type": "object", "properties": {"spec": schema}}, plural="bombs", kind="Bomb")
    return Bomb("POST", CRDS, _json(body)[:MOST])


def _tower(depth: int) -> JSON:
    schema: JSON = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


schemas = st.one_of(
    _sizes(MOST // 30).map(
        lambda n: {"type": "object", "properties": {k: {"type": "string"} for k in _names(n)}}
    ),
    _sizes(MOST // 12).map(lambda n: {"type": "string", "enum": _names(n)}),
    _sizes(MOST // 20).map(lambda n: {"type": "string", "anyOf": [{"minLength": 1}] * n}),
    _sizes(MOST // 12).map(lambda n: {"type": "object", "required": _names(n)}),
    st.integers(1, 400).map(_tower),
).map(_defined)


def _value(path: str, schema: JSON, spec: Any) -> Bomb:
    """An object of a kind whose schema asks much; its CRD is made before."""
    plural = path.rpartition("/")[2]
    kind = plural[:-1].title()
    made = crd({"type": "object", "properties": {"spec": schema}}, plural=plural, kind=kind)
    body = widget(spec) | {"kind": kind}
    return Bomb("POST", path, _json(body), before=((CRDS, made),))


def _pattern(pattern: str, size: int) -> Bomb:
    schema = {"type": "string", "pattern": pattern}
    return _value(WIDGETS.replace("widgets", "patterns"), schema, "a" * size + "!")


patterns = st.builds(
    _pattern,
    st.sampled_from(["(a+)+$", "(a|a)*$", "(a*)*b", "^(a?){30}a{30}$", "(.*)(.*)(.*)(.*)x$"]),
    st.integers(20, 60_000),
)
"""Patterns that take a backtracking matcher minutes."""


def _duration(size: int) -> Bomb:
    schema = {"type": "string", "format": "duration"}
    return _value(WIDGETS.replace("widgets", "durations"), schema, "1" * size)


formats = st.builds(_duration, st.integers(100, 60_000))


def _rule(rule: str, size: int) -> Bomb:
    numbers = {"type": "array", "maxItems": size, "items": {"type": "integer"}}
    text = {"type": "string", "maxLength": size + 1}
    schema = {
        "type": "object",
        "properties": {"n": numbers, "t": text, "p": text},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    spec = {"n": list(range(size)), "t": "a" * size + "!", "p": "(a+)+$"}
    return _value(WIDGETS.replace("widgets", "rules"), schema, spec)


rules = st.builds(
    _rule,
    st.sampled_from(
        [
            "self.n.all(a, self.n.all(b, self.n.all(c, self.n.all(d, a + b + c + d >= 0))))",
            "self.n.exists(a, self.n.exists(b, self.n.exists(c, a + b + c < 0)))",
            "self.t.matches('(a+)+$')",
            "self.t.matches(self.p)",
            "self.t.split('').size() > 0",
            "self.n.map(a, self.n.map(b, a * b)).size() >= 0",
            "(self.t + self.t + self.t + self.t).contains(self.t)",
        ]
    ),
    st.one_of(st.integers(8, 80), st.integers(80, 20_000)),
)
"""Rules without a budget take hours. Those of short lists pass the estimate and are counted."""


def _alternatives(count: int, size: int) -> Bomb:
    """A list of numbers, each of which is held against every alternative of its schema."""
    items = {"type": "integer", "anyOf": [{"minimum": least} for least in range(1, count + 1)]}
    path = WIDGETS.replace("widgets", "alternatives")
    return _value(path, {"type": "array", "items": items}, [0] * size)


alternatives = st.builds(_alternatives, st.integers(500, 1_500), st.integers(5_000, 25_000))
"""Checks of JSON Schema that have no cost in Kubernetes, of objects too small for a worker."""


def _priced(count: int, size: int) -> Bomb:
    numbers = {"type": "array", "maxItems": size, "items": {"type": "integer"}}
    rule = "self.n.all(a, self.n.all(b, self.n.all(c, a == a)))"
    schema = {
        "type": "object",
        "properties": {"n": numbers},
        "x-kubernetes-validations": [{"rule": rule}] * count,
    }
    return _value(WIDGETS.replace("widgets", "prices"), schema, {"n": [7] * size})


priced_rules = st.builds(_priced, st.integers(5, 9), st.integers(100, 125))
"""Rules that each pass the estimate by little; together they take seconds, if nothing counts."""
