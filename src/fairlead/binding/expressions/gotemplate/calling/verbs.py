"""``printf``: Go's verbs and flags (https://pkg.go.dev/fmt), for the types that templates have."""

from __future__ import annotations

import re
from typing import Any

from fairlead.api.golang.values import (
    Byte,
    box,
    from_bytes,
    joined,
    to_bytes,
    type_name,
)
from fairlead.binding.expressions.gotemplate.bounds import ESCAPING, RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.fields import (
    Flags,
    floating,
    hexadecimal,
    integer,
    padded,
    quoted,
    unicode,
)


_MOST = 1_000_000
"""Largest width or precision from an argument; in the format ten times as large."""
# Go refuses numbers from 10,000,010 on: a longer text is never converted.
_LENGTH = 9
_FLAGS = re.compile(r"[#0+\- ]*")
_NUMBER = re.compile(r"[0-9]*")
_POSITION = re.compile(r"\[([^\]]*)\]")
_DIGITS = re.compile(r"[0-9]{1,7}")


def formatted(budget: RenderingBudget, layout: str, *values: Any) -> str:
    """Replace the verbs of a format; errors are in the text, as in Go."""
    return _Printer(budget, layout, values).run()


class _Printer:
    def __init__(self, budget: RenderingBudget, layout: str, values: tuple[Any, ...]) -> None:
        self.budget = budget
        self.layout = layout
        self.values = values
        self.position = 0
        # Looked for once: else many [ without an end would each be read to the end of the format.
        self.last = layout.rfind("]")
        self.next = 0
        self.reordered = False
        self.fits = True
        self.parts: list[str] = []

    def add(self, text: str) -> None:
        self.budget.spend(len(text) + 1)
        self.parts.append(text)

    def run(self) -> str:
        while (start := self.layout.find("%", self.position)) >= 0:
            self.add(self.layout[self.position : start])
            self.position = start + 1
            self.verb()
        self.add(self.layout[self.position :])
        # Go calls no argument extra if the format numbers any.
        if not self.reordered and self.next < len(self.values):
            self.extra()
        return joined(self.parts)

    def extra(self) -> None:
        shown: list[str] = []
        for value in self.values[self.next :]:
            name = "" if value is None else f"{type_name(value)}="
            shown.append(name + self.value(value, "v", Flags()))
        self.add(f"%!(EXTRA {', '.join(shown)})")

    def verb(self) -> None:
        """Process a verb, from after its ``%``."""
        flags = self.flags()
        self.fits = True
        numbered = self.precision(flags, self.width(flags))
        if not numbered:
            self.argument_number()
        if self.position >= len(self.layout):
            self.add("%!(NOVERB)")
            return
        verb = self.layout[self.position]
        self.position += 1
        if verb == "%":
            self.add("%")
        elif not self.fits:
            self.add(f"%!{verb}(BADINDEX)")
        elif self.next >= len(self.values):
            self.add(f"%!{verb}(MISSING)")
        else:
            value = self.values[self.next]
            self.next += 1
            # %#v and %+v are forms of a whole value, and no flags of the numbers in it.
            if verb in "vw":
                flags.syntax, flags.sharp = flags.sharp, False
                flags.plus = False
            self.add(self.value(value, verb, flags))

    def flags(self) -> Flags:
        flags = _FLAGS.match(self.layout, self.position).group()  # type: ignore[union-attr]
        self.position += len(flags)
        return Flags(
            sharp="#" in flags,
            zero="0" in flags,
            plus="+" in flags,
            minus="-" in flags,
            space=" " in flags,
        )

    def argument_number(self) -> bool:
        """Consume ``[3]``, the number of the next argument; return whether there was one."""
        if not self.layout.startswith("[", self.position):
            return False
        self.reordered = True
        closed = self.position < self.last
        position = _POSITION.match(self.layout, self.position) if closed else None
        self.position = position.end() if position else self.position + 1
        digits = position[1] if position else ""
        is_number = bool(_DIGITS.fullmatch(digits))
        number = int(digits) if is_number else 0
        if 0 < number <= len(self.values):
            self.next = number - 1
        else:
            self.fits = False
        return is_number

    def width(self, flags: Flags) -> bool:
        """Consume the width; return whether an unused argument number precedes the next part."""
        numbered = self.argument_number()
        if not self.star():
            flags.width = self.digits()
            self.fits = self.fits and not (numbered and flags.width is not None)
            return numbered
        flags.width = self.from_argument()
        if flags.width is None:
            self.add("%!(BADWIDTH)")
        # A negative width is the flag -, which fills up with spaces.
        elif flags.width < 0:
            flags.width, flags.minus, flags.zero = -flags.width, True, False
        return False

    def precision(self, flags: Flags, numbered: bool) -> bool:
        """Consume an optional precision; return whether an argument number precedes the verb."""
        if not self.layout.startswith(".", self.position):
            return numbered
        self.position += 1
        self.fits = self.fits and not numbered
        numbered = self.argument_number()
        if not self.star():
            flags.precision = self.digits() or 0
            return numbered
        flags.precision = self.from_argument()
        if flags.precision is None or flags.precision < 0:
            flags.precision = None
            self.add("%!(BADPREC)")
        return False

    def star(self) -> bool:
        if not self.layout.startswith("*", self.position):
            return False
        self.position += 1
        return True

    def digits(self) -> int | None:
        digits = _NUMBER.match(self.layout, self.position).group()  # type: ignore[union-attr]
        self.position += len(digits)
        number = digits.lstrip("0") or "0"
        if len(number) > _LENGTH or int(number) // 10 > _MOST:
            # As in Go, the rest of the format is skipped after such a number.
            self.position = len(self.layout)
            return None
        return int(number) if digits else None

    def from_argument(self) -> int | None:
        if self.next >= len(self.values):
            return None
        value = self.values[self.next]
        self.next += 1
        is_int = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if is_int and abs(value) <= _MOST else None

    def value(self, value: Any, verb: str, flags: Flags) -> str:
        """Format a value by a verb."""
        value = box(value).value
        if value is None:
            return padded("<nil>", flags) if verb in "vT" else self.bad(value, verb, flags)
        if verb == "T":
            return padded(type_name(value)[: flags.precision], flags)
        match value:
            # Go prints an address for %p, and accepts %w only for errors.
            case dict() if verb not in "pw":
                return self.members(value, verb, flags)
            case list() if verb not in "pw":
                return self.items(value, verb, flags)
        if isinstance(value, str):
            self.budget.spend(len(value) * (ESCAPING if verb == "q" or flags.syntax else 1))
        shown = _scalar(value, verb, flags)
        return self.bad(value, verb, flags) if shown is None else shown

    def bad(self, value: Any, verb: str, flags: Flags) -> str:
        if value is None:
            return f"%!{verb}(<nil>)"
        return f"%!{verb}({type_name(value)}={self.value(value, 'v', flags)})"

    def members(self, value: dict[str, Any], verb: str, flags: Flags) -> str:
        shown: list[str] = []
        for name in sorted(value):
            key = self.value(name, verb, flags)
            shown.append(f"{key}:{self.inner(value[name], verb, flags)}")
        if flags.syntax:
            return f"{type_name(value)}{{{', '.join(shown)}}}"
        return f"map[{' '.join(shown)}]"

    def items(self, value: list[Any], verb: str, flags: Flags) -> str:
        shown = [self.inner(item, verb, flags) for item in value]
        if flags.syntax:
            return f"{type_name(value)}{{{', '.join(shown)}}}"
        return f"[{' '.join(shown)}]"

    def inner(self, value: Any, verb: str, flags: Flags) -> str:
        """Format a member of a list or object, and subtract it from the budget."""
        if value is None:
            shown = "interface {}(nil)" if flags.syntax else "<nil>"
        else:
            shown = self.value(value, verb, flags)
        self.budget.spend(len(shown) + 1)
        return shown


