"""What custom resources and their definitions may look like, in the server's own words.

Later servers put indices into paths, name the version in paths of schemas, and have finer reasons
than kube-apiserver 1.20; the comparison leaves these out.
"""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from tests.contract.support import GROUP, crd, eventually
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import AlreadyExists, Client, Invalid, NotFound


GAUGES = Resource(GROUP, "v1", "gauges", "Gauge")
STRING: JSON = {"type": "string"}
PAIR: JSON = {"type": "object", "properties": {"a": STRING, "b": STRING}}
KEYED: JSON = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": STRING, "p": {"type": "integer", "default": 1}},
}
FIELDS: JSON = {
    "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
    "e": {"type": "string", "enum": ["a", "b"]},
    "i": {"type": "integer", "minimum": 2, "maximum": 4},
    "x": {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
    "m": {"type": "integer", "multipleOf": 3},
    "i32": {"type": "integer", "format": "int32"},
    "mp": {"type": "object", "additionalProperties": STRING, "minProperties": 2},
    "b": {"type": "boolean"},
    "o": PAIR | {"required": ["a", "b"]},
    "l": {"type": "array", "minItems": 2, "maxItems": 3, "items": STRING},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n", "p"],
        "items": KEYED,
    },
    "ap": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    "ios": {"x-kubernetes-int-or-string": True},
    "nn": {"type": "string", "nullable": True},
    "t": {"type": "string", "format": "date-time"},
    "any": PAIR | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "one": PAIR | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all": PAIR | {"allOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 3}}}]},
    "not": PAIR | {"not": {"required": ["a"]}},
    "d": {"type": "string", "default": "x"},
    "od": {
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "string", "default": "y"}},
    },
    "ld": {"type": "array", "items": {"type": "string", "default": "i"}},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
    "half": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": PAIR},
    },
    "er": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
OLD_REASONS = {
    "FieldValueTypeInvalid": "FieldValueInvalid",
    "FieldValueTooLong": "FieldValueInvalid",
    "FieldValueTooMany": "FieldValueInvalid",
}


@pytest.fixture
async def gauges(client: Client) -> None:
    schema: JSON = {"type": "object", "properties": {"spec": {"type": "object"}}}
    schema["properties"]["spec"]["properties"] = FIELDS
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    try:
        await client.create(CUSTOMRESOURCEDEFINITIONS, crd("gauges", "Gauge", version))
    except AlreadyExists:
        return

    async def served() -> bool:
        try:
            await client.list(GAUGES, "default")
        except NotFound:
            return False
        return True

    await eventually(served)


def gauge(spec: Any) -> JSON:
    return {
        "apiVersion": GAUGES.api_version,
        "kind": "Gauge",
        "metadata": {"name": f"g{uuid.uuid4().hex[:8]}"},
        "spec": spec,
    }


def plain(text: str) -> str:
    """The text without what differs between versions of the server."""
    text = re.sub(r"(?<!versions)\[\d+\](?=\S* in body|\S*: (Invalid|Required))", "", text)
    return text.replace("spec.validation.", "spec.versions[0].schema.")


def complaints(error: Invalid) -> set[tuple[str, str]]:
    causes = error.status.details.causes if error.status.details else []
    return {
        (OLD_REASONS.get(cause.reason, cause.reason), plain(f"{cause.field}: {cause.message}"))
        for cause in causes
    }


def wrong(field: str, value: str, text: str) -> tuple[str, str]:
    return "FieldValueInvalid", f"{field}: Invalid value: {value}: {text}"


def wrong_type(field: str, wanted: str, got: str) -> tuple[str, str]:
    return wrong(field, f'"{got}"', f'{field} in body must be of type {wanted}: "{got}"')


def missing(field: str, text: str = "") -> tuple[str, str]:
    return "FieldValueRequired", f"{field}: Required value" + (f": {text}" if text else "")


def barred(field: str, text: str) -> tuple[str, str]:
    return "FieldValueForbidden", f"{field}: Forbidden: {text}"


