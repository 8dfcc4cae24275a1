"""The parser of actions: pipelines, commands and operands."""

from __future__ import annotations

from collections.abc import Collection

from fairlead.api.golang.literals import (
    LiteralError,
    character,
    number,
    quote,
    unquote,
)
from fairlead.binding.expressions.gotemplate.bounds import NESTING
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
    Quoted,
    TemplateError,
    VariableNode,
)
from fairlead.binding.expressions.gotemplate.reading.lexer import LexedToken, tokens
from fairlead.binding.expressions.gotemplate.scopes import DeclaredNames


_STARTS = {
    *("bool", "char", "dot", "field", "word", "number", "nil", "raw", "string", "variable", "("),
}
_NOT_CALLED = (Bool, Dot, Nil, Number, Quoted)


class Pipelines:
    """Parses pipelines from the tokens of a text; errors have the last token's line."""

    def __init__(self, text: str, name: str, functions: Collection[str]) -> None:
        self.text = text
        self.name = name
        self.functions = functions
        self.names = DeclaredNames()
        self.started: LexedToken | None = None
        self._tokens = tokens(text)
        self._ahead: list[LexedToken] = []
        self.latest = LexedToken("text", "", 0)
        self._nesting = 0

    def next(self) -> LexedToken:
        """Return the next token."""
        if self._ahead:
            return self._ahead.pop()
        self.latest = next(self._tokens, LexedToken("eof", "EOF", len(self.text)))
        return self.latest

    def back(self, *tokens: LexedToken) -> None:
        """Push tokens back, to be returned again in this order."""
        self._ahead += reversed(tokens)

    def peek(self) -> LexedToken:
        """Return the next token without consuming it."""
        token = self.next()
        self.back(token)
        return token

    def next_word(self) -> LexedToken:
        """Return the next token that is not a space."""
        while (token := self.next()).kind == "space":
            pass
        return token

    def peek_word(self) -> LexedToken:
        """Return the next token that is not a space without consuming it, but skip spaces."""
        token = self.next_word()
        self.back(token)
        return token

    def expect(self, kind: str, context: str) -> None:
        """Consume a token of a kind.

        Raises:
            TemplateError: the token is of another kind.
        """
        if (token := self.next_word()).kind != kind:
            raise self.unexpected(token, context)

    def error(self, text: str) -> TemplateError:
        """Return an error in the line of the last token, in Go's form."""
        return TemplateError(f"template: {self.name}:{self._line(self.latest)}: {text}")

    def _line(self, token: LexedToken) -> int:
        return self.text.count("\n", 0, token.position) + 1

    def unexpected(self, token: LexedToken, context: str) -> TemplateError:
        """Return the error for an unexpected token or an error token."""
        if token.kind != "error":
            return self.error(f"unexpected {token} in {context}")
        text = token.text
        if self.started and (line := self._line(self.started)) != self._line(token):
            text += "" if text.endswith(" action") else " in action"
            text += f" started at {self.name}:{line}"
        return self.error(text)

    def pipeline(self, context: str, end: str) -> PipelineNode:
        """Parse a pipeline up to its end token.

        Raises:
            TemplateError: the pipeline is invalid.
        """
        position = self.peek_word().position
        variables, assigns = self._declarations(context)
        commands: list[Command] = []
        while (token := self.next_word()).kind != end:
            if token.kind not in _STARTS:
                raise self.unexpected(token, context)
            self.back(token)
            commands.append(self._command())
        self._check(commands, context)
        return PipelineNode(position, tuple(commands), variables, assigns)

    def _check(self, commands: list[Command], context: str) -> None:
        if not commands:
            raise self.error(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            # It would drop the piped value. The first command takes none, and may be any operand.
            if isinstance(command.words[0], _NOT_CALLED):
                raise self.error(f"non executable command in pipeline stage {stage}")

    def _declarations(self, context: str) -> tuple[tuple[VariableNode, ...], bool]:
        """Parse the variables before ``:=`` or ``=``, and whether they are only assigned."""
        variables: list[VariableNode] = []
        while (token := self.peek_word()).kind == "variable":
            self.next()
            after = self.peek()
            following = self.peek_word()
            is_comma = (following.kind, following.text) == ("mark", ",")
            if following.kind not in {"assign", "declare"} and not is_comma:
                # A space separates operands, so it is pushed back, too.
                self.back(token, *([after] if after.kind == "space" else []))
                break
            self.next_word()
            variables.append(VariableNode(token.position, token.text))
            # Go declares names that are only assigned, too: an unknown one fails when the template
            # runs.
            self.names.declare(token.text)
            if not is_comma:
                return tuple(variables), following.kind == "assign"
            self._check_second(context, len(variables))
        return tuple(variables), False

    def _check_second(self, context: str, count: int) -> None:
        if context != "range" or count > 1:
            raise self.error(f"too many declarations in {context}")
        if self.peek_word().kind not in {"variable", "right", ")"}:
            raise self.error("range can only initialize variables")

    def _command(self) -> Command:
        position = self.peek_word().position
        words: list[Operand] = []
        while True:
            if (operand := self._operand()) is not None:
                words.append(operand)
            token = self.next()
            if token.kind == "space":
                continue
            if token.kind in {"right", ")"}:
                self.back(token)
            elif token.kind != "pipe":
                raise self.unexpected(token, "operand")
            break
        if not words:
            raise self.error("empty command")
        return Command(position, tuple(words))

    def _operand(self) -> Operand | None:
        node = self._term()
        if node is None or self.peek().kind != "field":
            return node
        position = self.peek().position
        names: list[str] = []
        while self.peek().kind == "field":
            names.append(self.next().text[1:])
        match node:
            case FieldNode():
                return FieldNode(position, (*node.names, *names))
            case VariableNode():
                return VariableNode(position, node.name, tuple(names))
            case Function() | PipelineNode():
                return ChainNode(position, node, tuple(names))
        raise self.error(f"unexpected . after term {quote(str(node))}")

    def _term(self) -> Operand | None:
        token = self.next_word()
        position, text = token.position, token.text
        match token.kind:
            case "word":
                if text not in self.functions:
                    raise self.error(f'function "{text}" not defined')
                return Function(position, text)
            case "dot":
                return Dot(position)
            case "nil":
                return Nil(position)
            case "variable":
                if text not in self.names:
                    raise self.error(f'undefined variable "{text}"')
                return VariableNode(position, text)
            case "field":
                return FieldNode(position, (text[1:],))
            case "bool":
                return Bool(position, text == "true")
            case "number" | "char" | "string" | "raw":
                return self._literal(token)
            case "(":
                return self._parenthesized()
        self.back(token)
        return None

    def _parenthesized(self) -> PipelineNode:
        self._nesting += 1
        # Parentheses alone recurse here; blocks are kept in a list.
        if self._nesting > NESTING:
            raise self.error(f"parentheses nest deeper than {NESTING}")
        node = self.pipeline("parenthesized pipeline", ")")
        self._nesting -= 1
        return node

    def _literal(self, token: LexedToken) -> Number | Quoted:
        try:
            if token.kind == "number":
                return Number(token.position, token.text, number(token.text))
            if token.kind == "char":
                return Number(token.position, token.text, character(token.text))
            return Quoted(token.position, token.text, unquote(token.text))
        except LiteralError as error:
            raise self.error(str(error)) from None
