"""Texts that no decoder goes down, cut at their outermost levels."""

from __future__ import annotations

import json

import msgspec
import pytest

from fairlead.api.meta import JSON, Object, ObjectMeta, decode_item, decode_object
from fairlead.api.nesting import NestedTooDeeply, member, members, without


DEEP = b'{"f:a":' * 20_000 + b"{}" + b"}" * 20_000


def obj(**parts: bytes) -> bytes:
    fields = {"apiVersion": b'"v1"', "kind": b'"Widget"', **parts}
    return b"{%s}" % b", ".join(b'"%s": %s' % (name.encode(), fields[name]) for name in fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[]", [], id="no value"),
        pytest.param(" { } ", [], id="no member"),
        pytest.param("[1, [2, 3] ,{}]", ["1", "[2, 3]", "{}"], id="a list"),
        pytest.param('{"a": 1, "b": {"c": [2]}}', ['"a"=1', '"b"={"c": [2]}'], id="an object"),
        pytest.param(
            r'{"}": "]\\\"}", "[": "\\"}', ['"}"="]' + r'\\\"}"', r'"["="\\"'], id="in texts"
        ),
        pytest.param('{"a":"é,:","b":null}', ['"a"="é,:"', '"b"=null'], id="separators in texts"),
    ],
)
def test_members_are_found_without_descending(text: str, expected: list[str]) -> None:
    found = [
        (one.name + b"=" if one.name else b"") + one.of(text.encode()).strip()
        for one in members(text.encode())
    ]
    assert [one.decode() for one in found] == expected


def test_the_texts_of_members_are_those_that_a_decoder_finds() -> None:
    value: JSON = {"a": [1, {"b": '"\\'}], "c": {"d": {}}, "é": [[], [[]]], "": None}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        data = text.encode()
        assert {json.loads(one.name): json.loads(one.of(data)) for one in members(data)} == value


def test_a_value_is_taken_out_where_it_stands() -> None:
    text = b'{"a": {"b": [1], "c": 2}, "b": 3}'
    assert json.loads(without(text, b"a", b"b")) == {"a": {"b": [], "c": 2}, "b": 3}
    assert without(text, b"a", b"x") == text
    assert member(text, b"b").strip() == b"3"
    assert member(text, b"x") == b""


@pytest.mark.parametrize("item", [True, False])
def test_managed_fields_of_any_depth_keep_no_object_from_being_read(item: bool) -> None:
    managed = b'[{"manager": "x", "fieldsV1": %s}]' % DEEP
    raw = obj(metadata=b'{"managedFields": %s, "name": "a", "labels": {"b": "c"}}' % managed)
    found = decode_item(raw, "v1", "Widget") if item else decode_object(raw)
    assert (found.api_version, found.kind, found.meta.name) == ("v1", "Widget", "a")
    assert found.to_dict()["metadata"]["labels"] == {"b": "c"}


@pytest.mark.parametrize("item", [True, False])
def test_of_a_body_of_any_depth_the_metadata_is_read(item: bool) -> None:
    raw = obj(spec=DEEP, metadata=b'{"name": "a", "uid": "u"}')
    found = decode_item(raw, "v1", "Widget") if item else decode_object(raw)
    assert found == Object("v1", "Widget", ObjectMeta(name="a", uid="u"), raw)
    with pytest.raises(NestedTooDeeply, match="nested too deeply to be read"):
        found.to_dict()
    with pytest.raises(msgspec.ValidationError, match="nested too deeply to be read"):
        found.decode(dict)
