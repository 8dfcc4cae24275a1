"""Values made from the schema of a CRD: any that it allows, and such as it refuses.

Acto (SOSP '23) sets every field of an operator's resource to every kind of value, and back. The
rules that a schema has in CEL are not looked at: a server may refuse what is made here for them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from fairlead.api.meta import JSON


TEXTS = (
    "",
    "a",
    "web1",
    "login",
    "db1",
    "type",
    "front",
    "Z-9.z",
    "-",
    "..",
    "a/b",
    "a b",
    "ü",
    "0",
    "true",
    "{{",
    "{{ .name }}",
    "$(X)",
    "x" * 64,
    "x" * 300,
)
"""Strings, of which those are taken that a schema allows."""
FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "byte": "YQ==",
    "int32": 7,
    "int64": 7,
    "duration": "1h0m0s",
}
MOST_ITEMS = 3
"""Items of a list, and members of a map, where the schema does not ask for more."""
DEEPEST = 8
"""Levels below which nothing is made that is not required."""


def schema_of(crd: JSON, version: str = "", field: str = "spec") -> JSON:
    """The schema of a field of a CRD's kind; without a version of that which is stored."""
    for one in crd["spec"]["versions"]:
        if one["name"] == version or (not version and one["storage"]):
            found: JSON = one["schema"]["openAPIV3Schema"]["properties"][field]
            return found
    raise LookupError(f"{crd['metadata']['name']} has no version {version}")


def valid(schema: JSON, dice: Random, *, depth: int = 0) -> Any:
    """Make a value that a schema allows."""
    if "enum" in schema:
        return dice.choice(schema["enum"])
    for way in ("oneOf", "anyOf"):
        if way in schema and "type" not in schema:
            return valid(dice.choice(schema[way]), dice, depth=depth)
    if schema.get("x-kubernetes-int-or-string"):
        return dice.choice((dice.randint(0, 99), "a"))
    match schema.get("type"):
        case "object":
            return _object(schema, dice, depth)
        case "array":
            return _array(schema, dice, depth)
        case "string":
            return _string(schema, dice)
        case "boolean":
            return dice.random() < 0.5
        case "integer":
            least, most = int(schema.get("minimum", -1)), int(schema.get("maximum", 2**31 - 1))
            return dice.choice((least, min(least + 1, most), most, dice.randint(least, most)))
        case "number":
            return dice.choice((0, 1, 0.5, schema.get("minimum", 0), schema.get("maximum", 9)))
    # Anything at all.
    return dice.choice(({}, {"a": 1}, {"a": {"b": [1, "x"]}}))


def _object(schema: JSON, dice: Random, depth: int) -> JSON:
    made: JSON = {}
    required = schema.get("required") or []
    for name, below in (schema.get("properties") or {}).items():
        if name in required or (depth < DEEPEST and dice.random() < 0.5):
            made[name] = valid(below, dice, depth=depth + 1)
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and depth < DEEPEST:
        least = schema.get("minProperties", 0)
        count = dice.randint(least, min(schema.get("maxProperties", MOST_ITEMS), MOST_ITEMS))
        made |= {f"k{number}": valid(more, dice, depth=depth + 1) for number in range(count)}
    return made


def _array(schema: JSON, dice: Random, depth: int) -> list[Any]:
    least = schema.get("minItems", 0)
    most = max(least, min(schema.get("maxItems", MOST_ITEMS), MOST_ITEMS))
    count = dice.randint(least, most if depth < DEEPEST else least)
    items = [valid(schema["items"], dice, depth=depth + 1) for _ in range(count)]
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys and schema.get("x-kubernetes-list-type") != "set":
        return items
    # Those that would be the same to the server are left out.
    known: dict[str, Any] = {}
    for item in items:
        known.setdefault(str([item.get(key) for key in keys] if keys else item), item)
    return list(known.values())


def _string(schema: JSON, dice: Random) -> Any:
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    candidates = [text for text in TEXTS if _allows(schema, text)]
    if not candidates or ("pattern" in schema and dice.random() < 0.5):
        made = [_matching(schema.get("pattern", "[a-z]+"), dice) for _ in range(20)]
        candidates = [text for text in made if _allows(schema, text)] or candidates
    if not candidates:
        candidates = ["a" * max(1, schema.get("minLength", 1))]
    return dice.choice(candidates)


