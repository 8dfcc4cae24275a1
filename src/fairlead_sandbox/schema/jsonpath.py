r"""The subset of Kubernetes' JSONPath that printer columns use.

Steps: ``.name`` (dots in names escaped as ``\.``), ``['a.b']``, ``[0]``, ``[-1]``, ``[1:3]``,
``[*]``, ``.*`` and filters ``[?(@.type=="Ready")]`` that compare (``==``, ``!=``, ``<``, ``<=``,
``>``, ``>=``) or ask for existence. What is not there yields nothing, never an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from fairlead.api.meta import JSON


Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"\.(?P<name>(?:[^.\[\]\\\s]|\\.)+)"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
    r"|\[(?P<index>-?\d+)\]"
    r"|\[(?P<slice>-?\d*:-?\d*)\]"
    r"|(?P<all>\[\*\])"
    r"|\[\?\((?P<filter>.+?)\)\]"
)
_FILTER = re.compile(r"@(?P<path>[^=!<>\s]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+))?")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_path(path: str) -> Callable[[JSON], list[Any]]:
    """A function that finds what a path names; the path may stand in braces.

    Raises:
        ValueError: the path is not of the subset; the message says from where.
    """
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    steps = _steps(text.removeprefix("$"))

    def find(obj: JSON) -> list[Any]:
        found: list[Any] = [obj]
        for step in steps:
            found = [result for value in found for result in step(value)]
        return found

    return find


def _steps(text: str) -> list[Step]:
    steps, position = [], 0
    while position < len(text) and text != ".":
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unrecognized JSONPath at {text[position:]!r} of {text!r}")
        steps.append(_step(match))
        position = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    name = match["name"]
    if match["all"] or name == "*":
        return _children
    if name is not None:
        return _member(re.sub(r"\\(.)", r"\1", name))
    if match["quoted"] is not None:
        return _member(match["quoted"])
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["slice"] is not None:
        start, _, stop = match["slice"].partition(":")
        return _slice(slice(int(start) if start else None, int(stop) if stop else None))
    return _filter(match["filter"].strip())


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(part: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _filter(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f"unrecognized JSONPath filter {text!r}")
    find = compile_path(match["path"])
    compare = _OPERATORS.get(match["op"] or "")
    wanted = _literal(match["value"]) if compare else None

    def holds(item: Any) -> bool:
        values = find(item)
        if compare is None:
            return bool(values)
        try:
            return any(compare(value, wanted) for value in values)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return step


def _literal(text: str) -> Any:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"unrecognized literal {text!r} in a JSONPath filter") from None
