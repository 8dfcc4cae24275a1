"""Messages about values that a type does not take, with the field first, in plain English."""

from __future__ import annotations

import re
from typing import Final

import msgspec


_NOUNS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "bytes": "a string in base64",
    "null": "null",
}
_UNITS: Final = {"str": "characters", "array": "items", "object": "entries"}
_PATH = re.compile(r"^(?P<text>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.+)`")
_TYPE = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<actual>[^`]+)`")
_LENGTH = re.compile(r"Expected `(?P<type>\w+)` of length (?P<sign>[<>=]+) (?P<length>\d+)")
_RANGE = re.compile(r"Expected `\w+` (?P<sign>[<>]=?) (?P<bound>\S+)")
_PATTERN = re.compile(r"Expected `str` matching regex (?P<pattern>.+)")
_VALUE = re.compile(r"Invalid enum value (?P<value>.+)")


def field_message(error: msgspec.MsgspecError, root: str = "") -> str:
    """Return "FIELD: what is wrong with its value" for an error of the decoder.

    Args:
        error: the decoder's error; the texts are those of msgspec 0.18 to 0.20, and others pass
            unchanged after their field.
        root: path of the decoded value in its object, such as ``spec``; "" for a whole object.
    """
    match = _PATH.match(str(error))
    text, path = (match["text"], match["path"] or "") if match else (str(error), "")
    field = f"{root}{path.replace('[...]', '[*]')}".lstrip(".")
    if not isinstance(error, msgspec.ValidationError):
        # A text that is no JSON has no fields.
        message = "it is empty or incomplete" if text == "Input data was truncated" else text
        return f"{field}: {message}" if field else message
    for pattern, remark in ((_MISSING, "it is required"), (_UNKNOWN, "there is no such field")):
        if member := pattern.fullmatch(text):
            return f"{f'{field}.' if field else ''}{member['field']}: {remark}"
    return f"{field or 'object'}: {_message(text)}"


def _message(text: str) -> str:
    if match := _TYPE.fullmatch(text):
        # Whether a field may be null too is no help to someone who gave it a value.
        names = match["expected"].removesuffix(" | null").split(" | ")
        expected = [_noun(name) for name in names]
        return f"it must be {' or '.join(expected)}, not {_noun(match['actual'])}"
    if match := _LENGTH.fullmatch(text):
        unit, length = _UNITS.get(match["type"], "items"), match["length"]
        unit = {"entries": "entry"}.get(unit, unit[:-1]) if length == "1" else unit
        bound = {"<=": "at most", ">=": "at least"}.get(match["sign"], "exactly")
        return f"it must have {bound} {length} {unit}"
    if match := _RANGE.fullmatch(text):
        signs = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
        return f"it must be {signs[match['sign']]} {match['bound']}"
    if match := _PATTERN.fullmatch(text):
        return f"it must match {match['pattern']}"
    if match := _VALUE.fullmatch(text):
        return f"{match['value']} is not an allowed value"
    return f"{text[:1].lower()}{text[1:]}"


def _noun(name: str) -> str:
    return _NOUNS.get(name, name)
