"""Binding definitions, JSONPath and naming against what the original operator did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.binding.golden import cases, collected

from fairlead.api.jsonpath import JSONPath, JSONPathError, print_results
from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead.binding.expressions.gotemplate import JSON as GO_JSON
from fairlead.binding.expressions.gotemplate import Template, TemplateError
from fairlead.binding.handlers.naming import NamingError, naming
from fairlead.binding.services.items import Source


NULL_DOCUMENT = "jsonpath-odd-shapes-536"
"""A null document gives null, where the original has a value that is not valid."""

VALUES_OTHERWISE: dict[str, tuple[str, ...]] = {
    "a null that is asked for is ValueNotFound, not a panic": (
        "values-map-generic-on-052",
        "values-sliceOfMaps-generic-lm-078",
        "values-sliceOfMaps-generic-lmnum-082",
        "values-optional-n-635",
        "values-optional-n-638",
        "values-optional-n-641",
        "values-optional-n-644",
        "values-optional-n-647",
    ),
    "a string of a Secret or ConfigMap is looked up by the name that the path gives": (
        "values-matrix-Secret-string-222",
        "values-matrix-ConfigMap-string-276",
        "values-matrix-ConfigMap-string-278",
        "values-matrix-ConfigMap-string-282",
        "values-ref-Secret-missname-512",
        "values-ref-Secret-empname-514",
        "values-ref-Secret-badname-516",
        "values-ref-Secret-nonstrname-518",
        "values-ref-Secret-nonstrname-519",
        "values-ref-Secret-intname-523",
        "values-ref-Secret-n-524",
        "values-ref-Secret-o-528",
        "values-ref-Secret-o-529",
        "values-ref-Secret-l-531",
        "values-ref-ConfigMap-missname-572",
        "values-ref-ConfigMap-empname-575",
        "values-ref-ConfigMap-badname-576",
        "values-ref-ConfigMap-badname-577",
        "values-ref-ConfigMap-binname-581",
        "values-ref-ConfigMap-intname-582",
        "values-ref-ConfigMap-intname-583",
        "values-ref-ConfigMap-n-584",
        "values-ref-ConfigMap-n-585",
        "values-ref-ConfigMap-o-588",
        "values-ref-ConfigMap-o-589",
        "values-ref-ConfigMap-l-590",
    ),
    "a string of a Secret or ConfigMap has the name that the annotation gives it": (
        "values-matrix-ConfigMap-string-277",
        "values-string-element-multi-node-generic-761",
        "values-string-element-multi-node-generic-763",
        "values-string-element-multi-node-764",
    ),
    "a Secret with an entry that is not base64 is named, with the entry": (
        "values-ref-Secret-badname-497",
        "values-ref-Secret-badname-536",
        "values-ref-Secret-badname-537",
        "values-ref-Secret-nonstrname-499",
        "values-ref-Secret-nonstrname-539",
    ),
    "values of which one was wanted are printed, where Go prints what holds them": (
        "values-grammar-704",
        "values-grammar-708",
    ),
}
"""Definitions that collect otherwise on purpose, by the reason."""

_OTHERWISE = {name for names in VALUES_OTHERWISE.values() for name in names}

NAMING_UNESCAPED = {
    "naming-predefined-default-files-003",
    "naming-predefined-default-env-008",
    "naming-predefined-none-files-013",
    "naming-predefined-none-env-018",
    "naming-predefined-lowercase-files-023",
    "naming-predefined-uppercase-env-038",
    "naming-custom-090",
    "naming-custom-093",
    "naming-escape-title-116",
    "naming-escape-title-136",
    "naming-escape-service-name-137",
    "naming-escape-in-url-139",
    "naming-escape-js-141",
}
"""Names are not escaped as if they were HTML."""

TEMPLATES_OTHERWISE: dict[str, str] = {}
"""Templates that are rendered otherwise on purpose, by id, each with the reason."""


def _id(case: JSON) -> str:
    return str(case["id"])


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("case", cases("values"), ids=_id)
def test_definitions_collect_what_the_original_collected(case: JSON) -> None:
    got, want = collected(case), case["expect"]
    if case["id"] in _OTHERWISE:
        assert _text(got) != _text(want)
    else:
        assert _text(got) == _text(want) or _same_error(got, want)


def _same_error(got: JSON, want: JSON) -> bool:
    """Whether the messages begin alike: some say more than the original's."""
    return got.get("reason") == want.get("reason") and str(got.get("message")).startswith(
        str(want.get("message", "-"))
    )


def _found(case: JSON) -> JSON:
    recorded = case["input"]
    stage = "parse"
    try:
        path = JSONPath(
            recorded["template"], allow_missing=recorded.get("allowMissingKeys", False)
        )
        stage = "eval"
        values = path.find(recorded["data"])
    except JSONPathError as error:
        return {"error": str(error), "stage": stage}
    return {"values": values, "text": print_results(values)}


@pytest.mark.parametrize("case", cases("jsonpath"), ids=_id)
def test_jsonpath_finds_what_the_original_found(case: JSON) -> None:
    got, want = _found(case), dict(case["expect"])
    if case["id"] == NULL_DOCUMENT:
        assert got == {"values": [[None]], "text": "<nil>"}
    elif case.get("unordered") or want.pop("unordered", False):
        rows = [[sorted(map(_text, row)) for row in facts["values"]] for facts in (got, want)]
        assert rows[0] == rows[1]
    else:
        assert _text(got) == _text(want)


@pytest.mark.parametrize("case", cases("selectors"), ids=_id)
def test_selectors_match_what_the_original_matched(case: JSON) -> None:
    recorded = case["input"]
    try:
        selector = LabelSelector.from_dict(recorded["selector"])
        matches = selector.matches(recorded["labels"])
        got: JSON = {"matches": matches, "string": str(selector)}
    except SelectorError as error:
        got = {"error": str(error)}
    assert got == case["expect"]


@pytest.mark.parametrize("case", cases("naming"), ids=_id)
def test_naming_gives_what_the_original_gave(case: JSON) -> None:
    recorded, want = case["input"], case["expect"]
    default = "none" if recorded["bindAsFiles"] else "uppercase"
    try:
        rename = naming(recorded["strategy"] or default)
        got: JSON = {"name": rename(recorded["name"], Source(**recorded["service"]))}
    except NamingError as error:
        got = {"error": str(error)}
    if case["id"] in NAMING_UNESCAPED:
        assert got["name"] != want["name"]
    else:
        assert got == {key: want[key] for key in ("name", "error") if key in want}


@pytest.mark.parametrize("case", cases("gotemplate"), ids=_id)
def test_templates_render_what_the_original_rendered(case: JSON) -> None:
    recorded = case["input"]
    data = {**recorded.get("services", {}), **recorded["items"]}
    try:
        template = Template(recorded["template"], name="mappings", functions={"json": GO_JSON})
        got: JSON = {"text": template.render(data)}
    except TemplateError as error:
        got = {"error": str(error)}
    assert (got == case["expect"]) is (case["id"] not in TEMPLATES_OTHERWISE)
