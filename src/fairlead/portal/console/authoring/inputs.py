"""A CRD's schema as a tree of inputs, whose size is bounded for any schema.

Levels get inputs from the top down while there is room, so that a schema with thousands of fields
has inputs for the outer ones; deeper levels are written as YAML.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.facts import UNSET
from fairlead.portal.console.authoring.hints import Hint, Kind, hint


DEEPEST = 8
"""Largest number of a schema's levels that have inputs."""
MOST = 400
"""Largest number of a schema's inputs."""
OPTIONS = 3_000
"""Largest number of options in a schema; further enumerations become text inputs."""
_CHOICES = 200
"""Largest number of options of an input."""
_BOXES = 40
"""Largest number of options that a list shows as checkboxes."""
_RADIOS = 3
"""Largest number of options that are shown as radio buttons."""
_NAME = 200
"""Longest name of a field with an input, and longest shown option, in characters."""
_SHORT = 253
"""Longest text with a one-line input, in characters: the longest name in Kubernetes."""

Path = tuple[str, ...]
"""Names of fields from the root; :data:`_ITEM` for the items of a list or map."""
_ITEM = "*"


class Option(msgspec.Struct, frozen=True):
    """A value to choose: its JSON, and its visible label."""

    value: str
    label: str


class Input(msgspec.Struct, frozen=True):
    """An input, or a group of inputs.

    ``children`` are a group's inputs and ``item`` is the repeated one of a list or a map; ``rest``
    is a group's YAML input for fields without one. ``weight`` is the cost of showing it.
    """

    kind: Kind
    name: str = ""
    schema: JSON = {}
    required: bool = False
    default: Any = UNSET
    options: tuple[Option, ...] = ()
    children: tuple[Input, ...] = ()
    item: Input | None = None
    rest: Input | None = None
    weight: int = 1
    hint: Hint = Hint()

    @property
    def defaulted(self) -> bool:
        """Whether the input has a default, so that it always has a value."""
        return self.default is not UNSET

    @property
    def radios(self) -> bool:
        """Whether the options are shown as radio buttons."""
        return self.kind == "choice" and len(self.options) <= _RADIOS

    @property
    def keepable(self) -> bool:
        """Whether the input is a group that is valid when empty."""
        return self.kind == "group" and all(
            not one.required
            or one.default is not UNSET
            or one.kind in {"check", "lines", "boxes", "list", "map"}
            or one.keepable
            for one in self.children
        )


def describe(schema: Any, *, without: frozenset[str] = frozenset()) -> Input:
    """Return the inputs of an object, without those of the fields in ``without``."""
    whole = schema if isinstance(schema, dict) else {}
    shown = {name: one for name, one in facts.properties(whole).items() if name not in without}
    root: JSON = {
        "type": "object",
        "properties": shown,
        "required": sorted(facts.required(whole) - without),
        "x-kubernetes-preserve-unknown-fields": facts.is_free(whole),
    }
    return _input("", root, required=True, path=(), plan=_Plan(root))


class _Plan:
    """Chooses the parts of a schema that get inputs, breadth first."""

    def __init__(self, root: JSON) -> None:
        self.taken: dict[Path, tuple[str, ...]] = {}
        self.opened: set[Path] = {()}
        self.offered: set[Path] = set()
        self._inputs, self._options = MOST, OPTIONS
        waiting: deque[tuple[Path, JSON]] = deque([((), root)])
        while waiting:
            path, schema = waiting.popleft()
            for name, one in self._below(path, schema):
                waiting.append(((*path, name), one))

    def _below(self, path: Path, schema: JSON) -> list[tuple[str, JSON]]:
        options = len(facts.choices(schema)) if "enum" in schema else 0
        if options:
            if options <= min(_CHOICES, self._options):
                self._options -= options
                self.offered.add(path)
            return []
        item = _items(schema)
        if len(path) >= DEEPEST and (item or _has_fields(schema)):
            return []
        if item:
            if self._inputs:
                self._inputs -= 1
                self.opened.add(path)
                return [(_ITEM, item)]
            return []
        if not _has_fields(schema):
            return []
        fields = facts.properties(schema)
        needed = facts.required(schema)
        names = [name for name in fields if len(name) <= _NAME]
        # Required fields first: without an input they could only be written as YAML.
        names = sorted(names, key=lambda name: name not in needed)[: self._inputs]
        if not names and path:
            return []
        self._inputs -= len(names)
        self.opened.add(path)
        self.taken[path] = tuple(names)
        return [(name, fields[name]) for name in names]


