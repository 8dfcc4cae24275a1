"""Evaluation of parsed JSONPath templates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fairlead.api.golang.text import go_json, go_text, go_type
from fairlead.api.golang.values import to_bytes
from fairlead.api.jsonpath.nodes import (
    Budget,
    Constant,
    Exhausted,
    FieldStep,
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
from fairlead.api.jsonpath.parse import parse


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_NESTING = 50
"""Largest number of nested ranges: each takes a few frames of Python's stack."""
_TEXT = 1024 * 1024
"""Longest output of a template, in characters."""
_VALUES = 200_000
"""Largest number of values that a template visits: ``..*..*`` multiplies them."""
_SHORT = 100
"""Largest number of steps of a path, and of items of a list, in an evaluation without a search.

A path of 100 filters over lists of 100 items looks at 123,000 values, fewer than ``_VALUES``.
"""
_OF_A_STEP = 3
"""Number of values that one step adds to the budget: input, output and the step itself."""
_OF_A_FILTERED = 4 * _OF_A_STEP
"""Number of values that a filter adds to the budget for one item: two paths of one step."""


class JSONPath:
    """A parsed template.

    Raises:
        JSONPathError: the template is invalid.
    """

    def __init__(self, template: str, *, allow_missing: bool = False) -> None:
        self.template = template
        self._nodes = parse(template)
        self._straight = _straight(self._nodes)
        self._allow_missing = allow_missing

    def find(self, value: Any, budget: Budget | None = None) -> list[list[Any]]:
        """Return the results of each text and action of the template, in their order.

        Args:
            value: the input.
            budget: a budget shared with other templates, beside its own.

        Raises:
            JSONPathError: a field is missing, or a step does not fit its input.
        """
        # Most columns and most definitions of bindings are fields, some with one condition picked
        # by its type, and what they name is there.
        if self._straight and (follow := _along(self._straight, value)) is not None:
            nodes, looked = follow
            if budget is not None:
                budget.spend(looked)
            return [[nodes]]
        search = _Search(self._nodes, allow_missing=self._allow_missing, budget=budget)
        return search.run(0, value)


class _Equals(msgspec.Struct, frozen=True):
    """A filter that compares one field with a quoted text."""

    field: str
    text: str


def _straight(nodes: Sequence[Node]) -> tuple[str | _Equals, ...]:
    """Return the fields and filters of a template that is one short path; () for any other."""
    path = nodes[0] if len(nodes) == 1 else None
    steps = path.steps if isinstance(path, Path) and len(path.steps) <= _SHORT else ()
    straight: list[str | _Equals] = []
    for step in steps:
        match step:
            case FieldStep(name=name) if name:
                straight.append(name)
            case Filter(
                left=Path(steps=(FieldStep(name=name),)),
                operator="==",
                right=Path(steps=(Text(text=text),)),
            ) if name:
                straight.append(_Equals(name, text))
            case _:
                return ()
    return tuple(straight)


def _along(steps: tuple[str | _Equals, ...], value: Any) -> tuple[Any, int] | None:
    """Return the value at the end of a path, and the number of values that the path looked at.

    Return None for a missing value, several values, or a long list: the caller evaluates the
    template with :class:`_Search` then.
    """
    # The same numbers as _Search spends, so that a shared budget ends at the same template.
    looked = _OF_A_STEP
    for step in steps:
        looked += _OF_A_STEP
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return None
            value = value[step]
        else:
            if not isinstance(value, list) or len(value) > _SHORT:
                return None
            looked += _OF_A_FILTERED * len(value)
            values = []
            for item in value:
                if not isinstance(item, dict) or not isinstance(item.get(step.field), str):
                    return None
                if item[step.field] == step.text:
                    values.append(item)
            if len(values) != 1:
                return None
            value = values[0]
    return value, looked


