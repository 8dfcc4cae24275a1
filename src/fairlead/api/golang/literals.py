"""Go's literals: quoting and unquoting of strings, characters and numbers."""

from __future__ import annotations

import math
import re

from fairlead.api.golang.values import Int, from_bytes, to_bytes


class LiteralError(ValueError):
    """A literal that Go refuses; the text is Go's."""


# Source: https://go.dev/ref/spec#Rune_literals and #String_literals.
_NAMED = dict(zip("abfnrtv\\'\"", (7, 8, 12, 10, 13, 9, 11, 92, 39, 34), strict=True))
_LETTERS = {code: letter for letter, code in _NAMED.items() if letter not in "'\""}
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<named>.)|\Z)",
    re.DOTALL,
)


def unquote(text: str) -> str:
    """Decode a quoted or raw string literal.

    Raises:
        LiteralError: an escape is invalid.
    """
    body = text[1:-1]
    # Raw strings have no escapes, and Go drops carriage returns from them.
    if text[0] == "`":
        return body.replace("\r", "")
    if "\\" not in body:
        return body
    foreign = "'" if text[0] == '"' else '"'
    plain = _ESCAPE.sub(lambda match: _escaped(match, foreign)[0], body)
    # Bytes that were written as one escape each become their character.
    return from_bytes(to_bytes(plain))


def character(text: str) -> Int:
    """Decode a character constant to its code point.

    Raises:
        LiteralError: it is not a single character.
    """
    if text[1] == "\\":
        match = _ESCAPE.match(text, 1)
        if match is None or text[1:] == "\\'":
            raise LiteralError("invalid syntax")
        code, end = _escaped(match, '"')[1], match.end()
    elif text[1] == "'":
        raise LiteralError("invalid syntax")
    else:
        code, end = ord(text[1]), 2
    if text[end:] != "'":
        raise LiteralError(f"malformed character constant: {text}")
    return Int(code)


def _escaped(match: re.Match[str], foreign: str) -> tuple[str, int]:
    """Decode an escape to characters and a code; ``foreign`` is the quote that has no escape."""
    octal, byte = match["octal"], match["byte"]
    if octal or byte:
        code = int(octal, 8) if octal else int(byte, 16)
        if code > 255:
            raise LiteralError("invalid syntax")
        # A byte beyond ASCII is a surrogate here, as fairlead.api.golang.values says.
        return (chr(code) if code < 128 else chr(0xDC00 + code)), code
    if match["short"] or match["long"]:
        code = int(match["short"] or match["long"], 16)
        # Go allows no halves of surrogate pairs in an escape.
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise LiteralError("invalid syntax")
        return chr(code), code
    named = match["named"]
    if named not in _NAMED or named == foreign:
        raise LiteralError("invalid syntax")
    return chr(_NAMED[named]), _NAMED[named]


def quote(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """Quote a string, or with ``'`` as mark a character, as in Go source."""
    return f"{mark}{''.join(_shown(char, mark, ascii_only) for char in text)}{mark}"


def _shown(char: str, mark: str, ascii_only: bool) -> str:
    code = ord(char)
    if char in {mark, "\\"}:
        return f"\\{char}"
    if char.isprintable() and (code < 128 or not ascii_only):
        return char
    if code in _LETTERS:
        return f"\\{_LETTERS[code]}"
    if 0xDC80 <= code < 0xDD00:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_WHOLE = re.compile(
    r"[+-]?(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<bin>(?:_?[01])+)"
    r"|0[oO]?(?P<oct>(?:_?[0-7])+)|(?P<dec>0|[1-9](?:_?[0-9])*))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
# Possessive, since backtracking over the digits of an invalid number would be exponential.
_DECIMAL = re.compile(
    r"[+-]?(?:\d(?:_?\d)*+\.?(?:\d(?:_?\d)*+)?|\.\d(?:_?\d)*+)(?:[eE][+-]?\d(?:_?\d)*+)?",
    re.ASCII,
)
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX]_?(?:[\da-fA-F](?:_?[\da-fA-F])*+\.?(?:[\da-fA-F](?:_?[\da-fA-F])*+)?"
    r"|\.[\da-fA-F](?:_?[\da-fA-F])*+)[pP][+-]?\d(?:_?\d)*+",
    re.ASCII,
)
_DIGITS = 400
"""Largest number of digits to parse: a longer integer fits no type of Go, and costs time."""
_COMPLEX = re.compile(r"(.*?[^eEpP])([+-].*)i")


def number(text: str) -> Int | float | complex | None:
    """Decode a number; return None for one that only fits into an unsigned integer.

    Raises:
        LiteralError: the text is not a number, or too large.
    """
    if text.endswith("i"):
        return _imaginary(text)
    # The order of newNumber in Go's text/template/parse: integers, then floats, then the error of
    # an integer that is too large.
    whole, real = _whole(text), None
    if whole is None or _is_float(text):
        real = _float(text)
        if real is None and whole is None:
            raise LiteralError(f'illegal number syntax: "{text}"')
    if whole is None and not any(mark in text for mark in ".eEpP"):
        raise LiteralError(f'integer overflow: "{text}"')
    if whole is None or _is_float(text):
        return float(whole or 0) if real is None else real
    return Int(whole) if -(2**63) <= whole < 2**63 else None


def _is_float(text: str) -> bool:
    # In a hexadecimal number e is a digit, and p begins the exponent.
    hexadecimal = text[:2] in {"0x", "0X"} and "p" not in text and "P" not in text
    return not hexadecimal and any(mark in text for mark in ".eEpP")


def _whole(text: str) -> int | None:
    match = _WHOLE.fullmatch(text)
    if not match:
        return None
    name = match.lastgroup or "dec"
    digits = match[name].replace("_", "").lstrip("0") or "0"
    if len(digits) > _DIGITS:
        return None
    value = int(digits, _BASES[name]) * (-1 if text[0] == "-" else 1)
    # Go parses an unsigned integer first, which has no sign, and then a signed one.
    low = 0 if text[0] == "+" or value >= 2**63 else -(2**63)
    fits = value < 2**64 and text[0] not in "+-" if value >= 2**63 else value >= low
    return value if fits else None


def _float(text: str) -> float | None:
    try:
        if _HEXADECIMAL.fullmatch(text):
            value = float.fromhex(text.replace("_", ""))
        elif _DECIMAL.fullmatch(text):
            value = float(text)
        else:
            return None
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _imaginary(text: str) -> complex:
    match = _COMPLEX.fullmatch(text)
    parts = match.groups() if match else ("0", text[:-1])
    values = [_float(part) for part in parts]
    if values[0] is None or values[1] is None:
        raise LiteralError(f'illegal number syntax: "{text}"')
    return complex(values[0], values[1])