def twice(field: str, value: str) -> tuple[str, str]:
    return "FieldValueDuplicate", f"{field}: Duplicate value: {value}"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"s": 5}, [wrong_type("spec.s", "string", "integer")], id="type"),
        pytest.param({"b": "true"}, [wrong_type("spec.b", "boolean", "string")], id="boolean"),
        pytest.param(
            {"i": 2.5},
            [
                wrong_type("spec.i", "integer", "number"),
                wrong(
                    "<nil>",
                    '""',
                    "Checked value must be of type integer (default format) in spec.i",
                ),
            ],
            id="integer",
            marks=today("no second complaint"),
        ),
        pytest.param({"o": "x"}, [wrong_type("spec.o", "object", "string")], id="object"),
        pytest.param({"l": {"a": 1}}, [wrong_type("spec.l", "array", "object")], id="array"),
        pytest.param({"l": ["a", 3]}, [wrong_type("spec.l", "string", "integer")], id="items"),
        pytest.param(
            {"ap": {"x": "y"}}, [wrong_type("spec.ap.x", "integer", "string")], id="values"
        ),
        pytest.param(
            {"ios": True},
            [wrong_type("spec.ios", "integer,string", "boolean")],
            id="int-or-string",
        ),
        pytest.param(
            {"s": "a"},
            [wrong("spec.s", '"a"', "spec.s in body should be at least 2 chars long")],
            id="minLength",
        ),
        pytest.param(
            {"s": "abcde"},
            [("FieldValueInvalid", "spec.s: Too long: may not be more than 4 bytes")],
            id="maxLength",
            marks=today("Invalid value: spec.s in body should be at most 4 chars long"),
        ),
        pytest.param(
            {"s": "A1"},
            [wrong("spec.s", '"A1"', "spec.s in body should match '^[a-z]+$'")],
            id="pattern",
        ),
        pytest.param(
            {"e": "c"},
            [
                (
                    "FieldValueNotSupported",
                    'spec.e: Unsupported value: "c": supported values: "a", "b"',
                )
            ],
            id="enum",
        ),
        pytest.param(
            {"i": 1},
            [wrong("spec.i", "1", "spec.i in body should be greater than or equal to 2")],
            id="minimum",
        ),
        pytest.param(
            {"i": 9},
            [wrong("spec.i", "9", "spec.i in body should be less than or equal to 4")],
            id="maximum",
        ),
        pytest.param(
            {"x": 2},
            [wrong("spec.x", "2", "spec.x in body should be greater than 2")],
            id="exclusive",
        ),
        pytest.param(
            {"m": 4},
            [wrong("spec.m", "4", "spec.m in body should be a multiple of 3")],
            id="multipleOf",
        ),
        pytest.param(
            {"i32": 3_000_000_000},
            [
                wrong(
                    "<nil>",
                    '""',
                    "Checked value must be of type integer with format int32 in spec.i32",
                ),
            ],
            id="range",
            marks=today("it is taken"),
        ),
        pytest.param(
            {"mp": {"a": "b"}},
            [wrong("spec.mp", "1", "spec.mp in body should have at least 2 properties")],
            id="minProperties",
            marks=today("Invalid value: 2, which is the bound"),
        ),
        pytest.param({"o": {}}, [missing("spec.o.a"), missing("spec.o.b")], id="required"),
        pytest.param(
            {"l": ["a"]},
            [wrong("spec.l", "1", "spec.l in body should have at least 2 items")],
            id="minItems",
        ),
        pytest.param(
            {"l": ["a"] * 4},
            [("FieldValueInvalid", "spec.l: Too many: 4: must have at most 3 items")],
            id="maxItems",
            marks=today("Invalid value: spec.l in body should have at most 3 items"),
        ),
        pytest.param(
            {"ap": {"a": 1, "b": 2, "c": 3}},
            [("FieldValueInvalid", "spec.ap: Too many: 3: must have at most 2 items")],
            id="maxProperties",
            marks=today("Invalid value: spec.ap in body should have at most 2 properties"),
        ),
        pytest.param({"set": ["a", "b", "a"]}, [twice("spec.set[2]", '"a"')], id="set"),
        pytest.param(
            {"map": [{"n": "x"}, {"n": "x", "p": 1}]},
            [twice("spec.map[1]", '{"n":"x","p":1}')],
            id="map list",
            marks=today('Duplicate value: map[string]interface {}{"n":"x", "p":1}'),
        ),
        pytest.param({"map": [{"p": 1}]}, [missing("spec.map.n")], id="map list without key"),
        pytest.param(
            {"t": "2020-01-01"},
            [
                wrong(
                    "spec.t",
                    '"2020-01-01"',
                    'spec.t in body must be of type date-time: "2020-01-01"',
                )
            ],
            id="format",
        ),
        pytest.param(
            {"any": {}},
            [
                wrong("<nil>", '""', '"spec.any" must validate at least one schema (anyOf)'),
                missing("spec.any.a"),
            ],
            id="anyOf",
        ),
        pytest.param(
            {"one": {"a": "1", "b": "2"}},
            [
                wrong(
                    "<nil>",
                    '""',
                    '"spec.one" must validate one and only one schema (oneOf). '
                    "Found 2 valid alternatives",
                )
            ],
            id="oneOf",
        ),
        pytest.param(
            {"all": {"b": "x"}},
            [
                missing("spec.all.a"),
                wrong("spec.all.b", '"x"', "spec.all.b in body should be at least 3 chars long"),
                wrong(
                    "<nil>",
                    '""',
                    '"spec.all" must validate all the schemas (allOf). None validated',
                ),
            ],
            id="allOf",
        ),
        pytest.param(
            {"not": {"a": "b"}},
            [wrong("<nil>", '""', '"spec.not" must not validate the schema (not)')],
            id="not",
        ),
        pytest.param(
            {"er": {}},
            [missing("spec.er.apiVersion"), missing("spec.er.kind")],
            id="embedded resource",
            marks=today("Required value: must not be empty"),
        ),
        pytest.param(3, [wrong_type("spec", "object", "integer")], id="spec"),
    ],
)
async def test_refused(client: Client, gauges: None, spec: Any, expected: list[Any]) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(GAUGES, gauge(spec), "default", dry_run=True)
    assert complaints(caught.value) == set(expected)
    assert caught.value.message.startswith(f'Gauge.{GROUP} "g')


