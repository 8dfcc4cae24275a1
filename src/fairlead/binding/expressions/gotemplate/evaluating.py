"""Evaluation of expressions, with the place of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.api.golang.literals import quote
from fairlead.api.golang.values import (
    NO_ARGUMENT,
    NO_VALUE,
    box,
    printable,
    size,
    truth,
    type_name,
    unbox,
)
from fairlead.binding.expressions.gotemplate.bounds import BoundError, RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.calls import Callee, CallError, Kind
from fairlead.binding.expressions.gotemplate.nodes import (
    Bool,
    ChainNode,
    Command,
    Dot,
    FieldNode,
    Function,
    Nil,
    Number,
    Operand,
    PipelineNode,
    Placed,
    Quoted,
    TemplateError,
    VariableNode,
)
from fairlead.binding.expressions.gotemplate.scopes import Variables


class Evaluator:
    """Evaluates expressions in one call of a template; errors name the last operand."""

    def __init__(
        self, text: str, parsed: str, functions: Mapping[str, Callee], budget: RenderingBudget
    ) -> None:
        self.text = text
        self.parsed = parsed
        self.name = parsed
        self.functions = functions
        self.budget = budget
        self.variables = Variables(NO_VALUE)
        self.place: Placed | None = None

    def at(self, node: Placed) -> None:
        """Count a step, and make a node the place of errors."""
        self.budget.step()
        self.place = node

    def error(self, text: str) -> TemplateError:
        """Return an error at the last node, in Go's form."""
        node = self.place
        if node is None:
            return TemplateError(f"template: {self.parsed}: {text}")
        before = self.text[: node.position]
        # In bytes, as Go counts columns.
        column = size(before[before.rfind("\n") + 1 :])
        where = f"{self.parsed}:{before.count(chr(10)) + 1}:{column}"
        name = quote(self.name)
        return TemplateError(f"template: {where}: executing {name} at <{node}>: {text}")

    def pipeline(self, dot: Any, node: PipelineNode) -> Any:
        """Evaluate a pipeline to an unboxed value, and set its variables."""
        self.at(node)
        value: Any = NO_ARGUMENT
        for command in node.commands:
            value = unbox(self._command(dot, command, value))
        for variable in node.variables:
            if node.assigns:
                self.assign(variable.name, value)
            else:
                self.variables.push(variable.name, value)
        return value

    def assign(self, name: str, value: Any) -> None:
        """Assign a value to an existing variable."""
        cell = self.variables.cell(name)
        if cell is None:
            raise self.error(f"undefined variable: {name}")
        cell[0] = value

    def _command(self, dot: Any, node: Command, piped: Any) -> Any:
        first, arguments = node.words[0], node.words[1:]
        match first:
            case Function():
                return self._function(dot, first, node, arguments, piped)
            case FieldNode() | ChainNode() | VariableNode():
                return self._fields(dot, first, bool(arguments) or piped is not NO_ARGUMENT)
            case PipelineNode():
                self._refuse_arguments(first, arguments, piped)
                return self.pipeline(dot, first)
        self.at(first)
        self._refuse_arguments(first, arguments, piped)
        if isinstance(first, Nil):
            raise self.error("nil is not a command")
        return self._plain(dot, first)

    def _refuse_arguments(self, node: Operand, arguments: Sequence[Operand], piped: Any) -> None:
        if arguments or piped is not NO_ARGUMENT:
            raise self.error(f"can't give argument to non-function {node}")

    def _plain(self, dot: Any, node: Operand) -> Any:
        """Return the value of the dot or of a literal."""
        match node:
            case Dot():
                return dot
            case Bool() | Quoted():
                return node.value
            case Number(value=None):
                raise self.error(f"{node} overflows int")
            case Number():
                return node.value
        raise self.error(f"can't evaluate {node}")

    def _fields(
        self, dot: Any, node: FieldNode | ChainNode | VariableNode, has_arguments: bool
    ) -> Any:
        """Return the value of fields or of a variable; neither accepts arguments."""
        self.at(node)
        match node:
            case FieldNode():
                value, names = dot, node.names
            case ChainNode():
                value, names = self._argument(dot, "value", node.of), node.fields
            case VariableNode():
                cell = self.variables.cell(node.name)
                if cell is None:
                    raise self.error(f"undefined variable: {node.name}")
                value, names = cell[0], node.fields
        if not names and has_arguments:
            raise self.error(f"can't give argument to non-function {node}")
        for place, name in enumerate(names, 1):
            value = self._field(value, name, has_arguments and place == len(names))
        return value

    def _field(self, receiver: Any, name: str, has_arguments: bool) -> Any:
        # Go's missingkey=default: a field of a missing key is missing as well, at any depth.
        if receiver is NO_VALUE:
            return NO_VALUE
        value = unbox(receiver)
        if value is NO_VALUE:
            raise self.error(f"nil pointer evaluating interface {{}}.{name}")
        if not isinstance(value, dict):
            raise self.error(f"can't evaluate field {name} in type {type_name(receiver)}")
        if has_arguments:
            raise self.error(f"{name} is not a method but has arguments")
        return box(value[name]) if name in value else NO_VALUE

    def _function(
        self,
        dot: Any,
        node: Function,
        place: Command | Function,
        arguments: Sequence[Operand],
        piped: Any,
    ) -> Any:
        self.at(node)
        callee = self.functions[node.name]
        count = len(arguments) + (piped is not NO_ARGUMENT)
        if wrong := callee.fits(count):
            raise self.error(f"wrong number of args for {node.name}: {wrong}")
        # Before the arguments are evaluated: those after the deciding one may be errors.
        if node.name in {"and", "or"}:
            return self._decide(dot, node.name, arguments, piped)
        given = [
            self._argument(dot, callee.kind(place), argument)
            for place, argument in enumerate(arguments)
        ]
        if piped is not NO_ARGUMENT:
            given.append(self._fitted(piped, callee.kind(count - 1)))
        return self._run(callee, node.name, place, given)

    def _run(self, callee: Callee, name: str, place: Command | Function, given: list[Any]) -> Any:
        try:
            return callee.run(*([self.budget] if callee.counts else []), *given)
        except CallError as error:
            # Go blames the whole call here, not the argument that was evaluated last.
            self.place = place
            raise self.error(f"error calling {name}: {error}") from None
        except BoundError:
            self.place = place
            raise

    def _decide(self, dot: Any, name: str, arguments: Sequence[Operand], piped: Any) -> Any:
        """Return the first argument that decides ``and`` or ``or``, else the last one."""
        value: Any = NO_VALUE
        for argument in arguments:
            value = self._argument(dot, "value", argument)
            if truth(value) == (name == "or"):
                return value
        # A piped value is the last argument, as of any function.
        return value if piped is NO_ARGUMENT else piped

    def _argument(self, dot: Any, kind: Kind, node: Operand) -> Any:
        self.at(node)
        match node:
            case Nil():
                if kind == "string":
                    raise self.error("cannot assign nil to string")
                return NO_VALUE if kind == "value" else None
            case Dot():
                return self._fitted(dot, kind)
            case FieldNode() | VariableNode() | ChainNode():
                return self._fitted(self._fields(dot, node, False), kind)
            case PipelineNode():
                return self._fitted(self.pipeline(dot, node), kind)
            case Function():
                return self._fitted(self._function(dot, node, node, (), NO_ARGUMENT), kind)
        if kind == "string" and not isinstance(node, Quoted):
            raise self.error(f"expected string; found {node}")
        return self._plain(dot, node)

    def _fitted(self, value: Any, kind: Kind) -> Any:
        """Convert a value to an argument of a kind."""
        if kind == "value":
            return value
        if kind == "any":
            return printable(value)
        if value is NO_VALUE:
            raise self.error("invalid value; expected string")
        plain = unbox(value)
        if isinstance(plain, str):
            return plain
        name = type_name(value if plain is NO_VALUE else plain)
        raise self.error(f"wrong type for value; expected string; got {name}")
