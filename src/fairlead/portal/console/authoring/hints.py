"""Hints beside an input: its description and the allowed values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.facts import UNSET


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
_DESCRIPTION = 500
"""Longest shown description, in characters."""
_PATTERN, _DEFAULT, _RULE = 200, 80, 200
"""Longest shown pattern, default and message of a rule, in characters."""
_RULES = 6
"""Largest number of shown rules."""


class Hint(msgspec.Struct, frozen=True):
    """The texts beside an input. A ``pattern`` is shown but never matched.

    It has Go's syntax, which neither Python nor a browser implements, and backtracking in those
    could take unlimited time.
    """

    description: str = ""
    allowed: str = ""
    pattern: str = ""
    rules: tuple[str, ...] = ()

    @property
    def more(self) -> bool:
        """Whether the hint has more than a description."""
        return bool(self.allowed or self.pattern or self.rules)

    def __bool__(self) -> bool:
        return bool(self.description) or self.more


def hint(kind: Kind, schema: JSON, default: Any) -> Hint:
    """Return the hint of an input, with a default or UNSET."""
    told = " ".join(facts.text(schema, "description").split())
    pattern = facts.text(schema, "pattern") if kind in {"text", "long"} else ""
    return Hint(
        told if len(told) <= _DESCRIPTION else told[: _DESCRIPTION - 1] + "…",
        " ".join(_allowed(kind, schema, default)),
        pattern if len(pattern) <= _PATTERN else "",
        tuple(_rules(schema)),
    )


def _rules(schema: JSON) -> list[str]:
    """Return the messages of the schema's CEL rules."""
    found = schema.get("x-kubernetes-validations")
    told = []
    for one in found[: 2 * _RULES] if isinstance(found, list) else ():
        message = facts.text(one, "message") if isinstance(one, dict) else ""
        # A rule with oldSelf is about updates, and the form is for a new object.
        if message and len(message) <= _RULE and "oldSelf" not in facts.text(one, "rule"):
            told.append(message)
    return told[:_RULES]


def _allowed(kind: Kind, schema: JSON, default: Any) -> Iterator[str]:
    match kind:
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
        case "yaml":
            yield "In YAML."
    listed = facts.choices(schema) if kind in {"text", "long", "number"} else []
    if listed:
        yield f"One of {len(listed):,} values, such as {facts.encode(listed[0])[:_DEFAULT]}."
    form = facts.text(schema, "format")
    if form and len(form) <= _DEFAULT and kind in {"text", "long"}:
        yield f"Format {form}."
    if default is not UNSET and kind not in {"group", "list", "map", "yaml"}:
        plain = isinstance(default, str) and default.strip()
        told = default if plain else facts.encode(default)
        if len(told) <= _DEFAULT:
            yield f"Default: {told}."


def _range(schema: JSON, low: str, high: str, unit: str, *, trivial: int | None) -> Iterator[str]:
    least, most = facts.number(schema, low), facts.number(schema, high)
    if trivial is not None and least is not None and least <= trivial:
        least = None
    if least is not None and most is not None:
        yield f"{least} to {most}{unit}."
    elif least is not None:
        yield f"At least {least}{unit}."
    elif most is not None:
        yield f"At most {most}{unit}."
