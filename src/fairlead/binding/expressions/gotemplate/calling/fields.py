"""Formatting of one number or string by flags, width and precision."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from fairlead.api.golang.literals import quote
from fairlead.api.golang.text import go_float


class Flags(msgspec.Struct):
    """The flags of one verb; ``syntax`` is ``%#v``."""

    sharp: bool = False
    zero: bool = False
    plus: bool = False
    minus: bool = False
    space: bool = False
    syntax: bool = False
    width: int | None = None
    precision: int | None = None

    def copy(self, **changes: Any) -> Flags:
        """Return a copy of the flags with changes."""
        return msgspec.structs.replace(self, **changes)


def padded(text: str, flags: Flags, *, zero: bool | None = None) -> str:
    """Pad a text to its width in characters."""
    width = flags.width or 0
    if flags.minus:
        return text.ljust(width)
    return text.rjust(width, "0" if (flags.zero if zero is None else zero) else " ")


_BASES = {"d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}


def integer(value: int, verb: str, flags: Flags) -> str:
    """Format an integer; a precision is the least number of digits."""
    if flags.precision == 0 and value == 0:
        return padded("", flags, zero=False)
    sign = "-" if value < 0 else "+" if flags.plus else " " if flags.space else ""
    digits = format(abs(int(value)), _BASES[verb])
    if flags.precision is not None:
        digits = digits.rjust(flags.precision, "0")
    elif flags.zero and not flags.minus and flags.width:
        # The zeros stand between sign and digits; a precision turns them off, as in Go.
        digits = digits.rjust(flags.width - bool(sign), "0")
    return padded(f"{sign}{_prefix(digits, verb, flags)}{digits}", flags, zero=False)


def _prefix(digits: str, verb: str, flags: Flags) -> str:
    if verb in "oO":
        octal = "0" if flags.sharp and not digits.startswith("0") else ""
        return f"0o{octal}" if verb == "O" else octal
    if not flags.sharp:
        return ""
    return {"b": "0b", "x": "0x", "X": "0X"}.get(verb, "")


def unicode(value: int, flags: Flags) -> str:
    """Format a code point as ``U+0041``, with ``#`` followed by the character."""
    # Go formats a negative number by its bits, as uint64.
    code = value if value >= 0 else value + 2**64
    text = f"U+{format(code, 'X').rjust(max(flags.precision or 0, 4), '0')}"
    shown = chr(value) if 0 <= value <= 0x10FFFF else ""
    if flags.sharp and shown.isprintable() and shown:
        text += f" '{shown}'"
    return padded(text, flags, zero=False)


def quoted(text: str, flags: Flags, mark: str) -> str:
    """Quote a string or character as in Go source."""
    if mark == '"' and flags.sharp and _fits_backquotes(text):
        return f"`{text}`"
    return quote(text, mark, ascii_only=flags.plus)


def _fits_backquotes(text: str) -> bool:
    return not any(
        (char < " " and char != "\t") or char in "`\x7f\ufeff" or 0xDC80 <= ord(char) < 0xDD00
        for char in text
    )


def hexadecimal(content: bytes, verb: str, flags: Flags) -> str:
    """Format the bytes of a string; with the space flag separated, each with its prefix."""
    if not content:
        return padded("", flags)
    digits = [format(byte, "02X" if verb == "X" else "02x") for byte in content]
    prefix = f"0{verb}" if flags.sharp else ""
    between = f" {prefix}" if flags.space else ""
    return padded(prefix + between.join(digits), flags)


def floating(value: float, verb: str, flags: Flags) -> str:
    """Format a float; without precision with the shortest digits that represent it."""
    sign = "-" if math.copysign(1, value) < 0 else "+" if flags.plus else ""
    text = _number(abs(value), "g" if verb == "v" else verb, flags.precision)
    if flags.sharp and verb != "b" and math.isfinite(value):
        text = _with_point(text, verb, flags.precision)
    if not sign and flags.space:
        sign = " "
    if flags.zero and not flags.minus and flags.width:
        return sign + text.rjust(flags.width - len(sign), "0")
    return padded(sign + text, flags, zero=False)


def _number(value: float, verb: str, precision: int | None) -> str:
    match verb:
        case "g" | "G":
            text = go_float(value) if precision is None else format(value, f".{precision or 1}g")
        case "x" | "X":
            text = _power(value, precision)
        case "b":
            mantissa, exponent = math.frexp(value)
            # %b has an integer mantissa of 53 bits; -1074 is the exponent of the smallest float64.
            shift = max(exponent - 53, -1074) if value else -1074
            return f"{int(math.ldexp(mantissa, exponent - shift))}p{shift:+d}"
        case _:
            text = format(value, f".{6 if precision is None else precision}{verb.lower()}")
    return text.upper() if verb in "GEX" else text


def _power(value: float, precision: int | None) -> str:
    """Format a float as a hexadecimal fraction and a power of two."""
    mantissa, exponent = math.frexp(value)
    whole, power = (int(math.ldexp(mantissa, 53)), exponent - 1) if value else (0, 0)
    # The 52 bits after the point, in hexadecimal digits.
    digits = 13
    if precision is not None and precision < 13:
        shift = 4 * (13 - precision)
        half, rest = 1 << (shift - 1), whole & ((1 << shift) - 1)
        whole >>= shift
        # A half is rounded to even, as in Go.
        whole += rest > half or (rest == half and whole & 1)
        digits = precision
        # Rounding has carried into the digit before the point.
        if whole >> (4 * digits) > 1:
            whole, power = whole >> 1, power + 1
    lead = whole >> (4 * digits)
    fraction = format(whole & ((1 << 4 * digits) - 1), f"0{digits}x") if digits else ""
    fraction = fraction.rstrip("0") if precision is None else fraction.ljust(precision, "0")
    return (
        f"0x{lead}{'.' if fraction else ''}{fraction}p{'-' if power < 0 else '+'}{abs(power):02d}"
    )


def _with_point(text: str, verb: str, precision: int | None) -> str:
    """Add a point, and for ``%g`` zeros up to the precision, or six digits."""
    body, tail = text, ""
    marks = "pP" if verb in "xX" else "eE"
    for mark in marks:
        if mark in text:
            body, _, exponent = text.partition(mark)
            tail = mark + exponent
    missing = 0
    if verb in "vgGx":
        missing = 6 if precision is None else precision
        missing -= len(body.replace(".", "").lstrip("0"))
    if "." not in body:
        if body == "0":
            missing -= 1
        body += "."
    return body + "0" * max(missing, 0) + tail
