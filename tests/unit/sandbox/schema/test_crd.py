from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead_sandbox.schema import compile_schema, complete_crd, summarize, validate_crd


ROOT = "spec.versions[0].schema.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def crd(schema: dict[str, Any] | None = None) -> dict[str, Any]:
    root = {"type": "object", "properties": {"spec": schema or {"type": "object"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    return {
        "metadata": {"name": "gadgets.ex.org"},
        "spec": {
            "group": "ex.org",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    }


def check(body: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    complete_crd(body)
    return summarize(found) if (found := validate_crd(body, old)) else ""


def test_a_sound_crd_is_completed() -> None:
    body = crd()
    assert check(body) == ""
    assert body["spec"]["names"]["singular"] == "gadget"
    assert body["spec"]["names"]["listKind"] == "GadgetList"
    assert body["spec"]["conversion"] == {"strategy": "None"}


def names(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["spec"]["names"].update(changes)


def spec(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["spec"].update(changes)


def version(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["spec"]["versions"][0].update(changes)


def second(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["spec"]["versions"].append(body["spec"]["versions"][0] | changes)


def named(group: str) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        body["spec"]["group"] = group
        body["metadata"]["name"] = f"gadgets.{group}"

    return change


COLUMNS = [
    {"name": "", "type": "", "jsonPath": ""},
    {"name": "x", "type": "foo", "jsonPath": "spec.a"},
    {"name": "y", "type": "string", "jsonPath": ".spec", "format": "zz"},
    {"name": "z", "type": "string", "jsonPath": ".spec["},
]
TYPES = "must be one of boolean,date,integer,number,string"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            lambda body: body["metadata"].update(name="foo.ex.org"),
            'metadata.name: Invalid value: "foo.ex.org": must be spec.names.plural+"."+spec.group',
            id="name",
        ),
        pytest.param(
            version(storage=False),
            'spec.versions: Invalid value: ["v1"]: '
            "must have exactly one version marked as storage version",
            id="no storage",
        ),
        pytest.param(
            second(name="v2"),
            'spec.versions: Invalid value: ["v1", "v2"]: '
            "must have exactly one version marked as storage version",
            id="two storage",
        ),
        pytest.param(
            second(storage=False),
            'spec.versions: Invalid value: ["v1", "v1"]: must contain unique version names',
            id="twice",
        ),
        pytest.param(
            version(name="V_1"),
            f'spec.versions[0].name: Invalid value: "V_1": {LABEL}',
            id="version name",
        ),
        pytest.param(
            version(schema={}), f"{ROOT}: Required value: schemas are required", id="no schema"
        ),
        pytest.param(
            spec(scope="Foo"),
            'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"',
            id="scope",
        ),
        pytest.param(
            named("ex"),
            'spec.group: Invalid value: "ex": should be a domain with at least one dot',
            id="group",
        ),
        pytest.param(
            named("foo.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups "
            'must have approval annotation "api-approved.kubernetes.io", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
            id="protected group",
        ),
        pytest.param(
            names(kind="Bad_kind", singular="gadget", listKind="GadgetList"),
            'spec.names.kind: Invalid value: "Bad_kind": may have mixed case, but should '
            f"otherwise match: {LABEL}",
            id="kind",
        ),
        pytest.param(
            names(listKind="Gadget"),
            'spec.names.listKind: Invalid value: "Gadget": kind and listKind may not be the same',
            id="list kind",
        ),
        pytest.param(
            names(shortNames=["A_b"]),
            f'spec.names.shortNames[0]: Invalid value: "A_b": {LABEL}',
            id="short name",
        ),
        pytest.param(
            names(categories=["A b"]),
            f'spec.names.categories[0]: Invalid value: "A b": {LABEL}',
            id="category",
        ),
        pytest.param(
            spec(preserveUnknownFields=True),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            id="preserve",
        ),
        pytest.param(
            spec(conversion={"strategy": "Foo"}),
            'spec.conversion.strategy: Unsupported value: "Foo": '
            'supported values: "None", "Webhook"',
            id="conversion",
        ),
        pytest.param(
            spec(conversion={"strategy": "Webhook"}),
            'spec.conversion.strategy: Invalid value: "Webhook": '
            "conversion webhooks are not supported by this server",
            id="webhook",
        ),
        pytest.param(
            version(additionalPrinterColumns=COLUMNS[:1]),
            "[spec.versions[0].additionalPrinterColumns[0].name: Required value, "
            f"spec.versions[0].additionalPrinterColumns[0].type: Required value: {TYPES}, "
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: Required value]",
            id="empty column",
        ),
        pytest.param(
            version(additionalPrinterColumns=COLUMNS[1:2]),
            f'[spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "foo": {TYPES}, '
            'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: "spec.a": '
            "must be a simple json path starting with .]",
            id="column",
        ),
        pytest.param(
            version(additionalPrinterColumns=COLUMNS[2:3]),
            'spec.versions[0].additionalPrinterColumns[0].format: Invalid value: "zz": '
            "must be one of byte,date,date-time,double,float,int32,int64,password",
            id="column format",
        ),
        pytest.param(
            version(additionalPrinterColumns=COLUMNS[3:]),
            'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: ".spec[": '
            "is not supported",
            id="column path",
        ),
        pytest.param(
            version(subresources={"scale": {}}),
            "[spec.versions[0].subresources.scale.specReplicasPath: Required value, "
            "spec.versions[0].subresources.scale.statusReplicasPath: Required value]",
            id="scale",
        ),
        pytest.param(
            version(
                subresources={
                    "scale": {
                        "specReplicasPath": "spec.x",
                        "statusReplicasPath": ".stat.x",
                        "labelSelectorPath": ".foo.x",
                    }
                }
            ),
            '[spec.versions[0].subresources.scale.specReplicasPath: Invalid value: "spec.x": '
            "must be a simple json path starting with ., "
            'spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: ".stat.x": '
            "should be a json path under .status, "
            'spec.versions[0].subresources.scale.labelSelectorPath: Invalid value: ".foo.x": '
            "should be a json path under either .spec or .status]",
            id="scale paths",
        ),
    ],
)
def test_definitions(change: Callable[[dict[str, Any]], None], text: str) -> None:
    body = crd()
    change(body)
    assert check(body).startswith(text)


def test_an_empty_body_lacks_everything() -> None:
    assert check({}) == (
        "[metadata.name: Required value: name or generateName is required, "
        "spec.group: Required value, spec.scope: Required value, "
        "spec.versions: Invalid value: []: "
        "must have exactly one version marked as storage version, "
        "spec.names.plural: Required value, spec.names.singular: Required value, "
        "spec.names.kind: Required value, spec.names.listKind: Required value]"
    )


def field(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


def listed(items: dict[str, Any], *keys: str, kind: str = "map") -> dict[str, Any]:
    schema = {"type": "array", "items": items, "x-kubernetes-list-type": kind}
    return field(schema | ({"x-kubernetes-list-map-keys": list(keys)} if keys else {}))


A = f"{SPEC}.properties[a]"
KEYED = {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param(
            {"properties": {"a": STRING}},
            f"{SPEC}.type: Required value: must not be empty for specified object fields",
            id="no type",
        ),
        pytest.param(
            field({"type": "array", "items": {}}),
            f"{A}.items.type: Required value: must not be empty for specified array items",
            id="no item type",
        ),
        pytest.param(
            field({"type": "array"}),
            f"{A}.items: Required value: must be specified",
            id="no items",
        ),
        pytest.param(
            field({"type": "array", "items": [STRING]}),
            f"{A}.items: Forbidden: items must be a schema object and not an array",
            id="items list",
        ),
        pytest.param(
            field({"type": "foo"}),
            f'{A}.type: Unsupported value: "foo": supported values: '
            '"array", "boolean", "integer", "number", "object", "string"',
            id="unknown type",
        ),
        pytest.param(
            field(STRING) | {"additionalProperties": STRING},
            f"{SPEC}.additionalProperties: Forbidden: "
            "additionalProperties and properties are mutual exclusive",
            id="both properties",
        ),
        pytest.param(
            {"type": "object", "$ref": "#/x"},
            f"{SPEC}.$ref: Forbidden: $ref is not supported",
            id="$ref",
        ),
        pytest.param(
            field({"type": "array", "uniqueItems": True, "items": STRING}),
            f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic",
            id="uniqueItems",
        ),
        pytest.param(
            field({"type": "string", "pattern": "["}),
            f'{A}.pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: '
            "error parsing regexp:",
            id="pattern",
        ),
        pytest.param(
            listed(STRING, kind="foo"),
            f'{A}.x-kubernetes-list-type: Unsupported value: "foo": supported values: '
            '"atomic", "set", "map"',
            id="list type",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-list-type": "set"},
            f'{SPEC}.type: Invalid value: "object": '
            "must be array if x-kubernetes-list-type is specified",
            id="list type of an object",
        ),
        pytest.param(
            listed(KEYED),
            f"{A}.x-kubernetes-list-map-keys: Required value: "
            "must not be empty if x-kubernetes-list-type is map",
            id="no keys",
        ),
        pytest.param(
            listed(KEYED, "z"),
            f'{A}.x-kubernetes-list-map-keys: Invalid value: ["z"]: '
            "entries must all be names of item properties",
            id="key that is no property",
        ),
        pytest.param(
            listed(KEYED, "n", "n"),
            f'{A}.x-kubernetes-list-map-keys: Invalid value: ["n","n"]: '
            "must not contain duplicate entries",
            id="keys twice",
        ),
        pytest.param(
            listed(KEYED | {"required": []}, "n"),
            f"{A}.items.properties[n].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property",
            id="key not required",
        ),
        pytest.param(
            listed(KEYED | {"properties": {"n": {"type": "object"}}}, "n"),
            f'{A}.items.properties[n].type: Invalid value: "object": '
            "must be a scalar type if parent array's x-kubernetes-list-type is map",
            id="key object",
        ),
        pytest.param(
            listed(STRING, "n"),
            f'{A}.items.type: Invalid value: "string": '
            "must be object if parent array's x-kubernetes-list-type is map",
            id="map of strings",
        ),
        pytest.param(
            listed(KEYED | {"nullable": True}, "n"),
            f"{A}.items.nullable: Forbidden: "
            "cannot be nullable when x-kubernetes-list-type is map",
            id="nullable items",
        ),
        pytest.param(
            listed({"type": "object"}, kind="set"),
            f"{A}.items.x-kubernetes-map-type: Invalid value: null: "
            "must be atomic as item of a list with x-kubernetes-list-type=set",
            id="set of objects",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-map-type": "foo"},
            f'{SPEC}.x-kubernetes-map-type: Unsupported value: "foo": supported values: '
            '"atomic", "granular"',
            id="map type",
        ),
        pytest.param(
            field({"type": "string", "default": 5}),
            f'{A}.default: Invalid value: "integer":  in body must be of type string: "integer"',
            id="default type",
        ),
        pytest.param(
            field(STRING) | {"default": {"a": 1}},
            f'{SPEC}.default.a: Invalid value: "integer": '
            'a in body must be of type string: "integer"',
            id="default inside",
        ),
        pytest.param(
            field(field(STRING) | {"default": {"zz": 1}}),
            f'{A}.default: Invalid value: {{"zz":1}}: must not have unknown fields',
            id="default unknown",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            f"{SPEC}.x-kubernetes-preserve-unknown-fields: Invalid value: false: "
            "must be true or undefined",
            id="preserve false",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True},
            f"{SPEC}.properties: Required value: must not be empty if "
            "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            id="embedded",
        ),
        pytest.param(
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "additionalProperties": True,
            },
            f"{SPEC}.additionalProperties: Forbidden: "
            "must not be used if x-kubernetes-embedded-resource is set",
            id="embedded with any property",
        ),
        pytest.param(
            field(
                {
                    "x-kubernetes-int-or-string": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            ),
            f"{A}.x-kubernetes-preserve-unknown-fields: Invalid value: true: "
            "must be false if x-kubernetes-int-or-string is true",
            id="int-or-string that is preserved",
        ),
        pytest.param(
            field(STRING) | {"additionalProperties": True}, "", id="properties and any other"
        ),
        pytest.param(
            field(STRING) | {"additionalProperties": False},
            f"{SPEC}.additionalProperties: Forbidden: "
            "additionalProperties and properties are mutual exclusive",
            id="properties and no other",
        ),
        pytest.param(
            field(STRING) | {"anyOf": [{"type": "object", "default": {}, "description": "x"}]},
            f"[{SPEC}.anyOf[0].default: Forbidden: must be undefined to be structural, "
            f"{SPEC}.anyOf[0].description: Forbidden: must be empty to be structural, "
            f"{SPEC}.anyOf[0].type: Forbidden: must be empty to be structural]",
            id="structure in anyOf",
        ),
        pytest.param(
            {"type": "object", "not": {"additionalProperties": STRING}},
            f"{SPEC}.not.additionalProperties: Forbidden: must be undefined to be structural",
            id="additionalProperties in not",
        ),
        pytest.param(
            field(
                {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                }
            ),
            "",
            id="int-or-string idiom",
        ),
        pytest.param(
            field({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]}),
            f"{A}.anyOf[0].type: Forbidden: must be empty to be structural",
            id="not the idiom",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-validations": [{"rule": "self.zz"}]},
            f'{SPEC}.x-kubernetes-validations[0].rule: Invalid value: "self.zz": '
            "compilation failed: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz\n | ....^",
            id="rule",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-validations": [{}]},
            f"{SPEC}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            id="no rule",
        ),
        pytest.param(
            field(
                {
                    "type": "array",
                    "maxItems": 1,
                    "items": STRING | {"x-kubernetes-validations": [{"rule": "self==oldSelf"}]},
                }
            ),
            f"{A}.items.x-kubernetes-validations[0].rule: "
            'Invalid value: "self==oldSelf": oldSelf cannot be used on the uncorrelatable '
            f"portion of the schema within {A}",
            id="rule that can never run",
        ),
        pytest.param(
            STRING | {"x-kubernetes-validations": [{"rule": "true", "message": 5}]},
            f"{SPEC}.x-kubernetes-validations[0].message: Invalid value: 5: must be a string",
            id="message that is no text",
        ),
        pytest.param(
            STRING | {"x-kubernetes-validations": [{"rule": "true", "reason": "Foo"}]},
            f'{SPEC}.x-kubernetes-validations[0].reason: Unsupported value: "Foo": supported '
            'values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", '
            '"FieldValueRequired"',
            id="reason",
        ),
        pytest.param(
            STRING | {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "1"}]},
            f"{SPEC}.x-kubernetes-validations[0].messageExpression: ",
            id="messageExpression",
        ),
    ],
)
def test_schemas(schema: dict[str, Any], text: str) -> None:
    found = check(crd(schema))
    assert found.startswith(text)
    assert bool(found) is bool(text)


@pytest.mark.parametrize(
    ("root", "text"),
    [
        pytest.param(
            {"properties": {}},
            f"{ROOT}.type: Required value: must not be empty at the root",
            id="no type",
        ),
        pytest.param(
            {"type": "string"},
            f'{ROOT}.type: Invalid value: "string": must be object at the root',
            id="type",
        ),
        pytest.param(
            {"type": "object", "properties": {"kind": {"type": "integer"}}},
            f'{ROOT}.properties[kind].type: Invalid value: "integer": must be string',
            id="kind",
        ),
        pytest.param(
            {"type": "object", "properties": {"metadata": {"type": "string"}}},
            f'{ROOT}.properties[metadata].type: Invalid value: "string": must be object',
            id="metadata type",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}
                },
            },
            f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name "
            "and generateName, but metadata is implicitly specified",
            id="metadata",
        ),
    ],
)
def test_roots(root: dict[str, Any], text: str) -> None:
    body = crd()
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = root
    assert check(body) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(spec(scope="Cluster"), 'spec.scope: Invalid value: "Cluster"', id="scope"),
        pytest.param(named("a.b"), 'spec.group: Invalid value: "a.b"', id="group"),
        pytest.param(
            names(kind="Other", listKind="OtherList"),
            'spec.names.kind: Invalid value: "Other"',
            id="kind",
        ),
    ],
)
def test_what_may_not_change(change: Callable[[dict[str, Any]], None], text: str) -> None:
    old, new = crd(), crd()
    complete_crd(old)
    change(new)
    assert check(new, old) == f"{text}: field is immutable"


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = field(schema)
    return schema