def _items(schema: JSON) -> JSON | None:
    """Return the schema that a list or a map repeats, None for others."""
    kind = facts.text(schema, "type")
    if kind == "array":
        return facts.inner(schema, "items")
    if kind == "object" and not facts.properties(schema):
        return facts.inner(schema, "additionalProperties")
    return None


def _has_fields(schema: JSON) -> bool:
    return facts.text(schema, "type") in {"object", ""} and bool(facts.properties(schema))


def _input(name: str, schema: JSON, *, required: bool, path: Path, plan: _Plan) -> Input:
    default = facts.default(schema)

    def made(
        kind: Kind,
        options: tuple[Option, ...] = (),
        children: tuple[Input, ...] = (),
        item: Input | None = None,
        rest: Input | None = None,
    ) -> Input:
        weight = 1 + len(options) // 10 + sum(one.weight for one in children)
        known = default if kind != "check" or isinstance(default, bool) else UNSET
        told = hint(kind, schema, known)
        return Input(
            kind, name, schema, required, known, options, children, item, rest, weight, told
        )

    if "enum" in schema and facts.choices(schema):
        if path in plan.offered:
            return made("choice", _options(schema))
        if facts.text(schema, "type") not in {"string", "integer", "number"}:
            return made("yaml")
    if facts.flag(schema, "x-kubernetes-int-or-string"):
        return made("mixed")
    match facts.text(schema, "type"):
        case "string":
            return made("text" if _is_short(schema, default) else "long")
        case "integer" | "number":
            return made("number")
        case "boolean" if isinstance(default, bool):
            return made("check")
        case "boolean":
            return made("choice", (Option("true", "true"), Option("false", "false")))
    if path not in plan.opened:
        if facts.text(schema, "type") == "object" and not (
            facts.is_free(schema) or facts.properties(schema)
        ):
            return made("group")
        return made("yaml")
    repeated = _items(schema)
    if repeated is not None:
        item = _input("", repeated, required=True, path=(*path, _ITEM), plan=plan)
        return _repeated(schema, item, made)
    fields, needed = facts.properties(schema), facts.required(schema)
    names = plan.taken.get(path, ())
    children = tuple(
        _input(one, fields[one], required=one in needed, path=(*path, one), plan=plan)
        for one in names
    )
    left = len(names) < len(fields) or facts.is_free(schema)
    rest = Input("yaml", hint=Hint(_rest(len(fields) - len(names)))) if left else None
    return made("group", children=children, rest=rest)


def _repeated(schema: JSON, item: Input, made: Any) -> Input:
    if item.kind == "yaml":
        return made("yaml")  # type: ignore[no-any-return]
    if facts.text(schema, "type") == "object":
        return made("map", item=item)  # type: ignore[no-any-return]
    plain = all(isinstance(one, str | int | float) for one in facts.choices(item.schema))
    if item.kind == "choice" and plain and "enum" in item.schema and len(item.options) <= _BOXES:
        return made("boxes", item.options, item=item)  # type: ignore[no-any-return]
    lines = item.kind in {"text", "long", "number", "mixed"}
    return made("lines" if lines else "list", item=item)  # type: ignore[no-any-return]


def _options(schema: JSON) -> tuple[Option, ...]:
    found = []
    for one in facts.choices(schema):
        value = facts.encode(one)
        label = one if isinstance(one, str) and one.strip() else value
        found.append(Option(value, label if len(label) <= _NAME else label[: _NAME - 1] + "…"))
    return tuple(found)


def _is_short(schema: JSON, default: Any) -> bool:
    if isinstance(default, str) and "\n" in default:
        return False
    most = facts.count(schema, "maxLength")
    return (most is not None and most <= _SHORT) or bool(
        facts.text(schema, "pattern") or facts.text(schema, "format") or schema.get("enum")
    )


def _rest(left: int) -> str:
    fields = f"{left:,} more fields have no input here: " if left > 0 else "More fields: "
    return f"{fields}write them as YAML, each with its name."
