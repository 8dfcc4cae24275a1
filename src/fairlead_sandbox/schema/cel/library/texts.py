"""Functions of strings: search, parts, replacement, patterns and ``format``.

Source: the strings extension of cel-go, second version, and Kubernetes' regex library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.core import go_double
from fairlead_sandbox.schema.cel.library.overloads import Overload, function, in_words
from fairlead_sandbox.schema.cel.times import Duration, Timestamp
from fairlead_sandbox.schema.cel.values import KINDS, CelError, TypeValue, thawed
from fairlead_sandbox.schema.effort import Effort
from fairlead_sandbox.schema.patterns import Pattern, compile_pattern


_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""White space that trim() removes, by Unicode's property White_Space."""


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    # At the end of the text cel-go returns "", and an error only behind it.
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range(start)
    if start >= len(text) and part:
        return -1
    return start if not part else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return _rightmost(text, part)
    if start < 0:
        raise _out_of_range(start)
    if start >= len(text) and part:
        return -1
    return start if not part else _rightmost(text[: start + len(part)], part)


def _rightmost(text: str, part: str) -> int:
    """Return the last index of a part, -1 if there is none; str.rfind takes quadratic time."""
    offset = text[::-1].find(part[::-1])
    return -1 if offset < 0 else len(text) - len(part) - offset


def _lower(text: str) -> str:
    # bytes.lower() changes ASCII letters only, as lowerAscii() must.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _upper(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    if start > last:
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _replace(effort: Effort, text: str, old: str, new: str, limit: int = -1) -> str:
    times = len(text) + 1 if not old else text.count(old)
    times = times if limit < 0 else min(times, limit)
    effort.spend((len(text) + times * len(new)) // _CHARACTERS)
    return text.replace(old, new, limit)


_CHARACTERS = 10
"""Number of characters of a new string that cost one step of effort."""


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        # Go's limit counts parts, Python's counts cuts.
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(texts: Sequence[Any], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise CelError("no such overload")
    return separator.join(texts)


_QUOTED = {
    "\\": "\\\\",
    '"': '\\"',
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """Return the string in double quotes, with escapes where needed."""
    for char, shown in _QUOTED.items():
        text = text.replace(char, shown)
    return f'"{text}"'


_STEPS = 15
"""Steps of effort of the shortest match."""


def _pattern(text: str, effort: Effort) -> Pattern:
    with in_words():
        return compile_pattern(text, effort)


def _matches(effort: Effort, text: str, pattern: str) -> bool:
    return _pattern(pattern, effort).search(text, effort)


def _find(effort: Effort, text: str, pattern: str) -> str:
    matches = _pattern(pattern, effort).find(text, effort, 1)
    return matches[0] if matches else ""


def _find_all(effort: Effort, text: str, pattern: str, limit: int = -1) -> list[str]:
    return _pattern(pattern, effort).find(text, effort, limit)


CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d+))?(.?))", re.DOTALL | re.ASCII)
"""A clause of a format template."""
_PRECISION = 100
"""Maximum number of digits after the decimal point; Python itself has no limit."""


def format_text(effort: Effort, template: str, values: Sequence[Any]) -> str:
    """Return the template with its clauses (``%s``, ``%d``, ``%.2f``) filled in.

    Raises:
        CelError: a clause is unknown, or does not accept its value.
    """
    parts: list[str] = []
    position = taken = 0
    for clause in CLAUSE.finditer(template):
        parts.append(template[position : clause.start()])
        position = clause.end()
        if clause[1]:
            parts.append("%")
            continue
        show = CLAUSES.get(clause[3])
        if show is None:
            raise CelError(
                f'could not parse formatting clause: unrecognized formatting clause "{clause[3]}"'
            )
        if taken >= len(values):
            raise CelError(f"index {taken} out of range")
        # Nine digits exceed every precision; int() raises on more than 4300.
        text = show(values[taken], min(int((clause[2] or "6")[:9]), _PRECISION))
        effort.spend(len(text) + _CHARACTERS)
        parts.append(text)
        taken += 1
    return "".join([*parts, template[position:]])


WANTED = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
"""Beginning of the error for a value of a wrong type, by the letter of the clause."""


def _cannot(clause: str, value: Any) -> CelError:
    kind = KINDS.get(type(value), "dyn")
    given = WANTED[clause].format(_GIVEN.get(kind, kind))
    return CelError(f"error during formatting: {given}")


_GIVEN = {"null": "null_type", "optional": "optional_type"}