def test_a_deep_schema_is_refused() -> None:
    assert check(crd(nested(48))) == ""
    text = "must not nest deeper than 100 levels of JSON on this server"
    assert check(crd(nested(49))) == f"{ROOT}: Forbidden: {text}"
    assert check(crd(nested(2000))) == f"{ROOT}: Forbidden: {text}"


def test_the_deepest_schema_can_be_compiled() -> None:
    compiled = compile_schema({"type": "object", "properties": {"spec": nested(48)}})
    assert compiled.validate({"spec": {"a": {"a": 5}}})[0].field == "spec.a.a"


def test_a_stored_version_stays() -> None:
    body = crd() | {"status": {"storedVersions": ["v0"]}}
    assert check(body) == (
        'status.storedVersions[0]: Invalid value: "v0": must appear in spec.versions'
    )


LIST = {"type": "array", "items": {"type": "integer"}}
PAIRS = "self.all(a, self.all(b, a == b))"
LOOPS = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"
REMEDY = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
RULE = "x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor"


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return schema | {"x-kubernetes-validations": [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param(ruled(LIST | {"maxItems": 1000}, PAIRS), "", id="cheap enough"),
        pytest.param(
            ruled(LIST | {"maxItems": 1600}, PAIRS),
            f"{SPEC}.{RULE} of 1.280800x {REMEDY}",
            id="just too much",
        ),
        pytest.param(
            ruled(LIST | {"maxItems": 60}, LOOPS),
            f"[{SPEC}.{RULE} of 14.4x {REMEDY}, {SPEC}.x-kubernetes-validations[0].rule: "
            "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire "
            f"OpenAPIv3 schema, {ROOT}: Forbidden: x-kubernetes-validations estimated rule cost "
            f"total for entire OpenAPIv3 schema exceeds budget by factor of 1.436583x {REMEDY}]",
            id="four loops",
        ),
        pytest.param(
            {"type": "array", "maxItems": 20, "items": ruled(LIST | {"maxItems": 400}, PAIRS)},
            f"{SPEC}.items.{RULE} of 1.6x {REMEDY}",
            id="as often as there are items",
        ),
        pytest.param(
            {
                "type": "object",
                "maxProperties": 20,
                "additionalProperties": ruled(LIST | {"maxItems": 400}, PAIRS),
            },
            f"{SPEC}.additionalProperties.{RULE} of 1.6x {REMEDY}",
            id="as often as there are properties",
        ),
        pytest.param(
            ruled(STRING, "self.matches(self)"),
            f"[{SPEC}.{RULE} of more than 100x",
            id="unbounded",
        ),
        pytest.param(
            ruled(STRING | {"maxLength": 100}, "self.matches(self)"), "", id="bounded by length"
        ),
        pytest.param(
            ruled(STRING | {"enum": ["a", "bb"]}, "self.matches(self)"), "", id="bounded by enum"
        ),
        pytest.param(
            ruled(STRING, "true", messageExpression="self.replace('', self).replace('', self)"),
            f"[{SPEC}.x-kubernetes-validations[0].messageExpression: Forbidden: estimated "
            "messageExpression cost exceeds budget by factor of more than 100x",
            id="message",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    f"p{at:02}": ruled(LIST | {"maxItems": 1000}, PAIRS) for at in range(30)
                },
            },
            f"[{SPEC}.properties[p00].x-kubernetes-validations[0].rule: Forbidden: contributed to "
            "estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema, "
            f"{SPEC}.properties[p01]",
            id="all together",
        ),
    ],
)
def test_what_rules_may_cost(schema: dict[str, Any], text: str) -> None:
    found = check(crd(schema))
    assert found.startswith(text) if text else found == ""


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param(
            ruled(STRING, "self.matches('(?=a)')"),
            "rule: Invalid value: \"self.matches('(?=a)')\": compilation failed: ERROR: "
            "<input>:1:14: invalid matches argument",
            id="pattern",
        ),
        pytest.param(
            ruled(STRING, "int('x') == 1"),
            "rule: Invalid value: \"int('x') == 1\": program instantiation failed: type "
            "conversion error from 'string' to 'int'",
            id="constant",
        ),
        pytest.param(
            ruled(STRING, "true &&\ntrue"),
            "message: Required value: message must be specified if rule contains line breaks",
            id="lines",
        ),
        pytest.param(
            ruled(STRING, "true", message="a\nb"),
            'message: Invalid value: "a\\nb": must not contain line breaks',
            id="lines of a message",
        ),
        pytest.param(
            ruled(STRING, "true", message=" "),
            'message: Invalid value: " ": must be non-empty if specified',
            id="blank message",
        ),
        pytest.param(
            ruled(STRING, "true", messageExpression=" "),
            "messageExpression: Required value: messageExpression must be non-empty if specified",
            id="blank expression",
        ),
        pytest.param(
            ruled(STRING, "true", messageExpression="1"),
            'messageExpression: Invalid value: "1": messageExpression must evaluate to a string',
            id="number for a message",
        ),
        pytest.param(
            ruled(STRING, "true", fieldPath=".a"),
            'fieldPath: Invalid value: ".a": must be a valid path',
            id="path",
        ),
        pytest.param(
            ruled(STRING, "true", optionalOldSelf=True),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            id="no need for the past",
        ),
    ],
)
def test_rules_that_are_wrong(schema: dict[str, Any], text: str) -> None:
    found = check(crd(schema))
    assert found.startswith(f"{SPEC}.x-kubernetes-validations[0].{text}")


