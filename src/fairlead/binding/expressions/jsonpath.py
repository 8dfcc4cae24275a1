"""Applies a parsed template to a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from fairlead.binding.expressions.gotext import go_json, go_text
from fairlead.binding.expressions.nodes import (
    Constant,
    Field,
    Filter,
    Identifier,
    JSONPathError,
    MissingField,
    Node,
    Path,
    Recursive,
    Slice,
    Text,
    Union,
    Wildcard,
)
from fairlead.binding.expressions.parse import parse


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string", dict: "map"}


class JSONPath:
    """One template, parsed once.

    Raises:
        JSONPathError: the template cannot be read.
    """

    def __init__(self, template: str, *, allow_missing: bool = False) -> None:
        self.template = template
        self._nodes = parse(template)
        self._allow_missing = allow_missing

    def find(self, value: Any) -> list[list[Any]]:
        """What each text and action of the template gives, in their order.

        Raises:
            JSONPathError: a field is nowhere, or a step does not fit its input.
        """
        results, _ = self._run(self._nodes, value)
        return results

    def _run(
        self, nodes: Sequence[Node], value: Any, *, in_range: bool = False
    ) -> tuple[list[list[Any]], int]:
        """The results, and at which node an ``end`` stopped it."""
        results: list[list[Any]] = []
        position = 0
        while position < len(nodes):
            node = nodes[position]
            position += 1
            word = _keyword(node)
            if word == "end":
                if not in_range:
                    raise JSONPathError("not in range, nothing to end")
                return results, position
            if word == "range" and isinstance(node, Path):
                looped, consumed = self._loop(node, nodes[position:], value)
                results += looped
                position += consumed
            else:
                results.append(self._step(node, [value]))
        if in_range:
            return results, len(nodes)
        return results, position

    def _loop(self, head: Path, body: Sequence[Node], value: Any) -> tuple[list[list[Any]], int]:
        items = self._step(Path(head.steps[1:]), [value])
        results: list[list[Any]] = []
        consumed = _body_length(body)
        for item in items:
            found, consumed = self._run(body, item, in_range=True)
            results += found
        return results, consumed

    def _step(self, node: Node, inputs: list[Any]) -> list[Any]:
        match node:
            case Path():
                for step in node.steps:
                    inputs = self._step(step, inputs)
                return inputs
            case Text():
                return [node.text]
            case Constant():
                return [node.value]
            case Identifier():
                raise JSONPathError(f"unrecognized identifier {node.name}")
            case Field():
                return self._field(node.name, inputs)
            case Wildcard():
                return [child for value in inputs for child in _children(value)]
            case Recursive():
                return [found for value in inputs for found in _descend(value)]
            case Slice():
                return [item for value in inputs for item in _slice(node, value)]
            case Union():
                return [found for path in node.paths for found in self._step(path, inputs)]
            case Filter():
                return [item for value in inputs for item in self._filter(node, value)]

    def _field(self, name: str, inputs: list[Any]) -> list[Any]:
        found = [value[name] for value in inputs if isinstance(value, dict) and name in value]
        if inputs and not found and not self._allow_missing:
            raise MissingField(f"{name} is not found")
        return found

    def _filter(self, node: Filter, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            text = go_text(value)
            raise JSONPathError(f"{text} is not array or slice and cannot be filtered")
        return [item for item in value if self._holds(node, item)]

    def _holds(self, node: Filter, item: Any) -> bool:
        if not node.operator:
            try:
                return bool(self._step(node.left, [item])) or not node.left.steps
            except MissingField:
                return False
            except JSONPathError:
                return True
        left = self._step(node.left, [item])
        right = self._step(node.right, [item])
        if len(left) > 1 or len(right) > 1:
            raise JSONPathError("can only compare one element at a time")
        if not left or not right:
            return False
        return _compare(node.operator, left[0], right[0])


def print_results(results: Sequence[Sequence[Any]]) -> str:
    """All results as one text: values of one action with spaces between, containers as JSON."""
    return "".join(" ".join(_print(value) for value in values) for values in results)


def _print(value: Any) -> str:
    return go_json(value) if isinstance(value, dict | list) else go_text(value)


def _keyword(node: Node) -> str:
    if isinstance(node, Path) and node.steps and isinstance(node.steps[0], Identifier):
        return node.steps[0].name
    return ""


def _body_length(body: Sequence[Node]) -> int:
    """How many nodes belong to a range that is not run even once, its ``end`` included."""
    depth = 1
    for position, node in enumerate(body):
        word = _keyword(node)
        depth += (word == "range") - (word == "end")
        if depth == 0:
            return position + 1
    return len(body)


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case str():
            return list(value.encode())
        case _:
            return []


def _descend(value: Any) -> list[Any]:
    children = _children(value)
    if not children:
        return []
    below = [] if isinstance(value, str) else children
    return [value, *(found for child in below for found in _descend(child))]


def _slice(node: Slice, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise JSONPathError(f"{_KINDS.get(type(value), 'value')} is not array or slice")
    length = len(value)
    start = node.start or 0
    start += length if start < 0 else 0
    if node.index:
        stop = start + 1
    else:
        stop = length if node.stop is None else node.stop
        stop += length if stop < 0 else 0
    if start == stop:
        return []
    if 0 <= start < length and start > stop:
        raise JSONPathError(f"starting index {start} is greater than ending index {stop}")
    for place in (start, stop - 1):
        if not 0 <= place < length:
            raise JSONPathError(f"array index out of bounds: index {place}, length {length}")
    step = 1 if node.step is None else node.step
    if step <= 0:
        raise JSONPathError("step must be > 0")
    return value[start:stop:step]


def _compare(name: str, left: Any, right: Any) -> bool:
    if name not in _COMPARISONS:
        raise JSONPathError(f"unrecognized filter operator {name}")
    scalars = (bool, int, float, str)
    if not isinstance(left, scalars) or not isinstance(right, scalars):
        raise JSONPathError("invalid type for comparison")
    if type(left) is not type(right):
        raise JSONPathError("incompatible types for comparison")
    if isinstance(left, bool) and name not in {"==", "!="}:
        raise JSONPathError("invalid type for comparison")
    return _COMPARISONS[name](left, right)