class _Search:
    """Applies nodes to values; the words ``range`` and ``end`` delimit ranges.

    A range without ``end`` reaches to the end of the template, and the nodes after it are then
    applied once more, to the outer value; an empty range is applied to null, without a result.
    """

    def __init__(
        self, nodes: Sequence[Node], *, allow_missing: bool, budget: Budget | None
    ) -> None:
        self.nodes = nodes
        self.budget = budget
        self.allow_missing = allow_missing
        self.left = _VALUES
        self.begun = 0
        self.inside = 0
        self.ended = 0
        self.last_end = -1

    # A port of FindResults in client-go's jsonpath.go: its counters of ranges carry over between
    # calls, which makes the quirks above.
    def run(self, position: int, value: Any) -> list[list[Any]]:
        results: list[list[Any]] = []
        while position < len(self.nodes):
            values = self.step(self.nodes[position], [value])
            if 0 < self.ended <= self.inside:
                self.ended -= 1
                self.last_end = position
                break
            if self.begun:
                self.begun -= 1
                results += self.loop(position + 1, values)
                position = max(position, self.last_end)
            else:
                results.append(values)
            position += 1
        return results

    def loop(self, position: int, items: list[Any]) -> list[list[Any]]:
        if self.inside == _NESTING:
            raise Exhausted(f"ranges nest deeper than {_NESTING}")
        self.inside += 1
        results = [row for item in items for row in self.run(position, item)]
        # To find the ``end`` of the range, as client-go does.
        if not items:
            self.run(position, None)
        self.inside -= 1
        return results

    def step(self, node: Node, inputs: list[Any]) -> list[Any]:
        values = self.results(node, inputs)
        self.spend(len(inputs) + len(values) + 1)
        return values

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Exhausted(f"template looks at more than {_VALUES} values")
        if self.budget is not None:
            self.budget.spend(count)

    def results(self, node: Node, inputs: list[Any]) -> list[Any]:
        match node:
            case FieldStep():
                return self.field(node.name, inputs)
            case Path():
                for step in node.steps:
                    inputs = self.step(step, inputs)
                return inputs
            case Text():
                return [node.text]
            case Constant():
                return [node.value] * len(inputs)
            case Identifier():
                return self.word(node.name, inputs)
            case Wildcard():
                return [child for value in inputs for child in _children(value)]
            case Recursive():
                return [found for value in inputs for found in self.descend(value)]
            case Slice():
                return [item for value in inputs for item in _slice(node, value)]
            case Union():
                return [found for path in node.paths for found in self.step(path, inputs)]
            case Filter():
                return [item for value in inputs for item in self.filtered(node, value)]

    def word(self, name: str, inputs: list[Any]) -> list[Any]:
        if name == "range":
            self.begun += 1
            return inputs
        if name != "end":
            raise JSONPathError(f"unrecognized identifier {name}")
        if not self.inside:
            raise JSONPathError("not in range, nothing to end")
        self.ended += 1
        return []

    def field(self, name: str, inputs: list[Any]) -> list[Any]:
        values = [value[name] for value in inputs if isinstance(value, dict) and name in value]
        if inputs and not values and not self.allow_missing:
            raise MissingField(f"{name} is not found")
        return values

    def descend(self, value: Any) -> list[Any]:
        """Return the value and all nonempty containers inside it, outer ones first."""
        values: list[Any] = []
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if children := _children(item):
                self.spend(len(children) + 1)
                values.append(item)
                waiting += [] if isinstance(item, str) else reversed(children)
        return values

    def filtered(self, node: Filter, value: Any) -> list[Any]:
        if not isinstance(value, list):
            text = go_text(value)
            raise JSONPathError(f"{text} is not array or slice and cannot be filtered")
        return [item for item in value if self.holds(node, item)]

    def holds(self, node: Filter, item: Any) -> bool:
        if not node.operator:
            try:
                return bool(self.step(node.left, [item])) or not node.left.steps
            except (MissingField, Exhausted) as error:
                if isinstance(error, Exhausted):
                    raise
                return False
            except JSONPathError:
                # client-go looks at the values alone here, and a failed step other than a field
                # returns its input.
                return True
        left = self.step(node.left, [item])
        right = self.step(node.right, [item])
        if len(left) > 1 or len(right) > 1:
            raise JSONPathError("can only compare one element at a time")
        if not left or not right:
            return False
        return _compare(node.operator, left[0], right[0])


def print_results(results: Sequence[Sequence[Any]]) -> str:
    """Print results as one text: an action's values separated by spaces, containers as JSON.

    Raises:
        JSONPathError: the text is larger than a Secret may be.
    """
    parts: list[str] = []
    left = _TEXT
    for values in results:
        for place, value in enumerate(values):
            parts.append(f"{' ' if place else ''}{_print(value)}")
            left -= len(parts[-1])
            if left < 0:
                raise Exhausted(f"template gives more than {_TEXT} characters")
    return "".join(parts)


def _print(value: Any) -> str:
    return go_json(value) if isinstance(value, dict | list) else go_text(value)


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case str():
            # Go's reflection sees a string as a list of bytes.
            return list(to_bytes(value))
        case _:
            return []


def _slice(node: Slice, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise JSONPathError(f"{go_type(value)} is not array or slice")
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
    # client-go compares with the functions of text/template, which refuse different kinds.
    if type(left) is not type(right):
        raise JSONPathError("incompatible types for comparison")
    if isinstance(left, bool) and name not in {"==", "!="}:
        raise JSONPathError("invalid type for comparison")
    return _COMPARISONS[name](left, right)
