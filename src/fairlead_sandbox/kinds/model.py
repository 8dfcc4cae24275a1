"""The table of built-in kinds, read from ``types.txt`` once per process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from fairlead.api.meta import JSON


Shape = Literal["one", "list", "map"]

INLINE = "."
"""Name of a field whose own fields are inlined into its parent in JSON."""
OPTIONS = ("meta", "DeleteOptions")
"""apiVersion and kind under which the table has DeleteOptions, for any group."""


SCALARS = frozenset(
    {
        "string",
        "bool",
        "int32",
        "int64",
        "float64",
        "bytes",
        "time",
        "microtime",
        "quantity",
        "intstr",
        "raw",
        "items",
        "schemaOrArray",
        "schemaOrBool",
        "schemaOrStrings",
    }
)
"""Names of the types that are no messages."""


class IncompleteModelError(ValueError):
    """A kind or a type is used that ``types.txt`` does not define."""


class FieldType(NamedTuple):
    """The type of a field: one value, a list, or a map from text, of scalars or messages."""

    name: str
    """One of :data:`SCALARS`, or a message's name."""
    shape: Shape = "one"


class Field(NamedTuple):
    """One field of a message."""

    name: str
    number: int
    type: FieldType
    required: bool
    always: bool
    """Whether the field is written even if its value is empty."""


class Message(NamedTuple):
    """One type; its fields by protobuf number and by JSON name."""

    name: str
    numbers: Mapping[int, Field]
    fields: Mapping[str, Field]


class Model(NamedTuple):
    """All built-in kinds and the protobuf messages that define their fields."""

    kinds: Mapping[tuple[str, str], str]
    """Name of the protobuf message of each built-in kind, by apiVersion and kind."""
    messages: Mapping[str, Message]

    def kind(self, api_version: str, kind: str) -> Message | None:
        """Return the message of a kind, None for a kind that is not in the table."""
        name = self.kinds.get((api_version, kind))
        return None if name is None else self.messages[name]


@cache
def load() -> Model:
    """Read the table of built-in kinds.

    Raises:
        IncompleteModelError: the table names a type that it does not define.
    """
    text = files(__package__).joinpath("types.txt").read_text()
    kinds: dict[tuple[str, str], str] = {}
    own: dict[str, list[Field]] = {}
    name = ""
    for line in text.splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if line.startswith(" "):
            own[name] += map(_field, words)
        elif len(words) == 3:
            kinds[words[0], words[1]] = words[2]
        else:
            name = line
            own[name] = []
    _check(kinds, own)
    return Model(kinds, {name: _message(name, own) for name in own})


def _check(kinds: Mapping[tuple[str, str], str], own: Mapping[str, list[Field]]) -> None:
    """Raise if a name is not defined; it would fail the first request that needs it."""
    named = {name: " ".join(kind) for kind, name in kinds.items()}
    named |= {
        field.type.name: f"{message}.{field.name}"
        for message, fields in own.items()
        for field in fields
    }
    missing = sorted(named.keys() - own.keys() - SCALARS)
    if missing:
        shown = ", ".join(f"{name} (of {named[name]})" for name in missing)
        raise IncompleteModelError(f"fairlead_sandbox/kinds/types.txt does not have {shown}")


def empty(message: Message) -> JSON:
    """Return an empty object as a Go client sends it, with all structs that are no pointers."""
    messages = load().messages
    result: JSON = {}
    for field in message.fields.values():
        # A field that is sent even when it is empty is a pointer in Go. A Go client leaves it out
        # until it is set.
        by_value = field.required or not field.always
        if field.type.name in messages and field.type.shape == "one" and by_value:
            result[field.name] = empty(messages[field.type.name])
        elif field.required or (by_value and field.type.name == "time"):
            result[field.name] = None
    return result


def _field(word: str) -> Field:
    # A word of types.txt is name:number:type; ! marks a required field, ? one that is written even
    # if it is empty.
    name, number, type_ = word.split(":")
    return Field(name, int(number), _type(type_.rstrip("!?")), word[-1] == "!", word[-1] in "!?")


def _type(text: str) -> FieldType:
    if text.startswith("[]"):
        return FieldType(text[2:], "list")
    return FieldType(text[2:], "map") if text.startswith("{}") else FieldType(text)


def _message(name: str, own: Mapping[str, list[Field]]) -> Message:
    numbers = {field.number: field for field in own[name]}
    return Message(name, numbers, {field.name: field for field in _flat(name, own)})


def _flat(name: str, own: Mapping[str, list[Field]]) -> Iterator[Field]:
    for field in own[name]:
        if field.name == INLINE:
            yield from _flat(field.type.name, own)
        else:
            yield field
