"""Conversion of a form's entries to values; problems are added to the entries."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fairlead.api import yamltext
from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.checking import INVALID, Problem
from fairlead.portal.console.authoring.entries import FilledInput, blank, same
from fairlead.portal.console.authoring.facts import UNSET
from fairlead.portal.console.authoring.inputs import Input


_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][-+]?[0-9]{1,4})?")
_NAME = 1024
"""Longest key of a map, in characters."""
_LINES = 1_000
"""Largest number of lines of a list that is written as text."""
_DEEPEST = 30
"""Deepest nesting of a value that is written as YAML."""
_VALUES = 5_000
"""Largest number of values in such YAML: reading more would block the event loop."""


def value(entry: FilledInput) -> Any:
    """Return an entry's value: UNSET without one, INVALID if the entry has errors."""
    one = entry.input
    match one.kind:
        case "group":
            return _group(entry)
        case "map":
            return _map(entry)
        case "list":
            return _listed(one, [_row(row) for row in entry.rows])
        case "boxes":
            return _listed(one, [json.loads(told) for told in entry.picked])
        case "lines":
            return _lines(entry)
        case "check":
            return bool(entry.text)
        case "yaml":
            return _yaml(entry)
    if not entry.text.strip() and (one.kind not in {"text", "long"} or not entry.text):
        return UNSET
    found = _scalar(one, entry.text)
    if isinstance(found, _Wrong):
        entry.wrong(str(found))
        return INVALID
    return found


class _Wrong(str):
    """The reason why a text is not a value."""

    __slots__ = ()


def _scalar(one: Input, text: str) -> Any:
    match one.kind:
        case "number":
            return _number(text.strip(), whole=facts.text(one.schema, "type") == "integer")
        case "mixed":
            return _mixed(text.strip())
        case "choice":
            known = any(text == option.value for option in one.options)
            return json.loads(text) if known else _Wrong("has to be one of the values offered")
        case _:
            return text


def _number(text: str, *, whole: bool) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if whole:
        return _Wrong("has to be a whole number, such as 3")
    found = float(text) if _NUMBER.fullmatch(text) else math.inf
    return found if math.isfinite(found) else _Wrong("has to be a number, such as 0.5")


def _mixed(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not text.startswith('"'):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, str):
        return _Wrong('has quotes that do not end, as in "80"')
    # JSON can escape lone surrogates, which UTF-8 cannot encode.
    return found if facts.is_text(found) else _Wrong("has half a character")


def _listed(one: Input, found: list[Any]) -> Any:
    """Return a list; an empty optional one is UNSET, so that the default applies."""
    return found if found or one.required or one.default else UNSET


def _row(entry: FilledInput) -> Any:
    found = value(entry)
    if found is not UNSET:
        return found
    entry.wrong("is empty: fill it in, or remove it")
    return INVALID


def _lines(entry: FilledInput) -> Any:
    item = entry.input.item or entry.input
    found = []
    lines = entry.text.split("\n")
    if len(lines) > _LINES:
        entry.wrong(f"has {len(lines):,} lines, and may have at most {_LINES:,} here")
        return INVALID
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = _scalar(item, line)
        if isinstance(one, _Wrong):
            entry.wrong(f"line {number} {one}")
            one = INVALID
        found.append(one)
    return _listed(entry.input, found)


def _map(entry: FilledInput) -> Any:
    found: dict[str, Any] = {}
    for row in entry.rows:
        key = row.key.text.strip() if row.key else ""
        if not key and _is_blank(row):
            continue
        one = value(row)
        if one is UNSET and row.input.kind in {"text", "long"}:
            one = ""
        told = _wrong_key(key, found)
        if told and row.key is not None:
            row.key.errors = [told]
        elif one is UNSET:
            row.wrong("is empty: fill it in, or remove it")
            found[key] = INVALID
        else:
            found[key] = one
    if any(row.key is not None and row.key.errors for row in entry.rows):
        return INVALID
    return found if found or entry.input.required or entry.input.default else UNSET


def _is_blank(row: FilledInput) -> bool:
    plain = row.input.kind in {"text", "long"}
    return not row.text if plain else same(row, blank(row.input, row.path))


def _wrong_key(key: str, others: dict[str, Any]) -> str:
    if not key:
        return "is required"
    if len(key) > _NAME:
        return f"has to have at most {_NAME} characters"
    return "is here twice" if key in others else ""


def _group(entry: FilledInput) -> Any:
    found: dict[str, Any] = {}
    for child in entry.children:
        one = value(child)
        if one is not UNSET:
            found[child.input.name] = one
    if entry.rest is not None:
        found |= _rest(entry.rest, frozenset(child.input.name for child in entry.children))
    one = entry.input
    said = one.required or entry.kept or one.default is not UNSET
    return found if said or not same(entry, blank(one, entry.path)) else UNSET


def _rest(entry: FilledInput, known: frozenset[str]) -> dict[str, Any]:
    """Return the fields in a group's YAML input; one that has its own input is an error."""
    found = _yaml(entry)
    if found is UNSET or found is INVALID:
        return {}
    if not isinstance(found, dict):
        entry.errors = ["has to be fields with their names, such as size: 3"]
        return {}
    both = min(known & found.keys(), default=None)
    if both is not None:
        entry.errors = [f"has {both}, which has an input of its own"]
        return {}
    return found


def _yaml(entry: FilledInput) -> Any:
    if not entry.text.strip():
        return UNSET
    try:
        found = yamltext.load(entry.text, aliases=False, max_depth=_DEEPEST, max_nodes=_VALUES)
    except yamltext.UnwelcomeYAMLError as error:
        entry.errors = [str(error)]
    except (yamltext.YAMLError, ValueError, TypeError) as error:
        entry.errors = [f"is no YAML: {yamltext.problem(error)}"]
    else:
        if facts.is_plain(found):
            return found
        entry.errors = [
            "has values that JSON does not have, such as keys that are not text, or is too large"
        ]
    return INVALID


def tell(root: FilledInput, problem: Problem) -> None:
    """Add a problem to the entry that the value was written into."""
    entry, left = root, list(problem.place)
    while left:
        inner = _inner(entry, left[0])
        if inner is None:
            break
        entry = inner
        left.pop(0)
    message = problem.message
    if left and entry.input.kind == "lines" and isinstance(left[0], int):
        filled = [number for number, line in enumerate(entry.text.split("\n"), 1) if line.strip()]
        message = f"line {filled[left[0]]} {message}"
    elif left and entry.input.kind != "boxes":
        message = f"{place(left)} {message}"
        entry = entry.rest or entry
    entry.wrong(message)


def _inner(entry: FilledInput, name: str | int) -> FilledInput | None:
    if isinstance(name, int):
        return entry.rows[name] if name < len(entry.rows) else None
    rows = (row for row in entry.rows if row.key is not None and row.key.text.strip() == name)
    children = (child for child in entry.children if child.input.name == name)
    return next(children, None) or next(rows, None)


def place(names: list[str | int]) -> str:
    """Return a path in the usual notation, such as ``spec.ports[0]``."""
    told = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names)
    return told.removeprefix(".")
