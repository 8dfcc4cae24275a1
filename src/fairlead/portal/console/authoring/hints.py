"""What people are told beside an input: its description, and what is allowed, in short."""

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
"""Characters of a description; of the next, those of a pattern, of a default and of a rule."""
_PATTERN, _DEFAULT, _RULE = 200, 80, 200
_RULES = 6


class Hint(msgspec.Struct, frozen=True):
    """Words for people. A ``pattern`` is shown, and never run.

    It is written in the language of Go, which is neither Python's nor a browser's, and in both of
    these a pattern can take for ever.
    """

    description: str = ""
    allowed: str = ""
    pattern: str = ""
    rules: tuple[str, ...] = ()

    @property
    def more(self) -> bool:
        """Whether there is more than the description."""
        return bool(self.allowed or self.pattern or self.rules)

    def __bool__(self) -> bool:
        return bool(self.description) or self.more


def hint(kind: Kind, schema: JSON, default: Any) -> Hint:
    """The words for an input of a kind, with a default or UNSET."""
    told = " ".join(facts.text(schema, "description").split())
    pattern = facts.text(schema, "pattern") if kind in {"text", "long"} else ""
    return Hint(
        told if len(told) <= _DESCRIPTION else told[: _DESCRIPTION - 1] + "…",
        " ".join(_allowed(kind, schema, default)),
        pattern if len(pattern) <= _PATTERN else "",
        tuple(_rules(schema)),
    )


def _rules(schema: JSON) -> list[str]:
    """What the API server wants besides, in the words of the schema's rules."""
    found = schema.get("x-kubernetes-validations")
    told = []
    for one in found[: 2 * _RULES] if isinstance(found, list) else ():
        message = facts.text(one, "message") if isinstance(one, dict) else ""
        # Rules about changes say nothing about what is new.
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