DEFAULTS: JSON = {"d": "x", "od": {"a": "y"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="defaults"),
        pytest.param({"d": None, "od": None}, {}, id="null gives way to the default"),
        pytest.param({"s": None, "o": None}, {}, id="null without default goes"),
        pytest.param({"nn": None}, {"nn": None}, id="nullable stays"),
        pytest.param({"ld": [None, "a"]}, {"ld": ["i", "a"]}, id="items"),
        pytest.param({"zz": 1, "od": {"zz": 1}}, {}, id="unknown goes"),
        pytest.param({"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 1}}}, id="preserved"),
        pytest.param(
            {"half": {"z": 1, "a": {"a": "x", "z": 1}}},
            {"half": {"z": 1, "a": {"a": "x"}}},
            id="preserved but what is described",
        ),
        pytest.param({"ap": {"x": None}}, {"ap": {}}, id="null value"),
        pytest.param({"map": [{"n": "x"}]}, {"map": [{"n": "x", "p": 1}]}, id="in a list"),
    ],
)
async def test_stored(client: Client, gauges: None, spec: JSON, expected: JSON) -> None:
    made = await client.create(GAUGES, gauge(spec), "default", dry_run=True)
    assert made.to_dict()["spec"] == DEFAULTS | expected


async def test_updates_are_checked_too(client: Client, gauges: None, namespace: str) -> None:
    made = await client.create(GAUGES, gauge({"i": 3}), namespace)
    with pytest.raises(Invalid, match="should be less than or equal to 4"):
        await client.merge_patch(GAUGES, made.meta.name, namespace, {"spec": {"i": 5}})


ROOT = "spec.versions[0].schema.openAPIV3Schema"
A = f"{ROOT}.properties[spec].properties[a]"


def field(schema: JSON) -> JSON:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"properties": {"a": STRING}},
            [
                missing(
                    f"{ROOT}.properties[spec].type",
                    "must not be empty for specified object fields",
                )
            ],
            id="no type",
        ),
        pytest.param(
            field({"type": "array"}), [missing(f"{A}.items", "must be specified")], id="no items"
        ),
        pytest.param(
            field(
                {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": STRING}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["n"],
                }
            ),
            [
                missing(
                    f"{A}.items.properties[n].default",
                    "this property is in x-kubernetes-list-map-keys, so it must have a default "
                    "or be a required property",
                )
            ],
            id="key not required",
        ),
        pytest.param(
            field({"type": "string", "default": 5}),
            [wrong(f"{A}.default", '"integer"', ' in body must be of type string: "integer"')],
            id="default",
        ),
        pytest.param(
            field(field(STRING) | {"default": {"z": 1}}),
            [wrong(f"{A}.default", '{"z":1}', "must not have unknown fields")],
            id="unknown default",
            marks=today('map[string]interface {}{"z":1}'),
        ),
        pytest.param(
            {"type": "object", "anyOf": [{"type": "object"}]},
            [barred(f"{ROOT}.properties[spec].anyOf[0].type", "must be empty to be structural")],
            id="not structural",
        ),
        pytest.param(
            {"type": "object", "$ref": "#/x"},
            [barred(f"{ROOT}.properties[spec].$ref", "$ref is not supported")],
            id="$ref",
        ),
    ],
)
async def test_unsound_schemas(client: Client, schema: JSON, expected: list[Any]) -> None:
    root = {"type": "object", "properties": {"spec": schema}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    body = crd("unsounds", "Unsound", version)
    with pytest.raises(Invalid) as caught:
        await client.create(CUSTOMRESOURCEDEFINITIONS, body, dry_run=True)
    assert complaints(caught.value) == set(expected)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            {"scope": "Foo"},
            'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"',
            id="scope",
        ),
        pytest.param(
            {"names": {"plural": "others", "kind": "Unsound"}},
            'must be spec.names.plural+"."+spec.group',
            id="plural",
        ),
        pytest.param(
            {"versions": []}, "must have exactly one version marked as storage", id="none"
        ),
        pytest.param(
            {"names": {"plural": "unsounds", "kind": "Unsound", "listKind": "Unsound"}},
            'spec.names.listKind: Invalid value: "Unsound": kind and listKind may not be the same',
            id="list kind",
        ),
        pytest.param(
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
            "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            id="preserveUnknownFields",
            marks=today(
                "set x-preserve-unknown-fields to true in spec.versions[*].schema instead"
            ),
        ),
    ],
)
async def test_unsound_definitions(client: Client, change: JSON, text: str) -> None:
    body = crd("unsounds", "Unsound")
    body["spec"] |= copy.deepcopy(change)
    with pytest.raises(Invalid, match=re.escape(text)):
        await client.create(CUSTOMRESOURCEDEFINITIONS, body, dry_run=True)