def test_rules_need_a_type() -> None:
    schema = {"x-kubernetes-preserve-unknown-fields": True}
    assert check(crd(ruled(schema, "true"))) == (
        f"{SPEC}.x-kubernetes-validations: Internal error: internal error: failed to construct "
        "type information for x-kubernetes-validations rules: unable to convert structural "
        "schema to CEL declarations"
    )


def test_defaults_keep_the_rules() -> None:
    schema = ruled(STRING, "self == 'a'") | {"default": "b"}
    found = check(crd({"type": "object", "properties": {"a": schema}}))
    assert found == (
        f"{SPEC}.properties[a].default: Invalid value: \"b\": failed rule: self == 'a'"
    )


def test_patterns_inside_alternatives_are_checked() -> None:
    found = check(crd(STRING | {"anyOf": [{"pattern": "("}]}))
    assert found.startswith(f'{SPEC}.anyOf[0].pattern: Invalid value: "(": must be a valid')


def test_a_definition_full_of_large_patterns_is_not_read_to_its_end() -> None:
    fields = {
        f"p{at}": STRING | {"pattern": rf"^[\p{{L}}\p{{N}}{at}]{{1,253}}$"} for at in range(200)
    }
    assert "takes too long" in check(crd({"type": "object", "properties": fields}))
