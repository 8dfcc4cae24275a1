"""The nodes of a template; expressions print as written, for error messages."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from fairlead.api.golang.values import Int


_LONGEST = 1_000


class TemplateError(ValueError):
    """A template is invalid, does not fit its data, or exceeds a bound.

    The text is cut to fit into a condition.
    """

    # Errors repeat parts of the template, which is as long as a tenant likes.
    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


class Dot(msgspec.Struct, frozen=True):
    """The current value."""

    position: int

    def __str__(self) -> str:
        return "."


class Nil(msgspec.Struct, frozen=True):
    """The word ``nil``."""

    position: int

    def __str__(self) -> str:
        return "nil"


class Bool(msgspec.Struct, frozen=True):
    """``true`` or ``false``."""

    position: int
    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


class Number(msgspec.Struct, frozen=True):
    """A number or a character; the value is None if it does not fit into ``int``."""

    position: int
    text: str
    value: Int | float | complex | None

    def __str__(self) -> str:
        return self.text


class Quoted(msgspec.Struct, frozen=True):
    """A string, as written and as decoded."""

    position: int
    text: str
    value: str

    def __str__(self) -> str:
        return self.text


class Function(msgspec.Struct, frozen=True):
    """The name of a function."""

    position: int
    name: str

    def __str__(self) -> str:
        return self.name


class FieldNode(msgspec.Struct, frozen=True):
    """A path of fields of the current value."""

    position: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


class VariableNode(msgspec.Struct, frozen=True):
    """A variable with ``$`` in its name, and a path of its fields."""

    position: int
    name: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.fields))


class ChainNode(msgspec.Struct, frozen=True):
    """A path of fields of an expression's value."""

    position: int
    of: PipelineNode | Function
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((_operand(self.of), *self.fields))


class Command(msgspec.Struct, frozen=True):
    """An operand, or a function with its arguments."""

    position: int
    words: tuple[Operand, ...]

    def __str__(self) -> str:
        return " ".join(map(_operand, self.words))


class PipelineNode(msgspec.Struct, frozen=True):
    """Commands, each with the previous value as last argument, and variables for the result."""

    position: int
    commands: tuple[Command, ...]
    variables: tuple[VariableNode, ...] = ()
    assigns: bool = False

    def __str__(self) -> str:
        names = ", ".join(map(str, self.variables))
        mark = " = " if self.assigns else " := "
        return f"{names}{mark if names else ''}{' | '.join(map(str, self.commands))}"


Operand: TypeAlias = (
    Dot
    | Nil
    | Bool
    | Number
    | Quoted
    | Function
    | FieldNode
    | VariableNode
    | ChainNode
    | PipelineNode
)


def _operand(node: Operand) -> str:
    return f"({node})" if isinstance(node, PipelineNode) else str(node)


class TextNode(msgspec.Struct, frozen=True):
    """Text between actions."""

    text: str


class ActionNode(msgspec.Struct, frozen=True):
    """A pipeline whose value is printed, unless it sets variables."""

    position: int
    pipeline: PipelineNode

    def __str__(self) -> str:
        return f"{{{{{self.pipeline}}}}}"


class CallNode(msgspec.Struct, frozen=True):
    """``template``, or the place of a ``block``."""

    position: int
    name: str
    quoted: str
    pipeline: PipelineNode | None

    def __str__(self) -> str:
        return f"{{{{template {self.quoted}{f' {self.pipeline}' if self.pipeline else ''}}}}}"


class Branch(msgspec.Struct, frozen=True):
    """``if``, ``with`` or ``range``."""

    position: int
    word: str
    pipeline: PipelineNode
    body: list[Node]
    otherwise: list[Node] | None

    def __str__(self) -> str:
        return f"{{{{{self.word} {self.pipeline}}}}}"


class Jump(msgspec.Struct, frozen=True):
    """``break`` or ``continue``."""

    word: str


Node: TypeAlias = TextNode | ActionNode | CallNode | Branch | Jump
Placed: TypeAlias = Operand | Command | ActionNode | CallNode | Branch