IMMUTABLE: JSON = {
    "type": "string",
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "owner is immutable"}],
}


@today("no CEL")
async def test_cel_rules(client: Client) -> None:
    root = {"type": "object", "properties": {"spec": field(IMMUTABLE)}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    ruled = Resource(GROUP, "v1", "ruleds", "Ruled")
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd("ruleds", "Ruled", version))
    body = {"apiVersion": ruled.api_version, "kind": "Ruled", "metadata": {"name": "r"}}

    async def made() -> bool:
        try:
            await client.create(ruled, body | {"spec": {"a": "x"}}, "default")
        except NotFound:
            return False
        return True

    await eventually(made)
    await client.merge_patch(ruled, "r", "default", {"metadata": {"labels": {"a": "b"}}})
    text = 'Ruled.contract.example.org "r" is invalid: spec.a: Invalid value: "y": owner'
    with pytest.raises(Invalid, match=re.escape(text)):
        await client.merge_patch(ruled, "r", "default", {"spec": {"a": "y"}})


LOOSE: JSON = {
    "e": STRING,
    "s": STRING,
    "list": {"type": "array", "items": STRING},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "required": ["n"], "properties": {"n": STRING, "v": STRING}},
    },
    "r": STRING,
}


def _stricter(schema: JSON) -> JSON:
    short = {**STRING, "maxLength": 3}
    strict = copy.deepcopy(schema)
    strict["map"]["items"]["properties"]["v"] = short
    return {
        **strict,
        "e": {**STRING, "enum": ["new"]},
        "list": {**strict["list"], "items": short},
        "r": {**STRING, "x-kubernetes-validations": [{"rule": "self == 'new'"}]},
    }