def _scalar(value: Any, verb: str, flags: Flags) -> str | None:
    """Format a scalar; return None for a verb that its type does not support."""
    match value:
        case bool():
            return padded("true" if value else "false", flags) if verb in "tv" else None
        case int():
            return _whole(value, verb, flags)
        case float():
            return floating(value, verb, flags) if verb in "vbgGxXfFeE" else None
        case complex():
            return _complex(value, verb, flags) if verb in "vbgGxXfFeE" else None
    return _string(value, verb, flags)


def _whole(value: int, verb: str, flags: Flags) -> str | None:
    match verb:
        # In Go's syntax unsigned numbers are hexadecimal.
        case "v" if flags.syntax and isinstance(value, Byte):
            flags = flags.copy(sharp=True)
            return integer(value, "x", flags)
        case "v" | "d":
            return integer(value, "d", flags)
        case "b" | "o" | "O" | "x" | "X":
            return integer(value, verb, flags)
        case "c":
            return padded(_rune(value), flags)
        case "q":
            return padded(quoted(_rune(value), flags, "'"), flags)
        case "U":
            return unicode(value, flags)
    return None


def _rune(value: int) -> str:
    valid = 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000
    return chr(value) if valid else "\ufffd"


def _complex(value: complex, verb: str, flags: Flags) -> str:
    real = floating(value.real, verb, flags)
    return f"({real}{floating(value.imag, verb, flags.copy(plus=True))}i)"


def _string(value: str, verb: str, flags: Flags) -> str | None:
    if verb in "xX":
        # A precision counts bytes here, and characters below.
        content = to_bytes(value)
        return hexadecimal(content[: flags.precision], verb, flags)
    if verb not in "vsq":
        return None
    text = value if flags.precision is None else value[: flags.precision]
    if verb == "q" or flags.syntax:
        return padded(quoted(text, flags, '"'), flags)
    # JSON may have half of a surrogate pair, which Go decodes as U+FFFD.
    return padded(from_bytes(to_bytes(text)), flags)