def _show(value: Any, _: int) -> str:
    """Return a value as ``%s`` shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        with in_words("invalid UTF-8 in bytes, cannot convert to string"):
            return value.decode()
    if isinstance(value, float):
        return go_double(value)
    if isinstance(value, Duration | Timestamp):
        return str(value)
    return _literal(value)


def _literal(value: Any) -> str:
    """Return a value inside of another one as a literal of CEL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        return _plain_double(value, 6)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        shown = sorted((_literal(thawed(key)), _literal(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}:{item}' for key, item in shown)}}}"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str | bytes):
        return (
            quoted(value) if isinstance(value, str) else f'b"{value.decode("utf-8", "replace")}"'
        )
    if isinstance(value, Duration | Timestamp):
        return f'{KINDS[type(value)]}("{value}")'
    raise _cannot("s", value)


def _decimal(value: Any, _: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _cannot("d", value)
    return str(int(value))


def _plain_double(value: float, precision: int) -> str:
    if math.isnan(value) or math.isinf(value):
        return f'"{go_double(value)}"'
    return f"{value:.{precision}f}"


def _fixed(value: Any, precision: int) -> str:
    number = _double("f", value)
    if math.isnan(number) or math.isinf(number):
        return _special(number)
    # cel-go formats %f for the locale en-US, with commas between thousands (rule-757 of
    # tests/golden/cel.jsonl).
    return f"{number:,.{precision}f}"


_TIMES_TEN = "\N{MULTIPLICATION SIGN}10"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _scientific(value: Any, _: int) -> str:
    number = _double("e", value)
    if math.isnan(number) or math.isinf(number):
        return _special(number)
    digits, exponent = f"{number:.6e}".split("e")
    return f"{digits}{_TIMES_TEN}{exponent.removeprefix('+').translate(_RAISED)}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "-∞"


def _double(clause: str, value: Any) -> float:
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    if not isinstance(value, float):
        raise _cannot(clause, value)
    return value


def _binary(value: Any, _: int) -> str:
    if not isinstance(value, int):
        raise _cannot("b", value)
    return f"{int(value):b}"


def _hexadecimal(value: Any, _: int) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    if isinstance(value, bool) or not isinstance(value, int):
        raise _cannot("x", value)
    return f"{int(value):x}"


def _octal(value: Any, _: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _cannot("o", value)
    return f"{int(value):o}"


CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "s": _show,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
    "o": _octal,
}
"""Formatter of each clause of ``format``, such as ``d`` of ``%d``; takes value and precision."""


def _overloads() -> Iterator[Overload]:
    read = costs.read(0, keeps_size=True)
    yield function("<string>.contains(string) -> bool", str.__contains__, costs.CONTAINS)
    yield function("<string>.startsWith(string) -> bool", str.startswith, costs.PREFIX)
    yield function("<string>.endsWith(string) -> bool", str.endswith, costs.PREFIX)
    for where in ("<string>.matches(string)", "matches(string, string)"):
        # Kubernetes prices only the method; the function of the same name costs 1 (rule-062 of
        # tests/golden/cel.jsonl).
        price = costs.MATCH if where.startswith("<") else costs.ONE
        yield function(f"{where} -> bool", _matches, price, counted=True, steps=_STEPS)
    yield function(
        "<string>.find(string) -> string", _find, costs.FIND, counted=True, steps=_STEPS
    )
    for more in ("", ", int"):
        signature = f"<string>.findAll(string{more}) -> list(string)"
        yield function(signature, _find_all, costs.FIND, counted=True, steps=_STEPS)
        yield function(f"<string>.indexOf(string{more}) -> int", _index_of, costs.TRAVERSE)
        yield function(
            f"<string>.lastIndexOf(string{more}) -> int", _last_index_of, costs.TRAVERSE
        )
        yield function(f"<string>.split(string{more}) -> list(string)", _split, costs.SPLIT)
        yield function(f"<string>.substring(int{more}) -> string", _substring, read)
        signature = f"<string>.replace(string, string{more}) -> string"
        yield function(signature, _replace, costs.REPLACE, counted=True)
    yield function("<string>.charAt(int) -> string", _char_at)
    yield function("<string>.lowerAscii() -> string", _lower, read)
    yield function("<string>.upperAscii() -> string", _upper, read)
    yield function("<string>.trim() -> string", lambda text: text.strip(_SPACE), read)
    for more in ("", "string"):
        yield function(f"<list(string)>.join({more}) -> string", _join, costs.JOIN)
    yield function("strings.quote(string) -> string", quoted, costs.QUOTE)
    signature = "<string>.format(list(dyn)) -> string"
    yield function(signature, format_text, costs.read(0), counted=True)


OVERLOADS = list(_overloads())
