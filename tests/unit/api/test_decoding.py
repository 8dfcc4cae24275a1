"""Messages of values that a type does not take."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest

from fairlead.api.decoding import field_message


class Spec(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    grants: Annotated[list[str], msgspec.Meta(min_length=1, max_length=64)] = msgspec.field(
        default_factory=lambda: ["a"]
    )
    label: Annotated[str, msgspec.Meta(min_length=1, pattern="^a")] = "a"
    mode: Literal["Observe", "Enforce"] = "Enforce"
    value: str | int | None = None
    is_open: bool = False
    keys: dict[str, Annotated[str, msgspec.Meta(min_length=2)]] = msgspec.field(
        default_factory=dict
    )


class Body(msgspec.Struct):
    spec: Spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is empty or incomplete", id="empty"),
        pytest.param("{}", "spec: it is required", id="no-spec"),
        pytest.param("[]", "object: it must be an object, not a list", id="list"),
        pytest.param('{"spec":1}', "spec: it must be an object, not an integer", id="no-object"),
        pytest.param('{"spec":{}}', "spec.name: it is required", id="missing"),
        pytest.param('{"spec":{"nam":"a"}}', "spec.nam: there is no such field", id="unknown"),
        pytest.param('"name":null', "spec.name: it must be a string, not null", id="null"),
        pytest.param('"port":0', "spec.port: it must be at least 1", id="least"),
        pytest.param('"port":99999', "spec.port: it must be at most 65535", id="most"),
        pytest.param('"share":0', "spec.share: it must be more than 0.0", id="above"),
        pytest.param('"share":1', "spec.share: it must be less than 1.0", id="below"),
        pytest.param('"grants":[]', "spec.grants: it must have at least 1 item", id="none"),
        pytest.param(
            f'"grants":{["a"] * 65}'.replace("'", '"'),
            "spec.grants: it must have at most 64 items",
            id="too-many",
        ),
        pytest.param(
            '"grants":["a",{}]', "spec.grants[1]: it must be a string, not an object", id="item"
        ),
        pytest.param('"label":""', "spec.label: it must have at least 1 character", id="no-text"),
        pytest.param('"label":"b"', "spec.label: it must match '^a'", id="pattern"),
        pytest.param('"mode":"No"', "spec.mode: 'No' is not an allowed value", id="choice"),
        pytest.param(
            '"value":[]',
            "spec.value: it must be an integer or a string, not a list",
            id="union",
        ),
        pytest.param(
            '"is_open":"x"', "spec.is_open: it must be true or false, not a string", id="bool"
        ),
        pytest.param(
            '"keys":{"a.b":"a"}', "spec.keys[*]: it must have at least 2 characters", id="entry"
        ),
    ],
)
def test_a_message_begins_with_its_field(text: str, message: str) -> None:
    whole = f'{{"spec":{{"name":"a",{text}}}}}' if text.startswith('"') else text
    if text == '"name":null':
        whole = '{"spec":{"name":null}}'
    with pytest.raises(msgspec.MsgspecError) as info:
        msgspec.json.decode(whole, type=Body)
    assert field_message(info.value) == message


def test_a_part_of_an_object_has_the_path_of_the_part() -> None:
    with pytest.raises(msgspec.ValidationError) as info:
        msgspec.convert({"port": 1}, Spec)
    assert field_message(info.value, "spec") == "spec.name: it is required"
    with pytest.raises(msgspec.ValidationError) as info:
        msgspec.convert({"name": "a", "port": "x"}, Spec)
    assert field_message(info.value, "spec") == "spec.port: it must be an integer, not a string"
