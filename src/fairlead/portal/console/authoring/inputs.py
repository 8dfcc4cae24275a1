"""A CRD's schema as a tree of inputs, bounded whatever the schema holds.

Levels are opened from the top down for as long as there is room, so that a schema with thousands
of fields has inputs for the outer ones; what lies deeper is written as YAML.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import msgspec

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.facts import UNSET


DEEPEST = 8
"""Levels of a schema that have inputs of their own."""
MOST = 400
"""Inputs of a schema."""
OPTIONS = 3_000
"""Options of all inputs of a schema; an enumeration beyond them is a text."""
_CHOICES = 200
"""Options of one input."""
_BOXES = 40
"""Options of a list that are boxes to tick."""
_RADIOS = 3
"""Options that are all in sight."""
_NAME = 200
"""Characters of a field's name, or of an option, in a form."""
_SHORT = 253
"""Characters of a text that stands in one line: the longest name in Kubernetes."""
_DESCRIPTION = 500
"""Characters of a description; of the next, those of a pattern, of a default, of a rule's text."""
_PATTERN = 200
_SHOWN = 80
_RULE, _RULES = 200, 6

Kind = Literal[
    "text",
    "long",
    "number",
    "mixed",
    "choice",
    "check",
    "lines",
    "boxes",
    "yaml",
    "group",
    "list",
    "map",
]
Path = tuple[str, ...]
_ITEM = "*"


class Option(msgspec.Struct, frozen=True):
    """A value to choose: its JSON, and what people read."""

    value: str
    label: str


class Input(msgspec.Struct, frozen=True):
    """One input, or a group of them.

    ``children`` are those of a group and ``item`` is what a list or a map repeats; ``rest`` says
    that a group has a field in YAML for what has no input. ``weight`` is what it costs to show.
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

    @property
    def description(self) -> str:
        """What the schema says about it."""
        told = " ".join(facts.text(self.schema, "description").split())
        return told if len(told) <= _DESCRIPTION else told[: _DESCRIPTION - 1] + "…"

    @property
    def hints(self) -> list[str]:
        """What is allowed, in short sentences."""
        return list(_hints(self))

    @property
    def pattern(self) -> str:
        """What a text has to match; it is shown, and never run.

        It is written in the language of Go, which is neither Python's nor a browser's, and in
        both of these a pattern can take for ever.
        """
        pattern = facts.text(self.schema, "pattern")
        return pattern if self.kind in {"text", "long"} and len(pattern) <= _PATTERN else ""

    @property
    def rules(self) -> list[str]:
        """What the API server wants besides, in the words of the schema's rules."""
        found = self.schema.get("x-kubernetes-validations")
        told = []
        for one in found[: 2 * _RULES] if isinstance(found, list) else ():
            message = facts.text(one, "message") if isinstance(one, dict) else ""
            # Rules about changes say nothing about what is new.
            if message and len(message) <= _RULE and "oldSelf" not in facts.text(one, "rule"):
                told.append(message)
        return told[:_RULES]

    @property
    def told(self) -> bool:
        """Whether there is a hint."""
        return bool(self.description or self.hints or self.pattern or self.rules)

    @property
    def defaulted(self) -> bool:
        """Whether it has a default, so that it always has a value."""
        return self.default is not UNSET

    @property
    def radios(self) -> bool:
        """Whether all options are in sight."""
        return self.kind == "choice" and len(self.options) <= _RADIOS

    @property
    def keepable(self) -> bool:
        """Whether a group may be there with nothing filled in."""
        return self.kind == "group" and all(
            not one.required
            or one.default is not UNSET
            or one.kind in {"check", "lines", "boxes", "list", "map"}
            or one.keepable
            for one in self.children
        )


def describe(schema: Any, *, without: frozenset[str] = frozenset()) -> Input:
    """The inputs of an object; fields named in ``without`` have none."""
    whole = schema if isinstance(schema, dict) else {}
    shown = {name: one for name, one in facts.properties(whole).items() if name not in without}
    root = whole | {"properties": shown, "type": "object"}
    root.pop("default", None)
    return _input("", root, required=True, path=(), plan=_Plan(root))


class _Plan:
    """Which parts of a schema have inputs of their own."""

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
        names = sorted(names, key=lambda name: name not in needed)[: self._inputs]
        if not names and path:
            return []
        self._inputs -= len(names)
        self.opened.add(path)
        self.taken[path] = tuple(names)
        return [(name, fields[name]) for name in names]


def _items(schema: JSON) -> JSON | None:
    """What a list or a map repeats."""
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
        return Input(kind, name, schema, required, known, options, children, item, rest, weight)

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
    rest = Input("yaml", schema={"description": _rest(len(fields) - len(names))}) if left else None
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


def _hints(one: Input) -> Any:
    schema = one.schema
    match one.kind:
        case "text" | "long":
            yield from _range(schema, "minLength", "maxLength", " characters", trivial=1)
        case "number":
            whole = facts.text(schema, "type") == "integer"
            yield "A whole number." if whole else "A number."
            yield from _range(schema, "minimum", "maximum", "", trivial=None)
        case "mixed":
            yield "A whole number, or text; a number in quotes is text."
        case "lines":
            yield "One a line."
            yield from _range(schema, "minItems", "maxItems", " lines", trivial=1)
        case "list" | "boxes":
            yield from _range(schema, "minItems", "maxItems", "", trivial=1)
        case "map":
            yield from _range(schema, "minProperties", "maxProperties", "", trivial=1)
        case "yaml" if one.name:
            yield "In YAML."
    listed = facts.choices(schema) if one.kind in {"text", "long", "number"} else []
    if listed:
        yield f"One of {len(listed):,} values, such as {facts.encode(listed[0])[:_SHOWN]}."
    form = facts.text(schema, "format")
    if form and len(form) <= _SHOWN and one.kind in {"text", "long"}:
        yield f"Format {form}."
    if one.default is not UNSET and one.kind not in {"group", "list", "map", "yaml"}:
        plain = isinstance(one.default, str) and one.default.strip()
        default = one.default if plain else facts.encode(one.default)
        if len(default) <= _SHOWN:
            yield f"Default: {default}."


def _range(schema: JSON, low: str, high: str, unit: str, *, trivial: int | None) -> Any:
    least, most = facts.number(schema, low), facts.number(schema, high)
    if trivial is not None and least is not None and least <= trivial:
        least = None
    if least is not None and most is not None:
        yield f"{least} to {most}{unit}."
    elif least is not None:
        yield f"At least {least}{unit}."
    elif most is not None:
        yield f"At most {most}{unit}."
