"""Flags of programs, each declared once: as the annotation of a field of a program's options.

``workers: Annotated[int, Flag("Number of objects at a time.", least=1, most=256)] = 32`` declares
``--workers``. The command line makes its options of the struct, and :func:`read` makes the struct
of the values that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec


T = TypeVar("T", bound=msgspec.Struct)


class Flag(msgspec.Struct, frozen=True):
    """A flag of a field, which gives its type, its default and its name, unless they are here.

    ``name`` may be several, with blanks between them. A flag without ``help`` is hidden. The field
    is what ``parse`` returns for the flag's value, of which ``default`` then is one. A flag of a
    bool with a ``metavar`` takes true or false. ``least`` and ``most`` are inclusive, and
    ``environment`` is the variable that may have the value.

    ``parse`` raises a ValueError that names the flag.
    """

    help: str = ""
    name: str = ""
    metavar: str | None = None
    default: Any = msgspec.UNSET
    parse: Callable[[Any], Any] | None = None
    least: float | None = None
    most: float | None = None
    environment: str = ""


class Parameter(NamedTuple):
    """A flag with the name, type and default of its value."""

    name: str
    flag: Flag
    type: Any
    default: Any

    @property
    def names(self) -> list[str]:
        """The flag as users write it, such as ``["--workers"]``."""
        return (self.flag.name or f"--{self.name.replace('_', '-')}").split()


def parameters(options: type[msgspec.Struct]) -> Iterator[Parameter]:
    """Yield the flags of the fields, in their order, also of options within them."""
    for field in msgspec.structs.fields(options):
        for flag in _flags(field):
            kind, default = get_args(field.type)[0], field.default
            if default is msgspec.NODEFAULT:
                default = None
            if flag.default is not msgspec.UNSET:
                kind, default = type(flag.default), flag.default
            yield Parameter(_parameter(field, flag), flag, kind, default)
        if inner := _inner(field):
            yield from parameters(inner)


def read(options: type[T], values: Mapping[str, Any]) -> T:
    """Return the options of their parameters' values.

    A field of several flags takes the value of the first one. One without a flag may have a
    value by its own name; else it has its default, or is read of the same values.

    Raises:
        ValueError: a value is refused; the message names the flag.
    """
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(options):
        flag = next(_flags(field), None)
        name = _parameter(field, flag) if flag else field.name
        if name in values:
            parse = flag and flag.parse
            found[field.name] = parse(values[name]) if parse else values[name]
        elif inner := _inner(field):
            found[field.name] = read(inner, values)
    return options(**found)


def _flags(field: msgspec.structs.FieldInfo) -> Iterator[Flag]:
    if get_origin(field.type) is Annotated:
        yield from (part for part in get_args(field.type)[1:] if isinstance(part, Flag))


def _parameter(field: msgspec.structs.FieldInfo, flag: Flag) -> str:
    if not flag.name:
        return field.name
    return flag.name.split()[0].removeprefix("--").replace("-", "_")


def _inner(field: msgspec.structs.FieldInfo) -> type[msgspec.Struct] | None:
    """Return the options in a field without flags, which may be optional."""
    for kind in get_args(field.type) or (field.type,):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and any(parameters(kind)):
            return kind
    return None
