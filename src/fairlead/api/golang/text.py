"""Printing of values as in Service Binding Operator: Go's ``%v`` and ``encoding/json``.

Workloads rely on the text of binding data: ``1e+06`` for the float 1000000.0, ``[a b]`` for a
list, ``map[a:1]`` for an object with sorted keys, ``<nil>`` for null.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec


_INT64 = 2**63
_BRIEF = 200
"""Length to which a message cuts a value, in characters."""
_NO_CHARACTER = re.compile("[\ud800-\udfff]")


def go_text(value: Any) -> str:
    """Print a value as ``fmt.Sprint`` does after ``encoding/json`` decoded it."""
    match value:
        case None:
            return "<nil>"
        # bool comes before int, of which it is a subclass.
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            # Kubernetes decodes an integer that is no int64 to a float64 (sigs.k8s.io/json).
            return str(value) if -_INT64 <= value < _INT64 else _float(float(value), 6)
        case float():
            return _float(value, 6)
        case complex():
            imaginary = go_text(value.imag)
            plus = "" if imaginary.startswith("-") else "+"
            return f"({go_text(value.real)}{plus}{imaginary}i)"
        case dict():
            entries = (f"{name}:{go_text(value[name])}" for name in sorted(value))
            return f"map[{' '.join(entries)}]"
        case list() | tuple():
            return f"[{' '.join(go_text(item) for item in value)}]"
        case _:
            return str(value)


def brief(value: Any) -> str:
    """Print a value as :func:`go_text` does, cut for a message."""
    text = go_text(value)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}..."


_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def go_type(value: Any) -> str:
    """Return the Go type that ``encoding/json`` decodes a value to."""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return "float64"
    return _TYPES.get(type(value), "<nil>")


# encoding/json escapes these so that its output may stand in HTML and JavaScript.
_ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def go_json(value: Any) -> str:
    """Encode compact JSON with sorted keys and with ``<``, ``>`` and ``&`` escaped."""
    if _is_plain(value):
        try:
            text = msgspec.json.encode(value, order="sorted").decode()
        except (UnicodeEncodeError, TypeError):
            # A surrogate is a byte that is not UTF-8, which msgspec refuses and Go replaces.
            return json_by_member(value)
        # These characters only occur inside strings.
        return text.translate(_ESCAPED)
    return json_by_member(value)


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is JSON without numbers that Go formats differently."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        match item:
            case None | bool() | str():
                continue
            case int() if -_INT64 <= item < _INT64:
                continue
            case list():
                waiting += item
            case dict():
                waiting += item.values()
            case _:
                return False
    return True


def json_by_member(value: Any) -> str:
    """Encode any value of a template as :func:`go_json` does, member by member."""
    match value:
        case None | bool() | str():
            text = json.dumps(value, ensure_ascii=False)
            for character in "<>&\u2028\u2029":
                text = text.replace(character, f"\\u{ord(character):04x}")
            # encoding/json writes this escape for a byte that is not UTF-8.
            return _NO_CHARACTER.sub(r"\\ufffd", text)
        case int() if -_INT64 <= value < _INT64:
            return str(value)
        case int():
            return json_by_member(float(value))
        case float():
            # encoding/json writes exponents below 1e-6 and from 1e21 on, as ES6 does, and e-7 for
            # the e-07 of strconv.
            return _float(value, 21, lowest=-6).replace("e-0", "e-")
        case dict():
            entries = (
                f"{json_by_member(name)}:{json_by_member(value[name])}" for name in sorted(value)
            )
            return f"{{{','.join(entries)}}}"
        case _:
            return f"[{','.join(json_by_member(item) for item in value)}]"


def go_float(value: float) -> str:
    """Print a float with the shortest digits, as ``%v`` does."""
    return _float(value, 6)


def _float(value: float, highest: int, *, lowest: int = -4) -> str:
    """Print the shortest digits, with an exponent below ``lowest`` and from ``highest`` on."""
    # repr has the fewest digits that give the float back, as strconv with precision -1.
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if not isinstance(exponent, int):
        return "NaN" if exponent in {"n", "N"} else ("-Inf" if sign else "+Inf")
    text = "".join(map(str, digits))
    scale = len(text) + exponent - 1
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0"
    limit = max(highest, 21) if highest > 6 else highest
    if scale < lowest or scale >= limit:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{'-' if scale < 0 else '+'}{abs(scale):02d}"
    return f"{Decimal(repr(value)).normalize():f}"
