"""Templates: parsed once, rendered for data."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias

from fairlead.api.golang.literals import quote
from fairlead.api.golang.text import go_text
from fairlead.api.golang.values import (
    NO_VALUE,
    Int,
    box,
    joined,
    size,
    truth,
    type_name,
    well_formed,
)
from fairlead.binding.expressions.gotemplate.bounds import DEPTH, BoundError, RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.builtins import BUILTINS
from fairlead.binding.expressions.gotemplate.calling.calls import Callee
from fairlead.binding.expressions.gotemplate.evaluating import Evaluator
from fairlead.binding.expressions.gotemplate.nodes import (
    ActionNode,
    Branch,
    CallNode,
    Jump,
    Node,
    PipelineNode,
    TextNode,
)
from fairlead.binding.expressions.gotemplate.reading.parser import Templates, parse
from fairlead.binding.expressions.gotemplate.scopes import Variables


class Template:
    """A template with those that it defines; ``functions`` are added to the built-in ones.

    Raises:
        TemplateError: the template is invalid; the text is Go's.
    """

    def __init__(
        self,
        text: str,
        *,
        name: str,
        functions: Mapping[str, Callee] | None = None,
        no_value: str = "<no value>",
    ) -> None:
        self._text = text
        self._name = name
        self._no_value = no_value
        self._functions = {**BUILTINS, **(functions or {})}
        self._templates = parse(text, name, self._functions)

    def render(self, data: Mapping[str, Any], budget: RenderingBudget | None = None) -> str:
        """Render the template for JSON values; templates may share a budget.

        Raises:
            BoundError: a bound is exceeded.
            TemplateError: the template does not fit the data.
        """
        evaluator = Evaluator(self._text, self._name, self._functions, budget or RenderingBudget())
        rendering = _Rendering(self._templates, evaluator, self._no_value)
        try:
            return rendering.run(self._name, dict(data))
        except BoundError as error:
            raise BoundError(str(evaluator.error(str(error)))) from None


_Block: TypeAlias = Generator["_Block", str | None, str]
"""A running block: a generator that yields inner blocks, is sent their end ("", "break" or
"continue"), and returns its own; so nesting uses none of Python's stack."""


class _Rendering:
    def __init__(self, templates: Templates, evaluator: Evaluator, no_value: str) -> None:
        self.templates = templates
        self.evaluator = evaluator
        self.no_value = no_value
        self.parts: list[str] = []
        self.depth = 0

    def run(self, name: str, data: dict[str, Any]) -> str:
        self.evaluator.variables = Variables(data)
        stack = [self.block(self.templates[name], data)]
        ended: str | None = None
        while stack:
            try:
                stack.append(stack[-1].send(ended))
                ended = None
            except StopIteration as stop:
                stack.pop()
                ended = stop.value
        # Secrets and conditions are UTF-8, so that loose bytes end here.
        return well_formed(joined(self.parts))

    def block(self, nodes: list[Node], dot: Any) -> _Block:
        for node in nodes:
            match node:
                case TextNode():
                    self.write(node.text)
                case ActionNode():
                    self.action(node, dot)
                case Jump():
                    return node.word
                case CallNode():
                    yield self.call(node, dot)
                case Branch():
                    if ended := (yield self.branch(node, dot)):
                        return ended
        return ""

    def write(self, text: str) -> None:
        self.evaluator.budget.step()
        self.evaluator.budget.write(size(text))
        self.parts.append(text)

    def action(self, node: ActionNode, dot: Any) -> None:
        self.evaluator.at(node)
        value = self.evaluator.pipeline(dot, node.pipeline)
        if not node.pipeline.variables:
            self.evaluator.place = node
            # text/template prints "<no value>", html/template nothing.
            self.write(self.no_value if value is NO_VALUE else go_text(value))

    def call(self, node: CallNode, dot: Any) -> _Block:
        """Run another template, with variables of its own."""
        evaluator = self.evaluator
        evaluator.at(node)
        if node.name not in self.templates:
            raise evaluator.error(f"template {quote(node.name)} not defined")
        if self.depth == DEPTH:
            raise evaluator.error(f"exceeded maximum template depth ({DEPTH})")
        value = evaluator.pipeline(dot, node.pipeline) if node.pipeline else NO_VALUE
        outer = evaluator.name, evaluator.variables
        # A called template sees its argument as $ and the dot, and no variable of its caller.
        evaluator.name, evaluator.variables = node.name, Variables(value)
        self.depth += 1
        yield self.block(self.templates[node.name], value)
        self.depth -= 1
        evaluator.name, evaluator.variables = outer
        return ""

    def branch(self, node: Branch, dot: Any) -> _Block:
        """Run ``if``, ``with`` or ``range``, and drop its variables at the end."""
        evaluator = self.evaluator
        evaluator.at(node)
        mark = evaluator.variables.mark()
        value = evaluator.pipeline(dot, node.pipeline)
        ended: str | None = ""
        if node.word == "range":
            count, turns = self.turns(node, value)
            runs = count > 0
            if runs:
                ended = yield self.loop(node, turns)
        elif runs := truth(value):
            ended = yield self.block(node.body, value if node.word == "with" else dot)
        if not runs and node.otherwise:
            ended = yield self.block(node.otherwise, dot)
        evaluator.variables.cut(mark)
        return ended or ""

    def loop(self, node: Branch, turns: Iterable[tuple[Any, Any]]) -> _Block:
        variables = self.evaluator.variables
        mark = variables.mark()
        for index, item in turns:
            self.evaluator.budget.step()
            self.declare(node.pipeline, index, item)
            ended = yield self.block(node.body, item)
            variables.cut(mark)
            if ended == "break":
                break
        return ""

    def declare(self, pipeline: PipelineNode, index: Any, item: Any) -> None:
        """Set the variables of a ``range``: the item, or the index and the item."""
        names = pipeline.variables
        values = [item] if len(names) == 1 else [index, item]
        for place, (variable, value) in enumerate(zip(names, values, strict=False)):
            if pipeline.assigns:
                self.evaluator.assign(variable.name, value)
            else:
                # The pipeline has declared them once, with the whole value: each turn sets their
                # cells.
                self.evaluator.variables.latest(len(names) - place)[0] = value

    def turns(self, node: Branch, value: Any) -> tuple[int, Iterable[tuple[Any, Any]]]:
        """Return the number of iterations, and the index and item of each."""
        match value:
            case list():
                return len(value), ((Int(at), box(item)) for at, item in enumerate(value))
            case dict():
                self.evaluator.budget.spend(len(value))
                # Go ranges over a map in the order of its keys.
                return len(value), ((name, box(value[name])) for name in sorted(value))
            case int() if not isinstance(value, bool):
                if len(node.pipeline.variables) > 1:
                    text = f"can't use {int(value)} to iterate over more than one variable"
                    raise self.evaluator.error(text)
                of_type = type(value)
                return value, ((NO_VALUE, of_type(number)) for number in range(value))
        if value is NO_VALUE:
            return 0, ()
        # Go's message shows the value, which may be a password.
        name = type_name(value)
        raise self.evaluator.error(f"range can't iterate over a value of type {name}")