def _allows(schema: JSON, text: str) -> bool:
    return (
        schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 2**20)
        and re.search(schema.get("pattern", ""), text) is not None
    )


def _matching(pattern: str, dice: Random) -> str:
    """A text that matches a pattern, as far as patterns of CRDs go."""
    from re import _parser  # type: ignore[attr-defined]

    def made(parts: Any) -> str:
        text = ""
        for name, given in parts:
            match str(name):
                case "LITERAL":
                    text += chr(given)
                case "NOT_LITERAL":
                    text += "a" if given != ord("a") else "b"
                case "ANY":
                    text += "a"
                case "IN":
                    text += _one_of(given, dice)
                case "BRANCH":
                    text += made(dice.choice(given[1]))
                case "SUBPATTERN":
                    text += made(given[-1])
                case "MAX_REPEAT" | "MIN_REPEAT":
                    least, most, below = given
                    count = dice.randint(least, min(int(most), least + 3))
                    text += "".join(made(below) for _ in range(count))
        return text

    return made(_parser.parse(pattern))


def _one_of(given: Any, dice: Random) -> str:
    found: list[str] = []
    for name, value in given:
        match str(name):
            case "LITERAL":
                found.append(chr(value))
            case "RANGE":
                found += [chr(value[0]), chr(value[1])]
            case "CATEGORY":
                found += ["0", "a", "_"]
    return dice.choice(found or ["a"])


# --- one field at a time


Place = tuple[str | int, ...]


def varied(schema: JSON, value: JSON, dice: Random) -> JSON:
    """Copy a value, and give one of its fields, present or absent, any other that is allowed."""
    made = copy.deepcopy(value)
    places = list(_places(schema, made))
    if not places:
        return made
    place, below, needed = dice.choice(places)
    parent = _parent(made, place)
    if not needed and isinstance(parent, dict) and place[-1] in parent and dice.random() < 0.3:
        del parent[place[-1]]
    else:
        parent[place[-1]] = valid(below, dice, depth=len(place))
    return made


def spoiled(schema: JSON, value: JSON, dice: Random) -> JSON | None:
    """Copy a value, and give one of its fields what the schema refuses; None where none can be."""
    made = copy.deepcopy(value)
    places = [place for place in _places(schema, made) if _wrong(place[1])]
    if not places:
        return None
    place, below, _ = dice.choice(places)
    _parent(made, place)[place[-1]] = dice.choice(_wrong(below))
    return made


def _wrong(schema: JSON) -> list[Any]:
    """Values that a schema refuses."""
    if "enum" in schema:
        return ["none of these", 1]
    found: list[Any] = []
    match schema.get("type"):
        case "string":
            found += [1, {"a": 1}, ["a"]]
            if "maxLength" in schema:
                found.append("a" * (schema["maxLength"] + 1))
            if schema.get("minLength"):
                found.append("")
        case "integer":
            found += ["a", 1.5]
            found += [schema["minimum"] - 1] if "minimum" in schema else []
            found += [schema["maximum"] + 1] if "maximum" in schema else []
        case "boolean":
            found += ["true", 1]
        case "array":
            found += [{}, "a"]
            found += [[]] if schema.get("minItems") else []
        case "object":
            found += ["a", [], 1]
    return found


def _places(schema: JSON, value: Any, at: Place = ()) -> Iterator[tuple[Place, JSON, bool]]:
    """All fields of a value, present or absent, with their schemas and whether they must be."""
    if isinstance(value, dict):
        required = schema.get("required") or []
        for name, below in (schema.get("properties") or {}).items():
            yield (*at, name), below, name in required
            if name in value:
                yield from _places(below, value[name], (*at, name))
    elif isinstance(value, list) and schema.get("x-kubernetes-list-type") != "set":
        # Two of one key would be refused, so that keys stay as they are.
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        for position, item in enumerate(value):
            if not keys:
                yield (*at, position), schema["items"], True
            for place, below, needed in _places(schema["items"], item, (*at, position)):
                if not (len(place) == len(at) + 2 and place[-1] in keys):
                    yield place, below, needed


def _parent(value: Any, place: Place) -> Any:
    for step in place[:-1]:
        value = value[step]
    return value


def without(schema: JSON, *path: str) -> JSON:
    """Copy a schema without one of its fields."""
    made = copy.deepcopy(schema)
    below = made
    for name in path[:-1]:
        below = below["properties"][name]
    del below["properties"][path[-1]]
    return made