@pytest.fixture
async def strict(client: Client) -> AsyncIterator[Resource]:
    """A kind whose schema became stricter than the object ``r`` of before."""
    kind = Resource(GROUP, "v1", "stricts", "Strict")
    name = kind.group_resource
    version = version_with({"type": "object", "properties": LOOSE})
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd("stricts", "Strict", version))
    old = {
        "e": "old",
        "list": ["long enough"],
        "map": [{"n": "a", "v": "long"}, {"n": "b", "v": "b"}],
        "r": "old",
    }
    body = {"apiVersion": kind.api_version, "kind": "Strict", "metadata": {"name": "r"}}

    async def made() -> bool:
        try:
            await client.create(kind, {**body, "spec": old}, "default")
        except NotFound:
            return False
        return True

    async def refused() -> bool:
        try:
            fresh = {**body, "metadata": {"name": "fresh"}, "spec": {"e": "old"}}
            await client.create(kind, fresh, "default", dry_run=True)
        except Invalid:
            return True
        return False

    await eventually(made)
    version = version_with({"type": "object", "properties": _stricter(LOOSE)})
    change = {"spec": {"versions": [version]}}
    await client.merge_patch(CUSTOMRESOURCEDEFINITIONS, name, "", change)
    await eventually(refused)
    yield kind
    await client.delete(CUSTOMRESOURCEDEFINITIONS, name)


@today("no ratcheting")
async def test_what_an_update_leaves_as_it_was_is_not_refused(
    client: Client, strict: Resource
) -> None:
    async def patch(**spec: Any) -> None:
        await client.merge_patch(strict, "r", "default", {"spec": spec})

    await client.merge_patch(strict, "r", "default", {"metadata": {"labels": {"a": "b"}}})
    await patch(s="beside")
    await patch(map=[{"n": "b", "v": "c"}, {"n": "a", "v": "long"}])
    with pytest.raises(Invalid, match=r'spec\.e: Unsupported value: "other"'):
        await patch(e="other")
    with pytest.raises(Invalid, match=r"spec\.list\[0\]: Too long: may not be more than 3 bytes"):
        await patch(list=["long enough", "b"])
    with pytest.raises(Invalid, match=r"spec\.map\[0\]\.v: Too long"):
        await patch(map=[{"n": "a", "v": "longer"}])
    with pytest.raises(Invalid, match=r"spec\.map\[1\]\.v: Too long"):
        await patch(map=[{"n": "a", "v": "long"}, {"n": "c", "v": "long"}])
    with pytest.raises(Invalid, match=r'spec\.r: Invalid value: "other": failed rule'):
        await patch(r="other")
    await patch(e="new", r="new")


COUNTS: JSON = {"type": "array", "maxItems": 60, "items": {"type": "integer"}}
LOOPS = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"
OFTEN = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"


def ruled(schema: JSON, rule: str) -> JSON:
    return schema | {"x-kubernetes-validations": [{"rule": rule}]}


@today("no CEL")
async def test_rules_have_a_budget(client: Client) -> None:
    costly = version_with({"type": "object", "properties": {"l": ruled(COUNTS, LOOPS)}})
    with pytest.raises(Invalid, match=r"estimated rule cost exceeds budget by factor of 14\.4x"):
        await client.create(CUSTOMRESOURCEDEFINITIONS, crd("loopeds", "Looped", costly))
    matrix = {"type": "array", "maxItems": 4, "items": ruled(COUNTS, OFTEN)}
    fields = {f"m{number}": matrix for number in range(3)}
    version = version_with({"type": "object", "properties": fields})
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd("counteds", "Counted", version))
    counted = Resource(GROUP, "v1", "counteds", "Counted")

    async def refused() -> str:
        numbers = [list(range(60))]
        body = {"apiVersion": counted.api_version, "kind": "Counted", "metadata": {"name": "c"}}
        try:
            await client.create(counted, body | {"spec": {"m0": numbers}}, "default")
        except NotFound:
            return ""
        except Invalid as error:
            return error.message
        return "made"

    await eventually(lambda: said(refused()))
    assert 'spec.m0[0]: Invalid value: "array": \'operation cancelled: actual cost limit' in (
        await refused()
    )


async def said(answer: Awaitable[str]) -> bool:
    return bool(await answer)


def version_with(spec: JSON) -> JSON:
    root = {"type": "object", "properties": {"spec": spec}}
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }


@today("no CEL")
async def test_a_rule_that_cannot_be_read_refuses_the_crd(client: Client) -> None:
    rule = {"rule": "noSuch(self)"}
    root = {
        "type": "object",
        "properties": {"spec": field(STRING | {"x-kubernetes-validations": [rule]})},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    with pytest.raises(Invalid, match="undeclared reference to 'noSuch'"):
        await client.create(
            CUSTOMRESOURCEDEFINITIONS, crd("unsounds", "Unsound", version), dry_run=True
        )
