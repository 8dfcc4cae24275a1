"""The nodes of a JSONPath template, its errors and its budget."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


_LONGEST = 1_000
"""Length to which an error's text is cut, in characters."""


class JSONPathError(ValueError):
    """The template is invalid, or finds nothing in its input.

    The text is cut to fit into a condition.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


class MissingField(JSONPathError):  # noqa: N818 (named after what it says)
    """No input has the field."""


class Exhausted(JSONPathError):  # noqa: N818 (named after what it says)
    """The template exceeds a bound; the text names the bound."""


class BudgetExhausted(Exhausted):
    """Several templates together exceed their shared bound; the text names the bound."""


class Budget:
    """Largest number of values that several templates visit together; ``text`` is the error's."""

    def __init__(self, left: int, text: str) -> None:
        self.left = left
        self._text = text

    def spend(self, count: int) -> None:
        """Subtract visited values.

        Raises:
            BudgetExhausted: too few were left.
        """
        self.left -= count
        if self.left < 0:
            raise BudgetExhausted(self._text)


class Text(msgspec.Struct, frozen=True):
    """Text outside of actions, or a quoted text within one."""

    text: str


class Constant(msgspec.Struct, frozen=True):
    """A number or a boolean."""

    value: int | float | bool


class Identifier(msgspec.Struct, frozen=True):
    """A bare word; ``range`` and ``end`` are the only ones with a meaning."""

    name: str


class FieldStep(msgspec.Struct, frozen=True):
    """The value under a name."""

    name: str


class Wildcard(msgspec.Struct, frozen=True):
    """Every value of a list or an object."""


class Recursive(msgspec.Struct, frozen=True):
    """The value itself and every container inside it."""


class Slice(msgspec.Struct, frozen=True):
    """Elements of a list; ``index`` means the single element at ``start``."""

    start: int | None
    stop: int | None
    step: int | None
    index: bool = False


class Path(msgspec.Struct, frozen=True):
    """Steps, each applied to the results of the one before."""

    steps: tuple[Node, ...]


class Filter(msgspec.Struct, frozen=True):
    """Elements for which the comparison holds; without an operator those that have ``left``."""

    left: Path
    operator: str = ""
    right: Path = Path(())


class Union(msgspec.Struct, frozen=True):
    """The results of several paths, in order."""

    paths: tuple[Path, ...]


Node: TypeAlias = (
    Text | Constant | Identifier | FieldStep | Wildcard | Recursive | Slice | Filter | Union | Path
)
