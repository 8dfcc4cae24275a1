"""The parser of JSONPath templates."""

from __future__ import annotations

import re

from fairlead.api.golang.literals import LiteralError, unquote
from fairlead.api.jsonpath.nodes import (
    Constant,
    FieldStep,
    Filter,
    Identifier,
    JSONPathError,
    Node,
    Path,
    Recursive,
    Slice,
    Text,
    Union,
    Wildcard,
)


_TERMINATORS = set(".,[]$@{} \t\r\n")
_NAME = re.compile(r"(?:\\.|[^\\.,\[\]$@{} \t\r\n])*+\\?", re.DOTALL)
# The parser follows client-go, util/jsonpath/parser.go, with its quirks: templates that kubectl
# takes must give the same result here.
_FILTER = re.compile(r"^([^!<>=]+)([!<>=]+)(.+?)$", re.DOTALL)
_QUOTED = {
    '"': re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"'),
    "'": re.compile(r"'(?:[^'\\\n]|\\[^\n])*+'"),
}
_KEY = re.compile(r"^'([^']*)'$")
_SLICE = re.compile(r"^(-?\d*)(?::(-?\d*))?(?::(-?\d*))?$")
# client-go reads an index with strconv.Atoi, which takes 64 bits.
_MOST = 2**63
_LENGTH = 64 * 1024
"""Longest template, in characters."""


def parse(template: str) -> tuple[Node, ...]:
    """Parse a template to texts and paths, in order.

    Raises:
        JSONPathError: an action is not closed or invalid.
    """
    if len(template) > _LENGTH:
        raise JSONPathError(f"template has more than {_LENGTH} characters")
    nodes: list[Node] = []
    position = 0
    while position < len(template):
        start = template.find("{", position)
        if start < 0:
            start = len(template)
        if start > position:
            nodes.append(Text(template[position:start]))
        if start < len(template):
            action = _Action(template, start + 1)
            nodes.append(action.read())
            start = action.position
        position = start
    return tuple(nodes)


class _Action:
    """Parses an action, from after its ``{`` to after its ``}``."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.steps: list[Node] = []

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def read(self) -> Path:
        while True:
            character = self.peek()
            if character in {"", "\n", "\r"}:
                raise JSONPathError("unclosed action")
            if character == "}":
                self.position += 1
                return Path(tuple(self.steps))
            self.read_step(character)

    def read_step(self, character: str) -> None:
        # Both signs mean the value that the path begins with anyway.
        if character in {" ", "\t", "@", "$"}:
            self.position += 1
        elif character == ".":
            self.read_dot()
        elif character == "[":
            self.position += 1
            self.read_brackets()
        elif character in {"'", '"'}:
            self.steps.append(Text(self.read_quoted(character)))
        elif character in "+-" or character.isdigit():
            self.steps.append(self.read_number())
        elif character.isalnum() or character == "_":
            self.steps.append(self.read_identifier())
        else:
            code = f"U+{ord(character):04X} '{character}'"
            raise JSONPathError(f"unrecognized character in action: {code}")

    def read_dot(self) -> None:
        self.position += 1
        following = self.peek()
        if following == ".":
            self.position += 1
            if self.steps and isinstance(self.steps[-1], Recursive):
                raise JSONPathError("invalid multiple recursive descent")
            self.steps.append(Recursive())
            if self.peek().isalnum():
                self.steps.append(FieldStep(self.read_name()))
        else:
            name = self.read_name()
            self.steps.append(Wildcard() if name == "*" else FieldStep(name))

    def read_name(self) -> str:
        name = _NAME.match(self.text, self.position).group()  # type: ignore[union-attr]
        self.position += len(name)
        return name.replace("\\", "")

    def read_identifier(self) -> Node:
        start = self.position
        while (character := self.peek()) and character not in _TERMINATORS:
            self.position += 1
        name = self.text[start : self.position]
        if name in {"true", "false"}:
            return Constant(value=name == "true")
        return Identifier(name)

    def read_number(self) -> Constant:
        start = self.position
        if self.peek() in "+-":
            self.position += 1
        while self.peek() == "." or self.peek().isdigit():
            self.position += 1
        text = self.text[start : self.position]
        try:
            return Constant(int(text) if "." not in text else float(text))
        except ValueError:
            raise JSONPathError(f"cannot parse number {text}") from None

    def read_quoted(self, quote: str) -> str:
        match = _QUOTED[quote].match(self.text, self.position)
        if not match:
            raise JSONPathError("unterminated quoted string")
        self.position = match.end()
        try:
            return unquote(match[0])
        except LiteralError as error:
            raise JSONPathError(f"unquote string {match[0]} error {error}") from None

    def read_brackets(self) -> None:
        if self.text.startswith("?(", self.position):
            self.position += 2
            self.steps.append(self.read_filter())
            return
        end = self.text.find("]", self.position)
        inside = self.text[self.position : end]
        if end < 0 or "\n" in inside:
            raise JSONPathError("unterminated array")
        self.position = end + 1
        self.steps.append(_brackets(inside))

    def read_filter(self) -> Filter:
        start = position = self.position
        quote, closed = "", False
        while (character := self.text[position : position + 1]) != ")" or bool(quote) != closed:
            if character in {"", "\n"}:
                raise JSONPathError("unterminated filter")
            if character in {"'", '"'}:
                # As in Kubernetes, only the first pair of quotes hides a parenthesis.
                closed = closed or (character == quote and self.text[position - 1] != "\\")
                quote = quote or character
            position += 1
        if self.text[position + 1 : position + 2] != "]":
            raise JSONPathError("unclosed array expect ]")
        self.position = position + 2
        return _filter(self.text[start:position])


def _filter(text: str) -> Filter:
    match = _FILTER.match(text)
    if not match:
        return Filter(_inner(text))
    left, operator, right = match.groups()
    return Filter(_inner(left), operator, _inner(right))


def _inner(text: str) -> Path:
    """Parse the path in a filter; only quotes hide parentheses, so that filters hardly nest."""
    first = parse(f"{{{text}}}")[0]
    return first if isinstance(first, Path) else Path(())


def _brackets(text: str) -> Node:
    if "," in text:
        return Union(tuple(Path((_brackets(part.strip()),)) for part in text.split(",")))
    if text == "*":
        return Slice(None, None, None)
    if key := _KEY.match(text):
        # As in client-go ['a.b'] is the path .a.b: a dot in a name needs a backslash here too.
        return _Action(f".{key[1]}}}", 0).read()
    match = _SLICE.match(text)
    if not match:
        raise JSONPathError(f"invalid array index {text}")
    parts = [_number(part) for part in match.groups()]
    if ":" not in text:
        # [] is [0] in client-go.
        return Slice(parts[0] or 0, None, None, index=True)
    return Slice(parts[0], parts[1], parts[2])


def _number(text: str | None) -> int | None:
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise JSONPathError(f"array index {text} is not a number") from None
    if not -_MOST <= value < _MOST:
        raise JSONPathError(f"array index {text} is not a number")
    return value
