"""Flags of programs, each declared once: by an annotation, and by a text in the docstring.

``workers: Annotated[int, Flag(least=1, most=256)] = 32`` declares ``--workers``, as a field of a
program's options or as a parameter of the function that makes its manifests. Its help stands
below ``Attributes:`` or ``Args:`` in the docstring of the struct or the function. The command line
makes its options of that, and :func:`read` passes on the values that users give.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from fairlead.api.durations import parse_duration


T = TypeVar("T")


class Flag(msgspec.Struct, frozen=True):
    """A flag of a field, which gives its type, its default and its name, unless they are here.

    ``name`` may be several, with blanks between them, or one with its opposite, as
    ``--exported/--no-exported``. The field is what ``parse`` returns for the flag's value, of
    which ``default`` then is one; with None the help has none. A flag of a bool with a ``metavar``
    takes true or false, one of bytes the path of a file with them. ``least`` and ``most`` are
    inclusive, ``choices`` are all values, those in small letters in any case, ``environment`` is
    the variable that may have the value, and ``names`` says what a value is the name of.

    ``parse`` raises a ValueError that names the flag.
    """

    name: str = ""
    metavar: str | None = None
    default: Any = msgspec.UNSET
    parse: Callable[[Any], Any] | None = None
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    environment: str = ""
    names: Literal["", "object", "namespace"] = ""
    hidden: bool = False


class DeclaredFlag(NamedTuple):
    """A flag with the name, type and default of its value, and its help."""

    name: str
    flag: Flag
    type: Any
    default: Any
    required: bool
    help: str

    @property
    def names(self) -> list[str]:
        """The flag as users write it, such as ``["--workers"]``."""
        return (self.flag.name or f"--{self.name.replace('_', '-')}").split()


def declarations(options: Callable[..., object]) -> Iterator[DeclaredFlag]:
    """Yield the flags of a struct's fields or a function's parameters, in their order.

    Those of a struct in a field are among them.

    Raises:
        KeyError: the docstring lacks a flag; one that its field does not mean has its own name.
    """
    texts = _texts(options)
    for field in _fields(options):
        for flag in field.flags:
            kind, default = field.type, field.default
            if flag.default is not msgspec.UNSET:
                default = flag.default
                kind = kind if default is None else type(default)
            required = field.default is inspect.Parameter.empty
            default = None if default is inspect.Parameter.empty else default
            name = field.name_of(flag)
            # Python without docstrings, by -OO, has no help of commands either.
            text = "" if flag.hidden or not texts else texts.get(name) or texts[field.name]
            yield DeclaredFlag(name, flag, kind, default, required, text)
        if field.inner:
            yield from declarations(field.inner)


def read(options: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Return the struct, or what the function returns, of the values of flags.

    A field of several flags takes the value of the first one. One without a flag may have a
    value by its own name; else it has its default, or is read of the same values.

    Raises:
        ValueError: a value is refused; the message names the flag.
    """
    members: dict[str, Any] = {}
    for field in _fields(options):
        flag = field.flags[0] if field.flags else Flag()
        name = field.name_of(flag)
        if name in values:
            members[field.name] = flag.parse(values[name]) if flag.parse else values[name]
        elif field.inner:
            members[field.name] = read(field.inner, values)
    return options(**members)


def arguments(options: Callable[..., object], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a command line with the values of flags, each of a tuple's by itself.

    Raises:
        ValueError: a value is refused; the message names the flag.
    """
    flags = {flag.name: flag for flag in declarations(options)}
    line: list[str] = []
    for name, value in values.items():
        if parse := flags[name].flag.parse:
            parse(value)
        items = value if isinstance(value, tuple) else (value,)
        line += [f"{flags[name].names[0]}={item}" for item in items]
    return tuple(line)


def separated(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a flag that may be repeated, or have several with commas, as in Go."""
    return tuple(filter(None, map(str.strip, ",".join(texts).split(","))))


def parse_seconds(flag: str, text: str, *, least: str = "") -> float:
    """Return the seconds of a duration such as 90s, 2m or 1h30m; a bare number is in seconds.

    Args:
        flag: the flag's name, for the message.
        text: the given text.
        least: the shortest allowed duration; "" allows all above zero.

    Raises:
        ValueError: the text is no duration, not above zero, or shorter than ``least``.
    """
    prefix = f"{flag}: " if flag else ""
    duration = parse_duration(text)
    # Without isascii, isdigit also takes characters such as ², which float refuses.
    is_number = text.isascii() and text.replace(".", "", 1).isdigit()
    if duration is not None:
        seconds = duration.total_seconds()
    else:
        seconds = float(text) if is_number else -1.0
    if seconds == 0:
        raise ValueError(f"{prefix}{text} is too short: give more than 0")
    # More digits than a float holds are infinity.
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{prefix}{text!r} is not a duration: use for example 90s or 2m")
    if least and seconds < parse_seconds("", least):
        raise ValueError(f"{prefix}{text} is too short: the minimum is {least}")
    return seconds


class _Field(NamedTuple):
    name: str
    type: Any
    default: Any
    flags: tuple[Flag, ...]
    inner: Callable[..., Any] | None

    def name_of(self, flag: Flag) -> str:
        """Return the name of the flag's value."""
        first = flag.name.replace("/", " ").split()[0] if flag.name else self.name
        return first.removeprefix("--").replace("-", "_")


def _fields(options: Callable[..., object]) -> Iterator[_Field]:
    hints = get_type_hints(options, include_extras=True)
    for name, parameter in inspect.signature(options).parameters.items():
        annotated = get_origin(hints[name]) is Annotated
        kind, *more = get_args(hints[name]) if annotated else [hints[name]]
        flags = tuple(part for part in more if isinstance(part, Flag))
        inner = _inner(kind) if isinstance(options, type) and not flags else None
        yield _Field(name, kind, parameter.default, flags, inner)


def _inner(kind: Any) -> Callable[..., Any] | None:
    """Return the options in a field, which may be optional."""
    for part in get_args(kind) or (kind,):
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and any(declarations(part)):
            return part
    return None


_SECTION = re.compile(r"^(?:Args|Attributes):\n((?: +.*\n?|\n)*)", re.MULTILINE)
_TEXT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def _texts(options: Callable[..., object]) -> dict[str, str]:
    """Return the texts of fields or parameters in a docstring, each as one line."""
    section = _SECTION.search(inspect.getdoc(options) or "")
    entries = _TEXT.findall(section[1]) if section else []
    return {name: " ".join(text.split()) for name, text in entries}
