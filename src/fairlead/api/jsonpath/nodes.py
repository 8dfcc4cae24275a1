"""The nodes of a parsed template."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


_LONGEST = 1_000


class JSONPathError(ValueError):
    """The template cannot be read, or finds nothing in the value it is applied to.

    The text fits into a condition, however large the value is that it shows.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


class MissingField(JSONPathError):  # noqa: N818 (named after what it says)
    """No input has the field."""


class Exhausted(JSONPathError):  # noqa: N818 (named after what it says)
    """The template goes beyond a bound; the text names it."""


class BudgetExhausted(Exhausted):
    """Several templates together go beyond a bound that they share; the text names it."""


class Budget:
    """Values that several templates may look at together; ``text`` says it of more."""

    def __init__(self, left: int, text: str) -> None:
        self.left = left
        self._text = text

    def spend(self, count: int) -> None:
        """Look at so many.

        Raises:
            BudgetExhausted: there are no more to look at.
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


class Field(msgspec.Struct, frozen=True):
    """The value under a name."""

    name: str


class Wildcard(msgspec.Struct, frozen=True):
    """Every value of a list or an object."""


class Recursive(msgspec.Struct, frozen=True):
    """The value itself and every container below it."""


class Slice(msgspec.Struct, frozen=True):
    """Elements of a list; ``index`` stands for the single element at ``start``."""

    start: int | None
    stop: int | None
    step: int | None
    index: bool = False


class Path(msgspec.Struct, frozen=True):
    """Steps, each applied to what the one before it found."""

    steps: tuple[Node, ...]


class Filter(msgspec.Struct, frozen=True):
    """Elements for which the comparison holds; no operator means that ``left`` exists."""

    left: Path
    operator: str = ""
    right: Path = Path(())


class Union(msgspec.Struct, frozen=True):
    """The results of several paths, one after the other."""

    paths: tuple[Path, ...]


Node: TypeAlias = (
    Text | Constant | Identifier | Field | Wildcard | Recursive | Slice | Filter | Union | Path
)
